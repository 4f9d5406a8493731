"""Opens a table. An overwrite of the table that is under way, or was interrupted, is finished first."""

from __future__ import annotations

from penstock.commit.swap_tables import finish_overwrite
from penstock.options import Options
from penstock.storage import join
from penstock.table.config import TableConfig
from penstock.table.state import TableState, open_table, reload_table
from penstock.timeline.overwrite_note import is_overwritten
from penstock.timeline.store import FOLDER


def open_finished(path: str, options: Options | None = None, config: TableConfig | None = None) -> TableState:
    """Open the table at `path`. If a new table is about to replace it (save mode `overwrite`), open the new table.

    If the process that replaces the table is alive, wait for it; if it died, finish its work. Without an overwrite this costs no
    request: the listing of the timeline shows that there is none.

    Args:
        options: the options of the write, query or service; None for defaults.
        config: the table's properties, if they were read just now.
    """
    return _finish(open_table(path, options, config))


def reload_finished(table: TableState) -> TableState:
    """Reload a table. If a new table is about to replace it (save mode `overwrite`), load the new one.

    If the process that replaces the table is alive, wait for it; if it died, finish its work.
    """
    return _finish(reload_table(table))


def _finish(table: TableState) -> TableState:
    """Return the table unchanged, unless a new table is about to replace it (save mode `overwrite`). Then return the new table.

    If the process that replaces the table is alive, wait for it; if it died, finish its work.
    """
    while is_overwritten(table.storage, join(table.base_path, FOLDER), table.timeline):
        finish_overwrite(table.storage, table.base_path, table.options)
        table = reload_table(table)
    return table
