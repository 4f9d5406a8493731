"""Slices with log files as DataFrames.

Each slice is read in one of three ways:

1. Workers read the log alone: in an incremental query whose range begins after the base file was written.
2. Spark reads the base file, and workers read the log: if the log names the positions of the rows that it touches (changes or
   deletes). Spark leaves out those rows (`skip_rows.py`), and can still push down filters and columns. Workers return the rows of
   the keys in the log: the log's own rows if the log always wins over the base file, otherwise the touched base rows merged with
   the log. If base rows must be merged and the log touches a large part of the base file, the slice is read in the third way.
3. Workers merge the whole slice: in all other cases. Rows reach Spark as Arrow.

Spark cannot push a filter or a choice of columns through Python. So, where possible, filters and columns are applied before
workers start. If partitions are few, and large or on a storage that Spark cannot read, each has a DataFrame of its own whose
partition columns are literals, and Spark drops the DataFrames that a filter excludes. Partitions whose logs the driver has found
damaged have DataFrames of their own, too, so that a query with a filter for other partitions does not read them. Damage that only
a worker finds is sent to Spark as a row (`late_errors.py`), which such a filter drops. If the caller names the wanted columns,
workers read no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from penstock.columns import quoted
from penstock.error_text import read_error
from penstock.errors import CorruptFile, PenstockError, Unsupported
from penstock.filegroup.fill_meta_columns import KEY_COLUMN, NUMBER
from penstock.filegroup.log.scan import BlockInFile, LogScan
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules, read_log_rows, read_merged_rows, read_touched_rows
from penstock.formats.cast import fit_to_schema
from penstock.formats.log import HeaderKey
from penstock.merge.kernels.gather import Positions
from penstock.read.base_files import TableScan, read_base_files
from penstock.read.late_errors import add_error_column, append_error, raise_late_errors
from penstock.read.meta_encoding import MetaEncoding, choose_encoding, decode_columns, encode_rows, encoded_schema
from penstock.read.partition_values import PartitionColumns
from penstock.read.plan import QueryPlan
from penstock.read.row_readers import RowReader, build_query_rules, choose_log_reader, keep_changed_rows
from penstock.schema import META_COLUMNS, spark_to_arrow
from penstock.storage import Storage
from penstock.table.listing import group_by_partition
from penstock.timeline.history import InstantRange
from penstock.workers.prepare import prepare_workers
from penstock.workers.session_settings import count_cores

PARTITION_COLUMN = META_COLUMNS[3]
#: Each partition has its own DataFrame if there are at most this many partitions, and workers read at least this many bytes per
#: partition on average: planning a DataFrame takes up to a tenth of a second. On a storage that Spark cannot read there is no
#: least size, because a file that need not be read saves requests, each of which takes as long and is paid for.
_MOST_PARTITION_FRAMES = 16
_LEAST_PARTITION_BYTES = 64 * 1024 * 1024
_TASKS_PER_CORE = 4
#: Bytes of files that one Spark task merges, if slices are small.
_TASK_BYTES = 256 * 1024 * 1024
#: The most rows of base files that `skip_rows` may number. It sends one bit for each to every executor: 16 MiB.
_MOST_SKIPPABLE_ROWS = 128 * 1024 * 1024
#: The largest share of touched rows for which a base file is read twice: all of it by Spark, the touched rows by workers.
_MOST_TOUCHED_SHARE = 0.25


@dataclass(frozen=True)
class _WorkerRead:
    """The work of all tasks of one DataFrame: which slices and columns workers read, and how they send the rows to Spark.

    Pickled to the workers.
    """

    storage: Storage
    slices: tuple[FileSlice, ...]
    rules: MergeRules
    #: The columns that workers read, in the Arrow types that Spark expects.
    schema: pa.Schema
    read_rows: RowReader
    encoding: MetaEncoding
    #: Columns whose values come from the folders. They are sent as text, and what the files hold there is ignored.
    folder_columns: PartitionColumns
    #: What the driver found in the headers of the slices' logs.
    log_scans: Mapping[FileSlice, LogScan] = field(default_factory=dict)
    #: Only rows that were written in this range are sent.
    changes: InstantRange | None = None
    #: Whether damage is sent as a row. If not, it is raised in the worker.
    sends_damage: bool = False


def read_log_slices(scan: TableScan) -> list[DataFrame]:
    """Return DataFrames over the plan's slices with log files, with the columns of `scan.schema`. The caller unions them."""
    plan = scan.plan
    if not plan.slices_with_logs:
        return []
    rules = build_query_rules(plan)
    log_only = [file_slice for file_slice in plan.slices_with_logs if plan.needs_only_log(file_slice)]
    with_base = [file_slice for file_slice in plan.slices_with_logs if not plan.needs_only_log(file_slice)]
    # Spark tells the rows of a file apart by its column `_metadata`, which a column of the table may hide.
    hides_metadata = any(name.lower() == "_metadata" for name in scan.schema.names)
    touched = {} if hides_metadata else _choose_skipped_rows(plan.touched, rules)
    merged = [file_slice for file_slice in with_base if file_slice not in touched]
    read_known_rows = choose_log_reader(rules)
    return [
        *_read_in_workers(scan, log_only, rules, read_known_rows),
        *read_base_files(scan, touched, touched),
        *_read_in_workers(scan, list(touched), rules, read_known_rows),
        *_read_in_workers(scan, merged, rules, read_merged_rows),
    ]


