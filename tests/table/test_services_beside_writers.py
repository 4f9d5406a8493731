"""Table services next to a writer of the same file groups: who yields, by the strategies of conflicts and of clustering."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import WriteConflict
from tests.table.tables import SIX, TRIPS, snapshot, trips, write

PREFER_WRITER = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
SIMPLE = "org.apache.hudi.client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy"
STRATEGY = "hoodie.write.lock.conflict.resolution.strategy"
UPDATES = "hoodie.clustering.updates.strategy"
REJECT = "org.apache.hudi.client.clustering.update.strategy.SparkRejectUpdateStrategy"
ALLOW = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
SEVERAL = {
    **TRIPS,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "storage",
    UPDATES: ALLOW,
}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
BERLIN = ("a", "berlin", 9, 9.5)


@pytest.fixture
def upsert_while(spark: Any, table_path: str) -> Callable[..., penstock.Commit]:
    """Return a function that upserts a row of berlin, and calls another function right before the commit."""

    def upsert(action: Callable[[], object], **options: Any) -> penstock.Commit:
        actions = [action]

        @penstock.validator("before_commit")
        def act(preview: Any) -> None:
            while actions:
                actions.pop()()

        given = {**SEVERAL, **options, "hoodie.precommit.validators": "before_commit"}
        return penstock.Table.open(table_path, spark).upsert(trips(spark, BERLIN), given)

    return upsert


def pending_instant(plan: Any) -> str:
    """Return the instant of a plan that was made."""
    assert plan is not None
    return str(plan.instant)


def fare(spark: Any, table_path: str) -> float:
    """Return the fare of the row that is upserted."""
    return float({row[0]: row[3] for row in snapshot(spark, table_path)}["a"])


def test_a_clustering_gives_way_to_a_writer_and_runs_when_the_writer_is_done(
    spark: Any, table_path: str, upsert_while: Callable[..., penstock.Commit]
) -> None:
    write(trips(spark, *SIX), table_path, SEVERAL)
    table = penstock.Table.open(table_path, spark, {**SEVERAL, STRATEGY: PREFER_WRITER})
    planned = pending_instant(table.schedule_clustering())
    runs: list[Any] = []
    commit = upsert_while(lambda: runs.append(table.cluster(planned)), **{"hoodie.write.num.retries.on.conflict.failures": "0"})
    assert (list(runs[0]), commit.conflicts) == ([], 0)
    assert [plan.instant for plan in table.pending_clusterings()] == [planned]
    with pytest.raises(WriteConflict, match="unschedule that clustering and plan another"):
        table.cluster(planned)
    table.unschedule_clustering(planned)
    assert [done.operation for done in table.cluster()] == ["cluster"]
    assert fare(spark, table_path) == 9.5


def test_without_that_strategy_the_writer_runs_again_after_the_clustering(
    spark: Any, table_path: str, upsert_while: Callable[..., penstock.Commit]
) -> None:
    write(trips(spark, *SIX), table_path, SEVERAL)
    table = penstock.Table.open(table_path, spark, {**SEVERAL, STRATEGY: SIMPLE})
    planned = pending_instant(table.schedule_clustering())
    runs: list[Any] = []
    commit = upsert_while(lambda: runs.append(table.cluster(planned)), **{"hoodie.write.num.retries.on.conflict.failures": "3"})
    assert [done.operation for done in runs[0]] == ["cluster"]
    assert commit.conflicts == 1
    assert "after 1 conflict" in repr(commit)
    stages = json.loads(
        json.loads(Path(table_path, ".hoodie", f"{commit.instant}.commit").read_text())["extraMetadata"]["penstock.stages"]
    )
    assert f"lost to cluster {planned}" in stages["conflicts"][0]
    assert stages["lock"]["seconds"] == commit.lock_wait_seconds
    assert commit.lock_held_seconds is not None
    assert 0 < commit.lock_held_seconds < 60
    assert fare(spark, table_path) == 9.5


@pytest.mark.parametrize("kind", [{}, MERGE_ON_READ], ids=["clustering", "compaction"])
def test_a_plan_leaves_out_the_file_groups_of_a_writer(
    spark: Any, table_path: str, upsert_while: Callable[..., penstock.Commit], kind: dict[str, str]
) -> None:
    write(trips(spark, *SIX), table_path, {**SEVERAL, **kind})
    if kind:
        write(trips(spark, *SIX), table_path, {**SEVERAL, **kind})  # logs, which a compaction merges
    table = penstock.Table.open(table_path, spark, {**SEVERAL, **kind, STRATEGY: PREFER_WRITER})
    retries = {"hoodie.write.num.retries.on.conflict.failures": "0"}
    if kind:
        commit = upsert_while(lambda: table.schedule_compaction(), **kind, **retries)
        assert [plan.file_groups for plan in table.pending_compactions()] == [2]
        table.compact()
    else:
        commit = upsert_while(lambda: table.schedule_clustering(), **retries)
        assert [plan.file_groups for plan in table.pending_clusterings()] == [2]
        table.cluster()
    assert commit.conflicts == 0
    assert fare(spark, table_path) == 9.5


@pytest.mark.parametrize("strategy", [SIMPLE, PREFER_WRITER])
@pytest.mark.parametrize("updates", [REJECT, ALLOW])
def test_an_update_of_a_planned_file_group_is_rejected_or_allowed(
    spark: Any, table_path: str, strategy: str, updates: str
) -> None:
    options = {**SEVERAL, STRATEGY: strategy, UPDATES: updates, "hoodie.write.num.retries.on.conflict.failures": "1"}
    write(trips(spark, *SIX), table_path, options)
    table = penstock.Table.open(table_path, spark, options)
    planned = pending_instant(table.schedule_clustering())
    if updates == REJECT:
        with pytest.raises(WriteConflict, match="Not allowed to update the clustering file group") as raised:
            table.upsert(trips(spark, BERLIN))
        assert raised.value.other_instant == planned
        table.upsert(trips(spark, ("new", "oslo", 1, 0.5)))  # new rows go elsewhere
        assert [done.operation for done in table.cluster(planned)] == ["cluster"]
        assert fare(spark, table_path) == 1.5
    else:
        table.upsert(trips(spark, BERLIN))
        with pytest.raises(WriteConflict, match="unschedule that clustering and plan another"):
            table.cluster(planned)
        assert fare(spark, table_path) == 9.5


def test_lock_metrics_have_hudis_names(spark: Any, table_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = {"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "CONSOLE", "hoodie.metrics.lock.enable": "true"}
    write(trips(spark, *SIX), table_path, {**SEVERAL, **metrics})
    found = dict(line.split(" = ") for line in capsys.readouterr().out.splitlines() if line.startswith("trips."))
    assert found["trips.lock.acquire.attempts"] == found["trips.lock.acquire.success"] == "1"
    assert found["trips.lock.acquire.failure"] == found["trips.counter.conflict_resolution.failure"] == "0"
    assert float(found["trips.lock.request.latency"]) >= 0
    assert float(found["trips.lock.acquire.duration"]) >= 0
