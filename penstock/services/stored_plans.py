"""Plans of table services on the timeline: stored, withdrawn, found, and taken over from a run that crashed.

A plan names files that exist when it is made. A write that began earlier and is still under way may later add a file that the
plan does not name, so no plan is made while a write is under way. A write may also begin while the plan is being made. Therefore
the timeline is read again after the plan was stored, and the plan is deleted if a write had begun before its instant. Writers
rely on this: a write takes into account only the plans whose instant is earlier than its own.

With several writers (optimistic concurrency control) a plan may be made, and stays, while writes are pending. The plan leaves out
the log files of pending writes. If a plan and a write have a file group in common, the write conflicts when it commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from penstock.commit.claims import delete_undone_marks, is_plan_marked, mark_undone, run_transaction
from penstock.commit.conflicts import base_instants_of_logs, check_not_restoring
from penstock.commit.heartbeat import is_alive
from penstock.commit.modes import is_optimistic
from penstock.commit.table_lock import check_store, locked
from penstock.commit.undone_commits import check_still_there
from penstock.errors import CorruptFile, OptionError, TableChanged, WriteConflict
from penstock.formats.avro.container import read_container
from penstock.services.preferred_writers import prefers_writers
from penstock.services.rollback.run import roll_back, run_rollback
from penstock.table.pending import find_pending_clusterings
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import instant_path, load_timeline, read_metadata, request_instant
from penstock.timeline.timeline import Timeline
from penstock.user_warning import warn_user


def store_plan(table: TableState, action: Action, content: bytes) -> Instant | None:
    """Store a plan on the timeline and return its instant.

    If a write with an earlier instant began or completed after `table.timeline` was loaded, delete the plan again and return
    None: the plan does not name the files of that write. With several writers, a write that only began does not count; but
    another plan with an earlier instant that was stored since then does.

    Args:
        action: the action of the plan's instant.
        content: the content of the requested file.

    Raises:
        Unsupported: the table is on an object store that ignores conditional puts.
    """
    check_store(table)
    if is_optimistic(table):
        # The lock is held from before the plan is visible: no process of Hudi that commits can come between.
        with locked(table):
            instant = _request(table, action, content)
            return instant if _confirm_plan(table, instant) else None
    instant = _request(table, action, content)
    known = {(i.time, i.action.family, i.state) for i in table.timeline.instants}
    # Read the timeline only now that the plan is visible: a write either is in this timeline, or began later than the plan and
    # takes it into account.
    for other in load_timeline(table.storage, table.base_path).instants:
        is_new = (other.time, other.action.family, other.state) not in known
        if is_new and other.time < instant.time and other.action.family in WRITE_ACTIONS:
            return instant if _withdraw_plan(table, instant) is Withdrawn.NEEDED else None
    return instant


def _request(table: TableState, action: Action, content: bytes) -> Instant:
    """Create the requested file of a plan. Return its instant."""
    return request_instant(
        table.storage,
        table.base_path,
        action,
        utc=table.config.timeline_utc,
        content=content,
        take_back=lambda instant: _withdraw_plan(table, instant) is Withdrawn.YES,
    )


def _confirm_plan(table: TableState, instant: Instant) -> bool:
    """Check in a transaction that a new plan still holds; otherwise withdraw the plan. Return whether the plan is kept.

    Used with several writers. The plan does not hold if a write with an earlier instant completed, or another plan with an
    earlier instant was stored, since `table.timeline` was loaded; or if a commit that the plan has read is being undone. The plan
    is on the timeline before its transaction (`commit/claims.py`). So a write that completes later finds the plan, and conflicts
    with it if both change the same file group.

    Args:
        table: the table with the timeline on which the plan was made.
        instant: the requested instant of the plan.
    """

    def check(timeline: Timeline) -> None:
        """Check that nothing on `timeline`, which is loaded in the transaction, contradicts the plan.

        Earlier means: with an instant time before that of the plan.

        Raises:
            TableChanged: since the plan was made, an earlier write completed, or another earlier plan was stored. If the options
                prefer writers to table services, also: an earlier write began.
            WriteConflict: a commit that the plan has read is being undone, or a restore is pending.
        """
        check_not_restoring(table, timeline)
        check_still_there(table, table.timeline, timeline)
        known = {i.time for i in table.timeline.instants}
        for other in timeline.instants:
            is_plan = not other.is_completed and other.action not in (Action.CLEAN, Action.ROLLBACK, Action.SAVEPOINT)
            is_write = other.is_completed and other.action.family in WRITE_ACTIONS
            is_new = other.time not in known or (is_write and other.time not in table.timeline.completed_times)
            goes_first = is_write or other.action not in WRITE_ACTIONS or prefers_writers(table)
            # A write or plan with a later instant has seen this plan.
            if is_new and other.time < instant.time and (is_write or is_plan) and goes_first:
                raise TableChanged(f"{other.file_name} of {table.base_path} came between")

    try:
        run_transaction(table, check)
    except BaseException as e:
        outcome = _withdraw_plan(table, instant)
        if isinstance(e, WriteConflict):
            return outcome is Withdrawn.NEEDED
        raise
    return True


class Withdrawn(Enum):
    """The result of withdrawing a plan: deleted (YES), needed by log files on top of it (NEEDED), or run elsewhere (TAKEN)."""

    YES = "it is deleted"
    NEEDED = "it stays pending, because log files lie on top of it"
    TAKEN = "another process runs it, or has run it"


def _withdraw_plan(table: TableState, instant: Instant) -> Withdrawn:
    """Delete a plan that does not hold, unless log files or a run of another process depend on it. Return the result.

    A write with a later instant that has completed may have added log files whose base instant is the plan's, so it needs the
    plan. Another process may also run the plan: it checks for itself that the plan still holds. The plan is marked as undone
    first, then a transaction (`commit/claims.py`) looks for these processes. So a write that relies on the plan, or a run of it,
    either finds the mark and fails, or is found by the transaction. Unless several writers are allowed, there are no
    transactions: a write that publishes at the same moment may not be found.
    """
    outcome = Withdrawn.YES

    def check(timeline: Timeline) -> None:
        """Set `outcome`: whether log files or a run of another process depend on the plan, by the timeline of the transaction."""
        nonlocal outcome
        states = {i.state for i in timeline.instants if i.time == instant.time and i.action.family is instant.action.family}
        outcome = Withdrawn.YES
        if states - {State.REQUESTED}:
            outcome = Withdrawn.TAKEN
        elif _has_logs_on_top(table, instant, timeline):
            outcome = Withdrawn.NEEDED

    path = instant_path(table.base_path, instant)
    if not is_optimistic(table):
        check(load_timeline(table.storage, table.base_path))
        if outcome is Withdrawn.YES:
            table.storage.delete(path)
        return outcome
    mark = mark_undone(table, instant.time, takes_plan=True)
    try:
        run_transaction(table, check)
        if outcome is Withdrawn.YES:
            table.storage.delete(path)
    finally:
        table.storage.delete(mark)
    return outcome


def finish_withdrawal(table: TableState, instant: Instant) -> bool:
    """Finish withdrawing a plan, if a process has begun to withdraw it. Return whether the plan can still be run.

    A plan that a process has begun to withdraw is deleted, unless log files lie on top of it or another process runs it. That
    process may have died. If it is alive, it comes to the same result: what decides are the transactions after its mark.

    Args:
        instant: the requested instant of the plan.

    Returns:
        True if no process has begun to withdraw the plan, or if the plan stays because of log files on top of it.
    """
    if not is_optimistic(table) or not is_plan_marked(table, instant.time):
        return True
    outcome = _withdraw_plan(table, instant)
    if outcome is not Withdrawn.TAKEN:
        delete_undone_marks(table, instant.time)
    return outcome is Withdrawn.NEEDED


def _has_logs_on_top(table: TableState, instant: Instant, timeline: Timeline) -> bool:
    """Whether a completed write has added a log file whose base instant is that of a plan."""
    if instant.action is not Action.COMPACTION:
        return False  # only a compaction changes the base instant of new log files
    for write in timeline.writes:
        if write.time > instant.time:
            stats = read_metadata(table.storage, table.base_path, write).stats
            if instant.time in base_instants_of_logs(stats):
                return True
    return False


def waits_for_writes(table: TableState, noun: str, own: str | None = None, since: TableState | None = None) -> bool:
    """Return whether a table service must not make a plan now because of writes. If so, warn and name the first of these writes.

    Args:
        noun: what cannot be planned, for the warning, for example "compaction".
        own: the instant time of the pending write of the service itself, which is ignored; None if it has none.
        since: the table with a timeline that was loaded earlier. Writes that completed after that count too. None: only writes
            that are under way count.
    """
    under_way = [instant for instant in writes_under_way(table) if instant.time != own]
    if under_way:
        name = under_way[0].file_name
        warn_not_planned(table, noun, f"write {name} is under way, or died and waits for the next write to undo it")
        return True
    if since is None:
        return False
    completed = sorted(table.timeline.completed_times - since.timeline.completed_times)
    if completed:
        warn_not_planned(table, noun, f"write {completed[0]} came between")
    return bool(completed)


def warn_not_planned(table: TableState, noun: str, reason: str) -> None:
    """Warn that no plan is made now.

    Args:
        noun: the kind of plan, for example "compaction".
        reason: why no plan is made, in words.
    """
    warn_user(f"no {noun} of {table.base_path} is planned now: {reason}")


def writes_under_way(table: TableState) -> list[Instant]:
    """Return the instants of pending writes. Pending plans of table services are not writes."""
    # A clustering has the same action as a write that replaces file groups; only the plan in its file tells them apart.
    clusterings = set(find_pending_clusterings(table).values())
    return [i for i in table.timeline.pending if i.action in WRITE_ACTIONS and i.time not in clusterings]


def start_over(table: TableState, instant: Instant) -> TableState:
    """Roll back what a crashed run of a plan left, so that the plan can be run again.

    A run has left something if the plan has an inflight file or a pending rollback. Return a copy of the table with its
    timeline loaded again.

    Args:
        instant: the instant of the plan.

    Raises:
        OptionError: the plan is no longer pending.
        WriteConflict: another process is running the plan.
    """
    for rollback in pending_instants(table, Action.ROLLBACK):
        rollback_plan = _read_rollback_of(table, rollback, instant)
        if rollback_plan is not None:
            run_rollback(table, rollback, rollback_plan, keeps_plan=True)
    table = reload_timeline(table)
    current = find_pending(table, pending_instants(table, instant.action), instant.time, instant.action.value)
    if current.state is State.REQUESTED:
        return table
    if runs_elsewhere(table, current):
        raise WriteConflict(f"{instant.action.value} {instant.time} of {table.base_path} is being run by another process")
    roll_back(table, current, keeps_plan=True)
    return reload_timeline(table)


def _read_rollback_of(table: TableState, rollback: Instant, instant: Instant) -> Mapping[str, Any] | None:
    """Read the plan of a pending rollback; return None if it does not roll back `instant`, or cannot be read.

    Args:
        rollback: the instant of the rollback.
    """
    try:
        plan = read_container(table.storage.read(instant_path(table.base_path, rollback.in_state(State.REQUESTED))))
    except (FileNotFoundError, CorruptFile):
        return None  # the next write removes this rollback, or reports what is wrong with it
    target = plan.get("instantToRollback") or {}
    undoes_instant = target.get("commitTime") == instant.time and target.get("action") == instant.action.value
    return plan if undoes_instant else None


def runs_elsewhere(table: TableState, instant: Instant) -> bool:
    """Whether another process is running the plan at `instant`: its inflight file exists and its heartbeat is recent."""
    return instant.state is not State.REQUESTED and is_alive(table, instant.time)


def pending_instants(table: TableState, action: Action) -> list[Instant]:
    """Return the requested and inflight instants of an action, oldest first."""
    return [instant for instant in table.timeline.filter(action) if not instant.is_completed]


def find_pending(table: TableState, pending: Sequence[Instant], time: str, noun: str) -> Instant:
    """Return the instant in `pending` that has the instant time `time`.

    Args:
        noun: the kind of plan, for the message, for example "compaction".

    Raises:
        OptionError: there is no such instant. The message lists the times of all pending instants.
    """
    for instant in pending:
        if instant.time == time:
            return instant
    known = ", ".join(instant.time for instant in pending) or "none"
    raise OptionError(f"there is no pending {noun} at {time} on the timeline of {table.base_path}; pending: {known}")
