"""The port to catalogs: the protocol that every client implements, and the values that its methods take and return.

The Hudi table is the folder with `.hoodie`. A `CatalogTable` is its entry in the catalog, which queries use by name. One Hudi
table may have several entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class CatalogColumn:
    """A column or partition key of a `CatalogTable`. `type` is a Hive type such as `array<bigint>`."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True)
class Buckets:
    """The buckets of a `CatalogTable`, as Hive's clause `CLUSTERED BY … INTO … BUCKETS` describes them."""

    columns: tuple[str, ...]
    count: int
    #: Columns by which the rows of a bucket are sorted, each with whether the order is ascending.
    sorted_by: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class CatalogTable:
    """The entry of a table in a catalog: its name, location, columns, formats and properties."""

    name: str
    location: str
    columns: tuple[CatalogColumn, ...]
    partition_keys: tuple[CatalogColumn, ...] = ()
    input_format: str = ""
    output_format: str = ""
    serde: str = ""
    serde_properties: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    buckets: Buckets | None = None

    @property
    def is_external(self) -> bool:
        """Whether files stay when the table or one of its partitions is dropped. The catalog deletes those of a managed table."""
        return self.properties.get("EXTERNAL", "").upper() == "TRUE"


@dataclass(frozen=True)
class CatalogPartition:
    """A partition in a catalog: one value per partition key, and the location of the folder with its files."""

    values: tuple[str, ...]
    location: str


class CatalogClient(Protocol):
    """A connection to a catalog.

    `tests/contract/test_catalogs.py` checks the contract of all clients. To create a database, table or partition that exists
    changes nothing and raises nothing, because two writers may sync at the same time. To drop a partition that does not exist
    raises nothing. The case of names of databases, tables and columns does not matter. Methods raise `CatalogError`.
    """

    def has_database(self, name: str) -> bool:
        """Whether the database exists."""

    def create_database(self, name: str) -> None:
        """Create a database. Does nothing if it exists."""

    def get_table(self, database: str, name: str) -> CatalogTable | None:
        """Return the entry of a table; None if the database has no table of this name."""

    def create_table(self, database: str, table: CatalogTable) -> None:
        """Create a table. Does nothing if it exists."""

    def alter_table(self, database: str, table: CatalogTable, *, cascade: bool = False) -> None:
        """Replace columns, formats, serde properties and table properties of a table's entry by those of `table`.

        What a `CatalogTable` has no field for, such as the owner, stays in the entry.

        Args:
            cascade: whether the columns changed. Then the partitions get the new columns too, if the catalog stores columns with
                partitions.
        """

    def list_partitions(
        self, database: str, table: CatalogTable, values: Sequence[tuple[str, ...]] | None = None
    ) -> list[CatalogPartition]:
        """Return the partitions of a table.

        Args:
            values: return only partitions with these values, one tuple per partition in the order of the partition keys; None:
                all.
        """

    def add_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions, with columns, formats and serde of the table. Partitions that exist are not changed."""

    def move_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Change the location of partitions that exist. No file is moved."""

    def drop_partitions(self, database: str, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        """Drop partitions from the catalog. No file is deleted.

        Args:
            values: the values of each partition, in the order of the partition keys.
        """

    def close(self) -> None:
        """End the connection."""
