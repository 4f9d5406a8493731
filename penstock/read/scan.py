"""From file slices to a DataFrame: Spark's own Parquet reader over an explicit list of files; those with logs go by `merged.py`.

Partition columns are given as an expression over the file's path where path and value map one to one, so that a filter
put on them later, through `where`, a view or SQL, is evaluated on the list of files before any is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, StringType, StructField, StructType

from penstock.filegroup.model import FileSlice
from penstock.read.conform import conform
from penstock.read.merged import merged_frames
from penstock.read.partition_values import PartitionColumns, path_columns
from penstock.read.plan import Plan
from penstock.read.stored import older_types
from penstock.schema import META_COLUMNS, spark_of_avro

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MANY_FILES = 32
#: Hudi writes days and times of the calendar that Spark has, also those long ago.
_AS_WRITTEN = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
#: What Hadoop takes for a part of a pattern.
_PATTERN = re.compile(r"[{}\[\]*?\\]")


def scan(spark: SparkSession, plan: Plan) -> DataFrame:
    """A lazy DataFrame over the plan's files: meta columns, then the table's columns in the schema's order."""
    schema = _wanted(plan, table_struct(plan))
    if not any(plan.slices.values()):
        return spark.createDataFrame([], schema)
    columns = path_columns(plan, schema)
    older = older_types(plan, schema)
    branches: dict[tuple[frozenset[str], tuple[StructField, ...]], list[FileSlice]] = {}
    for path, its in plan.slices.items():
        nulls = columns.nulls_of(path)
        for one in its:
            if not one.log_files:
                branches.setdefault((nulls, older.get(one.base_instant, ())), []).append(one)
    frames = [_branch(spark, its, schema, columns, *how) for how, its in branches.items()]
    frames += merged_frames(spark, plan, schema, columns)
    return reduce(lambda one, other: one.unionByName(other), frames)


def _branch(
    spark: SparkSession,
    slices: Sequence[FileSlice],
    schema: StructType,
    columns: PartitionColumns,
    nulls: frozenset[str],
    older: tuple[StructField, ...],
) -> DataFrame:
    """The rows of files in whose partitions the same columns are null, and which hold the same columns in older types."""
    native = columns.native_base if not nulls else None
    kinds = {f.name: f.dataType for f in older if f.name not in columns.places}
    stored = [StructField(f.name, kinds.get(f.name, f.dataType)) for f in schema if native or f.name not in columns.not_stored]
    frame = _parquet(spark, slices, StructType(stored), native)
    return frame.select(*(_column(f, columns, nulls, kinds.get(f.name)).alias(f.name) for f in schema))


def _column(wanted: StructField, columns: PartitionColumns, nulls: frozenset[str], older: DataType | None) -> Column:
    column = columns.column(wanted, nulls)
    return column if older is None else conform(column, older, wanted.dataType, wanted.name)


def _wanted(plan: Plan, schema: StructType) -> StructType:
    """The columns that come out; where logs are merged, only those that the caller named: Spark cannot leave any out later."""
    names = plan.query.columns
    if not names or not set(names) <= set(schema.names) or not any(one.log_files for its in plan.slices.values() for one in its):
        return schema
    return StructType([field for field in schema if field.name in names])


def table_struct(plan: Plan) -> StructType:
    """The columns a query gives back."""
    meta = [StructField(name, StringType()) for name in META_COLUMNS]
    if plan.schema is None:
        return StructType(meta)
    struct = StructType.fromJson(spark_of_avro(json.loads(plan.schema)))
    fields = [f for f in struct if f.name not in META_COLUMNS]
    if plan.table.config.drop_partition_columns:
        names = {f.name for f in fields}
        fields += [StructField(p, StringType()) for p in plan.table.config.partition_fields if p not in names]
    return StructType([*meta, *(StructField(f.name, f.dataType) for f in fields)])


def _parquet(spark: SparkSession, slices: Sequence[FileSlice], schema: StructType, base: str | None) -> DataFrame:
    """Spark's own reader over these files; with `base`, folders below it are Spark's partition columns."""
    paths = [_literal(s.base_file.path) for s in slices if s.base_file]
    reader = spark.read.format("parquet").schema(schema).options(**_AS_WRITTEN)
    if base is not None:
        reader = reader.option("basePath", base)
    with _listing_on_driver(spark, len(paths)):
        return reader.load(paths)


def _literal(path: str) -> str:
    """A path in which Spark finds no pattern."""
    return _PATTERN.sub(r"\\\g<0>", path)


@contextmanager
def _listing_on_driver(spark: SparkSession, paths: int) -> Iterator[None]:
    """Spark starts a job to look at more than a few dozen paths; we know that they are files."""
    if paths <= _MANY_FILES:
        yield
        return
    before = spark.conf.get(_LISTING_THRESHOLD)
    spark.conf.set(_LISTING_THRESHOLD, str(paths + 1))
    try:
        yield
    finally:
        spark.conf.set(_LISTING_THRESHOLD, before or str(_MANY_FILES))
