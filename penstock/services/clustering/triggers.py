"""Decides when a clustering is due: by the options, and by the number of commits since the last clustering."""

from __future__ import annotations

from penstock import options as o
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.table.pending import load_clustering_plan
from penstock.table.state import TableState
from penstock.timeline.instant import Action, Instant
from penstock.timeline.store import read_schema


def asks_for_clustering(options: Options) -> bool:
    """Whether the options turn clustering on. If not, no clustering is due.

    True if `hoodie.clustering.inline`, `hoodie.clustering.schedule.inline` or `hoodie.clustering.async.enabled` is true.
    """
    return options[o.CLUSTERING_INLINE] or options[o.CLUSTERING_SCHEDULE_INLINE] or options[o.CLUSTERING_ASYNC]


def is_due(table: TableState) -> bool:
    """Whether there were enough commits since the last clustering to plan the next one.

    With inline clustering the limit is `hoodie.clustering.inline.max.commits`, with async clustering
    `hoodie.clustering.async.max.commits`; with both, the larger of the two. True if neither is turned on, because inline
    scheduling has no limit of its own.
    """
    options = table.options
    thresholds = []
    if options[o.CLUSTERING_INLINE]:
        thresholds.append(options[o.CLUSTERING_INLINE_MAX_COMMITS])
    if options[o.CLUSTERING_ASYNC]:
        thresholds.append(options[o.CLUSTERING_ASYNC_MAX_COMMITS])
    # Commits are counted only where a threshold applies: counting reads commit files.
    return not thresholds or commits_since(table) >= max(thresholds)


def commits_since(table: TableState) -> int:
    """Return how many completed writes are later than the last clustering, which may be completed or pending."""
    last = ""
    for instant in reversed(table.timeline.filter(Action.REPLACE_COMMIT)):
        if _is_clustering(table, instant):
            last = instant.time
            break
    return sum(instant.time > last for instant in table.timeline.writes)


def _is_clustering(table: TableState, instant: Instant) -> bool:
    """Whether a replace commit is a clustering. Reads its plan or its commit file."""
    if not instant.is_completed:
        return load_clustering_plan(table, instant) is not None
    return read_schema(table.storage, table.base_path, instant)[0] == Operation.CLUSTER.stored
