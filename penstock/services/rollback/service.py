"""`FAILED_WRITE_ROLLBACK`: after a write, the failed writes of other processes are rolled back."""

from __future__ import annotations

from typing import Any

from penstock.commit.heartbeat import is_lazy
from penstock.progress import Stages
from penstock.services.clean.service import CLEAN
from penstock.services.rollback.failed_writes import roll_back_expired
from penstock.services.table_service import TableService
from penstock.table import TableState


class FailedWriteRollback(TableService):
    """Writes whose heartbeat has expired are rolled back."""

    name = "roll back failed writes"
    title = "roll back failed writes of"
    failure_noun = "rolling back failed writes"

    def follows_write(self, table: TableState) -> bool:
        """Whether failed writes are rolled back lazily and no clean follows, which would roll them back itself."""
        return is_lazy(table) and not CLEAN.follows_write(table)

    def may_be_due(self, table: TableState) -> bool:
        """Whether a run on its own has to consider failed writes: never, because the clean in that run rolls them back."""
        return False

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Roll back failed writes whose heartbeat has expired."""
        roll_back_expired(table)
        return None


FAILED_WRITE_ROLLBACK = FailedWriteRollback()
