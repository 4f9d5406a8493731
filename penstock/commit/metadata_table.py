"""Hudi's metadata table, for a writer that does not maintain it.

Readers trust `.hoodie/metadata` while the table's properties name its partitions, and do not notice commits that are
missing in it. So before the first change of such a table it is turned off, in the order that is safe at every step:
the properties first, the folder then. Hudi builds it again from a listing when it next writes.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.storage import join
from penstock.table import TableState, write_config
from penstock.timeline.store import FOLDER

METADATA = "metadata"
_PROPERTIES = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")


def turn_off_metadata_table(table: TableState) -> TableState:
    """A table whose readers list files themselves."""
    config, folder = table.config, join(table.base_path, FOLDER, METADATA)
    if config.metadata_partitions or config.metadata_partitions_inflight:
        raw = {k: v for k, v in config.raw.items() if k not in _PROPERTIES}
        table = replace(table, config=write_config(table.storage, table.base_path, raw))
    if table.storage.stat(folder) is not None:
        table.storage.delete_tree(folder)
    return table
