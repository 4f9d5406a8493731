"""Base files as DataFrames, by Spark's own Parquet reader over an explicit list of files.

Files are grouped into branches, one DataFrame each: files hold the same columns in older types (`widened_types.py`), and lie in
partitions where the same partition columns are null (`partition_values.py`). Partition columns are expressions over the file's
path where path and value map one to one, so that a filter put on them later, by `where`, a view or SQL, is evaluated on the list
of files before any is opened.
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
from penstock.read.partition_values import SCHEME, PartitionColumns
from penstock.read.plan import QueryPlan
from penstock.read.skip_rows import skip_rows
from penstock.spread.session import is_connect
from penstock.table import TableState

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
#: Spark's default of that setting, and the number of files up to which each is named to Spark by itself.
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
    """What every DataFrame of one query is made with."""

    spark: SparkSession
    plan: QueryPlan
    #: The columns of the answer.
    schema: StructType
    partition_columns: PartitionColumns
    #: Instant → the columns that base files of this instant hold in an older type than the schema has.
    older_types: Mapping[str, tuple[StructField, ...]]


class _Branch(NamedTuple):
    """What the files of one DataFrame have in common."""

    #: Partition columns that are null or empty in these files.
    nulls: frozenset[str]
    #: Columns in older types.
    older: tuple[StructField, ...]


def read_base_files(
    scan: TableScan, slices: Iterable[FileSlice], touched: Mapping[FileSlice, Positions] | None = None
) -> list[DataFrame]:
    """Return the rows of the slices' base files in the columns of the answer, as one DataFrame for each branch.

    Args:
        touched: the rows of each slice's base file that are left out, because its log changes them. None: no rows.
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
    """Return a column of the answer. A plain name, where the file holds just that: analysing it costs Spark least."""
    if not columns.is_stored(wanted.name, nulls):
        return columns.column(wanted, nulls).alias(wanted.name)
    if older is None:
        return quoted(wanted.name)
    return conform(F.col(quoted(wanted.name)), older, wanted.dataType, wanted.name).alias(wanted.name)


def _read_parquet(
    spark: SparkSession, table: TableState, slices: Sequence[FileSlice], schema: StructType, native_base: str | None
) -> DataFrame:
    """Return Spark's scan of the slices' base files. With `native_base`, folders below it are Spark's partition columns."""
    files = [file_slice.base_file.path for file_slice in slices if file_slice.base_file]
    reader = spark.read.format("parquet").schema(schema).options(**_REBASE_MODES)
    if native_base is not None:
        reader = reader.option("basePath", native_base)
    if len(files) <= _MANY_FILES:
        return reader.load([_literal_path(path) for path in files])
    with _listing_on_driver(spark, len(files)):
        frame = reader.load(_name_files(spark, files, table.base_path))
    # A pattern drops a missing file without an error. File names are never used twice, so that a file that is there now was
    # there when Spark listed the patterns.
    for path in files:
        if table.storage.stat(path) is None:
            raise CorruptFile(f"{path} was removed while a query over it was planned; run the query again")
    return frame


def _name_files(spark: SparkSession, files: Sequence[str], base_path: str) -> list[str]:
    """Return what many files are called to Spark.

    A Connect session lists the files again with every action. A pattern would then drop a file that was removed since, and its
    rows with it, so each file gets its own name.
    """
    if is_connect(spark):
        return [_literal_path(path) for path in files]
    return _name_by_patterns(files, base_path)


def _name_by_patterns(files: Sequence[str], base_path: str) -> list[str]:
    """Return many files as a few patterns `{first,second}`: every name handed to Spark costs a call to the JVM.

    There are at least two patterns: Spark takes a single one for a folder that a stream may have written, and prints a warning
    with a page of its stack. A file with special characters in its path is named by itself.
    """
    simple = [path for path in files if _SIMPLE.fullmatch(path)] if _SIMPLE.fullmatch(base_path) else []
    relative = [path[len(base_path) + 1 :] for path in simple]
    half = -(-len(relative) // 2)
    size = min(_NAMES_PER_PATTERN, half) or 1
    names = []
    for start in range(0, len(relative), size):
        names.append(f"{SCHEME}{base_path}/{{{','.join(relative[start : start + size])}}}")
    named = set(simple)
    return names + [_literal_path(path) for path in files if path not in named]


def _literal_path(path: str) -> str:
    """Return a path in which Spark finds no pattern, and which is local whatever the cluster's default file system is."""
    return SCHEME + _PATTERN.sub(r"\\\g<0>", path)


@contextmanager
def _listing_on_driver(spark: SparkSession, paths: int) -> Iterator[None]:
    """Keep Spark from starting a job that lists the paths: they are known to be files."""
    before = spark.conf.get(_LISTING_THRESHOLD)
    spark.conf.set(_LISTING_THRESHOLD, str(paths + 1))
    try:
        yield
    finally:
        spark.conf.set(_LISTING_THRESHOLD, before or str(_MANY_FILES))
