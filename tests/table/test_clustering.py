"""Clustering of whole tables with Spark: inline and apart, beside writes; what queries read afterwards."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import SchemaError, WriteConflict
from penstock.metadata.listing import latest_slices
from penstock.table import open_table
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
    return sum(len(its) for its in latest_slices(open_table(path)).values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_clustered_after_so_many_commits_and_whatever_follows_goes_on(spark: Any, table_path: str, kind: str) -> None:
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


def test_writes_beside_a_plan_leave_its_file_groups_alone_or_are_refused(spark: Any, table_path: str) -> None:
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


def test_writes_may_be_allowed_to_change_file_groups_of_a_plan_which_is_void_then(spark: Any, table_path: str) -> None:
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


def test_a_clustering_is_only_planned_where_the_options_leave_it_to_others(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, {**BULK, "hoodie.clustering.schedule.inline": "true"})
    table = penstock.Table.open(table_path, spark)
    assert len(table.pending_clusterings()) == 1
    table.cluster(table.pending_clusterings()[0].instant)
    write(trips(spark, *MORE), table_path, {**BULK, "hoodie.clustering.async.enabled": "true"})
    assert len(table.pending_clusterings()) == 0
    write(
        trips(spark, *MORE),
        table_path,
        {**UPSERT, "hoodie.clustering.async.enabled": "true", "hoodie.clustering.async.max.commits": "2"},
    )
    assert len(table.pending_clusterings()) == 1


def test_a_column_to_sort_by_that_is_not_there_stops_the_write_before_it_begins(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, BULK)
    before = timeline(table_path)
    with pytest.raises(SchemaError, match="sort.columns names 'rider', which is not among the columns"):
        write(trips(spark, *SIX), table_path, {**UPSERT, INLINE: "true", SORT: "rider"})
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


@pytest.mark.parametrize("layout", ["linear", "zorder", "hilbert"])
def test_a_query_for_a_range_of_values_reads_fewer_row_groups_afterwards(spark: Any, table_path: str, layout: str) -> None:
    """By the statistics in the files, which Spark's reader goes by."""
    rows = spark.range(0, 40_000, 1, 4).selectExpr(
        "cast(id as string) id", "'berlin' city", "(id * 7919) % 40000 ts", "cast((id * 104729) % 40000 as double) fare"
    )
    write(rows, table_path, BULK)
    table = penstock.Table.open(table_path, spark)

    def matching(column: str) -> tuple[int, int]:
        """Row groups that may hold values of a range, and all."""
        slices = [s for its in latest_slices(open_table(table_path)).values() for s in its]
        found = [pq.ParquetFile(s.base_file.path).metadata for s in slices if s.base_file]
        groups = [file.row_group(i) for file in found for i in range(file.num_row_groups)]
        at = next(i for i in range(groups[0].num_columns) if groups[0].column(i).path_in_schema == column)
        ranges = [group.column(at).statistics for group in groups]
        return sum(one.min <= 9_000 and one.max >= 8_000 for one in ranges), len(ranges)

    assert matching("ts") == matching("fare") == (4, 4)
    size = sum(file.stat().st_size for file in base_files(table_path))
    options = {"hoodie.layout.optimize.strategy": layout, "hoodie.clustering.plan.strategy.target.file.max.bytes": size // 32}
    table.cluster(options={SORT: "ts,fare", **options})
    (ts, all_ts), (fare, all_fare) = matching("ts"), matching("fare")
    assert all_ts == all_fare >= 8
    assert ts <= all_ts * 0.5
    assert layout == "linear" or fare <= all_fare * 0.6
    query = load(spark, table_path).where("ts between 8000 and 8999")
    assert query.count() == 1_000
    assert "PushedFilters: [IsNotNull(ts), GreaterThanOrEqual(ts,8000), LessThanOrEqual(ts,8999)]" in plan_of(query)


def plan_of(frame: Any) -> str:
    """What Spark says it is going to do."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        frame.explain("formatted")
    return said.getvalue()
