"""Whether a plan still holds once folders are listed: writers and cleaning go on while a query is planned.

The timeline is looked at before folders are listed. Where a write completes in between and cleaning takes the files that it made
old, the listing shows new files, which that timeline does not know, and no old ones: rows would be missing and nobody would
notice. So the timeline is looked at once more; and where somebody cleans, at what that keeps.
"""

from __future__ import annotations

from penstock.read.plan import QueryPlan
from penstock.table import TableState
from penstock.timeline.clean_file import read_clean_plan
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, load_timeline


def still_holds(plan: QueryPlan) -> bool:
    """Whether every file that a plan counts on was there when folders were listed.

    Raises:
        FileNotFoundError: an instant went between two looks.
    """
    before = plan.table.timeline
    now = load_timeline(plan.table.storage, plan.table.base_path)
    if now == before or before.last_write is None:
        return True
    if before.last_write not in now.writes:
        return False  # it was taken back, or archived, or this is another table by now
    written = [write.time for write in set(now.writes) - set(before.writes)]
    if plan.query.as_of is None and not written:
        return True  # the newest slices were the newest all the time, and these are never cleaned
    seen = min([plan.query.as_of or before.last_write.time, *written])
    cleans = (clean for clean in now.filter(Action.CLEAN) if clean not in before.instants)
    return all(_keeps(plan.table, clean, seen) for clean in cleans)


def _keeps(table: TableState, clean: Instant, seen: str) -> bool:
    """Whether a clean, done or under way, leaves all files that the table had at a time."""
    path = instant_path(table.base_path, clean.in_state(State.REQUESTED))
    earliest = read_clean_plan(table.storage.read(path), path).earliest
    return earliest is not None and earliest.time <= seen
