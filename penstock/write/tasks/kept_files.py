"""`keep_files`: copies the files of one file group from the first attempt of a write, for an attempt after a conflict.

The file group is one that no other commit has changed since (`write/first_attempt.py`). So the copies have the rows that its task
would write again. They are announced by markers and created as all files of the attempt are, under its own instant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import StorageError
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.names import log_file_name, mark_token, parse_log_name
from penstock.filegroup.restamp import Instants, restamp_base_file, restamp_log
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.storage import join
from penstock.storage.os_errors import convert_os_errors
from penstock.timeline.commit_file import WriteStat
from penstock.write.tasks.task import UpsertTask, open_task_output
from penstock.write.tasks.upsert_kernel import run_task


@dataclass(frozen=True)
class KeepTask:
    """Task description: copy the files of one file group, which the first attempt of the write has written."""

    settings: FileSettings
    #: The instant of the first attempt.
    instant: str
    #: The write stats of the files.
    stats: tuple[WriteStat, ...]

    @property
    def size_bytes(self) -> int:
        """The size of the files to copy, in bytes."""
        return sum(stat.total_write_bytes for stat in self.stats)


def run_or_keep(task: UpsertTask | KeepTask) -> list[WriteStat]:
    """Write the files of one task, or copy them from the first attempt of the write if the task is a `KeepTask`.

    Return the write stats of the new files. Runs in a task, on a worker or on the driver.
    """
    return keep_files(task) if isinstance(task, KeepTask) else run_task(task)


def keep_files(task: KeepTask) -> list[WriteStat]:
    """Copy the files of one file group from the first attempt of the write. The copies have the instant of this attempt.

    Return the write stats of the copies.
    """
    output = open_task_output(task.settings)
    instants = Instants(task.instant, task.settings.instant)
    stats: list[WriteStat] = []
    new_names: dict[str, str] = {}
    for stat in task.stats:
        kept = _keep_file(output, stat, instants, new_names)
        stats.append(kept)
    output.finish()
    return stats


def _keep_file(output: TaskOutput, stat: WriteStat, instants: Instants, new_names: dict[str, str]) -> WriteStat:
    """Copy one file of the first attempt, and return the write stat of the copy.

    Args:
        stat: the write stat of the file.
        instants: the instant of the first attempt, and that of this attempt.
        new_names: old name → new name, for the log files that were copied before. If this file is a log file, it is added.
    """
    settings = output.settings
    assert stat.path is not None
    partition_path = stat.partition_path or ""
    old_name = stat.path.rpartition("/")[2]
    log = parse_log_name(old_name)
    if log is None:
        path = output.base_file_path(partition_path, stat.file_id)
        kind = MarkerType.CREATE if stat.prev_commit == "null" else MarkerType.MERGE
    else:
        token = mark_token(output.write_token, instants.new)
        new_names[old_name] = log_file_name(log.file_id, instants.replace(log.base_instant), log.version, token)
        path = join(partition_path, new_names[old_name]) if partition_path else new_names[old_name]
        kind = MarkerType.APPEND
    with _open_source(settings, stat.path, instants.old) as source, convert_os_errors(path):
        sink = output.create(path, kind)
        if log is None:
            size = restamp_base_file(source, sink, instants, settings.codec, path.rpartition("/")[2])
        else:
            size = restamp_log(source, sink, instants, settings.codec)
        sink.close()
    return replace(
        stat,
        path=path,
        prev_commit=instants.replace(stat.prev_commit),
        total_write_bytes=size,
        file_size_in_bytes=size,
        log=_rename_logs(stat, new_names),
    )


def _open_source(settings: FileSettings, path: str, instant: str) -> pa.NativeFile:
    """Open a file of the first attempt for reading.

    Args:
        path: the path below the table's base path.
        instant: the instant of the first attempt.

    Raises:
        StorageError: the file is gone, because another writer has rolled the first attempt back.
    """
    try:
        return settings.storage.open(join(settings.base_path, path))
    except FileNotFoundError as e:
        raise StorageError(f"{path} is gone: another writer took write {instant} for dead and rolls it back. Run it again") from e


def _rename_logs(stat: WriteStat, new_names: dict[str, str]) -> dict[str, object]:
    """Return the log fields of a write stat, with the names of the copies in place of the log files that were copied.

    The result is an empty dict for the write stat of a base file.

    Args:
        new_names: old name → new name, for each log file that was copied.
    """
    fields = dict(stat.log)
    if "logFiles" in fields:
        fields["logFiles"] = [new_names.get(name, name) for name in fields["logFiles"]]
    return fields
