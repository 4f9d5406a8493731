"""The client of the AWS Glue Data Catalog. Needs boto3 (`penstock[glue]`).

boto3 takes region, credentials and endpoint from the environment of this process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from penstock.errors import CatalogError, OptionError
from penstock.sync.catalog import Buckets, CatalogColumn, CatalogPartition, CatalogTable

T = TypeVar("T")

#: The most partitions of one request, by kind of request. Glue sets these limits.
_MOST_CREATED: Final = 100
_MOST_UPDATED: Final = 100
_MOST_DELETED: Final = 25
_MOST_READ: Final = 1000
_S3_SCHEME: Final = re.compile(r"^s3[an]://", re.IGNORECASE)
#: The fields of a table that an update may send. `get_table` returns more.
_WRITABLE: Final = (
    "Name",
    "Description",
    "Owner",
    "LastAccessTime",
    "LastAnalyzedTime",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "ViewOriginalText",
    "ViewExpandedText",
    "TableType",
    "Parameters",
)


class GlueClient:
    """A `CatalogClient` of the AWS Glue Data Catalog."""

    def __init__(self, glue: Any, *, skip_archive: bool = True) -> None:
        self._glue = glue
        self._skip_archive = skip_archive
        #: Tables as Glue returned them, by database and name: what `CatalogTable` lacks has to stay on a change.
        self._tables: dict[tuple[str, str], dict[str, Any]] = {}

    @classmethod
    def connect(cls, *, skip_archive: bool = True) -> GlueClient:
        """Return a client with region, credentials and endpoint of the environment.

        Args:
            skip_archive: whether Glue keeps no copy of a table's entry before a change.

        Raises:
            OptionError: boto3 is not installed.
            CatalogError: the environment names no region.
        """
        try:
            import boto3
        except ImportError:
            raise OptionError("the AWS Glue Data Catalog needs the package boto3: install penstock[glue]") from None
        with _explain("connect"):
            return cls(boto3.client("glue"), skip_archive=skip_archive)

    def has_database(self, name: str) -> bool:
        """Whether the database exists."""
        with _explain(f"read database {name}"):
            try:
                self._glue.get_database(Name=name)
            except self._glue.exceptions.EntityNotFoundException:
                return False
            return True

    def create_database(self, name: str) -> None:
        """Create a database. Does nothing if it exists."""
        description = "Automatically created by org.apache.hudi.aws.sync.AWSGlueCatalogSyncClient"
        with _explain(f"create database {name}"):
            try:
                self._glue.create_database(DatabaseInput={"Name": name, "Description": description})
            except self._glue.exceptions.AlreadyExistsException:
                return

    def get_table(self, database: str, name: str) -> CatalogTable | None:
        """Return the entry of a table; None if Glue has no table of this name."""
        with _explain(f"read table {database}.{name}"):
            try:
                found = self._glue.get_table(DatabaseName=database, Name=name)["Table"]
            except self._glue.exceptions.EntityNotFoundException:
                return None
        self._tables[database, name] = found
        return _read_table(found)

    def create_table(self, database: str, table: CatalogTable) -> None:
        """Create a table. Does nothing if it exists."""
        new = {
            "Name": table.name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": dict(table.properties),
            "PartitionKeys": _write_columns(table.partition_keys),
            "StorageDescriptor": _describe(table, table.location),
        }
        with _explain(f"create table {database}.{table.name}"):
            try:
                self._glue.create_table(DatabaseName=database, TableInput=new)
            except self._glue.exceptions.AlreadyExistsException:
                return

    def alter_table(self, database: str, table: CatalogTable, *, cascade: bool = False) -> None:
        """Replace columns, formats and properties of a table's entry by those of `table`. Partitions keep their columns.

        Athena reads all partitions with the columns of the table, so the columns of partitions need no change.

        Args:
            cascade: ignored, for this reason.
        """
        with _explain(f"change table {database}.{table.name}"):
            found = self._tables.get((database, table.name))
            if found is None:
                found = self._glue.get_table(DatabaseName=database, Name=table.name)["Table"]
            changed = {key: found[key] for key in _WRITABLE if key in found}
            changed["Parameters"] = dict(table.properties)
            changed["StorageDescriptor"] = {**found["StorageDescriptor"], **_describe(table, table.location)}
            self._glue.update_table(DatabaseName=database, TableInput=changed, SkipArchive=self._skip_archive)
            self._tables[database, table.name] = changed

    def list_partitions(
        self, database: str, table: CatalogTable, values: Sequence[tuple[str, ...]] | None = None
    ) -> list[CatalogPartition]:
        """Return all partitions of a table; only those with the given values if `values` is not None."""
        where = {"DatabaseName": database, "TableName": table.name}
        found: list[dict[str, Any]] = []
        with _explain(f"read partitions of {database}.{table.name}"):
            if values is None:
                pages = self._glue.get_paginator("get_partitions").paginate(**where, ExcludeColumnSchema=True)
                for page in pages:
                    found += page["Partitions"]
            for batch in _batches(values or (), _MOST_READ):
                found += self._get_partitions(where, [{"Values": list(each)} for each in batch])
        return [CatalogPartition(tuple(each["Values"]), each["StorageDescriptor"].get("Location") or "") for each in found]

    def _get_partitions(self, where: Mapping[str, str], wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the partitions with the given values, as dicts of Glue's interface.

        Glue may answer for some of the values only. The other values are then requested again.

        Args:
            where: the database and the table, as arguments of a request.
            wanted: the values of each partition, as arguments of a request.

        Raises:
            CatalogError: Glue answers for none of the values.
        """
        found: list[dict[str, Any]] = []
        while wanted:
            answer = self._glue.batch_get_partition(**where, PartitionsToGet=list(wanted))
            found += answer["Partitions"]
            left = answer.get("UnprocessedKeys") or ()
            if len(left) == len(wanted):
                raise CatalogError(
                    f"AWS Glue reads none of {len(left)} partitions of {'.'.join(where.values())}; sync again later"
                )
            wanted = left
        return found

    def add_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add partitions. Partitions that exist are not changed."""
        for batch in _batches(partitions, _MOST_CREATED):
            new = [_write_partition(table, partition) for partition in batch]
            with _explain(f"add partitions to {database}.{table.name}"):
                answer = self._glue.batch_create_partition(DatabaseName=database, TableName=table.name, PartitionInputList=new)
            _raise_errors(answer, "add partitions", "AlreadyExistsException")

    def move_partitions(self, database: str, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Change the location of partitions that exist."""
        for batch in _batches(partitions, _MOST_UPDATED):
            entries = [
                {"PartitionValueList": list(partition.values), "PartitionInput": _write_partition(table, partition)}
                for partition in batch
            ]
            with _explain(f"move partitions of {database}.{table.name}"):
                answer = self._glue.batch_update_partition(DatabaseName=database, TableName=table.name, Entries=entries)
            _raise_errors(answer, "move partitions", "")

    def drop_partitions(self, database: str, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        """Drop partitions from the catalog, given by their values in the order of the partition keys. No file is deleted."""
        for batch in _batches(values, _MOST_DELETED):
            wanted = [{"Values": list(each)} for each in batch]
            with _explain(f"drop partitions of {database}.{table.name}"):
                answer = self._glue.batch_delete_partition(DatabaseName=database, TableName=table.name, PartitionsToDelete=wanted)
            _raise_errors(answer, "drop partitions", "EntityNotFoundException")

    def close(self) -> None:
        """End the connection."""
        self._glue.close()


@contextmanager
def _explain(step: str) -> Iterator[None]:
    """Convert errors inside the `with` block to CatalogErrors.

    Args:
        step: what the block does, as the error says it: "AWS Glue failed to <step>".
    """
    try:
        yield
    except CatalogError:
        raise
    except Exception as e:  # boto3 raises errors of its own, of the service, and of the network
        raise CatalogError(f"AWS Glue failed to {step}: {type(e).__name__}: {str(e).partition(chr(10))[0]}") from e


def _raise_errors(answer: Mapping[str, Any], step: str, harmless: str) -> None:
    """Raise CatalogError if Glue's answer to a request for several partitions reports that it failed for some of them.

    Args:
        step: what the request does, as the error says it.
        harmless: the code of an error that is ignored, because another process has already made the same change.
    """
    for error in answer.get("Errors") or ():
        detail = error["ErrorDetail"]
        if detail["ErrorCode"] != harmless:
            values = error.get("PartitionValues") or error.get("PartitionValueList")
            raise CatalogError(f"AWS Glue failed to {step}: {values}: {detail['ErrorCode']}: {detail.get('ErrorMessage', '')}")


def _read_table(found: Mapping[str, Any]) -> CatalogTable:
    """Convert a table from the dict of Glue's interface to a `CatalogTable`."""
    description = found.get("StorageDescriptor") or {}
    serde = description.get("SerdeInfo") or {}
    return CatalogTable(
        name=found["Name"],
        location=description.get("Location") or "",
        columns=_read_columns(description.get("Columns")),
        partition_keys=_read_columns(found.get("PartitionKeys")),
        input_format=description.get("InputFormat") or "",
        output_format=description.get("OutputFormat") or "",
        serde=serde.get("SerializationLibrary") or "",
        serde_properties=dict(serde.get("Parameters") or {}),
        properties=dict(found.get("Parameters") or {}),
        buckets=_read_buckets(description),
    )


def _read_columns(found: Sequence[Mapping[str, str]] | None) -> tuple[CatalogColumn, ...]:
    """Convert columns from the dicts of Glue's interface; None becomes an empty tuple."""
    return tuple(CatalogColumn(column["Name"], column.get("Type") or "", column.get("Comment") or "") for column in found or ())


def _write_columns(columns: Sequence[CatalogColumn]) -> list[dict[str, str]]:
    """Convert columns to the dicts of Glue's interface."""
    return [{"Name": column.name, "Type": column.type, "Comment": column.comment} for column in columns]


def _write_partition(table: CatalogTable, partition: CatalogPartition) -> dict[str, Any]:
    """Convert a partition to the dict of Glue's interface, with columns, formats and serde of the table."""
    return {"Values": list(partition.values), "StorageDescriptor": _describe(table, partition.location)}


def _describe(table: CatalogTable, location: str) -> dict[str, Any]:
    """Return columns, formats and serde of a table as the dict that Glue calls storage descriptor.

    Args:
        location: the location of the table or partition. `s3a:` and `s3n:` are replaced by `s3:`, the scheme that Athena knows.
    """
    described: dict[str, Any] = {
        "Columns": _write_columns(table.columns),
        "Location": _S3_SCHEME.sub("s3://", location),
        "InputFormat": table.input_format,
        "OutputFormat": table.output_format,
        "SerdeInfo": {"SerializationLibrary": table.serde, "Parameters": dict(table.serde_properties)},
    }
    if table.buckets is not None:
        described["NumberOfBuckets"] = table.buckets.count
        described["BucketColumns"] = list(table.buckets.columns)
        described["SortColumns"] = [{"Column": name, "SortOrder": int(ascending)} for name, ascending in table.buckets.sorted_by]
    return described


def _read_buckets(description: Mapping[str, Any]) -> Buckets | None:
    """Return the buckets of the dict that Glue calls storage descriptor; None if it has none."""
    count = description.get("NumberOfBuckets") or 0
    if count <= 0:
        return None
    order = tuple((each["Column"], each["SortOrder"] == 1) for each in description.get("SortColumns") or ())
    return Buckets(tuple(description.get("BucketColumns") or ()), count, order)


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in lists of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
