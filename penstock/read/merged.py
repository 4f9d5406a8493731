"""Slices with log files as DataFrames: merged in Spark's Python workers and handed over as Arrow.

Nothing that a query does later, filters or a choice of columns, reaches behind Python. So what can be decided is decided
before: where partitions are few, each is a branch of its own whose partition columns are literals, and Spark leaves out those
that a filter rules out; and where the caller says which columns are wanted, no others are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from penstock import options as o
from penstock.filegroup.merged import MergedRules, merged_rows
from penstock.filegroup.model import FileSlice
from penstock.filegroup.rows import KEY_COLUMN
from penstock.formats.fit import fit
from penstock.metadata.merging import merged_rules
from penstock.read.partition_values import PartitionColumns
from penstock.read.plan import Plan
from penstock.schema import META_COLUMNS, arrow_of_spark
from penstock.spread import cores
from penstock.storage import Storage

PARTITION_COLUMN = META_COLUMNS[3]
#: Partitions up to which each has a branch; planning a branch takes some hundredths of a second.
_MOST_BRANCHES = 16
_PARTS_PER_CORE = 4
#: Bytes of files that one Spark task merges, where slices are small.
_TASK_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class _Work:
    """What travels to the workers."""

    storage: Storage
    slices: tuple[FileSlice, ...]
    rules: MergedRules
    #: The columns as Spark takes them.
    schema: pa.Schema


def merged_frames(spark: SparkSession, plan: Plan, schema: StructType, columns: PartitionColumns) -> list[DataFrame]:
    """The rows of a plan's slices with log files, in the columns of `schema`; none, or several DataFrames to be put together."""
    slices = {path: found for path, its in plan.slices.items() if (found := [one for one in its if one.log_files])}
    if not slices:
        return []
    assert plan.schema is not None  # there are files
    skip = plan.query.options[o.MERGE_TYPE] == "skip_merge"
    rules = merged_rules(plan.table, plan.schema, as_of=plan.query.as_of, skip_merge=skip)
    if len(slices) <= _MOST_BRANCHES or columns.not_stored:
        return [_of_partition(spark, plan, path, its, rules, schema, columns) for path, its in slices.items()]
    return [_frame(spark, plan, [one for its in slices.values() for one in its], rules, schema)]


def _of_partition(
    spark: SparkSession,
    plan: Plan,
    path: str,
    slices: Sequence[FileSlice],
    rules: MergedRules,
    schema: StructType,
    columns: PartitionColumns,
) -> DataFrame:
    """The rows of one partition; what its path says is neither read nor handed over."""
    known = {*columns.places, PARTITION_COLUMN} - columns.nulls_of(path)
    frame = _frame(spark, plan, slices, rules, StructType([field for field in schema if field.name not in known]))
    chosen = {name: columns.column_in(schema[name], path) for name in schema.names}
    if PARTITION_COLUMN in chosen:
        chosen[PARTITION_COLUMN] = F.lit(path)
    return frame.select(*(column.alias(name) for name, column in chosen.items()))


def _frame(spark: SparkSession, plan: Plan, slices: Sequence[FileSlice], rules: MergedRules, schema: StructType) -> DataFrame:
    """The columns that are in the files."""
    names = [name for name in schema.names if name in rules.arrow.names]
    stored = StructType([field for field in schema if field.name in names] or [StructField(KEY_COLUMN, StringType())])
    large_first = sorted(slices, key=_size, reverse=True)
    work = _Work(plan.table.storage, tuple(large_first), rules, arrow_of_spark(stored.jsonValue()))
    parts = _parts(spark, slices)
    return spark.range(0, parts, 1, parts).mapInArrow(partial(_merge_parts, work, parts), stored)


def _parts(spark: SparkSession, slices: Sequence[FileSlice]) -> int:
    """How many Spark tasks share the slices: a few per core balance, and none should take too much."""
    at_least = _PARTS_PER_CORE * (cores(spark.conf) or len(slices))
    return min(len(slices), max(at_least, sum(map(_size, slices)) // _TASK_BYTES))


def _size(slice_: FileSlice) -> int:
    base = slice_.base_file.size_bytes if slice_.base_file else 0
    return base + sum(log.size_bytes for log in slice_.log_files)


def _merge_parts(work: _Work, parts: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column(0).to_pylist():  # numbers of parts, not records
            for slice_ in work.slices[part::parts]:
                for rows in merged_rows(work.storage, slice_, work.rules, work.schema.names):
                    yield from fit(rows, work.schema).to_batches()
