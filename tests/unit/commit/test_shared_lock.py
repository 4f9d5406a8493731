"""One lock object that several threads share: a thread that fails to acquire the lock leaves it to the others."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import pytest

from penstock.commit.locks.acquire import hold_lock
from penstock.commit.locks.in_process import InProcessLock
from penstock.commit.locks.lock import LockContext, LockHolder
from penstock.errors import LockTimeout
from penstock.options import Options
from penstock.storage import MemoryStorage

#: A thread that waits for the lock ends its attempt at once.
IMPATIENT = {"hoodie.write.lock.wait_time_ms": "10", "hoodie.write.lock.client.num_retries": "0"}


class SlowLock(InProcessLock):
    """A lock that can be made to wait in the middle of an acquisition."""

    def __init__(self) -> None:
        super().__init__(LockContext("/t", "t", Options(IMPATIENT), MemoryStorage(uuid.uuid4().hex)))
        self.is_taking = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        self.is_taking.set()
        assert self.go_on.wait(30)
        return super()._take(mine, deadline_s)


def run(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def fail_to_acquire(lock: SlowLock) -> None:
    with pytest.raises(LockTimeout), hold_lock(lock):
        pass


def test_a_thread_that_gives_up_does_not_release_the_lock_of_another_thread() -> None:
    lock = SlowLock()
    with hold_lock(lock):
        run(lambda: fail_to_acquire(lock)).join()
        assert lock.is_held()
    assert lock.holder() is None


def test_a_thread_that_gives_up_does_not_end_the_acquisition_of_another_thread() -> None:
    lock = SlowLock()
    lock.go_on.clear()
    held: list[bool] = []

    def hold() -> None:
        with hold_lock(lock):
            held.append(lock.is_held())

    holder = run(hold)
    assert lock.is_taking.wait(30)
    fail_to_acquire(lock)
    lock.go_on.set()
    holder.join()
    assert held == [True]
    assert lock.holder() is None
    assert lock.acquire(1)


def test_any_thread_may_close_the_lock() -> None:
    lock = SlowLock()
    assert lock.acquire(1)
    run(lock.close).join()
    assert lock.holder() is None
    assert lock.acquire(1)
