"""The file slices that the plan of a compaction names, as they are when it is run.

A plan names files as they were. Behind it a write may have been rolled back: then a log file takes back what the plan names, or
a file group that began with log files is gone. So a slice is run with all log files that lie on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import CorruptFile
from penstock.filegroup.model import BaseFile, FileSlice, LogFile
from penstock.filegroup.names import log_order, parse_base_name, parse_log_name
from penstock.storage import FileInfo, join
from penstock.table import TableState
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan


@dataclass(frozen=True)
class Folder:
    """The files of a partition: their sizes by name, and log files by file id and base instant, in reading order."""

    sizes: Mapping[str, int]
    logs: Mapping[tuple[str, str], tuple[LogFile, ...]] = field(default_factory=dict)


def list_folders(table: TableState, plan: CompactionPlan) -> dict[str, Folder]:
    """The folders of the partitions that a plan names, by partition path."""
    paths = {operation.partition_path for operation in plan.operations}
    return {path: _folder(table.storage.list(join(table.base_path, path))) for path in paths}


def _folder(files: list[FileInfo]) -> Folder:
    named = [(name, file) for file in files if (name := parse_log_name(file.name)) and not name.is_cdc]
    logs: dict[tuple[str, str], tuple[LogFile, ...]] = {}
    for name, file in sorted(named, key=lambda one: log_order(one[0])):
        log = LogFile(file.path, name.file_id, name.base_instant, name.version, name.write_token, file.size_bytes)
        logs[name.file_id, name.base_instant] = (*logs.get((name.file_id, name.base_instant), ()), log)
    return Folder({file.name: file.size_bytes for file in files}, logs)


def whole_slice(base_path: str, operation: CompactionOperation, folder: Folder) -> FileSlice:
    """The slice that an operation names, with all its log files. Raises CorruptFile if one that is named is missing."""
    slice_ = slice_of(base_path, operation, folder.sizes)
    logs = (*slice_.log_files, *unnamed_logs(slice_, folder))
    return replace(slice_, log_files=tuple(sorted(logs, key=lambda log: (log.base_instant, log.version, log.write_token))))


def unnamed_logs(slice_: FileSlice, folder: Folder) -> tuple[LogFile, ...]:
    """Log files on the base instant of a slice that it does not name, in reading order."""
    known = {log.name for log in slice_.log_files}
    return tuple(log for log in folder.logs.get((slice_.file_id, slice_.base_instant), ()) if log.name not in known)


def still_there(
    table: TableState, time: str, plan: CompactionPlan, folders: Mapping[str, Folder]
) -> Iterator[CompactionOperation]:
    """The operations of a plan, but for file groups that are gone: a write that began one with log files was rolled back since.

    Where such a group has log files on top of the plan, they need a base file below them, although nothing counts any more.
    """
    for one in plan.operations:
        if one.base_file is not None or table.timeline.is_visible(one.base_instant):
            yield one
            continue
        here = folders[one.partition_path].sizes
        left = tuple(name for name in one.log_files if name in here)
        if left or (one.file_id, time) in folders[one.partition_path].logs:
            yield replace(one, log_files=left)


def slice_of(base_path: str, operation: CompactionOperation, sizes: Mapping[str, int]) -> FileSlice:
    """The file slice that an operation names.

    Args:
        sizes: of the files in its partition, by their names.
    """
    folder = join(base_path, operation.partition_path)
    base = None
    if operation.base_file is not None:
        named = _parsed(operation.base_file, parse_base_name)
        size = _size(folder, operation.base_file, sizes)
        base = BaseFile(join(folder, operation.base_file), named.file_id, named.instant, size)
    logs = sorted(((_parsed(text, parse_log_name), text) for text in operation.log_files), key=lambda one: log_order(one[0]))
    return FileSlice(
        partition_path=operation.partition_path,
        file_id=operation.file_id,
        base_instant=operation.base_instant,
        base_file=base,
        log_files=tuple(
            LogFile(join(folder, text), n.file_id, n.base_instant, n.version, n.write_token, _size(folder, text, sizes))
            for n, text in logs
        ),
    )


def _parsed(text: str, parse: Callable[[str], Any]) -> Any:
    name = parse(text)
    if name is None:
        raise CorruptFile(f"a compaction plan names {text!r}, which is not the name of a data file")
    return name


def _size(folder: str, name: str, sizes: Mapping[str, int]) -> int:
    if name not in sizes:
        raise CorruptFile(
            f"{join(folder, name)} is missing, which a compaction plan names; restore the file from a copy, or unschedule "
            "that compaction"
        )
    return sizes[name]
