"""Finds the partitions that a sync compares with the catalog: those that commits changed since the last sync, or all of them.

The commit metadata says which partitions changed, so the table's folders need not be listed. They are listed if the time of the
last sync is not known or is older than the active timeline, or if the options turn incremental sync off.
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
    """How far a sync came, as the catalog stores it. Both fields are empty before the first sync.

    Attributes:
        commit: the instant time of the table's newest completed write at the moment of the sync.
        completion: the latest of the times at which writes had completed by then.
    """

    commit: str = ""
    completion: str = ""


@dataclass(frozen=True)
class SyncedState:
    """A table at the moment of a sync, with the time at which each completed instant was completed."""

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
    """The partition paths that were written and still exist, and those that were dropped.

    If `is_full` is true, `written` has all partitions of the table. Then the sync drops every other partition from the catalog.
    """

    written: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    is_full: bool = False


def load_synced_state(table: TableState) -> SyncedState:
    """Return a copy of the table with the timeline read again, and the completion times. Lists `.hoodie` once."""
    completed_at = {}
    for file in table.storage.list(join(table.base_path, FOLDER)):
        if not file.is_dir:
            completed_at[file.name] = _format_ms(file.modified_ms, utc=table.config.timeline_utc)
    return SyncedState(replace(table, timeline=Timeline.from_names(completed_at)), completed_at)


def find_changes(state: SyncedState, since: SyncPoint, *, incremental: bool = True) -> PartitionChanges:
    """Return the partitions that changed since the sync point `since`.

    Args:
        since: the sync point of the last sync, as the catalog stores it.
        incremental: whether to find the changes in commit metadata. If false, or if the active timeline does not have the commit
            of `since`, the table's folders are listed, and all partitions are returned.
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
    """Return all partitions of the table, by listing its folders.

    A partition counts as dropped if a delete_partition removed it and no later write wrote to it, even if its files are not
    cleaned yet.
    """
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
    """Return the paths of the partitions that were deleted and not written again, as the keys of a dict whose values are None.

    Args:
        metadata: the completed writes to consider, each with its commit metadata.
        cleaned: partition path → instant time of the clean that deleted the partition's last files.
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
    """Return partition path → instant time of the clean that deleted the last files of the partition.

    Only cleans after the instant time `since` are read.
    """
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
    """Whether a write completed after the sync of the sync point `since`.

    The write may have begun before the newest write of that sync, if its writer was slow.

    Args:
        completed_at: file name of each completed instant → time at which it was completed.
    """
    if write.time > since.commit:
        return True
    return bool(since.completion) and write.time < since.commit and completed_at[write.file_name] > since.completion


def _format_ms(milliseconds: int, *, utc: bool) -> str:
    """Return a time in milliseconds since 1970 as an instant time, in UTC or in the local time zone of this process."""
    moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    return format_time(moment if utc else moment.astimezone())
