"""A write that runs again after a conflict keeps the files of the partitions that no other commit has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from tests.kit.plain import orphans, pending
from tests.table.tables import BULK, META, SIX, TRIPS, Trip, commits, load, snapshot, stats, timeline, trips, write

SEVERAL = {
    **TRIPS,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "storage",
    "hoodie.write.num.retries.on.conflict.failures": "3",
    "hoodie.table.services.enabled": "false",
}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
PARQUET_LOGS = {**MERGE_ON_READ, "hoodie.logfile.data.block.format": "parquet"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
KINDS = {
    "copy-on-write": {},
    "merge-on-read": MERGE_ON_READ,
    "parquet logs": PARQUET_LOGS,
    "buckets": BUCKETS,
    "buckets of logs": {**MERGE_ON_READ, **BUCKETS},
    "collected markers": {"hoodie.write.markers.type": "TIMELINE_SERVER_BASED"},
}
#: Changes of all three partitions, a new key and a new partition.
CHANGES: tuple[Trip, ...] = (
    ("a", "berlin", 9, 9.5),
    ("c", "paris", 9, 9.5),
    ("e", "tokyo", 9, 9.5),
    ("new", "tokyo", 9, 9.5),
    ("first", "oslo", 9, 9.5),
)
UPDATES = "hoodie.clustering.updates.strategy"
ALLOW = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
DELETED = "hoodie.datasource.write.partitions.to.delete"


class Scene:
    """A table, and a write that is disturbed by others right before each of its first commits."""

    def __init__(self, spark: Any, path: str, kind: dict[str, str]) -> None:
        self.spark, self.path, self.options = spark, path, {**SEVERAL, **kind}
        write(trips(spark, *SIX), path, {**BULK, **self.options, "hoodie.datasource.write.operation": "bulk_insert"})

    def other(self, *rows: Trip, **options: str) -> Callable[[], None]:
        """Return a function that writes rows as another writer does."""
        return lambda: write(trips(self.spark, *rows), self.path, {**self.options, **options})

    def upsert(self, *others: Callable[[], object], rows: tuple[Trip, ...] = CHANGES, **options: str) -> penstock.Commit:
        """Upsert rows; before its first commit the first of `others` is called, before its second commit the second …"""
        waiting = list(others)

        @penstock.validator("before_commit")
        def act(preview: Any) -> None:
            if waiting:
                waiting.pop(0)()

        given = {**self.options, **options, "hoodie.precommit.validators": "before_commit"}
        return penstock.Table.open(self.path, self.spark).upsert(trips(self.spark, *rows), given)

    @property
    def kept(self) -> int:
        """How many files the last commit took from its first attempt."""
        return int(json.loads(commits(self.path)[-1]["extraMetadata"]["penstock.index"])["kept"])

    def check(self, rows: list[Trip]) -> None:
        """Check the rows of the table, and that nothing is left of lost attempts."""
        assert snapshot(self.spark, self.path) == sorted(rows, key=repr)
        assert (pending(self.path), orphans(self.path)) == ([], [])


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def scene(request: pytest.FixtureRequest, spark: Any, table_path: str) -> Scene:
    return Scene(spark, table_path, request.param)


def after(*writes: tuple[Trip, ...]) -> list[Trip]:
    """Return the rows after writes, one after the other."""
    rows: dict[str | None, Trip] = {}
    for trips_of_write in writes:
        rows |= {row[0]: row for row in trips_of_write}
    return list(rows.values())


def test_only_the_partition_that_another_commit_changed_is_written_again(scene: Scene) -> None:
    winner: tuple[Trip, ...] = (("a", "berlin", 5, 5.5), ("b", "berlin", 10, 10.5))
    commit = scene.upsert(scene.other(*winner))
    scene.check(after(SIX, winner, CHANGES))
    written = stats(commits(scene.path)[-1])
    redone = [stat for stat in written if stat["partitionPath"] == "berlin"]
    assert commit.conflicts == 1
    assert scene.kept == len(written) - len(redone) >= 3
    instant = commits_of(scene)[-1]
    assert all(instant in stat["path"] or ".log." in stat["path"] for stat in written)


def commits_of(scene: Scene) -> list[str]:
    """Return the instants of the completed commits."""
    return [name.split(".")[0] for name in timeline(scene.path) if name.endswith("commit")]


@pytest.mark.parametrize("kind", ["copy-on-write", "merge-on-read", "parquet logs"])
def test_kept_rows_have_the_instant_of_the_commit(spark: Any, table_path: str, kind: str) -> None:
    scene = Scene(spark, table_path, KINDS[kind])
    scene.upsert(scene.other(("b", "berlin", 10, 10.5)))
    assert scene.kept
    loaded, winner, instant = commits_of(scene)
    rows = {row["id"]: row for row in load(spark, table_path).collect()}
    times = {key: row[META[0]] for key, row in rows.items()}
    assert times == {
        "a": instant,
        "b": winner,
        "c": instant,
        "d": loaded,
        "e": instant,
        "f": loaded,
        "new": instant,
        "first": instant,
    }
    assert all(row[META[1]].startswith(f"{row[META[0]]}_") for row in rows.values())
    of_commit = [row[META[1]] for row in rows.values() if row[META[0]] == instant]
    assert len(set(of_commit)) == len(of_commit)
    files = load(spark, table_path).selectExpr("*", "_metadata.file_name as stored").collect() if kind == "copy-on-write" else []
    assert all(row[META[4]] == row["stored"] for row in files)
    changed = load(
        spark,
        table_path,
        **{"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": winner},
    )
    assert sorted(row["id"] for row in changed.collect()) == sorted(row[0] for row in CHANGES)


@pytest.mark.parametrize("kind", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize(
    ("options", "rows", "expected", "kept"),
    [
        pytest.param({}, (("new", "tokyo", 8, 8.5),), after(SIX, CHANGES), 3, id="the same new key"),
        pytest.param({}, (("z", "oslo", 8, 8.5), ("b", "berlin", 8, 8.5)), None, 2, id="a new partition"),
        pytest.param({"hoodie.datasource.write.operation": "delete"}, SIX[:2], after(SIX[2:], CHANGES), 3, id="delete"),
        pytest.param(
            {"hoodie.datasource.write.operation": "insert_overwrite"},
            (("x", "paris", 8, 8.5),),
            after(SIX[:2], SIX[4:], (("x", "paris", 8, 8.5),), CHANGES),
            3,
            id="insert_overwrite",
        ),
        pytest.param(
            {"hoodie.datasource.write.operation": "insert_overwrite_table"},
            (("x", "paris", 8, 8.5),),
            after((("x", "paris", 8, 8.5),), CHANGES),
            1,
            id="insert_overwrite_table",
        ),
        pytest.param(
            {"hoodie.datasource.write.operation": "delete_partition", DELETED: "tokyo"},
            SIX[:1],
            after(SIX[:4], CHANGES),
            3,
            id="delete_partition",
        ),
    ],
)
def test_rows_are_those_of_one_write_after_the_other(
    spark: Any,
    table_path: str,
    kind: str,
    options: dict[str, str],
    rows: tuple[Trip, ...],
    expected: list[Trip] | None,
    kept: int,
) -> None:
    scene = Scene(spark, table_path, KINDS[kind])
    commit = scene.upsert(scene.other(*rows, **options))
    assert commit.conflicts == 1
    scene.check(expected or after(SIX, rows, CHANGES))
    assert scene.kept == kept


@pytest.mark.parametrize("kind", ["copy-on-write", "merge-on-read"])
def test_after_several_conflicts_what_is_still_unchanged_is_kept(spark: Any, table_path: str, kind: str) -> None:
    scene = Scene(spark, table_path, KINDS[kind])
    winners: list[tuple[Trip, ...]] = [
        (("b", "berlin", 10, 10.5), ("a", "berlin", 5, 5.5)),
        (("d", "paris", 10, 10.5), ("c", "paris", 5, 5.5)),
        (("b", "berlin", 11, 11.5), ("a", "berlin", 6, 6.5)),
    ]
    commit = scene.upsert(*(scene.other(*winner) for winner in winners))
    assert commit.conflicts == 3
    scene.check(after(SIX, *winners, CHANGES))
    assert scene.kept == len([stat for stat in stats(commits(table_path)[-1]) if stat["partitionPath"] in ("tokyo", "oslo")])


def test_a_clustering_in_between_changes_its_partitions_only(spark: Any, table_path: str) -> None:
    scene = Scene(spark, table_path, {UPDATES: ALLOW})
    services = {"hoodie.table.services.enabled": "true", "hoodie.clustering.plan.strategy.partition.selected": "paris"}
    table = penstock.Table.open(table_path, spark, {**scene.options, **services})
    commit = scene.upsert(lambda: table.cluster())
    assert commit.conflicts == 1
    scene.check(after(SIX, CHANGES))
    assert scene.kept == len([stat for stat in stats(commits(table_path)[-1]) if stat["partitionPath"] != "paris"])


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.index.type": "GLOBAL_SIMPLE"},
        {"hoodie.write.concurrency.early.conflict.detection.enable": "true"},
    ],
    ids=["global index", "early conflict detection"],
)
def test_everything_is_written_again_where_partitions_are_not_independent(
    spark: Any, table_path: str, options: dict[str, str]
) -> None:
    scene = Scene(spark, table_path, {})
    winner: Trip = ("b", "berlin", 10, 10.5)
    scene.upsert(scene.other(winner), **options)
    scene.check(after(SIX, (winner,), CHANGES))
    assert "kept" not in json.loads(commits(table_path)[-1]["extraMetadata"]["penstock.index"])


def test_a_changed_schema_lets_the_rows_be_prepared_again(spark: Any, table_path: str) -> None:
    scene = Scene(spark, table_path, {})

    def add_column() -> None:
        frame = trips(spark, ("b", "berlin", 10, 10.5)).selectExpr("*", "1 as seats")
        write(frame, table_path, {**scene.options, "hoodie.datasource.write.reconcile.schema": "true"})

    scene.upsert(add_column, **{"hoodie.datasource.write.reconcile.schema": "true"})
    seats = {row["id"]: row["seats"] for row in load(spark, table_path).collect()}
    assert seats == {key: 1 if key == "b" else None for key in ("a", "b", "c", "d", "e", "f", "new", "first")}
    assert "kept" not in json.loads(commits(table_path)[-1]["extraMetadata"]["penstock.index"])
    assert (pending(table_path), orphans(table_path)) == ([], [])
