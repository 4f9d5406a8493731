"""Runs what follows the commit of a write: inline table services in the order of the registry (`door/services.py`), then hooks.

The commit stays published, whatever fails after it. If a service fails, the failure is noted in the returned commit and issued
as a warning, and the next service runs. This holds for errors of Spark too. With
`hoodie.fail.writes.on.inline.table.service.exception` the failure raises instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock import clock
from penstock import options as o
from penstock.commit.run_hooks import run_after_hooks
from penstock.door.services import make_stages, services_after_write
from penstock.errors import LockTimeout, PenstockError, StorageError, WriteConflict
from penstock.hooks import HookContext, PublishedCommit, ServiceOutcome
from penstock.interrupt import check_interrupt
from penstock.options import Options
from penstock.progress import Stages
from penstock.services.table_service import TableService
from penstock.table.state import TableState, reload_timeline
from penstock.user_warning import warn_user

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def follow_up_write(
    spark: SparkSession, table: TableState, commit: PublishedCommit, stages: Stages, already_run: Sequence[ServiceRun] = ()
) -> PublishedCommit:
    """Run the inline table services that the options ask for after the commit of a write, then the after-commit hooks.

    Hudi has the same order: the receiver of a message finds the table as the services left it.

    Args:
        stages: the stages of the write.
        already_run: the asynchronous services that ran while the rows were written. They do not run again.

    Returns:
        The commit, with the outcomes of the services and hooks.

    Raises:
        PenstockError: a service failed, and the options ask to raise in this case. The commit stays published, and the hooks ran.
    """
    context = HookContext(table, spark, stages=stages)
    try:
        services = follow_up(spark, table, already_run)
    except Exception:
        _run_hooks(context, commit)
        raise
    return _run_hooks(context, replace(commit, follow_ups=(*commit.follow_ups, *services)))


def _run_hooks(context: HookContext, commit: PublishedCommit) -> PublishedCommit:
    """Run the hooks after the commit of a write; return the commit with their outcomes. A write that was undone has none."""
    if commit.is_undone:
        return commit
    with make_stages("hooks of", context.table, context.spark) as shown:
        return run_after_hooks(context, commit, shown)


def follow_up(spark: SparkSession, table: TableState, already_run: Sequence[ServiceRun] = ()) -> tuple[ServiceOutcome, ...]:
    """Run the inline table services that the options ask for after a commit.

    Args:
        already_run: the asynchronous services that ran while the rows were written. They do not run again.

    Returns:
        The outcome of each service, those of `already_run` first. Each failure is also issued as a warning.

    Raises:
        PenstockError: a service failed, and the options ask to raise in this case. The commit stays published.
    """
    outcomes = [report_run(table, run) for run in already_run]
    over = [run.service for run in already_run]
    services = [service for service in services_after_write(table) if service not in over]
    if not services:
        return tuple(outcomes)
    try:
        table = reload_timeline(table)
    except StorageError as e:
        _report("looking for what is due", e, raises=_raises(table.options))
        return (*outcomes, ServiceOutcome("table services", "looking for what is due", error=describe_error(e)))
    for service in services:
        run = run_quietly(spark, table, service, service.run_after_write)
        outcomes.append(report_run(table, run))
    return tuple(outcomes)


@dataclass(frozen=True)
class ServiceRun:
    """How one run of a table service of a write ended.

    `done` is what the service did, in words; None if nothing was due or the service failed. `error` is None if it did not fail.
    """

    service: TableService
    seconds: float
    done: str | None = None
    error: Exception | None = None


def run_quietly(
    spark: SparkSession,
    table: TableState,
    service: TableService,
    run: Callable[[SparkSession, TableState, Stages], str | None],
    *,
    shown: bool = True,
) -> ServiceRun:
    """Run one table service of a write. An error of the service is not raised, but part of the result.

    Args:
        run: the method of the service to call: `run_after_write` or `run_due`.
        shown: whether the progress of the service is shown, if `penstock.progress` asks for it; if false, it is only measured.
    """
    began = clock.monotonic_s()
    done = None
    error = None
    try:
        with make_stages(service.title, table, spark, shown=shown) as stages:
            done = run(spark, table, stages)
    # Any error: of Penstock, of Spark, or for a file that another process has just archived or cleaned.
    except Exception as e:
        check_interrupt()  # the error of a Spark job that Ctrl-C cancelled
        error = e
    return ServiceRun(service, clock.monotonic_s() - began, done, error)


def report_run(table: TableState, run: ServiceRun) -> ServiceOutcome:
    """Return the outcome of a table service for the result of the write. If the service failed, warn. Called after the commit.

    Raises:
        PenstockError: the service failed, and the options ask to raise in this case. The commit stays published.
    """
    service = run.service
    if run.error is not None:
        _report(service.failure_noun, run.error, raises=_raises(table.options, default=service.raises_after_write))
    error = None if run.error is None else describe_error(run.error)
    return ServiceOutcome(service.name, service.failure_noun, run.done, error, run.seconds)


def _raises(options: Options, *, default: bool = False) -> bool:
    """Whether a table service that fails after a commit raises an error. If not, the failure is a warning.

    The option `hoodie.fail.writes.on.inline.table.service.exception` decides if it is set, otherwise `default`.

    Args:
        default: whether the service raises if the option is not set (`TableService.raises_after_write`).
    """
    is_relevant = options.is_set(o.FAIL_ON_SERVICE_EXCEPTION) or default
    return is_relevant and options[o.FAIL_ON_SERVICE_EXCEPTION]


def _report(noun: str, error: Exception, *, raises: bool) -> None:
    """Raise an error or issue a warning which says that a table service failed after the write was committed.

    Args:
        noun: what failed, in words, for example "deleting old partitions".
        error: the error of the service.
        raises: whether to raise; if false, warn.
    """
    text = f"the write is done, do not run it again; but {noun} failed: {describe_error(error)}"
    if raises:
        # The type stays where callers can tell errors apart by it. But callers repeat the write after a conflict or a lock that
        # was not acquired, and this write is done.
        keeps_type = isinstance(error, PenstockError | FileNotFoundError) and not isinstance(error, WriteConflict | LockTimeout)
        error_type = type(error) if keeps_type else PenstockError
        raise error_type(text) from error
    warn_user(text)


def describe_error(error: Exception) -> str:
    """Return the text of an error for a report: the message of a Penstock error, or the type and first line of any other error.

    The other lines of a Spark error are a stack trace.
    """
    if isinstance(error, PenstockError | FileNotFoundError):
        return str(error)
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
