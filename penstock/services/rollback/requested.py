"""Roll back the newest write, completed or pending, at a user's request."""

from __future__ import annotations

from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import OptionError
from penstock.services.rollback.failed_writes import failed_writes, roll_back_failed, runs_a_plan
from penstock.services.rollback.plan import read_written
from penstock.services.rollback.run import roll_back
from penstock.services.savepoint import find_lost_file
from penstock.table.pending import find_pending_clusterings, list_compaction_plans
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant


def roll_back_to(table: TableState, time: str) -> str:
    """Roll back the write with the instant time `time`, which must be the newest write.

    Returns:
        The instant time of the rollback.

    Raises:
        OptionError: there is no such write; a later write exists; the write has a savepoint; a pending clustering or compaction
            will read files of the write; or a clean has deleted files that the table before the write needs.
    """
    table = reload_timeline(table)
    instant = _find_write(table, time)
    _check(table, instant)
    table = turn_off_metadata_table(table)
    if instant.is_completed:
        table = roll_back_failed(table)
    later_failed = [write.time for write in failed_writes(table) if write.time > time]
    if later_failed:
        raise OptionError(
            f"Found in-flight commits after time :{time}, please rollback greater commits first: {', '.join(later_failed)}"
        )
    return roll_back(table, instant)


def _find_write(table: TableState, time: str) -> Instant:
    """Return the instant of the write with the instant time `time`. Raise OptionError if there is no such write."""
    for instant in table.timeline.instants:
        if instant.time == time and instant.action.family in WRITE_ACTIONS:
            return instant
    raise OptionError(f"there is no write at {time} on the timeline of {table.base_path}; see history()")


def _check(table: TableState, instant: Instant) -> None:
    """Raise OptionError if a rollback of the write could not bring the table back to its state before the write."""
    time = instant.time
    if not instant.is_completed and runs_a_plan(table, instant):
        raise OptionError(f"{instant.file_name} is the plan of a table service, not a write; there is nothing to roll back")
    if any(savepoint.time == time for savepoint in table.timeline.filter(Action.SAVEPOINT)):
        raise OptionError(f"Could not rollback a savepointed commit. Delete savepoint {time} first")
    later = [write.time for write in table.timeline.writes if write.time > time]
    if later:
        raise OptionError(f"Found commits after time :{time}, please rollback greater commits first: {', '.join(later)}")
    if not instant.is_completed:
        return
    plan = _pending_plan_on_top(table, instant)
    if plan is not None:
        raise OptionError(
            f"{plan} of {table.base_path} waits to read what write {time} has written. Run it, or unschedule it first"
        )
    before = [write.time for write in table.timeline.writes if write.time < time]
    lost = find_lost_file(table, before[-1]) if before else None
    if lost is not None:
        raise OptionError(f"write {time} of {table.base_path} cannot be rolled back: {lost}, which held the rows before it")


def _pending_plan_on_top(table: TableState, instant: Instant) -> str | None:
    """Return a text that names a pending clustering or compaction which will read files of a write; None if there is none.

    For a compaction, only base files of the write count: a compaction reads the log files that exist when it runs, so log files
    of the write may be removed.

    Args:
        instant: the completed write.
    """
    written = {(stat.partition_path or "", stat.file_id) for stat in read_written(table, instant).stats}
    for group, time in find_pending_clusterings(table).items():
        if group in written and time > instant.time:
            return f"clustering {time}"
    for compaction, plan in list_compaction_plans(table):
        if any(operation.base_file and operation.base_instant == instant.time for operation in plan.operations):
            return f"compaction {compaction.time}"
    return None
