"""A catalog in memory, with a count of its calls: the smallest `CatalogClient`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import CatalogError
from penstock.sync import CatalogPartition, CatalogTable

Name = tuple[str, str]


@dataclass
class MemoryCatalog:
    """Databases, tables and partitions in dictionaries."""

    databases: set[str] = field(default_factory=set)
    tables: dict[Name, CatalogTable] = field(default_factory=dict)
    partitions: dict[Name, dict[tuple[str, ...], str]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    #: Whether every call fails.
    is_broken: bool = False

    def _count(self, call: str) -> None:
        self.calls[call] += 1
        if self.is_broken:
            raise CatalogError("the catalog is broken")

    def has_database(self, name: str) -> bool:
        self._count("has_database")
        return name in self.databases

    def create_database(self, name: str) -> None:
        self._count("create_database")
        self.databases.add(name)

    def get_table(self, database: str, name: str) -> CatalogTable | None:
        self._count("get_table")
        return self.tables.get((database, name))

    def create_table(self, database: str, table: CatalogTable) -> None:
        self._count("create_table")
        self.tables.setdefault((database, table.name), table)
        self.partitions.setdefault((database, table.name), {})

    def alter_table(self, database: str, table: CatalogTable, *, cascade: bool = False) -> None:
        self._count("alter_table")
        self.tables[database, table.name] = replace(table)

    def list_partitions(
        self, database: str, table: CatalogTable, values: Sequence[tuple[str, ...]] | None = None
    ) -> list[CatalogPartition]:
        self._count("list_partitions")
        found = self.partitions[database, table.name]
        wanted = found if values is None else [each for each in values if each in found]
        return [CatalogPartition(each, found[each]) for each in wanted]

    def add_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        self._count("add_partitions")
        for partition in partitions:
            self.partitions[database, table.name].setdefault(partition.values, partition.location)

    def move_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        self._count("move_partitions")
        for partition in partitions:
            self.partitions[database, table.name][partition.values] = partition.location

    def drop_partitions(self, database: str, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        self._count("drop_partitions")
        for each in values:
            self.partitions[database, table.name].pop(each, None)

    def close(self) -> None:
        """Do nothing: there is no connection."""
