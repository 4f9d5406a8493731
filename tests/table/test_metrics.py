"""Metrics of real writes and table services."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.commit.locks import LockContext, LockProvider, acquire, make_lock
from penstock.hooks import HOOKS, Hook, PendingCommit
from penstock.options import read_options
from penstock.table.state import open_table
from tests.table.tables import BULK, SIX, TRIPS, trips, write


def test_writes_compactions_and_cleans_report_what_they_did(
    spark: Any, table_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    console = {"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "CONSOLE"}
    options = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false", **console}
    write(trips(spark, *SIX).coalesce(1), table_path, BULK | options)
    table = penstock.Table.open(table_path, spark, options)
    commit = table.upsert(trips(spark, ("a", "berlin", 9, 9.5), ("n", "oslo", 1, 0.5)))
    assert [step.name for step in commit.follow_ups][-1] == "metrics"
    table.compact()
    table.clean({"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": "1"})
    found = dict(line.split(" = ") for line in capsys.readouterr().out.splitlines() if line.startswith("trips."))
    assert found["trips.deltacommit.totalInsertRecordsWritten"] == "1"
    assert found["trips.deltacommit.totalUpdateRecordsWritten"] == "1"
    assert float(found["trips.deltacommit.duration"]) > 0
    assert float(found["trips.index.UPSERT.duration"]) >= 0
    assert found["trips.compaction.totalLogFilesCompacted"] == "1"
    assert int(found["trips.clean.numFilesDeleted"]) > 0
    assert found["trips.finalize.numFilesFinalized"] == "1"  # of the compaction
    assert found["trips.index.type"] == "4"  # SIMPLE
    assert float(found["trips.source_read_and_index.duration.duration"]) >= 0
    assert found["trips.counter.compaction.requested"] == found["trips.counter.compaction.completed"] == "1"


def test_a_lost_conflict_and_a_lock_that_another_writer_holds_are_counted(
    spark: Any, table_path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    several = {
        **TRIPS,
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "penstock.lock": "storage",
        "hoodie.write.num.retries.on.conflict.failures": "1",
        "hoodie.write.lock.client.num_retries": "1",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "1",
        "hoodie.write.lock.wait_time_ms": "1",
    }
    write(trips(spark, *SIX).coalesce(1), table_path, {**BULK, **several})
    others: list[LockProvider] = []

    class Others(Hook):
        """Another writer, which commits before the first attempt of the write and holds the lock before the second."""

        def before_commit(self, commit: PendingCommit) -> None:
            if not others:
                table = open_table(table_path, read_options(several))
                others.append(make_lock(LockContext(table.base_path, "trips", table.options, table.storage)))
                write(
                    trips(spark, ("a", "berlin", 8, 8.5)).coalesce(1),
                    table_path,
                    {**several},
                )
            else:
                assert others[0].acquire(timeout_s=60)

    def release(wait_s: float) -> float:
        """Release the lock between two attempts, and return a pause of 0 seconds."""
        others[0].release()
        return 0.0

    monkeypatch.setitem(HOOKS, "others", lambda context: Others())
    monkeypatch.setattr(acquire, "jitter", release)
    console = {"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "CONSOLE"}
    write(trips(spark, ("a", "berlin", 9, 9.5)).coalesce(1), table_path, {**several, **console})
    found = dict(line.split(" = ") for line in capsys.readouterr().out.splitlines() if line.startswith("trips."))
    assert found["trips.counter.conflict_resolution.failure"] == "1"
    assert found["trips.counter.conflict_resolution.success"] == "1"
    assert (found["trips.lock.acquire.attempts"], found["trips.lock.acquire.failure"]) == ("2", "1")
