"""The entrance of every query: plans the query, plans it again if the table changed, and returns its DataFrame.

    query → plan (`read/plan.py`, `read/incremental.py`) → check (`read/plan_check.py`) → log headers (`read/log_headers.py`)
          → DataFrame (`read/scan.py`)

If an equal query over the same state of the table ran recently, its DataFrame is returned (`read/frame_cache.py`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import PenstockError, WriteConflict
from penstock.read.frame_cache import find_frame, keep_frame
from penstock.read.incremental import plan_incremental
from penstock.read.log_headers import read_log_headers
from penstock.read.plan import plan_query
from penstock.read.plan_check import still_holds
from penstock.read.query import Query
from penstock.read.scan import scan
from penstock.table.state import TableState, reload_table
from penstock.timeline.store import load_timeline

#: How often a query is planned at most, if other processes change the table while it is planned.
_ATTEMPTS = 5


def open_query(spark: SparkSession, query: Query, table: TableState) -> DataFrame:
    """Plan a query and return its DataFrame. Plan it again if the table changes while it is planned.

    If an equal query over the same state of the table ran recently, return the DataFrame of that query.

    Args:
        table: the state of the table to start with.

    Raises:
        OptionError: the table has nothing at the paths or the time of the query.
        SchemaError: the query filters by a column that the table does not have.
        ChangesLost: an incremental query needs files that were cleaned.
        CorruptFile: a file is missing or damaged.
        WriteConflict: other processes changed the table during each attempt to plan the query.
    """
    kept = find_frame(spark, query, table)
    if kept is not None:
        return kept
    missing: FileNotFoundError | None = None
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            plan = plan_incremental(query, table) if query.kind == "incremental" else plan_query(query, table)
            if still_holds(plan):
                plan = read_log_headers(plan)
                frame = scan(spark, plan)
                keep_frame(spark, plan, query, frame)
                return frame
        except PenstockError:
            # A missing file is an error of the table only if the timeline did not change: a clean may have removed the file.
            if attempt == _ATTEMPTS or load_timeline(table.storage, table.base_path) == table.timeline:
                raise
        except FileNotFoundError as e:  # an instant was archived, or a file was cleaned, between listing and reading it
            missing = e
        table = reload_table(table)
    why = f" ({missing})" if missing else ""
    raise WriteConflict(
        f"{table.base_path} was changed each of the {_ATTEMPTS} times that a query over it was planned{why}. Run the query again"
    ) from missing
