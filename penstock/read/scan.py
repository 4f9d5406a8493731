"""From file slices to a DataFrame: Spark's own Parquet reader over an explicit list of files; those with logs go by `merged.py`.

Partition columns are given as an expression over the file's path where path and value map one to one, so that a filter
put on them later, through `where`, a view or SQL, is evaluated on the list of files before any is opened.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from penstock import options as o
from penstock.columns import conform, quoted
from penstock.errors import CorruptFile, PenstockError
from penstock.filegroup.log.scan import committed_times
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import check_slice
from penstock.merge.kernels.gather import Positions
from penstock.read.commit_time_filter import only_changes
from penstock.read.log_slices import merged_frames
from penstock.read.meta_columns import COMMIT_TIME
from penstock.read.partition_values import SCHEME, PartitionColumns, path_columns
from penstock.read.plan import QueryPlan
from penstock.read.skip_rows import leave_out
from penstock.read.widened_types import older_types
from penstock.schema import META_COLUMNS, avro_to_spark
from penstock.spread.session import is_connect
from penstock.table import TableState

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MANY_FILES = 32
_NAMES_PER_PATTERN = 128
#: Log files up to which all are looked at before workers read them.
_FEW_LOGS = 64
#: Hudi writes days and times of the calendar that Spark has, also those long ago.
_AS_WRITTEN = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
#: What Hadoop takes for a part of a pattern.
_PATTERN = re.compile(r"[{}\[\]*?\\]")
#: Paths whose characters mean nothing to it, nor between the braces of one.
_SIMPLE = re.compile(r"[A-Za-z0-9_.=/-]*")


def scan(spark: SparkSession, plan: QueryPlan) -> DataFrame:
    """A lazy DataFrame over the plan's files: meta columns, then the table's columns in the schema's order."""
    schema = _wanted(plan, table_struct(plan))
    if not any(plan.slices.values()):
        return spark.createDataFrame([], schema)
    columns = path_columns(plan, schema, spark.version)
    older = older_types(plan, schema)

    def base_rows(slices: Iterable[FileSlice], touched: Mapping[FileSlice, Positions]) -> list[DataFrame]:
        branches: dict[tuple[frozenset[str], tuple[StructField, ...]], list[FileSlice]] = {}
        for one in slices:
            its_types = older.get(one.base_file.instant, ()) if one.base_file else ()
            branches.setdefault((columns.nulls_of(one.partition_path), its_types), []).append(one)
        return [_branch(spark, plan.table, its, schema, columns, *how, touched) for how, its in branches.items()]

    frames = base_rows((one for its in plan.slices.values() for one in its if not one.log_files), {})
    _check_logs(plan)
    frames += merged_frames(spark, plan, schema, columns, lambda touched: base_rows(touched, touched))
    return only_changes(reduce(lambda one, other: one.unionByName(other), frames), plan)


def _check_logs(plan: QueryPlan) -> None:
    """Tell damage of log files now, in words of ours, where a look at all of them takes no time worth mentioning.

    What workers find later comes out of Spark as text inside an error of its own. It is an error now if every query would meet
    it, and a warning where a filter may leave that partition out.
    """
    slices = [one for its in plan.slices.values() for one in its if one.log_files]
    if sum(len(one.log_files) for one in slices) > _FEW_LOGS:
        return
    times = committed_times(plan.table.timeline, plan.query.as_of)
    for one in slices:
        try:
            check_slice(plan.table.storage, one, times)
        except PenstockError as problem:
            if len(plan.slices) == 1:
                raise
            where = f"a query that reads partition {one.partition_path!r} of {plan.table.base_path} fails"
            warnings.warn(f"{where}: {problem}", RuntimeWarning, stacklevel=2)


def _branch(
    spark: SparkSession,
    table: TableState,
    slices: Sequence[FileSlice],
    schema: StructType,
    columns: PartitionColumns,
    nulls: frozenset[str],
    older: tuple[StructField, ...],
    touched: Mapping[FileSlice, Positions],
) -> DataFrame:
    """The rows of files in whose partitions the same columns are null, and which hold the same columns in older types.

    Args:
        touched: rows to leave out, if any.
    """
    native = columns.native_base if not nulls else None
    kinds = {f.name: f.dataType for f in older if f.name not in columns.places}
    stored = [StructField(f.name, kinds.get(f.name, f.dataType)) for f in schema if native or f.name not in columns.not_stored]
    frame = _parquet(spark, table, slices, StructType(stored), native)
    selected = [_column(f, columns, nulls, kinds.get(f.name)) for f in schema]
    left_out = {one: touched[one] for one in slices if one in touched}
    return leave_out(frame, selected, left_out) if left_out else frame.select(*selected)


