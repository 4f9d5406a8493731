"""Clustering plans without rows: the chosen slices, when a plan is due, and its bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import CorruptFile, OptionError, SchemaError, Unsupported
from penstock.filegroup.model import BaseFile, FileSlice, LogFile
from penstock.formats.avro.container import read_container, write_container
from penstock.options import read_options
from penstock.schema import arrow_to_avro, avro_text
from penstock.services.clustering.partition_filters import Selection, choose_partitions, selection_of
from penstock.services.clustering.plan import make_plan
from penstock.services.clustering.row_order import read_ordering
from penstock.services.clustering.service import CLUSTERING
from penstock.services.clustering.strategies import STRATEGIES, ClusteringLimits, clustering_limits, group_slices, strategy_of
from penstock.services.clustering.triggers import commits_since, is_due
from penstock.services.compaction.service import COMPACTION
from penstock.services.planned import schedule
from penstock.table.state import reload_timeline
from penstock.timeline.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    read_clustering_plan,
    write_clustering_plan,
)
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from tests.table.handmade import COLUMNS
from tests.unit.services.histories import History, at, base

REAL = Path(__file__).parents[3] / "data" / "timeline" / "20260307162454799.clustering.requested"
PATHS = ["2026/01/01", "2026/01/02", "2026/01/03", "2026/01/04", "other"]
SIZE, MODE, SINGLE = (list(STRATEGIES)[0], "hoodie.clustering.plan.partition.filter.mode", list(STRATEGIES)[3])
MIB = 1024 * 1024
LIMITS = ClusteringLimits(300, 100, 200, 30, single=True, max_file_bytes=120)


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (Selection(), PATHS),
        (Selection("RECENT_DAYS"), ["other", "2026/01/04"]),
        (Selection("RECENT_DAYS", lookback=2, skip=1), ["2026/01/04", "2026/01/03"]),
        (Selection("RECENT_DAYS", lookback=0), PATHS[::-1]),
        (Selection("SELECTED_PARTITIONS", begin="2026/01/02", end="2026/01/03"), PATHS[1:3]),
        (Selection("SELECTED_PARTITIONS", begin="2026/01/04"), PATHS[3:]),
        (Selection("SELECTED_PARTITIONS", end="2026/01/02"), PATHS[:2]),
        (Selection("DAY_ROLLING", hour=1), PATHS[1:2]),
        (Selection(pattern="2026/01/0[12]"), PATHS[:2]),
        (Selection(pattern="2026"), []),
        (Selection(named=("other", "nowhere", "2026/01/01")), ["2026/01/01", "other"]),
        (Selection("RECENT_DAYS", lookback=1, pattern="2026.*"), ["2026/01/04"]),
    ],
)
def test_the_partition_filter_chooses_partitions(selection: Selection, chosen: list[str]) -> None:
    assert choose_partitions(PATHS, selection) == chosen


def test_every_twenty_fourth_partition_has_its_hour() -> None:
    paths = [f"p{n:02}" for n in range(50)]
    assert choose_partitions(paths, Selection("DAY_ROLLING", hour=1)) == ["p01", "p25", "p49"]


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(OptionError, match=r"partition.regex.pattern='\(' is no regular expression"):
        choose_partitions(PATHS, Selection(pattern="("))


def test_older_names_of_strategies_stand_for_a_filter() -> None:
    recent = strategy_of(read_options({"hoodie.clustering.plan.strategy.class": list(STRATEGIES)[1]}))
    assert selection_of(read_options({MODE: "DAY_ROLLING"}), recent.partition_filter).mode == "RECENT_DAYS"
    with pytest.raises(Unsupported, match="SparkConsistentBucketClusteringPlanStrategy"):
        strategy_of(read_options({"hoodie.clustering.plan.strategy.class": "org.x.SparkConsistentBucketClusteringPlanStrategy"}))


def slice_(name: str, size: int | None, log_bytes: int = 0, path: str = "p") -> FileSlice:
    found = BaseFile(f"/t/{path}/{name}.parquet", name, "1", size) if size is not None else None
    logs = (LogFile(f"/t/{path}/.{name}.log", name, "1", 1, "0-0-0", log_bytes),) if log_bytes else ()
    return FileSlice(path, name, "1", found, logs)


def grouped(*slices: FileSlice, limits: ClusteringLimits = LIMITS, strategy: str = SIZE) -> list[tuple[list[str], int]]:
    groups = group_slices([slices], STRATEGIES[strategy], limits)
    return [([one.file_id for one in group.slices], group.outputs) for group in groups]


def test_slices_are_grouped_the_largest_first() -> None:
    slices = [slice_(f"f{size}", size) for size in (10, 90, 50, 120, 60)]
    assert grouped(*slices) == [(["f120"], 2), (["f90", "f60", "f50"], 2), (["f10"], 1)]


def test_a_slice_of_logs_alone_counts_as_a_whole_file() -> None:
    assert grouped(slice_("a", None, 5), slice_("b", 70)) == [(["a", "b"], 2)]
    assert grouped(slice_("a", None, 5), slice_("b", 90)) == [(["a"], 2), (["b"], 1)]


def test_a_single_file_is_not_clustered_if_the_options_say_so() -> None:
    options = read_options({"hoodie.clustering.plan.strategy.single.group.clustering.enabled": "false"})
    assert grouped(slice_("a", 10), limits=clustering_limits(options)) == []
    assert len(grouped(slice_("a", 10), slice_("b", 10), limits=clustering_limits(options))) == 1


def test_a_plan_has_no_more_groups_than_the_limit() -> None:
    partitions = [[slice_(f"{p}{n}", 150, path=p) for n in range(3)] for p in "abc"]
    limits = ClusteringLimits(300, 100, 200, 4, single=True, max_file_bytes=120)
    found = group_slices(partitions, STRATEGIES[SIZE], limits)
    assert [group.slices[0].file_id for group in found] == ["a0", "a1", "a2", "b0"]


def test_single_file_sort_plans_a_group_for_each_file() -> None:
    assert grouped(slice_("a", 10), slice_("b", 250), strategy=SINGLE) == [(["a"], 1), (["b"], 1)]


def test_a_group_has_hudis_metrics() -> None:
    (group,) = group_slices(
        [[slice_("a", 3 * MIB, 2 * MIB), slice_("b", 1 * MIB)]], STRATEGIES[SIZE], clustering_limits(read_options({}))
    )
    assert group.metrics == {
        "TOTAL_LOG_FILES": 1,
        "TOTAL_IO_MB": 10,
        "TOTAL_IO_READ_MB": 6,
        "TOTAL_LOG_FILES_SIZE": 2 * MIB,
        "TOTAL_IO_WRITE_MB": 4,
    }


# --- bytes ---

PLAN = ClusteringPlan(
    (ClusteringGroup((ClusteringSlice("p", "f-0", "f-0_1-1-1_1.parquet", (".f-0_1.log.1_0-0-0",)),), 2, {"TOTAL_IO_MB": 1.0}),),
    "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy",
    {"hoodie.clustering.plan.strategy.sort.columns": "a,b"},
)


def test_a_plan_is_read_as_it_was_written() -> None:
    content = write_clustering_plan(PLAN, "/t")
    assert read_clustering_plan(content, "x") == PLAN
    (found,) = read_container(content)["clusteringPlan"]["inputGroups"][0]["slices"]
    assert (found["dataFilePath"], found["deltaFilePaths"]) == ("/t/p/f-0_1-1-1_1.parquet", ["/t/p/.f-0_1.log.1_0-0-0"])
    only_logs = ClusteringPlan((ClusteringGroup((ClusteringSlice("", "f-0", None, ("x",)),)),))
    assert read_clustering_plan(write_clustering_plan(only_logs, "/t"), "x") == only_logs


def test_hudis_plan_is_read_and_written_back_field_by_field() -> None:
    theirs = read_container(REAL.read_bytes())
    plan = read_clustering_plan(REAL.read_bytes(), REAL.name)
    assert plan is not None
    assert [len(group.slices) for group in plan.groups] == [2, 1, 2]
    ours = read_container(write_clustering_plan(plan, "file:/tmp/v9-gen/warehouse/v9_txns_cow_simple_meta"))
    del theirs["clusteringPlan"]["missingSchedulePartitions"]  # of a newer release
    assert ours == theirs


@pytest.mark.parametrize("content", [b"torn", write_clustering_plan(PLAN, "/t")[:-40], b"Obj\x01"])
def test_the_error_of_a_torn_plan_names_its_file(content: bytes) -> None:
    with pytest.raises(CorruptFile, match="1.replacecommit.requested cannot be read as the plan"):
        read_clustering_plan(content, "1.replacecommit.requested")


def test_a_slice_without_an_id_is_no_plan() -> None:
    record = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": [{"fileId": None}]}]}}
    with pytest.raises(CorruptFile, match="has no fileId"):
        read_clustering_plan(write_container("HoodieRequestedReplaceMetadata", record), "x")


def test_rows_keep_their_commit_time_where_a_plan_does_not_say() -> None:
    for said, kept in ((None, True), (True, True), (False, False)):
        record = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [], "preserveHoodieMetadata": said}}
        plan = read_clustering_plan(write_container("HoodieRequestedReplaceMetadata", record), "x")
        assert plan is not None
        assert plan.preserves_meta is kept


def test_other_replacing_writes_have_no_plan() -> None:
    assert read_clustering_plan(b"", "x") is None
    assert read_clustering_plan(write_container("HoodieRequestedReplaceMetadata", {"operationType": None}), "x") is None


# --- tables ---

SCHEMA = {"schema": avro_text(arrow_to_avro(COLUMNS, "trips"))}
SORT = {"clustering_plan_strategy_sort_columns": "ts"}


def history(kind: str = "COPY_ON_WRITE") -> History:
    return History(kind).commit(1, ["p/a", "p/b", "q/c"], extra=SCHEMA)


def planned(plan: ClusteringPlan) -> list[list[str]]:
    return [[one.file_id for one in group.slices] for group in plan.groups]


def test_a_plan_names_the_newest_files_without_those_of_other_plans() -> None:
    made = history("MERGE_ON_READ").commit(2, ["p/a"], extra=SCHEMA)
    assert planned(make_plan(made.table())) == [["a", "b"], ["c"]]
    named = [one.base_file for one in make_plan(made.table()).slices]
    assert named == [base("a", 2), base("b", 1), base("c", 1)]
    waits = CompactionPlan((CompactionOperation("p", "b", at(1), base("b", 1), ()),))
    made.instant(f"{at(3)}.compaction.requested", write_compaction_plan(waits))
    assert planned(make_plan(made.table())) == [["a"], ["c"]]
    assert planned(make_plan(made.table(clustering_plan_strategy_partition_selected="q"))) == [["c"]]
    assert planned(make_plan(made.table(clustering_plan_strategy_small_file_limit=1))) == []


def test_two_plans_share_no_file_group() -> None:
    table = history().table(**SORT, clustering_plan_strategy_partition_selected="p")
    first = schedule(table, CLUSTERING, due=True)
    assert first is not None
    assert schedule(table, CLUSTERING, due=True) is None
    second = schedule(history().table(), CLUSTERING, due=True)
    assert second is not None


def test_the_later_of_two_concurrent_plans_is_withdrawn() -> None:
    """The other plan comes to be between the look at the table and the plan's own file."""
    made = history("MERGE_ON_READ")

    class Between(type(made.storage)):  # type: ignore[misc]
        def write_new(self, path: str, data: bytes) -> None:
            if path.endswith(".replacecommit.requested") and not any(".compaction." in name for name in made.instants()):
                waits = CompactionPlan((CompactionOperation("p", "b", at(1), base("b", 1), ()),))
                made.instant(f"{at(2)}.compaction.requested", write_compaction_plan(waits))
            super().write_new(path, data)

    made.storage = Between(made.storage.name)
    table = made.table()
    instant = schedule(table, CLUSTERING, due=True)
    assert instant is not None
    plan = read_clustering_plan(made.storage.read(f"/t/.hoodie/{instant.file_name}"), "x")
    assert plan is not None
    assert planned(plan) == [["a"], ["c"]]  # it was made again
    assert len([name for name in made.instants() if "replacecommit" in name]) == 1
    assert schedule(reload_timeline(table), COMPACTION, due=True) is None


