"""Ctrl-C during a write or a table service: Spark's jobs are cancelled, and one KeyboardInterrupt says what became of the work.

`penstock/interrupt.py` catches the signal. `commit/change.py` undoes the write or the run of a plan that was under way, and says
so in the message of its KeyboardInterrupt. This module adds whether the write is committed, or which table service was
interrupted, and raises the error with a short traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import StorageError
from penstock.interrupt import catch_interrupts
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import Action
from penstock.timeline.timeline import Timeline
from penstock.workers.session_settings import cancel_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLAN_STAYS = "Its plan stays, and the next run of the service resumes it"
#: What becomes of a pending instant that an interrupted table service leaves.
_NEXT = {
    Action.CLEAN: "Its plan stays, and the next clean finishes it",
    Action.ROLLBACK: "Its plan stays, and the next write finishes it",
    Action.RESTORE: "Call Table.restore again to finish it; until then writes are refused",
    Action.COMPACTION: _PLAN_STAYS,
    Action.LOG_COMPACTION: _PLAN_STAYS,
    Action.REPLACE_COMMIT: _PLAN_STAYS,
}


@contextmanager
def end_at_interrupt(spark: SparkSession | None, describe: Callable[[str], str]) -> Iterator[None]:
    """Run the `with` block so that Ctrl-C cancels Spark's jobs and ends the block in one KeyboardInterrupt.

    Args:
        spark: the session whose jobs are cancelled; None if the block starts none.
        describe: makes the message of the raised KeyboardInterrupt, a line on what became of the work. Its argument is what
            `commit/change.py` says about the write or run that it undid; "" if none was under way.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    try:
        with catch_interrupts(partial(cancel_jobs, spark) if spark is not None else _cancel_nothing):
            yield
        return
    except KeyboardInterrupt as e:
        details = str(e)
    raise KeyboardInterrupt(describe(details)) from None  # here: the traceback is short


@contextmanager
def end_service_at_interrupt(spark: SparkSession | None, table: TableState, title: str) -> Iterator[None]:
    """Run a table service in the `with` block so that Ctrl-C ends it in a KeyboardInterrupt that says what became of it.

    Args:
        spark: the session whose jobs are cancelled; None if the service starts none.
        table: the table with its timeline as it was before the service.
        title: the name of the service, for the message.
    """
    with end_at_interrupt(spark, partial(_describe_service, table, title)):
        yield


def _cancel_nothing() -> None:
    """Do nothing, in place of cancelling the jobs of a session."""


def _describe_service(table: TableState, title: str, details: str) -> str:
    """Return a line for the user on what became of a table service at Ctrl-C.

    Args:
        table: the table as it was before the service.
        title: the name of the service.
        details: what `commit/change.py` says about the run that it undid; "" if no run was under way. If not empty, it is
            returned.
    """
    if details:
        return details
    verb = title.removesuffix(" of")  # titles come before the name of a table
    name = f"{verb} of {table.base_path} was interrupted"
    try:
        return f"{name}. {_describe_timeline(table.timeline, reload_timeline(table).timeline, verb)}"
    except StorageError as e:
        return f"{name}. Table.history() shows what is left of it ({e})"


def _describe_timeline(before: Timeline, now: Timeline, title: str) -> str:
    """Return a sentence on what a table service has left on the timeline.

    Args:
        before: the timeline before the service ran.
        now: the timeline after the service was interrupted.
        title: the name of the service.
    """
    if now.pending_restore is not None:
        return _NEXT[Action.RESTORE]
    changed = [instant for instant in now.instants if instant not in before.instants]
    for instant in reversed(changed):
        if instant.is_completed:
            return f"{instant.file_name} is completed and stands"
        return f"{instant.file_name} is not completed. {_NEXT.get(instant.action, 'The next write rolls it back')}"
    return f"The table is whole, and the next run of {title!r} finishes what is left"
