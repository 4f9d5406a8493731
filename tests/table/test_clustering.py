"""Clustering of whole tables with Spark: inline and by another process, concurrently with writes, and queries afterwards."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.cli.commands import services
from penstock.errors import SchemaError, Unsupported, WriteConflict
from penstock.formats.avro.container import read_container
from penstock.table.listing import list_base_slices
from penstock.table.state import open_table
from tests.kit.plain import pending, plain_rows
from tests.table.tables import BULK, INSERT, OPERATION, SIX, TRIPS, base_files, commits, load, snapshot, timeline, trips, write

INLINE, COMMITS = "hoodie.clustering.inline", "hoodie.clustering.inline.max.commits"
SORT = "hoodie.clustering.plan.strategy.sort.columns"
UPDATES = "hoodie.clustering.updates.strategy"
ALLOW = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
UPSERT = {**TRIPS, OPERATION: "upsert"}
MORE = tuple((f"{key}2", city, ts + 10, fare) for key, city, ts, fare in SIX)
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def of_kind(kind: str) -> dict[str, Any]:
    return {"hoodie.datasource.write.table.type": kind, "hoodie.compact.inline": "false"}


def groups(path: str) -> int:
    return sum(len(its) for its in list_base_slices(open_table(path)).values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_clustered_after_the_configured_number_of_commits_and_accepts_every_operation_afterwards(
    spark: Any, table_path: str, kind: str
) -> None:
    options = {**of_kind(kind), INLINE: "true", COMMITS: "3", SORT: "fare", "hoodie.parquet.small.file.limit": "0"}
    write(trips(spark, *SIX), table_path, {**BULK, **options})
    write(trips(spark, *MORE), table_path, {**INSERT, **options})
    assert not any("replacecommit" in name for name in timeline(table_path))
    newer = (("a", "berlin", 99, 99.5),)
    write(trips(spark, *newer), table_path, {**UPSERT, **options, "penstock.small.batch.rows": "0"})
    last = commits(table_path)[-1]
    assert (last["operationType"], groups(table_path)) == ("CLUSTER", 3)
    expected = [*newer, *SIX[1:], *MORE]
    assert snapshot(spark, table_path) == sorted(expected, key=repr)
    for file in (Path(table_path) / "berlin").glob(f"*_{timeline(table_path)[-1].split('.')[0]}.parquet"):
        fares = pq.read_table(file)["fare"].to_pylist()
        assert fares == sorted(fares)
    times = {row.id: row._hoodie_commit_time for row in load(spark, table_path).collect()}
    written = [name.split(".")[0] for name in timeline(table_path) if name.endswith((".commit", "deltacommit"))]
    assert [times[key] for key in ("b", "b2", "a")] == written
    write(trips(spark, ("a", "berlin", 100, 100.5), ("z", "paris", 1, 0.5)), table_path, {**UPSERT, **options})
    expected = [("a", "berlin", 100, 100.5), ("z", "paris", 1, 0.5), *expected[1:]]
    assert plain_rows(table_path) == sorted(expected, key=repr)
    before = timeline(table_path)[0].split(".")[0]
    assert snapshot(spark, table_path, **{"as.of.instant": before}) == sorted(SIX, key=repr)


def test_writes_during_a_pending_plan_avoid_its_file_groups_or_are_refused(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, BULK)
    table = penstock.Table.open(table_path, spark)
    plan = table.schedule_clustering(options={SORT: "ts"})
    assert plan is not None
    assert (plan.state, plan.file_groups, plan.sort_columns) == ("requested", groups(table_path), "ts")
    new = ("n", "berlin", 1, 0.5)
    for options in (INSERT, UPSERT):  # neither fills the small files of the plan
        before = set(base_files(table_path))
        write(trips(spark, new), table_path, options)
        ids = {file.name.split("_")[0] for file in set(base_files(table_path)) - before}
        assert len(ids) == 1
        new = ("m", "berlin", 1, 0.5)
    rows, state = snapshot(spark, table_path), timeline(table_path)
    for operation in ("upsert", "delete", "insert_overwrite"):
        with pytest.raises(WriteConflict, match="Not allowed to update the clustering file group|clustering .* is pending"):
            write(trips(spark, ("a", "berlin", 9, 9.5)), table_path, {**TRIPS, OPERATION: operation})
        assert (snapshot(spark, table_path), timeline(table_path)) == (rows, state)
    (done,) = table.cluster(plan.instant)
    assert done.operation == "cluster"
    assert snapshot(spark, table_path) == rows
    write(trips(spark, ("a", "berlin", 9, 9.5)), table_path, UPSERT)
    assert ("a", "berlin", 9, 9.5) in snapshot(spark, table_path)


def test_writes_that_may_change_file_groups_of_a_plan_invalidate_the_plan(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, BULK)
    table = penstock.Table.open(table_path, spark)
    plan = table.schedule_clustering()
    assert plan is not None
    allow = {**UPSERT, UPDATES: ALLOW}
    write(trips(spark, ("a", "berlin", 9, 9.5)), table_path, allow)
    with pytest.raises(WriteConflict, match="since clustering .* was planned; unschedule that clustering"):
        table.cluster()
    table.unschedule_clustering(plan.instant)
    assert table.schedule_clustering() is not None
    away = "hoodie.clustering.rollback.pending.replacecommit.on.conflict"
    write(trips(spark, ("a", "berlin", 10, 10.5)), table_path, {**allow, away: "true"})
    assert pending(table_path) == []
    table.cluster()
    assert snapshot(spark, table_path) == sorted([("a", "berlin", 10, 10.5), *SIX[1:]], key=repr)


def test_another_process_may_run_plans_and_schedule_new_ones(
    spark: Any, table_path: str, session_kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(trips(spark, *SIX), table_path)
    write(trips(spark, *SIX), table_path, {**BULK, "hoodie.clustering.schedule.inline": "true"}, mode="overwrite")
    table = penstock.Table.open(table_path, spark)
    (waiting,) = table.pending_clusterings()
    plan = read_container((Path(table_path) / ".hoodie" / f"{waiting.instant}.replacecommit.requested").read_bytes())
    named = [one["dataFilePath"] for group in plan["clusteringPlan"]["inputGroups"] for one in group["slices"]]
    assert sorted(named) == [str(file) for file in base_files(table_path)]  # where they are when the overwrite is done
    (pending_,) = [one for one in table.health() if one.measure == "pending"]
    assert (pending_.value, "run cluster()" in pending_.suggestion) == ("1 clustering", True)
    assert [(run.service, run.done) for run in table.run_due()][2:] == [("cluster", "1 plans run")]
    leave = {"hoodie.clustering.async.enabled": "true", "hoodie.clustering.async.max.commits": "2"}
    write(trips(spark, *MORE), table_path, {**BULK, **leave})
    assert [(run.service, run.done) for run in table.run_due(leave)][2:] == [("cluster", None)]
    write(trips(spark, *MORE), table_path, {**UPSERT, **leave})
    assert len(table.pending_clusterings()) == 0
    if session_kind == "classic":
        monkeypatch.setattr(services.signal, "signal", lambda *_: None)
        with pytest.raises(SystemExit, match="0"):
            services.run(table_path, once=True, interval=1.0, option=[f"{key}={value}" for key, value in leave.items()])
        assert "cluster: 1 plans run" in capsys.readouterr().out
    else:
        table.run_due(leave)
    assert sum(entry.operation == "cluster" for entry in table.history()) == 2
    assert snapshot(spark, table_path) == sorted([*SIX, *MORE], key=repr)


def test_time_travel_reads_replaced_files_until_they_are_cleaned_and_rows_keep_their_commit_time(
    spark: Any, table_path: str
) -> None:
    options = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    write(trips(spark, *SIX), table_path, {**BULK, **options})
    write(trips(spark, *MORE), table_path, {**INSERT, **options})
    table = penstock.Table.open(table_path, spark)
    first, second = (entry.instant for entry in reversed(table.history()))
    (done,) = table.cluster(options={SORT: "fare"})
    old = {file.name for file in base_files(table_path) if not file.name.endswith(f"_{done.instant}.parquet")}
    assert load(spark, table_path).where(f"_hoodie_commit_time > '{second}'").count() == 0  # as an incremental query asks
    assert load(spark, table_path).where(f"_hoodie_commit_time > '{first}'").count() == 6
    keep = {"hoodie.cleaner.commits.retained": "1"}
    assert table.clean(keep) is None  # the commit before the clustering is kept
    assert snapshot(spark, table_path, **{"as.of.instant": second}) == sorted([*SIX, *MORE], key=repr)
    for number in (1, 2):
        write(trips(spark, ("n", "oslo", number, 0.5)), table_path, {**UPSERT, **options})
    cleaned = table.clean(keep)
    assert cleaned is not None
    assert not old & {file.name for file in base_files(table_path)}
    assert snapshot(spark, table_path) == sorted([*SIX, *MORE, ("n", "oslo", 2, 0.5)], key=repr)


def test_a_missing_sort_column_stops_the_write_before_it_begins(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, BULK)
    before = timeline(table_path)
    with pytest.raises(SchemaError, match="sort.columns names 'rider', which is not among the columns"):
        write(trips(spark, *SIX), table_path, {**UPSERT, INLINE: "true", SORT: "rider"})
    assert timeline(table_path) == before


def test_a_table_with_buckets_is_not_clustered(spark: Any, table_path: str) -> None:
    buckets = {**UPSERT, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    write(trips(spark, *SIX), table_path, buckets)
    before = timeline(table_path)
    with pytest.raises(Unsupported, match="has buckets"):
        write(trips(spark, *SIX), table_path, {**buckets, INLINE: "true"})
    with pytest.raises(Unsupported, match="has buckets"):
        penstock.Table.open(table_path, spark).cluster()
    assert timeline(table_path) == before


def test_a_clustering_that_fails_does_not_undo_the_write(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, {**BULK, "hoodie.clustering.schedule.inline": "true"})
    next((Path(table_path) / "paris").glob("*.parquet")).rename(f"{table_path}/away")
    options = {**INSERT, INLINE: "true", "hoodie.fail.writes.on.inline.table.service.exception": "false"}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        write(trips(spark, ("n", "tokyo", 1, 0.5)), table_path, options)
    assert any("the clustering after it failed" in str(one.message) for one in said)
    assert sum(one["operationType"] == "INSERT" for one in commits(table_path)) == 1


@pytest.mark.parametrize("layout", ["linear", "hilbert"])
def test_a_query_for_a_range_of_values_reads_fewer_files_afterwards(
    spark: Any, table_path: str, layout: str, session_kind: str
) -> None:
    """By the statistics in the files, which Spark's reader goes by; the rows that it reads before the filter are counted."""
    rows = spark.range(0, 40_000, 1, 4).selectExpr(
        "cast(id as string) id", "'berlin' city", "(id * 7919) % 40000 ts", "cast((id * 104729) % 40000 as double) fare"
    )
    write(rows, table_path, BULK)
    table = penstock.Table.open(table_path, spark)

    def matching(column: str) -> tuple[int, int, int]:
        """Return the files that may hold values of a range, the rows of their matching row groups, and all files."""
        slices = [s for its in list_base_slices(open_table(table_path)).values() for s in its]
        found = [pq.ParquetFile(s.base_file.path).metadata for s in slices if s.base_file]
        at = next(i for i in range(found[0].num_columns) if found[0].row_group(0).column(i).path_in_schema == column)
        groups = [[file.row_group(number) for number in range(file.num_row_groups)] for file in found]
        ranges = [[(group.column(at).statistics, group.num_rows) for group in its] for its in groups]
        read = [sum(rows for one, rows in its if one.min <= 8_999 and one.max >= 8_000) for its in ranges]
        return sum(rows > 0 for rows in read), sum(read), len(read)

    def query(column: str) -> int | None:
        """Query the range. Return how many rows Spark read for it."""
        frame = load(spark, table_path).where(f"{column} between 8000 and 8999").select("id")
        assert len(frame.collect()) == 1_000
        if session_kind != "classic":
            return None
        leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
        return int(leaves.apply(0).metrics().apply("numOutputRows").value())

    assert matching("ts") == matching("fare") == (4, 40_000, 4)
    assert query("ts") in (40_000, None)
    size = sum(file.stat().st_size for file in base_files(table_path))
    options = {"hoodie.layout.optimize.strategy": layout, "hoodie.clustering.plan.strategy.target.file.max.bytes": size // 32}
    table.cluster(options={SORT: "ts,fare", **options})
    for column, share in (("ts", 0.5), *((("fare", 0.6),) if layout != "linear" else ())):
        few, their_rows, files = matching(column)
        assert files >= 8
        assert few <= files * share
        assert (query(column) or 0) <= their_rows <= 40_000 * (share + 0.1)
