"""Stages 1 and 2: rows fit the table's schema, or the schema evolves; every row has a record key and a partition path.

Spark expressions only, nothing is evaluated here.
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
from pyspark.sql.types import DataType, StructType

from penstock import options as o
from penstock.columns import conform
from penstock.columns import quoted as quoted
from penstock.errors import SchemaError
from penstock.filegroup.meta_columns import RESERVED_NAMES
from penstock.keys import KeyColumns, key_generator
from penstock.keys.names import partition_columns
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
from penstock.spread.driver import fits_on_driver
from penstock.write.rows.crossing import KEY, PATH, CrossingColumns
from penstock.write.rows.input_files import InputFiles, input_files
from penstock.write.settings import WriteSettings

#: How names of columns begin that are made on the way, and that no column of a table has.
_TAKEN_PREFIXES = ("_penstock", "__penstock")


@dataclass(frozen=True)
class Prepared:
    """Rows ready to cross to the workers, and what they will be there."""

    make_rows: Callable[[], DataFrame]
    layout: CrossingColumns
    #: The table's schema after this write, without meta columns, as JSON; and as its data files hold it.
    avro: str
    stored: pa.Schema
    keys: KeyColumns
    #: What `rows` are, where workers can read that themselves; nobody has to make them then.
    files: InputFiles | None = None

    @cached_property
    def rows(self) -> DataFrame:
        """The rows, as Spark has them."""
        return self.make_rows()

    def changed(self, rows: DataFrame) -> Prepared:
        """The same with other rows."""
        return replace(self, make_rows=lambda: rows, files=None)


def prepare(incoming: DataFrame, settings: WriteSettings, table_schema: str | None) -> Prepared:
    """Fit the rows to the table and give them keys."""
    check_names(incoming.columns)
    incoming = _without_meta(incoming)
    struct = incoming.schema
    if settings.operation is Operation.DELETE_PARTITION and table_schema is not None:
        return _prepare_partitions(incoming, settings, json.loads(table_schema))
    check_columns(struct)
    columns = key_generator(settings.keys).columns(struct)
    if settings.operation is Operation.DELETE and table_schema is not None:
        return _prepare_keys(incoming, columns, settings, json.loads(table_schema))
    avro = writer_schema(struct, settings, table_schema)
    kept = stored_schema(avro, settings)
    stored = with_storage_types(avro_to_arrow(kept))
    layout = _layout(columns, stored, settings)
    crossing = {*stored.names, layout.key, layout.path}
    target = StructType.fromJson(avro_to_spark(avro))

    def rows() -> DataFrame:
        selected = [_fitted(struct, f.name, f.dataType).alias(f.name) for f in target if f.name in crossing]
        return incoming.select(*selected, *_made_columns(columns, layout))

    as_they_are = all(f.name in struct.names and struct[f.name].dataType == f.dataType for f in target if f.name in crossing)
    files = _files(incoming, layout, settings) if as_they_are else None
    return Prepared(rows, layout, avro_text(kept), stored, columns, files)


def _prepare_keys(incoming: DataFrame, columns: KeyColumns, settings: WriteSettings, table_schema: Mapping[str, Any]) -> Prepared:
    """For a delete: only what locates a row crosses, and the table keeps its schema."""
    stored = with_storage_types(avro_to_arrow(table_schema))
    layout = _layout(columns, pa.schema([pa.field(columns.plain_record_key or KEY, pa.string())]), settings)

    def rows() -> DataFrame:
        plain = [F.col(quoted(c)) for c in dict.fromkeys((layout.key, layout.path)) if c not in (None, KEY, PATH)]
        return incoming.select(*plain, *_made_columns(columns, layout))

    return Prepared(rows, layout, avro_text(table_schema), stored, columns, _files(incoming, layout, settings))


def _prepare_partitions(incoming: DataFrame, settings: WriteSettings, table_schema: Mapping[str, Any]) -> Prepared:
    """For a delete of partitions: the rows are partition paths, if no option names these; the table keeps its schema."""
    keys = key_generator(replace(settings.keys, record_key_fields=()))
    named = bool(settings.options[o.PARTITIONS_TO_DELETE])
    columns = keys.columns(StructType.fromJson(avro_to_spark(table_schema)) if named else incoming.schema)

    def rows() -> DataFrame:
        return incoming.select(columns.partition_path.alias(PATH)).distinct()

    stored = with_storage_types(avro_to_arrow(table_schema))
    return Prepared(rows, _layout(columns, stored, settings), avro_text(table_schema), stored, columns)


def _files(incoming: DataFrame, layout: CrossingColumns, settings: WriteSettings) -> InputFiles | None:
    """The files that workers can read themselves: all that crosses is in them, in the types it crosses in."""
    if layout.key == KEY or layout.path == PATH or not settings.options[o.DIRECT_INPUT]:
        return None
    plain = [pa.field(c, pa.string()) for c in (layout.key, layout.path) if c and c not in layout.schema.names]
    files = input_files(incoming, pa.schema([*layout.schema, *plain]))
    if files is None:
        return None
    return replace(files, here=fits_on_driver(settings.options, rows=files.rows, size_bytes=files.size_bytes))


def _made_columns(columns: KeyColumns, layout: CrossingColumns) -> list[Column]:
    """Record key and partition path where no column of the rows is one as it stands."""
    made = []
    if layout.key == KEY and columns.record_key is not None:
        made.append(columns.record_key.alias(KEY))
    if layout.path == PATH:
        made.append(columns.partition_path.alias(PATH))
    return made


def _without_meta(incoming: DataFrame) -> DataFrame:
    meta = [c for c in incoming.columns if c in META_COLUMNS]
    return incoming.drop(*meta) if meta else incoming


def check_names(names: Iterable[str]) -> None:
    """Refuse columns that would be taken for others, of which rows have some on their way; Spark does not mind the case."""
    for name in names:
        lower = name.lower()
        is_meta = lower in META_COLUMNS and name not in META_COLUMNS
        if is_meta or lower in RESERVED_NAMES or lower.startswith(_TAKEN_PREFIXES):
            raise SchemaError(f"column {name!r} has a name that Hudi or Penstock uses for a column of its own; rename it")


def check_columns(struct: StructType) -> None:
    """Refuse a column that is there twice; Spark allows it, a file does not."""
    counts = Counter(name.lower() for name in struct.names)
    twice = sorted({name for name in struct.names if counts[name.lower()] > 1})
    if twice:
        raise SchemaError(f"column {twice[0]!r} is in the rows more than once ({', '.join(twice)}); rename or drop one")
    deleted = next((f for f in struct if f.name == "_hoodie_is_deleted"), None)
    if deleted is not None and deleted.dataType.typeName() != "boolean":
        raise SchemaError(
            f"_hoodie_is_deleted has to be BOOLEAN type, but it is {deleted.dataType.simpleString()}; cast it to boolean"
        )


def writer_schema(struct: StructType, settings: WriteSettings, table_schema: str | None) -> Mapping[str, Any]:
    """The table's schema after this write, partition columns included."""
    incoming = spark_to_avro(struct.jsonValue(), settings.table_name)
    options = settings.options
    evolved = evolve(
        json.loads(table_schema) if table_schema else None,
        incoming,
        set_null_for_missing=options[o.SET_NULL_FOR_MISSING_COLUMNS],
        allow_drop=options[o.ALLOW_COLUMN_DROP],
        reconcile=options[o.RECONCILE_SCHEMA],
        validate=options[o.AVRO_SCHEMA_VALIDATE],
    )
    keeps_operation = options[o.ALLOW_OPERATION_FIELD] or (table_schema is not None and has_operation_column(table_schema))
    return with_operation_column(evolved) if keeps_operation else evolved


def stored_schema(avro: Mapping[str, Any], settings: WriteSettings) -> Mapping[str, Any]:
    """The schema of the data files: without partition columns where the table drops them."""
    if not settings.options[o.DROP_PARTITION_COLUMNS]:
        return avro
    dropped = partition_columns(settings.keys.partition_path_fields)
    return {**avro, "fields": [f for f in avro["fields"] if f["name"] not in dropped]}


def _layout(columns: KeyColumns, crossing: pa.Schema, settings: WriteSettings) -> CrossingColumns:
    return CrossingColumns(
        schema=crossing,
        key=columns.plain_record_key or (KEY if columns.record_key is not None else None),
        path=(columns.plain_partition_path or PATH) if settings.keys.partition_path_fields else None,
        key_is_plain=columns.plain_record_key is not None,
        path_is_plain=columns.plain_partition_path is not None,
    )


def _fitted(struct: StructType, name: str, kind: DataType) -> Column:
    """A column of the incoming rows in the type it is stored in, or nulls if the rows do not have it."""
    if name not in struct.names:
        return F.lit(None).cast(kind)
    return conform(F.col(quoted(name)), struct[name].dataType, kind, name)
