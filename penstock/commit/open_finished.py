"""Opens a table, after an overwrite of it that is under way or was interrupted is finished."""

from __future__ import annotations

from penstock.commit.swap_tables import finish_overwrite
from penstock.options import Options
from penstock.storage import join
from penstock.table.config import TableConfig
from penstock.table.state import TableState, open_table, reload_table
from penstock.timeline.overwrite_note import is_overwritten
from penstock.timeline.store import FOLDER


def open_finished(path: str, options: Options | None = None, config: TableConfig | None = None) -> TableState:
    """Open the table at `path`, as `open_table` does. First finish an overwrite that was decided, or wait until it is finished.

    This costs no request if there is none: the listing of the timeline shows it.
    """
    return _finish(open_table(path, options, config))


def reload_finished(table: TableState) -> TableState:
    """Reload a table, as `reload_table` does. First finish an overwrite that was decided, or wait until it is finished."""
    return _finish(reload_table(table))


def _finish(table: TableState) -> TableState:
    """Return the table, loaded again after an overwrite if there was one."""
    while is_overwritten(table.storage, join(table.base_path, FOLDER), table.timeline):
        finish_overwrite(table.storage, table.base_path, table.options)
        table = reload_table(table)
    return table
