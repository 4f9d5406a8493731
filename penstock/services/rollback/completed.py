"""Checks that a completed write can be rolled back: before its rollback is requested, and again right after that.

Another write that reads the commit may begin at any moment. If it commits after the rollback is requested, it finds the rollback
and fails (`commit/undone_commits.py`). If it committed earlier, the second check finds its commit, and the rollback is withdrawn.
No file was removed by then. The second check runs as one of the table's transactions (`commit/claims.py`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from penstock.commit.claims import has_claims, run_transaction
from penstock.commit.conflicts import check_not_restoring
from penstock.commit.heartbeat import describe_writer, is_single_writer
from penstock.commit.table_lock import locked
from penstock.errors import CorruptFile, OptionError, StorageError, WriteConflict
from penstock.services.rollback.plan import read_written
from penstock.services.savepoint import find_lost_file
from penstock.table.pending import find_pending_clusterings, list_compaction_plans
from penstock.table.state import TableState
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import instant_path, load_timeline
from penstock.timeline.timeline import Timeline


def check_undoable(table: TableState, instant: Instant) -> None:
    """Raise OptionError if a rollback of a write could not bring the table back to its state before the write.

    Reasons are: the write has a savepoint, it is not the newest write, a pending plan will read its files, or a clean has
    deleted files that the table had before the write.

    Args:
        instant: the write, completed or pending.
    """
    time = instant.time
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


def confirm_rollback(table: TableState, rollback: Instant, instant: Instant, *, is_own: bool = False) -> None:
    """Check again that a completed write can be rolled back, after its rollback was requested. If not, delete that request.

    The check runs as one of the transactions of the table (`commit/claims.py`). Every later transaction finds the requested
    rollback, so no writer commits on top of the write. On a table without claims, to which no writer with optimistic concurrency
    control has written, the check only loads the timeline again.

    Args:
        rollback: the requested rollback.
        instant: the write, as it was on the timeline.
        is_own: whether this process has just requested the rollback. Then the request is deleted after any failure: its caller
            gets an error, so no other process may finish the rollback.

    Raises:
        OptionError: the write cannot be rolled back any more, for example because of a later commit.
        WriteConflict: a writer without concurrency control is at work, or the table is being restored.
        CorruptFile: a file that the check reads is damaged.
    """

    def check(timeline: Timeline) -> None:
        """Raise an error if the write cannot be rolled back any more, by the timeline as the transaction reads it.

        Nothing is raised if the write is no longer on that timeline, because it was rolled back already.
        """
        if instant.time in timeline.completed_times:
            table_now = replace(table, timeline=timeline)
            check_not_restoring(table_now, timeline)
            refuse_single_writers(table_now)
            check_undoable(table_now, instant)

    try:
        if has_claims(table):
            with locked(table):
                run_transaction(table, check)
        else:
            check(load_timeline(table.storage, table.base_path))
    except (OptionError, WriteConflict, CorruptFile):
        _withdraw(table, rollback)
        raise
    except BaseException:
        if is_own:
            with suppress(StorageError):
                _withdraw(table, rollback)
        raise


def _withdraw(table: TableState, rollback: Instant) -> None:
    """Delete a requested rollback, unless another process has begun to run it."""
    if table.storage.stat(instant_path(table.base_path, rollback.in_state(State.INFLIGHT))) is None:
        table.storage.delete(instant_path(table.base_path, rollback))


def refuse_single_writers(table: TableState) -> None:
    """Raise WriteConflict if a writer without concurrency control is at work: it would not notice the rollback."""
    for instant in table.timeline.pending:
        if instant.action in WRITE_ACTIONS and is_single_writer(table, instant.time):
            raise WriteConflict(
                f"{table.base_path} has another writer: {describe_writer(table, instant)}. Run the rollback when it is finished"
            )
