"""The storage lock in memory: what contenders do that are stopped between any two of their calls, and what is deleted when."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import clock
from penstock.commit.locks.lock import LockContext, LockHolder
from penstock.commit.locks.storage import _KEEP_MS, StorageLock
from penstock.errors import AlreadyExists, StorageError
from penstock.options import Options
from penstock.storage import MemoryStorage

FOLDER = "/t/.hoodie/.aux/locks"
_names = itertools.count()


@dataclass
class Clock:
    """A clock that tests set. Nothing sleeps: a sleep moves the clock."""

    now_s: float = 1000.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of leases, of files and of waits."""
    fake = Clock()
    monkeypatch.setattr(clock, "elapsed_s", lambda: fake.now_s)
    monkeypatch.setattr(clock, "now_ms", lambda: int(fake.now_s * 1000))
    monkeypatch.setattr(clock, "sleep_s", fake.sleep)
    monkeypatch.setattr("penstock.storage.memory.now_ms", lambda: int(fake.now_s * 1000))
    # Holders of this test are one process. The renewal is called by tests, not by threads.
    monkeypatch.setattr(LockHolder, "is_gone", False)
    monkeypatch.setattr("penstock.commit.locks.lease.threading.Thread.start", lambda self: None)
    monkeypatch.setattr("penstock.commit.locks.lease.threading.Thread.join", lambda self: None)
    return fake


@pytest.fixture
def storage() -> MemoryStorage:
    """An empty storage."""
    return MemoryStorage(f"locks-{next(_names)}")


def lock_on(storage: Any) -> StorageLock:
    options = {"hoodie.write.lock.storage.validity.timeout.secs": "30", "hoodie.write.lock.storage.renew.interval.secs": "10"}
    return StorageLock(LockContext("/t", "t", Options(options), storage))


@contextmanager
def taken(storage: MemoryStorage) -> Iterator[None]:
    """Hold the lock once."""
    lock = lock_on(storage)
    assert lock.acquire(1)
    yield
    lock.release()


def names(storage: MemoryStorage) -> list[str]:
    return [file.name for file in storage.list(FOLDER)]


class Hooked:
    """A storage that runs a function before or after the first call of a method."""

    def __init__(self, storage: MemoryStorage, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None) -> None:
        self._storage = storage
        self._before = before or {}
        self._after = after or {}

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._storage, name)

        def hooked(*arguments: Any) -> Any:
            self._before.pop(name, lambda: None)()
            result = call(*arguments)
            self._after.pop(name, lambda: None)()
            return result

        return hooked


def test_a_lock_is_a_numbered_file_and_its_end_another(time: Clock, storage: MemoryStorage) -> None:
    lock = lock_on(storage)
    assert lock.acquire(1, "20260101000000000")
    assert names(storage) == ["000000000001.lease"]
    content = json.loads(storage.read(f"{FOLDER}/000000000001.lease"))
    assert (content["lease_s"], content["renewals"], content["holder"]["instant"]) == (30, 0, "20260101000000000")
    assert lock.renew()
    assert json.loads(storage.read(f"{FOLDER}/000000000001.lease"))["renewals"] == 1
    lock.release()
    assert names(storage) == ["000000000001.lease", "000000000001.released"]
    assert lock.acquire(1)
    assert lock.fencing_number == 2


def test_a_holder_has_lost_its_lease_before_a_contender_takes_it(time: Clock, storage: MemoryStorage) -> None:
    holder = lock_on(storage)
    contender = lock_on(storage)
    assert holder.acquire(1)
    took_over_s = None
    while took_over_s is None:
        was_held = holder.is_held()
        if contender.acquire(0.25):
            took_over_s = time.now_s
            assert not was_held
    assert 1030 < took_over_s < 1032
    assert not holder.renew()
    holder.release()
    assert contender.is_held()
    assert contender.fencing_number == 2


def test_a_renewal_makes_contenders_wait_again(time: Clock, storage: MemoryStorage) -> None:
    holder = lock_on(storage)
    contender = lock_on(storage)
    assert holder.acquire(1)
    assert not contender.acquire(20)
    assert holder.renew()
    assert not contender.acquire(25)
    assert holder.is_held()
    assert contender.acquire(20)
    assert not holder.is_held()


def test_a_lease_that_has_ended_is_not_renewed(time: Clock, storage: MemoryStorage) -> None:
    holder = lock_on(storage)
    assert holder.acquire(1)
    time.sleep(30)
    assert not holder.renew()
    assert not holder.is_held()
    assert json.loads(storage.read(f"{FOLDER}/000000000001.lease"))["renewals"] == 0


def test_a_holder_that_is_stopped_inside_of_a_renewal_has_lost_the_lock(time: Clock, storage: MemoryStorage) -> None:
    contender = lock_on(storage)
    holder = lock_on(Hooked(storage, before={"replace": lambda: (time.sleep(1), contender.acquire(60))}))
    assert holder.acquire(1)
    assert not holder.renew()
    assert not holder.is_held()
    assert contender.is_held()


