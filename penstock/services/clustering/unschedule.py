"""Remove a pending clustering plan from the timeline."""

from __future__ import annotations

from penstock.errors import CorruptFile
from penstock.index.consistent_hashing import drop_changed_rings
from penstock.services.clustering.resize_buckets import is_resize
from penstock.services.stored_plans import find_pending, start_over
from penstock.table.pending import list_clustering_plans, load_clustering_plan
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path


def unschedule_clustering(table: TableState, time: str) -> None:
    """Remove the pending clustering plan at `time` from the timeline, after rolling back files that a crashed run left.

    A plan whose file cannot be read is removed too, if its run has not begun.

    Raises:
        OptionError: there is no pending clustering at this instant time.
        CorruptFile: the plan cannot be read, and its run has begun.
        WriteConflict: another process is running the plan.
    """
    table = reload_timeline(table)
    torn = _find_torn(table, time)
    if torn is not None:
        table.storage.delete(instant_path(table.base_path, torn))
        return
    plans = dict(list_clustering_plans(table))
    instant = find_pending(table, list(plans), time, "clustering")
    table = start_over(table, instant)
    if is_resize(plans[instant]):
        drop_changed_rings(table, time)
    table.storage.delete(instant_path(table.base_path, instant.in_state(State.REQUESTED)))


def _find_torn(table: TableState, time: str) -> Instant | None:
    """Return the requested replace commit at `time` if its file does not hold a readable plan; None otherwise."""
    for instant in table.timeline.filter(Action.REPLACE_COMMIT):
        if instant.time == time and instant.state is State.REQUESTED:
            try:
                load_clustering_plan(table, instant)
            except CorruptFile:
                return instant
    return None
