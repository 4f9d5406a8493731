"""A cache of the DataFrames of recent queries: while a table does not change, its folders are not listed again.

The timeline determines which files belong to a table: every write, clean or rollback adds an instant. So an equal query over the
same timeline and properties reads the same files, and gets the DataFrame of the earlier query, whose files Spark has listed
already. DataFrames over few files are not cached, because planning them again is cheap. DataFrames over log files are not cached
either, because each holds all slices and block headers for its workers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from pyspark.sql import DataFrame, SparkSession

from penstock.columns import quoted
from penstock.read.plan import QueryPlan
from penstock.read.query import Query
from penstock.table.state import TableState

_MOST_FRAMES = 16
#: The least number of file slices for which a DataFrame is cached.
_MANY_FILES = 100
_TIME_ZONE = "spark.sql.session.timeZone"

#: Least recently used first.
_frames: OrderedDict[Hashable, DataFrame] = OrderedDict()
_lock = Lock()


def find_frame(spark: SparkSession, query: Query, table: TableState) -> DataFrame | None:
    """Return the cached DataFrame of an equal query over the same timeline and table properties; None if there is none.

    The DataFrame becomes the most recently used one of the cache.
    """
    key = _frame_key(spark, query, table)
    with _lock:
        frame = _frames.get(key)
        if frame is None:
            return None
        _frames.move_to_end(key)
    return _with_own_columns(frame)


def keep_frame(spark: SparkSession, plan: QueryPlan, query: Query, frame: DataFrame) -> None:
    """Add the DataFrame of a query to the cache if the DataFrame reads many files and no log files.

    If the cache is full, the least recently used DataFrame is removed.

    Args:
        plan: the plan that `frame` reads.
        query: the query as the caller asked it. `plan.query` of an incremental query differs: `as_of` is the end of its range.
    """
    if len(plan.all_slices) < _MANY_FILES or plan.slices_with_logs:
        return
    with _lock:
        # The plan's table, not the caller's: the query may have been planned again on a newer timeline.
        _frames[_frame_key(spark, query, plan.table)] = frame
        while len(_frames) > _MOST_FRAMES:
            _frames.popitem(last=False)


def _frame_key(spark: SparkSession, query: Query, table: TableState) -> Hashable:
    """Return the cache key of a query: everything that decides which rows the query returns.

    `id(spark)` identifies the session: a cached DataFrame keeps its session alive, so no other session can get the same id.
    """
    asked = (query.base_path, query.kind, query.as_of, query.within, query.columns, repr(query.equals))
    options = frozenset(query.options.raw.items())
    properties = frozenset(table.config.raw.items())
    return id(spark), spark.conf.get(_TIME_ZONE), asked, options, properties, table.timeline.instants


def _with_own_columns(frame: DataFrame) -> DataFrame:
    """Return a copy of the DataFrame with new column ids. Spark cannot join two DataFrames whose columns have the same ids."""
    return frame.selectExpr(*(f"{quoted(name)} AS {quoted(name)}" for name in frame.columns))
