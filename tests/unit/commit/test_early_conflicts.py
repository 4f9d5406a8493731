"""Early conflict detection: of two writes of one file group the later one stops while its tasks run, and waits for the other."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from penstock.commit.begin import begin
from penstock.commit.change import Change
from penstock.commit.early_conflicts import wait_for_writer
from penstock.errors import StorageError, WriteConflict
from penstock.filegroup.markers import Marker, MarkerStyle, MarkerType, announce, check_open
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.storage import MemoryStorage
from penstock.table.config import write_config
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, make_workload_profile, write_commit
from penstock.timeline.instant import Action

EARLY = "hoodie.write.concurrency.early.conflict."
STRATEGIES = "org.apache.hudi.client.transaction."
OPTIONS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "storage",
    f"{EARLY}detection.enable": "true",
    "hoodie.write.markers.type": "DIRECT",
}
ASYNC = {
    f"{EARLY}detection.strategy": f"{STRATEGIES}AsyncTimelineServerBasedDetectionStrategy",
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms": "10",
    "hoodie.write.concurrency.async.conflict.detector.period_ms": "10",
}
SHARED = ("oslo", "g1")


def make_table(**more: str) -> TableState:
    options = read_options({**OPTIONS, **more})
    storage = MemoryStorage(uuid.uuid4().hex)
    return TableState(storage, "/t", write_config(storage, "/t", {"hoodie.table.name": "t"}, new=True), options)


def profile(*groups: tuple[str, str]) -> CommitMetadata:
    """Return the workload profile of a write that is about to update these file groups."""
    return make_workload_profile(Operation.UPSERT, {"oslo": 1}, [(path, file_id, "1", 1) for path, file_id in groups])


@contextmanager
def writing(table: TableState, *groups: tuple[str, str], announced: tuple[str, ...] = ()) -> Iterator[Change]:
    """Begin a write that is about to update file groups and has announced files. It is undone at the end."""
    with suppress(ZeroDivisionError), begin(table, Action.COMMIT) as change:
        change.start(profile(*groups))
        announce_files(table, change, *announced)
        yield change
        raise ZeroDivisionError  # ends the write as a failed one


def announce_files(table: TableState, change: Change, *paths: str) -> None:
    announce(table.storage, "/t", change.time, [Marker(path, MarkerType.MERGE) for path in paths], MarkerStyle.DIRECT)


def run_tasks(change: Change, tasks: Callable[[], object], cancel: Callable[[], object] = list) -> WriteConflict | None:
    """Run the tasks of a write with early conflict detection. Return the conflict that stopped them; None if none did."""
    try:
        with change.stop_at_conflict(cancel):
            tasks()
    except WriteConflict as e:
        return e
    return None


@pytest.mark.parametrize(
    ("groups", "announced"), [((SHARED,), ()), ((), ("oslo/g1_0-0-0_1.parquet",)), ((), ("oslo/.g1_1.log.1_0-0-0",))]
)
def test_the_later_of_two_writes_stops_before_its_first_task(
    groups: tuple[tuple[str, str], ...], announced: tuple[str, ...]
) -> None:
    table = make_table()
    ran = []
    with writing(table, *groups, announced=announced) as earlier, writing(table, SHARED) as later:
        conflict = run_tasks(later, lambda: ran.append("task"))
        assert conflict is not None
        assert "file group g1 of partition 'oslo'" in str(conflict)
        assert f"since {earlier.time}" in str(conflict)
        assert conflict.other_instant == earlier.time
        with pytest.raises(StorageError, match="is closed"):
            check_open(table.storage, "/t", later.time)
        assert run_tasks(earlier, lambda: ran.append("earlier task")) is None
    assert ran == ["earlier task"]


def test_a_conflict_that_begins_while_the_tasks_run_cancels_them() -> None:
    table = make_table(**ASYNC)
    cancelled = threading.Event()
    with writing(table, ("rome", "g9")) as earlier, writing(table, SHARED) as later:

        def run_until_cancelled() -> None:
            announce_files(table, earlier, "oslo/g1_0-0-0_1.parquet")
            assert cancelled.wait(30)
            raise RuntimeError("the job was cancelled")

        conflict = run_tasks(later, run_until_cancelled, cancelled.set)
        assert str(conflict.__cause__ if conflict else None) == "the job was cancelled"


@pytest.mark.parametrize("other", ["elsewhere", "dead", "withdrawn", "off"])
def test_a_write_goes_on_beside_one_that_does_not_conflict(other: str) -> None:
    table = make_table(**({f"{EARLY}detection.enable": "false"} if other == "off" else {}))
    ran = []
    with writing(table, ("oslo", "g2") if other == "elsewhere" else SHARED) as earlier, writing(table, SHARED) as later:
        if other == "dead":
            table.storage.delete(f"/t/.hoodie/.heartbeat/{earlier.time}")
        if other == "withdrawn":
            earlier.withdraw()
        assert run_tasks(later, lambda: ran.append("task")) is None
    assert ran == ["task"]


def test_an_error_of_the_tasks_that_is_no_conflict_stays_what_it_is() -> None:
    table = make_table()
    with writing(table, SHARED) as change, pytest.raises(RuntimeError, match="disk"), change.stop_at_conflict(lambda: None):
        raise RuntimeError("disk is full")


@pytest.mark.parametrize("checks_commits", [True, False])
def test_completed_commits_are_compared_too_if_the_options_say_so(checks_commits: bool) -> None:
    table = make_table(**{f"{EARLY}check.commit.conflict": str(checks_commits).lower()})
    ran = []
    with writing(table, SHARED) as change:
        theirs = CommitMetadata((WriteStat("g1", "oslo", "oslo/g1_0-0-0_0.parquet", prev_commit="0"),), "UPSERT")
        table.storage.write_new("/t/.hoodie/00000000000000001.commit", write_commit(theirs))
        conflict = run_tasks(change, lambda: ran.append("task"))
    assert ran == ([] if checks_commits else ["task"])
    assert (conflict.other_instant if conflict else None) == ("00000000000000001" if checks_commits else None)


def test_the_loser_waits_until_the_winner_is_over() -> None:
    table = make_table()
    done = threading.Event()
    with writing(table, SHARED) as earlier:
        conflict = WriteConflict("lost", other_instant=earlier.time)

        def wait() -> None:
            wait_for_writer(table, conflict)
            done.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert not done.wait(0.3)
    thread.join(30)
    assert done.is_set()
    wait_for_writer(table, WriteConflict("lost to no single write"))


def test_new_buckets_of_one_number_conflict() -> None:
    table = make_table(**{"hoodie.index.type": "BUCKET"})
    with writing(table, announced=("oslo/00000003-a_0-0-0_1.parquet",)), writing(table) as later:
        announce_files(table, later, "oslo/00000003-b_0-0-0_1.parquet")
        assert "file group 00000003-b" in str(run_tasks(later, list))


def test_a_look_without_other_writers_is_one_listing_of_the_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table()
    calls: list[tuple[str, str]] = []

    def note_calls(name: str) -> None:
        """Note the calls of one method of the storage."""
        real = getattr(MemoryStorage, name)

        def call(storage: MemoryStorage, path: str) -> Any:
            calls.append((name, path))
            return real(storage, path)

        monkeypatch.setattr(MemoryStorage, name, call)

    with writing(table, SHARED) as change:
        for name in ("list", "list_tree", "read", "stat"):
            note_calls(name)
        assert run_tasks(change, list) is None
        monkeypatch.undo()
    assert calls == [("list", "/t/.hoodie")]


def test_a_look_that_fails_does_not_stop_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table()
    ran = []
    with writing(table, SHARED), writing(table, SHARED) as later:

        def fail(storage: MemoryStorage, path: str) -> Any:
            raise StorageError("the store does not answer")

        with monkeypatch.context() as patched:
            patched.setattr(MemoryStorage, "list", fail)
            assert run_tasks(later, lambda: ran.append("task")) is None
    assert ran == ["task"]
