"""DataFrames of recent queries: a table that has not changed is not listed again.

Which files belong to a table follows from its timeline: every write, clean or rollback adds an instant. So a query of the same
kind, over the same timeline and properties, reads the same files, and the DataFrame of the earlier query answers it. Spark has
also listed the files of that DataFrame already. Tables of few files are planned again, because that costs little; and so are
tables with log files, whose DataFrames hold all slices and headers that their workers read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from pyspark.sql import DataFrame, SparkSession

from penstock.columns import quoted
from penstock.read.plan import QueryPlan
from penstock.read.query import Query
from penstock.table import TableState

_MOST_FRAMES = 16
#: Files from which a DataFrame is worth keeping.
_MANY_FILES = 100
_TIME_ZONE = "spark.sql.session.timeZone"

#: Least recently used first.
_frames: OrderedDict[Hashable, DataFrame] = OrderedDict()
_lock = Lock()


def find_frame(spark: SparkSession, query: Query, table: TableState) -> DataFrame | None:
    """Return a DataFrame with the rows of an equal query over the same state of the table; None if none is kept."""
    key = _frame_key(spark, query, table)
    with _lock:
        frame = _frames.get(key)
        if frame is None:
            return None
        _frames.move_to_end(key)
    return _with_own_columns(frame)


def keep_frame(spark: SparkSession, plan: QueryPlan, query: Query, frame: DataFrame) -> None:
    """Keep the DataFrame that answers a query, if planning the query again would cost more than a moment.

    Args:
        query: the query as it was asked. The plan of an incremental query holds another one, with the end of its range.
    """
    if len(plan.all_slices) < _MANY_FILES or plan.slices_with_logs:
        return
    with _lock:
        # The plan's table, not the caller's: the query may have been planned again on a newer timeline.
        _frames[_frame_key(spark, query, plan.table)] = frame
        while len(_frames) > _MOST_FRAMES:
            _frames.popitem(last=False)


def _frame_key(spark: SparkSession, query: Query, table: TableState) -> Hashable:
    """Return everything that decides what a query reads.

    The session is named by its `id`: a kept frame keeps its session alive, so no other session can get the same id.
    """
    asked = (query.base_path, query.kind, query.as_of, query.within, query.columns, repr(query.equals))
    options = frozenset(query.options.raw.items())
    properties = frozenset(table.config.raw.items())
    return id(spark), spark.conf.get(_TIME_ZONE), asked, options, properties, table.timeline.instants


def _with_own_columns(frame: DataFrame) -> DataFrame:
    """Return the same rows in new columns: Spark cannot join two DataFrames that share their columns' ids."""
    return frame.selectExpr(*(f"{quoted(name)} AS {quoted(name)}" for name in frame.columns))
