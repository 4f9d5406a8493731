"""Running a clean: the files of its plan are deleted, many at a time, and the timeline says so.

    <t>.clean.requested (the plan) → inflight → files deleted, then empty partitions → <t>.clean

A clean that died is taken up again from its plan: a file that is gone counts as not deleted and is no error. Two processes
may run one plan; both delete what is there. A plan that cannot be read is given up, with a warning: what it would have
deleted is found again by the next one.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock import clock
from penstock import options as o
from penstock.commit.heartbeat import is_lazy
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import AlreadyExists, CorruptFile, StorageError, WriteConflict
from penstock.filegroup.names import PARTITION_METAFILE, parse_base_name, parse_log_name
from penstock.filegroup.partitions import is_metafile
from penstock.progress import Stages
from penstock.services.clean.schedule import schedule_clean
from penstock.services.rollback.failed_writes import roll_back_expired
from penstock.spread.driver import fits_on_driver
from penstock.spread.runner import Runner
from penstock.storage import Storage, join
from penstock.table import TableState, reload_timeline
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Files that one task deletes; and so many that starting Spark tasks for them is worth it.
_FILES_PER_TASK = 100
_MANY_FILES = 1000


@dataclass(frozen=True)
class DeleteTask:
    """Some files of one partition."""

    storage: Storage
    base_path: str
    partition_path: str
    names: tuple[str, ...]


def clean(spark: SparkSession | None, table: TableState, stages: Stages, *, due: bool = False) -> list[CleanResult]:
    """Finish cleans that wait or died, then plan and run one if it is due.

    The table's timeline was loaded just now. Under the lazy policy, failed writes whose writer has been silent for too long
    are undone first.

    Args:
        due: whether a new plan is made whatever the trigger of the options says.
    """
    _check_not_restoring(table)
    if is_lazy(table):
        roll_back_expired(table)
        table = reload_timeline(table)
    done = [result for instant in _waiting(table) if (result := run_clean(spark, table, instant, stages)) is not None]
    if done and not table.options[o.CLEAN_ALLOW_MULTIPLE] and not due:
        return done
    instant = schedule_clean(reload_timeline(table) if done else table, due=due)
    result = run_clean(spark, table, instant, stages) if instant else None
    return [*done, *([result] if result else [])]


def _check_not_restoring(table: TableState) -> None:
    restoring = next((i for i in table.timeline.of(Action.RESTORE) if not i.is_completed), None)
    if restoring:
        raise WriteConflict(f"{table.base_path} is being restored ({restoring.file_name}); clean it when that is finished")


def _waiting(table: TableState) -> list[Instant]:
    return [i for i in table.timeline.of(Action.CLEAN) if not i.is_completed]


def run_clean(spark: SparkSession | None, table: TableState, instant: Instant, stages: Stages) -> CleanResult | None:
    """Run the plan of an instant to its end; None if there is no plan that could be read."""
    began = clock.monotonic_s()
    plan = _plan_of(table, instant)
    if plan is None:
        return None
    table = turn_off_metadata_table(table)
    storage = table.storage
    base_path = table.base_path
    if instant.state is State.REQUESTED:
        with suppress(AlreadyExists):  # somebody else runs it as well
            transition(storage, base_path, instant, State.INFLIGHT, write_clean_plan(plan, base_path))
    count = sum(map(len, plan.files.values()))
    with stages.run("clean", f"deleting {count:,} old files"):
        deleted = _delete(spark, table, plan, count)
    gone = {path for path in plan.partitions if withdraw_empty(table, path)}
    result = CleanResult(
        instant=instant.time,
        earliest=plan.earliest.time if plan.earliest else "",
        last_commit=plan.last_commit,
        partitions={path: _settled(path, one, plan, gone) for path, one in deleted.items()},
        policy=plan.policy,
        milliseconds=int((clock.monotonic_s() - began) * 1000),
        savepoints=plan.savepoints,
    )
    with suppress(AlreadyExists):
        transition(storage, base_path, instant, State.COMPLETED, write_clean_result(result))
    return result


def _settled(path: str, one: CleanedPartition, plan: CleanPlan, gone: Collection[str]) -> CleanedPartition:
    """What the result says of a partition. One that was to go and has not is told by its metafile; the next clean looks again."""
    kept = (PARTITION_METAFILE,) if path in plan.partitions and path not in gone else ()
    return replace(one, failed=(*one.failed, *kept), is_gone=path in gone)


def _plan_of(table: TableState, instant: Instant) -> CleanPlan | None:
    """The plan of a clean, from its requested file or, which holds it too, its inflight one. One that is unreadable goes."""
    problem: CorruptFile | None = None
    for state in (State.REQUESTED, State.INFLIGHT):
        path = instant_path(table.base_path, instant.at(state))
        try:
            return read_clean_plan(table.storage.read(path), path)
        except FileNotFoundError:
            continue
        except CorruptFile as e:
            problem = e
    if problem is None:
        return None  # somebody else finished it, or gave it up
    for state in (State.INFLIGHT, State.REQUESTED):
        table.storage.delete(instant_path(table.base_path, instant.at(state)))
    warnings.warn(
        f"clean {instant.time} of {table.base_path} is given up, its plan cannot be read ({problem}); the next clean finds what "
        "it would have deleted",
        RuntimeWarning,
        stacklevel=5,
    )
    return None


def _delete(spark: SparkSession | None, table: TableState, plan: CleanPlan, count: int) -> dict[str, CleanedPartition]:
    tasks = list(_tasks(table, plan.files))
    is_small = count < _MANY_FILES and fits_on_driver(table.options)
    found: dict[str, CleanedPartition] = dict.fromkeys((*plan.files, *plan.partitions), CleanedPartition())
    results = Runner(spark, on_driver=is_small).run(delete_files, tasks, list[list[str]])
    for task, (deleted, failed) in zip(tasks, results, strict=True):
        one = found[task.partition_path]
        found[task.partition_path] = CleanedPartition((*one.deleted, *deleted), (*one.failed, *failed))
    return found


def _tasks(table: TableState, files: Mapping[str, tuple[str, ...]]) -> Iterator[DeleteTask]:
    for path, names in files.items():
        for at in range(0, len(names), _FILES_PER_TASK):
            yield DeleteTask(table.storage, table.base_path, path, names[at : at + _FILES_PER_TASK])


def delete_files(task: DeleteTask) -> list[list[str]]:
    """Delete data files: the names that were deleted, and those that were not, be it because they were gone."""
    deleted: list[str] = []
    failed: list[str] = []
    for name in task.names:
        is_data = parse_base_name(name) is not None or parse_log_name(name) is not None
        try:
            done = is_data and task.storage.delete(join(task.base_path, task.partition_path, name))
        except StorageError:
            done = False
        (deleted if done else failed).append(name)
    return [deleted, failed]


def withdraw_empty(table: TableState, partition_path: str) -> bool:
    """Take a partition that holds nothing any more out of the table; whether it is gone.

    A writer that is about to put a file there relies on the metafile. So it goes only while nobody writes, and is put back
    if somebody has begun meanwhile.
    """
    storage = table.storage
    folder = join(table.base_path, partition_path)
    metafile = join(folder, PARTITION_METAFILE)
    before = _writes(table)
    if any(not i.is_completed for i in before) or any(not is_metafile(e.name) for e in storage.list(folder)):
        return False
    try:
        content = storage.read(metafile)
    except FileNotFoundError:
        content = None
    storage.delete(metafile)
    if _writes(table) != before:
        if content is not None:
            storage.replace(metafile, content)
        return False
    parts = partition_path.split("/")
    for depth in range(len(parts), 0, -1):
        if not storage.remove_empty(join(table.base_path, *parts[:depth])):
            break
    return True


def _writes(table: TableState) -> list[Instant]:
    return [i for i in load_timeline(table.storage, table.base_path).instants if i.action.family in WRITE_ACTIONS]
