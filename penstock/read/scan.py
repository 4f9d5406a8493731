"""Turns a query plan into a lazy DataFrame.

Slices without logs are read by Spark's own Parquet reader (`base_files.py`), slices with logs by Spark and workers together
(`log_slices.py`). The DataFrames are unioned. An incremental query then filters the rows by commit time
(`commit_time_filter.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from penstock import options as o
from penstock.columns import quoted
from penstock.errors import SchemaError
from penstock.read.base_files import TableScan, read_base_files
from penstock.read.commit_time_filter import filter_changes
from penstock.read.log_slices import read_log_slices, read_slices_in_workers
from penstock.read.partition_values import choose_partition_columns
from penstock.read.plan import QueryPlan
from penstock.read.row_readers import COMMIT_TIME
from penstock.read.spark_file_system import spark_can_read
from penstock.read.widened_types import find_older_types
from penstock.schema import META_COLUMNS, avro_to_spark
from penstock.storage.base import split_scheme


def scan(spark: SparkSession, plan: QueryPlan) -> DataFrame:
    """Return a lazy DataFrame over the plan's files: meta columns, then the table's columns in the schema's order.

    Raises:
        SchemaError: `query.equals` names a column that the table does not have.
        CorruptFile: a file that is read before the query runs, such as a footer, is missing or damaged. Damage that is found
            later is an error of the query.
    """
    schema = _wanted_columns(plan, table_struct(plan))
    if plan.all_slices:
        frame = _scan_files(spark, plan, schema)
    else:
        frame = spark.createDataFrame([], schema)
    return _only_equal(frame, plan.query.equals)


def _scan_files(spark: SparkSession, plan: QueryPlan, schema: StructType) -> DataFrame:
    """Return the union of the DataFrames over the plan's slices, filtered by commit time for an incremental query."""
    table_scan = TableScan(
        spark,
        plan,
        schema,
        partition_columns=choose_partition_columns(plan, schema, spark.version),
        older_types=find_older_types(plan, schema),
    )
    if spark_can_read(spark, plan.table):
        frames = read_base_files(table_scan, plan.slices_without_logs) + read_log_slices(table_scan)
    else:
        frames = read_slices_in_workers(table_scan)
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionByName(frame)
    return filter_changes(rows, plan)


def _only_equal(frame: DataFrame, equals: Iterable[tuple[str, object]]) -> DataFrame:
    """Return `frame` with only the rows that have each (column, value) of `equals`. A value None asks for nulls.

    Raises:
        SchemaError: `frame` does not have one of the columns.
    """
    for column, value in equals:
        if column not in frame.columns:
            raise SchemaError(f"the table has no column {column!r}; it has {', '.join(frame.columns)}")
        frame = frame.where(F.col(quoted(column)).eqNullSafe(F.lit(value)))
    return frame


def _wanted_columns(plan: QueryPlan, schema: StructType) -> StructType:
    """Return the columns that the DataFrame will have: only `query.columns` if slices have logs, otherwise all columns.

    Spark cannot prune columns that Python workers send, so workers must be started with the wanted columns alone. Without logs
    Spark prunes columns itself.

    Args:
        schema: all columns of the table.
    """
    if plan.query.options[o.INCREMENTAL_FILTERS]:
        return schema  # a condition may be on any column
    names = plan.query.columns
    if not names or not set(names) <= set(schema.names):
        return schema
    if not plan.slices_with_logs and not split_scheme(plan.table.uri)[0]:
        return schema
    needed = {*names, COMMIT_TIME} if plan.changes else set(names)
    return StructType([field for field in schema if field.name in needed])


def table_struct(plan: QueryPlan) -> StructType:
    """Return all columns of the plan's table in Spark's types, meta columns first."""
    meta = [StructField(name, StringType()) for name in META_COLUMNS]
    if plan.schema is None:
        return StructType(meta)
    struct = StructType.fromJson(avro_to_spark(json.loads(plan.schema)))
    fields = [field for field in struct if field.name not in META_COLUMNS]
    if plan.table.config.drop_partition_columns:
        # The schema of the files lacks the partition columns; their values come from the folders, as text.
        names = {field.name for field in fields}
        fields += [StructField(name, StringType()) for name in plan.table.config.partition_fields if name not in names]
    return StructType([*meta, *(StructField(field.name, field.dataType) for field in fields)])
