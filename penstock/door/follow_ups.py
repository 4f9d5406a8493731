"""What follows a commit: the table services that the options ask for, in the order of the registry.

The commit stands, whatever fails after it. A service that fails, also with an error of Spark's own, is reported in the commit
that the writer gets, and as a warning; the next service runs. Where the options ask for that, the failure raises instead.
"""

from __future__ import annotations

import warnings

from pyspark.sql import SparkSession

from penstock import options as o
from penstock.door.services import make_stages, services_after_write
from penstock.errors import PenstockError, StorageError
from penstock.options import Options
from penstock.table import TableState, reload_timeline


def follow_up(spark: SparkSession, table: TableState) -> tuple[str, ...]:
    """Run the services that are due after a commit; return what failed, each with its reason."""
    services = services_after_write(table)
    if not services:
        return ()
    try:
        table = reload_timeline(table)
    except StorageError as e:
        return (_report("looking for what is due", e, raises=_raises(table.options)),)
    failed = []
    for service in services:
        try:
            service.run_after_write(spark, table, make_stages(service.title, table, spark))
        # Any error: of Penstock, of Spark, or for a file that another process has just archived or cleaned.
        except Exception as e:
            raises = _raises(table.options, default=service.raises_after_write)
            failed.append(_report(service.failure_noun, e, raises=raises))
    return tuple(failed)


def _raises(options: Options, *, default: bool = False) -> bool:
    """Whether a failure raises: as the option says where it is set, else as the service does by default.

    The option itself is true by default. For services that do not raise by default it therefore only counts where it is set.
    """
    is_relevant = options.is_set(o.FAIL_ON_SERVICE_EXCEPTION) or default
    return is_relevant and options[o.FAIL_ON_SERVICE_EXCEPTION]


def _report(noun: str, error: Exception, *, raises: bool) -> str:
    """Raise or warn about a failed service; return what failed and why."""
    text = f"the write is done, do not run it again; but {noun} failed: {describe_error(error)}"
    if raises:
        # The type stays where callers can tell errors apart by it.
        error_type = type(error) if isinstance(error, PenstockError | FileNotFoundError) else PenstockError
        raise error_type(text) from error
    warnings.warn(text, RuntimeWarning, stacklevel=4)
    return f"{noun}: {describe_error(error)}"


def describe_error(error: Exception) -> str:
    """Return what went wrong, for a report. Of a foreign error only type and first line: the rest of Spark's is a stack trace."""
    if isinstance(error, PenstockError | FileNotFoundError):
        return str(error)
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
