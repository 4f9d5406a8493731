"""Heartbeats: how other processes know that a writer is alive.

A heartbeat is the file `.hoodie/.heartbeat/<instant>`. The writer replaces the file at regular intervals; its modification time
is the last beat. If the last beat is too old, other processes consider the write dead. Hudi's heartbeats are empty files.
Penstock's name the writing process, so that a process of the same machine knows at once that the writer has ended.

The heartbeat file is created before the instant, so no process ever sees the instant of a living writer without a heartbeat.
Writers of real Hudi have heartbeats only under the lazy policy for failed writes.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.commit.modes import is_lazy, is_optimistic
from penstock.errors import AlreadyExists, StorageError, WriteConflict
from penstock.filegroup.markers import TEMP
from penstock.process import Process, has_ended, this_process
from penstock.storage import FileInfo, Storage, is_older, join
from penstock.table.state import TableState
from penstock.timeline.instant import Instant
from penstock.timeline.store import FOLDER

#: The folder in `.hoodie` with the heartbeat files.
HEARTBEATS = ".heartbeat"
#: The ids of the heartbeats of this process that are beating. A process may hold several: one for each write under way.
_BEATING: set[str] = set()


def heartbeat_path(base_path: str, instant: str) -> str:
    """Return the path of the heartbeat file of the writer of `instant`."""
    return join(base_path, FOLDER, HEARTBEATS, instant)


def list_heartbeats(table: TableState) -> list[FileInfo]:
    """Return all files in the table's heartbeat folder, including the files of dead writers."""
    return table.storage.list(join(table.base_path, FOLDER, HEARTBEATS))


@dataclass(frozen=True)
class Owner:
    """The writer that a heartbeat file names: its process, and the id of its heartbeat in that process."""

    process: Process
    #: The id of the heartbeat, different for each write.
    heartbeat_id: str
    #: Whether the writer expects others: it has optimistic concurrency control.
    expects_others: bool = False

    def encode(self) -> bytes:
        """Return the content of a heartbeat file that names this writer."""
        values = {"process": asdict(self.process), "id": self.heartbeat_id, "expectsOthers": self.expects_others}
        return json.dumps(values).encode()

    @classmethod
    def decode(cls, content: bytes) -> Owner | None:
        """Return the writer that a heartbeat file names; None for an empty file, as Hudi writes it, or an unknown layout."""
        try:
            values: dict[str, Any] = json.loads(content)
            return cls(Process(**values["process"]), values["id"], bool(values.get("expectsOthers")))
        except (ValueError, TypeError, KeyError):
            return None

    @property
    def is_gone(self) -> bool:
        """Whether the writer is known to have ended: its process has ended, or its heartbeat was stopped in this process."""
        if self.process == this_process():
            return self.heartbeat_id not in _BEATING
        return has_ended(self.process)


class Heartbeat:
    """The heartbeat of one write, of one run of a plan, or of the new table of save mode `overwrite`.

    Args:
        expects_others: whether other writers may work at the same time; None: `hoodie.write.concurrency.mode` decides.
    """

    def __init__(self, table: TableState, *, expects_others: bool | None = None) -> None:
        self._table = table
        self._time = ""
        self._last_beat_s: float | None = None
        expects = is_optimistic(table) if expects_others is None else expects_others
        self._owner = Owner(this_process(), clock.new_uuid(), expects)
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The name of the heartbeat file: the instant time. "" before the heartbeat is announced."""
        return self._time

    def announce(self, time: str) -> bool:
        """Create the heartbeat file of an instant that is about to be created. Return True; False if another writer has the file.

        If the instant time turns out to be taken, call this again with another time: the first heartbeat file is then deleted.
        """
        _BEATING.add(self._owner.heartbeat_id)
        if self._time:
            delete_heartbeat(self._table.storage, self._table.base_path, self._time)
            self._time = ""
        began_s = clock.elapsed_s()
        try:
            # Never replaced: two writers may try the same time, and the file of the one that gets it must stay.
            self._table.storage.write_new(heartbeat_path(self._table.base_path, time), self._owner.encode())
        except AlreadyExists:
            return False
        self._time = time
        self._last_beat_s = began_s
        return True

    def announce_run(self, time: str) -> None:
        """Write the heartbeat file of a plan that is about to be run. A new file names this writer.

        If the file exists, another run of the plan may be alive. Then it is replaced by an empty file, which names no writer
        until one of the two runs beats next. Until it expires, an empty file counts as that of a living writer.

        Args:
            time: the instant time of the plan.
        """
        _BEATING.add(self._owner.heartbeat_id)
        self._time = time
        path = heartbeat_path(self._table.base_path, time)
        try:
            self._table.storage.write_new(path, self._owner.encode())
        except AlreadyExists:
            self._table.storage.replace(path, b"")

    def start(self) -> None:
        """Start a thread that replaces the heartbeat file at the interval `hoodie.client.heartbeat.interval_in_ms`."""
        if self._time:
            self._thread = threading.Thread(target=self._keep_beating, daemon=True, name=f"heartbeat-{self._time}")
            self._thread.start()

    def _keep_beating(self) -> None:
        """Replace the heartbeat file at regular intervals until `stop` is called. Runs in the heartbeat's thread."""
        while not self._done.wait(self._table.options[o.HEARTBEAT_INTERVAL_MS] / 1000):
            with suppress(StorageError):  # a beat may be missed: others wait for several before they take a write for dead
                self.beat()

    def beat(self) -> None:
        """Replace the heartbeat file, so that its modification time is now."""
        began_s = clock.elapsed_s()
        self._table.storage.replace(heartbeat_path(self._table.base_path, self._time), self._owner.encode())
        self._last_beat_s = began_s

    @property
    def age_s(self) -> float:
        """The seconds since the last beat was sent to the storage; infinite before the first. The file is not older."""
        return math.inf if self._last_beat_s is None else clock.elapsed_s() - self._last_beat_s

    def stop(self) -> None:
        """Stop the thread that replaces the heartbeat file. The file stays and expires."""
        self._done.set()
        if self._thread:
            self._thread.join()
        _BEATING.discard(self._owner.heartbeat_id)

    def end(self) -> None:
        """Stop the thread that replaces the heartbeat file, and delete the file, because the write is over."""
        # The thread is joined first. A beat that came after the delete would leave a heartbeat without a writer.
        self.stop()
        if self._time:
            delete_heartbeat(self._table.storage, self._table.base_path, self._time)


