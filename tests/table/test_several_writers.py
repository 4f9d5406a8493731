"""Several writers of one table: conflicts are found, losers run again, and wrong options are named before anything is written."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import penstock
from penstock.commit.locks import HeldLock
from penstock.errors import OptionError, StorageError, Unsupported, WriteConflict
from tests.kit.servers import free_port
from tests.table.tables import SIX, TRIPS, snapshot, state_of, trips, write

MODE = "hoodie.write.concurrency.mode"
RETRIES = "hoodie.write.num.retries.on.conflict.failures"
SEVERAL = {**TRIPS, MODE: "optimistic_concurrency_control", "penstock.lock": "storage"}
MERGE_ON_READ = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}


@pytest.mark.parametrize("kind", [{}, MERGE_ON_READ], ids=["copy-on-write", "merge-on-read"])
def test_writers_of_the_same_rows_and_of_the_same_new_key_all_succeed(spark: Any, table_path: str, kind: dict[str, str]) -> None:
    options = {
        **SEVERAL,
        **kind,
        RETRIES: "20",
        "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    }
    write(trips(spark, *SIX), table_path, options)
    errors: list[BaseException] = []
    frames = []
    for number in range(3):
        rows = [(key, city, 10 + number, float(number)) for key, city, *_ in SIX]
        frames.append(trips(spark, *rows, ("new", "oslo", 1, float(number)), (f"own{number}", "oslo", 1, 0.5)))

    def run(frame: Any) -> None:
        try:
            write(frame, table_path, options)
        except BaseException as e:  # the test looks at it
            errors.append(e)

    threads = [threading.Thread(target=run, args=(frame,)) for frame in frames]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    rows = snapshot(spark, table_path)
    assert sorted(row[0] for row in rows) == sorted([*(row[0] for row in SIX), "new", "own0", "own1", "own2"])
    assert {row[2] for row in rows if row[0] in {trip[0] for trip in SIX}} == {12}
    assert not list(Path(table_path, ".hoodie", ".heartbeat").iterdir())


def test_several_writers_need_a_lock(spark: Any, table_path: str) -> None:
    with pytest.raises(OptionError, match="no lock is set: set penstock.lock"):
        write(trips(spark, *SIX), table_path, {**TRIPS, MODE: "optimistic_concurrency_control"})
    assert not Path(table_path).exists()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"hoodie.cleaner.policy.failed.writes": "EAGER"}, "set it to LAZY"),
        ({"hoodie.index.type": "HBASE"}, "cannot be used by several writers"),
        ({"hoodie.write.lock.conflict.resolution.strategy": "com.acme.Strategy"}, "com.acme.Strategy is not supported"),
        ({"penstock.lock": "nothing"}, "which is no lock provider"),
        ({"penstock.lock": "", "hoodie.write.lock.provider": "com.acme.Lock"}, "'com.acme.Lock', which is no lock provider"),
        ({"penstock.lock": "zookeeper"}, "needs hoodie.write.lock.zookeeper.url"),
        (
            {"penstock.lock": "zookeeper", "hoodie.write.lock.zookeeper.url": "zk"},
            "needs hoodie.write.lock.zookeeper.base_path",
        ),
        ({MODE: "non_blocking_concurrency_control"}, "use OPTIMISTIC_CONCURRENCY_CONTROL"),
    ],
)
def test_a_contradiction_is_named_before_anything_is_written(
    spark: Any, table_path: str, options: dict[str, str], match: str
) -> None:
    with pytest.raises((OptionError, Unsupported), match=match):
        write(trips(spark, *SIX), table_path, {**SEVERAL, **options})
    assert not Path(table_path).exists()


@pytest.mark.parametrize("options", [{}, {"hoodie.datasource.write.operation": "bulk_insert"}], ids=["upsert", "bulk_insert"])
def test_the_hbase_index_is_refused_with_option_value_and_fix(spark: Any, table: str, options: dict[str, str]) -> None:
    before = state_of(table)
    with pytest.raises(OptionError, match="hoodie.index.type=HBASE cannot be used by several writers.*=SINGLE_WRITER"):
        write(trips(spark, SIX[0]), table, {**SEVERAL, **options, "hoodie.index.type": "HBASE"})
    assert state_of(table) == before


def test_a_lock_that_does_not_answer_stops_the_write_before_it_writes_anything(spark: Any, table: str) -> None:
    options = {
        "penstock.lock": "zookeeper",
        "hoodie.write.lock.zookeeper.url": f"127.0.0.1:{free_port()}",
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.zookeeper.connection_timeout_ms": "500",
    }
    before = state_of(table)
    with pytest.raises(StorageError, match="ZooKeeper does not answer"):
        write(trips(spark, SIX[0]), table, {**SEVERAL, **options})
    assert state_of(table) == before


def test_a_lock_that_was_lost_before_the_commit_stops_it(spark: Any, table: str) -> None:
    rows = snapshot(spark, table)
    with patch.object(HeldLock, "is_held", lambda _: False), pytest.raises(WriteConflict, match="the lock of .* was lost"):
        write(trips(spark, ("new", "oslo", 1, 0.5)), table, SEVERAL)
    assert snapshot(spark, table) == rows


def test_an_overwrite_of_the_table_is_refused_while_a_writer_is_at_work(spark: Any, table: str) -> None:
    rows = snapshot(spark, table)
    seen: list[BaseException] = []

    @penstock.validator("overwrites")
    def overwrite_in_between(preview: Any) -> None:
        try:
            write(trips(spark, SIX[0]), table, {**SEVERAL, "hoodie.datasource.write.operation": "insert"}, "overwrite")
        except WriteConflict as e:
            seen.append(e)

    write(trips(spark, ("new", "oslo", 1, 0.5)), table, {**SEVERAL, "hoodie.precommit.validators": "overwrites"})
    assert "has another writer: process" in str(seen[0])
    assert snapshot(spark, table) == sorted([*rows, ("new", "oslo", 1, 0.5)], key=repr)


def test_a_writer_that_expects_others_keeps_away_from_one_that_does_not(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path)
    table = penstock.Table.open(table_path, spark)
    seen: list[BaseException] = []

    @penstock.validator("second_writer")
    def write_in_between(preview: Any) -> None:
        try:
            write(trips(spark, SIX[0]), table_path, SEVERAL)
        except WriteConflict as e:
            seen.append(e)

    table.upsert(trips(spark, SIX[0]), {"hoodie.precommit.validators": "second_writer"})
    assert "has a writer without" in str(seen[0])
