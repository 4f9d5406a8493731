"""Slices with log files as DataFrames, in one of two ways.

Where the log says which rows of the base file it touches, Spark reads the base files itself without those rows (`untouched.py`),
with all that its reader can do, and workers add the rows of the keys that the log knows: the log's, if what it says stands
whatever the base file has; otherwise these are merged with the touched rows, unless they are a great part of all.
Where the log does not say it, the slice is merged in Spark's Python workers and handed over as Arrow. Nothing that a query does
later, filters or a choice of columns, reaches behind Python. So what can be decided is decided before: where partitions are few,
each is a branch of its own whose partition columns are literals, and Spark leaves out those that a filter rules out; and where
the caller says which columns are wanted, no others are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from penstock import options as o
from penstock.catalog.merge_rules import build_merge_rules
from penstock.columns import quoted
from penstock.error_text import read_error
from penstock.errors import PenstockError
from penstock.filegroup.log.scan import positions_touched
from penstock.filegroup.meta_columns import KEY_COLUMN
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules, known_rows, read_log_rows, read_merged_rows, read_touched_rows
from penstock.formats.cast import fit_to_schema
from penstock.merge.kernels.gather import Positions
from penstock.read.commit_time_filter import changed_rows
from penstock.read.meta_columns import Thin, handed_over, restored, thin_rows, thinned
from penstock.read.partition_values import PartitionColumns
from penstock.read.plan import QueryPlan
from penstock.schema import META_COLUMNS, spark_to_arrow
from penstock.spread.session import count_cores
from penstock.storage import Storage
from penstock.timeline.history import InstantRange

PARTITION_COLUMN = META_COLUMNS[3]
#: Partitions up to which each has a branch, and the bytes that workers read of one from which it pays: planning a branch takes
#: near a tenth of a second.
_MOST_BRANCHES = 16
_LEAST_BRANCH_BYTES = 64 * 1024 * 1024
_PARTS_PER_CORE = 4
#: Bytes of a base file from which Spark reads it better than workers do.
_LEAST_BYTES = 8 * 1024 * 1024
#: Slices up to which the driver looks into their logs, some at a time.
_MOST_LOOKED_INTO = 256
_AT_ONCE = 8
#: Rows of base files of which the driver keeps, and every executor gets, a bit each.
_MOST_ROWS = 128 * 1024 * 1024
#: The part of a base file's rows up to which it pays that both read it: Spark all of it, and workers the touched rows.
_MOST_TOUCHED = 0.25
#: Bytes of files that one Spark task merges, where slices are small.
_TASK_BYTES = 256 * 1024 * 1024

RowsOf = Callable[[Storage, FileSlice, MergeRules, Sequence[str]], Iterator[pa.Table]]
#: Makes of slices, and the positions of rows to leave out in their base files, DataFrames of the other rows.
BaseRows = Callable[[Mapping[FileSlice, Positions]], list[DataFrame]]


@dataclass(frozen=True)
class _Work:
    """What travels to the workers."""

    storage: Storage
    slices: tuple[FileSlice, ...]
    rules: MergeRules
    #: The columns as Spark takes them.
    schema: pa.Schema
    #: What is made of a slice: all its rows, or those of its log.
    rows_of: RowsOf
    #: How the columns are handed to Spark.
    thin: Thin
    #: The columns that folders say, which are handed over as text; what rows hold does not count.
    folders: PartitionColumns
    #: Only rows that were written then are handed over.
    changes: InstantRange | None = None


@dataclass(frozen=True)
class _Reading:
    """One query, as far as slices with logs go."""

    spark: SparkSession
    plan: QueryPlan
    rules: MergeRules
    schema: StructType
    columns: PartitionColumns


def merged_frames(
    spark: SparkSession, plan: QueryPlan, schema: StructType, columns: PartitionColumns, base_rows: BaseRows
) -> list[DataFrame]:
    """The rows of a plan's slices with log files, in the columns of `schema`; none, or several DataFrames to be put together.

    Args:
        base_rows: the rows of base files but for some, in these columns, by Spark's own reader.
    """
    slices = [one for its in plan.slices.values() for one in its if one.log_files]
    if not slices:
        return []
    assert plan.schema is not None  # there are files
    skip = plan.query.options[o.MERGE_TYPE] == "skip_merge"
    rules = build_merge_rules(plan.table, plan.schema, as_of=plan.query.as_of, skip_merge=skip)
    reading = _Reading(spark, plan, rules, schema, columns)
    by_logs, by_both = _by_what_is_new(slices, plan.changes)
    is_hidden = any(name.lower() == "_metadata" for name in schema.names)  # a column of the table has Spark's name for the file
    touched = {} if is_hidden else _touched(plan.table.storage, by_both, rules)
    frames = _frames(reading, by_logs, read_log_rows if rules.lets_logs_win else known_rows)
    frames += base_rows(touched) + _frames(reading, list(touched), read_log_rows if rules.lets_logs_win else read_touched_rows)
    return frames + _frames(reading, [one for one in by_both if one not in touched], read_merged_rows)


def _by_what_is_new(slices: Sequence[FileSlice], changes: InstantRange | None) -> tuple[list[FileSlice], list[FileSlice]]:
    """Slices in which only rows of the log can be new, and others. A base file has no row that is newer than itself."""
    if changes is None:
        return [], list(slices)
    is_old = [one.base_file is None or one.base_file.instant <= changes.begin for one in slices]
    parted = list(zip(slices, is_old, strict=True))
    return [one for one, old in parted if old], [one for one, old in parted if not old]


def _touched(storage: Storage, slices: Sequence[FileSlice], rules: MergeRules) -> dict[FileSlice, Positions]:
    """The slices whose base files Spark reads itself, with the rows it is to leave out; where that is worth a look into logs."""
    bases = sum(one.base_bytes for one in slices)
    if rules.skip_merge or len(slices) > _MOST_LOOKED_INTO or bases < _LEAST_BYTES * len(slices):
        return {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = zip(slices, pool.map(lambda one: positions_touched(storage, one, rules.times), slices), strict=True)
    known = {one: at for one, at in found if at is not None and at.max(initial=0) <= _MOST_ROWS}
    touched = {one: at for one, at in known.items() if rules.lets_logs_win or _share(at) <= _MOST_TOUCHED}
    rows = sum(int(positions.max(initial=0)) for positions in touched.values())
    return touched if rows <= _MOST_ROWS else {}


def _share(positions: Positions) -> float:
    """How many of a base file's rows are touched, if they are spread over all of it."""
    if not len(positions):
        return 0.0
    is_touched = np.zeros(1 + int(positions.max()), np.bool_)
    is_touched[positions] = True
    return int(is_touched.sum()) / len(is_touched)


