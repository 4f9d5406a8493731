"""Changes `hoodie.properties` of a table next to other processes that may do so too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.commit.table_lock import locked
from penstock.table.config import read_config, write_config
from penstock.table.state import TableState


def change_properties(table: TableState, change: Callable[[dict[str, str]], dict[str, str]]) -> TableState:
    """Read the properties of a table, change them, and store them, under the lock of the table. Return the table with them.

    Args:
        change: is called with the properties as they are on storage now, and returns the new ones. If they are the same, nothing
            is written.
    """
    with locked(table):
        config = read_config(table.storage, table.base_path)
        properties = change(dict(config.raw))
        if properties != config.raw:
            config = write_config(table.storage, table.base_path, properties)
    return replace(table, config=config)
