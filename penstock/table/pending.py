"""The plans of pending compactions, log compactions and clusterings, and the file groups that these plans list.

Until a plan completes or is unscheduled, no other plan may include the file groups that it lists. While a compaction is pending,
new log files of its file groups have the compaction's instant as base instant, although the base file of that instant does not
exist yet.
"""

from __future__ import annotations

from penstock.errors import CorruptFile
from penstock.table.state import TableState
from penstock.timeline.clustering_plan import ClusteringPlan, read_clustering_plan
from penstock.timeline.compaction_plan import CompactionPlan, read_compaction_plan
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path

#: (partition path, file id) of a file group → instant time of the pending plan that owns it.
Groups = dict[tuple[str, str], str]


def find_pending_compactions(table: TableState, before: str | None = None) -> Groups:
    """Return the file groups in the plans of pending compactions, each with the instant time of its compaction.

    Args:
        before: consider only compactions with an earlier instant time; None for all. A writer passes its own instant time, and a
            table whose timeline was loaded after that instant was created. The writer can ignore later plans, because the process
            that schedules a later plan finds the pending write on the timeline and withdraws the plan. If several writers are
            allowed, the plan stays, and the write conflicts with it when it commits.
    """
    plans = list_compaction_plans(table, Action.COMPACTION)
    return _owned_groups([(instant, plan) for instant, plan in plans if before is None or instant.time < before])


def find_pending_log_compactions(table: TableState) -> Groups:
    """Return the file groups in the plans of pending log compactions, each with the instant time of its log compaction.

    Unlike a pending compaction, a pending log compaction does not change the base instant of new log files.
    """
    return _owned_groups(list_compaction_plans(table, Action.LOG_COMPACTION))


def find_pending_clusterings(table: TableState, before: str | None = None) -> Groups:
    """Return the file groups in the plans of pending clusterings, each with the instant time of its clustering.

    Args:
        before: consider only clusterings with an earlier instant time; None for all. A writer passes its own instant time,
            because it can ignore later plans.
    """
    groups: Groups = {}
    for instant, plan in list_clustering_plans(table):
        if before is None or instant.time < before:
            groups |= {(named.partition_path, named.file_id): instant.time for named in plan.slices}
    return groups


def find_pending_groups(table: TableState) -> Groups:
    """Return the file groups in all pending plans (compaction, log compaction, clustering), each with its plan's instant time.

    Other plans, and writes that replace file groups, must not include these groups.
    """
    return {**find_pending_compactions(table), **find_pending_log_compactions(table), **find_pending_clusterings(table)}


def list_clustering_plans(table: TableState) -> list[tuple[Instant, ClusteringPlan]]:
    """Return the instant and plan of each pending clustering, oldest first. Raise CorruptFile if a plan cannot be read."""
    plans = []
    for instant in table.timeline.filter(Action.REPLACE_COMMIT):
        plan = None if instant.is_completed else load_clustering_plan(table, instant)
        if plan is not None:
            plans.append((instant, plan))
    return plans


def load_clustering_plan(table: TableState, instant: Instant) -> ClusteringPlan | None:
    """Return the clustering plan in the requested file of a replace commit.

    Returns:
        The plan; None if the replace commit is no clustering (insert_overwrite, delete_partition), or if its requested file no
            longer exists.

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
    """Return the instant and plan of each pending compaction, oldest first.

    Args:
        action: `Action.LOG_COMPACTION` to return pending log compactions instead.

    Raises:
        CorruptFile: a plan cannot be read, or the requested file of an inflight compaction is missing.
    """
    plans = []
    for instant in table.timeline.filter(action):
        plan = None if instant.is_completed else load_compaction_plan(table, instant)
        if plan is not None:
            plans.append((instant, plan))
    return plans


def load_compaction_plan(table: TableState, instant: Instant) -> CompactionPlan | None:
    """Return the plan of a pending compaction or log compaction; None if the plan was removed after the timeline was loaded.

    Raises:
        CorruptFile: the plan cannot be read, or the compaction is inflight and its requested file is missing.
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
    """Return the file groups that these compaction plans list, each with the instant time of its plan."""
    groups: Groups = {}
    for instant, plan in plans:
        groups |= {(operation.partition_path, operation.file_id): instant.time for operation in plan.operations}
    return groups