def _frames(reading: _Reading, slices: Sequence[FileSlice], rows_of: RowsOf) -> list[DataFrame]:
    """What workers make of slices: a DataFrame for each partition, or one."""
    by_path: dict[str, list[FileSlice]] = {}
    for one in slices:
        by_path.setdefault(one.partition_path, []).append(one)
    pays = len(by_path) <= _MOST_BRANCHES and _bytes(slices, rows_of) >= _LEAST_BRANCH_BYTES * len(by_path)
    if pays or reading.columns.not_stored:
        return [_of_partition(reading, path, its, rows_of) for path, its in by_path.items()]
    return [_frame(reading, slices, rows_of, reading.schema, reading.columns)]


def _of_partition(reading: _Reading, path: str, slices: Sequence[FileSlice], rows_of: RowsOf) -> DataFrame:
    """The rows of one partition; what its path says is neither read nor handed over."""
    schema, columns = reading.schema, reading.columns
    known = {*columns.places, PARTITION_COLUMN} - columns.nulls_of(path)
    stored = StructType([field for field in schema if field.name not in known])
    frame = _frame(reading, slices, rows_of, stored, PartitionColumns())
    chosen = {name: columns.column_in(schema[name], path) for name in schema.names}
    if PARTITION_COLUMN in chosen:
        chosen[PARTITION_COLUMN] = F.lit(path).alias(PARTITION_COLUMN)
    return frame.select(*chosen.values())


def _frame(
    reading: _Reading, slices: Sequence[FileSlice], rows_of: RowsOf, schema: StructType, folders: PartitionColumns
) -> DataFrame:
    """The columns that are in the files; those that folders say, by these."""
    rules, spark = reading.rules, reading.spark
    names = [name for name in schema.names if name in rules.arrow.names]
    stored = StructType([field for field in schema if field.name in names] or [StructField(KEY_COLUMN, StringType())])
    large_first = sorted(slices, key=lambda one: _bytes([one], rows_of), reverse=True)
    table = reading.plan.table
    handed = StructType([StructField(f.name, StringType()) if f.name in folders.places else f for f in stored])
    how = thinned(handed, slices, [i.time for i in table.timeline.writes], table.config.record_key_fields)
    arrow = spark_to_arrow(stored.jsonValue())
    work = _Work(table.storage, tuple(large_first), rules, arrow, rows_of, how, folders, reading.plan.changes)
    parts = _parts(spark, len(slices), _bytes(slices, rows_of))
    frame = spark.range(0, parts, 1, parts).mapInArrow(partial(_run_parts, work, parts), handed_over(handed, how))
    return frame.select(*map(_typed, stored, handed, restored(handed, how)))


def _typed(wanted: StructField, handed: StructField, column: Column | str) -> Column | str:
    """A column that was handed over, in its own type."""
    if wanted.dataType == handed.dataType:
        return column
    return F.col(quoted(wanted.name)).cast(wanted.dataType).alias(wanted.name)


def _parts(spark: SparkSession, slices: int, size: int) -> int:
    """How many Spark tasks share the slices: a few per core balance, and none should take too much."""
    at_least = _PARTS_PER_CORE * (count_cores(spark.conf) or slices)
    return min(slices, max(at_least, size // _TASK_BYTES))


def _bytes(slices: Sequence[FileSlice], rows_of: RowsOf) -> int:
    """What workers read."""
    bases = 0 if rows_of is read_log_rows else sum(one.base_bytes for one in slices)
    return bases + sum(one.log_bytes for one in slices)


def _run_parts(work: _Work, parts: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column(0).to_pylist():  # numbers of parts, not records
            for slice_ in work.slices[part::parts]:
                yield from _rows_of_slice(work, slice_)


def _rows_of_slice(work: _Work, slice_: FileSlice) -> Iterator[pa.RecordBatch]:
    try:
        for rows in work.rows_of(work.storage, slice_, work.rules, work.schema.names):
            wanted = changed_rows(rows, work.changes) if work.changes else rows
            placed = work.folders.with_texts(fit_to_schema(wanted, work.schema), slice_.partition_path)
            yield from thin_rows(placed, work.thin).to_batches()
    except PenstockError as e:
        place = f"file group {slice_.file_id} of partition {slice_.partition_path!r}"
        raise read_error(e, place) from None  # what led to it is in its text
