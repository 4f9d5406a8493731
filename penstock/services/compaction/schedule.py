"""Scheduling: a compaction's plan on the timeline, beside writers (`services/plans.py`), and off it again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock import clock
from penstock import options as o
from penstock.catalog.listing import choose_groups, list_groups, visibility
from penstock.catalog.pending import pending_clusterings, pending_compactions, pending_plans, plan_of
from penstock.catalog.savepoints import savepoints
from penstock.errors import CorruptFile, OptionError, Unsupported, WriteConflict
from penstock.filegroup.names import log_file_name, log_order, next_log_version, parse_log_name
from penstock.services.compaction.plan import plan_compaction, slices_with_logs
from penstock.services.compaction.strategies import strategy_of
from penstock.services.compaction.triggers import is_due
from penstock.services.planned import plan_beside_writers, writes_under_way
from penstock.storage import join
from penstock.table import MERGE_ON_READ, TableState, reload_timeline
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_plan
from penstock.timeline.instant import Action, Instant, State, format_time
from penstock.timeline.savepoint_file import Savepoint
from penstock.timeline.store import instant_path

#: In the extra metadata of a plan that is being taken off the timeline, so that nobody runs it.
_LEAVING = "penstock.unscheduling"


def schedule(table: TableState, *, due: bool = False) -> Instant | None:
    """Plan a compaction, if there is anything to compact.

    Args:
        due: whether it is due whatever the trigger of the options says.

    Returns:
        The plan's instant; None where nothing has log files, the trigger does not ask for it, or a write is under way.
    """
    check_type(table)

    def is_due_now(table: TableState) -> bool:
        return due or is_due(table.timeline, table.options, _now(table))

    return plan_beside_writers(table, Action.COMPACTION, "compaction", is_due_now, _content, _refreshed)


def _refreshed(table: TableState) -> TableState:
    return finish_unscheduling(reload_timeline(table))


def _content(table: TableState) -> bytes | None:
    plan = make_plan(table)
    return write_plan(plan) if plan.operations else None


def make_plan(table: TableState) -> CompactionPlan:
    """What a compaction of the table would do now; nothing is written."""
    strategy, bounds = strategy_of(table.options)
    busy = pending_compactions(table).keys() | pending_clusterings(table).keys()
    groups = choose_groups(table, lambda paths: strategy.partitions(paths, bounds))
    slices = slices_with_logs(groups, visibility(table), busy)
    return plan_compaction(slices, strategy, bounds, table.options[o.MAX_FILE_SIZE])


def unschedule(table: TableState, time: str) -> None:
    """Take a plan that nobody runs off the timeline. Log files written since belong to the slice before again.

    A plan that is torn goes too: the names of log files say which file groups it was for. So does one of a log compaction,
    which no file waits for. No other writer may be at work on the table.

    Raises:
        OptionError: there is no such plan, its run has begun, or a savepoint holds log files that would get other names.
        WriteConflict: a write is under way.
    """
    check_type(table)
    table = reload_timeline(table)
    instant = _unscheduled(table, time)
    if instant.state is not State.REQUESTED:
        verb = "compact_logs" if instant.action is Action.LOG_COMPACTION else "compact"
        raise OptionError(
            f"compaction {time} of {table.base_path} has begun; run it to its end with {verb}(), it cannot go. If its plan is "
            "torn, put that file back from a copy first"
        )
    if held := next((one.instant for one in savepoints(table) if _holds_logs_on(one, time)), None):
        raise OptionError(
            f"savepoint {held} of {table.base_path} holds log files on top of compaction {time}; run it with compact(), or "
            f"let go of them first with delete_savepoint({held!r})"
        )
    if under_way := writes_under_way(table):
        raise WriteConflict(
            f"write {under_way[0].file_name} of {table.base_path} is under way, and may count on compaction {time}; "
            "finish it first"
        )
    if instant.action is Action.LOG_COMPACTION:
        table.storage.delete(instant_path(table.base_path, instant))
        return
    try:
        plan = plan_of(table, instant)
    except CorruptFile:
        plan = _plan_by_logs(table, time)
    if plan is None:
        return
    marked = replace(plan, extra={**plan.extra, _LEAVING: "true"})
    table.storage.replace(instant_path(table.base_path, instant), write_plan(marked))
    _take_off(table, instant, marked)


def _unscheduled(table: TableState, time: str) -> Instant:
    """The plan at a time, of a compaction or of a log compaction. Raises OptionError."""
    logs = [i for i in table.timeline.of(Action.LOG_COMPACTION) if i.time == time and not i.is_completed]
    return logs[0] if logs else pending_at(table, time)


def _plan_by_logs(table: TableState, time: str) -> CompactionPlan:
    """What a plan that cannot be read was for, as far as log files lie on top of it: each with the slice before."""
    operations = []
    for group in list_groups(table):
        times = [one.base_instant for one in group.slices]  # the newest first
        if time in times and (before := [one for one in times if one < time]):
            operations.append(CompactionOperation(group.partition_path, group.file_id, before[0], None, ()))
    return CompactionPlan(tuple(operations))


def _holds_logs_on(savepoint: Savepoint, base: str) -> bool:
    names = (parse_log_name(name) for names in savepoint.files.values() for name in names)
    return any(name is not None and name.base_instant == base for name in names)


def finish_unscheduling(table: TableState) -> TableState:
    """Take plans off the timeline whose taking off was interrupted."""
    leaving = [(instant, plan) for instant, plan in pending_plans(table) if _LEAVING in plan.extra]
    for instant, plan in leaving:
        _take_off(table, instant, plan)
    return reload_timeline(table) if leaving else table


def _take_off(table: TableState, instant: Instant, plan: CompactionPlan) -> None:
    """Rename log files on top of the plan's instant, then remove the plan. May be done again from wherever it stopped."""
    for operation in plan.operations:
        _move_logs(table, operation, instant.time, operation.base_instant)
    table.storage.delete(instant_path(table.base_path, instant))