def read_slices_in_workers(scan: TableScan) -> list[DataFrame]:
    """Return DataFrames over all slices of the plan. Workers read all files, because Spark cannot read the table's storage."""
    slices = scan.plan.all_slices
    log_only = [file_slice for file_slice in slices if file_slice.log_files and scan.plan.needs_only_log(file_slice)]
    merged = [file_slice for file_slice in slices if file_slice not in log_only]
    rules = build_query_rules(scan.plan)
    read_known_rows = choose_log_reader(rules)
    return [
        *_read_in_workers(scan, log_only, rules, read_known_rows, least_partition_bytes=0),
        *_read_in_workers(scan, merged, rules, read_merged_rows, least_partition_bytes=0),
    ]


def _choose_skipped_rows(touched: Mapping[FileSlice, Positions], rules: MergeRules) -> dict[FileSlice, Positions]:
    """Choose the slices whose base files Spark reads itself; return each with the positions of the rows that Spark leaves out.

    The result is empty if the base files have too many rows: `skip_rows` sends one bit per row to every executor.

    Args:
        touched: slice → positions of the base file's rows that its log changes or deletes.
        rules: how base files and logs are merged. If the log always wins, more slices are chosen.
    """
    chosen: dict[FileSlice, Positions] = {}
    for file_slice, positions in touched.items():
        if _is_worth_skipping(positions, rules):
            chosen[file_slice] = positions
    rows = sum(int(positions.max(initial=0)) for positions in chosen.values())
    return chosen if rows <= _MOST_SKIPPABLE_ROWS else {}


def _is_worth_skipping(positions: Positions, rules: MergeRules) -> bool:
    """Whether Spark should read a base file itself and leave out the rows at `positions`, which its log changes or deletes.

    - True if the log always wins over the base file: workers then need not read the base file.
    - Otherwise true if the log changes few rows: workers read only these rows a second time.
    - False in any case if a position is too great for `skip_rows`.
    """
    # The bound comes first: a position from a file may be any number, and the share allocates up to the greatest.
    if positions.max(initial=0) > _MOST_SKIPPABLE_ROWS:
        return False
    return rules.lets_logs_win or _touched_share(positions) <= _MOST_TOUCHED_SHARE


def _touched_share(positions: Positions) -> float:
    """Estimate the share of a base file's rows that its log changes or deletes, from 0 to 1.

    The number of rows in the file is not known here, so the last row of `positions` counts as the last row of the file.
    """
    if not len(positions):
        return 0.0
    is_touched = np.zeros(1 + int(positions.max()), np.bool_)
    is_touched[positions] = True
    return int(is_touched.sum()) / len(is_touched)


def _read_in_workers(
    scan: TableScan,
    slices: Sequence[FileSlice],
    rules: MergeRules,
    read_rows: RowReader,
    least_partition_bytes: int = _LEAST_PARTITION_BYTES,
) -> list[DataFrame]:
    """Return DataFrames of the rows that workers read from the slices.

    There is one DataFrame for all slices; or one per partition if partitions are few and large, or if files do not store the
    partition columns. Partitions with damaged logs always have a DataFrame of their own.

    Args:
        rules: how workers merge base files and logs.
        read_rows: the function that yields the rows of one slice in a worker.
        least_partition_bytes: partitions are large if workers read at least this much of each on average.
    """
    damaged = [file_slice for file_slice in slices if file_slice in scan.plan.damaged]
    if damaged:
        whole = [file_slice for file_slice in slices if file_slice not in scan.plan.damaged]
        by_path = group_by_partition(damaged)
        apart = [_read_partition(scan, path, by_path[path], rules, read_rows) for path in by_path]
        return [*_read_in_workers(scan, whole, rules, read_rows, least_partition_bytes), *apart]
    if not slices:
        return []
    by_path = group_by_partition(slices)
    is_large = _bytes_read(slices, read_rows) >= least_partition_bytes * len(by_path)
    # Columns that no file stores exist only as literals of a partition.
    if (is_large and len(by_path) <= _MOST_PARTITION_FRAMES) or scan.partition_columns.not_stored:
        return [_read_partition(scan, path, by_path[path], rules, read_rows) for path in by_path]
    return [_read_columns(scan, slices, rules, read_rows, scan.schema, scan.partition_columns)]