def _column(wanted: StructField, columns: PartitionColumns, nulls: frozenset[str], older: DataType | None) -> Column | str:
    """A column of the answer; a plain name where the file holds just that, which is the least work for Spark's front."""
    if not columns.is_stored(wanted.name, nulls):
        return columns.column(wanted, nulls).alias(wanted.name)
    if older is None:
        return quoted(wanted.name)
    return conform(F.col(quoted(wanted.name)), older, wanted.dataType, wanted.name).alias(wanted.name)


def _wanted(plan: QueryPlan, schema: StructType) -> StructType:
    """The columns that come out; where logs are merged, only those that the caller named: Spark cannot leave any out later."""
    names = None if plan.query.options[o.INCREMENTAL_FILTERS] else plan.query.columns  # a condition may be on any column
    if not names or not set(names) <= set(schema.names) or not any(one.log_files for its in plan.slices.values() for one in its):
        return schema
    needed = {*names, COMMIT_TIME} if plan.changes else set(names)
    return StructType([field for field in schema if field.name in needed])


def table_struct(plan: QueryPlan) -> StructType:
    """The columns a query gives back."""
    meta = [StructField(name, StringType()) for name in META_COLUMNS]
    if plan.schema is None:
        return StructType(meta)
    struct = StructType.fromJson(avro_to_spark(json.loads(plan.schema)))
    fields = [f for f in struct if f.name not in META_COLUMNS]
    if plan.table.config.drop_partition_columns:
        names = {f.name for f in fields}
        fields += [StructField(p, StringType()) for p in plan.table.config.partition_fields if p not in names]
    return StructType([*meta, *(StructField(f.name, f.dataType) for f in fields)])


def _parquet(
    spark: SparkSession, table: TableState, slices: Sequence[FileSlice], schema: StructType, base: str | None
) -> DataFrame:
    """Spark's own reader over these files; with `base`, folders below it are Spark's partition columns."""
    files = [s.base_file.path for s in slices if s.base_file]
    reader = spark.read.format("parquet").schema(schema).options(**_AS_WRITTEN)
    if base is not None:
        reader = reader.option("basePath", base)
    if len(files) <= _MANY_FILES:
        return reader.load([_literal(path) for path in files])
    with _listing_on_driver(spark, len(files)):
        frame = reader.load(_many_names(spark, files, table.base_path))
    for path in files:
        if table.storage.stat(path) is None:
            raise CorruptFile(f"{path} was removed while a query over it was planned; run the query again")
    return frame


def _many_names(spark: SparkSession, files: Sequence[str], base_path: str) -> list[str]:
    """What many files are called. Connect lists them with every query, and then a file that is gone has to fail it."""
    return [_literal(path) for path in files] if is_connect(spark) else _few_names(files, base_path)


def _few_names(files: Sequence[str], base_path: str) -> list[str]:
    """Many files as a few patterns `{one,other}`: every name handed to Spark costs a call to the JVM.

    A file that is missing does not fail a pattern, so who uses them looks for the files afterwards. Names come but once:
    a file that is there then was there all the time. There are two patterns at least: a single one Spark takes for a folder
    that a stream may have written, and warns of with a page of its stack.
    """
    inside = [path for path in files if _SIMPLE.fullmatch(path)] if _SIMPLE.fullmatch(base_path) else []
    within = [path[len(base_path) + 1 :] for path in inside]
    size = min(_NAMES_PER_PATTERN, -(-len(within) // 2)) or 1
    chunks = (within[at : at + size] for at in range(0, len(within), size))
    known = set(inside)
    return [f"{SCHEME}{base_path}/{{{','.join(names)}}}" for names in chunks] + [_literal(f) for f in files if f not in known]


def _literal(path: str) -> str:
    """A path in which Spark finds no pattern, and which is a local one whatever the cluster's default is."""
    return SCHEME + _PATTERN.sub(r"\\\g<0>", path)


@contextmanager
def _listing_on_driver(spark: SparkSession, paths: int) -> Iterator[None]:
    """Spark starts a job to look at more than a few dozen paths; we know that they are files."""
    before = spark.conf.get(_LISTING_THRESHOLD)
    spark.conf.set(_LISTING_THRESHOLD, str(paths + 1))
    try:
        yield
    finally:
        spark.conf.set(_LISTING_THRESHOLD, before or str(_MANY_FILES))
