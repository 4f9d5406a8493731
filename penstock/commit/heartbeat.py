"""Heartbeats: a running writer's sign of life, under the lazy policy for failed writes.

An empty file `.hoodie/.heartbeat/<instant>` is written again and again; its modification time is the heartbeat. It is there
before the instant is, so that nobody ever finds a living writer without one. Whoever finds it too old may take the write
for dead.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from penstock import clock
from penstock import options as o
from penstock.errors import StorageError, WriteConflict
from penstock.storage import Storage, join
from penstock.table import TableState
from penstock.timeline.store import FOLDER


def is_lazy(table: TableState) -> bool:
    """Whether failed writes are left to those who find their heartbeat too old."""
    return table.options[o.FAILED_WRITES_POLICY].upper() == "LAZY"


def heartbeat_path(base_path: str, instant: str) -> str:
    """Where a writer's heartbeat is."""
    return join(base_path, FOLDER, ".heartbeat", instant)


class Heartbeat:
    """The signs of life of one write; silent unless the policy for failed writes asks for them."""

    def __init__(self, table: TableState) -> None:
        self._table, self._time = table, ""
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def announce(self, time: str) -> None:
        """Give the first sign for an instant that is about to be taken; one that was not got is forgotten."""
        if not is_lazy(self._table):
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


def is_alive(table: TableState, instant: str) -> bool:
    """Whether a writer's last sign of life is recent enough; one that never gave any is dead."""
    found = table.storage.stat(heartbeat_path(table.base_path, instant))
    allowed = table.options[o.HEARTBEAT_INTERVAL_MS] * table.options[o.HEARTBEAT_TOLERABLE_MISSES]
    return found is not None and clock.now_ms() - found.modified_ms <= allowed


def check_alive(table: TableState, instant: str) -> None:
    """Refuse to publish a write that others may already have taken for dead."""
    if is_lazy(table) and not is_alive(table, instant):
        raise WriteConflict(f"Heartbeat for instant {instant} has expired: another writer may be undoing it. Run the write again")


def stop_heartbeat(storage: Storage, base_path: str, instant: str) -> None:
    """Forget a writer that has finished, or that was undone."""
    storage.delete(heartbeat_path(base_path, instant))
