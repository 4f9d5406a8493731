"""Taking instants: each is later than all others and belongs to one process, however many ask at the same moment."""

from __future__ import annotations

import multiprocessing
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import AlreadyExists, StorageError, WriteConflict
from penstock.storage import LocalStorage, MemoryStorage, Storage
from penstock.timeline.commit_file import CommitMetadata, write_commit
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, load_timeline, read_metadata, request_instant, transition

EACH = 12


@pytest.fixture(params=["memory", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Storage, str]:
    if request.param == "memory":
        return MemoryStorage(uuid.uuid4().hex), "/table"
    return LocalStorage(), str(tmp_path)


def take(storage: Storage, base_path: str, action: Action, count: int = EACH) -> list[str]:
    return [request_instant(storage, base_path, action, utc=True).time for _ in range(count)]


def take_in_process(base_path: str, action: Action) -> list[str]:
    return take(LocalStorage(), base_path, action)


def test_instants_grow_strictly(place: tuple[Storage, str]) -> None:
    times = take(*place, Action.COMMIT)
    assert times == sorted(set(times))


def test_threads_never_share_an_instant(place: tuple[Storage, str]) -> None:
    actions = [Action.COMMIT, Action.COMMIT, Action.CLEAN, Action.ROLLBACK]
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda action: take(*place, action), actions))
    assert all(times == sorted(set(times)) for times in taken)
    every = [time for times in taken for time in times]
    assert len(set(every)) == len(every) == len(actions) * EACH
    assert sorted(every) == sorted(i.time for i in load_timeline(*place).instants)


def test_processes_never_share_an_instant(tmp_path: Path) -> None:
    actions = [Action.COMMIT, Action.COMMIT, Action.DELTA_COMMIT, Action.CLEAN]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        taken = pool.starmap(take_in_process, [(str(tmp_path), action) for action in actions])
    assert all(times == sorted(set(times)) for times in taken)
    every = [time for times in taken for time in times]
    assert len(set(every)) == len(every) == len(actions) * EACH


class AlwaysTaken(MemoryStorage):
    """A storage that answers every conditional put with "exists already"."""

    def write_new(self, path: str, data: bytes) -> None:
        raise AlreadyExists(17, "the file exists already", path)


def test_a_storage_that_calls_every_name_taken_is_an_error_after_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("penstock.clock.sleep_s", pauses.append)
    with pytest.raises(StorageError, match="answers conditional puts wrongly"):
        request_instant(AlwaysTaken(uuid.uuid4().hex), "/table", Action.COMMIT, utc=True)
    assert len(pauses) < 100
    assert 30 <= sum(pauses) < 31
    assert pauses[0] < 0.002 < pauses[10]


def test_an_instant_is_later_than_one_from_a_clock_ahead_of_ours(place: tuple[Storage, str]) -> None:
    storage, base = place
    storage.write_new(instant_path(base, Instant("29991231235959999", Action.CLEAN, State.COMPLETED)), b"")
    assert request_instant(storage, base, Action.COMMIT, utc=True).time == "30000101000000000"


def test_an_instant_is_later_than_a_time_that_is_no_longer_on_the_timeline(place: tuple[Storage, str]) -> None:
    assert request_instant(*place, Action.COMMIT, utc=True, after="29990101000000000").time == "29990101000000001"


def test_a_writer_tries_again_if_a_writer_with_a_faster_clock_came_in_between(tmp_path: Path) -> None:
    """Its listing was taken before the other's instant appeared; the other's is later and must stay the last."""

    class Behind(LocalStorage):
        listed = 0

        def write_new(self, path: str, data: bytes) -> None:
            if not Behind.listed:
                Behind.listed = 1
                late = Instant("29990101000000000", Action.CLEAN, State.REQUESTED)
                LocalStorage().write_new(instant_path(str(tmp_path), late), b"")
            super().write_new(path, data)

    taken = request_instant(Behind(), str(tmp_path), Action.COMMIT, utc=True)
    assert taken.time == "29990101000000001"
    assert [i.time for i in load_timeline(LocalStorage(), str(tmp_path)).instants] == [
        "29990101000000000",
        "29990101000000001",
    ]


class Repeating(LocalStorage):
    """Does everything twice, as after a lost answer."""

    def write_new(self, path: str, data: bytes) -> None:
        super().write_new(path, data)
        super().write_new(path, data)


def test_a_plan_that_the_storage_wrote_twice_is_one_plan(tmp_path: Path) -> None:
    taken = request_instant(Repeating(), str(tmp_path), Action.ROLLBACK, utc=True, content=b"plan", is_plan=True)
    assert load_timeline(LocalStorage(), str(tmp_path)).instants == (taken,)


def test_a_write_never_takes_an_instant_that_another_process_may_have(tmp_path: Path) -> None:
    """Another write's file says just the same; two that share an instant would delete each other's rows."""
    for name, content, is_plan in (("same", b"replace", False), ("other plan", b"plan", True)):
        path = str(tmp_path / name)

        class Late(LocalStorage):
            """Another process takes the first time just before the test does."""

            taken = 0

            def write_new(self, path: str, data: bytes) -> None:
                if not Late.taken:
                    Late.taken = 1
                    super().write_new(path, b"replace")
                super().write_new(path, data)

        ours = request_instant(Late(), path, Action.REPLACE_COMMIT, utc=True, content=content, is_plan=is_plan)
        assert [i.time for i in load_timeline(LocalStorage(), path).instants][1:] == [ours.time], name


def test_a_state_is_entered_only_once(place: tuple[Storage, str]) -> None:
    instant = request_instant(*place, Action.COMMIT, utc=True)
    transition(*place, instant, State.INFLIGHT)
    with pytest.raises(AlreadyExists):
        transition(*place, instant, State.INFLIGHT)
    assert transition(*place, instant, State.COMPLETED, b"{}").is_completed
    assert load_timeline(*place).last_write == instant.in_state(State.COMPLETED)


def test_an_instant_that_was_rolled_back_cannot_complete(place: tuple[Storage, str]) -> None:
    """Its data files are gone by then; completing it would publish rows that are not there."""
    storage, base = place
    instant = request_instant(storage, base, Action.COMMIT, utc=True)
    transition(storage, base, instant, State.INFLIGHT)
    storage.delete(instant_path(base, instant.in_state(State.INFLIGHT)))
    storage.delete(instant_path(base, instant))
    with pytest.raises(WriteConflict, match="rolled it back"):
        transition(storage, base, instant, State.COMPLETED, b"{}")
    assert load_timeline(storage, base).instants == ()


def test_the_content_of_a_commit_is_what_was_published(place: tuple[Storage, str]) -> None:
    instant = request_instant(*place, Action.COMMIT, utc=True)
    transition(*place, instant, State.INFLIGHT)
    metadata = CommitMetadata(operation="INSERT", extra={"schema": "s"})
    done = transition(*place, instant, State.COMPLETED, write_commit(metadata))
    assert read_metadata(*place, done) == metadata
