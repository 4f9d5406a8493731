"""Heartbeats: how other processes know that a writer is alive.

A heartbeat is the empty file `.hoodie/.heartbeat/<instant>`. The writer replaces the file at regular intervals; its modification
time is the last beat. If the last beat is too old, other processes consider the write dead. Writes have heartbeats only under the
lazy policy for failed writes; the new table of save mode `overwrite` always has one.

The heartbeat file is created before the instant, so no process ever sees the instant of a living writer without a heartbeat.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock import clock
from penstock import options as o
from penstock.errors import StorageError, WriteConflict
from penstock.storage import FileInfo, Storage, join
from penstock.table.state import TableState
from penstock.timeline.store import FOLDER


def is_lazy(table: TableState) -> bool:
    """Whether the policy for failed writes is lazy: a pending write is rolled back only when its heartbeat has expired."""
    return table.options[o.FAILED_WRITES_POLICY].upper() == "LAZY"


def heartbeat_path(base_path: str, instant: str) -> str:
    """Return the path of the heartbeat file of an instant time."""
    return join(base_path, FOLDER, ".heartbeat", instant)


class Heartbeat:
    """The heartbeat of one write. All methods do nothing unless the policy for failed writes is lazy or `always` is set.

    Args:
        always: whether to beat under every policy for failed writes.
    """

    def __init__(self, table: TableState, *, always: bool = False) -> None:
        self._table = table
        self._time = ""
        self._is_off = not always and not is_lazy(table)
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def announce(self, time: str) -> None:
        """Write the heartbeat file of an instant that is about to be created.

        A second call, with another instant time because the first was already in use, deletes the first heartbeat file.
        """
        if self._is_off:
            return
        if self._time:
            delete_heartbeat(self._table.storage, self._table.base_path, self._time)
        self._time = time
        self._beat()

    def start(self) -> None:
        """Start a thread that beats at the interval `hoodie.client.heartbeat.interval_in_ms`."""
        if self._time:
            self._thread = threading.Thread(target=self._keep_beating, daemon=True, name=f"heartbeat-{self._time}")
            self._thread.start()

    def _keep_beating(self) -> None:
        """Beat at regular intervals until `stop` is called. Runs in the heartbeat's thread."""
        while not self._done.wait(self._table.options[o.HEARTBEAT_INTERVAL_MS] / 1000):
            with suppress(StorageError):  # a beat may be missed: others wait for several before they take a write for dead
                self._beat()

    def _beat(self) -> None:
        """Replace the heartbeat file, which sets its modification time to now."""
        self._table.storage.replace(heartbeat_path(self._table.base_path, self._time), b"")

    def stop(self) -> None:
        """Stop the thread that beats. The heartbeat file stays and expires."""
        self._done.set()
        if self._thread:
            self._thread.join()

    def end(self) -> None:
        """Stop the thread that beats and delete the heartbeat file, because the write is over."""
        # The thread is joined first. A beat that came after the delete would leave a heartbeat without a writer.
        self.stop()
        if self._time:
            delete_heartbeat(self._table.storage, self._table.base_path, self._time)


@contextmanager
def keep_heartbeat(table: TableState, name: str) -> Iterator[None]:
    """Beat while the `with` block runs, under every policy for failed writes. Afterwards the heartbeat file stays and expires.

    Args:
        name: the name of the heartbeat file, in place of an instant time.
    """
    heartbeat = Heartbeat(table, always=True)
    heartbeat.announce(name)
    heartbeat.start()
    try:
        yield
    finally:
        heartbeat.stop()


def is_alive(table: TableState, instant: str) -> bool:
    """Whether the last beat of an instant time is recent. False if the instant has no heartbeat file."""
    file = table.storage.stat(heartbeat_path(table.base_path, instant))
    return file is not None and is_recent(table, file)


def is_recent(table: TableState, file: FileInfo) -> bool:
    """Whether a file was modified so recently that its writer counts as alive.

    The limit is the heartbeat interval times the number of beats that may be missed, both from the options.
    """
    allowed_ms = table.options[o.HEARTBEAT_INTERVAL_MS] * table.options[o.HEARTBEAT_TOLERABLE_MISSES]
    return clock.now_ms() - file.modified_ms <= allowed_ms


def check_alive(table: TableState, instant: str) -> None:
    """Raise WriteConflict if the heartbeat of a write has expired, because other processes may be rolling the write back.

    Do nothing unless the policy for failed writes is lazy.

    Args:
        instant: the instant time of the write.
    """
    if is_lazy(table) and not is_alive(table, instant):
        raise WriteConflict(f"Heartbeat for instant {instant} has expired: another writer may be undoing it. Run the write again")


def delete_heartbeat(storage: Storage, base_path: str, instant: str) -> None:
    """Delete the heartbeat file of an instant time, after its write was completed or rolled back."""
    storage.delete(heartbeat_path(base_path, instant))
