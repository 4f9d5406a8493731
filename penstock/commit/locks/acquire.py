"""`hold_lock`: acquires the lock of a table with retries, and releases it on every way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock import clock
from penstock import options as o
from penstock.commit.locks.lease import jitter
from penstock.commit.locks.lock import LockProvider
from penstock.errors import LockTimeout


@dataclass(frozen=True)
class HeldLock:
    """A lock that this process has acquired, the seconds that it waited for the lock, and the number of attempts."""

    lock: LockProvider
    waited_s: float
    attempts: int

    def is_held(self) -> bool:
        """Whether the lock is still held: not expired, broken or taken over. Asks the server, or reads the file."""
        return self.lock.is_held()


@contextmanager
def hold_lock(lock: LockProvider, instant: str = "") -> Iterator[HeldLock]:
    """Hold a lock while the `with` block runs, and yield the acquired lock. It is released whatever ends the block, also Ctrl-C.

    One attempt waits `hoodie.write.lock.wait_time_ms`. There are `hoodie.write.lock.client.num_retries` further attempts, with
    pauses of at most `hoodie.write.lock.client.wait_time_ms_between_retry`, with jitter.

    Args:
        instant: the instant that will be published, which `LockProvider.holder` shows to other processes.

    Raises:
        LockTimeout: another writer held the lock in every attempt.
        StorageError: the server or storage failed.
    """
    try:
        # Inside of `try`: Ctrl-C between the acquisition and the block still releases the lock.
        yield _acquire(lock, instant)
    finally:
        lock.release()


def _acquire(lock: LockProvider, instant: str) -> HeldLock:
    """Acquire the lock with retries. Raise LockTimeout if all attempts fail."""
    options = lock.context.options
    attempts = 1 + options[o.LOCK_CLIENT_RETRIES]
    began_s = clock.monotonic_s()
    for attempt in range(1, attempts + 1):
        if lock.acquire(options[o.LOCK_WAIT_MS] / 1000, instant):
            return HeldLock(lock, clock.monotonic_s() - began_s, attempt)
        if attempt < attempts:
            clock.sleep_s(jitter(options[o.LOCK_CLIENT_RETRY_MS] / 1000))
    raise _timeout(lock, attempts, clock.monotonic_s() - began_s)


def _timeout(lock: LockProvider, attempts: int, waited_s: float) -> LockTimeout:
    """Return the LockTimeout for a lock that was not acquired. It says who holds the lock, since when, and what to do."""
    options = lock.context.options
    holder = lock.holder()
    held = f"held by {holder.describe()}" if holder else "free again now"
    times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    return LockTimeout(
        f"the lock of table {lock.context.table_name} ({lock.name}: {lock.place}) was not acquired in {waited_s:.1f} s, {times}: "
        f"it is {held}. Write again later; raise {o.LOCK_WAIT_MS.key}={options[o.LOCK_WAIT_MS]} or "
        f"{o.LOCK_CLIENT_RETRIES.key}={options[o.LOCK_CLIENT_RETRIES]} to wait longer; or break the "
        "lock if its holder is dead (Table.break_lock, penstock lock break)"
    )
