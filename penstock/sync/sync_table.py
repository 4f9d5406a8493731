"""Runs a sync: reads the catalog's entries, plans the changes, and makes them through a `CatalogClient`.

The sync point is stored in the catalog last. So a sync that fails before begins at the same commit the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock import options as o
from penstock.errors import CatalogConflict, CatalogError
from penstock.sync.catalog import CatalogClient, CatalogPartition, CatalogTable
from penstock.sync.changes import PartitionChanges, SyncedState, SyncPoint, find_changes
from penstock.sync.plan import PartitionPlan, TablePlan, plan_partitions, plan_table, read_sync_point, with_sync_point
from penstock.sync.settings import SyncSettings, View, resolve_sync
from penstock.table.state import TableState, read_table_schema

T = TypeVar("T")


@dataclass(frozen=True)
class SyncedTable:
    """What a sync did to one table of a catalog: whether it is new, what changed, and the numbers of changed partitions."""

    database: str
    name: str
    is_new: bool = False
    #: What changed apart from partitions, in words.
    changes: tuple[str, ...] = ()
    added: int = 0
    moved: int = 0
    dropped: int = 0
    #: The name of the sync tool.
    tool: str = ""


def load_settings(table: TableState, spark_version: str = "", schema: str | None = None) -> SyncSettings:
    """Return the settings of a sync, from the table's options, properties and schema.

    Args:
        spark_version: the version of Spark to register with the table; empty if it is not known.
        schema: the Avro schema to register, as JSON; None: the schema of the last commit.

    Raises:
        CatalogError: the table has no schema yet, and `schema` is None.
        OptionError: an option has a wrong form.
    """
    schema = schema or read_table_schema(table)
    if schema is None:
        raise CatalogError(f"{table.uri} has no schema to register yet: write to it first")
    return resolve_sync(table, schema, spark_version)


def run_sync(state: SyncedState, settings: SyncSettings, client: CatalogClient) -> list[SyncedTable]:
    """Register the table, its columns and its partitions in one catalog. Return what was done, one entry per registered table.

    Args:
        state: the table at the moment of the sync.
        settings: what is to be registered.
        client: the client of the catalog.

    Raises:
        CatalogError: the catalog refuses a change, or holds another table under the name.
        OptionError: an option has a wrong form, or a partition path does not fit the extractor.
    """
    _require_database(client, settings)
    known: dict[SyncPoint, PartitionChanges] = {}
    synced = []
    for view in settings.views:
        synced.append(_sync_view(client, settings, view, state, known))
    return synced


def check_sync(settings: SyncSettings, client: CatalogClient, paths: Sequence[str]) -> None:
    """Check before a commit that its sync will not be refused. Changes nothing in the catalog.

    Checks that the partition paths fit the extractor, that the database exists or may be created, and that the columns may
    replace those in the catalog.

    Args:
        client: the client of the catalog.
        paths: the partition paths of the commit.

    Raises:
        CatalogConflict: the database may not be created, the catalog has another table under the name, or a column's type cannot
            be changed.
        CatalogError: the catalog cannot be reached.
        OptionError: a partition path does not fit the extractor.
    """
    check_paths(settings, paths)
    if not client.has_database(settings.database):
        _require_creation(settings)
        return
    for view in settings.views:
        plan_table(settings.table_of(view), client.get_table(settings.database, view.name))


def check_paths(settings: SyncSettings, paths: Sequence[str]) -> None:
    """Raise OptionError if a partition path does not fit the extractor."""
    if settings.partition_fields:
        for path in paths:
            settings.partition_of(path)


def _require_database(client: CatalogClient, settings: SyncSettings) -> None:
    """Create the database if it does not exist. Raise CatalogConflict if the options do not allow a sync to create it."""
    if client.has_database(settings.database):
        return
    _require_creation(settings)
    client.create_database(settings.database)


def _require_creation(settings: SyncSettings) -> None:
    """Raise CatalogConflict if the options do not allow a sync to create the database. Called if it does not exist."""
    if not settings.options[o.HIVE_SYNC_AUTO_CREATE_DATABASE]:
        raise CatalogConflict(
            f"database {settings.database!r} does not exist in the catalog: create it, correct {o.HIVE_SYNC_DATABASE.key}, "
            f"or set {o.HIVE_SYNC_AUTO_CREATE_DATABASE.key}=true"
        )


def _sync_view(
    client: CatalogClient,
    settings: SyncSettings,
    view: View,
    state: SyncedState,
    known: dict[SyncPoint, PartitionChanges],
) -> SyncedTable:
    """Register one view of the table in the catalog: create or change its entry, then its partitions, then the sync point.

    Args:
        view: the view: the entry's name, and which files its queries read.
        known: sync point → the partitions that changed since. This function adds to the dict, so that the views of a table share
            it.
    """
    found = client.get_table(settings.database, view.name)
    plan = plan_table(settings.table_of(view), found)
    if plan.is_new:
        client.create_table(settings.database, plan.table)
    elif plan.changes:
        client.alter_table(settings.database, plan.table, cascade=plan.has_new_columns and bool(settings.partition_fields))
    partitions = PartitionPlan()
    if settings.partition_fields:
        since = read_sync_point(found)
        if since not in known:
            known[since] = find_changes(state, since, incremental=settings.options[o.META_SYNC_INCREMENTAL])
        partitions = _plan_partitions(client, settings, plan, known[since])
        _apply(client, settings, plan.table, partitions)
    _store_point(client, settings, plan, state.point, is_changed=plan.is_new or bool(plan.changes) or bool(partitions))
    return SyncedTable(
        settings.database,
        view.name,
        plan.is_new,
        plan.changes,
        len(partitions.add),
        len(partitions.move),
        len(partitions.drop),
    )


def _plan_partitions(client: CatalogClient, settings: SyncSettings, plan: TablePlan, changes: PartitionChanges) -> PartitionPlan:
    """Return the changes to the partitions of one entry in the catalog.

    Of the partitions in the catalog only those that `changes` names are requested; all of them if `changes.is_full` is true.
    """
    if plan.is_new:
        return plan_partitions(settings, changes, [])
    if changes.is_full:
        return plan_partitions(settings, changes, client.list_partitions(settings.database, plan.table))
    values = [settings.partition_of(path).values for path in (*changes.written, *changes.dropped)]
    found: list[CatalogPartition] = []
    for batch in _batches(values, settings.options[o.HIVE_SYNC_FILTER_PUSHDOWN_MAX]):
        found += client.list_partitions(settings.database, plan.table, batch)
    return plan_partitions(settings, changes, found)


def _apply(client: CatalogClient, settings: SyncSettings, table: CatalogTable, plan: PartitionPlan) -> None:
    """Make the planned changes to the partitions of one entry in the catalog, in batches: add, move, then drop."""
    size = settings.options[o.HIVE_SYNC_BATCH]
    for added in _batches(plan.add, size):
        client.add_partitions(settings.database, table, added)
    for moved in _batches(plan.move, size):
        client.move_partitions(settings.database, table, moved)
    for dropped in _batches(plan.drop, size):
        client.drop_partitions(settings.database, table, dropped)


def _store_point(client: CatalogClient, settings: SyncSettings, plan: TablePlan, point: SyncPoint, *, is_changed: bool) -> None:
    """Store the sync point, at which the next sync begins, in the catalog.

    Does nothing if the sync made no changes and `hoodie.datasource.meta_sync.condition.sync` is true.

    Args:
        is_changed: whether the sync changed the entry or its partitions.
    """
    if settings.options[o.META_SYNC_CONDITION] and not is_changed:
        return
    table = with_sync_point(plan.table, point, settings.base_path)
    if table != plan.table:
        client.alter_table(settings.database, table)


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in lists of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
