"""Helpers for tests of upserts, deletes and indexes: options, rows that may be deletes, and the content of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock.table.listing import list_base_slices
from penstock.table.state import open_table
from tests.kit.model import Row
from tests.table.tables import OPERATION, TRIPS, stats, timeline, values

UPSERT = {**TRIPS, OPERATION: "upsert"}
DELETE = {**TRIPS, OPERATION: "delete"}
INDEX = "hoodie.index.type"
PAYLOAD = "hoodie.datasource.write.payload.class"
DEFAULT_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
EMPTY_PAYLOAD = "org.apache.hudi.common.model.EmptyHoodieRecordPayload"
MOVES = {
    "GLOBAL_SIMPLE": "hoodie.simple.index.update.partition.path",
    "GLOBAL_BLOOM": "hoodie.bloom.index.update.partition.path",
}
INDEXES = ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM")
#: The same work on the driver, or in Spark's tasks.
ON_DRIVER: dict[str, Any] = {}
IN_TASKS: dict[str, Any] = {"penstock.small.batch.rows": 0}
#: One file group a partition, or groups of two rows.
ONE_GROUP: dict[str, Any] = {}
MANY_GROUPS: dict[str, Any] = {
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.copyonwrite.insert.split.size": 2,
}


def rows(spark: Any, *trips: Row) -> Any:
    """Return a DataFrame of (id, city, ts, fare, whether it is a delete)."""
    return values(spark, "id string, city string, ts bigint, fare double, _hoodie_is_deleted boolean", *trips)


def stored(path: str | Path) -> list[dict[str, Any]]:
    """Return every row of the newest base files, with its meta columns; read without Spark and without Penstock's reader."""
    table = open_table(str(path))
    bases = [s.base_file for slices in list_base_slices(table).values() for s in slices]
    found: list[dict[str, Any]] = []
    for base in bases:
        assert base is not None
        found += pq.ParquetFile(base.path).read().to_pylist()
    return found


def columns(path: str | Path, *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of every row, sorted."""
    return sorted((tuple(row[n] for n in names) for row in stored(path)), key=repr)


def counts(commit: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return (partition, numWrites, numUpdateWrites, numDeletes, numInserts) of each file, sorted."""
    names = ("numWrites", "numUpdateWrites", "numDeletes", "numInserts")
    return sorted((s["partitionPath"], *(s[n] for n in names)) for s in stats(commit))


def inflight(path: str | Path) -> dict[str, Any]:
    """Return the workload profile of the newest write."""
    name = [n for n in timeline(path) if n.endswith(".inflight")][-1]
    found: dict[str, Any] = json.loads((Path(path) / ".hoodie" / name).read_bytes())
    return found
