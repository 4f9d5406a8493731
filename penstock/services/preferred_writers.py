"""Table services that give way to writers: `PreferWriterConflictResolutionStrategy`.

With this strategy a service plans no file group that a pending write changes, and a run of a plan is not published while a living
writer changes its file groups. The plan stays, and a later run of the service takes it up. So no write has to run again because
of a service that began after it.
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
    """Whether the options say that table services give way to writers."""
    strategy = table.options[o.LOCK_CONFLICT_STRATEGY]
    return is_optimistic(table) and strategy is not None and strategy.endswith(_STRATEGY)


def find_groups_of_writers(table: TableState) -> set[GroupId]:
    """Return the file groups that a new plan leaves out, because pending writes change them.

    Empty if writers are not preferred.
    """
    groups: set[GroupId] = set()
    if prefers_writers(table):
        for write in list_living_writes(table, table.timeline):
            groups |= find_groups_of_write(table, write)
    return groups


def find_write_without_groups(table: TableState) -> Instant | None:
    """Return a pending write that has not located its rows yet, so that a plan cannot leave its file groups out.

    None if there is none, or if writers are not preferred.
    """
    if prefers_writers(table):
        for write in list_living_writes(table, table.timeline):
            if write.state is State.REQUESTED:
                return write
    return None


def find_preferred_write(table: TableState, plan: Instant, groups: Set[GroupId]) -> Instant | None:
    """Return a pending write that changes a file group of a plan, so that the run of the plan yields.

    A write that began after the plan of a compaction puts its log files on top of it. A log compaction leaves the log files of
    other writes alone. Both go together with the run. Reads the timeline again.

    None if there is no write of this kind, or if writers are not preferred.

    Args:
        groups: the file groups of the plan.
    """
    if not prefers_writers(table) or plan.action is Action.LOG_COMPACTION:
        return None
    for write in list_living_writes(table, reload_timeline(table).timeline):
        is_on_top = plan.action is Action.COMPACTION and write.time > plan.time
        if not is_on_top and groups & find_groups_of_write(table, write):
            return write
    return None
