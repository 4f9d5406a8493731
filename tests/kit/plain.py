"""Reads the rows, leftovers and damage of a table without Spark, for tests that look at a table thousands of times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import TableNotFound
from penstock.filegroup.slice_rows import read_merged_rows
from penstock.options import Options
from penstock.read.query import parse_query
from penstock.table.listing import list_base_slices, list_merged_slices
from penstock.table.merge_rules import build_merge_rules
from penstock.table.state import TableState, open_table, read_table_schema
from penstock.timeline.instant import State, parse_instant
from penstock.timeline.timeline import Timeline

Row = tuple[Any, ...]


def plain_rows(path: str | Path, columns: tuple[str, ...] = ("id", "city", "ts", "fare"), as_of: str | None = None) -> list[Row]:
    """Return the sorted rows of the newest slices, or as of a time; none if there is no table. Finds the table as Spark's reader does."""
    try:
        table = open_table(parse_query([str(path)], Options({})).base_path)
    except TableNotFound:
        return []
    if table.is_merge_on_read:
        return sorted(rows_of_columns(_read_merged(table, columns, as_of)), key=repr)
    files = [s.base_file for its in list_base_slices(table, as_of=as_of).values() for s in its]
    parts = [pq.ParquetFile(f.path).read(columns=list(columns), use_threads=False) for f in files if f is not None]
    return sorted(rows_of_columns(parts), key=repr)


def _read_merged(table: TableState, columns: tuple[str, ...], as_of: str | None) -> list[pa.Table]:
    schema = read_table_schema(table)
    if schema is None:
        return []
    rules = build_merge_rules(table, schema, as_of=as_of)
    slices = [s for its in list_merged_slices(table, as_of=as_of).values() for s in its]
    return [rows for s in slices for rows in read_merged_rows(table.storage, s, rules, columns)]


def rows_of_columns(parts: list[pa.Table]) -> list[Row]:
    """Return rows as tuples. Tables in tests are small."""
    return [tuple(row.values()) for part in parts for row in part.to_pylist()]


def pending(path: str | Path) -> list[str]:
    """Return the files of instants that are not completed."""
    names = [p.name for p in Path(path, ".hoodie").iterdir() if p.is_file()]
    return [i.file_name for i in Timeline.from_names(names).pending]


def orphans(path: str | Path) -> list[str]:
    """Return data files that no completed commit names, and files left in the folders for temporary files."""
    root = Path(path)
    named = {
        stat["path"]
        for file in (root / ".hoodie").iterdir()
        if (instant := parse_instant(file.name)) and instant.state is State.COMPLETED and instant.file_name.endswith("commit")
        for stats in json.loads(file.read_bytes())["partitionToWriteStats"].values()
        for stat in stats
    }
    data = {str(p.relative_to(root)) for p in root.rglob("*.parquet") if ".hoodie" not in p.relative_to(root).parts}
    return sorted([*(data - named), *leftovers(path)])


def leftovers(path: str | Path) -> list[str]:
    """Return what is left in the folders for temporary files, and next to the table."""
    root = Path(path)
    temporary = [str(p.relative_to(root)) for p in (root / ".hoodie" / ".temp").rglob("*")]
    siblings = [p.name for p in root.parent.glob(f".{root.name}.*")]
    heartbeats = [str(p.relative_to(root)) for p in (root / ".hoodie" / ".heartbeat").rglob("*")]
    return sorted([*temporary, *siblings, *heartbeats])


def damaged_metafiles(path: str | Path) -> list[str]:
    """Return partitions whose metafile does not hold what Hudi reads from it."""
    root = Path(path)
    found = root.rglob(".hoodie_partition_metadata")
    return [str(p.relative_to(root)) for p in found if b"partitionDepth=1\n" not in p.read_bytes()]
