"""Run a clean: delete the files of its plan, many at a time, and complete it on the timeline.

    <t>.clean.requested (the plan) → inflight → files deleted, then empty partitions → <t>.clean

A clean that crashed is run again from its plan. A file that does not exist any more is counted as not deleted and is no error, so
two processes may run one plan at the same time. A plan that cannot be read is deleted with a warning: the next plan finds the
same files again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock import clock
from penstock import options as o
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.commit.modes import is_lazy
from penstock.errors import AlreadyExists, CorruptFile, StorageError, WriteConflict
from penstock.filegroup.names import PARTITION_METAFILE, parse_base_name, parse_log_name
from penstock.filegroup.partitions import is_metafile
from penstock.hooks.metrics import report_service
from penstock.progress import Stages, format_count
from penstock.services.clean.schedule import schedule_clean
from penstock.services.rollback.failed_writes import roll_back_expired
from penstock.storage import Storage, has_whole_files, join
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.clean_file import (
    CleanedPartition,
    CleanPlan,
    CleanResult,
    read_clean_plan,
    write_clean_plan,
    write_clean_result,
)
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import instant_path, load_timeline, transition
from penstock.user_warning import warn_user
from penstock.workers.driver_limit import fits_on_driver
from penstock.workers.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES_PER_TASK = 100
#: From this many files on, starting Spark tasks to delete them is worth it.
_MANY_FILES = 1000


@dataclass(frozen=True)
class DeleteTask:
    """Task description: files of one partition that `delete_files` deletes, at most `_FILES_PER_TASK`. Pickled to a worker."""

    storage: Storage
    base_path: str
    partition_path: str
    names: tuple[str, ...]


def clean(spark: SparkSession | None, table: TableState, stages: Stages, *, due: bool = False) -> list[CleanResult]:
    """Run pending cleans; then plan a new clean, if one is due, and run it. Return the results of all cleans that were run.

    Under the lazy policy for failed writes, writes whose heartbeat has expired are rolled back first. If pending cleans were run
    and `hoodie.clean.allow.multiple` is false, a new clean is planned only if `due` is true.

    Args:
        table: the table; its timeline must have been loaded just before this call.
        due: True to plan a new clean even if fewer commits than `hoodie.clean.max.commits` were made since the last clean.
    """
    _check_not_restoring(table)
    if is_lazy(table):
        roll_back_expired(table)
        table = reload_timeline(table)
    results = []
    for instant in _pending_cleans(table):
        result = run_clean(spark, table, instant, stages)
        if result is not None:
            results.append(result)
    if results and not table.options[o.CLEAN_ALLOW_MULTIPLE] and not due:
        return results
    new_plan = schedule_clean(reload_timeline(table) if results else table, due=due)
    if new_plan is not None:
        result = run_clean(spark, table, new_plan, stages)
        if result is not None:
            results.append(result)
    return results


def _check_not_restoring(table: TableState) -> None:
    """Raise WriteConflict if a restore of the table is pending."""
    restore = table.timeline.pending_restore
    if restore is not None:
        raise WriteConflict(f"{table.base_path} is being restored ({restore.file_name}); clean it when that is finished")


def _pending_cleans(table: TableState) -> list[Instant]:
    """Return the instants of requested and inflight cleans, oldest first."""
    return [instant for instant in table.timeline.filter(Action.CLEAN) if not instant.is_completed]


def run_clean(spark: SparkSession | None, table: TableState, instant: Instant, stages: Stages) -> CleanResult | None:
    """Delete the files of a pending clean's plan and complete the clean on the timeline.

    Return the result. Return None if the plan no longer exists, or cannot be read; in the latter case delete the plan and warn.
    """
    began = clock.monotonic_s()
    plan = _read_plan(table, instant)
    if plan is None:
        return None
    table = turn_off_metadata_table(table)
    storage = table.storage
    base_path = table.base_path
    if instant.state is State.REQUESTED:
        with suppress(AlreadyExists):  # another process runs the plan too
            transition(storage, base_path, instant, State.INFLIGHT, write_clean_plan(plan, base_path))
    count = sum(map(len, plan.files.values()))
    with stages.run("clean", f"deleting {format_count(count, 'old file')}"):
        deleted = _delete(spark, table, plan, count)
    gone = {path for path in plan.partitions if drop_empty_partition(table, path)}
    result = CleanResult(
        instant=instant.time,
        earliest=plan.earliest.time if plan.earliest else "",
        last_commit=plan.last_commit,
        partitions={path: _with_fate(path, partition, plan, gone) for path, partition in deleted.items()},
        policy=plan.policy,
        milliseconds=int((clock.monotonic_s() - began) * 1000),
        savepoints=plan.savepoints,
    )
    with suppress(AlreadyExists):
        transition(storage, base_path, instant, State.COMPLETED, write_clean_result(result))
    report_service(table, Action.CLEAN, duration_ms=result.milliseconds, files_deleted=result.files_deleted)
    return result


def _with_fate(path: str, partition: CleanedPartition, plan: CleanPlan, gone: Collection[str]) -> CleanedPartition:
    """Return a copy of one partition's clean result in which `is_gone` says whether the partition itself was deleted.

    If the plan asked to delete the partition and that was not possible, the partition's metafile is added to the files that
    could not be deleted: the next clean then lists the partition again.

    Args:
        path: the partition path.
        partition: the files of the partition that were deleted, and the files that could not be deleted.
        gone: paths of the partitions that were deleted.
    """
    failed = partition.failed
    if path in plan.partitions and path not in gone:
        failed = (*failed, PARTITION_METAFILE)
    return replace(partition, failed=failed, is_gone=path in gone)


def _read_plan(table: TableState, instant: Instant) -> CleanPlan | None:
    """Read the plan of a clean from its requested file. If that is missing or damaged, read it from the inflight file.

    Return None if neither file exists. If a file exists but no plan can be read, delete both files, warn, and return None.
    """
    problem: CorruptFile | None = None
    for state in (State.REQUESTED, State.INFLIGHT):
        path = instant_path(table.base_path, instant.in_state(state))
        try:
            return read_clean_plan(table.storage.read(path), path)
        except FileNotFoundError:
            continue
        except CorruptFile as e:
            problem = e
    if problem is None:
        return None  # another process finished the clean, or gave it up
    for state in (State.INFLIGHT, State.REQUESTED):
        table.storage.delete(instant_path(table.base_path, instant.in_state(state)))
    warn_user(
        f"clean {instant.time} of {table.base_path} is given up, its plan cannot be read ({problem}); the next clean finds what "
        "it would have deleted"
    )
    return None


def _delete(spark: SparkSession | None, table: TableState, plan: CleanPlan, count: int) -> dict[str, CleanedPartition]:
    """Delete the files of a clean plan, on the driver or in Spark tasks. Return the result of each partition by partition path.

    The result of a partition names the files that were deleted, and the files that were not. All partitions of the plan have one.

    Args:
        count: the number of files in the plan.
    """
    partitions: dict[str, CleanedPartition] = dict.fromkeys((*plan.files, *plan.partitions), CleanedPartition())
    if has_whole_files(table.storage):
        with suppress(StorageError):  # the files are then deleted one by one, to find out which of them fail
            return {**partitions, **_delete_together(table, plan.files)}
    tasks = list(_make_tasks(table, plan.files))
    is_small = count < _MANY_FILES and fits_on_driver(table.options)
    results = Runner(spark, on_driver=is_small).run(delete_files, tasks, list[list[str]])
    for task, (deleted, failed) in zip(tasks, results, strict=True):
        partition = partitions[task.partition_path]
        partitions[task.partition_path] = CleanedPartition((*partition.deleted, *deleted), (*partition.failed, *failed))
    return partitions


def _delete_together(table: TableState, files: Mapping[str, tuple[str, ...]]) -> dict[str, CleanedPartition]:
    """Delete files of an object store, a thousand with one request. Return by partition path which were deleted and which not.

    A file that did not exist counts as deleted, because the store does not say which files existed. A file whose name is not
    that of a data file is not deleted.

    Args:
        files: the names of the files, by partition path.
    """
    paths: list[str] = []
    partitions: dict[str, CleanedPartition] = {}
    for partition_path, names in files.items():
        deleted = tuple(name for name in names if _is_data_file(name))
        failed = tuple(name for name in names if not _is_data_file(name))
        partitions[partition_path] = CleanedPartition(deleted, failed)
        paths += [join(table.base_path, partition_path, name) for name in deleted]
    table.storage.delete_files(paths)
    return partitions


def _is_data_file(name: str) -> bool:
    """Whether a name is that of a base file or log file. Any process may have written a plan, so nothing else is deleted."""
    return parse_base_name(name) is not None or parse_log_name(name) is not None


def _make_tasks(table: TableState, files: Mapping[str, tuple[str, ...]]) -> Iterator[DeleteTask]:
    """Yield the tasks that delete `files` (names by partition path), each with at most `_FILES_PER_TASK` files."""
    for path, names in files.items():
        for first in range(0, len(names), _FILES_PER_TASK):
            yield DeleteTask(table.storage, table.base_path, path, names[first : first + _FILES_PER_TASK])


def delete_files(task: DeleteTask) -> list[list[str]]:
    """Delete the files of a task. Return two lists of file names: the files that were deleted, and those that were not.

    Not deleted are files that did not exist, and files whose names are not those of data files.
    """
    deleted: list[str] = []
    failed: list[str] = []
    for name in task.names:
        try:
            is_deleted = _is_data_file(name) and task.storage.delete(join(task.base_path, task.partition_path, name))
        except StorageError:
            is_deleted = False
        if is_deleted:
            deleted.append(name)
        else:
            failed.append(name)
    return [deleted, failed]


def drop_empty_partition(table: TableState, partition_path: str) -> bool:
    """Delete a partition's metafile and folder if the partition holds no data files. Return whether the partition was deleted.

    A writer that is about to create a file in the partition relies on the partition's metafile. So the metafile is deleted only
    while no write is pending, and is written again if a write began during the deletion.
    """
    storage = table.storage
    folder = join(table.base_path, partition_path)
    metafile = join(folder, PARTITION_METAFILE)
    writes_before = _load_writes(table)
    if any(not write.is_completed for write in writes_before):
        return False
    if any(not is_metafile(entry.name) for entry in storage.list(folder)):
        return False
    try:
        content = storage.read(metafile)
    except FileNotFoundError:
        content = None
    storage.delete(metafile)
    if _load_writes(table) != writes_before:
        if content is not None:
            storage.replace(metafile, content)
        return False
    parts = partition_path.split("/")
    for depth in range(len(parts), 0, -1):
        if not storage.remove_empty(join(table.base_path, *parts[:depth])):
            break
    return True


def _load_writes(table: TableState) -> list[Instant]:
    """Load the timeline again; return the instants of writes, compactions and clusterings, completed and pending."""
    instants = load_timeline(table.storage, table.base_path).instants
    return [instant for instant in instants if instant.action.family in WRITE_ACTIONS]
