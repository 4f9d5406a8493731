"""Columns whose type has changed since a file was written.

A table's types only widen, and Spark's Parquet reader does not know every such step (PySpark 3.5 knows none). So files that
hold a column in another type are read in that one and cast. Which these are is told by the schema of the commit that wrote
them, without opening any; only for commits that were archived one file's footer is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from penstock.errors import CorruptFile, SchemaError
from penstock.filegroup.base_read import open_base_file
from penstock.filegroup.model import FileSlice
from penstock.read.plan import QueryPlan
from penstock.schema import META_COLUMNS, arrow_to_avro, avro_to_spark
from penstock.timeline.store import read_schema


def older_types(plan: QueryPlan, schema: StructType) -> dict[str, tuple[StructField, ...]]:
    """By instant, the columns that files written then hold in another type than the table has now."""
    files = {s.base_file.instant: s for its in plan.slices.values() for s in its if s.base_file}
    if not files:
        return {}
    look = cache(lambda instant: _stored(plan, files[instant], schema))
    if is_whole(look(min(files)), StructType([f for f in schema if f.name not in _not_in_files(plan)])):
        return {}  # types never narrow: if the oldest file has every column in the table's type, all have
    asked = {f.name: f.dataType for f in schema}
    stored = _of_each(sorted(files), look)
    older = {i: tuple(f for f in struct if differs(f.dataType, asked[f.name])) for i, struct in stored.items()}
    return {i: fields for i, fields in older.items() if fields}


def _not_in_files(plan: QueryPlan) -> set[str]:
    """Columns that the schema of a commit does not have, and those that files lack."""
    config = plan.table.config
    return {*META_COLUMNS, *(config.partition_fields if config.drop_partition_columns else ())}


def _of_each(instants: Sequence[str], look: Callable[[str], StructType]) -> dict[str, StructType]:
    """What files of each instant hold, without a look at all: between two that hold the same columns nothing has changed."""
    found = {i: look(i) for i in (instants[0], instants[-1])}
    spans = [(0, len(instants) - 1)]
    while spans:
        first, last = spans.pop()
        if found[instants[first]] == found[instants[last]]:
            found |= dict.fromkeys(instants[first:last], found[instants[first]])
        elif last - first > 1:
            middle = (first + last) // 2
            found[instants[middle]] = look(instants[middle])
            spans += [(first, middle), (middle, last)]
    return found


def _stored(plan: QueryPlan, slice_: FileSlice, schema: StructType) -> StructType:
    """The columns of a schema that a slice's base file holds, in its types; none if nobody can tell."""
    table, base = plan.table, slice_.base_file
    written = next((i for i in table.timeline.writes if base and i.time == base.instant), None)
    text = read_schema(table.storage, table.base_path, written)[1] if written else None
    try:
        stored = _struct(text) if text else _struct_of_file(plan, slice_)
    except (CorruptFile, SchemaError):
        return StructType()
    return StructType([f for f in stored if f.name in schema.names])


def _struct(avro: str) -> StructType:
    return StructType.fromJson(avro_to_spark(json.loads(avro)))


def _struct_of_file(plan: QueryPlan, slice_: FileSlice) -> StructType:
    assert slice_.base_file is not None
    file = open_base_file(plan.table.storage, slice_.base_file.path)
    return StructType.fromJson(avro_to_spark(arrow_to_avro(file.schema_arrow, plan.table.config.name)))


def differs(stored: DataType, asked: DataType) -> bool:
    """Whether a value has another type somewhere; fields that only one of them has do not count."""
    if isinstance(stored, StructType) and isinstance(asked, StructType):
        return any(differs(f.dataType, asked[f.name].dataType) for f in stored if f.name in asked.names)
    if isinstance(stored, ArrayType) and isinstance(asked, ArrayType):
        return differs(stored.elementType, asked.elementType)
    if isinstance(stored, MapType) and isinstance(asked, MapType):
        return differs(stored.valueType, asked.valueType)
    return stored != asked


def is_whole(stored: DataType, asked: DataType) -> bool:
    """Whether a value has the same type everywhere, and lacks no field."""
    if isinstance(stored, StructType) and isinstance(asked, StructType):
        return all(f.name in stored.names and is_whole(stored[f.name].dataType, f.dataType) for f in asked)
    if isinstance(stored, ArrayType) and isinstance(asked, ArrayType):
        return is_whole(stored.elementType, asked.elementType)
    if isinstance(stored, MapType) and isinstance(asked, MapType):
        return is_whole(stored.valueType, asked.valueType)
    return stored == asked
