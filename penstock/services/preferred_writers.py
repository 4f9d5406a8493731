"""Table services that give way to writers: `PreferWriterConflictResolutionStrategy`.

With this strategy a new plan leaves out the file groups that pending writes change. A run of a plan is not published while a
pending write, whose writer is alive by its heartbeat, changes a file group of the plan. The plan stays, and a later run of the
service runs it again. So no write has to run again because of a service that began after the write.
"""

from __future__ import annotations

from collections.abc import Set

from penstock import options as o
from penstock.commit.modes import is_optimistic
from penstock.commit.pending_groups import find_groups_of_write, list_living_writes
from penstock.filegroup.model import GroupId
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import Action, Instant, State

_STRATEGY = "PreferWriterConflictResolutionStrategy"


def prefers_writers(table: TableState) -> bool:
    """Whether table services give way to writers.

    True if concurrency control is optimistic and the conflict resolution strategy in the options is
    `PreferWriterConflictResolutionStrategy`.
    """
    strategy = table.options[o.LOCK_CONFLICT_STRATEGY]
    return is_optimistic(table) and strategy is not None and strategy.endswith(_STRATEGY)


def find_groups_of_writers(table: TableState) -> set[GroupId]:
    """Return the file groups that a new plan leaves out, because pending writes with a recent heartbeat change them.

    Empty if the options do not prefer writers to table services.
    """
    groups: set[GroupId] = set()
    if prefers_writers(table):
        for write in list_living_writes(table, table.timeline):
            groups |= find_groups_of_write(table, write)
    return groups


def find_write_without_groups(table: TableState) -> Instant | None:
    """Return a pending write, with a recent heartbeat, of which no file group is known yet: it has not located its rows.

    No plan can be made until the write has located its rows, because the plan could not leave out the write's file groups. None
    if there is no write of this kind, or if table services do not give way to writers.
    """
    if prefers_writers(table):
        for write in list_living_writes(table, table.timeline):
            if write.state is State.REQUESTED:
                return write
    return None


def find_preferred_write(table: TableState, plan: Instant, groups: Set[GroupId]) -> Instant | None:
    """Return the first pending write to which the run of a plan has to yield, because it changes a file group of the plan.

    None if there is none, or if table services do not yield to writers. Two kinds of writes do not count. A write that began
    after a compaction was planned adds its log files to the slice of the new base file. A log compaction never yields, because
    it leaves the log files of other writes unchanged. Reads the timeline again.

    Args:
        plan: the instant of the plan.
        groups: the file groups of the plan.
    """
    if not prefers_writers(table) or plan.action is Action.LOG_COMPACTION:
        return None
    for write in list_living_writes(table, reload_timeline(table).timeline):
        is_on_top = plan.action is Action.COMPACTION and write.time > plan.time
        if not is_on_top and groups & find_groups_of_write(table, write):
            return write
    return None
