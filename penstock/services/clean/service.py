"""`CLEAN`: the table service that deletes old file versions."""

from __future__ import annotations

from typing import Any

from penstock import options as o
from penstock.progress import Stages
from penstock.services.clean.run import clean
from penstock.services.table_service import TableService
from penstock.table.state import TableState


class Clean(TableService):
    """The table service that deletes old file versions."""

    name = "clean"
    title = "clean"
    failure_noun = "cleaning"

    def follows_write(self, table: TableState) -> bool:
        """Whether to clean after each write: `hoodie.clean.automatic` and `hoodie.table.services.enabled` are true."""
        return table.options[o.TABLE_SERVICES_ENABLED] and table.options[o.CLEAN_AUTOMATIC]

    def may_be_due(self, table: TableState) -> bool:
        """Whether to call `run_due` outside a write: always true, because only `run_due` finds out whether a clean is due."""
        return True

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Run pending cleans; then, if a new clean is due, plan it and run it.

        Return a text for a report with the number of deleted files; None if no clean was run.
        """
        done = clean(spark, table, stages)
        return f"{sum(result.files_deleted for result in done):,} files deleted" if done else None


CLEAN = Clean()
