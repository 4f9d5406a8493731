"""Savepoints and restores on tables in memory: which files are kept, which are deleted, and what is refused."""

from __future__ import annotations

from datetime import datetime

import pytest

from penstock import clock
from penstock.errors import CorruptFile, LockTimeout, OptionError, StorageError, WriteConflict
from penstock.filegroup.names import log_file_name
from penstock.formats.avro.container import read_container
from penstock.formats.log import BlockType, HeaderKey, encode_block, encode_rollback_block, scan_blocks
from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.services.clean.schedule import schedule_clean
from penstock.services.restore import plan_restore, restore
from penstock.services.rollback.requested import roll_back_to
from penstock.services.rollback.run import roll_back
from penstock.services.savepoint import create_savepoint, delete_savepoint, find_lost_file
from penstock.table.savepoints import read_savepoints
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan, ClusteringSlice, write_clustering_plan
from penstock.timeline.restore_file import RestorePlan, RestoreResult, write_restore_plan
from penstock.timeline.store import load_timeline
from tests.unit.services.histories import History, at, base

QUIET = Stages("", "off")
G, H = "g-0", "h-0"


def go_back(table: TableState, number: int) -> RestoreResult:
    return restore(None, table, at(number), QUIET)


def block(number: int) -> bytes:
    return encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: at(number)}, b"")


def test_a_savepoint_holds_the_files_that_a_query_as_of_the_commit_reads() -> None:
    history = History().commits((1, 2), f"a/{G}", f"b/{H}")
    history.commit(3, [f"a/{G}"])
    made = create_savepoint(history.table(), at(2), user="me", comment="why")
    assert dict(made.files) == {"a": (base(G, 2),), "b": (base(H, 2),)}
    assert read_savepoints(history.table()) == [made]
    assert f"{at(2)}.savepoint.inflight" in history.instants()
    delete_savepoint(history.table(), at(2))
    assert not [name for name in history.instants() if "savepoint" in name]
    assert create_savepoint(history.table()).instant == at(3)


def test_either_a_savepoint_or_a_concurrently_planned_clean_is_withdrawn() -> None:
    history = History().commits(range(1, 6), f"a/{G}")
    table = history.table(cleaner_commits_retained=2)
    planned = schedule_clean(table)
    assert planned is not None
    with pytest.raises(OptionError, match="beyond the lookup window"):
        create_savepoint(table, at(1))
    # a clean whose look at the timeline was before the savepoint was there steps back
    history = History().commits(range(1, 6), f"a/{G}")
    table = history.table(cleaner_commits_retained=2)
    create_savepoint(table, at(1))
    assert schedule_clean(table) is None
    assert not [name for name in history.instants() if "clean" in name]
    assert schedule_clean(reload_timeline(table)) is not None  # version 2 goes, version 1 is held
    assert [one.files for one in read_savepoints(history.table())] == [{"a": (base(G, 1),)}]


def test_a_restore_removes_later_instants_newest_first_and_their_files() -> None:
    history = History().commits((1, 2), f"a/{G}")
    create_savepoint(history.table())
    history.commit(3, [f"a/{G}", f"new/{H}"])
    history.commit(4, [f"a/{H}"], action="replacecommit", replaced={"a": (G,)})
    history.instant(f"{at(5)}.commit.requested", b"")
    history.instant(f"{at(5)}.inflight", b"")
    history.instant(f"{at(6)}.rollback", b"")
    history.file(f"a/{base('dead-0', 5)}")
    assert [i.time for i in plan_restore(history.table(), at(2)).instants] == [at(5), at(4), at(3)]
    done = go_back(history.table(), 2)
    assert history.data_files() == [f"a/{base(G, 1)}", f"a/{base(G, 2)}"]
    assert done.files_deleted == 4
    left = {name for name in history.instants() if name > at(3)}
    assert {name.split(".", 1)[1] for name in left} == {"restore.requested", "restore.inflight", "restore"}
    record = read_container(history.storage.read(f"/t/.hoodie/{done.instant}.restore"))
    assert record["restoreInstantInfo"][1] == {"commitTime": at(4), "action": "replacecommit"}
    gone = record["hoodieRestoreMetadata"][at(4)][0]["partitionMetadata"]["a"]["successDeleteFiles"]
    assert gone == [f"/t/a/{base(H, 4)}"]
    assert go_back(history.table(), 2).plan.instants == ()


