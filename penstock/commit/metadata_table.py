"""Turns off Hudi's metadata table, because Penstock does not maintain it.

Readers trust `.hoodie/metadata` while `hoodie.properties` names its partitions, and do not notice that commits are missing from
it. So the metadata table is turned off before the first change of a table. Hudi builds it again from a listing at Hudi's next
write.
"""

from __future__ import annotations

from penstock.commit.table_properties import change_properties
from penstock.storage import join
from penstock.table.state import TableState
from penstock.timeline.store import FOLDER

METADATA = "metadata"
_PROPERTIES = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")


def turn_off_metadata_table(table: TableState) -> TableState:
    """Delete the metadata table and remove it from `hoodie.properties`, so that readers list files instead.

    Return a copy of the table with the new configuration.
    """
    config = table.config
    folder = join(table.base_path, FOLDER, METADATA)
    # The properties go first: a reader that trusted the metadata table while its folder is deleted would miss files.
    if config.metadata_partitions or config.metadata_partitions_inflight:
        table = change_properties(table, _without_metadata)
    if table.timeline.may_have_folder(METADATA) and table.storage.stat(folder) is not None:
        table.storage.delete_tree(folder)
    return table


def _without_metadata(properties: dict[str, str]) -> dict[str, str]:
    """Return the properties of a table without those of a metadata table."""
    return {key: value for key, value in properties.items() if key not in _PROPERTIES}
