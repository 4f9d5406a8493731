"""Catalog sync: registers a table, its columns and its partitions in Hive's metastore or another catalog.

    options, hoodie.properties → settings.py → the tables to register
    commits since the last sync → changes.py → the partitions that were written and dropped
    both, and the catalog's entries → plan.py (pure) → run.py makes the changes through a `CatalogClient` (catalog.py)

`TOOLS` in `clients.py` lists the sync tools. `hooks/catalog_sync.py` runs a sync after each commit, and `Table.sync` at any
time.
"""

from penstock.sync.catalog import CatalogClient, CatalogColumn, CatalogPartition, CatalogTable
from penstock.sync.run import SyncedTable, run_sync
from penstock.sync.settings import SyncSettings
from penstock.sync.tools import check_tools_before_commit, run_tools

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
