"""The entrance of every query on Spark: plans the query, plans it again if the table changed, and returns its DataFrame.

    query → plan (`read/plan.py`, `read/incremental.py`) → check (`read/plan_check.py`) → log headers (`read/log_headers.py`)
          → DataFrame (`read/scan.py`)

If an equal query over the same state of the table ran recently, its DataFrame is returned (`read/frame_cache.py`). Queries
without Spark plan in the same way (`plan_again.py`) and read with `read/arrow_scan.py`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from penstock.door.plan_again import plan_until_it_holds
from penstock.read.frame_cache import find_frame, keep_frame
from penstock.read.log_headers import read_log_headers
from penstock.read.plan import QueryPlan
from penstock.read.query import Query
from penstock.read.scan import scan
from penstock.read.spark_file_system import spark_can_read
from penstock.table.state import TableState


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

    def make_frame(plan: QueryPlan) -> DataFrame:
        """Return the DataFrame of a plan, and keep it for equal queries."""
        frame = scan(spark, read_log_headers(plan, for_spark=spark_can_read(spark, plan.table)))
        keep_frame(spark, plan, query, frame)
        return frame

    return plan_until_it_holds(query, table, make_frame)
