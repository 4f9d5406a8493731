"""Finds the file slices that a compaction plan names, when the plan is run.

A plan names the files that existed when it was made. A write may have been rolled back since. Then a new log file, which the plan
does not name, cancels blocks of a log file that the plan names; or a file group that consisted of log files only no longer
exists. Therefore a slice is compacted with all log files of its base instant, not only with those that the plan names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from penstock.errors import CorruptFile, WriteConflict
from penstock.filegroup.model import BaseFile, FileSlice, GroupId, LogFile
from penstock.filegroup.names import log_order, parse_base_name, parse_log_name
from penstock.storage import FileInfo, join
from penstock.table.pending import find_pending_clusterings, find_pending_compactions
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan
from penstock.timeline.store import read_metadata


@dataclass(frozen=True)
class PartitionFiles:
    """The files of one partition: sizes by file name, and log files by (file id, base instant), oldest version first."""

    sizes: Mapping[str, int]
    logs: Mapping[tuple[str, str], tuple[LogFile, ...]] = field(default_factory=dict)


def list_folders(table: TableState, plan: CompactionPlan) -> dict[str, PartitionFiles]:
    """List each partition that a plan names; return the files of these partitions by partition path."""
    paths = {operation.partition_path for operation in plan.operations}
    return {path: _partition_files(table.storage.list(join(table.base_path, path))) for path in paths}


def _partition_files(files: Sequence[FileInfo]) -> PartitionFiles:
    """Return the sizes and the log files in the listing of one partition.

    Log files of change data (CDC) are left out of `logs`: they are not part of a slice's rows.
    """
    named = []
    for file in files:
        name = parse_log_name(file.name)
        if name is not None and not name.is_cdc:
            named.append((name, file))
    logs: dict[tuple[str, str], tuple[LogFile, ...]] = {}
    for name, file in sorted(named, key=lambda pair: log_order(pair[0])):
        log = LogFile(file.path, name.file_id, name.base_instant, name.version, name.write_token, file.size_bytes)
        key = (name.file_id, name.base_instant)
        logs[key] = (*logs.get(key, ()), log)
    return PartitionFiles({file.name: file.size_bytes for file in files}, logs)


def whole_slice(base_path: str, operation: CompactionOperation, files: PartitionFiles) -> FileSlice:
    """Return the slice that an operation of a plan names, with all its log files on storage, also those that were added later.

    Raises:
        CorruptFile: a file that the operation names is missing.
    """
    file_slice = named_slice(base_path, operation, files.sizes)
    logs = (*file_slice.log_files, *unnamed_logs(file_slice, files))
    in_order = sorted(logs, key=lambda log: (log.base_instant, log.version, log.write_token))
    return replace(file_slice, log_files=tuple(in_order))


def unnamed_logs(file_slice: FileSlice, files: PartitionFiles) -> tuple[LogFile, ...]:
    """Return the log files on storage that belong to a slice but are not in `file_slice.log_files`, in reading order.

    Args:
        file_slice: a slice with the files that the plan names.
        files: the files of the slice's partition.
    """
    known = {log.name for log in file_slice.log_files}
    logs = files.logs.get((file_slice.file_id, file_slice.base_instant), ())
    return tuple(log for log in logs if log.name not in known)


def remaining_operations(
    table: TableState, time: str, plan: CompactionPlan, folders: Mapping[str, PartitionFiles]
) -> Iterator[CompactionOperation]:
    """Yield the operations of a plan whose file groups still have files to compact.

    An operation is left out if its slice has no base file, the write that created the slice was rolled back since the plan was
    made, and no log file of the file group is left: neither one that the plan names, nor one that a later write has added with
    the plan's instant as base instant. If the write was rolled back and log files are left, the yielded operation names only
    those log files of the plan that are left.

    Args:
        time: the instant time of the plan.
        folders: the files of each partition, by partition path.
    """
    for planned in plan.operations:
        files = folders[planned.partition_path]
        operation = _on_newest_slice(table, time, planned, files)
        if operation.base_file is not None or table.timeline.is_visible(operation.base_instant):
            yield operation
            continue
        left = tuple(name for name in operation.log_files if name in files.sizes)
        if left or (operation.file_id, time) in files.logs:
            yield replace(operation, log_files=left)


def _on_newest_slice(table: TableState, time: str, operation: CompactionOperation, files: PartitionFiles) -> CompactionOperation:
    """Return the operation of a plan, changed so that it names the newest slice of its file group before the plan.

    The operation is returned unchanged if it names that slice already, which is the normal case. It names an older one if an
    earlier plan was stored while this one was made, and the process that made this one died before it found out.

    Args:
        time: the instant time of the plan.
        operation: the operation: one file slice to compact.
        files: the files of the operation's partition.
    """
    newest = operation.base_instant
    newest_file = None
    for file_name in files.sizes:
        name = parse_base_name(file_name)
        is_of_group = name is not None and name.file_id == operation.file_id
        if name is not None and is_of_group and newest < name.instant < time and table.timeline.is_visible(name.instant):
            newest = name.instant
            newest_file = file_name
    if newest_file is None:
        return operation
    return replace(operation, base_instant=newest, base_file=newest_file, log_files=())


def check_slices(table: TableState, time: str, plan: CompactionPlan) -> None:
    """Raise WriteConflict if the base files of a compaction, once published, would hide rows of another writer.

    There are two cases. A write that did not find the plan added its log file to the slice that is compacted, after the
    compaction began to read the slice. Or an earlier plan, which is still pending, includes the same file group, and rows lie in
    log files on top of that plan's slice. Both happen only if the plan runs before the process that made it has confirmed it
    (`services/stored_plans.py`). Reads the timeline again.

    Args:
        table: the table with the timeline as it was when the run began.
        time: the instant time of the plan.
    """
    planned = {(operation.partition_path, operation.file_id) for operation in plan.operations}
    now = reload_timeline(table)
    for write in now.timeline.writes:
        if write.time in table.timeline.completed_times or write.time == time:
            continue
        stats = read_metadata(table.storage, table.base_path, write).stats
        if any(_is_hidden(stat, time, planned) for stat in stats):
            raise WriteConflict(
                f"write {write.time} of {table.base_path} has changed a file group of compaction {time} since the compaction "
                "began, without knowing of its plan. Run the compaction again",
                other_instant=write.time,
            )
    earlier = {**find_pending_compactions(now, before=time), **find_pending_clusterings(now, before=time)}
    for path, file_id in sorted(planned & earlier.keys()):
        other = earlier[path, file_id]
        raise WriteConflict(
            f"the table service planned at {other} owns file group {file_id} of partition {path!r} of {table.base_path}, which "
            f"compaction {time} owns too. Run the earlier plan first, or unschedule it",
            other_instant=other,
        )


def _is_hidden(stat: WriteStat, time: str, planned: Set[GroupId]) -> bool:
    """Whether a file of a write belongs to a slice that a compaction at the instant time `time` replaces."""
    if stat.path is None or (stat.partition_path or "", stat.file_id) not in planned:
        return False
    file_name = stat.path.rpartition("/")[2]
    log = parse_log_name(file_name)
    base = parse_base_name(file_name)
    return (log is not None and log.base_instant < time) or (base is not None and base.instant < time)


def named_slice(base_path: str, operation: CompactionOperation, sizes: Mapping[str, int]) -> FileSlice:
    """Return a file slice with exactly the files that an operation names. Raise CorruptFile if a file is missing.

    Args:
        sizes: bytes of the files in the operation's partition, by file name.
    """
    folder = join(base_path, operation.partition_path)
    return FileSlice(
        partition_path=operation.partition_path,
        file_id=operation.file_id,
        base_instant=operation.base_instant,
        base_file=_base_file(folder, operation.base_file, sizes) if operation.base_file is not None else None,
        log_files=_log_files(folder, operation.log_files, sizes),
    )


def _base_file(folder: str, file_name: str, sizes: Mapping[str, int]) -> BaseFile:
    """Return the base file with this name. Raise CorruptFile if the file is missing, or the name is not that of a base file.

    Args:
        folder: the full path of the partition's folder.
        sizes: bytes of the files in the partition, by file name.
    """
    name = parse_base_name(file_name)
    if name is None:
        raise _not_a_data_file(file_name)
    return BaseFile(join(folder, file_name), name.file_id, name.instant, _size(folder, file_name, sizes))


def _log_files(folder: str, file_names: Sequence[str], sizes: Mapping[str, int]) -> tuple[LogFile, ...]:
    """Return the log files with these names, in reading order. Raise CorruptFile if one is missing or not a log file.

    Args:
        folder: the full path of the partition's folder.
        sizes: bytes of the files in the partition, by file name.
    """
    named = []
    for file_name in file_names:
        name = parse_log_name(file_name)
        if name is None:
            raise _not_a_data_file(file_name)
        named.append((name, file_name))
    logs = []
    for name, file_name in sorted(named, key=lambda pair: log_order(pair[0])):
        size_bytes = _size(folder, file_name, sizes)
        path = join(folder, file_name)
        logs.append(LogFile(path, name.file_id, name.base_instant, name.version, name.write_token, size_bytes))
    return tuple(logs)


def _not_a_data_file(file_name: str) -> CorruptFile:
    """Return the CorruptFile error about a name in a compaction plan that is not the name of a data file."""
    return CorruptFile(f"a compaction plan names {file_name!r}, which is not the name of a data file")


def _size(folder: str, file_name: str, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a file in a partition. Raise CorruptFile if the file is not in `sizes`, which means it is missing."""
    if file_name not in sizes:
        raise missing_file(join(folder, file_name))
    return sizes[file_name]


def missing_file(path: str) -> CorruptFile:
    """Return the CorruptFile error about a file that a compaction plan names and that does not exist."""
    return CorruptFile(
        f"{path} is missing, which a compaction plan names; restore the file from a copy, or unschedule that compaction"
    )
