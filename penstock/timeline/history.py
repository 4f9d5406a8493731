"""The completed writes of a table, on the active and on the archived timeline, oldest first, each with its commit metadata."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import CorruptFile
from penstock.storage import Storage
from penstock.timeline.archive import Entry, load_archive
from penstock.timeline.commit_file import CommitMetadata, parse_commit
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import read_metadata
from penstock.timeline.timeline import Timeline

#: The field of an archived entry that holds commit metadata, by action.
_METADATA_FIELDS = {Action.REPLACE_COMMIT.value: "hoodieReplaceCommitMetadata"}
_METADATA_FIELD = "hoodieCommitMetadata"
_WRITE_ACTIONS = frozenset(action.value for action in WRITE_ACTIONS)


@dataclass(frozen=True)
class InstantRange:
    """A range of instant times. `begin` is excluded, `end` included."""

    begin: str
    end: str

    def holds(self, time: str) -> bool:
        """Whether an instant time is in the range: later than `begin`, and not later than `end`."""
        return self.begin < time <= self.end


@dataclass(frozen=True)
class CompletedWrite:
    """A completed write: its instant and its commit metadata."""

    instant: Instant
    metadata: CommitMetadata

    @property
    def time(self) -> str:
        """The instant time of the write."""
        return self.instant.time


def list_writes(
    storage: Storage, base_path: str, timeline: Timeline, within: InstantRange, archive_folder: str = "archived"
) -> list[CompletedWrite]:
    """Return the completed writes in the range `within`, oldest first, each with its commit metadata.

    The archived timeline is read only if the range begins before the active timeline, or if a write was archived after `timeline`
    was loaded.

    Args:
        timeline: the active timeline.
        archive_folder: the name of the folder of the archived timeline below `.hoodie`.

    Raises:
        CorruptFile: the commit metadata of a write cannot be read, or is neither on the active nor on the archived timeline.
    """
    active = [i for i in timeline.writes if within.holds(i.time)]
    write_by_time: dict[str, CompletedWrite] = {}
    for instant in active:
        with suppress(FileNotFoundError):  # archived since the timeline was loaded
            write_by_time[instant.time] = CompletedWrite(instant, read_metadata(storage, base_path, instant))
    begins_before_timeline = timeline.start is not None and within.begin < timeline.start
    if len(write_by_time) < len(active) or begins_before_timeline:
        for write in _read_archived(storage, base_path, archive_folder, within):
            write_by_time.setdefault(write.time, write)
    for instant in active:
        if instant.time not in write_by_time:
            raise CorruptFile(
                f"{instant.file_name} of {base_path} is neither on the timeline any more nor archived; run the query again"
            )
    return [write_by_time[time] for time in sorted(write_by_time)]


def _read_archived(storage: Storage, base_path: str, folder: str, within: InstantRange) -> Iterator[CompletedWrite]:
    """Yield the completed writes in the range `within` from the archived timeline.

    Args:
        folder: the name of the archive's folder below `.hoodie`.
    """

    def is_wanted(entry: Entry) -> bool:
        is_completed_write = entry["actionState"] == State.COMPLETED.name and entry["actionType"] in _WRITE_ACTIONS
        return is_completed_write and within.holds(entry["commitTime"] or "")

    for entry in load_archive(storage, base_path, folder, is_wanted):
        instant = Instant(entry["commitTime"], Action(entry["actionType"]), State.COMPLETED)
        content = entry.get(_METADATA_FIELDS.get(entry["actionType"], _METADATA_FIELD)) or {}
        yield CompletedWrite(instant, parse_commit(content, f"{instant.file_name} of the archived timeline"))
