"""DataFrames of queries that were asked a moment ago: a table that has not changed since is not listed again.

Which files belong to a table follows from its timeline, and every change of them puts something there: a write, a cleaning, a
rollback. So a query of the same kind, over the same timeline and properties, reads the same files. What the first one found out,
Spark's own list of the files included, serves the next. Tables of few files are listed anew, and so are those with logs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from threading import Lock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.columns import quoted
from penstock.errors import PenstockError, SchemaError, WriteConflict
from penstock.read.incremental import plan_incremental
from penstock.read.plan import QueryPlan, plan_query
from penstock.read.plan_check import still_holds
from penstock.read.query import Query
from penstock.read.scan import scan
from penstock.table import TableState, reload_table
from penstock.timeline.store import load_timeline

_KEPT = 16
#: Files from which a list is worth keeping.
_MANY_FILES = 100
_TIME_ZONE = "spark.sql.session.timeZone"
#: How often a query is planned on a table that others write to and clean at that moment.
_TRIES = 5

_frames: OrderedDict[Hashable, DataFrame] = OrderedDict()
_lock = Lock()


def open_query(spark: SparkSession, query: Query, table: TableState) -> DataFrame:
    """The DataFrame that answers a query.

    Raises:
        OptionError: the paths or the time of the query name nothing that can be read.
        SchemaError: the query asks for a value of a column that the table does not have.
        ChangesLost: an incremental query needs files that were cleaned.
        CorruptFile: a file is missing or damaged.
        WriteConflict: others changed the table each time that the query was planned.
    """
    return _having(_all_rows(spark, query, table), query.equals)


def _all_rows(spark: SparkSession, query: Query, table: TableState) -> DataFrame:
    """The rows of the files that a query reads."""
    key = _key(spark, query, table)
    with _lock:
        known = _frames.get(key)
        if known is not None:
            _frames.move_to_end(key)
    if known is not None:
        return _apart(known)
    planned, frame = _planned(spark, query, table)
    if _is_worth_keeping(planned):
        with _lock:
            _frames[_key(spark, query, planned.table)] = frame
            while len(_frames) > _KEPT:
                _frames.popitem(last=False)
    return frame


def _planned(spark: SparkSession, query: Query, table: TableState) -> tuple[QueryPlan, DataFrame]:
    """A plan by a timeline that still held when folders were listed, with its rows; made anew where others were at work."""
    gone: FileNotFoundError | None = None
    for attempt in range(1, _TRIES + 1):
        try:
            planned = plan_incremental(query, table) if query.kind == "incremental" else plan_query(query, table)
            if still_holds(planned):
                return planned, scan(spark, planned)
        except PenstockError:
            if attempt == _TRIES or load_timeline(table.storage, table.base_path) == table.timeline:
                raise
        except FileNotFoundError as e:  # an instant was archived, or a file cleaned
            gone = e
        table = reload_table(table)
    why = f" ({gone})" if gone else ""
    raise WriteConflict(
        f"{table.base_path} was changed each of the {_TRIES} times that a query over it was planned{why}. Run the query again"
    ) from gone


def _key(spark: SparkSession, query: Query, table: TableState) -> Hashable:
    """All that decides what a query reads. A kept frame keeps its session, so that no other one has this identity."""
    asked = (query.base_path, query.kind, query.as_of, query.within, query.columns, repr(query.equals))
    given = frozenset(query.options.raw.items())
    return id(spark), spark.conf.get(_TIME_ZONE), asked, given, frozenset(table.config.raw.items()), table.timeline.instants


def _is_worth_keeping(planned: QueryPlan) -> bool:
    slices = [one for its in planned.slices.values() for one in its]
    return len(slices) >= _MANY_FILES and not any(one.log_files for one in slices)


def _having(frame: DataFrame, equals: Iterable[tuple[str, object]]) -> DataFrame:
    """The rows whose columns have these values."""
    for column, value in equals:
        if column not in frame.columns:
            raise SchemaError(f"the table has no column {column!r}; it has {', '.join(frame.columns)}")
        frame = frame.where(F.col(quoted(column)).eqNullSafe(F.lit(value)))
    return frame


def _apart(frame: DataFrame) -> DataFrame:
    """The same rows in columns of their own, so that the two can be joined."""
    return frame.selectExpr(*(f"{quoted(name)} AS {quoted(name)}" for name in frame.columns))
