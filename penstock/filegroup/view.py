"""From a listing and a timeline to what a query may see. Kernels: names and values in, file slices out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.filegroup.model import BaseFile, FileGroup, FileSlice, LogFile
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.storage import FileInfo
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
        ordered = sorted(logs.get((file_id, instant), ()), key=lambda f: (f.version, f.write_token))
        slices.setdefault(file_id, []).append(
            FileSlice(partition_path, file_id, instant, bases.get((file_id, instant)), tuple(ordered))
        )
    return [FileGroup(partition_path, file_id, tuple(slices[file_id])) for file_id in sorted(slices)]


def latest_base_files(groups: Iterable[FileGroup], seen: Visibility) -> list[FileSlice]:
    """The newest committed slice with a base file of each group: what a read-optimized query reads."""
    found = []
    for group in groups:
        if seen.sees_group(group.partition_path, group.file_id):
            slices = (s for s in group.slices if s.base_file is not None and seen.sees_time(s.base_instant))
            found.extend([newest] if (newest := next(slices, None)) else [])
    return found
