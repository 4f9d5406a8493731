"""Plans of table services on the timeline, beside writers.

A plan names files as they are. Those of a write that began before it and is not finished are not among them, so there is no
plan while such a write is under way; and since a write may begin just then, the timeline is looked at once more when the plan is
there, and the plan withdrawn if it missed one. A writer counts only plans earlier than its own instant.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from penstock.catalog.pending import pending_clusterings
from penstock.table import TableState, reload_timeline
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant
from penstock.timeline.store import instant_path, load_timeline, request

_ATTEMPTS = 3


def plan_beside_writers(
    table: TableState,
    action: Action,
    name: str,
    is_due: Callable[[TableState], bool],
    make_content: Callable[[TableState], bytes | None],
    refresh: Callable[[TableState], TableState] = reload_timeline,
) -> Instant | None:
    """Put a plan on the timeline, once more if a write came in between.

    Args:
        name: what is planned, for the warning when it has to be another time.
        is_due: whether there is to be a plan at all.
        make_content: makes the plan for a table as it is then; None where there is nothing to do.
        refresh: gives the table as it is.
    """
    for _ in range(_ATTEMPTS):
        table = refresh(table)
        if not is_due(table):
            return None
        if waits_for_writes(table, name):
            return None
        content = make_content(table)
        instant = store_content(table, content, action) if content is not None else None
        if instant is not None or content is None:
            return instant
    _warn(table, name, "other writes came between again and again")
    return None


def waits_for_writes(table: TableState, name: str, own: str | None = None, since: TableState | None = None) -> bool:
    """Whether writes other than one's own are under way, for which something has to wait; a warning says so.

    Args:
        since: an earlier look at the table; writes that were finished after it count too.
    """
    others = [i for i in writes_under_way(table) if i.time != own]
    if others:
        _warn(table, name, f"write {others[0].file_name} is under way, or died and waits for the next write to undo it")
        return True
    new = sorted(table.timeline.completed_times - since.timeline.completed_times) if since else []
    if new:
        _warn(table, name, f"write {new[0]} came between")
    return bool(new)


def _warn(table: TableState, name: str, reason: str) -> None:
    warnings.warn(f"no {name} of {table.base_path} is planned now: {reason}", RuntimeWarning, stacklevel=5)


def store_content(table: TableState, content: bytes, action: Action) -> Instant | None:
    """Put a plan on the timeline; None if a write came in between, whose files it does not name."""
    storage, base_path = table.storage, table.base_path
    instant = request(storage, base_path, action, utc=table.config.timeline_utc, content=content)
    known = {(i.time, i.action.family, i.state) for i in table.timeline.instants}
    new = [i for i in load_timeline(storage, base_path).instants if (i.time, i.action.family, i.state) not in known]
    if any(i.time < instant.time and i.action.family in WRITE_ACTIONS for i in new):
        storage.delete(instant_path(base_path, instant))
        return None
    return instant


def writes_under_way(table: TableState) -> list[Instant]:
    """Writes that have begun; plans of table services are none."""
    clusterings = set(pending_clusterings(table).values())
    return [i for i in table.timeline.pending if i.action in WRITE_ACTIONS and i.time not in clusterings]


def writes_before(table: TableState, time: str) -> list[Instant]:
    """Writes that began before a time and are not finished."""
    return [i for i in writes_under_way(table) if i.time < time]