def test_nothing_is_planned_while_a_write_is_under_way() -> None:
    made = history()
    made.instant(f"{at(2)}.commit.requested", b"")
    with pytest.warns(RuntimeWarning, match="no clustering of /t is planned now: write .* is under way"):
        assert schedule(made.table(), CLUSTERING, due=True) is None


def test_a_missing_sort_column_is_refused_before_anything_is_planned() -> None:
    made = history()
    with pytest.raises(SchemaError, match="names 'rider', which is not among the columns"):
        schedule(made.table(clustering_plan_strategy_sort_columns="rider"), CLUSTERING, due=True)
    assert not any("replacecommit" in name for name in made.instants())


def test_a_table_with_buckets_is_refused_however_that_is_known() -> None:
    ids = [f"p/0000000{n}-aaaa-0" for n in range(3)]
    bucketed = History().commit(1, ids, extra=SCHEMA).table()
    said = history().table(index_type="BUCKET")
    kept = replace(bucketed, config=replace(bucketed.config, raw={**bucketed.config.raw, "hoodie.index.type": "BUCKET"}))
    ringed = history("MERGE_ON_READ")
    ringed.storage.write_new("/t/.hoodie/.bucket_index/consistent_hashing_metadata/p/0.hashing_meta", b"{}")
    for table in (bucketed, said, kept):
        with pytest.raises(Unsupported, match="/t has buckets .* Leave clustering out"):
            schedule(table, CLUSTERING, due=True)
    with pytest.raises(
        OptionError, match="/t was written with hoodie.index.bucket.engine=CONSISTENT_HASHING; cluster it with that"
    ):
        schedule(ringed.table(), CLUSTERING, due=True)