@contextmanager
def keep_heartbeat(table: TableState, name: str) -> Iterator[None]:
    """Keep a heartbeat while the `with` block runs. Afterwards the heartbeat file stays and expires.

    Save mode `overwrite` uses it while the new table is written, so that no other process deletes the new table as a leftover.

    Args:
        name: the name of the heartbeat file, in place of an instant time.
    """
    heartbeat = Heartbeat(table)
    try:
        heartbeat.announce(name)
        heartbeat.start()
        yield
    finally:
        heartbeat.stop()


def is_alive(table: TableState, instant: str) -> bool:
    """Whether the writer of an instant is alive: its heartbeat is recent, and its process is not known to have ended.

    False if the instant has no heartbeat file.
    """
    if not has_recent_heartbeat(table, instant):
        return False
    owner = _read_owner(table.storage, heartbeat_path(table.base_path, instant))
    return owner is None or not owner.is_gone


def is_single_writer(table: TableState, instant: str) -> bool:
    """Whether the writer of an instant is a living writer of Penstock that runs as the only writer of the table.

    These are writers in the mode `single_writer`, and those of save mode `overwrite`. False for a writer of Hudi, whose heartbeat
    file does not show its mode.
    """
    owner = _read_owner(table.storage, heartbeat_path(table.base_path, instant))
    return owner is not None and not owner.expects_others and is_alive(table, instant)


def has_recent_heartbeat(table: TableState, name: str) -> bool:
    """Whether the heartbeat file `name` was written recently. False if there is no heartbeat file of this name."""
    file = table.storage.stat(heartbeat_path(table.base_path, name))
    return file is not None and is_recent(table, file)


def describe_writer(table: TableState, instant: Instant) -> str:
    """Return a few words about a living writer, for messages: its instant, process, host and the time of its last heartbeat."""
    path = heartbeat_path(table.base_path, instant.time)
    owner = _read_owner(table.storage, path)
    file = table.storage.stat(path)
    process = f"process {owner.process.pid} on {owner.process.host}" if owner else "a writer that does not name itself"
    beat = f", last heartbeat {max(0, clock.now_ms() - file.modified_ms) // 1000} s ago" if file else ""
    return f"{process} has been writing to it since {instant.time} ({instant.file_name}{beat})"


def _read_owner(storage: Storage, path: str) -> Owner | None:
    """Return the writer that a heartbeat file names. Return None if the file names no writer, or does not exist any more."""
    try:
        return Owner.decode(storage.read(path))
    except FileNotFoundError:
        return None


def is_recent(table: TableState, file: FileInfo) -> bool:
    """Whether a file was modified so recently that its writer counts as alive.

    The limit is `hoodie.client.heartbeat.interval_in_ms` times `hoodie.client.heartbeat.tolerable.misses`. It is the clock of the
    storage that decides: the clock of this process may be ahead, behind or set back.
    """
    allowed_ms = table.options[o.HEARTBEAT_INTERVAL_MS] * table.options[o.HEARTBEAT_TOLERABLE_MISSES]
    return not is_older(table.storage, file, allowed_ms, join(table.base_path, FOLDER, TEMP))


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
    storage.delete_files([heartbeat_path(base_path, instant)])
