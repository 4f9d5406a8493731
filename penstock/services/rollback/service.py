"""`FAILED_WRITE_ROLLBACK`: the table service that rolls back failed writes of other processes after a write."""

from __future__ import annotations

from typing import Any

from penstock.commit.modes import is_lazy
from penstock.progress import Stages
from penstock.services.clean.service import CLEAN
from penstock.services.rollback.failed_writes import roll_back_expired
from penstock.services.table_service import TableService
from penstock.table.state import TableState


class FailedWriteRollback(TableService):
    """The table service that rolls back writes of other processes whose heartbeat has expired."""

    name = "roll back failed writes"
    title = "roll back failed writes of"
    failure_noun = "rolling back failed writes"

    def follows_write(self, table: TableState) -> bool:
        """Whether failed writes are rolled back after each write: the policy for failed writes is lazy and no clean follows.

        A clean rolls back failed writes itself.
        """
        return is_lazy(table) and not CLEAN.follows_write(table)

    def may_be_due(self, table: TableState) -> bool:
        """Whether to call `run_due` outside a write: always false, because a clean rolls back failed writes."""
        return False

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Roll back pending writes whose heartbeat has expired. Always return None: there is nothing to report."""
        roll_back_expired(table)
        return None


FAILED_WRITE_ROLLBACK = FailedWriteRollback()
