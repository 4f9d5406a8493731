"""Compares a table with its entry in a catalog and returns the changes to make there. No function here calls the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.errors import CatalogConflict
from penstock.options import HIVE_SYNC_TABLE, META_SYNC_SNAPSHOT_NAME
from penstock.storage.location import is_same_location
from penstock.sync.catalog import CatalogColumn, CatalogPartition, CatalogTable
from penstock.sync.changes import PartitionChanges, SyncPoint
from penstock.sync.hive_types import can_change, is_same_type
from penstock.sync.settings import SyncSettings
from penstock.sync.spark_properties import CREATE_VERSION, PROVIDER, READ_OPTIMIZED

LAST_COMMIT = "last_commit_time_sync"
LAST_COMPLETION = "last_commit_completion_time_sync"


@dataclass(frozen=True)
class TablePlan:
    """The changes that a sync makes to a table's entry in the catalog, before it changes the entry's partitions.

    `table` is the entry as it will be afterwards. `changes` says in words what changes; empty if nothing does.
    """

    #: The table as it is afterwards.
    table: CatalogTable
    is_new: bool = False
    #: What changes, in words; empty if nothing does.
    changes: tuple[str, ...] = ()
    has_new_columns: bool = False


@dataclass(frozen=True)
class PartitionPlan:
    """The changes that a sync makes to the partitions of a table's entry in the catalog. A plan without changes counts as false.

    `drop` has the values of each partition to drop, in the order of the partition keys.
    """

    add: tuple[CatalogPartition, ...] = ()
    move: tuple[CatalogPartition, ...] = ()
    drop: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.move or self.drop)


def plan_table(wanted: CatalogTable, found: CatalogTable | None) -> TablePlan:
    """Return the changes that turn the entry in the catalog into the wanted one.

    Comments and properties that only the entry in the catalog has stay.

    Args:
        wanted: the entry as a first sync would create it.
        found: the entry in the catalog; None: there is none.

    Raises:
        CatalogConflict: the catalog has another table under this name, or a column's type cannot be changed.
    """
    if found is None:
        return TablePlan(wanted, is_new=True)
    _check_owner(wanted, found)
    columns = _plan_columns(wanted, found)
    changes = _describe_columns(columns, found.columns)
    properties = {**found.properties, **wanted.properties}
    if CREATE_VERSION in found.properties:
        properties[CREATE_VERSION] = found.properties[CREATE_VERSION]  # the version that created the entry
    serde_properties = {**found.serde_properties, **wanted.serde_properties}
    has_new_columns = bool(changes)
    if properties != dict(found.properties):
        changes.append("table properties")
    if serde_properties != dict(found.serde_properties) or wanted.input_format != found.input_format:
        changes.append("serde properties")
    table = replace(
        found,
        columns=columns,
        properties=properties,
        serde_properties=serde_properties,
        input_format=wanted.input_format,
        output_format=wanted.output_format,
        serde=wanted.serde,
    )
    return TablePlan(table, changes=tuple(changes), has_new_columns=has_new_columns)


def plan_partitions(settings: SyncSettings, changes: PartitionChanges, found: Sequence[CatalogPartition]) -> PartitionPlan:
    """Return which partitions to add to the catalog, to move to another location, and to drop.

    Args:
        changes: the partitions that were written and dropped since the last sync.
        found: the partitions in the catalog: all of them, or at least those that `changes` names.

    Raises:
        OptionError: a partition path does not fit the extractor.
    """
    locations = {partition.values: partition.location for partition in found}
    add = []
    move = []
    wanted = set()
    for path in changes.written:
        partition = settings.partition_of(path)
        wanted.add(partition.values)
        location = locations.get(partition.values)
        if location is None:
            add.append(partition)
        elif not is_same_location(location, partition.location):
            move.append(partition)
    if changes.is_full:
        drop = [values for values in locations if values not in wanted]
    else:
        dropped = dict.fromkeys(settings.partition_of(path).values for path in changes.dropped)
        drop = [values for values in dropped if values in locations and values not in wanted]
    return PartitionPlan(tuple(add), tuple(move), tuple(drop))


def read_sync_point(table: CatalogTable | None) -> SyncPoint:
    """Return the sync point of the last sync, from the properties of the entry; an empty one if `table` is None."""
    if table is None:
        return SyncPoint()
    return SyncPoint(table.properties.get(LAST_COMMIT) or "", table.properties.get(LAST_COMPLETION) or "")


def with_sync_point(table: CatalogTable, point: SyncPoint, path: str) -> CatalogTable:
    """Return a copy of the entry with the sync point and the table's path in its properties, as Hudi stores them.

    If the sync point is empty, the entry is returned unchanged.
    """
    if not point.commit:
        return table
    properties = {**table.properties, LAST_COMMIT: point.commit, LAST_COMPLETION: point.completion}
    return replace(table, properties=properties, serde_properties={**table.serde_properties, "path": path})


def _check_owner(wanted: CatalogTable, found: CatalogTable) -> None:
    """Raise CatalogConflict if a sync must not change the entry in the catalog.

    This is so if the entry has another location or other partition keys than the table, is not that of a Hudi table, or would
    become a snapshot view although it is the read-optimized one.
    """
    instead = f"drop it there, or choose another name by {HIVE_SYNC_TABLE.key}"
    if not is_same_location(found.location, wanted.location):
        raise CatalogConflict(f"table {found.name!r} of the catalog is at {found.location}, not at {wanted.location}: {instead}")
    if "hoodie" not in found.input_format.lower() and found.properties.get(PROVIDER, "").lower() != "hudi":
        raise CatalogConflict(
            f"table {found.name!r} of the catalog is no Hudi table (its input format is {found.input_format}): {instead}"
        )
    before = [key.name.lower() for key in found.partition_keys]
    after = [key.name.lower() for key in wanted.partition_keys]
    if before != after:
        raise CatalogConflict(f"table {found.name!r} of the catalog is partitioned by {before}, not by {after}: {instead}")
    was_optimized = found.serde_properties.get(READ_OPTIMIZED) == "true"
    if was_optimized and wanted.serde_properties.get(READ_OPTIMIZED) == "false":
        raise CatalogConflict(
            f"table {found.name!r} of the catalog is the read-optimized view, and would become the snapshot view: drop it there, "
            f"or set {META_SYNC_SNAPSHOT_NAME.key}=false to keep it"
        )


def _plan_columns(wanted: CatalogTable, found: CatalogTable) -> tuple[CatalogColumn, ...]:
    """Return the columns of `wanted`, without partition keys. A column without a comment keeps its comment in the catalog.

    Raises:
        CatalogConflict: the type of a column or partition key cannot be changed.
    """
    known = {column.name.lower(): column for column in (*found.columns, *found.partition_keys)}
    columns = []
    for column in (*wanted.columns, *wanted.partition_keys):
        before = known.get(column.name.lower())
        if before is not None and not can_change(before.type, column.type):
            raise CatalogConflict(
                f"column {column.name!r} of table {found.name!r} is {before.type} in the catalog and {column.type} in the table; "
                "a catalog changes int to bigint, float to double and fields of a struct only: drop the table in the catalog, "
                "then sync again"
            )
        columns.append(replace(column, comment=column.comment or (before.comment if before else "")))
    return tuple(columns[: len(wanted.columns)])


def _describe_columns(columns: Sequence[CatalogColumn], found: Sequence[CatalogColumn]) -> list[str]:
    """Return one text per difference between the columns in the catalog and the new ones, such as "column fare added".

    Args:
        columns: the new columns.
        found: the columns in the catalog.
    """
    before = {column.name.lower(): column for column in found}
    changes = []
    for column in columns:
        old = before.pop(column.name.lower(), None)
        if old is None:
            changes.append(f"column {column.name} added")
        elif not is_same_type(old.type, column.type):
            changes.append(f"column {column.name} is {column.type}")
        elif (old.comment or "") != column.comment:
            changes.append(f"comment of column {column.name}")
    changes += [f"column {name} dropped" for name in before]
    return changes
