"""Unschedules a compaction plan: removes it from the timeline. Also repairs a plan that another engine left half unscheduled.

While a plan is pending, writers write log files whose base instant is the plan's. Without the plan these files would belong to no
slice, so they are renamed to the base instant of the previous slice before the plan is removed. The plan is marked before its log
files are renamed: if the renaming is interrupted, the next process that schedules compactions or runs pending ones finishes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import CorruptFile, OptionError, WriteConflict
from penstock.filegroup.names import log_file_name, log_order, next_log_version, parse_log_name
from penstock.services.compaction.planned_slices import missing_file
from penstock.services.compaction.table_type import check_merge_on_read
from penstock.services.stored_plans import find_pending, pending_instants, writes_under_way
from penstock.storage import join
from penstock.table.listing import list_groups
from penstock.table.pending import list_compaction_plans, load_compaction_plan
from penstock.table.savepoints import read_savepoints
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.savepoint_file import Savepoint
from penstock.timeline.store import instant_path

#: Key in the extra metadata of a plan that is being unscheduled.
_LEAVING = "penstock.unscheduling"


def unschedule(table: TableState, time: str) -> None:
    """Unschedule the pending compaction or log compaction at `time`: remove its plan, whose run has not begun.

    Log files that were written since the plan was made are renamed to the base instant of the previous slice. If the plan cannot
    be read, the names of log files show which file groups the plan was for. A log compaction plan is only deleted: no log file
    depends on it. No other process may write to the table.

    Raises:
        OptionError: there is no such plan, its run has begun, or a savepoint holds log files that would be renamed.
        WriteConflict: a write is under way.
    """
    check_merge_on_read(table)
    table = reload_timeline(table)
    instant = _find_plan(table, time)
    _check_removable(table, instant)
    if instant.action is Action.LOG_COMPACTION:
        table.storage.delete(instant_path(table.base_path, instant))
        return
    try:
        plan = load_compaction_plan(table, instant)
    except CorruptFile:
        plan = _plan_by_logs(table, time)
    if plan is None:
        return
    marked = replace(plan, extra={**plan.extra, _LEAVING: "true"})
    table.storage.replace(instant_path(table.base_path, instant), write_compaction_plan(marked))
    _take_off(table, instant, marked)


def _find_plan(table: TableState, time: str) -> Instant:
    """Return the instant of the pending compaction or log compaction at `time`. Raise OptionError if there is none."""
    for instant in pending_instants(table, Action.LOG_COMPACTION):
        if instant.time == time:
            return instant
    return _find_compaction(table, time)


def _find_compaction(table: TableState, time: str) -> Instant:
    """Return the instant of the pending compaction at `time`. Raise OptionError if there is none."""
    return find_pending(table, pending_instants(table, Action.COMPACTION), time, "compaction")


def _check_removable(table: TableState, instant: Instant) -> None:
    """Raise an error if a plan must not be unscheduled now.

    Args:
        instant: the pending instant of the plan.

    Raises:
        OptionError: the run of the plan has begun, or a savepoint holds log files whose base instant is that of the plan.
        WriteConflict: a write is under way.
    """
    time = instant.time
    if instant.state is not State.REQUESTED:
        verb = "compact_logs" if instant.action is Action.LOG_COMPACTION else "compact"
        raise OptionError(
            f"compaction {time} of {table.base_path} has begun; run it to its end with {verb}(), it cannot go. If its plan is "
            "torn, put that file back from a copy first"
        )
    for savepoint in read_savepoints(table):
        if _holds_logs_of(savepoint, time):
            raise OptionError(
                f"savepoint {savepoint.instant} of {table.base_path} holds log files on top of compaction {time}; run it with "
                f"compact(), or let go of them first with delete_savepoint({savepoint.instant!r})"
            )
    under_way = writes_under_way(table)
    if under_way:
        raise WriteConflict(
            f"write {under_way[0].file_name} of {table.base_path} is under way, and may count on compaction {time}; "
            "finish it first"
        )


def _holds_logs_of(savepoint: Savepoint, base_instant: str) -> bool:
    """Whether a savepoint holds a log file with this base instant."""
    for file_names in savepoint.files.values():
        for file_name in file_names:
            name = parse_log_name(file_name)
            if name is not None and name.base_instant == base_instant:
                return True
    return False


def _plan_by_logs(table: TableState, time: str) -> CompactionPlan:
    """Return a substitute for the plan at `time`, whose file cannot be read.

    The substitute names the file groups that have log files with the plan's instant as base instant, each with the base instant
    of its previous slice.
    """
    operations = []
    for group in list_groups(table):
        base_instants = [file_slice.base_instant for file_slice in group.slices]  # the newest first
        earlier = [base_instant for base_instant in base_instants if base_instant < time]
        if time in base_instants and earlier:
            operations.append(CompactionOperation(group.partition_path, group.file_id, earlier[0], None, ()))
    return CompactionPlan(tuple(operations))


def finish_unscheduling(table: TableState) -> TableState:
    """Finish unscheduling the plans that an interrupted process has marked. Return a copy of the table with the new timeline."""
    leaving = [(instant, plan) for instant, plan in list_compaction_plans(table) if _LEAVING in plan.extra]
    for instant, plan in leaving:
        _take_off(table, instant, plan)
    return reload_timeline(table) if leaving else table


def _take_off(table: TableState, instant: Instant, plan: CompactionPlan) -> None:
    """Move the log files that were written since a plan was made to the previous file slice, then delete the plan.

    The log files are renamed: their base instant, which is the plan's instant, becomes that of the slice that the plan was to
    compact. Safe to repeat after a crash.
    """
    for operation in plan.operations:
        _move_logs(table, operation, instant.time, operation.base_instant)
    table.storage.delete(instant_path(table.base_path, instant))


def repair(table: TableState, time: str) -> list[str]:
    """Rename log files from the base instant of the previous slice back to the instant of the pending plan at `time`.

    This is for a plan that another engine began to unschedule and left pending. Only log files that were written since the plan
    was made are renamed. No other process may write to the table.

    Returns:
        The new names of the renamed log files.

    Raises:
        OptionError: there is no pending compaction at this instant time.
        CorruptFile: a file that the plan names is missing.
    """
    check_merge_on_read(table)
    table = reload_timeline(table)
    plan = load_compaction_plan(table, _find_compaction(table, time))
    renamed: list[str] = []
    if plan is None:
        return renamed
    for operation in plan.operations:
        _check_files(table, operation)
        renamed += _move_logs(table, operation, operation.base_instant, time, keep=operation.log_files)
    return renamed


def _check_files(table: TableState, operation: CompactionOperation) -> None:
    """Raise CorruptFile if a file that an operation of a plan names is missing."""
    folder = join(table.base_path, operation.partition_path)
    existing = {file.name for file in table.storage.list(folder)}
    for name in (operation.base_file, *operation.log_files):
        if name is not None and name not in existing:
            raise missing_file(join(folder, name))


def _move_logs(
    table: TableState, operation: CompactionOperation, base_instant: str, to: str, keep: Sequence[str] = ()
) -> list[str]:
    """Rename log files of an operation's file group: those with the base instant `base_instant` get the base instant `to`.

    Readers merge log files in the order of their versions. So the files are renamed in this order, and each gets the next free
    version of its new slice.

    Args:
        keep: names of log files that are not renamed.

    Returns:
        The new names of the renamed log files.
    """
    folder = join(table.base_path, operation.partition_path)
    names = {}
    for file in table.storage.list(folder):
        name = parse_log_name(file.name)
        if name is not None and not name.is_cdc and name.file_id == operation.file_id:
            names[file.name] = name
    kept = frozenset(keep)
    moved = []
    for file_name, name in sorted(names.items(), key=lambda item: log_order(item[1])):
        if name.base_instant != base_instant or file_name in kept:
            continue
        version = next_log_version(names.values(), operation.file_id, to)
        new_name = log_file_name(operation.file_id, to, version, name.write_token)
        table.storage.move_tree(join(folder, file_name), join(folder, new_name))
        names[new_name] = replace(name, base_instant=to, version=version)
        moved.append(new_name)
    return moved
