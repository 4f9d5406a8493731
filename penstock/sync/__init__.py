"""Catalog sync: registers a table, its columns and its partitions in Hive's metastore or another catalog.

    options, hoodie.properties → settings.py → the tables to register
    commits since the last sync → changes.py → the partitions that were written and dropped
    both, and the catalog's entries → plan.py (pure) → sync_table.py makes the changes through a `CatalogClient`
    (catalog.py)

`TOOLS` in `known_catalogs.py` lists the sync tools. `hooks/catalog_sync.py` runs a sync after each commit, and `Table.sync` at
any time.
"""

from penstock.sync.catalog import CatalogClient, CatalogColumn, CatalogPartition, CatalogTable
from penstock.sync.run_all import check_tools_before_commit, run_tools
from penstock.sync.settings import SyncSettings
from penstock.sync.sync_table import SyncedTable, run_sync

__all__ = [
    "CatalogClient",
    "CatalogColumn",
    "CatalogPartition",
    "CatalogTable",
    "SyncSettings",
    "SyncedTable",
    "check_tools_before_commit",
    "run_sync",
    "run_tools",
]
