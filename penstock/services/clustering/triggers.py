"""When a clustering is due: whether the options ask for clusterings, and how many commits there were since the last one."""

from __future__ import annotations

from penstock import options as o
from penstock.catalog.pending import load_clustering_plan
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.table import TableState
from penstock.timeline.instant import Action, Instant
from penstock.timeline.store import read_schema


def asks_for_clustering(options: Options) -> bool:
    """Whether the options ask for clusterings at all. There is no number of commits after which every table needs one."""
    return options[o.CLUSTERING_INLINE] or options[o.CLUSTERING_SCHEDULE_INLINE] or options[o.CLUSTERING_ASYNC]


def is_due(table: TableState) -> bool:
    """Whether there were so many commits since the last clustering that the next one is due."""
    options = table.options
    thresholds = []
    if options[o.CLUSTERING_INLINE]:
        thresholds.append(options[o.CLUSTERING_INLINE_MAX_COMMITS])
    if options[o.CLUSTERING_ASYNC]:
        thresholds.append(options[o.CLUSTERING_ASYNC_MAX_COMMITS])
    # Commits are counted only where a threshold applies: counting reads commit files.
    return not thresholds or commits_since(table) >= max(thresholds)


def commits_since(table: TableState) -> int:
    """Return how many writes were completed after the last clustering, which may be completed or pending."""
    last = ""
    for instant in reversed(table.timeline.filter(Action.REPLACE_COMMIT)):
        if _is_clustering(table, instant):
            last = instant.time
            break
    return sum(instant.time > last for instant in table.timeline.writes)


def _is_clustering(table: TableState, instant: Instant) -> bool:
    if not instant.is_completed:
        return load_clustering_plan(table, instant) is not None
    return read_schema(table.storage, table.base_path, instant)[0] == Operation.CLUSTER.stored