@pytest.mark.parametrize(
    ("options", "due"),
    [
        ({}, True),
        ({"clustering_inline": True, "clustering_inline_max_commits": 2}, True),
        ({"clustering_inline": True, "clustering_inline_max_commits": 3}, False),
        ({"clustering_async_enabled": True, "clustering_async_max_commits": 2}, True),
        ({"clustering_async_enabled": True}, False),
        ({"clustering_schedule_inline": True}, True),
    ],
)
def test_a_clustering_is_due_after_the_configured_number_of_commits(options: dict[str, Any], due: bool) -> None:
    made = history().commit(2, ["p/a"])
    assert is_due(made.table(**options)) is due


def test_commits_are_counted_from_the_last_clustering_on_whether_it_is_completed_or_pending() -> None:
    made = history().commit(2, ["p/a"])
    made.commit(3, ["p/n"], action="replacecommit", replaced={"p": ("a",)})  # another replacing write
    assert commits_since(made.table()) == 3
    made.instant(f"{at(4)}.replacecommit.requested", write_clustering_plan(PLAN, "/t"))
    made.commit(5, ["p/n"])
    assert commits_since(made.table()) == 1


def test_the_order_is_what_the_options_say() -> None:
    assert read_ordering(read_options({})) is None
    given = {
        "hoodie.clustering.plan.strategy.sort.columns": "a, b",
        "hoodie.layout.optimize.strategy": "z-order",
        "hoodie.layout.optimize.curve.build.method": "sample",
    }
    ordering = read_ordering(read_options(given))
    assert ordering is not None
    assert (ordering.columns, ordering.kind.value, ordering.sample_rows) == (("a", "b"), "ZORDER", 200_000)


def test_planning_for_ten_thousand_file_groups_lists_every_partition_once() -> None:
    made = History().commit(1, [f"p{n % 100}/f{n}" for n in range(10_000)], extra=SCHEMA)
    made.calls()
    plan = make_plan(made.table(clustering_plan_strategy_max_num_groups=1000))
    assert (len(plan.groups), len(list(plan.slices))) == (100, 10_000)
    listed = made.calls("list")
    assert len([path for path in listed if path != "/t"]) <= 2 * 100
