"""Plans a query, and plans it again if the table changed while it was planned. Used by queries with and without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.commit.open_finished import reload_finished
from penstock.errors import PenstockError, WriteConflict
from penstock.read.incremental import plan_incremental
from penstock.read.plan import QueryPlan, plan_query
from penstock.read.plan_check import still_holds
from penstock.read.query import Query
from penstock.table.state import TableState
from penstock.timeline.store import load_timeline

T = TypeVar("T")

#: How often a query is planned at most, if other processes change the table while it is planned.
_ATTEMPTS = 5


def plan_until_it_holds(query: Query, table: TableState, use: Callable[[QueryPlan], T]) -> T:
    """Plan a query, call `use` with the plan, and return the result of `use`. If the table changes in between, plan again.

    Args:
        table: the state of the table to start with.
        use: makes the result from the plan, for example a DataFrame. If it raises FileNotFoundError, the query is planned again.

    Raises:
        OptionError: the table has nothing at the paths or the time of the query.
        ChangesLost: an incremental query needs files that were cleaned.
        CorruptFile: a file is missing or damaged.
        WriteConflict: other processes changed the table during each attempt to plan the query.
    """
    missing: FileNotFoundError | None = None
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            plan = plan_incremental(query, table) if query.kind == "incremental" else plan_query(query, table)
            if still_holds(plan):
                return use(plan)
        except PenstockError:
            # A missing file is an error of the table only if the timeline did not change: a clean may have removed the file.
            if attempt == _ATTEMPTS or load_timeline(table.storage, table.base_path) == table.timeline:
                raise
        except FileNotFoundError as e:  # an instant was archived, or a file was cleaned, between listing and reading it
            missing = e
        table = reload_finished(table)
    why = f" ({missing})" if missing else ""
    raise WriteConflict(
        f"{table.base_path} was changed each of the {_ATTEMPTS} times that a query over it was planned{why}. Run the query again"
    ) from missing
