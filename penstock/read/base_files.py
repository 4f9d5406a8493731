"""Base files as DataFrames: Spark's own Parquet reader reads an explicit list of files.

Files are grouped into branches, and each branch becomes one DataFrame. The files of a branch have two things in common: the
columns that they hold in an older type than the table has now (`widened_types.py` finds them), and the partition columns that are
null in their partitions (`partition_values.py`). If the partition path determines the value of a partition column exactly, the
column is an expression over the file's path. Then Spark evaluates a filter on that column, added later by `where`, a view or SQL,
on the list of files, before it opens any file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from penstock.columns import conform, quoted
from penstock.errors import CorruptFile
from penstock.filegroup.model import FileSlice
from penstock.merge.kernels.gather import Positions
from penstock.read.partition_values import PartitionColumns, spark_path
from penstock.read.plan import QueryPlan
from penstock.read.skip_rows import skip_rows
from penstock.table.state import TableState
from penstock.workers.session_settings import is_connect

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
#: Spark's default of that setting. Up to this number of files, each path is passed to Spark by itself, not as part of a pattern.
_MANY_FILES = 32
_NAMES_PER_PATTERN = 128
#: Hudi writes dates and times in the proleptic Gregorian calendar, as Spark does, but does not say so in the file. Without this
#: PySpark 3.5 fails on dates before 1582.
_REBASE_MODES = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
#: Characters that Hadoop takes for a part of a glob pattern.
_PATTERN = re.compile(r"[{}\[\]*?\\]")
#: Paths whose characters mean nothing in a glob pattern, and nothing between its braces.
_SIMPLE = re.compile(r"[A-Za-z0-9_.=/-]*")


@dataclass(frozen=True)
class TableScan:
    """The arguments that all DataFrames of one query share: session, plan, columns, and how partition columns are read."""

    spark: SparkSession
    plan: QueryPlan
    #: The columns of the query's DataFrame.
    schema: StructType
    partition_columns: PartitionColumns
    #: Instant → the columns that base files of this instant hold in an older type than the schema has.
    older_types: Mapping[str, tuple[StructField, ...]]


class _Branch(NamedTuple):
    """The properties by which base files are grouped. All files with the same two values are read as one DataFrame."""

    #: Partition columns that are null or empty in these files.
    nulls: frozenset[str]
    #: Columns that these files hold in an older type than the table's schema has, with that type.
    older: tuple[StructField, ...]


def read_base_files(
    scan: TableScan, slices: Iterable[FileSlice], touched: Mapping[FileSlice, Positions] | None = None
) -> list[DataFrame]:
    """Return DataFrames over the base files of the slices, with the columns of `scan.schema`.

    Two base files share a DataFrame if they hold the same columns in an older type than the schema has (`scan.older_types`), and
    the same partition columns are null in their partitions.

    Args:
        touched: slice → positions of the rows to leave out of its base file, because the slice's log changes or deletes them.
            None: every row is read.
    """
    branches: dict[_Branch, list[FileSlice]] = {}
    for file_slice in slices:
        older = scan.older_types.get(file_slice.base_file.instant, ()) if file_slice.base_file else ()
        branch = _Branch(scan.partition_columns.nulls_of(file_slice.partition_path), older)
        branches.setdefault(branch, []).append(file_slice)
    return [_read_branch(scan, branch, branch_slices, touched or {}) for branch, branch_slices in branches.items()]


def _read_branch(
    scan: TableScan, branch: _Branch, slices: Sequence[FileSlice], touched: Mapping[FileSlice, Positions]
) -> DataFrame:
    """Return one DataFrame over base files with the same older column types and the same null partition columns.

    Args:
        branch: the older column types and null partition columns that the files have in common.
        slices: the slices of the base files.
        touched: slice → positions of the rows to leave out of its base file.
    """
    columns = scan.partition_columns
    native_base = columns.native_base if not branch.nulls else None
    older = {field.name: field.dataType for field in branch.older if field.name not in columns.places}
    stored = []
    for field in scan.schema:
        if native_base or field.name not in columns.not_stored:
            stored.append(StructField(field.name, older.get(field.name, field.dataType)))
    frame = _read_parquet(scan.spark, scan.plan.table, slices, StructType(stored), native_base)
    selected = [_select_column(field, columns, branch.nulls, older.get(field.name)) for field in scan.schema]
    skipped = {file_slice: touched[file_slice] for file_slice in slices if file_slice in touched}
    return skip_rows(frame, selected, skipped) if skipped else frame.select(*selected)


def _select_column(wanted: StructField, columns: PartitionColumns, nulls: frozenset[str], older: DataType | None) -> Column | str:
    """Return the expression that selects one column of the query from base files that are read as one DataFrame.

    The result is the plain column name if the files hold the column in the wanted type, because Spark analyses a name fastest.

    Args:
        wanted: the name and type of the column in the query.
        nulls: the partition columns that are null or empty in these files.
        older: the older type in which these files hold the column; None: they hold it in the wanted type.
    """
    if not columns.is_stored(wanted.name, nulls):
        return columns.column(wanted, nulls).alias(wanted.name)
    if older is None:
        return quoted(wanted.name)
    return conform(F.col(quoted(wanted.name)), older, wanted.dataType, wanted.name).alias(wanted.name)


def _read_parquet(
    spark: SparkSession, table: TableState, slices: Sequence[FileSlice], schema: StructType, native_base: str | None
) -> DataFrame:
    """Return a DataFrame over the slices' base files, which Spark reads with its own Parquet reader.

    Args:
        schema: the columns to read.
        native_base: the table's base path, if Spark derives the partition columns from the folders below it; None: it does not.

    Raises:
        CorruptFile: a base file was deleted while Spark listed the files.
    """
    files = [file_slice.base_file.path for file_slice in slices if file_slice.base_file]
    reader = spark.read.format("parquet").schema(schema).options(**_REBASE_MODES)
    if native_base is not None:
        reader = reader.option("basePath", spark_path(table, native_base))
    if len(files) <= _MANY_FILES:
        return reader.load([_literal_path(table, path) for path in files])
    with _listing_on_driver(spark, len(files)):
        frame = reader.load(_name_files(spark, table, files))
    # Spark reports no error if a pattern names a missing file. File names are never used twice: a file that exists now also
    # existed when Spark listed the patterns.
    for path in files:
        if table.storage.stat(path) is None:
            raise CorruptFile(f"{path} was removed while a query over it was planned; run the query again")
    return frame


def _name_files(spark: SparkSession, table: TableState, files: Sequence[str]) -> list[str]:
    """Return the paths to pass to Spark for many base files: a few glob patterns, or in a Connect session every path.

    A classic session lists the files once, now. A Connect session lists them again with every action. If a file is deleted
    between two actions, a pattern would silently leave out its rows, while a single path raises an error.
    """
    if is_connect(spark):
        return [_literal_path(table, path) for path in files]
    return _name_by_patterns(table, files)


def _name_by_patterns(table: TableState, files: Sequence[str]) -> list[str]:
    """Return a few glob patterns `{first,second}` that name all files, because each path passed to Spark costs a JVM call.

    There are at least two patterns, because Spark checks whether a single path is the output folder of a stream. For a pattern
    this check logs a warning with a long stack trace. A file with special characters in its path is passed by itself.
    """
    base_path = table.base_path
    simple = [path for path in files if _SIMPLE.fullmatch(path)] if _SIMPLE.fullmatch(base_path) else []
    relative = [path[len(base_path) + 1 :] for path in simple]
    half = -(-len(relative) // 2)
    size = min(_NAMES_PER_PATTERN, half) or 1
    names = []
    for start in range(0, len(relative), size):
        names.append(f"{spark_path(table, base_path)}/{{{','.join(relative[start : start + size])}}}")
    named = set(simple)
    return names + [_literal_path(table, path) for path in files if path not in named]


def _literal_path(table: TableState, path: str) -> str:
    """Return the path of a file in the form that Spark needs: with its scheme, and characters of glob patterns escaped."""
    return _PATTERN.sub(r"\\\g<0>", spark_path(table, path))


@contextmanager
def _listing_on_driver(spark: SparkSession, paths: int) -> Iterator[None]:
    """Within the `with` block, keep Spark from starting a job to list paths, by raising its listing threshold.

    A listing job is wasted work, since all paths are files.

    Args:
        paths: the number of paths.
    """
    before = spark.conf.get(_LISTING_THRESHOLD)
    spark.conf.set(_LISTING_THRESHOLD, str(paths + 1))
    try:
        yield
    finally:
        spark.conf.set(_LISTING_THRESHOLD, before or str(_MANY_FILES))
