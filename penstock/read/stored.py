"""Columns whose type has changed since a file was written.

A table's types only widen, and Spark's Parquet reader does not know every such step (PySpark 3.5 knows none). So files that
hold a column in another type are read in that one and cast. Which these are is told by the schema of the commit that wrote
them, without opening any; only for commits that were archived one file's footer is asked.
"""

from __future__ import annotations

import json

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from penstock.errors import CorruptFile, SchemaError
from penstock.filegroup.model import FileSlice
from penstock.filegroup.read import open_base_file
from penstock.read.plan import Plan
from penstock.schema import avro_of_arrow, spark_of_avro
from penstock.timeline.store import read_schema


def older_types(plan: Plan, schema: StructType) -> dict[str, tuple[StructField, ...]]:
    """By instant, the columns that files written then hold in another type than the table has now."""
    files = {s.base_file.instant: s for its in plan.slices.values() for s in its if s.base_file}
    instants = sorted(files)
    if not instants or not _older(plan, files[instants[0]], schema):
        return {}  # types never narrow: what the oldest file has in the table's types, all have
    return {i: found for i in instants if (found := _older(plan, files[i], schema))}


def _older(plan: Plan, slice_: FileSlice, schema: StructType) -> tuple[StructField, ...]:
    table, base = plan.table, slice_.base_file
    written = next((i for i in table.timeline.writes if base and i.time == base.instant), None)
    text = read_schema(table.storage, table.base_path, written)[1] if written else None
    try:
        stored = _struct(text) if text else _struct_of_file(plan, slice_)
    except (CorruptFile, SchemaError):
        return ()
    asked = {f.name: f.dataType for f in schema}
    return tuple(f for f in stored if f.name in asked and differs(f.dataType, asked[f.name]))


def _struct(avro: str) -> StructType:
    return StructType.fromJson(spark_of_avro(json.loads(avro)))


def _struct_of_file(plan: Plan, slice_: FileSlice) -> StructType:
    assert slice_.base_file is not None
    file = open_base_file(plan.table.storage, slice_.base_file.path)
    return StructType.fromJson(spark_of_avro(avro_of_arrow(file.schema_arrow, plan.table.config.name)))


def differs(stored: DataType, asked: DataType) -> bool:
    """Whether a value has another type somewhere; fields that only one of them has do not count."""
    if isinstance(stored, StructType) and isinstance(asked, StructType):
        return any(differs(f.dataType, asked[f.name].dataType) for f in stored if f.name in asked.names)
    if isinstance(stored, ArrayType) and isinstance(asked, ArrayType):
        return differs(stored.elementType, asked.elementType)
    if isinstance(stored, MapType) and isinstance(asked, MapType):
        return differs(stored.valueType, asked.valueType)
    return stored != asked