def repair(table: TableState, time: str) -> list[str]:
    """Put right the log files of a plan: those that came to a slice after it was planned belong on top of the plan's instant.

    For a plan whose taking off by another engine was interrupted. No other writer may be at work on the table.

    Returns:
        The new names of log files that were renamed.

    Raises:
        CorruptFile: a file that the plan names is missing.
    """
    check_type(table)
    table = reload_timeline(table)
    plan = plan_of(table, pending_at(table, time))
    renamed = []
    for operation in plan.operations if plan else ():
        check_files(table, operation)
        renamed += _move_logs(table, operation, operation.base_instant, time, keep=operation.log_files)
    return renamed


def check_files(table: TableState, operation: CompactionOperation) -> None:
    """Raises CorruptFile if a file that an operation names is missing."""
    here = {f.name for f in table.storage.list(join(table.base_path, operation.partition_path))}
    for name in (operation.base_file, *operation.log_files):
        if name is not None and name not in here:
            raise CorruptFile(
                f"{join(table.base_path, operation.partition_path, name)} is missing, which a compaction plan names; "
                "restore the file from a copy, or unschedule that compaction"
            )


def _move_logs(table: TableState, operation: CompactionOperation, base: str, to: str, keep: Iterable[str] = ()) -> list[str]:
    """Give log files of a file group another base instant, in reading order, behind those that have it already."""
    folder = join(table.base_path, operation.partition_path)
    names = {f.name: name for f in table.storage.list(folder) if (name := parse_log_name(f.name)) and not name.is_cdc}
    ours = {text: name for text, name in names.items() if name.file_id == operation.file_id}
    moved = []
    for text, name in sorted(ours.items(), key=lambda item: log_order(item[1])):
        if name.base_instant == base and text not in set(keep):
            version = next_log_version(ours.values(), operation.file_id, to)
            new = log_file_name(operation.file_id, to, version, name.write_token)
            table.storage.move_tree(join(folder, text), join(folder, new))
            ours = {**ours, new: replace(name, base_instant=to, version=version)}
            moved.append(new)
    return moved


def pending_at(table: TableState, time: str, action: Action = Action.COMPACTION) -> Instant:
    """The pending compaction at a time. Raises OptionError."""
    waiting = [i for i in table.timeline.of(action) if not i.is_completed]
    for instant in waiting:
        if instant.time == time:
            return instant
    known = ", ".join(i.time for i in waiting) or "none"
    raise OptionError(f"there is no pending {action.value} at {time} on the timeline of {table.base_path}; pending: {known}")


def check_type(table: TableState) -> None:
    """Raises Unsupported for a table that has nothing to compact."""
    if not table.is_merge_on_read:
        raise Unsupported(
            f"Can only compact table of type {MERGE_ON_READ} and not {table.config.table_type}: {table.base_path} has no "
            "log files"
        )


def _now(table: TableState) -> str:
    return format_time(clock.utc_now() if table.config.timeline_utc else clock.local_now())
