"""One change of the table, from its first file on the timeline to its last.

    requested → inflight → (data files, markers first) → completed

`with begin(...)` takes the instant. An error of ours inside the block takes everything back; anything else (a crash, a lost
executor, Ctrl-C) leaves the instant pending, and the next write rolls it back. Creating the completed file is the only step
that makes anything visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from penstock.commit.heartbeat import beating, check_alive, stop_heartbeat
from penstock.errors import AlreadyExists, CommitUnknown, PenstockError, StorageError
from penstock.filegroup import markers
from penstock.storage import join
from penstock.table import TableState
from penstock.timeline.contents import CommitMetadata, WriteStat, write_commit
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, request, transition


class Change:
    """A write under way."""

    def __init__(self, table: TableState, instant: Instant) -> None:
        self.table, self.instant = table, instant
        self._publishing = False

    @property
    def time(self) -> str:
        """The instant's time."""
        return self.instant.time

    def start(self, profile: CommitMetadata | None = None) -> None:
        """Go inflight; from here on data files may be written."""
        content = write_commit(profile, profile=True) if profile else b""
        transition(self.table.storage, self.table.base_path, self.instant, State.INFLIGHT, content)

    def complete(
        self,
        stats: Sequence[WriteStat],
        *,
        operation: str,
        schema: str,
        extra: Mapping[str, str] | None = None,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
    ) -> CommitMetadata:
        """Publish the write: files of lost attempts removed, metadata written, markers forgotten.

        Raises:
            CommitUnknown: the storage failed while publishing, so the commit may or may not be there.
        """
        storage, base_path = self.table.storage, self.table.base_path
        check_alive(self.table, self.time)
        markers.seal(storage, base_path, self.time)
        markers.reconcile(storage, base_path, self.time, [s.path for s in stats if s.path])
        metadata = CommitMetadata(
            stats=tuple(stats), operation=operation, extra={**(extra or {}), "schema": schema}, replaced=replaced
        )
        self._publish(write_commit(metadata))
        with suppress(StorageError):  # the commit stands; leftovers of it are cleaned up by a later write
            markers.delete_markers(storage, base_path, self.time)
            stop_heartbeat(storage, base_path, self.time)
        return metadata

    def _publish(self, content: bytes) -> None:
        completed = self.instant.at(State.COMPLETED)
        self._publishing = True
        try:
            self.table.storage.write_new(instant_path(self.table.base_path, completed), content)
        except AlreadyExists:
            raise
        except StorageError as e:
            raise CommitUnknown(
                f"publishing {completed.file_name} failed ({e}); if that file exists the write is done, otherwise run it again"
            ) from e

    def abandon(self, *, tasks_may_run: bool) -> None:
        """Take everything back, as if the write had never begun; unless it may already have been published.

        Args:
            tasks_may_run: a Spark job broke off, so that some of its tasks may still be at work: the seal stays.
        """
        if self._publishing:
            return
        storage, base_path = self.table.storage, self.table.base_path
        markers.seal(storage, base_path, self.time)
        for marker in markers.read_markers(storage, base_path, self.time):
            storage.delete(join(base_path, marker.file_path))
        for state in (State.INFLIGHT, State.REQUESTED):
            storage.delete(instant_path(base_path, self.instant.at(state)))
        markers.delete_markers(storage, base_path, self.time)
        if tasks_may_run:
            markers.seal(storage, base_path, self.time)
        stop_heartbeat(storage, base_path, self.time)


@contextmanager
def begin(table: TableState, action: Action, content: bytes = b"") -> Iterator[Change]:
    """Take an instant for a change of the table."""
    instant = request(table.storage, table.base_path, action, utc=table.config.timeline_utc, content=content)
    change = Change(table, instant)
    with beating(table, instant.time):
        try:
            yield change
        except PenstockError as e:
            with suppress(StorageError):  # what cannot be taken back now is rolled back by the next write
                change.abandon(tasks_may_run=e.__cause__ is not None)
            raise
