"""From file slices to a DataFrame: Spark's own Parquet reader over an explicit list of files.

Partition columns are given as an expression over the file's path where path and value map one to one, so that a filter
put on them later, through `where`, a view or SQL, is evaluated on the list of files before any is opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from penstock import options as o
from penstock.errors import Unsupported
from penstock.filegroup.model import FileSlice
from penstock.read.partition_values import PartitionColumns, path_columns
from penstock.read.plan import Plan
from penstock.schema import META_COLUMNS, spark_of_avro

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MANY_FILES = 32


def scan(spark: SparkSession, plan: Plan) -> DataFrame:
    """A lazy DataFrame over the plan's files: meta columns, then the table's columns in the schema's order."""
    schema = table_struct(plan)
    slices = [s for its in plan.slices.values() for s in its]
    _check_slices(plan, slices)
    if not slices:
        return spark.createDataFrame([], schema)
    columns = path_columns(plan, schema)
    stored = StructType([f for f in schema if f.name not in columns.not_stored])
    default = [s for s in slices if s.partition_path in columns.by_stored_value]
    others = [s for s in slices if s.partition_path not in columns.by_stored_value]
    frames = []
    if others:
        frames.append(_select(_parquet(spark, others, stored), schema, columns))
    if default:
        frames.append(_select(_parquet(spark, default, stored), schema, PartitionColumns.stored(columns)))
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


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


def _check_slices(plan: Plan, slices: Sequence[FileSlice]) -> None:
    if plan.query.kind == "read_optimized":
        return
    if plan.table.is_merge_on_read and any(s.log_files for s in slices):
        raise Unsupported(
            f"{plan.table.base_path} is a merge-on-read table with log files, which snapshot queries do not merge yet; "
            f"set {o.QUERY_TYPE.key}=read_optimized to read its base files"
        )


def _select(frame: DataFrame, schema: StructType, columns: PartitionColumns) -> DataFrame:
    return frame.select(*(columns.column(f).alias(f.name) for f in schema))


def _parquet(spark: SparkSession, slices: Sequence[FileSlice], schema: StructType) -> DataFrame:
    paths = [s.base_file.path for s in slices if s.base_file]
    with _listing_on_driver(spark, len(paths)):
        return spark.read.format("parquet").schema(schema).option("__globPaths__", "false").load(paths)


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
