"""Columns whose type was widened since a file was written.

The column types of a table only widen, and Spark's Parquet reader cannot widen every type (in PySpark 3.5, none). So a file that
holds a column in an older type is read in that type, and the column is cast. A file's types are those of the schema in the commit
that wrote it. If that commit is archived, the footer of one of its files is read instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from penstock.errors import CorruptFile, SchemaError
from penstock.filegroup.base_read import open_base_file
from penstock.filegroup.model import BaseFile
from penstock.read.plan import QueryPlan
from penstock.schema import META_COLUMNS, arrow_to_avro, avro_to_spark
from penstock.timeline.store import read_schema


def find_older_types(plan: QueryPlan, schema: StructType) -> dict[str, tuple[StructField, ...]]:
    """Find the columns that base files hold in an older type than the query's.

    Returns instant time → the columns whose type in the base files of this instant differs from `schema`, with the files' type.
    """
    files = {file_slice.base_file.instant: file_slice.base_file for file_slice in plan.all_slices if file_slice.base_file}
    if not files:
        return {}

    @cache
    def read_types(instant: str) -> StructType:
        return _read_stored_columns(plan, files[instant], schema)

    # Types never narrow: if the oldest file has every column in the table's type, all files have.
    in_files = StructType([field for field in schema if field.name not in _not_in_files(plan)])
    if has_all_types(read_types(min(files)), in_files):
        return {}
    asked = {field.name: field.dataType for field in schema}
    older: dict[str, tuple[StructField, ...]] = {}
    for instant, stored in _read_each(sorted(files), read_types).items():
        fields = tuple(field for field in stored if differs(field.dataType, asked[field.name]))
        if fields:
            older[instant] = fields
    return older


def _not_in_files(plan: QueryPlan) -> set[str]:
    """Return the columns that no commit's schema has: the meta columns, and partition columns if the table drops them."""
    config = plan.table.config
    return {*META_COLUMNS, *(config.partition_fields if config.drop_partition_columns else ())}


def _read_each(instants: Sequence[str], read_types: Callable[[str], StructType]) -> dict[str, StructType]:
    """Return the stored columns of the base files of each instant, with few calls of `read_types`.

    If files of two instants have the same columns, so have all files in between, because types only widen. If the columns differ,
    the span between the two instants is halved.

    Args:
        instants: instants of base files, ascending.
        read_types: reads the stored columns of the base files of one instant.
    """
    stored = {instant: read_types(instant) for instant in (instants[0], instants[-1])}
    spans = [(0, len(instants) - 1)]
    while spans:
        first, last = spans.pop()
        if stored[instants[first]] == stored[instants[last]]:
            stored |= dict.fromkeys(instants[first:last], stored[instants[first]])
        elif last - first > 1:
            middle = (first + last) // 2
            stored[instants[middle]] = read_types(instants[middle])
            spans += [(first, middle), (middle, last)]
    return stored


def _read_stored_columns(plan: QueryPlan, base_file: BaseFile, schema: StructType) -> StructType:
    """Return the columns of `schema` that a base file holds, in the file's types.

    The types come from the commit that wrote the file if the commit is on the active timeline, otherwise from the file's footer.
    The result is empty if neither can be read.
    """
    table = plan.table
    write = next((instant for instant in table.timeline.writes if instant.time == base_file.instant), None)
    commit_schema = read_schema(table.storage, table.base_path, write)[1] if write else None
    try:
        if commit_schema:
            stored = StructType.fromJson(avro_to_spark(json.loads(commit_schema)))
        else:
            stored = _read_file_schema(plan, base_file)
    except (CorruptFile, SchemaError):
        return StructType()
    return StructType([field for field in stored if field.name in schema.names])


def _read_file_schema(plan: QueryPlan, base_file: BaseFile) -> StructType:
    """Return the columns of a base file in Spark's types, from its footer."""
    file = open_base_file(plan.table.storage, base_file.path)
    return StructType.fromJson(avro_to_spark(arrow_to_avro(file.schema_arrow, plan.table.config.name)))


def differs(stored: DataType, asked: DataType) -> bool:
    """Whether a type in a file differs from the asked type, at any depth. Struct fields that only one type has are ignored."""
    if isinstance(stored, StructType) and isinstance(asked, StructType):
        shared = [field for field in stored if field.name in asked.names]
        return any(differs(field.dataType, asked[field.name].dataType) for field in shared)
    if isinstance(stored, ArrayType) and isinstance(asked, ArrayType):
        return differs(stored.elementType, asked.elementType)
    if isinstance(stored, MapType) and isinstance(asked, MapType):
        return differs(stored.valueType, asked.valueType)
    return stored != asked


def has_all_types(stored: DataType, asked: DataType) -> bool:
    """Whether the type `stored` has every field of the type `asked`, at any depth, in the same type. It may have more fields."""
    if isinstance(stored, StructType) and isinstance(asked, StructType):
        return all(field.name in stored.names and has_all_types(stored[field.name].dataType, field.dataType) for field in asked)
    if isinstance(stored, ArrayType) and isinstance(asked, ArrayType):
        return has_all_types(stored.elementType, asked.elementType)
    if isinstance(stored, MapType) and isinstance(asked, MapType):
        return has_all_types(stored.valueType, asked.valueType)
    return stored == asked