def test_a_log_file_of_later_blocks_is_deleted_and_in_a_mixed_one_the_later_blocks_are_rolled_back() -> None:
    history = History("MERGE_ON_READ").commit(1, [f"a/{G}"], action="deltacommit")
    for number in (2, 3, 4):
        history.commit(number, [], action="deltacommit")
    names = [f"a/{log_file_name(G, at(1), version, '0-0-0')}" for version in range(1, 6)]
    history.file(names[0], block(2))
    history.file(names[1], block(2) + block(3) + block(4))  # appended to, as Hudi may
    history.file(names[2], block(4))
    history.file(names[3], encode_rollback_block(instant=at(9), target_instant=at(4)))
    history.file(names[4], encode_rollback_block(instant=at(9), target_instant=at(0)))  # of an earlier write: it has to stay
    create_savepoint(history.table(), at(2))
    history.file(f"a/{log_file_name(G, at(3), 1, '0-0-0')}", block(4))
    go_back(history.table(), 2)
    added = [f"a/{log_file_name(G, at(1), version, '1-0-1')}" for version in (6, 7)]
    assert history.data_files() == sorted([names[0], names[1], names[4], *added, f"a/{base(G, 1)}"])
    found = [next(iter(scan_blocks(history.storage.read(f"/t/{name}")))) for name in added]
    assert {one.target_instant for one in found} == {at(3), at(4)}


@pytest.mark.parametrize("content", [b"", b"Obj", b"not avro at all"])
def test_a_torn_plan_is_deleted_if_it_was_not_begun_and_an_error_if_it_was(content: bytes) -> None:
    history = History().commits((1, 2), f"a/{G}")
    create_savepoint(history.table(), at(1))
    history.instant(f"{at(3)}.restore.requested", content)
    assert [i.time for i in go_back(history.table(), 1).plan.instants] == [at(2)]
    history.instant(f"{at(90)}.restore.requested", content)
    history.instant(f"{at(90)}.restore.inflight", b"")
    with pytest.raises(CorruptFile, match=r"has begun, but its plan cannot be read.*remove .*restore\.inflight and the plan"):
        go_back(history.table(), 1)


def test_a_restore_removes_the_requested_restores_of_other_processes() -> None:
    history = History().commits((1, 2), f"a/{G}")
    create_savepoint(history.table(), at(1))
    plan = plan_restore(history.table(), at(1))
    for number in (3, 4):
        history.instant(f"{at(number)}.restore.requested", write_restore_plan(plan))
    done = go_back(history.table(), 1)
    assert (done.instant, load_timeline(history.storage, "/t").pending) == (at(3), ())


def test_a_plan_that_misses_a_later_write_is_not_run() -> None:
    history = History().commits((1, 2), f"a/{G}")
    create_savepoint(history.table(), at(1))
    history.instant(f"{at(3)}.restore.requested", write_restore_plan(RestorePlan(at(1))))
    with pytest.raises(WriteConflict, match="does not know of the later write"):
        go_back(history.table(), 1)
    assert len(history.data_files()) == 2


def test_a_restore_past_the_archive_is_refused() -> None:
    history = History().commits((1,), f"a/{G}")
    history.savepoint(1, {"a": [base(G, 1)]})
    history.commits(range(2, 9), f"a/{G}")
    keep = {"keep_min_commits": 2, "keep_max_commits": 3, "cleaner_commits_retained": 1}
    assert archive(history.table(**keep)) is None  # held by the savepoint
    assert archive(history.table(archive_beyond_savepoint=True, **keep)) is not None
    with pytest.raises(OptionError, match="later commit .* is archived"):
        go_back(history.table(), 1)
    with pytest.raises(OptionError, match="it was archived"):
        create_savepoint(history.table(), at(2))


def test_nothing_is_cleaned_archived_or_savepointed_while_a_restore_is_pending() -> None:
    history = History().commits((1, 2), f"a/{G}")
    create_savepoint(history.table(), at(1))
    history.instant(f"{at(3)}.restore.requested", b"")
    for refused in (lambda t: clean(None, t, QUIET), archive, lambda t: create_savepoint(t, at(2))):
        with pytest.raises(WriteConflict, match="is being restored"):
            refused(history.table())


def test_a_restore_does_not_begin_if_a_write_began_while_it_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History().commits((1, 2), f"a/{G}")
    create_savepoint(history.table(), at(1))
    monkeypatch.setattr("penstock.services.restore.plan_restore", lambda table, to: RestorePlan(to))
    with pytest.raises(WriteConflict, match="began at the same time"):
        go_back(history.table(), 1)
    assert not load_timeline(history.storage, "/t").pending
    assert history.data_files() == [f"a/{base(G, 1)}", f"a/{base(G, 2)}"]


