"""The completed writes of a table in order of time, those that were archived too, with what each of them did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.storage import Storage
from penstock.timeline.archive import load_archive
from penstock.timeline.contents import CommitMetadata, commit_of
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
class Write:
    """A completed write."""

    instant: Instant
    metadata: CommitMetadata

    @property
    def time(self) -> str:
        """The time of its instant."""
        return self.instant.time


def writes_in(
    storage: Storage, base_path: str, timeline: Timeline, within: InstantRange, archive_folder: str = "archived"
) -> list[Write]:
    """The completed writes in a range, oldest first. The archive is read only if the range begins before the active timeline.

    Raises:
        CorruptFile: the metadata of one cannot be read.
    """
    active = [i for i in timeline.writes if within.holds(i.time)]
    found = {i.time: Write(i, read_metadata(storage, base_path, i)) for i in active}
    if timeline.start is not None and within.begin < timeline.start:
        for write in _archived(load_archive(storage, base_path, archive_folder), within):
            found.setdefault(write.time, write)
    return [found[time] for time in sorted(found)]


def _archived(entries: list[dict[str, Any]], within: InstantRange) -> Iterator[Write]:
    for entry in entries:
        time, action = entry["commitTime"] or "", entry["actionType"]
        if entry["actionState"] == State.COMPLETED.name and action in _WRITES and within.holds(time):
            instant = Instant(time, Action(action), State.COMPLETED)
            content = entry.get(_FIELDS.get(action, _FIELD)) or {}
            yield Write(instant, commit_of(content, f"{instant.file_name} of the archived timeline"))
