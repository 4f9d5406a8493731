"""Merge-on-read tables that real Hudi writes: after every step Penstock reads both views and every earlier time as Hudi does.

Histories are random but always the same. Penstock needs no Spark: slices are listed and merged in this process.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.filegroup.slice_rows import read_merged_rows
from penstock.formats.log import LogBlock, scan_blocks
from penstock.table.listing import list_base_slices, list_merged_slices
from penstock.table.merge_rules import build_merge_rules
from penstock.table.state import open_table, read_table_schema
from tests.kit.oracle import Oracle

pytestmark = pytest.mark.oracle

PAYLOAD = "org.apache.hudi.common.model."
MOR = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
}
COLUMNS = ["_hoodie_commit_time", "_hoodie_record_key", "id", "city", "ts", "fare"]
CITIES = ("berlin", "paris")
QUERY, MERGE = "hoodie.datasource.query.type", "hoodie.datasource.merge.type"


def trips(chance: random.Random, count: int, *, marked: bool = False) -> pa.Table:
    """Return rows of random keys, each of one city, with small ordering values that often come in either order."""
    keys = chance.sample(range(12), count)
    columns = {
        "id": pa.array([f"k{key:02}" for key in keys]),
        "city": pa.array([CITIES[key % 2] for key in keys]),
        "ts": pa.array([chance.randrange(6) for _ in keys], pa.int64()),
        "fare": pa.array([chance.randrange(1000) / 4 for _ in keys], pa.float64()),
        "_hoodie_is_deleted": pa.array([marked and chance.random() < 0.5 for _ in keys], pa.bool_()),
    }
    return pa.table(columns)


def ours(path: str, *, as_of: str | None = None, skip_merge: bool = False, base_only: bool = False) -> list[tuple[Any, ...]]:
    table = open_table(path)
    schema = read_table_schema(table, as_of)
    assert schema is not None
    rules = build_merge_rules(table, schema, as_of=as_of, skip_merge=skip_merge)
    slices = (list_base_slices if base_only else list_merged_slices)(table, None, as_of)
    found = []
    for its in slices.values():
        for one in its:
            given = one if not base_only else type(one)(one.partition_path, one.file_id, one.base_instant, one.base_file)
            found += [row for part in read_merged_rows(table.storage, given, rules, COLUMNS) for row in tuples(part)]
    return sorted(found)


def theirs(oracle: Oracle, path: str, **options: str) -> list[tuple[Any, ...]]:
    return sorted(tuples(oracle.read(path, {"hoodie.metadata.enable": "false", **options}).select(COLUMNS)))


def tuples(table: pa.Table) -> Sequence[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def instants(path: str) -> list[str]:
    return [instant.time for instant in open_table(path).timeline.writes]


def assert_same_views(oracle: Oracle, path: str) -> None:
    assert ours(path) == theirs(oracle, path)
    assert ours(path, base_only=True) == theirs(oracle, path, **{QUERY: "read_optimized"})
    assert ours(path, skip_merge=True) == theirs(oracle, path, **{MERGE: "skip_merge"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("payload", "block_format", "seed"),
    [("OverwriteWithLatestAvroPayload", "avro", 1), ("DefaultHoodieRecordPayload", "parquet", 2)],
)
def test_a_random_history_of_hudi_is_read_as_hudi_reads_it(
    hudi015: Oracle, table_path: str, payload: str, block_format: str, seed: int
) -> None:
    chance = random.Random(seed)
    options = {
        **MOR,
        "hoodie.datasource.write.payload.class": PAYLOAD + payload,
        "hoodie.logfile.data.block.format": block_format,
    }
    hudi015.write(table_path, trips(chance, 8), {**options, "hoodie.datasource.write.operation": "bulk_insert"})
    seen = {}
    for step in range(8):
        if step == 3:
            schedule(hudi015, table_path)
        if step == 5:
            fail_last(table_path)  # the next writer rolls it back, with a command block in each log
        operation = "delete" if step in (2, 6) else "upsert"
        rows = trips(chance, 6, marked=step % 3 == 1)
        hudi015.write(table_path, rows, {**options, "hoodie.datasource.write.operation": operation})
        assert_same_views(hudi015, table_path)
        seen[instants(table_path)[-1]] = ours(table_path)
        if step == 4:
            seen.popitem()  # it is about to fail
    for instant, rows_then in seen.items():
        assert ours(table_path, as_of=instant) == rows_then
    earlier = sorted(seen)[1]
    assert ours(table_path, as_of=earlier) == theirs(hudi015, table_path, **{"as.of.instant": earlier})
    run_pending(hudi015, table_path)
    assert_same_views(hudi015, table_path)


def test_a_delete_with_the_long_zero_is_compared_like_any_other(hudi015: Oracle, table_path: str) -> None:
    def single_trip(ts: int, fare: float, deleted: bool = False) -> pa.Table:
        columns = {"id": ["k"], "city": ["berlin"], "ts": pa.array([ts], pa.int64()), "fare": [fare]}
        return pa.table({**columns, "_hoodie_is_deleted": [deleted]})

    options = {**MOR, "hoodie.datasource.write.payload.class": f"{PAYLOAD}DefaultHoodieRecordPayload"}
    hudi015.write(table_path, single_trip(1, 1.0), {**options, "hoodie.datasource.write.operation": "bulk_insert"})
    for rows in (single_trip(5, 5.0), single_trip(0, 0.0, deleted=True)):
        hudi015.write(table_path, rows, {**options, "hoodie.datasource.write.operation": "upsert"})
    kinds = [block.type.name for block in blocks_of(table_path)]
    assert kinds == ["AVRO_DATA", "DELETE"]
    assert [row[-1] for row in theirs(hudi015, table_path)] == [5.0]
    assert ours(table_path) == theirs(hudi015, table_path)


def blocks_of(path: str) -> list[LogBlock]:
    """Return the blocks of all log files, in the order of their names."""
    files = sorted(file for file in Path(path).rglob(".*.log.*_*") if file.suffix != ".crc")
    return [block for file in files for block in scan_blocks(file.read_bytes())]


def schedule(oracle: Oracle, path: str) -> None:
    compaction(oracle, "schedule", path)
    assert any(name.name.endswith(".compaction.requested") for name in (Path(path) / ".hoodie").iterdir())


def run_pending(oracle: Oracle, path: str) -> None:
    compaction(oracle, "run", path)
    assert any(name.name.endswith(".commit") for name in (Path(path) / ".hoodie").iterdir())


def compaction(oracle: Oracle, op: str, path: str) -> None:
    options = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"
    oracle.sql(f"CALL run_compaction(op => '{op}', path => '{path}', options => '{options}')")


def fail_last(path: str) -> None:
    """Turn the last delta commit into one that never completed."""
    last = Path(path) / ".hoodie" / f"{instants(path)[-1]}.deltacommit"
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
