"""Small tables for tests: rows from SQL literals (no Python worker is started for them), writes, reads, and the files of a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
ORDERING = "hoodie.datasource.write.precombine.field"
OPERATION = "hoodie.datasource.write.operation"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
NAME = "hoodie.table.name"

#: A table of trips: keyed by id, in a folder per city, later ts wins.
TRIPS = {NAME: "trips", KEY: "id", PARTITION: "city", ORDERING: "ts"}
BULK = {**TRIPS, OPERATION: "bulk_insert"}
INSERT = {**TRIPS, OPERATION: "insert"}

Trip = tuple[str | None, str | None, int, float]
SIX: tuple[Trip, ...] = (
    ("a", "berlin", 1, 1.5),
    ("b", "berlin", 2, 2.5),
    ("c", "paris", 3, 3.5),
    ("d", "paris", 4, 4.5),
    ("e", "tokyo", 5, 5.5),
    ("f", "tokyo", 6, 6.5),
)


def trips(spark: Any, *rows: Trip) -> Any:
    """Return a DataFrame of trips, evaluated in the JVM alone."""
    return values(spark, "id string, city string, ts bigint, fare double", *rows)


def values(spark: Any, columns: str, *rows: tuple[Any, ...]) -> Any:
    """Return a DataFrame of literals; `columns` is a list of names and types without commas in a type."""
    names = [part.strip().rsplit(" ", 1) for part in columns.split(",")]
    if not rows:
        nulls = ", ".join(f"cast(null as {kind}) as `{name}`" for name, kind in names)
        return spark.sql(f"select {nulls} where false")
    listed = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in rows)
    casts = ", ".join(f"cast(col{i} as {kind}) as `{name}`" for i, (name, kind) in enumerate(names, 1))
    return spark.sql(f"select {casts} from values {listed}")


def literal(value: Any) -> str:
    """Return a value as SQL; text of any characters."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "'" + "".join(c if c.isascii() and c.isalnum() else _escape(c) for c in value) + "'"
    return str(value)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def write(frame: Any, path: str, options: dict[str, Any] | None = None, mode: str = "append") -> None:
    """Save a DataFrame to a table; a bulk_insert of trips by default."""
    frame.write.format("hudi").options(**(BULK if options is None else options)).mode(mode).save(path)


def load(spark: Any, path: Any, **options: Any) -> Any:
    """Return the table as a DataFrame."""
    return spark.read.format("hudi").options(**options).load(path)


def snapshot(spark: Any, path: Any, **options: Any) -> list[tuple[Any, ...]]:
    """Return rows without meta columns, sorted."""
    frame = load(spark, path, **options)
    return sorted_rows(frame.drop(*META))


def sorted_rows(frame: Any) -> list[tuple[Any, ...]]:
    """Return rows as tuples, sorted."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def state_of(path: str | Path) -> dict[str, str]:
    """Return every file and empty folder below a path, with a hash of its content: what a refused write must not change."""
    root = Path(path)
    found = {}
    for entry in sorted(root.rglob("*")):
        name = str(entry.relative_to(root))
        if entry.is_file():
            found[name] = hashlib.sha256(entry.read_bytes()).hexdigest()
        elif not any(entry.iterdir()):
            found[name] = "folder"
    return found


def base_files(path: str | Path) -> list[Path]:
    """Return all base files, committed or not."""
    return sorted(p for p in Path(path).rglob("*.parquet") if ".hoodie" not in p.parts)


def footer(file: Path) -> dict[str, str]:
    """Return the text entries of a Parquet footer."""
    return {k.decode(): v.decode() for k, v in (pq.read_metadata(file).metadata or {}).items()}


def timeline(path: str | Path) -> list[str]:
    """Return the names of the timeline's files, sorted."""
    return sorted(p.name for p in (Path(path) / ".hoodie").iterdir() if p.name[0].isdigit())


def commits(path: str | Path) -> list[dict[str, Any]]:
    """Return the content of completed commits, oldest first."""
    names = [n for n in timeline(path) if n.endswith("commit")]
    return [json.loads((Path(path) / ".hoodie" / name).read_bytes()) for name in names]


def stats(commit: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all write stats of a commit."""
    return [stat for its in commit["partitionToWriteStats"].values() for stat in its]


def properties(path: str | Path) -> dict[str, str]:
    """Return the table's `hoodie.properties`."""
    from penstock.formats.properties import read_properties

    return read_properties((Path(path) / ".hoodie" / "hoodie.properties").read_bytes())


def spoil(files: Iterable[Path]) -> None:
    """Replace files by garbage, so that opening one fails."""
    for file in files:
        file.write_bytes(b"garbage")
