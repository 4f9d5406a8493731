"""Checks that the commits on which a change or a plan is based are still part of the table.

A rollback of a completed commit and a restore are visible on the timeline before they remove anything. They store their plan,
then take a turn among the transactions (`claims.py`) and check the timeline. A writer checks the timeline in its own turn. So
either the writer finds the plan, or finds the commit gone, or the rollback and the restore find the commit of the writer.
"""

from __future__ import annotations

from penstock.errors import CorruptFile, WriteConflict
from penstock.formats.avro.container import read_container
from penstock.table.state import TableState
from penstock.timeline.instant import WRITE_ACTIONS, Action, State
from penstock.timeline.rollback_file import target_of
from penstock.timeline.store import instant_path
from penstock.timeline.timeline import Timeline


def check_no_commit_is_undone(table: TableState, timeline: Timeline) -> None:
    """Raise WriteConflict if a rollback of a completed write is pending on `timeline`.

    A pending rollback of a compaction's run does not count. It may be left over from an earlier run of the plan.
    """
    for rollback in timeline.filter(Action.ROLLBACK):
        if rollback.is_completed:
            continue
        try:
            path = instant_path(table.base_path, rollback.in_state(State.REQUESTED))
            target = target_of(read_container(table.storage.read(path)))
        except (FileNotFoundError, CorruptFile):
            continue  # taken back or finished just now, or not begun
        if target.time not in timeline.completed_times or target.action not in WRITE_ACTIONS:
            continue
        raise WriteConflict(
            f"commit {target.time} of {table.base_path} is being rolled back ({rollback.file_name}). Run the write again when "
            "that is finished; if its process died, a clean finishes it"
        )


def check_still_there(table: TableState, planned_on: Timeline, timeline: Timeline) -> None:
    """Raise WriteConflict if a commit on which a write or plan is based was rolled back since the write or plan was made.

    Raise WriteConflict also if a write that was pending on `planned_on` has left the timeline: it may have completed and been
    archived, so that the conflict check did not see it.

    Args:
        planned_on: the timeline on which the change was planned.
        timeline: the timeline now.
    """
    check_no_commit_is_undone(table, timeline)
    known = {instant.time for instant in timeline.instants}
    for time in sorted(planned_on.completed_times - timeline.completed_times):
        if time in known or not _is_before_start(timeline, time):
            raise WriteConflict(
                f"commit {time} of {table.base_path} was rolled back while a write that had read it was under way. Run the "
                "write again"
            )
    for instant in planned_on.pending:
        is_write = instant.action in WRITE_ACTIONS and instant.time not in known
        if is_write and (_is_before_start(timeline, instant.time) or _has_only_savepoints(timeline)):
            raise WriteConflict(
                f"write {instant.time} of {table.base_path} was under way when this write was planned, and is gone from the "
                "timeline: it may have completed and been archived. Run the write again"
            )


def _is_before_start(timeline: Timeline, time: str) -> bool:
    """Whether an instant that is not on the timeline is older than all writes there, so that it may be archived."""
    return timeline.start is not None and time < timeline.start and not _has_only_savepoints(timeline)


def _has_only_savepoints(timeline: Timeline) -> bool:
    """Whether all writes of the timeline have savepoints. Then writes later than these may be archived."""
    saved = {instant.time for instant in timeline.filter(Action.SAVEPOINT)}
    return bool(timeline.writes) and timeline.completed_times <= saved
