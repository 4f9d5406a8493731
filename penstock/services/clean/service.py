"""`CLEAN`: file versions that no reader needs any more are deleted."""

from __future__ import annotations

from typing import Any

from penstock import options as o
from penstock.progress import Stages
from penstock.services.clean.run import clean
from penstock.services.table_service import TableService
from penstock.table import TableState


class Clean(TableService):
    """Old file versions are deleted."""

    name = "clean"
    title = "clean"
    failure_noun = "cleaning"

    def follows_write(self, table: TableState) -> bool:
        """Whether the options ask for cleaning after a write."""
        return table.options[o.TABLE_SERVICES_ENABLED] and table.options[o.CLEAN_AUTOMATIC]

    def may_be_due(self, table: TableState) -> bool:
        """Whether a run on its own has to consider cleaning: always."""
        return True

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Finish cleans that died, then delete what the options do not keep."""
        done = clean(spark, table, stages)
        return f"{sum(result.files_deleted for result in done):,} files deleted" if done else None


CLEAN = Clean()
