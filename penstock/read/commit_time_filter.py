"""The rows of an incremental query among those of its files: by their commit times, as a kernel and as a Spark filter."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock import options as o
from penstock.errors import OptionError
from penstock.read.meta_columns import COMMIT_TIME
from penstock.read.plan import QueryPlan
from penstock.timeline.history import InstantRange


def changed_rows(rows: pa.Table, changes: InstantRange) -> pa.Table:
    """Kernel: the rows that were written in a range."""
    times = rows[COMMIT_TIME]
    return rows.filter(pc.and_(pc.greater(times, changes.begin), pc.less_equal(times, changes.end)))


def only_changes(frame: DataFrame, plan: QueryPlan) -> DataFrame:
    """Of the rows of a plan's files those that the query asks for.

    Spark hands such a filter on to its Parquet reader, which leaves out row groups by it: of a range by their least and greatest
    times alone, of single times also by the list of all that a row group has.
    """
    if plan.changes is None:
        return frame
    time = F.col(COMMIT_TIME)
    is_new = time.isin(*plan.written_at) if plan.written_at else (time > plan.changes.begin) & (time <= plan.changes.end)
    found = frame.where(is_new)
    for condition in conditions(plan.query.options[o.INCREMENTAL_FILTERS]):
        try:
            found = found.where(condition)
            found.schema  # noqa: B018  a Connect session looks at conditions only then
        except (AnalysisException, ParseException) as e:
            first = str(e).partition("\n")[0]
            raise OptionError(f"{o.INCREMENTAL_FILTERS.key}: {condition!r} is no condition on the table's rows: {first}") from e
    return found


def conditions(text: str) -> list[str]:
    """The parts between commas, but for commas inside parentheses or quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        depth += 0 if quote else (letter == "(") - (letter == ")")
        if letter == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
