"""`ARCHIVE`: the table service that moves old instants from the timeline to the archive."""

from __future__ import annotations

from typing import Any

from penstock import options as o
from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.table_service import TableService
from penstock.table.state import TableState


class Archive(TableService):
    """The table service that archives old instants."""

    name = "archive"
    title = "archive"
    failure_noun = "archiving"

    def follows_write(self, table: TableState) -> bool:
        """Whether to archive after each write: `hoodie.archive.automatic` and `hoodie.table.services.enabled` are true."""
        return table.options[o.TABLE_SERVICES_ENABLED] and table.options[o.ARCHIVE_AUTOMATIC]

    def may_be_due(self, table: TableState) -> bool:
        """Whether to call `run_due` outside a write: always true, because only `run_due` finds out what can be archived."""
        return True

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Archive the instants that need not stay on the timeline.

        Return a text for a report with the number of archived instants; None if no instant was archived.
        """
        done = archive(table, stages)
        return f"{len(done.instants):,} instants archived" if done else None


ARCHIVE = Archive()
