"""One table, several engines: the same interface for writes and reads of each, and checks that all see the same rows and files.

Both engines get rows as Parquet files, so that none gets them in a form of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from tests.kit.oracle import Oracle
from tests.kit.readers import hudi_rs_base_files, hudi_rs_rows, normalise
from tests.table.tables import properties

KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
ORDERING = "hoodie.datasource.write.precombine.field"
OPERATION = "hoodie.datasource.write.operation"
GENERATOR = "hoodie.datasource.write.keygenerator.class"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
INDEX = "hoodie.index.type"
NAME = "hoodie.table.name"
METADATA_PARTITIONS = "hoodie.table.metadata.partitions"

TRIPS_AND_METADATA = {NAME: "trips", KEY: "id", PARTITION: "city", ORDERING: "ts"}
#: For tests that do not look at Hudi's metadata table, which is almost half of its work for a small write.
TRIPS = {**TRIPS_AND_METADATA, "hoodie.metadata.enable": "false"}
#: Filters sized for a handful of rows: they grow while keys are added, and a file stays small.
SMALL_FILTERS = {"hoodie.index.bloom.num_entries": "4", "hoodie.bloom.index.filter.dynamic.max.entries": "16"}

#: The columns of a trip; and with one that says whether it is a delete.
TRIP = pa.schema({"id": pa.string(), "city": pa.string(), "ts": pa.int64(), "fare": pa.float64()})
DELETABLE = TRIP.append(pa.field("_hoodie_is_deleted", pa.bool_()))

Options = Mapping[str, Any]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Penstock:
    """Penstock with the methods of the oracle."""

    spark: Any
    folder: Path

    def write(self, path: str | Path, rows: pa.Table, options: Options, *, mode: str = "append") -> None:
        """Write rows to the table at `path`."""
        self.frame(rows).write.format("hudi").options(**texts(options)).mode(mode).save(str(path))

    def read(self, path: str | Path) -> pa.Table:
        """Return the rows of a snapshot query, meta columns included."""
        found: pa.Table = self.spark.read.format("hudi").load(str(path)).toArrow()
        return found

    def frame(self, rows: pa.Table) -> Any:
        """Return a DataFrame of these rows: in turn a read of the plain file, which workers may read themselves, and a query over it."""
        number = len(list(self.folder.iterdir()))
        file = self.folder / f"rows-{number}.parquet"
        pq.write_table(rows, file, coerce_timestamps="us", allow_truncated_timestamps=True)
        frame = self.spark.read.parquet(str(file))
        return frame.select("*") if number % 2 else frame


def texts(options: Options) -> dict[str, str]:
    """Return options as a user writes them."""
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}


def trips(*rows: Row) -> pa.Table:
    """Return trips as a table."""
    return _table_of(TRIP, rows)


def deletable_trips(*rows: Row) -> pa.Table:
    """Return trips as a table, each with a flag that says whether it is a delete."""
    return _table_of(DELETABLE, rows)


def _table_of(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    return pa.table([pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)], schema=schema)


def trips_of(table: pa.Table) -> list[Row]:
    """Return the trips of a table, sorted, as tuples."""
    return sorted(zip(*(table[name].to_pylist() for name in TRIP.names), strict=True))


def assert_rows(found: pa.Table, expected: Sequence[Mapping[str, Any]], who: str) -> None:
    """Assert that a table has these rows, in any order, and no others."""
    assert _sorted(rows_of(found)) == _sorted(expected), who


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as dictionaries, maps too: writers need not keep the order of maps."""
    rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    return rows


def _sorted(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    return sorted((_in_order(row) for row in rows), key=repr)


def _in_order(value: Any) -> Any:
    """Return the value with the entries of structs and maps sorted."""
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(each) for each in value] if isinstance(value, list) else value


def assert_same_files(path: str | Path, hudi: Oracle, *, hudi_rs: bool = True) -> None:
    """Assert that our listing, Hudi's file system view (listed, and by its metadata table if there is one) and hudi-rs name the same files."""
    ours = our_groups(path)
    if properties(path).get(METADATA_PARTITIONS):
        assert ours == hudi_groups(path, hudi, metadata=True), "by Hudi's metadata table"
    assert ours == hudi_groups(path, hudi, metadata=False), "by Hudi's listing"
    if hudi_rs:
        assert {f"{partition}/{file}".lstrip("/") for partition, _, _, file in ours} == hudi_rs_base_files(path), "by hudi-rs"


def our_groups(path: str | Path) -> set[tuple[str, str, str, str]]:
    """Return partition, file group, instant and base file of every file group, as Penstock lists them."""
    files = penstock.Table.open(path).files()
    return {(each.partition, each.file_group, each.instant, each.path.rpartition("/")[2]) for each in files}


def hudi_groups(path: str | Path, hudi: Oracle, *, metadata: bool) -> set[tuple[str, str, str, str]]:
    """Return partition, file group, instant and base file of every file group, as Hudi lists them."""
    found = hudi.file_groups(path, metadata=metadata)
    return {(each.partition, each.file_id, each.base_instant, each.base_file or "") for each in found}


def assert_all_read(
    path: str | Path, us: Penstock, *others: Oracle, hudi_rs: bool = True, meta: bool = True, unlike: Sequence[str] = ()
) -> pa.Table:
    """Assert that every reader finds the same rows with the same meta columns. Return the rows.

    Args:
        meta: the table has meta columns that are filled.
        unlike: columns that Hudi does not return as they were stored.
    """
    ours = us.read(path)
    for other in others:
        found = normalise(_without(other.read(path), unlike), meta=meta)
        assert found.to_pylist() == normalise(_without(ours, unlike), meta=meta).to_pylist(), f"Hudi {other.hudi}"
    if hudi_rs:
        assert normalise(hudi_rs_rows(path), meta=meta).to_pylist() == normalise(ours, meta=meta).to_pylist(), "hudi-rs"
    return ours


def _without(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    return table.select([name for name in table.column_names if name not in columns])


def timeline(path: str | Path) -> list[str]:
    """Return the names of the timeline's files, sorted."""
    return sorted(p.name for p in (Path(path) / ".hoodie").iterdir() if p.name[0].isdigit())


def last_commit(path: str | Path) -> str:
    """Return the instant of the newest completed commit."""
    return [name for name in timeline(path) if name.endswith(".commit")][-1].partition(".")[0]


def commit_json(path: str | Path, instant: str) -> dict[str, Any]:
    """Return the content of a commit's file."""
    content: dict[str, Any] = json.loads((Path(path) / ".hoodie" / f"{instant}.commit").read_bytes())
    return content
