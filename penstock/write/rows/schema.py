"""Stages 1 and 2 of a write: fits the rows to the table's schema, evolves the schema, and adds record keys and partition paths.

`prepare_rows` builds Spark expressions only. The rows are evaluated once: when they are staged (stage 4, `staging.py`), or when a
bulk_insert writes them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from penstock import options as o
from penstock.columns import conform, quoted
from penstock.errors import SchemaError
from penstock.filegroup.fill_meta_columns import RESERVED_NAMES
from penstock.keys import KeyColumns, make_key_generator
from penstock.keys.partition_fields import partition_columns
from penstock.merge.kernels.gather import find_top_column
from penstock.options.operation import Operation
from penstock.schema import (
    META_COLUMNS,
    avro_text,
    avro_to_arrow,
    avro_to_spark,
    evolve,
    has_operation_column,
    spark_to_avro,
    with_operation_column,
    with_storage_types,
)
from penstock.workers.driver_limit import fits_on_driver
from penstock.write.rows.crossing_columns import KEY, PATH, CrossingColumns
from penstock.write.rows.input_files import InputFiles, find_input_files
from penstock.write.settings import WriteSettings

#: Prefixes of the columns that Penstock adds to incoming rows while it writes them. No column of a table may begin with one.
_TAKEN_PREFIXES = ("_penstock", "__penstock")


@dataclass(frozen=True)
class PreparedRows:
    """The incoming rows, ready to be sent to the workers, and the table's schema after the write. Nothing is evaluated yet."""

    #: Builds `rows`. Building a Spark plan takes time, so it is not called if workers read `files`.
    make_rows: Callable[[], DataFrame]
    #: The columns that are sent from the JVM to Python workers, and which of them are the record key and partition path.
    crossing: CrossingColumns
    #: The table's schema after this write, without meta columns, as Avro JSON.
    avro_schema: str
    #: The same schema with the types that data files store.
    stored_schema: pa.Schema
    keys: KeyColumns
    #: The Parquet files that `rows` reads, if the workers can read these files themselves.
    files: InputFiles | None = None

    @cached_property
    def rows(self) -> DataFrame:
        """The incoming rows as a DataFrame, built by `make_rows` at the first access."""
        return self.make_rows()

    def with_rows(self, rows: DataFrame) -> PreparedRows:
        """Return a copy with the DataFrame `rows` in place of its own, and with `files` set to None.

        The input files do not hold the new rows.
        """
        return replace(self, make_rows=lambda: rows, files=None)


def prepare_rows(incoming: DataFrame, settings: WriteSettings, table_schema: str | None) -> PreparedRows:
    """Fit the incoming rows to the table's schema and add record keys and partition paths. Builds Spark expressions only.

    Of a delete only record keys and partition paths remain; of a delete_partition only the distinct partition paths.

    Args:
        table_schema: the table's Avro schema as JSON; None for a new table.

    Raises:
        SchemaError: a column cannot be stored, or the schema of the rows is not compatible with the table's schema.
    """
    check_column_names(incoming.columns)
    incoming = _without_meta_columns(incoming)
    struct = incoming.schema
    if settings.operation is Operation.DELETE_PARTITION and table_schema is not None:
        return _prepare_partitions(incoming, settings, json.loads(table_schema))
    check_columns(struct)
    columns = make_key_generator(settings.keys).make_columns(struct)
    if settings.operation is Operation.DELETE and table_schema is not None:
        return _prepare_keys(incoming, columns, settings, json.loads(table_schema))
    evolved = evolve_schema(struct, settings, table_schema)
    kept = drop_partition_columns(evolved, settings)
    stored = with_storage_types(avro_to_arrow(kept))
    crossing = _crossing_columns(columns, stored, settings)
    crossing_names = {*stored.names, crossing.key, crossing.path}
    fields = [field for field in StructType.fromJson(avro_to_spark(evolved)) if field.name in crossing_names]

    def make_rows() -> DataFrame:
        """Return the incoming rows with the table's columns, record key and partition path, for the workers."""
        data = [_fit_column(struct, field.name, field.dataType).alias(field.name) for field in fields]
        return incoming.select(*data, *_computed_columns(columns, crossing))

    is_unchanged = all(field.name in struct.names and struct[field.name].dataType == field.dataType for field in fields)
    files = _files_of(incoming, crossing, settings) if is_unchanged else None
    return PreparedRows(make_rows, crossing, avro_text(kept), stored, columns, files)


