"""Damaged log files: what a crashed append left is passed over; damage of a completed write fails only queries that need it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import CorruptFile
from penstock.formats.log import encode_rollback_block
from tests.kit.templates import Templates
from tests.table.tables import OPERATION, SIX, TRIPS, Trip, load, snapshot, sorted_rows, trips, write

MOR = {**TRIPS, "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
CHANGES: tuple[Trip, ...] = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5))
CHANGED = sorted([*CHANGES, *(row for row in SIX if row[0] not in ("a", "c"))], key=repr)
#: What a crashed append may leave behind the last whole block: a whole block of a write that never completed, and its beginnings.
BLOCK = encode_rollback_block(instant="20200101000000000", target_instant="20190101000000000")
TAILS = {"a magic": BLOCK[:6], "a front": BLOCK[:14], "a header": BLOCK[:-20], "zeros": bytes(512), "noise": b"\xa5" * 40}


@pytest.fixture
def path(spark: Any, table_path: str, templates: Templates) -> str:
    """A table whose partitions berlin and paris have a base file and a log each."""

    def build(at: str) -> None:
        write(trips(spark, *SIX), at, {**MOR, OPERATION: "upsert"})
        upsert(spark, at, *CHANGES)

    return templates.copy("logs-in-two-partitions", build, table_path)


def upsert(spark: Any, path: str, *rows: Trip, **options: str) -> None:
    write(trips(spark, *rows), path, {**MOR, OPERATION: "upsert", **options})


def log_of(path: str, city: str) -> Path:
    """Return the only log file of a partition."""
    (log,) = Path(path, city).glob(".*.log.*[0-9]")
    return log


def damage(log: Path) -> None:
    """Overwrite the end of the log, so that its last block is not whole."""
    content = log.read_bytes()
    log.write_bytes(content[:-30] + b"\xa5" * 30)


# --- what a crashed append left


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_bytes_behind_the_recorded_size_are_passed_over_by_queries_writers_and_compaction(
    spark: Any, path: str, tail: bytes
) -> None:
    for city in ("berlin", "paris"):
        log = log_of(path, city)
        log.write_bytes(log.read_bytes() + tail)
    assert snapshot(spark, path) == CHANGED
    upsert(spark, path, ("b", "berlin", 20, 20.5))
    expected = sorted([("b", "berlin", 20, 20.5), *(row for row in CHANGED if row[0] != "b")], key=repr)
    assert snapshot(spark, path) == expected
    assert penstock.Table.open(path, spark).compact()
    assert snapshot(spark, path, **{"hoodie.datasource.query.type": "read_optimized"}) == expected


# --- damage of a completed write


def test_a_query_of_other_partitions_goes_on(spark: Any, path: str) -> None:
    damage(log_of(path, "berlin"))
    with pytest.warns(RuntimeWarning, match="a query that reads partition 'berlin' of .* fails: .*it is damaged"):
        frame = load(spark, path)
    others = [row for row in CHANGED if row[1] != "berlin"]
    columns = ("id", "city", "ts", "fare")
    assert sorted_rows(frame.where("city <> 'berlin'").select(*columns)) == others
    assert sorted_rows(frame.where("city = 'paris' and fare > 9").select("id")) == [("c",)]
    assert frame.where("_hoodie_partition_path = 'tokyo'").count() == 2
    assert sorted_rows(load(spark, f"{path}/paris").select("id")) == [("c",), ("d",)]
    with pytest.raises(Exception, match="it is damaged, and write .* had completed it"):
        frame.collect()
    with pytest.raises(Exception, match="it is damaged, and write .* had completed it"):
        frame.where("city = 'berlin'").count()
    with pytest.raises(CorruptFile, match="it is damaged, and write .* had completed it"):
        load(spark, f"{path}/berlin")
