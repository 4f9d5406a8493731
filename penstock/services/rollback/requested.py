"""A rollback that a user asks for: the newest write, finished or not."""

from __future__ import annotations

from penstock.catalog.pending import pending_clusterings, pending_plans
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import OptionError
from penstock.services.rollback.failed_writes import failed_writes, is_service, roll_back_failed
from penstock.services.rollback.plan import written_by
from penstock.services.rollback.run import roll_back
from penstock.services.savepoint import lost_since
from penstock.table import TableState, reload_timeline
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant


def roll_back_to(table: TableState, time: str) -> str:
    """Undo the write at a time, which must be the newest one; gives the rollback's own instant.

    Raises:
        OptionError: there is no such write, a later one exists, a savepoint holds it, a clustering or compaction that waits
            is to read what it wrote, or the rows before it were cleaned.
    """
    table = reload_timeline(table)
    instant = next((i for i in table.timeline.instants if i.time == time and i.action.family in WRITE_ACTIONS), None)
    if instant is None:
        raise OptionError(f"there is no write at {time} on the timeline of {table.base_path}; see history()")
    if not instant.is_completed and is_service(table, instant):
        raise OptionError(f"{instant.file_name} is the plan of a table service, not a write; there is nothing to roll back")
    if any(i.time == time for i in table.timeline.of(Action.SAVEPOINT)):
        raise OptionError(f"Could not rollback a savepointed commit. Delete savepoint {time} first")
    later = [i.time for i in table.timeline.writes if i.time > time]
    if later:
        raise OptionError(f"Found commits after time :{time}, please rollback greater commits first: {', '.join(later)}")
    if instant.is_completed and (plan := _planned_on_top(table, instant)):
        raise OptionError(
            f"{plan} of {table.base_path} waits to read what write {time} has written. Run it, or unschedule it first"
        )
    before = [i.time for i in table.timeline.writes if i.time < time]
    if instant.is_completed and before and (lost := lost_since(table, before[-1])):
        raise OptionError(f"write {time} of {table.base_path} cannot be rolled back: {lost}, which held the rows before it")
    table = turn_off_metadata_table(table)
    if instant.is_completed:
        table = roll_back_failed(table)
    waiting = [i.time for i in failed_writes(table) if i.time > time]
    if waiting:
        raise OptionError(
            f"Found in-flight commits after time :{time}, please rollback greater commits first: {', '.join(waiting)}"
        )
    return roll_back(table, instant)


def _planned_on_top(table: TableState, instant: Instant) -> str | None:
    """The clustering that is planned for what a write wrote, or the compaction that is for base files of its.

    A compaction takes the logs of a slice as they are when it runs, so those may go.
    """
    written = {(stat.partition_path or "", stat.file_id) for stat in written_by(table, instant).stats}
    for group, time in pending_clusterings(table).items():
        if group in written and time > instant.time:
            return f"clustering {time}"
    for waiting, plan in pending_plans(table):
        if any(one.base_file and one.base_instant == instant.time for one in plan.operations):
            return f"compaction {waiting.time}"
    return None