def _read_partition(
    scan: TableScan, path: str, slices: Sequence[FileSlice], rules: MergeRules, read_rows: RowReader
) -> DataFrame:
    """Return a DataFrame over the slices of the partition `path`. Columns whose values are in the path become literals.

    Args:
        read_rows: the function that yields the rows of one slice in a worker.
    """
    columns = scan.partition_columns
    literals = {*columns.places, PARTITION_COLUMN} - columns.nulls_of(path)
    stored = StructType([field for field in scan.schema if field.name not in literals])
    frame = _read_columns(scan, slices, rules, read_rows, stored, PartitionColumns())
    selected: list[Column | str] = []
    for name in scan.schema.names:
        if name == PARTITION_COLUMN:
            selected.append(F.lit(path).alias(name))
        else:
            selected.append(columns.column_in(scan.schema[name], path))
    return frame.select(*selected)


def _read_columns(
    scan: TableScan,
    slices: Sequence[FileSlice],
    rules: MergeRules,
    read_rows: RowReader,
    schema: StructType,
    folder_columns: PartitionColumns,
) -> DataFrame:
    """Return a DataFrame whose rows workers read from the slices, with those columns of `schema` that the table's files have.

    Args:
        read_rows: the function that yields the rows of one slice in a worker.
        folder_columns: the columns whose values come from the partition path instead of the files.
    """
    plan = scan.plan
    in_files = set(rules.arrow.names)
    # A row needs one column at least, if only to be counted.
    stored = StructType([f for f in schema if f.name in in_files] or [StructField(KEY_COLUMN, StringType())])
    sent = StructType([StructField(f.name, StringType()) if f.name in folder_columns.places else f for f in stored])
    times = [instant.time for instant in plan.table.timeline.writes]
    encoding = choose_encoding(sent, slices, times, plan.table.config.record_key_fields)
    # Largest slices first: tasks take slices in turn, so that each gets about the same amount.
    ordered = sorted(slices, key=lambda file_slice: _bytes_read([file_slice], read_rows), reverse=True)
    work = _WorkerRead(
        plan.table.storage,
        tuple(ordered),
        rules,
        spark_to_arrow(stored.jsonValue()),
        read_rows,
        encoding,
        folder_columns,
        _scans_for_workers(plan, slices, read_rows),
        plan.changes,
        _may_exclude_partitions(sent, slices, folder_columns),
    )
    prepare_workers(scan.spark)
    tasks = _count_tasks(scan.spark, len(slices), _bytes_read(slices, read_rows))
    numbers = scan.spark.range(0, tasks, 1, tasks)
    schema_of_rows = encoded_schema(sent, encoding)
    if work.sends_damage:
        known = {*folder_columns.places, PARTITION_COLUMN, PARTITION_COLUMN + NUMBER}
        frame = numbers.mapInArrow(partial(_run_tasks, work, tasks), add_error_column(schema_of_rows))
        frame = raise_late_errors(frame, schema_of_rows, known)
    else:
        frame = numbers.mapInArrow(partial(_run_tasks, work, tasks), schema_of_rows)
    return frame.select(*map(_cast_back, stored, sent, decode_columns(sent, encoding)))


def _may_exclude_partitions(sent: StructType, slices: Sequence[FileSlice], folder_columns: PartitionColumns) -> bool:
    """Whether a later filter may exclude some partitions of the slices.

    True if the slices are in several partitions, and a sent column identifies the partition of a row.

    Args:
        sent: the columns that workers send.
        folder_columns: the columns whose values come from the partition path.
    """
    tells_partition = any(name == PARTITION_COLUMN or name in folder_columns.places for name in sent.names)
    return tells_partition and len({file_slice.partition_path for file_slice in slices}) > 1


def _scans_for_workers(plan: QueryPlan, slices: Sequence[FileSlice], read_rows: RowReader) -> dict[FileSlice, LogScan]:
    """Return slice → the block headers that the driver has read, for those of `slices` whose headers it has read.

    Record positions are left out if workers do not use them: they are most of the headers' size, and every task receives the
    headers of all slices.

    Args:
        read_rows: the function that yields the rows of one slice in a worker.
    """
    scans: dict[FileSlice, LogScan] = {}
    for file_slice in slices:
        log_scan = plan.log_scans.get(file_slice)
        if log_scan is not None:
            scans[file_slice] = log_scan if read_rows is read_touched_rows else _without_positions(log_scan)
    return scans


