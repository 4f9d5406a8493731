"""Clustering of whole tables without Spark: the work is little and runs in this process."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from penstock.errors import CorruptFile, OptionError, SchemaError, Unsupported, WriteConflict
from penstock.filegroup.key_footer import FOOTER_BLOOM, FOOTER_BLOOM_TYPE, FOOTER_MAX_KEY, FOOTER_MIN_KEY, KeyFooter
from penstock.formats.bloom import read_bloom
from penstock.formats.parquet import read_footer
from penstock.hooks import PublishedCommit
from penstock.index.in_memory import check_remembered
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services import planned
from penstock.services.clustering import service, tasks
from penstock.services.clustering.plan import make_plan
from penstock.services.clustering.service import CLUSTERING
from penstock.services.clustering.unschedule import unschedule_clustering
from penstock.services.planned import schedule, schedule_and_run
from penstock.table.listing import list_base_slices, list_merged_slices
from penstock.table.state import TableState, open_table
from penstock.timeline.clustering_plan import write_clustering_plan
from penstock.timeline.commit_file import WriteStat
from tests.kit.plain import orphans, pending, plain_rows
from tests.table.handmade import HandMade, at

NOTHING: Any = None
COW = {"hoodie.table.type": "COPY_ON_WRITE"}
SORT = "hoodie.clustering.plan.strategy.sort.columns"
PLAN = "hoodie.clustering.plan.strategy."
#: Two file groups of one partition, and one of another; ts and fare run against one another.
FIRST = [("a", "berlin", 5, 1.0), ("b", "berlin", 3, 2.0)]
SECOND = [("c", "berlin", 4, 3.0), ("d", "berlin", None, 4.0)]
OTHER = [("e", "paris", 2, 5.0), ("f", "paris", 1, 6.0)]
ROWS = sorted([*FIRST, *SECOND, *OTHER], key=repr)


@pytest.fixture
def made(tmp_path: Path) -> HandMade:
    """A table of two commits."""
    table = HandMade(tmp_path / "t", properties=COW)
    table.base(1, "berlin", *FIRST, group="one").base(1, "paris", *OTHER).instant(1, "commit")
    return table.base(2, "berlin", *SECOND, group="two").instant(2, "commit")


def opened(made: HandMade, **options: object) -> TableState:
    return open_table(str(made.path), read_options({PLAN + k.replace("_", "."): v for k, v in options.items()}))


def run(table: TableState) -> list[PublishedCommit]:
    return schedule_and_run(NOTHING, table, CLUSTERING, Stages("", "off"), due=True)


def files(made: HandMade) -> dict[str, list[list[Any]]]:
    """Ids of rows in the files of each partition, in the order they stand."""
    found = list_base_slices(open_table(str(made.path)))
    return {
        path: sorted(pq.ParquetFile(s.base_file.path).read(["id"])["id"].to_pylist() for s in its if s.base_file)
        for path, its in found.items()
    }


def test_file_groups_of_a_partition_become_one_and_rows_are_in_order(made: HandMade) -> None:
    (done,) = run(opened(made, sort_columns="ts"))
    assert files(made) == {"berlin": [["d", "b", "c", "a"]], "paris": [["f", "e"]]}
    assert plain_rows(made.path) == ROWS
    assert done.metadata.operation == "CLUSTER"
    assert done.metadata.replaced == {"berlin": ("one-0", "two-0"), "paris": ("paris-0",)}
    assert {(s.prev_commit, s.num_writes, s.num_inserts) for s in done.metadata.stats} == {("null", 4, 4), ("null", 2, 2)}
    assert (pending(made.path), done.metadata.schema is not None) == ([], True)


def test_rows_keep_their_meta_columns_and_files_have_the_footer_of_base_files(made: HandMade) -> None:
    run(opened(made, sort_columns="ts"))
    for its in list_base_slices(open_table(str(made.path))).values():
        for one in its:
            assert one.base_file is not None
            file = pq.ParquetFile(one.base_file.path)
            for row in file.read().to_pylist():
                time = at(2) if row["id"] in "cd" else at(1)
                assert row["_hoodie_commit_time"] == time
                assert row["_hoodie_commit_seqno"].startswith(f"{time}_0_")
                assert (row["_hoodie_record_key"], row["_hoodie_file_name"]) == (row["id"], one.base_file.name)
                assert row["_hoodie_partition_path"] == one.partition_path
            footer = read_footer(file)
            assert footer[FOOTER_MIN_KEY] < footer[FOOTER_MAX_KEY]
            assert footer[FOOTER_BLOOM]


def test_rows_get_a_new_commit_time_if_the_options_say_so(made: HandMade) -> None:
    table = open_table(str(made.path), read_options({"hoodie.clustering.preserve.commit.metadata": "false"}))
    (done,) = run(table)
    slices = [s for its in list_base_slices(open_table(str(made.path))).values() for s in its]
    rows = [row for s in slices if s.base_file for row in pq.ParquetFile(s.base_file.path).read().to_pylist()]
    assert {row["_hoodie_commit_time"] for row in rows} == {done.instant}
    assert len({row["_hoodie_commit_seqno"] for row in rows}) == 6
    assert all(row["_hoodie_record_key"] == row["id"] for row in rows)
    assert plain_rows(made.path) == ROWS


def test_logs_are_merged_first(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "t").base(1, "berlin", *FIRST, group="one").base(1, "berlin", *SECOND, group="two").instant(1)
    newer = ("a", "berlin", 9, 9.0)
    table.log(1, "berlin", 1, table.rows(2, "berlin", newer), table.deletes(2, "berlin", "b"), group="one").instant(2)
    run(opened(table, sort_columns="ts"))
    assert files(table) == {"berlin": [["d", "c", "a"]]}
    assert plain_rows(table.path) == sorted([newer, *SECOND], key=repr)
    (slices,) = list_merged_slices(open_table(str(table.path))).values()
    assert [one.log_files for one in slices] == [()]
    rows = pq.ParquetFile(slices[0].base_file.path).read().to_pylist()  # type: ignore[union-attr]
    assert [row["_hoodie_commit_time"] for row in rows] == [at(1), at(1), at(2)]


@pytest.mark.parametrize("columns", [None, "ts"])
def test_files_have_the_configured_size(made: HandMade, columns: str | None) -> None:
    run(opened(made, target_file_max_bytes=1, **({"sort_columns": columns} if columns else {})))
    berlin = files(made)["berlin"]
    assert len(berlin) > 1
    assert sorted(key for one in berlin for key in one) == list("abcd")


def test_without_sort_columns_rows_keep_their_order_or_are_sorted_as_by_a_bulk_insert(made: HandMade) -> None:
    run(opened(made))
    (berlin,) = files(made)["berlin"]
    assert [berlin.index(key) for key in "ab"] in ([0, 1], [2, 3])
    assert plain_rows(made.path) == ROWS
    run(opened(made, sort_columns="fare"))
    assert files(made)["paris"] == [["e", "f"]]
    run(opened(made, sort_columns="ts"))
    assert files(made)["paris"] == [["f", "e"]]
    run(open_table(str(made.path), read_options({"hoodie.bulkinsert.sort.mode": "partition_sort"})))
    assert files(made) == {"berlin": [["a", "b", "c", "d"]], "paris": [["e", "f"]]}


@pytest.mark.parametrize(("layout", "method"), [("linear", "direct"), ("zorder", "direct"), ("hilbert", "sample")])
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_large_group_is_rewritten_in_several_tasks(tmp_path: Path, layout: str, method: str, outputs: int) -> None:
    table, many = (
        HandMade(tmp_path / "t", properties=COW),
        [(f"k{n:04}", "p", n * 7919 % 1009, float(n % 37)) for n in range(1000)],
    )
    for number in range(4):
        table.base(1, "p", *many[number::4], group=f"g{number}")
    table.base(1, "p", group="empty").instant(1, "commit")
    options = {
        SORT: "ts,fare",
        "hoodie.layout.optimize.strategy": layout,
        "hoodie.layout.optimize.curve.build.method": method,
    }
    with patch.object(tasks, "_LEAST_BYTES", 1), patch.object(tasks, "_MOST_BYTES", 30_000):
        size = sum(f.stat().st_size for f in table.path.rglob("*.parquet"))
        (done,) = run(open_table(str(table.path), read_options({**options, f"{PLAN}target.file.max.bytes": -(-size // outputs)})))
    assert len(done.metadata.stats) >= outputs
    assert plain_rows(table.path) == sorted(many, key=repr)
    assert not any(".temp" in name for name in orphans(table.path))
    slices = list_base_slices(open_table(str(table.path)))["p"]
    in_files = [pq.ParquetFile(s.base_file.path).read(["ts"])["ts"].to_pylist() for s in slices if s.base_file]
    if layout == "linear":
        assert all(one == sorted(one) for one in in_files)
        spans = sorted((one[0], one[-1]) for one in in_files)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_a_file_that_is_rewritten_alone_keeps_its_bloom_filter(made: HandMade) -> None:
    run(opened(made, sort_columns="ts"))
    with patch.object(KeyFooter, "add", side_effect=AssertionError("the filter is rebuilt")):
        (done,) = run(opened(made, sort_columns="fare"))
    assert sorted(stat.num_writes for stat in done.metadata.stats) == [2, 4]
    for its in list_base_slices(open_table(str(made.path))).values():
        for one in its:
            assert one.base_file is not None
            footer = read_footer(pq.ParquetFile(one.base_file.path))
            keys = pq.ParquetFile(one.base_file.path).read(["id"])["id"]
            assert read_bloom(footer[FOOTER_BLOOM], footer.get(FOOTER_BLOOM_TYPE)).might_contain(keys).all()
            assert (footer[FOOTER_MIN_KEY], footer[FOOTER_MAX_KEY]) == (min(keys.to_pylist()), max(keys.to_pylist()))


def test_an_index_in_memory_knows_the_new_file_groups(made: HandMade) -> None:
    table = open_table(str(made.path), read_options({"hoodie.index.type": "INMEMORY"}))
    run(table)
    check_remembered(table.base_path, list_base_slices(open_table(str(made.path))))


# --- plans that wait ---


def test_a_plan_waits_until_it_is_run(made: HandMade) -> None:
    table = opened(made, sort_columns="ts")
    instant = schedule(table, CLUSTERING, due=True)
    assert instant is not None
    assert plain_rows(made.path) == ROWS
    done = planned.run_plan(NOTHING, opened(made), instant.time, CLUSTERING, Stages("", "off"))  # the plan knows the columns
    assert (done.instant, files(made)["paris"]) == (instant.time, [["f", "e"]])
    with pytest.raises(OptionError, match="no pending clustering at .* pending: none"):
        planned.run_plan(NOTHING, table, instant.time, CLUSTERING, Stages("", "off"))


def test_a_plan_can_be_unscheduled(made: HandMade) -> None:
    instant = schedule(opened(made), CLUSTERING, due=True)
    assert instant is not None
    unschedule_clustering(opened(made), instant.time)
    assert pending(made.path) == []
    assert len(run(opened(made))) == 1


def test_a_run_that_died_is_rolled_back_and_its_plan_is_run_again_or_unscheduled(made: HandMade) -> None:
    instant = schedule(opened(made), CLUSTERING, due=True)
    assert instant is not None

    def dead_run() -> Path:
        half = made.path / "berlin" / f"half-0_0-0-0_{instant.time}.parquet"
        half.write_bytes(b"PAR1")
        (made.path / ".hoodie" / f"{instant.time}.replacecommit.inflight").touch()
        marker = made.path / ".hoodie" / ".temp" / instant.time / "berlin" / f"{half.name}.marker.CREATE"
        marker.parent.mkdir(parents=True)
        marker.touch()
        return half

    half = dead_run()
    unschedule_clustering(opened(made), instant.time)
    assert (half.exists(), pending(made.path)) == (False, [])
    instant = schedule(opened(made), CLUSTERING, due=True)
    assert instant is not None
    half = dead_run()
    (done,) = run(opened(made))[:1]
    assert (done.instant, half.exists(), pending(made.path)) == (instant.time, False, [])
    assert plain_rows(made.path) == ROWS
    assert len(list((made.path / ".hoodie").glob("*.rollback"))) == 2


@pytest.mark.parametrize("state", ["commit", "inflight"])
def test_a_clustering_is_refused_if_a_write_changes_what_it_names(made: HandMade, state: str) -> None:
    instant = schedule(opened(made), CLUSTERING, due=True)
    assert instant is not None
    stat = WriteStat("one-0", "berlin", f"berlin/one-0_1-1-1_{at(3)}.parquet", prev_commit=at(1))
    rewritten, first = service.rewrite, iter([True])

    def beside(task: Any) -> Any:
        if next(first, False):  # tasks run in threads, the write comes once
            made.base(99, "berlin", *FIRST, group="one").instant(99, "commit", stats=(stat,))
            if state == "inflight":
                folder = made.path / ".hoodie"
                (folder / f"{at(99)}.commit").rename(folder / f"{at(99)}.inflight")
        return rewritten(task)

    with (
        patch.object(service, "rewrite", beside),
        pytest.raises(WriteConflict, match="has changed file group one-0 of partition"),
    ):
        run(opened(made))
    assert [name for name in pending(made.path) if "replacecommit" in name] == [f"{instant.time}.replacecommit.requested"]
    if state == "commit":
        with pytest.raises(WriteConflict, match="unschedule that clustering and plan another"):
            run(opened(made))


def test_a_plan_is_invalid_if_a_write_replaced_a_file_group_of_it(made: HandMade) -> None:
    schedule(opened(made), CLUSTERING, due=True)
    made.instant(99, "replacecommit", replaced={"paris": ("paris-0",)})
    with pytest.raises(WriteConflict, match="file group paris-0 of partition 'paris'"):
        run(opened(made))


# --- bad input ---


def test_a_file_a_plan_names_that_is_missing_is_an_error(made: HandMade) -> None:
    instant = schedule(opened(made), CLUSTERING, due=True)
    assert instant is not None
    (gone,) = (made.path / "paris").glob("*.parquet")
    gone.unlink()
    with pytest.raises(CorruptFile, match=f"{gone.name} is missing, which clustering plan {instant.time} names"):
        run(opened(made))
    assert pending(made.path) == [f"{instant.time}.replacecommit.requested"]


def test_a_torn_plan_is_an_error_for_every_caller_until_it_is_unscheduled(made: HandMade) -> None:
    instant = schedule(opened(made), CLUSTERING, due=True)
    assert instant is not None
    file = made.path / ".hoodie" / instant.file_name
    file.write_bytes(file.read_bytes()[:-30])
    for act in (run, lambda table: schedule(table, CLUSTERING, due=True)):
        with pytest.raises(CorruptFile, match=f"{instant.file_name} of .* cannot be read as the plan of a clustering"):
            act(opened(made))
    begun = made.path / ".hoodie" / f"{instant.time}.replacecommit.inflight"
    begun.touch()
    with pytest.raises(CorruptFile, match=r"if nothing of it was run, unschedule_clustering\(\) removes the plan"):
        unschedule_clustering(opened(made), instant.time)
    begun.unlink()
    unschedule_clustering(opened(made), instant.time)
    assert pending(made.path) == []
    assert len(run(opened(made))) == 1


def test_a_plan_that_only_hudi_can_run_is_refused_and_stays_on_the_timeline(made: HandMade) -> None:
    java = "org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    plan = replace(make_plan(opened(made)), runner=java)
    (made.path / ".hoodie" / f"{at(9)}.replacecommit.requested").write_bytes(write_clustering_plan(plan, str(made.path)))
    with pytest.raises(Unsupported, match=f"is to be run by {java}, which Penstock does not know; run it with Hudi"):
        run(opened(made))
    assert pending(made.path) == [f"{at(9)}.replacecommit.requested"]


def test_a_plan_that_sorts_by_a_column_which_is_gone_is_refused(made: HandMade) -> None:
    with patch("penstock.services.clustering.plan.check_ordering"):
        schedule(opened(made, sort_columns="rider"), CLUSTERING, due=True)
    with pytest.raises(SchemaError, match="names 'rider'"):
        run(opened(made))
    assert plain_rows(made.path) == ROWS


def test_a_damaged_file_is_an_error_and_leaves_nothing_behind(made: HandMade) -> None:
    (file,) = (made.path / "paris").glob("*.parquet")
    file.write_bytes(b"garbage")
    with pytest.raises(CorruptFile, match="cannot be read as Parquet"):
        run(opened(made, sort_columns="ts"))
    (plan,) = pending(made.path)
    assert plan.endswith(".replacecommit.requested")
    assert {p.name.partition("_")[0] for p in (made.path / "berlin").glob("*.parquet")} == {"one-0", "two-0"}
