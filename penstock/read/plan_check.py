"""The check of a query plan against concurrent writes and cleans, which may go on while the query is planned.

Planning reads the timeline, then lists folders. If a write completes in between, and a clean deletes the files that the write
replaced, the listing has only the new files, whose instant the plan's timeline does not have: rows would be missing without an
error. So the timeline is read once more after the listing. If a clean began since, its clean plan says which files it keeps.
"""

from __future__ import annotations

from penstock.read.plan import QueryPlan
from penstock.storage import join
from penstock.table.state import TableState
from penstock.timeline.clean_file import read_clean_plan
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.overwrite_note import is_overwritten
from penstock.timeline.store import FOLDER, instant_path, load_timeline


def still_holds(plan: QueryPlan) -> bool:
    """Whether the plan surely has every file that it should read. If not, the caller plans the query again.

    Compares the timeline of the plan with the timeline now. The plan may lack a file if the last write on the plan's timeline
    was rolled back or archived since, or if a clean that began since may have deleted a file before the folders were listed.

    Raises:
        FileNotFoundError: an instant was archived while it was read.
    """
    before = plan.table.timeline
    now = load_timeline(plan.table.storage, plan.table.base_path)
    if is_overwritten(plan.table.storage, join(plan.table.base_path, FOLDER), now):
        return False  # files of the new table may be there already
    if now == before or before.last_write is None:
        return True
    if before.last_write not in now.writes:
        return False  # the write was rolled back or archived, or the table was created again
    new_times = [write.time for write in set(now.writes) - set(before.writes)]
    if plan.query.as_of is None and not new_times:
        return True  # the newest slices did not change, and a clean never deletes the newest
    # The plan reads slices of this time and earlier. A write that completed later may have an earlier time.
    needed_time = min([plan.query.as_of or before.last_write.time, *new_times])
    new_cleans = [clean for clean in now.filter(Action.CLEAN) if clean not in before.instants]
    return all(_keeps_files_of(plan.table, clean, needed_time) for clean in new_cleans)


def _keeps_files_of(table: TableState, clean: Instant, time: str) -> bool:
    """Whether a clean, completed or running, keeps all files that a query as of `time` reads."""
    path = instant_path(table.base_path, clean.in_state(State.REQUESTED))
    earliest = read_clean_plan(table.storage.read(path), path).earliest
    return earliest is not None and earliest.time <= time
