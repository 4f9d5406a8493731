"""Computes the file slices that a query reads, from a listing of files and a timeline. No function here reads storage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.filegroup.model import BaseFile, FileGroup, FileSlice, LogFile
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.storage import FileInfo
from penstock.timeline.instant import Action
from penstock.timeline.timeline import Timeline


@dataclass(frozen=True)
class Visibility:
    """Decides which instants and file groups a query sees.

    A query sees completed instants and file groups that are not replaced; a time travel query sees those at its time `as_of`.
    """

    timeline: Timeline
    #: (partition path, file id) → instant of the replace commit that removed the group from the table
    replaced: Mapping[tuple[str, str], str] = field(default_factory=dict)
    as_of: str | None = None

    def sees_time(self, time: str) -> bool:
        """Whether the query sees files of the instant at `time`: the instant is committed, and not later than `as_of`."""
        return (self.as_of is None or time <= self.as_of) and self.timeline.is_visible(time)

    def awaits_compaction(self, time: str) -> bool:
        """Whether `time` is the instant time of a pending compaction that is not later than `as_of`.

        While the compaction is pending, log files with `time` as base instant are read with the file slice before the compaction.
        """
        return (self.as_of is None or time <= self.as_of) and time in self._pending_compactions

    @cached_property
    def _pending_compactions(self) -> frozenset[str]:
        """The instant times of the pending compactions."""
        return frozenset(instant.time for instant in self.timeline.filter(Action.COMPACTION) if not instant.is_completed)

    def sees_group(self, partition_path: str, file_id: str) -> bool:
        """Whether the query sees the file group: no replace commit up to `as_of` has replaced it."""
        replaced_at = self.replaced.get((partition_path, file_id))
        return replaced_at is None or (self.as_of is not None and replaced_at > self.as_of)


def group_files(partition_path: str, files: Iterable[FileInfo]) -> list[FileGroup]:
    """Return the file groups to which the files of one partition belong, with all their slices, committed or not.

    Files that are neither Parquet base files nor log files are ignored, and so are log files of change data.

    Args:
        files: the listing of the partition's folder.
    """
    bases: dict[tuple[str, str], BaseFile] = {}
    logs: dict[tuple[str, str], list[LogFile]] = {}
    for file in files:
        name = file.name
        if base := parse_base_name(name):
            if base.extension == ".parquet":
                bases[base.file_id, base.instant] = BaseFile(file.path, base.file_id, base.instant, file.size_bytes)
        elif (log := parse_log_name(name)) and not log.is_cdc:
            logs.setdefault((log.file_id, log.base_instant), []).append(
                LogFile(file.path, log.file_id, log.base_instant, log.version, log.write_token, file.size_bytes)
            )
    slices: dict[str, list[FileSlice]] = {}
    for file_id, instant in sorted(bases.keys() | logs.keys(), reverse=True):  # newest slice first
        ordered = logs.get((file_id, instant), [])
        if len(ordered) > 1:
            ordered.sort(key=lambda log: (log.version, log.write_token))
        slices.setdefault(file_id, []).append(
            FileSlice(partition_path, file_id, instant, bases.get((file_id, instant)), tuple(ordered))
        )
    return [FileGroup(partition_path, file_id, tuple(slices[file_id])) for file_id in sorted(slices)]


def latest_slices(groups: Iterable[FileGroup], seen: Visibility, *, with_logs: bool) -> list[FileSlice]:
    """Return the newest committed slice of each file group that the query sees.

    Args:
        seen: which instants and file groups the query sees.
        with_logs: whether to return slices with their log files, as a snapshot query reads them (`latest_merged_slices`). If
            false, return slices with a base file and without log files, as a read-optimized query does (`latest_base_slices`).
    """
    if with_logs:
        return latest_merged_slices(groups, seen)
    return [replace(file_slice, log_files=()) for file_slice in latest_base_slices(groups, seen)]


def latest_base_slices(groups: Iterable[FileGroup], seen: Visibility) -> list[FileSlice]:
    """Return the newest committed slice that has a base file, for each file group: the slices of a read-optimized query.

    Args:
        seen: which instants and file groups the query sees.
    """
    latest: list[FileSlice] = []
    for group in groups:
        if not seen.sees_group(group.partition_path, group.file_id):
            continue
        for file_slice in group.slices:  # newest first
            if file_slice.base_file is not None and seen.sees_time(file_slice.base_instant):
                latest.append(file_slice)
                break
    return latest


def latest_merged_slices(groups: Iterable[FileGroup], seen: Visibility) -> list[FileSlice]:
    """Return the newest committed slice of each file group with its log files: the slices of a snapshot query.

    A slice need not have a base file. While a compaction is pending, new log files have the compaction's instant as base instant;
    they are added to the slice before the compaction. Log files of uncommitted writes are included: `log/scan.py` later skips
    their blocks by the instants in the block headers.

    Args:
        seen: which instants and file groups the query sees.
    """
    latest: list[FileSlice] = []
    for group in groups:
        if seen.sees_group(group.partition_path, group.file_id):
            file_slice = _latest_merged_slice(group, seen)
            if file_slice is not None:
                latest.append(file_slice)
    return latest


def _latest_merged_slice(group: FileGroup, seen: Visibility) -> FileSlice | None:
    """Return the newest committed slice of one file group; None if there is none.

    Log files whose base instant is that of a pending compaction are added to the slice before that compaction, because the base
    file of the compaction does not exist yet.
    """
    waiting: FileSlice | None = None  # of pending compactions: log files of an older slice, under a later base instant
    for file_slice in group.slices:  # newest first
        later_logs = waiting.log_files if waiting else ()
        if seen.awaits_compaction(file_slice.base_instant):
            # The base file that the compaction writes does not count before it completes.
            waiting = replace(file_slice, base_file=None, log_files=(*file_slice.log_files, *later_logs))
        elif seen.sees_time(file_slice.base_instant):
            return replace(file_slice, log_files=(*file_slice.log_files, *later_logs)) if later_logs else file_slice
    # Without a committed slice before, the group began with log files on top of the pending compaction.
    return waiting if waiting and waiting.log_files else None
