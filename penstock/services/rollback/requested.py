"""Roll back the newest write, completed or pending, at a user's request."""

from __future__ import annotations

from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import OptionError
from penstock.services.rollback.completed import check_undoable
from penstock.services.rollback.failed_writes import failed_writes, roll_back_failed, runs_a_plan
from penstock.services.rollback.run import roll_back
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import WRITE_ACTIONS, Instant


def roll_back_to(table: TableState, time: str) -> str:
    """Roll back the write with the instant time `time`, which must be the newest write.

    Returns:
        The instant time of the rollback.

    Raises:
        OptionError: there is no such write; a later write exists; the write has a savepoint; a pending clustering or compaction
            will read files of the write; or a clean has deleted files that the table before the write needs.
        WriteConflict: a writer without concurrency control is at work, or the table is being restored.
    """
    table = reload_timeline(table)
    instant = _find_write(table, time)
    if not instant.is_completed and runs_a_plan(table, instant):
        raise OptionError(f"{instant.file_name} is the plan of a table service, not a write; there is nothing to roll back")
    check_undoable(table, instant)
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
