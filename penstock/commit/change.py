"""One change of the table, from its first file on the timeline to its last.

    requested → inflight → (data files, markers first) → completed

`with begin(...)` takes the instant. Leaving the block by an error leaves the instant pending, as a crash would: the next
write rolls it back. Creating the completed file is the only step that makes anything visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.errors import AlreadyExists, CommitUnknown, StorageError
from penstock.filegroup import markers
from penstock.table import TableState
from penstock.timeline.contents import CommitMetadata, WriteStat, write_commit
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, request, transition


@dataclass(frozen=True)
class Change:
    """A write under way."""

    table: TableState
    instant: Instant

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
        markers.seal(storage, base_path, self.time)
        markers.reconcile(storage, base_path, self.time, [s.path for s in stats if s.path])
        metadata = CommitMetadata(
            stats=tuple(stats), operation=operation, extra={**(extra or {}), "schema": schema}, replaced=replaced
        )
        self._publish(write_commit(metadata))
        markers.delete_markers(storage, base_path, self.time)
        return metadata

    def _publish(self, content: bytes) -> None:
        completed = self.instant.at(State.COMPLETED)
        path = instant_path(self.table.base_path, completed)
        try:
            self.table.storage.write_new(path, content)
        except AlreadyExists:
            raise
        except StorageError as e:
            raise CommitUnknown(
                f"publishing {completed.file_name} failed ({e}); if that file exists the write is done, otherwise run it again"
            ) from e


@contextmanager
def begin(table: TableState, action: Action, content: bytes = b"") -> Iterator[Change]:
    """Take an instant for a change of the table."""
    utc = table.config.timeline_utc
    yield Change(table, request(table.storage, table.base_path, action, utc=utc, content=content))
