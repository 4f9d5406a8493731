"""`Table.sync`: registers the table in Hive or another catalog."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.api.handle import TableHandle
from penstock.api.report import Column, Report
from penstock.sync import SyncedTable, run_tools


class SyncReport(Report[SyncedTable]):
    """What a sync created, changed and dropped: one entry per table of a catalog. `Table.sync` returns it."""

    title = "Sync"
    columns = (
        Column("table", lambda t: f"{t.database}.{t.name}"),
        Column("entry", lambda t: "created" if t.is_new else ", ".join(t.changes) or "unchanged"),
        Column("partitions added", lambda t: f"{t.added:,}", right=True),
        Column("moved", lambda t: f"{t.moved:,}", right=True),
        Column("dropped", lambda t: f"{t.dropped:,}", right=True),
    )
    schema = pa.schema(
        [
            ("database", pa.string()),
            ("name", pa.string()),
            ("is_new", pa.bool_()),
            ("changes", pa.list_(pa.string())),
            ("added", pa.int64()),
            ("moved", pa.int64()),
            ("dropped", pa.int64()),
            ("tool", pa.string()),
        ]
    )
    if_empty = "no catalog was reached"


class SyncMethods(TableHandle):
    """The method of `Table` that registers the table in catalogs."""

    def sync(self, options: Mapping[str, object] | None = None) -> SyncReport:
        """Register the table, its columns and its partitions in Hive, Glue or a catalog of your own.

        A write does this after its commit if `hoodie.datasource.hive_sync.enable` is true. Call it to register a table for the
        first time, or again after a sync that failed. It may be called at any time and as often as you like.

        Args:
            options: options by their keys: `hoodie.datasource.hive_sync.*` and `hoodie.meta.sync.*`.

        Returns:
            One entry for each table that the sync registered in a catalog, with what was created, changed and dropped.

        Raises:
            CatalogError: a catalog cannot be reached, or refuses a change.
            OptionError: an option has a wrong form, or a partition path does not fit the partition extractor.

        Example:
            >>> hive = {"hoodie.datasource.hive_sync.mode": "hms",
            ...         "hoodie.datasource.hive_sync.metastore.uris": "thrift://127.0.0.1:1"}
            >>> table.sync(hive)
            Traceback (most recent call last):
            ...
            penstock.errors.CatalogError: no Hive metastore answers at thrift://127.0.0.1:1 ...
        """
        state = self._state(options or {})
        return SyncReport(run_tools(state, self._spark), state.config.name)
