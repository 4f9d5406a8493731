"""Pending plans on the timeline, and the file groups that they own: of compactions, log compactions and clusterings.

While a compaction is requested or inflight, its instant is the base instant of every new log file of the file groups that it
names, although there is no base file of that instant yet.
"""

from __future__ import annotations

from penstock.errors import CorruptFile
from penstock.table import TableState
from penstock.timeline.clustering_plan import ClusteringPlan, read_clustering_plan
from penstock.timeline.compaction_plan import CompactionPlan, read_compaction_plan
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path

#: (partition path, file id) of file groups → instant of the pending plan that owns them.
Groups = dict[tuple[str, str], str]


def find_pending_compactions(table: TableState, before: str | None = None) -> Groups:
    """Return the file groups that pending compactions own.

    Args:
        before: only compactions earlier than this time. A writer passes its own instant, with a timeline that was loaded after
            that instant was taken. It can ignore a later plan: the planner sees the write, and withdraws the plan.
    """
    plans = list_compaction_plans(table, Action.COMPACTION)
    return _owned_groups([(instant, plan) for instant, plan in plans if before is None or instant.time < before])


def find_pending_log_compactions(table: TableState) -> Groups:
    """Return the file groups that pending log compactions own. Log compactions change no base instant."""
    return _owned_groups(list_compaction_plans(table, Action.LOG_COMPACTION))


def find_pending_clusterings(table: TableState, before: str | None = None) -> Groups:
    """Return the file groups that pending clusterings own.

    Args:
        before: only clusterings earlier than this time, as for compactions.
    """
    groups: Groups = {}
    for instant, plan in list_clustering_plans(table):
        if before is None or instant.time < before:
            groups |= {(named.partition_path, named.file_id): instant.time for named in plan.slices}
    return groups


def find_pending_groups(table: TableState) -> Groups:
    """Return the file groups that any pending plan owns. Another plan, or a write that replaces groups, must not touch them."""
    return {**find_pending_compactions(table), **find_pending_log_compactions(table), **find_pending_clusterings(table)}


def list_clustering_plans(table: TableState) -> list[tuple[Instant, ClusteringPlan]]:
    """Return the plans of pending clusterings, oldest first. Raise CorruptFile if one cannot be read."""
    plans = []
    for instant in table.timeline.filter(Action.REPLACE_COMMIT):
        plan = None if instant.is_completed else load_clustering_plan(table, instant)
        if plan is not None:
            plans.append((instant, plan))
    return plans


def load_clustering_plan(table: TableState, instant: Instant) -> ClusteringPlan | None:
    """Return the plan of a clustering; None for a write that replaces file groups, or a plan that was removed.

    Raises:
        CorruptFile: the plan cannot be read.
    """
    requested = instant.in_state(State.REQUESTED)
    try:
        content = table.storage.read(instant_path(table.base_path, requested))
    except FileNotFoundError:
        return None
    return read_clustering_plan(content, f"{requested.file_name} of {table.base_path}")


def list_compaction_plans(table: TableState, action: Action = Action.COMPACTION) -> list[tuple[Instant, CompactionPlan]]:
    """Return the plans of pending compactions, or of another action with such plans, oldest first.

    Raises:
        CorruptFile: a plan cannot be read, or is missing although its run has begun.
    """
    plans = []
    for instant in table.timeline.filter(action):
        plan = None if instant.is_completed else load_compaction_plan(table, instant)
        if plan is not None:
            plans.append((instant, plan))
    return plans


def load_compaction_plan(table: TableState, instant: Instant) -> CompactionPlan | None:
    """Return the plan of a pending compaction; None if it was unscheduled after the timeline was loaded.

    Raises:
        CorruptFile: the plan cannot be read, or is missing although its run has begun.
    """
    requested = instant.in_state(State.REQUESTED)
    try:
        content = table.storage.read(instant_path(table.base_path, requested))
    except FileNotFoundError as e:
        if instant.state is State.REQUESTED:
            return None
        raise CorruptFile(f"{instant.file_name} of {table.base_path} has no plan: {requested.file_name} is missing") from e
    return read_compaction_plan(content, requested.file_name)


def _owned_groups(plans: list[tuple[Instant, CompactionPlan]]) -> Groups:
    groups: Groups = {}
    for instant, plan in plans:
        groups |= {(operation.partition_path, operation.file_id): instant.time for operation in plan.operations}
    return groups
