"""The client of mode `hms`: tables and partitions through the Thrift interface of a Hive metastore."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Final, TypeVar

from penstock.errors import CatalogError, PenstockError
from penstock.hive_metastore import Metastore, describe_thrift_error, metastore_types
from penstock.sync.catalog import Buckets, CatalogColumn, CatalogPartition, CatalogTable
from penstock.sync.extractors import DEFAULT_PARTITION

F = TypeVar("F", bound=Callable[..., Any])

_ALL: Final = -1
#: The description of a database that a sync creates.
DATABASE_DESCRIPTION: Final = "automatically created by hoodie"
#: Characters that Hive escapes in the names of partitions.
_ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^" + "".join(map(chr, range(1, 32))))


def _explain(function: F) -> F:
    """Decorate a method of the client, so that errors of Thrift and of the connection become CatalogErrors."""

    @wraps(function)
    def explained(self: MetastoreClient, *arguments: Any, **named: Any) -> Any:
        try:
            return function(self, *arguments, **named)
        except PenstockError:
            raise
        except Exception as e:  # thriftpy2 raises the exceptions of the interface, its own, and those of sockets
            reason = f"{type(e).__name__}: {describe_thrift_error(e)}"
            raise CatalogError(f"the Hive metastore {self.metastore.address} failed in {function.__name__}: {reason}") from e

    return explained  # type: ignore[return-value]


class MetastoreClient:
    """A `CatalogClient` of a Hive metastore."""

    def __init__(self, metastore: Metastore) -> None:
        self.metastore = metastore
        self._types = metastore_types()
        #: Tables as the metastore returned them, by database and name: what `CatalogTable` lacks has to stay on a change.
        self._tables: dict[tuple[str, str], Any] = {}

    @_explain
    def has_database(self, name: str) -> bool:
        """Whether the database exists."""
        try:
            self.metastore.call("get_database", name)
        except self._types.NoSuchObjectException:
            return False
        return True

    @_explain
    def create_database(self, name: str) -> None:
        """Create a database. Does nothing if it exists."""
        with suppress(self._types.AlreadyExistsException):
            self.metastore.call("create_database", self._types.Database(name=name, description=DATABASE_DESCRIPTION))

    @_explain
    def get_table(self, database: str, name: str) -> CatalogTable | None:
        """Return the entry of a table; None if the metastore has no table of this name."""
        try:
            found = self.metastore.call("get_table", database, name)
        except self._types.NoSuchObjectException:
            return None
        self._tables[database, name] = found
        return read_table(found)

    @_explain
    def create_table(self, database: str, table: CatalogTable) -> None:
        """Create a table. Does nothing if it exists."""
        new = self._types.Table(
            tableName=table.name,
            dbName=database,
            owner=getpass.getuser(),
            createTime=0,
            lastAccessTime=0,
            retention=0,
            sd=self._describe(table, table.location),
            partitionKeys=self._write_columns(table.partition_keys),
            parameters=dict(table.properties),
            tableType="EXTERNAL_TABLE" if table.is_external else "MANAGED_TABLE",
        )
        with suppress(self._types.AlreadyExistsException):
            self.metastore.call("create_table", new)

    @_explain
    def alter_table(self, database: str, table: CatalogTable, *, cascade: bool = False) -> None:
        """Replace columns, formats and properties of a table's entry by those of `table`.

        What a `CatalogTable` has no field for, such as the owner, stays in the entry.

        Args:
            cascade: whether the columns changed. Then the partitions get the new columns too.
        """
        found = self._tables.get((database, table.name))
        if found is None:
            found = self.metastore.call("get_table", database, table.name)
        found.parameters = dict(table.properties)
        found.sd.cols = self._write_columns(table.columns)
        found.sd.inputFormat = table.input_format
        found.sd.outputFormat = table.output_format
        found.sd.serdeInfo.serializationLib = table.serde
        found.sd.serdeInfo.parameters = dict(table.serde_properties)
        context = self._types.EnvironmentContext(properties={"CASCADE": "true"} if cascade else {})
        self.metastore.call("alter_table_with_environment_context", database, table.name, found, context)
        self._tables[database, table.name] = found

    @_explain
    def list_partitions(
        self, database: str, table: CatalogTable, values: Sequence[tuple[str, ...]] | None = None
    ) -> list[CatalogPartition]:
        """Return all partitions of a table; only those with the given values if `values` is not None."""
        if values is None:
            found = self.metastore.call("get_partitions", database, table.name, _ALL)
        elif values:
            names = [self.partition_name(table, each) for each in values]
            found = self.metastore.call("get_partitions_by_names", database, table.name, names)
        else:
            found = []
        return [CatalogPartition(tuple(partition.values), partition.sd.location or "") for partition in found]

    @_explain
    def add_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions. Partitions that exist are not changed."""
        new = [self._write_partition(database, table, partition) for partition in partitions]
        request = self._types.AddPartitionsRequest(
            dbName=database, tblName=table.name, parts=new, ifNotExists=True, needResult=False
        )
        self.metastore.call("add_partitions_req", request)

    @_explain
    def move_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Change the location of partitions that exist."""
        moved = [self._write_partition(database, table, partition) for partition in partitions]
        self.metastore.call("alter_partitions", database, table.name, moved)

    @_explain
    def drop_partitions(self, database: str, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        """Drop partitions from the metastore, given by their values in the order of the partition keys. No file is deleted."""
        names = [self.partition_name(table, each) for each in values]
        request = self._types.DropPartitionsRequest(
            dbName=database,
            tblName=table.name,
            parts=self._types.RequestPartsSpec(names=names),
            deleteData=False,
            ifExists=True,
            needResult=False,
        )
        with suppress(self._types.NoSuchObjectException):  # another process has dropped one of them
            self.metastore.call("drop_partitions_req", request)

    def close(self) -> None:
        """End the connection."""
        self.metastore.close()

    def partition_name(self, table: CatalogTable, values: Sequence[str]) -> str:
        """Return the name that the metastore uses for a partition: `key=value/key=value`, escaped as Hive does."""
        keys = [key.name for key in table.partition_keys]
        return "/".join(f"{escape_name(key)}={escape_name(value)}" for key, value in zip(keys, values, strict=True))

    def _write_partition(self, database: str, table: CatalogTable, partition: CatalogPartition) -> Any:
        """Return the Thrift form of a partition, with columns, formats and serde of the table."""
        return self._types.Partition(
            values=list(partition.values),
            dbName=database,
            tableName=table.name,
            createTime=0,
            lastAccessTime=0,
            sd=self._describe(table, partition.location),
            parameters={},
        )

    def _describe(self, table: CatalogTable, location: str) -> Any:
        """Return columns, formats and serde of a table as the Thrift struct of a storage descriptor.

        Args:
            location: the location of the table or partition.
        """
        buckets = table.buckets or Buckets((), 0)
        order = [self._types.Order(col=name, order=1 if ascending else 0) for name, ascending in buckets.sorted_by]
        return self._types.StorageDescriptor(
            cols=self._write_columns(table.columns),
            location=location,
            inputFormat=table.input_format,
            outputFormat=table.output_format,
            compressed=False,
            numBuckets=buckets.count,
            serdeInfo=self._types.SerDeInfo(serializationLib=table.serde, parameters=dict(table.serde_properties)),
            bucketCols=list(buckets.columns),
            sortCols=order,
            parameters={},
        )

    def _write_columns(self, columns: Sequence[CatalogColumn]) -> list[Any]:
        """Return the Thrift form of columns."""
        return [self._types.FieldSchema(name=column.name, type=column.type, comment=column.comment) for column in columns]


def read_table(found: Any) -> CatalogTable:
    """Convert a table from its Thrift form to a `CatalogTable`."""
    description = found.sd
    serde = description.serdeInfo
    buckets = None
    if (description.numBuckets or 0) > 0:
        order = tuple((each.col, each.order == 1) for each in description.sortCols or ())
        buckets = Buckets(tuple(description.bucketCols or ()), description.numBuckets, order)
    return CatalogTable(
        name=found.tableName,
        location=description.location or "",
        columns=_read_columns(description.cols),
        partition_keys=_read_columns(found.partitionKeys),
        input_format=description.inputFormat or "",
        output_format=description.outputFormat or "",
        serde=(serde.serializationLib if serde else None) or "",
        serde_properties=dict((serde.parameters if serde else None) or {}),
        properties=dict(found.parameters or {}),
        buckets=buckets,
    )


def escape_name(text: str) -> str:
    """Return a partition key or value with special characters as `%XX`, as Hive writes it into names of partitions.

    An empty value becomes the name of Hive's default partition.
    """
    if not text:
        return DEFAULT_PARTITION
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _read_columns(found: Sequence[Any] | None) -> tuple[CatalogColumn, ...]:
    """Convert columns from their Thrift form; None becomes an empty tuple."""
    return tuple(CatalogColumn(column.name, column.type or "", column.comment or "") for column in found or ())
