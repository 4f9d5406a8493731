"""From a listing and a timeline to what a query may see. Kernels: names and values in, file slices out."""

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
    """What makes a file part of the table at one moment."""

    timeline: Timeline
    #: (partition path, file id) → instant of the replace commit that took the group out of the table
    replaced: Mapping[tuple[str, str], str] = field(default_factory=dict)
    as_of: str | None = None

    def sees_time(self, time: str) -> bool:
        """Whether files written at this time are seen."""
        return (self.as_of is None or time <= self.as_of) and self.timeline.is_visible(time)

    def awaits_compaction(self, time: str) -> bool:
        """Whether log files with this base instant go on where an older slice ends, because its compaction is not done."""
        return (self.as_of is None or time <= self.as_of) and time in self._compactions

    @cached_property
    def _compactions(self) -> frozenset[str]:
        return frozenset(i.time for i in self.timeline.of(Action.COMPACTION) if not i.is_completed)

    def sees_group(self, partition_path: str, file_id: str) -> bool:
        """Whether a file group is still in the table."""
        gone = self.replaced.get((partition_path, file_id))
        return gone is None or (self.as_of is not None and gone > self.as_of)


def group_files(partition_path: str, files: Iterable[FileInfo]) -> list[FileGroup]:
    """All file groups of one partition, with every slice that has a file, committed or not."""
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
    for file_id, instant in sorted(bases.keys() | logs.keys(), reverse=True):
        ordered = logs.get((file_id, instant), [])
        if len(ordered) > 1:
            ordered.sort(key=lambda f: (f.version, f.write_token))
        slices.setdefault(file_id, []).append(
            FileSlice(partition_path, file_id, instant, bases.get((file_id, instant)), tuple(ordered))
        )
    return [FileGroup(partition_path, file_id, tuple(slices[file_id])) for file_id in sorted(slices)]


def latest_base_slices(groups: Iterable[FileGroup], seen: Visibility) -> list[FileSlice]:
    """The newest committed slice with a base file of each group: what a read-optimized query reads."""
    found = []
    for group in groups:
        if seen.sees_group(group.partition_path, group.file_id):
            slices = (s for s in group.slices if s.base_file is not None and seen.sees_time(s.base_instant))
            found.extend([newest] if (newest := next(slices, None)) else [])
    return found


def latest_merged_slices(groups: Iterable[FileGroup], seen: Visibility) -> list[FileSlice]:
    """The newest committed slice of each group, of log files alone too: what a snapshot query merges.

    While a compaction is pending, new log files have its instant as their base instant: they are added to the slice before.
    Whether what is in a log file counts is told by each of its blocks.
    """
    slices = (_merged_slice(group, seen) for group in groups if seen.sees_group(group.partition_path, group.file_id))
    return [one for one in slices if one is not None]


def _merged_slice(group: FileGroup, seen: Visibility) -> FileSlice | None:
    waiting: FileSlice | None = None
    for one in group.slices:  # newest first
        later = waiting.log_files if waiting else ()
        if seen.awaits_compaction(one.base_instant):
            waiting = replace(one, base_file=None, log_files=(*one.log_files, *later))
        elif seen.sees_time(one.base_instant):
            return replace(one, log_files=(*one.log_files, *later)) if later else one
    return waiting if waiting and waiting.log_files else None
