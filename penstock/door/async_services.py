"""Table services that run on a thread of the writer while its rows are written: asynchronous cleaning and archiving.

The services work on the table as it is when the write begins. After its commit the write waits until they have ended, and returns
their outcomes with the commit. A service that ran in this way does not run again after the commit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock import options as o
from penstock.door.follow_ups import ServiceRun, run_quietly
from penstock.options import Options
from penstock.services.archive.service import ARCHIVE
from penstock.services.clean.service import CLEAN
from penstock.services.table_service import TableService
from penstock.table.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_asynchronous(service: TableService, options: Options) -> bool:
    """Whether the options let a table service run while rows are written.

    Cleaning does with `hoodie.clean.async=true`, archiving with `hoodie.archive.async=true`, unless the service is turned off.
    The other table services never do.
    """
    if service is CLEAN:
        return options[o.CLEAN_AUTOMATIC] and options[o.CLEAN_ASYNC]
    if service is ARCHIVE:
        return options[o.ARCHIVE_AUTOMATIC] and options[o.ARCHIVE_ASYNC]
    return False


def list_async_services(table: TableState) -> list[TableService]:
    """Return the table services that run while a write to the table is under way, in the order in which they run."""
    services: Sequence[TableService] = (CLEAN, ARCHIVE)
    return [service for service in services if service.follows_write(table) and is_asynchronous(service, table.options)]


class AsyncServices:
    """Runs the asynchronous table services of one write, and keeps in `runs` how each of them ended."""

    def __init__(self) -> None:
        #: The services that have ended. Their errors are reported when the write is committed.
        self.runs: list[ServiceRun] = []

    @contextmanager
    def run(self, spark: SparkSession, table: TableState) -> Iterator[None]:
        """Run the services that the options ask for on a thread, while the `with` block writes. At its end, wait for the thread.

        The wait also follows an error or Ctrl-C in the block. Ctrl-C ends each service at its next stage. If the write begins
        again and this method is called a second time, services that have run do not run again.

        Args:
            table: the table as it is when the write begins. If it has no commits, no service runs.
        """
        services = list_async_services(table) if table.timeline.writes and not self.runs else []
        if not services:
            yield
            return
        thread = threading.Thread(target=self._run_services, args=(spark, table, services), daemon=True, name="async services")
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def _run_services(self, spark: SparkSession, table: TableState, services: Sequence[TableService]) -> None:
        """Run the services, one after the other. Runs in the thread."""
        with suppress(KeyboardInterrupt):  # the write ends with it
            for service in services:
                self.runs.append(run_quietly(spark, table, service, service.run_due, shown=False))