def _without_positions(log_scan: LogScan) -> LogScan:
    """Return a copy of a slice's block headers without the record positions, which are most of their size."""
    blocks: list[BlockInFile] = []
    for file, block in log_scan.blocks:
        header = {key: text for key, text in block.header.items() if key != HeaderKey.RECORD_POSITIONS}
        blocks.append(BlockInFile(file, replace(block, header=header)))
    return replace(log_scan, blocks=tuple(blocks))


def _cast_back(wanted: StructField, sent: StructField, column: Column | str) -> Column | str:
    """Return an expression that casts a column from the type in which workers send it to the type that the query wants.

    The types differ only for a column whose value comes from the partition path: workers send it as a string.

    Args:
        wanted: the column with the type of the query.
        sent: the column with the type in which workers send it.
        column: an expression for the column as workers send it.
    """
    if wanted.dataType == sent.dataType:
        return column
    return F.col(quoted(wanted.name)).cast(wanted.dataType).alias(wanted.name)


def _count_tasks(spark: SparkSession, slices: int, size_bytes: int) -> int:
    """Return the number of Spark tasks that share the slices: 4 per core, or one per 256 MiB if that is more.

    It never exceeds the number of slices.

    Args:
        slices: the number of slices.
        size_bytes: the bytes that workers read from all slices.
    """
    balanced = _TASKS_PER_CORE * (count_cores(spark.conf) or slices)
    return min(slices, max(balanced, size_bytes // _TASK_BYTES))


def _bytes_read(slices: Sequence[FileSlice], read_rows: RowReader) -> int:
    """Estimate how many bytes workers read: the log files, and the base files unless `read_rows` reads the log alone."""
    log_bytes = sum(file_slice.log_bytes for file_slice in slices)
    if read_rows is read_log_rows:
        return log_bytes
    return log_bytes + sum(file_slice.base_bytes for file_slice in slices)


def _run_tasks(work: _WorkerRead, tasks: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each task whose number is in `batches`. Runs in workers.

    Args:
        tasks: the number of all tasks. Task n reads slices n, n + `tasks`, n + 2 * `tasks` and so on.
        batches: record batches whose first column holds task numbers.
    """
    for batch in batches:
        for number in batch.column(0).to_pylist():  # task numbers, not rows of the table
            for file_slice in work.slices[number::tasks]:
                yield from _send_slice(work, file_slice)


def _send_slice(work: _WorkerRead, file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one slice as record batches, with the columns that workers send to Spark. Runs in workers.

    Rows out of the range of an incremental query are left out. An error names the file group.
    """
    log_scan = work.log_scans.get(file_slice)
    try:
        for rows in work.read_rows(work.storage, file_slice, work.rules, work.schema.names, log_scan):
            wanted = keep_changed_rows(rows, work.changes) if work.changes else rows
            yield from _encode(work, fit_to_schema(wanted, work.schema), file_slice, None)
    except PenstockError as e:
        place = f"file group {file_slice.file_id} of partition {file_slice.partition_path!r}"
        problem = read_error(e, place)
        is_damage = isinstance(e, CorruptFile | Unsupported)
        # The rows of the default partition may hold nulls or empty strings: no row could stand for both.
        if not (work.sends_damage and is_damage) or work.folder_columns.nulls_of(file_slice.partition_path):
            raise problem from None  # the text holds the cause, and Spark shows only the end of a traceback
        nulls = pa.table([pa.nulls(1, field.type) for field in work.schema], names=work.schema.names)
        yield from _encode(work, nulls, file_slice, problem)


def _encode(work: _WorkerRead, rows: pa.Table, file_slice: FileSlice, problem: PenstockError | None) -> Iterator[pa.RecordBatch]:
    """Yield rows of one slice in the form in which workers send them to Spark. Runs in workers.

    Args:
        rows: rows of the slice; if `problem` is set, one row that is null in all columns.
        problem: the error that this one row reports. The row gets the values of the columns that identify the partition. None:
            there is no error.
    """
    if problem is not None and PARTITION_COLUMN in rows.column_names:
        at = rows.schema.get_field_index(PARTITION_COLUMN)
        rows = rows.set_column(at, PARTITION_COLUMN, pa.array([file_slice.partition_path]))
    placed = work.folder_columns.with_texts(rows, file_slice.partition_path)
    encoded = encode_rows(placed, work.encoding)
    if work.sends_damage:
        encoded = append_error(encoded, problem)
    yield from encoded.to_batches()
