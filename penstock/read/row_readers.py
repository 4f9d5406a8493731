"""Chooses the function by which a query reads a file slice with logs, in Spark's workers and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock import options as o
from penstock.filegroup.log.scan import LogScan
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules, read_log_rows, read_touched_rows
from penstock.read.plan import QueryPlan
from penstock.schema import META_COLUMNS
from penstock.storage import Storage
from penstock.table.merge_rules import build_merge_rules
from penstock.timeline.history import InstantRange

COMMIT_TIME = META_COLUMNS[0]

#: Yields rows of one slice. A module-level function, since it is pickled to workers.
RowReader = Callable[[Storage, FileSlice, MergeRules, Sequence[str], "LogScan | None"], Iterator[pa.Table]]


def build_query_rules(plan: QueryPlan) -> MergeRules:
    """Return the rules by which a query merges base files and logs. The plan must have a schema."""
    assert plan.schema is not None
    skip_merge = plan.query.options[o.MERGE_TYPE] == "skip_merge"
    return build_merge_rules(plan.table, plan.schema, as_of=plan.query.as_of, skip_merge=skip_merge)


def choose_log_reader(rules: MergeRules) -> RowReader:
    """Return the function that reads only those rows of a slice whose keys are in its log files.

    If the log always wins, the function does not read the base file. Otherwise it merges the log with the base rows of these
    keys.
    """
    return read_log_rows if rules.lets_logs_win else read_touched_rows


def keep_changed_rows(rows: pa.Table, changes: InstantRange) -> pa.Table:
    """Return the rows whose commit time is in the range `changes`, its begin excluded and its end included."""
    times = rows[COMMIT_TIME]
    return rows.filter(pc.and_(pc.greater(times, changes.begin), pc.less_equal(times, changes.end)))