def _prepare_keys(
    incoming: DataFrame, columns: KeyColumns, settings: WriteSettings, table_schema: Mapping[str, Any]
) -> PreparedRows:
    """Prepare the rows of a delete: only record keys and partition paths are sent to workers, and the table keeps its schema.

    With `penstock.deletes.follow.ordering` ordering values are sent too, if the rows have them.

    Args:
        columns: the expressions of record key and partition path.
        table_schema: the table's Avro schema.
    """
    stored = with_storage_types(avro_to_arrow(table_schema))
    key_field = pa.field(columns.plain_record_key or KEY, pa.string())
    compared = _compared_column(incoming, settings, table_schema)
    if compared is not None and compared.name == key_field.name:
        compared = None  # a delete and its stored row have the same key
    sent = pa.schema([key_field] if compared is None else [key_field, stored.field(compared.name)])
    crossing = _crossing_columns(columns, sent, settings)

    def make_rows() -> DataFrame:
        """Build the DataFrame with the record keys and partition paths of the rows to delete, and their ordering values."""
        left_out = (None, KEY, PATH, compared.name if compared else None)
        plain = [name for name in dict.fromkeys((crossing.key, crossing.path)) if name not in left_out]
        selected = [F.col(quoted(name)) for name in plain]
        if compared is not None:
            selected.append(_fit_column(incoming.schema, compared.name, compared.dataType).alias(compared.name))
        return incoming.select(*selected, *_computed_columns(columns, crossing))

    is_unchanged = compared is None or incoming.schema[compared.name].dataType == compared.dataType
    files = _files_of(incoming, crossing, settings) if is_unchanged else None
    return PreparedRows(make_rows, crossing, avro_text(table_schema), stored, columns, files)


def _compared_column(incoming: DataFrame, settings: WriteSettings, table_schema: Mapping[str, Any]) -> StructField | None:
    """Return the column, in the table's type, whose value decides whether a delete is newer than the stored row.

    None if deletes are not compared (`penstock.deletes.follow.ordering`), or the rows of the delete do not have the column.
    """
    ordering = settings.ordering_field
    if ordering is None or not settings.options[o.ORDERED_DELETES]:
        return None
    fields = StructType.fromJson(avro_to_spark(table_schema))
    name = find_top_column(ordering, fields.names)
    return fields[name] if name in fields.names and name in incoming.columns else None


def _prepare_partitions(incoming: DataFrame, settings: WriteSettings, table_schema: Mapping[str, Any]) -> PreparedRows:
    """Prepare a delete_partition: the prepared rows are the distinct partition paths of the incoming rows.

    If `hoodie.datasource.write.partitions.to.delete` is set, that option names the partitions. Then the incoming rows are not
    read and need not have the partition columns. The table keeps its schema.

    Args:
        table_schema: the table's Avro schema.
    """
    generator = make_key_generator(replace(settings.keys, record_key_fields=()))
    are_named = bool(settings.options[o.PARTITIONS_TO_DELETE])
    columns = generator.make_columns(StructType.fromJson(avro_to_spark(table_schema)) if are_named else incoming.schema)

    def make_rows() -> DataFrame:
        """Build the DataFrame with the distinct partition paths of the incoming rows."""
        return incoming.select(columns.partition_path.alias(PATH)).distinct()

    stored = with_storage_types(avro_to_arrow(table_schema))
    return PreparedRows(make_rows, _crossing_columns(columns, stored, settings), avro_text(table_schema), stored, columns)


def _files_of(incoming: DataFrame, crossing: CrossingColumns, settings: WriteSettings) -> InputFiles | None:
    """Return the Parquet files of the incoming rows if workers can read the files themselves; otherwise None.

    They can if `penstock.direct.input` is true, record key and partition path are plain columns of the rows, and
    `find_input_files` finds that Arrow reads the same values as Spark.
    """
    is_computed = crossing.key == KEY or crossing.path == PATH
    if is_computed or not settings.options[o.DIRECT_INPUT]:
        return None
    plain = [name for name in (crossing.key, crossing.path) if name and name not in crossing.schema.names]
    files = find_input_files(incoming, pa.schema([*crossing.schema, *(pa.field(name, pa.string()) for name in plain)]))
    if files is None:
        return None
    return replace(files, on_driver=fits_on_driver(settings.options, rows=files.rows, size_bytes=files.size_bytes))


def _computed_columns(columns: KeyColumns, crossing: CrossingColumns) -> list[Column]:
    """Return the Spark expressions of the columns `KEY` and `PATH`: the computed record key and partition path.

    A record key or partition path that is a plain column of the rows is left out, because the worker reads it from that column.
    """
    computed = []
    if crossing.key == KEY and columns.record_key is not None:
        computed.append(columns.record_key.alias(KEY))
    if crossing.path == PATH:
        computed.append(columns.partition_path.alias(PATH))
    return computed


def _without_meta_columns(incoming: DataFrame) -> DataFrame:
    """Return the incoming rows without Hudi's meta columns. Rows that were read from a Hudi table have these columns."""
    meta = [name for name in incoming.columns if name in META_COLUMNS]
    return incoming.drop(*meta) if meta else incoming


