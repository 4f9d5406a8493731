"""Finds the partitions that a sync compares with the catalog: those that commits changed since the last sync, or all of them.

The commits say what changed, so the table is not listed, unless the last sync is unknown, or is not on the active timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from penstock.options.operation import Operation
from penstock.storage import join
from penstock.table.listing import list_partitions
from penstock.table.state import TableState
from penstock.timeline.clean_file import read_clean_result
from penstock.timeline.commit_file import CommitMetadata
from penstock.timeline.instant import Action, Instant, State, format_time
from penstock.timeline.store import FOLDER, instant_path, read_metadata
from penstock.timeline.timeline import Timeline


@dataclass(frozen=True)
class SyncPoint:
    """The last commit that a sync registered, and the latest completion time of a commit. Empty before the first sync."""

    commit: str = ""
    completion: str = ""


@dataclass(frozen=True)
class SyncedState:
    """A table at the moment of a sync, with the time at which each instant completed."""

    table: TableState
    #: When the file of each completed instant was written, by its name.
    completed_at: Mapping[str, str]

    @property
    def point(self) -> SyncPoint:
        """The sync point that a sync of this state stores in the catalog."""
        last = self.table.timeline.last_write
        times = [self.completed_at[write.file_name] for write in self.table.timeline.writes]
        return SyncPoint(last.time if last else "", max(times, default=""))


@dataclass(frozen=True)
class PartitionChanges:
    """The paths of the partitions that exist and were written, and of those that were dropped.

    `is_full` says that `written` has all partitions of the table: any other partition of the catalog is to be dropped.
    """

    written: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    is_full: bool = False


def load_synced_state(table: TableState) -> SyncedState:
    """Read the timeline from storage, with the completion times; one listing of `.hoodie`."""
    completed_at = {}
    for file in table.storage.list(join(table.base_path, FOLDER)):
        if not file.is_dir:
            completed_at[file.name] = _format_ms(file.modified_ms, utc=table.config.timeline_utc)
    return SyncedState(replace(table, timeline=Timeline.from_names(completed_at)), completed_at)


def find_changes(state: SyncedState, since: SyncPoint, *, incremental: bool = True) -> PartitionChanges:
    """Return the partitions that changed since a sync.

    Args:
        since: the sync point of the last sync, from the catalog.
        incremental: whether to rely on the commits; if false, the table is listed.
    """
    table = state.table
    timeline = table.timeline
    is_known = since.commit in timeline.completed_times and (timeline.start is None or since.commit >= timeline.start)
    if not incremental or not is_known:
        # After a restore, or if commits were archived, the timeline does not show all that changed.
        return _list_all(table)
    writes = [write for write in timeline.writes if _is_new(write, state.completed_at, since)]
    metadata = {write: read_metadata(table.storage, table.base_path, write) for write in writes}
    dropped = _find_dropped(metadata, _read_cleaned(table, since.commit))
    written: dict[str, None] = {}
    for commit in metadata.values():
        written |= dict.fromkeys(commit.by_partition())
        written |= dict.fromkeys(commit.replaced or ())
    return PartitionChanges(tuple(path for path in written if path not in dropped), tuple(dropped))


def _list_all(table: TableState) -> PartitionChanges:
    """Return all partitions, as a listing of the table finds them, without those that were deleted and are not cleaned yet."""
    deletes = {}
    for instant in table.timeline.filter(Action.REPLACE_COMMIT, state=State.COMPLETED):
        commit = read_metadata(table.storage, table.base_path, instant)
        if commit.operation == Operation.DELETE_PARTITION.stored:
            deletes[instant] = commit
    if deletes:
        first = min(deletes)
        for write in table.timeline.writes:
            if write.time > first.time:
                deletes.setdefault(write, read_metadata(table.storage, table.base_path, write))
    dropped = _find_dropped(deletes, {})
    return PartitionChanges(tuple(path for path in list_partitions(table) if path not in dropped), tuple(dropped), is_full=True)


def _find_dropped(metadata: Mapping[Instant, CommitMetadata], cleaned: Mapping[str, str]) -> dict[str, None]:
    """Return the partitions that were deleted and not written again.

    Args:
        metadata: the commits.
        cleaned: the partitions without files after a clean, each with the time of the clean.
    """
    dropped_at = dict(cleaned)
    written_at: dict[str, str] = {}
    for instant in sorted(metadata):
        commit = metadata[instant]
        if commit.operation == Operation.DELETE_PARTITION.stored:
            dropped_at |= dict.fromkeys(commit.replaced or (), instant.time)
        written_at |= {stat.partition_path or "": instant.time for stat in commit.stats}
    gone = [path for path, time in dropped_at.items() if written_at.get(path, "") < time]
    return dict.fromkeys(gone)


def _read_cleaned(table: TableState, since: str) -> dict[str, str]:
    """Return the partitions whose last files were deleted by a clean since an instant time, each with the time of the clean."""
    cleaned = {}
    for instant in table.timeline.filter(Action.CLEAN, state=State.COMPLETED):
        if instant.time <= since:
            continue
        content = table.storage.read(instant_path(table.base_path, instant))
        for path, partition in read_clean_result(content, instant.file_name).partitions.items():
            if partition.is_gone:
                cleaned[path] = instant.time
    return cleaned


def _is_new(write: Instant, completed_at: Mapping[str, str], since: SyncPoint) -> bool:
    """Whether a write completed after a sync. A slow writer may have begun before the last commit of the sync."""
    if write.time > since.commit:
        return True
    return bool(since.completion) and write.time < since.commit and completed_at[write.file_name] > since.completion


def _format_ms(milliseconds: int, *, utc: bool) -> str:
    """Return a time as an instant time, in UTC or in the local zone of this process."""
    moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    return format_time(moment if utc else moment.astimezone())
