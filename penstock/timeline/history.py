"""The completed writes of a table in order of time, those that were archived too, with what each of them did."""

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

#: Where an archived entry keeps what a completed write did.
_FIELDS = {Action.REPLACE_COMMIT.value: "hoodieReplaceCommitMetadata"}
_FIELD = "hoodieCommitMetadata"
_WRITES = frozenset(action.value for action in WRITE_ACTIONS)


@dataclass(frozen=True)
class InstantRange:
    """The instants after one time, up to and with another."""

    begin: str
    end: str

    def holds(self, time: str) -> bool:
        """Whether a time is in the range."""
        return self.begin < time <= self.end


@dataclass(frozen=True)
class CompletedWrite:
    """A completed write."""

    instant: Instant
    metadata: CommitMetadata

    @property
    def time(self) -> str:
        """The time of its instant."""
        return self.instant.time


def list_writes(
    storage: Storage, base_path: str, timeline: Timeline, within: InstantRange, archive_folder: str = "archived"
) -> list[CompletedWrite]:
    """The completed writes in a range, oldest first. The archive is read only if the range begins before the active timeline.

    Raises:
        CorruptFile: the metadata of one cannot be read.
    """
    active = [i for i in timeline.writes if within.holds(i.time)]
    found: dict[str, CompletedWrite] = {}
    for instant in active:
        with suppress(FileNotFoundError):  # archived just now
            found[instant.time] = CompletedWrite(instant, read_metadata(storage, base_path, instant))
    if len(found) < len(active) or (timeline.start is not None and within.begin < timeline.start):
        for write in _archived(storage, base_path, archive_folder, within):
            found.setdefault(write.time, write)
    if gone := next((i for i in active if i.time not in found), None):
        raise CorruptFile(
            f"{gone.file_name} of {base_path} is neither on the timeline any more nor archived; run the query again"
        )
    return [found[time] for time in sorted(found)]


def _archived(storage: Storage, base_path: str, folder: str, within: InstantRange) -> Iterator[CompletedWrite]:
    def is_asked_for(entry: Entry) -> bool:
        is_write = entry["actionState"] == State.COMPLETED.name and entry["actionType"] in _WRITES
        return is_write and within.holds(entry["commitTime"] or "")

    for entry in load_archive(storage, base_path, folder, is_asked_for):
        instant = Instant(entry["commitTime"], Action(entry["actionType"]), State.COMPLETED)
        content = entry.get(_FIELDS.get(entry["actionType"], _FIELD)) or {}
        yield CompletedWrite(instant, parse_commit(content, f"{instant.file_name} of the archived timeline"))