def check_column_names(names: Iterable[str]) -> None:
    """Raise SchemaError if a column has a name that Hudi or Penstock uses for its own columns, ignoring case.

    Meta columns in Hudi's spelling are allowed, because a write drops them.
    """
    for name in names:
        lower = name.lower()
        is_meta = lower in META_COLUMNS and name not in META_COLUMNS
        if is_meta or lower in RESERVED_NAMES or lower.startswith(_TAKEN_PREFIXES):
            raise SchemaError(f"column {name!r} has a name that Hudi or Penstock uses for a column of its own; rename it")


def check_columns(struct: StructType) -> None:
    """Raise SchemaError if there is no column, two have equal names (ignoring case), or `_hoodie_is_deleted` is not boolean."""
    if not struct.names:
        raise SchemaError("the rows have no columns; select the columns that the table needs")
    counts = Counter(name.lower() for name in struct.names)
    repeated = sorted({name for name in struct.names if counts[name.lower()] > 1})
    if repeated:
        raise SchemaError(f"column {repeated[0]!r} is in the rows more than once ({', '.join(repeated)}); rename or drop one")
    for field in struct:
        if field.name == "_hoodie_is_deleted" and field.dataType.typeName() != "boolean":
            raise SchemaError(
                f"_hoodie_is_deleted has to be BOOLEAN type, but it is {field.dataType.simpleString()}; cast it to boolean"
            )


def evolve_schema(struct: StructType, settings: WriteSettings, table_schema: str | None) -> Mapping[str, Any]:
    """Return the table's Avro schema after this write: the table's schema, evolved by the columns of the incoming rows.

    It includes partition columns, even if data files do not store them. The operation column `_hoodie_operation` is added if
    the table has it or `hoodie.allow.operation.metadata.field` is true.

    Args:
        struct: the Spark schema of the incoming rows.
        table_schema: the table's Avro schema as JSON; None for a new table.

    Raises:
        SchemaError: the incoming schema is not compatible with the table's schema.
    """
    incoming = spark_to_avro(struct.jsonValue(), settings.table_name)
    options = settings.options
    evolved = evolve(
        json.loads(table_schema) if table_schema else None,
        incoming,
        set_null_for_missing=options[o.SET_NULL_FOR_MISSING_COLUMNS],
        allow_drop=options[o.ALLOW_COLUMN_DROP],
        reconcile=options[o.RECONCILE_SCHEMA],
        validate=options[o.AVRO_SCHEMA_VALIDATE],
        schema_on_read=options[o.SCHEMA_ON_READ],
        ordering=settings.ordering_field,
    )
    keeps_operation = options[o.ALLOW_OPERATION_FIELD] or (table_schema is not None and has_operation_column(table_schema))
    return with_operation_column(evolved) if keeps_operation else evolved


def drop_partition_columns(avro_schema: Mapping[str, Any], settings: WriteSettings) -> Mapping[str, Any]:
    """Return the Avro schema of a table's data files, made from `avro_schema`, the schema of the table.

    It lacks the partition columns if `hoodie.datasource.write.drop.partition.columns` is true; otherwise it is `avro_schema`.
    """
    if not settings.options[o.DROP_PARTITION_COLUMNS]:
        return avro_schema
    dropped = partition_columns(settings.keys.partition_path_fields)
    return {**avro_schema, "fields": [field for field in avro_schema["fields"] if field["name"] not in dropped]}


def _crossing_columns(columns: KeyColumns, data: pa.Schema, settings: WriteSettings) -> CrossingColumns:
    """Return which columns Spark sends to Python workers, and which of them hold the record key and the partition path.

    A record key or partition path that is a plain string column of the rows is read from that column. Otherwise it is computed,
    and sent as the extra column `KEY` or `PATH`.

    Args:
        columns: the expressions of record key and partition path.
        data: the data columns with the types that files store.
    """
    key = columns.plain_record_key
    if key is None and columns.record_key is not None:
        key = KEY
    path = None
    if settings.keys.partition_path_fields:
        path = columns.plain_partition_path or PATH
    return CrossingColumns(
        schema=data,
        key=key,
        path=path,
        key_is_plain=columns.plain_record_key is not None,
        path_is_plain=columns.plain_partition_path is not None,
    )


def _fit_column(struct: StructType, name: str, kind: DataType) -> Column:
    """Return the Spark expression for a column of the table: the rows' column cast to the table's type; null if they lack it.

    Args:
        struct: the Spark schema of the incoming rows.
        kind: the table's type of the column.
    """
    if name not in struct.names:
        return F.lit(None).cast(kind)
    return conform(F.col(quoted(name)), struct[name].dataType, kind, name)
