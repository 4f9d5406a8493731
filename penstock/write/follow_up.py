"""Stage 8: what follows a commit: failed writes of others undone, and compaction. The commit stands whatever happens here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from penstock import options as o
from penstock.commit.heartbeat import is_lazy
from penstock.errors import PenstockError
from penstock.metadata.pending import pending_plans
from penstock.options import Options
from penstock.progress import Stages
from penstock.services.compaction.join_logs import join_logs
from penstock.services.compaction.run import compact
from penstock.services.compaction.schedule import reloaded, schedule
from penstock.services.rollback import roll_back_expired
from penstock.spread import named_jobs
from penstock.table import TableState
from penstock.timeline.store import load_timeline


def follow_up(spark: SparkSession, table: TableState) -> None:
    """Under the lazy policy for failed writes, undo those whose writer has been silent for too long; compact if it is due."""
    if is_lazy(table):
        with _failing_as_warning("rolling back failed ones"):
            roll_back_expired(replace(table, timeline=load_timeline(table.storage, table.base_path)))
    if table.is_merge_on_read and table.options[o.TABLE_SERVICES_ENABLED]:
        with _failing_as_asked(table.options, "the compaction after it"):
            _compact(spark, table)
            if table.options[o.LOG_COMPACTION_INLINE]:
                join_logs(spark, table, _stages(spark, table, "join logs of"))


def _compact(spark: SparkSession, table: TableState) -> None:
    """Run compactions that wait and one that is due; or only plan it, for somebody else to run."""
    if compacts_inline(table.options):
        compact(spark, table, _stages(spark, table, "compact"))
    elif table.options[o.COMPACT_SCHEDULE_INLINE] and not pending_plans(reloaded(table)):
        schedule(table)


def _stages(spark: SparkSession, table: TableState, what: str) -> Stages:
    return Stages(f"{what} {table.config.name}", table.options[o.PROGRESS], partial(named_jobs, spark))


def compacts_inline(options: Options) -> bool:
    """Whether a write to a merge-on-read table compacts: unless it is told otherwise, or that somebody else does."""
    if options.is_set(o.COMPACT_INLINE):
        return options[o.COMPACT_INLINE]
    others = options.is_set(o.COMPACTION_ASYNC) and options[o.COMPACTION_ASYNC]
    return not others and not options[o.COMPACT_SCHEDULE_INLINE]


@contextmanager
def _failing_as_warning(what: str) -> Iterator[None]:
    try:
        yield
    except PenstockError as e:
        warnings.warn(f"the write is done, but {what} was not possible: {e}", RuntimeWarning, stacklevel=4)


@contextmanager
def _failing_as_asked(options: Options, what: str) -> Iterator[None]:
    """An error of a table service: raised, or, if the options say so, a warning."""
    try:
        yield
    except PenstockError as e:
        text = f"the write is done, do not run it again; but {what} failed: {e}"
        if options[o.FAIL_ON_SERVICE_EXCEPTION]:
            raise type(e)(text) from e
        warnings.warn(text, RuntimeWarning, stacklevel=4)
