"""Checks that a table is merge-on-read, the only table type that has log files to compact."""

from __future__ import annotations

from penstock.errors import Unsupported
from penstock.table.config import MERGE_ON_READ
from penstock.table.state import TableState


def check_merge_on_read(table: TableState) -> None:
    """Raise Unsupported if the table is copy-on-write: it has no log files to compact."""
    if not table.is_merge_on_read:
        raise Unsupported(
            f"Can only compact table of type {MERGE_ON_READ} and not {table.config.table_type}: {table.base_path} has no "
            "log files"
        )