@pytest.mark.parametrize(
    "error", [LockTimeout("held"), StorageError("no answer"), KeyboardInterrupt()], ids=["no lock", "storage", "Ctrl-C"]
)
@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_restore_that_gets_no_turn_is_withdrawn(
    is_resumed: bool, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History().commits((1, 2), f"a/{G}")
    create_savepoint(history.table(), at(1))
    if is_resumed:
        plan = plan_restore(history.table(), at(1))
        history.instant(f"{at(90)}.restore.requested", write_restore_plan(plan))

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("penstock.services.restore._check_turn", fail)
        with pytest.raises(type(error)):
            go_back(history.table(), 1)
    assert history.table().timeline.pending_restore is None
    assert f"a/{base(G, 2)}" in history.data_files()
    assert [i.time for i in go_back(history.table(), 1).plan.instants] == [at(2)]


def test_a_restore_that_gets_no_turn_leaves_the_plan_that_another_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History().commits((1, 2), f"a/{G}")
    create_savepoint(history.table(), at(1))

    def begin_elsewhere(*_: object) -> None:
        pending = history.table().timeline.pending_restore
        assert pending is not None
        history.instant(f"{pending.time}.restore.inflight", b"")
        raise LockTimeout("held")

    with monkeypatch.context() as patch:
        patch.setattr("penstock.services.restore._check_turn", begin_elsewhere)
        with pytest.raises(LockTimeout):
            go_back(history.table(), 1)
    assert [i.time for i in go_back(history.table(), 1).plan.instants] == [at(2)]


def test_a_savepoint_does_not_need_a_cleaned_group_that_an_archived_commit_replaced() -> None:
    history = History().commit(1, ["p/a-0", "q/b-0"]).commit(2, ["p/c-0"], action="replacecommit", replaced={"p": ("a-0",)})
    history.commits(range(3, 6), "q/b-0")
    keep = {"cleaner_commits_retained": 1, "keep_min_commits": 2, "keep_max_commits": 3}
    assert clean(None, history.table(**keep), Stages("", "off"))
    assert archive(history.table(**keep)) is not None
    assert not any(name.startswith(at(2)) for name in history.instants())
    assert find_lost_file(history.table(), at(4)) is None
    assert create_savepoint(history.table()).files == {"p": (base("c-0", 2),), "q": (base("b-0", 5),)}


def test_later_commits_do_not_need_cleaned_files_of_writes_that_a_restore_undid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "local_now", lambda: datetime(2024, 1, 1, 0, 0, 10))  # of the clean, and of the restore
    history = History().commits((1, 2), f"a/{G}", f"b/{H}")
    create_savepoint(history.table(), at(2))
    history.commits(range(3, 7), f"a/{G}", f"b/{H}")
    taken = clean(None, history.table(cleaner_commits_retained=1), QUIET)[0].partitions["a"].deleted
    assert base(G, 4) in taken
    go_back(history.table(), 2)
    history.commits((20, 21), f"b/{H}")  # the newest version in a is the savepoint's, older than what was cleaned
    assert find_lost_file(history.table(), at(20)) is None
    assert create_savepoint(history.table(), at(20)).files["a"] == (base(G, 2),)
    assert roll_back_to(history.table(), at(21))


@pytest.mark.parametrize(
    "error", [LockTimeout("held"), StorageError("no answer"), KeyboardInterrupt()], ids=["no lock", "storage", "Ctrl-C"]
)
def test_a_rollback_of_a_commit_that_gets_no_turn_is_withdrawn(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History().commits((1, 2), f"a/{G}")

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("penstock.services.rollback.completed.refuse_single_writers", fail)
        with pytest.raises(type(error)):
            roll_back(history.table(), history.table().timeline.writes[-1])
    assert not load_timeline(history.storage, "/t").pending
    assert at(2) in history.table().timeline.completed_times
    roll_back(history.table(), history.table().timeline.writes[-1])
    assert at(2) not in history.table().timeline.completed_times


def test_a_write_that_a_pending_clustering_reads_is_not_rolled_back() -> None:
    history = History("MERGE_ON_READ").commits((1,), f"a/{G}").commit(2, [f"a/{G}", f"b/{H}"], action="deltacommit")
    clustering = ClusteringPlan((ClusteringGroup((ClusteringSlice("b", H, base(H, 2)),)),))
    history.instant(f"{at(3)}.replacecommit.requested", write_clustering_plan(clustering, "/t"))
    with pytest.raises(OptionError, match=rf"{at(3)} of /t waits to read what write {at(2)} has written.*unschedule"):
        roll_back_to(history.table(), at(2))
    history.storage.delete(f"/t/.hoodie/{at(3)}.replacecommit.requested")
    elsewhere = ClusteringPlan((ClusteringGroup((ClusteringSlice("c", "other-0", base("other-0", 1)),)),))
    history.instant(f"{at(3)}.replacecommit.requested", write_clustering_plan(elsewhere, "/t"))
    assert roll_back_to(history.table(), at(2))
