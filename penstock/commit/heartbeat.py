"""Heartbeats: a running writer's sign of life, under the lazy policy for failed writes, and of a table that is written aside.

An empty file `.hoodie/.heartbeat/<instant>` is written again and again; its modification time is the heartbeat. It is there
before the instant is, so that nobody ever finds a living writer without one. Whoever finds it too old may take the write
for dead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock import clock
from penstock import options as o
from penstock.errors import StorageError, WriteConflict
from penstock.storage import FileInfo, Storage, join
from penstock.table import TableState
from penstock.timeline.store import FOLDER


def is_lazy(table: TableState) -> bool:
    """Whether failed writes are left to those who find their heartbeat too old."""
    return table.options[o.FAILED_WRITES_POLICY].upper() == "LAZY"


def heartbeat_path(base_path: str, instant: str) -> str:
    """Where a writer's heartbeat is."""
    return join(base_path, FOLDER, ".heartbeat", instant)


class Heartbeat:
    """The signs of life of one write; silent unless the policy for failed writes asks for them, or somebody `always` does."""

    def __init__(self, table: TableState, *, always: bool = False) -> None:
        self._table, self._time, self._is_silent = table, "", not always and not is_lazy(table)
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def announce(self, time: str) -> None:
        """Give the first sign for an instant that is about to be taken; one that was not got is forgotten."""
        if self._is_silent:
            return
        if self._time:
            stop_heartbeat(self._table.storage, self._table.base_path, self._time)
        self._time = time
        self._beat()

    def start(self) -> None:
        """Give signs of life from now on."""
        if self._time:
            self._thread = threading.Thread(target=self._keep_beating, daemon=True, name=f"heartbeat-{self._time}")
            self._thread.start()

    def _keep_beating(self) -> None:
        while not self._done.wait(self._table.options[o.HEARTBEAT_INTERVAL_MS] / 1000):
            with suppress(StorageError):  # a sign may be missed; the next one makes up for it
                self._beat()

    def _beat(self) -> None:
        self._table.storage.replace(heartbeat_path(self._table.base_path, self._time), b"")

    def stop(self) -> None:
        """Give no more signs; the last one stays, and ages."""
        self._done.set()
        if self._thread:
            self._thread.join()

    def end(self) -> None:
        """Take the last sign away: the write is over."""
        self.stop()
        if self._time:
            stop_heartbeat(self._table.storage, self._table.base_path, self._time)


@contextmanager
def signs_of_life(table: TableState, name: str) -> Iterator[None]:
    """Give signs of life for as long as something is worked on, whatever the policy; the last one stays, and ages."""
    heartbeat = Heartbeat(table, always=True)
    heartbeat.announce(name)
    heartbeat.start()
    try:
        yield
    finally:
        heartbeat.stop()


def is_alive(table: TableState, instant: str) -> bool:
    """Whether a writer's last sign of life is recent enough; one that never gave any is dead."""
    found = table.storage.stat(heartbeat_path(table.base_path, instant))
    return found is not None and is_recent(table, found)


def is_recent(table: TableState, sign: FileInfo) -> bool:
    """Whether who wrote this file may still be at work."""
    allowed = table.options[o.HEARTBEAT_INTERVAL_MS] * table.options[o.HEARTBEAT_TOLERABLE_MISSES]
    return clock.now_ms() - sign.modified_ms <= allowed


def check_alive(table: TableState, instant: str) -> None:
    """Refuse to publish a write that others may already have taken for dead."""
    if is_lazy(table) and not is_alive(table, instant):
        raise WriteConflict(f"Heartbeat for instant {instant} has expired: another writer may be undoing it. Run the write again")


def stop_heartbeat(storage: Storage, base_path: str, instant: str) -> None:
    """Forget a writer that has finished, or that was undone."""
    storage.delete(heartbeat_path(base_path, instant))
