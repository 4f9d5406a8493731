"""Cleaning: which files are deleted and which stay, on tables of file names without rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from penstock import clock
from penstock.errors import CorruptFile, OptionError, WriteConflict
from penstock.filegroup.names import log_file_name
from penstock.formats.avro.container import write_container
from penstock.options import check_combinations, read_options
from penstock.progress import Stages
from penstock.services.clean import run as running
from penstock.services.clean.run import clean
from penstock.services.clean.schedule import is_due, last_clean, schedule_clean
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.clean_file import CleanPlan, CleanResult, read_clean_plan, read_clean_result, write_clean_plan
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan, ClusteringSlice, write_clustering_plan
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from penstock.workers.runner import Runner
from tests.unit.services.histories import History, NotedStorage, at, base

TWO = {"cleaner_commits_retained": 2}


def run(table: TableState, *, due: bool = True) -> list[CleanResult]:
    return clean(None, table, Stages("", "off"), due=due)


def list_versions(history: History) -> list[str]:
    """Return the versions that are there, as `file id@number`."""
    return [f"{n.split('_')[0]}@{int(n.split('_')[2][10:14]) // 100 * 60 + int(n.split('_')[2][12:14])}" for n in _names(history)]


def _names(history: History) -> list[str]:
    return [path.rsplit("/", 1)[-1] for path in history.data_files() if path.endswith(".parquet")]


def test_files_of_retained_commits_stay_and_one_version_before_them() -> None:
    history = History().commits(range(1, 6), "p/f").commit(6, ["p/g"])
    done = run(history.table(**TWO))
    assert list_versions(history) == ["f@4", "f@5", "g@6"]  # 5 is the earliest retained; a reader of it may have begun at 4
    assert [(one.earliest, one.last_commit, one.files_deleted) for one in done] == [(at(5), at(6), 3)]
    assert history.instants()[-3:] == [f"{done[0].instant}.clean{end}" for end in ("", ".inflight", ".requested")]


def test_plan_and_result_on_the_timeline_are_what_hudi_writes() -> None:
    history = History().commits(range(1, 5), "p/f")
    result = run(history.table(**TWO))[0]
    path = f"/t/.hoodie/{result.instant}.clean"
    plan = read_clean_plan(history.storage.read(f"{path}.requested"), "plan")
    assert plan.files == {"p": (base("f", 1),)}
    assert history.storage.read(f"{path}.inflight") == history.storage.read(f"{path}.requested")
    assert f"/t/p/{base('f', 1)}".encode() in history.storage.read(f"{path}.requested")  # in full
    stored = read_clean_result(history.storage.read(path), "result")
    assert stored.partitions["p"].deleted == (base("f", 1),)
    assert (stored.earliest, stored.last_commit) == (at(3), at(4))


def test_nothing_is_deleted_while_there_are_few_commits() -> None:
    history = History().commits(range(1, 4), "p/f")
    assert run(history.table(cleaner_commits_retained=3)) == []
    assert run(history.table(cleaner_commits_retained=0)) == []
    assert run(history.table()) == []
    assert len(list_versions(history)) == 3


def test_a_pending_write_holds_the_earliest_retained_commit_back() -> None:
    history = History().commits(range(1, 4), "p/f")
    history.instant(f"{at(4)}.commit.requested", b"")
    history.commits(range(5, 9), "p/f")
    done = run(history.table(**TWO))
    assert done[0].earliest == at(3)
    assert list_versions(history) == ["f@2", "f@3", "f@5", "f@6", "f@7", "f@8"]


def test_so_many_newest_versions_stay() -> None:
    history = History().commits(range(1, 6), "p/f").commits(range(6, 8), "p/g")
    done = run(history.table(cleaner_fileversions_retained=2))
    assert list_versions(history) == ["f@4", "f@5", "g@6", "g@7"]
    assert (done[0].earliest, done[0].policy) == ("", "KEEP_LATEST_FILE_VERSIONS")


def test_versions_of_the_last_hours_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2024, 1, 1, 10, 0, 3, 500_000).astimezone()
    history = History().commits(range(1, 6), "p/f")
    monkeypatch.setattr(clock, "local_now", lambda: now)
    done = run(history.table(cleaner_hours_retained=10))
    assert done[0].earliest == at(4)
    assert list_versions(history) == ["f@3", "f@4", "f@5"]
    assert run(reload_timeline(history.table(cleaner_hours_retained=0))) == []  # no commit is so young


def test_files_of_a_savepoint_stay_until_the_savepoint_is_deleted() -> None:
    history = History().commits(range(1, 3), "p/f", "q/g").commits(range(3, 7), "q/g")
    history.savepoint(1, {"p": [base("f", 1)], "q": [base("g", 1)]})
    first = run(history.table(**TWO))
    assert list_versions(history) == ["f@1", "f@2", "g@1", "g@4", "g@5", "g@6"]  # f@1 is the version before, g@1 is held
    assert first[0].savepoints == (at(1),)
    for end in ("", ".inflight"):
        history.storage.delete(f"/t/.hoodie/{at(1)}.savepoint{end}")
    history.commit(7, ["r/h"])
    run(history.table(**TWO))
    assert list_versions(history) == ["f@2", "g@5", "g@6", "h@7"]


def test_files_of_a_deleted_savepoint_are_deleted_from_partitions_that_its_commit_did_not_write_to() -> None:
    history = History().commits((1, 2), "p/f", "q/g").commit(3, ["q/g"])
    history.savepoint(3, {"p": [base("f", 2)], "q": [base("g", 3)]})
    history.commits((4, 5), "p/f").commits(range(6, 9), "q/g")
    run(history.table(**TWO))
    assert list_versions(history) == ["f@2", "f@5", "g@3", "g@6", "g@7", "g@8"]
    for end in ("", ".inflight"):
        history.storage.delete(f"/t/.hoodie/{at(3)}.savepoint{end}")
    run(history.table(**TWO))
    assert list_versions(history) == ["f@5", "g@6", "g@7", "g@8"]


def test_after_a_savepoint_is_deleted_one_clean_lists_all_partitions() -> None:
    history = History().commits((1, 2), "p/f").commit(3, ["q/g"]).commit(4, ["r/h"])
    history.savepoint(3, {"p": [base("f", 2)], "q": [base("g", 3)]})
    assert run(history.table(**TWO))[0].files_deleted == 1
    for end in ("", ".inflight"):
        history.storage.delete(f"/t/.hoodie/{at(3)}.savepoint{end}")
    for number, listed in ((5, ["/t", "/t/p", "/t/q", "/t/r"]), (6, [])):
        history.commit(number, [f"new{number}/n{number}"])
        history.calls()
        run(history.table(**TWO), due=False)
        assert [path for path in history.calls("list") if "new" not in path] == listed


def test_a_damaged_savepoint_stops_cleaning() -> None:
    history = History().commits(range(1, 6), "p/f")
    history.instant(f"{at(2)}.savepoint", b"torn")
    with pytest.raises(CorruptFile, match=r"savepoint /t/.hoodie/.*restore it from a copy"):
        run(history.table(**TWO))
    assert len(list_versions(history)) == 5


@pytest.mark.parametrize("action", ["compaction", "logcompaction"])
def test_slices_that_a_pending_plan_names_stay(action: str) -> None:
    history = History("MERGE_ON_READ")
    history.commit(1, ["p/f"], action="deltacommit")
    log = log_file_name("f", at(1), 1, "0-0-0")
    history.file(f"p/{log}")
    plan = CompactionPlan((CompactionOperation("p", "f", at(1), base("f", 1), (log,)),))
    history.instant(f"{at(2)}.{action}.requested", write_compaction_plan(plan))
    for number in range(3, 8):  # as if others went on with the group
        history.commit(number, ["p/f"], action="deltacommit")
    run(history.table(cleaner_fileversions_retained=1))
    assert len(list_versions(history)) == 6
    assert f"p/{log}" in history.data_files()


def test_a_pending_clustering_keeps_the_slice_that_it_reads_and_none_before_it() -> None:
    history = History().commits((1, 2, 3), "p/f")
    plan = ClusteringPlan((ClusteringGroup((ClusteringSlice("p", "f", base("f", 3)),)),))
    history.instant(f"{at(4)}.replacecommit.requested", write_clustering_plan(plan, "/t"))
    history.commits((5, 6), "p/f")  # as writes may that are allowed to
    run(history.table(cleaner_fileversions_retained=1))
    assert list_versions(history) == ["f@3", "f@5", "f@6"]


def test_after_a_compaction_the_logs_before_it_are_deleted_with_their_base_file() -> None:
    history = History("MERGE_ON_READ").commit(1, ["p/f"], action="deltacommit")
    logs = [
        log_file_name("f", at(1), 1, "0-0-0"),
        log_file_name("f", at(1), 2, "0-0-0"),
        f"{log_file_name('f', at(1), 2, '0-0-1')}.cdc",
    ]
    for log in logs:
        history.file(f"p/{log}")
    for number in (4, 5, 6):
        history.commit(number, ["p/f"])
    done = run(history.table(**TWO))
    assert done[0].partitions["p"].deleted == tuple(sorted([*logs, base("f", 1)]))


def test_replaced_file_groups_and_empty_partitions_are_deleted_when_no_query_may_read_them() -> None:
    history = History().commit(1, ["p/f", "q/g"])
    history.commit(2, ["q/n"], action="replacecommit", replaced={"p": ("f",), "q": ("g",)})
    history.commit(3, ["q/n"])
    assert run(history.table(**TWO)) == []  # 2 is the earliest retained: a reader of 2 may have begun before it
    history.commit(4, ["r/h"])
    done = run(history.table(**TWO))
    assert list_versions(history) == ["n@2", "n@3", "h@4"]
    assert done[0].partitions["p"].is_gone
    assert not done[0].partitions["q"].is_gone
    assert history.data_files("/t/p") == []


def test_an_empty_partition_keeps_its_metafile_while_a_write_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History().commit(1, ["p/f"])
    history.commit(2, [], action="replacecommit", replaced={"p": ("f",)}).commits((3, 4), "q/g")
    instant = schedule_clean(history.table(**TWO), due=True)
    assert instant is not None

    class Begun(type(history.storage)):  # type: ignore[misc]
        def delete(self, path: str) -> bool:
            if path.endswith("_metadata"):
                super().write_new(f"/t/.hoodie/{at(9)}.commit.requested", b"")
            return bool(super().delete(path))

    history.storage = Begun(history.storage.name)
    done = run(history.table(**TWO))
    assert not done[0].partitions["p"].is_gone
    assert history.storage.stat("/t/p/.hoodie_partition_metadata") is not None
    history.storage = NotedStorage(history.storage.name)
    history.storage.delete(f"/t/.hoodie/{at(9)}.commit.requested")  # it wrote nothing there
    history.commits(range(10, 13), "q/g")
    assert run(history.table(**TWO))[0].partitions["p"].is_gone
    assert history.data_files("/t/p") == []


def test_only_partitions_that_changed_since_the_last_clean_are_listed() -> None:
    history = History()
    for number in range(1, 5):
        history.commit(number, [f"p{n}/f{n}" for n in range(20)])
    history.commits((5, 6), "p3/f3")
    assert run(history.table(**TWO))[0].files_deleted == 3 * 20
    history.calls()
    history.commit(7, ["p4/new"]).commit(8, ["p5/f5"])
    run(history.table(**TWO))
    assert history.calls("list") == ["/t/p3"]  # p4 got a new group, p5 a version that is too young
    history.commit(9, ["p3/f3"])
    run(history.table(**TWO, cleaner_incremental_mode=False))
    assert len(history.calls("list")) == 21


def test_a_table_that_only_grows_is_not_listed() -> None:
    history = History()
    for number in range(1, 8):
        history.commit(number, [f"p{number}/f{number}"])
    history.calls()
    assert run(history.table(**TWO)) == []
    assert history.calls("list", "delete") == []


def test_partitions_with_files_that_could_not_be_deleted_are_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History().commits(range(1, 6), "p/f", "q/g")
    monkeypatch.setattr(running, "delete_files", lambda task: [[], list(task.names)])
    run(history.table(**TWO))
    assert len(list_versions(history)) == 10
    monkeypatch.undo()
    history.commit(6, ["r/h"])
    run(history.table(**TWO))
    assert list_versions(history) == ["f@4", "f@5", "g@4", "g@5", "h@6"]


def test_a_clean_of_ten_thousand_file_groups_deletes_its_files_and_lists_each_partition_once() -> None:
    history, groups = History(), [f"p/f{n}" for n in range(10_000)]
    for number in (1, 2):
        history.commit(number, groups)
    for number in range(3, 6):
        history.commit(number, ["p/f7", f"q/g{number}"])
    history.calls()
    done = run(history.table(**TWO))
    assert done[0].files_deleted == 10_001  # every first version; of f7 two
    assert len(history.calls("delete")) == 10_001
    history.commit(6, ["p/f7"])
    run(history.table(**TWO))
    assert history.calls("list", "delete") == ["/t/p", f"/t/p/{base('f7', 3)}"]


def test_many_files_are_deleted_by_spark_tasks_and_few_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def make_runner(spark: Any, *, on_driver: bool) -> Runner:
        asked.append(on_driver)
        return Runner(None)

    monkeypatch.setattr(running, "Runner", make_runner)
    monkeypatch.setattr(running, "_MANY_FILES", 4)
    for commits in (5, 9):
        history = History().commits(range(1, commits), "p/f")
        (done,) = running.clean(object(), history.table(**TWO), Stages("", "off"))  # type: ignore[arg-type]
        assert done.files_deleted == commits - 4
    assert asked == [True, False]


def test_a_clean_is_due_after_so_many_commits() -> None:
    history = History().commits(range(1, 5), "p/f")
    assert run(history.table(**TWO, clean_max_commits=5), due=False) == []
    assert len(run(history.table(**TWO, clean_max_commits=4), due=False)) == 1
    history.commit(5, ["p/f"])
    table = history.table(**TWO, clean_max_commits=2)
    assert not is_due(table, last_clean(table))
    assert run(table, due=False) == []


def test_a_clean_that_died_is_finished_although_some_files_are_gone() -> None:
    history = History().commits(range(1, 6), "p/f")
    instant = schedule_clean(history.table(**TWO), due=True)
    assert instant is not None
    history.storage.delete(f"/t/p/{base('f', 1)}")
    history.instant(f"{instant.time}.clean.inflight", b"")
    done = run(history.table(**TWO), due=False)
    assert [(one.instant, one.partitions["p"].deleted, one.partitions["p"].failed) for one in done] == [
        (instant.time, (base("f", 2),), (base("f", 1),))
    ]


@pytest.mark.parametrize("content", [b"", b"torn"])
def test_a_plan_that_cannot_be_read_is_given_up_and_made_again(content: bytes) -> None:
    history = History().commits(range(1, 6), "p/f")
    for end in ("requested", "inflight"):
        history.instant(f"{at(7)}.clean.{end}", content)
    with pytest.warns(RuntimeWarning, match="is given up"):
        done = run(history.table(**TWO))
    assert [one.files_deleted for one in done] == [2]
    assert not any(name.startswith(at(7)) for name in history.instants())


def test_a_plan_whose_requested_file_is_torn_is_read_from_the_inflight_file() -> None:
    history = History().commits(range(1, 6), "p/f")
    history.instant(f"{at(7)}.clean.requested", b"torn")
    plan = CleanPlan("KEEP_LATEST_COMMITS", {"p": (base("f", 1),)})
    history.instant(f"{at(7)}.clean.inflight", write_clean_plan(plan, "/elsewhere"))
    assert run(history.table(**TWO), due=False)[0].files_deleted == 1


def test_a_plan_deletes_no_file_outside_the_table_and_only_data_files() -> None:
    history = History().commits(range(1, 3), "p/f")
    plan = CleanPlan("KEEP_LATEST_COMMITS", {"p": (".hoodie_partition_metadata", "../.hoodie/hoodie.properties")})
    history.instant(f"{at(7)}.clean.requested", write_clean_plan(plan, "/t"))
    assert run(history.table(), due=False)[0].files_deleted == 0
    for path in ("..", "p/../../x", ".hoodie"):
        with pytest.raises(CorruptFile, match="outside of the table"):
            read_clean_plan(write_clean_plan(CleanPlan("KEEP_LATEST_COMMITS", {path: ("f",)}), "/t"), "plan")


def test_a_plan_of_an_old_hudi_names_files_without_their_folder() -> None:
    record = {"policy": "KEEP_LATEST_COMMITS", "filesToBeDeletedPerPartition": {"p": [base("f", 1)]}, "version": 1}
    assert read_clean_plan(write_container("HoodieCleanerPlan", record), "plan").files == {"p": (base("f", 1),)}


def test_nothing_is_cleaned_while_the_table_is_restored() -> None:
    history = History().commits(range(1, 6), "p/f")
    history.instant(f"{at(7)}.restore.inflight", b"")
    with pytest.raises(WriteConflict, match="being restored"):
        run(history.table(**TWO))


def test_the_error_of_a_damaged_clean_says_what_to_do() -> None:
    history = History().commits(range(1, 6), "p/f")
    history.instant(f"{at(7)}.clean", b"")
    with pytest.raises(CorruptFile, match="or remove it: the next clean then lists all partitions"):
        run(history.table(**TWO))


def test_contradicting_retention_options_are_refused() -> None:
    given = read_options({"hoodie.keep.min.commits": 30, "hoodie.keep.max.commits": 30})
    with pytest.raises(OptionError, match="must be greater than"):
        check_combinations(given)
