"""File groups that wait for a compaction or a clustering: which plans on the timeline name them.

While a compaction is requested or inflight, its instant is the base instant of every new log file of the file groups it
names, although no base file of that instant is there yet.
"""

from __future__ import annotations

from penstock.errors import CorruptFile
from penstock.table import TableState
from penstock.timeline.clustering_plan import ClusteringPlan, read_clustering_plan
from penstock.timeline.compaction_plan import CompactionPlan, read_compaction_plan
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path

Groups = dict[tuple[str, str], str]


def find_pending_compactions(table: TableState, before: str | None = None) -> Groups:
    """(partition path, file id) → the instant of the pending compaction that names it.

    Args:
        before: only compactions earlier than this time. A writer gives its own instant, and a timeline that was loaded
            after that instant was taken: a later plan that does not know this write is withdrawn by whoever made it.
    """
    plans = list_compaction_plans(table, Action.COMPACTION)
    return _named_by([(instant, plan) for instant, plan in plans if before is None or instant.time < before])


def find_pending_log_compactions(table: TableState) -> Groups:
    """The same of log compactions; these change no base instant."""
    return _named_by(list_compaction_plans(table, Action.LOG_COMPACTION))


def find_pending_clusterings(table: TableState, before: str | None = None) -> Groups:
    """(partition path, file id) → the instant of the pending clustering that rewrites it.

    Args:
        before: only clusterings earlier than this time, as for compactions.
    """
    plans = list_clustering_plans(table)
    return {
        (one.partition_path, one.file_id): instant.time
        for instant, plan in plans
        for one in plan.slices
        if before is None or instant.time < before
    }


def find_pending_groups(table: TableState) -> Groups:
    """Return the file groups that a pending plan owns: (partition path, file id) → instant of the plan.

    The plan is a compaction, a log compaction or a clustering. Another plan or a replacing write must not touch these groups.
    """
    return {**find_pending_compactions(table), **find_pending_log_compactions(table), **find_pending_clusterings(table)}


def list_clustering_plans(table: TableState) -> list[tuple[Instant, ClusteringPlan]]:
    """The plans of clusterings that wait to be run, or are being run, oldest first. Raises CorruptFile."""
    waiting = [i for i in table.timeline.filter(Action.REPLACE_COMMIT) if not i.is_completed]
    return [(instant, plan) for instant in waiting if (plan := load_clustering_plan(table, instant)) is not None]


def load_clustering_plan(table: TableState, instant: Instant) -> ClusteringPlan | None:
    """The plan of a clustering; None for a write that replaces file groups, or one that is gone by now.

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
    """The plans that wait to be run, or are being run, oldest first.

    Raises:
        CorruptFile: a plan cannot be read, or is gone although its run has begun.
    """
    found = []
    for instant in table.timeline.filter(action):
        if not instant.is_completed and (plan := load_compaction_plan(table, instant)) is not None:
            found.append((instant, plan))
    return found


def load_compaction_plan(table: TableState, instant: Instant) -> CompactionPlan | None:
    """The plan of a pending compaction; None if it was taken off the timeline since that was looked at."""
    requested = instant.in_state(State.REQUESTED)
    try:
        content = table.storage.read(instant_path(table.base_path, requested))
    except FileNotFoundError as e:
        if instant.state is State.REQUESTED:
            return None
        raise CorruptFile(f"{instant.file_name} of {table.base_path} has no plan: {requested.file_name} is missing") from e
    return read_compaction_plan(content, requested.file_name)


def _named_by(plans: list[tuple[Instant, CompactionPlan]]) -> Groups:
    return {(one.partition_path, one.file_id): instant.time for instant, plan in plans for one in plan.operations}