def test_one_of_two_contenders_takes_over(time: Clock, storage: MemoryStorage) -> None:
    dead = lock_on(storage)
    assert dead.acquire(1)
    first = lock_on(storage)
    second = lock_on(Hooked(storage))
    assert not first.acquire(29)
    assert not second.acquire(29)
    time.sleep(31)
    # The second contender has decided, and the first one is faster: between its listing and its file.
    second = lock_on(Hooked(storage, before={"write_new": lambda: first.acquire(1)}))
    second._watch = first._watch
    assert not second.acquire(0.1)
    assert first.is_held()
    assert names(storage) == ["000000000001.lease", "000000000002.lease"]


def test_a_contender_that_was_stopped_takes_no_number_that_was_deleted(time: Clock, storage: MemoryStorage) -> None:
    """The hole that deleted numbers could open: a contender creates number 2 after numbers 2 to 4 came and went."""

    def others() -> None:
        for _ in range(4):
            lock = lock_on(storage)
            assert lock.acquire(1)
            lock.release()
            time.sleep(_KEEP_MS / 1000 + 1)
        last = lock_on(storage)
        assert last.acquire(1)
        last.release()
        assert "000000000002.lease" not in names(storage)
        assert holder.acquire(1)

    holder = lock_on(storage)
    with taken(storage):
        pass
    late = lock_on(Hooked(storage, after={"list": others}))
    assert not late.acquire(0.1)
    assert holder.is_held()
    assert storage.stat(f"{FOLDER}/000000000002.lease") is not None  # it could be created, and was not believed
    assert not late.is_held()
    assert storage.stat(f"{FOLDER}/000000000002.released") is not None


def test_old_files_are_deleted_and_young_ones_stay(time: Clock, storage: MemoryStorage) -> None:
    for _ in range(20):
        with taken(storage):
            time.sleep(10)
    numbers = sorted({int(name[:12]) for name in names(storage)})
    assert numbers[-1] == 20
    assert 6 <= len(numbers) <= 10
    assert numbers == list(range(numbers[0], 21))


def test_a_broken_lock_is_lost_and_a_later_holder_is_not_hit(time: Clock, storage: MemoryStorage) -> None:
    holder = lock_on(storage)
    other = lock_on(storage)
    assert holder.acquire(1)
    broken = other.break_lock()
    assert broken is not None
    assert not holder.is_held()
    assert not holder.renew()
    assert other.acquire(1)
    holder.release()
    assert other.is_held()
    assert other.holder() is not None


def test_an_answer_that_was_lost_is_not_a_lost_lock(time: Clock, storage: MemoryStorage) -> None:
    """A client of an object store repeats a request whose answer did not arrive, and finds its own file."""

    def fail() -> None:
        raise AlreadyExists(17, "the file exists already", "")

    lock = lock_on(Hooked(storage, after={"write_new": fail}))
    assert lock.acquire(1)
    assert lock.is_held()


def test_an_error_while_the_file_is_created_leaves_the_lock_free(time: Clock, storage: MemoryStorage) -> None:
    def fail() -> None:
        raise StorageError(5, "the network failed", "")

    lock = lock_on(Hooked(storage, after={"write_new": fail}))
    with pytest.raises(StorageError):
        lock.acquire(1)
    assert lock.holder() is None
    assert lock_on(storage).acquire(0.1)


def test_other_files_in_the_folder_are_ignored(time: Clock, storage: MemoryStorage) -> None:
    storage.write_new(f"{FOLDER}/.000000000009.lease.x.tmp", b"")
    storage.write_new(f"{FOLDER}/readme", b"")
    lock = lock_on(storage)
    assert lock.acquire(1)
    assert lock.fencing_number == 1


def test_a_lease_file_that_cannot_be_read_expires(time: Clock, storage: MemoryStorage) -> None:
    storage.write_new(f"{FOLDER}/000000000007.lease", b"?")
    lock = lock_on(storage)
    assert not lock.acquire(29)
    holder = lock.holder()
    assert holder is not None
    assert "does not name its holder" in holder.owner
    assert lock.acquire(5)
    assert lock.fencing_number == 8


def test_every_interleaving_of_two_contenders_has_one_holder(time: Clock) -> None:
    """Two contenders for an expired lease: the second runs whole before each of the first one's calls in turn."""
    for call in ("list", "read", "write_new"):
        storage = MemoryStorage(f"locks-{next(_names)}")
        dead = lock_on(storage)
        assert dead.acquire(1)
        other = lock_on(storage)
        assert not other.acquire(29)
        time.sleep(31)
        first = lock_on(Hooked(storage, before={call: lambda other=other: other.acquire(1)}))
        first._watch = other._watch
        got = first.acquire(0.1)
        assert [got, other.is_held()] == [False, True]
