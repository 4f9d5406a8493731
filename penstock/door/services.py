"""The registry of all table services, in the order in which they run.

Its users are a write that has just committed (`follow_ups.py`), `Table.run_due` and the command `penstock services run`. A new
table service is one module with a `TableService`, and one line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from penstock import options as o
from penstock.door.expire import EXPIRE_PARTITIONS
from penstock.door.interrupts import end_service_at_interrupt
from penstock.progress import Stages
from penstock.services.archive.service import ARCHIVE
from penstock.services.clean.service import CLEAN
from penstock.services.clustering.service import CLUSTERING
from penstock.services.compaction.service import COMPACTION
from penstock.services.log_compaction.service import LOG_COMPACTION
from penstock.services.notices import SEND_NOTICES
from penstock.services.rollback.service import FAILED_WRITE_ROLLBACK
from penstock.services.table_service import TableService
from penstock.table.state import TableState
from penstock.workers.session_settings import name_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: All table services, in the order in which they run. Hudi has the same order, and no outbox.
SERVICES: tuple[TableService, ...] = (
    FAILED_WRITE_ROLLBACK,
    CLEAN,
    ARCHIVE,
    COMPACTION,
    LOG_COMPACTION,
    CLUSTERING,
    EXPIRE_PARTITIONS,
    SEND_NOTICES,
)


def services_after_write(table: TableState) -> list[TableService]:
    """Return the table services that the options ask to run inline after a write, in the order in which they run."""
    return [service for service in SERVICES if service.follows_write(table)]


def services_for(table: TableState) -> list[TableService]:
    """Return the table services whose `run_due` is to be called outside a write, in the order in which they run.

    `Table.run_due` and `penstock services run` run them.
    """
    return [service for service in SERVICES if service.may_be_due(table)]


def needs_spark(table: TableState) -> bool:
    """Whether a table service that may be due outside a write (`services_for`) may start Spark tasks."""
    return any(service.needs_spark(table) for service in services_for(table))


@contextmanager
def run_service(title: str, table: TableState, spark: SparkSession | None) -> Iterator[Stages]:
    """Run a table service outside a write in the `with` block. Yields the object that reports its progress.

    Ctrl-C cancels Spark's jobs and ends the block in a KeyboardInterrupt that says what became of the service.

    Args:
        title: the name of the service, such as `clean`, for its progress and messages.
        table: the table, with its timeline as it is before the service.
        spark: the session of the service; None if it starts no Spark job.
    """
    with end_service_at_interrupt(spark, table, title), make_stages(title, table, spark) as stages:
        yield stages


def make_stages(title: str, table: TableState, spark: SparkSession | None, *, shown: bool = True) -> Stages:
    """Return the object that reports the progress of a table service. Its lines, and the Spark jobs, are named after the service.

    Use it in a `with` statement around the run of the service.

    Args:
        title: the service in words, for example `clean`. In the names of lines and jobs, the name of the table follows it.
        spark: the session whose jobs are named; None if the service starts no Spark job.
        shown: whether the progress is shown, if `penstock.progress` asks for it; if false, it is only measured.
    """
    around = partial(name_jobs, spark) if spark else None
    return Stages(f"{title} {table.config.name}", table.options[o.PROGRESS] if shown else "off", around)
