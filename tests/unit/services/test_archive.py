"""Archiving: which instants leave the timeline, their entries in the archive, and that no run doubles or loses one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.errors import CorruptFile, StorageError, WriteConflict
from penstock.formats.avro.container import read_container, write_container
from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.services.rollback.run import roll_back
from penstock.timeline.archive import entry_key, list_archive_files, load_archive, read_entries, write_entries
from penstock.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from penstock.timeline.timeline import Timeline
from tests.unit.services.histories import CALLS, History, NotedStorage, at, base

FEW = {"keep_min_commits": 3, "keep_max_commits": 5, "cleaner_commits_retained": 1}


def times(history: History) -> list[int]:
    """Return the numbers of the commits on the timeline."""
    writes = Timeline.from_names(history.instants()).writes
    return [int(i.time[10:12]) * 60 + int(i.time[12:14]) for i in writes]


def archived(history: History) -> list[tuple[str, str, str]]:
    return [entry_key(entry) for entry in load_archive(history.storage, "/t")]


def test_the_oldest_instants_are_archived_when_there_are_more_than_the_limit() -> None:
    history = History().commits(range(1, 6), "p/f")
    assert archive(history.table(**FEW)) is None
    history.commit(6, ["p/f"])
    done = archive(history.table(**FEW))
    assert done is not None
    assert times(history) == [4, 5, 6]
    assert done.file == "/t/.hoodie/archived/.commits_.archive.1_1-0-1"
    assert archived(history) == [(at(n), "commit", s) for n in (1, 2, 3) for s in ("REQUESTED", "INFLIGHT", "COMPLETED")]
    assert len(history.instants()) == 9


def test_an_entry_holds_the_content_of_the_instant() -> None:
    history = History().commits(range(1, 7), "p/f")
    archive(history.table(**FEW))
    first, _, third = load_archive(history.storage, "/t")[:3]
    assert first["hoodieCommitMetadata"]["operationType"] == "UNKNOWN"
    assert third["hoodieCommitMetadata"]["operationType"] == "UPSERT"
    stat = third["hoodieCommitMetadata"]["partitionToWriteStats"]["p"][0]
    assert (stat["fileId"], stat["numWrites"], stat["prevCommit"]) == ("f", 1, "null")
    assert len(third["stateTransitionTime"]) == 17


def test_commits_that_cleaning_needs_stay_whatever_the_limits() -> None:
    history = History().commits(range(1, 11), "p/f")
    options = {"keep_min_commits": 2, "keep_max_commits": 3, "cleaner_commits_retained": 6}
    archive(history.table(**options))  # 5 is the earliest retained; 5 after it, and two more
    assert times(history) == [4, 5, 6, 7, 8, 9, 10]
    history = History().commits(range(1, 11), "p/f")
    archive(history.table(keep_min_commits=2, keep_max_commits=3, cleaner_fileversions_retained=9))
    assert times(history) == [9, 10]


def test_commits_from_a_savepoint_on_stay_unless_the_options_say_otherwise() -> None:
    history = History().commits(range(1, 10), "p/f")
    history.savepoint(3, {"p": [base("f", 3)]})
    archive(history.table(**FEW))
    assert times(history) == [3, 4, 5, 6, 7, 8, 9]
    archive(history.table(**FEW, archive_beyond_savepoint=True))
    assert times(history) == [3, 8, 9]
    assert history.table().timeline.is_visible(at(5))


@pytest.mark.parametrize("pending", ["commit.requested", "compaction.requested", "replacecommit.inflight"])
def test_commits_from_the_one_before_a_pending_write_on_stay(pending: str) -> None:
    history = History().commits(range(1, 4), "p/f")
    history.instant(f"{at(4)}.{pending}", b"")
    history.commits(range(5, 12), "p/f")
    archive(history.table(keep_min_commits=3, keep_max_commits=5, cleaner_fileversions_retained=1))
    assert times(history) == [3, *range(5, 12)]


def test_delta_commits_that_the_compaction_trigger_counts_stay() -> None:
    history = History("MERGE_ON_READ")
    for number in range(1, 4):
        history.commit(number, ["p/f"], action="deltacommit")
    history.commit(4, ["p/f"])  # a compaction
    for number in range(5, 13):
        history.commit(number, ["p/f"], action="deltacommit")
    archive(history.table(**FEW, compact_inline_max_delta_commits=20))
    assert times(history) == list(range(4, 13))
    archive(history.table(**FEW, compact_inline_max_delta_commits=5))
    assert times(history) == list(range(8, 13))


def test_a_replace_commit_stays_while_its_file_groups_have_files() -> None:
    history = History().commit(1, ["p/f"])
    history.commit(2, ["p/g"], action="replacecommit", replaced={"p": ("f",)}).commits(range(3, 10), "p/g")
    archive(history.table(**FEW))
    assert times(history) == list(range(2, 10))
    history.storage.delete(f"/t/p/{base('f', 1)}")
    archive(history.table(**FEW))
    assert times(history) == [7, 8, 9]
    replaced = [
        e["hoodieReplaceCommitMetadata"] for e in load_archive(history.storage, "/t") if e["actionType"] == "replacecommit"
    ]
    assert replaced[-1]["partitionToReplaceFileIds"] == {"p": ["f"]}


def test_cleans_and_rollbacks_have_limits_of_their_own_and_plans_leave_with_their_commit() -> None:
    history = History("MERGE_ON_READ")
    for number in range(1, 9):
        history.commit(number, ["p/f"])
        clean(None, history.table(cleaner_commits_retained=1), Stages("", "off"), due=True)
    history.instant(f"{at(9)}.compaction.requested", write_compaction_plan(CompactionPlan()))
    history.instant(f"{at(9)}.compaction.inflight", b"")
    history.instant(f"{at(9)}.commit", b"{}")
    for number in range(10, 16):
        history.instant(f"{at(number)}.deltacommit.requested", b"")
        roll_back(history.table(), history.table().timeline.pending[-1])
    archive(history.table(**FEW, compact_inline_max_delta_commits=1))
    kinds = {kind: sum(key[1] == kind for key in archived(history)) for kind in ("clean", "rollback", "commit", "compaction")}
    assert kinds == {"clean": 9, "rollback": 9, "commit": 18, "compaction": 0}
    for number in range(20, 24):
        history.commit(number, ["p/f"])
    archive(history.table(**FEW, compact_inline_max_delta_commits=1))
    states = [key[1:] for key in archived(history) if key[0] == at(9)]
    assert states == [("compaction", "REQUESTED"), ("compaction", "INFLIGHT"), ("commit", "COMPLETED")]


def test_several_instants_share_a_block() -> None:
    history = History().commits(range(1, 8), "p/f")
    archive(history.table(**FEW, commits_archival_batch=5))
    content = history.storage.read("/t/.hoodie/archived/.commits_.archive.1_1-0-1")
    assert content.count(b"#HUDI#") == 3
    assert len(list(read_entries(content, "x"))) == 12


class Dying(NotedStorage):
    """A storage that dies at the n-th call that changes something."""

    left = -1

    def _step(self) -> None:
        if Dying.left == 0:
            raise StorageError("the storage died")
        Dying.left -= 1

    def write_new(self, path: str, data: bytes) -> None:
        self._step()
        super().write_new(path, data)

    def delete(self, path: str) -> bool:
        self._step()
        return super().delete(path)


@pytest.fixture(autouse=True)
def alive() -> Iterator[None]:
    yield
    Dying.left = -1
    CALLS.clear()


def test_a_run_that_dies_at_any_storage_call_loses_and_doubles_nothing() -> None:
    for calls in range(40):
        history = History().commits(range(1, 8), "p/f")
        history.storage = Dying(history.storage.name)
        options = {**FEW, "archive_merge_enable": True, "archive_merge_files_batch_size": 2}
        archive(history.table(**FEW))
        history.commits(range(8, 12), "p/f")
        Dying.left = calls
        died = False
        try:
            archive(history.table(**options))
        except StorageError:
            died = True
        Dying.left = -1
        timeline = history.table().timeline
        assert not timeline.pending
        assert all(timeline.is_visible(at(n)) for n in range(1, 12))
        archive(history.table(**options))
        history.commits(range(12, 15), "p/f")
        archive(history.table(**options))
        assert times(history) == [12, 13, 14]
        found = [
            entry_key(e)
            for f in list_archive_files(history.storage, "/t")
            for e in read_entries(history.storage.read(f.path), f.name)
        ]
        assert [key[0] for key in found] == sorted(key[0] for key in found), calls
        assert len(found) == len(set(found)) == 33, calls
        assert not any("mergeArchivePlan" in f.name for f in history.storage.list("/t/.hoodie/archived"))
        if not died:
            return
    raise AssertionError("it never got to its end")


def test_small_archive_files_are_merged_back_to_the_last_large_one() -> None:
    history = History()
    small = {"archive_merge_enable": True, "archive_merge_files_batch_size": 3}
    for first in range(1, 30, 3):
        history.commits(range(first, first + 3), "p/f")
        archive(history.table(**FEW, **small))
    files = list_archive_files(history.storage, "/t")
    assert 0 < len(files) < 3
    assert len(archived(history)) == 3 * (30 - len(times(history)))
    limit = files[0].size_bytes - 1
    history.commits(range(31, 45), "p/f")
    for _ in range(4):
        archive(history.table(**FEW, **small, archive_merge_small_file_limit_bytes=limit))
    assert files[0].path in [f.path for f in list_archive_files(history.storage, "/t")]


def test_a_merge_of_hudi_that_died_is_finished_or_taken_back() -> None:
    history = History().commits(range(1, 8), "p/f")
    archive(history.table(**FEW))
    folder = "/t/.hoodie/archived"
    one = f"{folder}/.commits_.archive.1_1-0-1"
    record = {"candidate": [f"file:{one}"], "mergedArchiveFileName": ".commits_.archive.2_1-0-1"}
    history.storage.write_new(f"{folder}/mergeArchivePlan", write_container("HoodieMergeArchiveFilePlan", record))
    history.storage.write_new(f"{folder}/.commits_.archive.2_1-0-1", b"half of it")
    history.commits(range(8, 12), "p/f")
    archive(history.table(**FEW))
    names = [f.name for f in history.storage.list(folder)]
    assert names == [".commits_.archive.1_1-0-1", ".commits_.archive.2_1-0-1"]
    assert len(archived(history)) == 24
    assert read_container(write_container("HoodieMergeArchiveFilePlan", record))["candidate"] == [f"file:{one}"]


def test_an_unreadable_instant_stops_archiving_or_stays_on_the_timeline() -> None:
    history = History().commits((1,), "p/f")
    history.instant(f"{at(2)}.commit", b"torn")
    history.commits(range(3, 9), "p/f")
    before = history.instants()
    with pytest.raises(CorruptFile, match=f"{at(2)}.commit cannot be archived.*restore the file|Restore it"):
        archive(history.table(**FEW))
    assert history.instants() == before
    with pytest.warns(RuntimeWarning, match="stays on the timeline"):
        archive(history.table(**FEW, fail_on_timeline_archiving=False))
    assert times(history) == [2, 6, 7, 8]


def test_a_torn_archive_file_is_an_error_and_nothing_is_removed() -> None:
    history = History().commits(range(1, 8), "p/f")
    history.storage.write_new("/t/.hoodie/archived/.commits_.archive.4_1-0-1", write_entries([{"version": None}], 1)[:-9])
    with pytest.raises(CorruptFile, match=r"archive\.4"):
        archive(history.table(**FEW))
    assert len(times(history)) == 7


def test_nothing_is_archived_while_the_table_is_restored() -> None:
    history = History().commits(range(1, 9), "p/f")
    history.instant(f"{at(9)}.restore.requested", b"")
    with pytest.raises(WriteConflict, match="being restored"):
        archive(history.table(**FEW))


def test_the_cost_is_that_of_the_archived_instants() -> None:
    history = History().commits(range(1, 60), "p/f")
    history.calls()
    archive(history.table(keep_min_commits=49, keep_max_commits=50, cleaner_commits_retained=1))
    noted = CALLS[history.storage.name]
    assert sum(what == "delete" for what, _ in noted) == 10 * 3
    assert sum(what == "read" and "commit" in path for what, path in noted) == 10 * 2
    assert sum(what == "list" and "metadata" not in path for what, path in noted) == 3  # the timeline twice, the archive
    history.calls()
    archive(history.table(keep_min_commits=49, keep_max_commits=50))
    assert CALLS[history.storage.name] == [("list", "/t/.hoodie")]  # loading the timeline
