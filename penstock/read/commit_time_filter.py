"""The filter of an incremental query on a DataFrame: keep the rows whose `_hoodie_commit_time` is in its range.

`row_readers.py` filters the Arrow tables of workers, which read slices with logs.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock import options as o
from penstock.errors import OptionError
from penstock.read.plan import QueryPlan
from penstock.read.row_readers import COMMIT_TIME


def filter_changes(frame: DataFrame, plan: QueryPlan) -> DataFrame:
    """Return `frame` with only the rows that an incremental query asks for, by commit time and by the conditions in its options.

    For other queries `frame` is returned unchanged. Spark pushes the filter down to its Parquet reader, which skips row groups.
    If the commits of the range are few, the filter lists their times instead of comparing with begin and end. The Parquet reader
    then skips row groups also by their dictionary, not only by their least and greatest commit time.

    Raises:
        OptionError: a condition of hoodie.datasource.read.incr.filters is not valid Spark SQL for the table's columns.
    """
    if plan.changes is None:
        return frame
    time = F.col(COMMIT_TIME)
    if plan.written_at:
        is_new = time.isin(*plan.written_at)
    else:
        is_new = (time > plan.changes.begin) & (time <= plan.changes.end)
    rows = frame.where(is_new)
    for condition in split_conditions(plan.query.options[o.INCREMENTAL_FILTERS]):
        try:
            rows = rows.where(condition)
            rows.schema  # noqa: B018  a Connect session analyses the condition only now
        except (AnalysisException, ParseException) as e:
            first_line = str(e).partition("\n")[0]
            raise OptionError(
                f"{o.INCREMENTAL_FILTERS.key}: {condition!r} is no condition on the table's rows: {first_line}"
            ) from e
    return rows


def split_conditions(text: str) -> list[str]:
    """Split the value of hoodie.datasource.read.incr.filters at commas into conditions.

    Commas inside parentheses or quotes do not split.
    """
    parts = [""]
    depth = 0
    quote = ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        elif letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
        if letter == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
