"""Brings incoming rows to the workers: through Spark, or directly from Parquet files if the DataFrame only reads these files.

Sending a row from the JVM to a Python worker costs more than everything a write does with the row afterwards. If the DataFrame is
just `spark.read.parquet(path)` of local files, workers read the files with Arrow, and Spark only runs the tasks. Rows go through
Spark whenever Spark could read other values than Arrow: with an option of the reader, a type that is converted, a partition
column from the name of a folder, dates in the old calendar of Spark 2, or cached rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import CorruptFile, PenstockError
from penstock.storage import Storage, open_storage
from penstock.workers.run_kernels import Result, RowKernel, run_over_rows
from penstock.workers.runner import Runner
from penstock.workers.session_settings import count_cores

#: The attribute that `mark_bare` sets on a DataFrame.
_MARK = "_penstock_bare_parquet"
_BATCH_ROWS = 64 * 1024
#: With more files than this, reading all footers first would take longer than it saves.
_MOST_FILES = 1_000
_FOOTER_THREADS = 8
#: How many bytes one task reads if Spark's settings do not say how many cores there are.
_TASK_BYTES = 32 * 1024 * 1024
#: Keys in the footer of files whose dates or timestamps are in the old calendar. Spark converts these values when it reads them.
_LEGACY_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
#: Session settings with which Spark may return other rows than the files hold, and the values with which it does not.
_HARMLESS_VALUES = {
    "spark.sql.parquet.datetimeRebaseModeInRead": ("EXCEPTION", "CORRECTED"),
    "spark.sql.files.ignoreCorruptFiles": ("FALSE",),
    "spark.sql.files.ignoreMissingFiles": ("FALSE",),
    "spark.sql.parquet.fieldId.read.enabled": ("FALSE",),
}
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True)
class FilePart:
    """Consecutive row groups of one input Parquet file, which one task reads."""

    path: str
    row_groups: tuple[int, ...]
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class InputFiles:
    """The Parquet files of the incoming rows, to be read by workers with Arrow instead of by Spark."""

    storage: Storage
    #: The parts of files that each task reads.
    tasks: tuple[tuple[FilePart, ...], ...]
    columns: tuple[str, ...]
    #: Whether the driver reads the files, because they are so small that a Spark job would take longer.
    on_driver: bool = False

    @property
    def rows(self) -> int:
        """The number of rows in all files."""
        return sum(sum(part.rows for part in task) for task in self.tasks)

    @property
    def size_bytes(self) -> int:
        """The uncompressed size of the row groups of all files, in bytes."""
        return sum(sum(part.size_bytes for part in task) for task in self.tasks)


@dataclass(frozen=True)
class _InputFile:
    """An input Parquet file with the metadata of its footer."""

    path: str
    metadata: pq.FileMetaData
    #: The size on storage, which is compressed.
    size_bytes: int


def mark_bare(frame: DataFrame) -> DataFrame:
    """Mark a DataFrame as a plain read of Parquet files, without reader options, and return it.

    `find_input_files` looks for the mark. DataFrames that are derived from this one, for example by a filter, do not have it, so
    Spark reads their rows.
    """
    setattr(frame, _MARK, True)
    return frame


class Incoming(Protocol):
    """The incoming rows of a write: a DataFrame (`rows`), and the Parquet files that hold the same rows (`files`).

    `files` is None if workers must receive the rows from Spark.
    """

    @property
    def rows(self) -> DataFrame: ...

    @property
    def files(self) -> InputFiles | None: ...


def run_over_incoming(spark: SparkSession, incoming: Incoming, kernel: RowKernel[Result], returns: type[Result]) -> list[Result]:
    """Split the incoming rows over tasks, call `kernel` in each task with its rows, and return the results of all tasks.

    The tasks read the rows from `incoming.files` if set, otherwise they receive them from Spark. Staging and bulk_insert call
    this.

    Args:
        kernel: a function that is called with an iterator over the record batches of one task, and returns its results.
        returns: the type of each result.
    """
    files = incoming.files
    if files is None:
        return run_over_rows(incoming.rows, kernel, returns)
    file_kernel = partial(_run_over_parts, kernel, files.storage, files.columns)
    return Runner(spark, on_driver=files.on_driver).collect(file_kernel, files.tasks, returns)


def _run_over_parts(
    kernel: RowKernel[Result], storage: Storage, columns: Sequence[str], parts: Sequence[FilePart]
) -> list[Result]:
    """Read the rows of these parts of input files, call `kernel` with them, and return its results. Runs in a task.

    Args:
        kernel: a function that is called with an iterator over record batches.
        columns: the names of the columns to read.
    """
    return list(kernel(_read_parts(storage, columns, parts)))


def _read_parts(storage: Storage, columns: Sequence[str], parts: Sequence[FilePart]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these parts of input files, with these columns, in record batches.

    Raises:
        CorruptFile: a file cannot be read as Parquet.
    """
    for part in parts:
        try:
            file = pq.ParquetFile(storage.open(part.path), pre_buffer=False)
            yield from file.iter_batches(_BATCH_ROWS, row_groups=list(part.row_groups), columns=list(columns), use_threads=False)
        except (pa.ArrowException, OSError) as e:
            if isinstance(e, PenstockError):
                raise
            raise CorruptFile(f"input file {part.path} cannot be read as Parquet: {e}") from e


def find_input_files(incoming: DataFrame, expected: pa.Schema) -> InputFiles | None:
    """Return the Parquet files that workers can read instead of Spark; None if Spark must read the rows.

    Workers can read the files if the DataFrame is a marked read (`mark_bare`) of at most 1,000 local files, Spark would return
    exactly the values that the files hold, and each file has the expected columns. Reads the footers of all files.

    Args:
        expected: the columns that the write needs, with the types that the files must have.
    """
    if getattr(incoming, _MARK, None) is not True or _is_cached(incoming) or not _is_harmless(incoming.sparkSession):
        return None
    paths = _local_paths(incoming)
    if not paths or len(paths) > _MOST_FILES:
        return None
    storage, _ = open_storage(paths[0])
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        found = list(pool.map(partial(_read_footer, storage, expected), sorted(paths)))
    files = [file for file in found if file is not None]
    if len(files) < len(found):
        return None
    total_bytes = sum(file.size_bytes for file in files)
    task_bytes, open_cost = _task_bytes(incoming.sparkSession.conf, total_bytes)
    return InputFiles(storage, tuple(_pack_tasks(files, task_bytes, open_cost)), tuple(expected.names))


def _is_cached(frame: DataFrame) -> bool:
    """Whether the DataFrame is cached by Spark, so that its rows may differ from those of the files."""
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk or level.useOffHeap)


def _is_harmless(spark: SparkSession) -> bool:
    """Whether Spark, with the settings of this session, returns exactly the rows that the Parquet files hold.

    Some settings make Spark convert dates, or skip files that are missing or corrupt.
    """
    return all(str(spark.conf.get(key, values[0])).upper() in values for key, values in _HARMLESS_VALUES.items())


def _local_paths(incoming: DataFrame) -> list[str]:
    """Return the local paths of the files that a DataFrame reads.

    Return an empty list if a file is not local, or if a folder of its path is a partition folder, for example `day=1`. Then Spark
    must read the files.
    """
    paths = []
    for uri in incoming.inputFiles():
        match = re.match("^file:/+(.*)$", uri, re.DOTALL)
        if match is None:
            return []
        path = "/" + unquote(match[1])
        if _has_partition_folder(path, incoming.columns):
            return []
        paths.append(path)
    return paths


def _has_partition_folder(path: str, columns: Iterable[str]) -> bool:
    """Whether a folder of the path is named `column=value` for one of the columns.

    Spark reads the column of a partition folder from the name of the folder, not from the file.
    """
    folders = os.path.dirname(path).split("/")
    named = {folder.partition("=")[0].lower() for folder in folders if "=" in folder}
    return any(column.lower() in named for column in columns)


def _read_footer(storage: Storage, expected: pa.Schema, path: str) -> _InputFile | None:
    """Return the input file with its footer; None if Spark must read the file.

    Spark must read a file that lacks an expected column or has it with another type, that holds dates in the old calendar, or
    that cannot be opened.
    """
    try:
        with storage.open(path) as source:
            size = source.size()
            file = pq.ParquetFile(source, pre_buffer=False)
            metadata = file.metadata
            schema = file.schema_arrow
    except (pa.ArrowException, OSError):
        return None  # Spark reads the file, and raises its own error
    footer_keys = metadata.metadata or {}
    spark_version = footer_keys.get(b"org.apache.spark.version", b"9")
    if any(key in footer_keys for key in _LEGACY_KEYS) or int(spark_version.split(b".")[0]) < 3:
        return None
    for field in expected:
        indexes = schema.get_all_field_indices(field.name)
        if len(indexes) != 1 or not schema.field(indexes[0]).type.equals(field.type):
            return None
    return _InputFile(path, metadata, size)


def _task_bytes(conf: Any, total_bytes: int) -> tuple[int, int]:
    """Return the two numbers of bytes by which Spark splits files over tasks: the most that a task reads, and the open cost.

    The first is `spark.sql.files.maxPartitionBytes`, or less so that all cores have work. The second is
    `spark.sql.files.openCostInBytes`: each file that a task opens counts as this many more bytes.

    Args:
        conf: the configuration of the Spark session.
        total_bytes: the size of all input files.
    """
    most = _parse_bytes(conf.get("spark.sql.files.maxPartitionBytes", "128m"))
    open_cost = _parse_bytes(conf.get("spark.sql.files.openCostInBytes", "4m"))
    cores = count_cores(conf)
    wanted = max(open_cost, total_bytes // cores) if cores else _TASK_BYTES
    return min(most, wanted), open_cost


def _parse_bytes(text: str) -> int:
    """Return the number of bytes of a Spark size string such as `128m`; `_TASK_BYTES` if it cannot be parsed."""
    match = re.match(r"^\s*(\d+)\s*([kmgt]?)b?\s*$", str(text).lower())
    if not match:
        return _TASK_BYTES
    return int(match[1]) << _UNITS[match[2]]


def _pack_tasks(files: Sequence[_InputFile], task_bytes: int, open_cost: int) -> Iterator[tuple[FilePart, ...]]:
    """Yield the file parts of each task. Small files share a task; a large file is cut between row groups.

    Args:
        task_bytes: the most bytes that a task reads, unless a single row group has more.
        open_cost: how many bytes are added to a task for each file part that it opens.
    """
    waiting: list[FilePart] = []
    weight = 0
    for file in files:
        for part, part_bytes in _cut_file(file, task_bytes):
            if waiting and weight + part_bytes > task_bytes:
                yield tuple(waiting)
                waiting = []
                weight = 0
            waiting.append(part)
            weight += part_bytes + open_cost
    if waiting:
        yield tuple(waiting)


def _cut_file(file: _InputFile, task_bytes: int) -> Iterator[tuple[FilePart, int]]:
    """Yield the parts of a file for several tasks, each with its size on storage. A part has one or more whole row groups.

    Args:
        task_bytes: the most bytes of a part with several row groups.
    """
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    total = max(1, sum(group.total_byte_size for group in groups))
    run: list[int] = []
    run_bytes = 0.0
    for number, group in enumerate(groups):
        # The footer has uncompressed sizes: each row group gets its fraction of the bytes of the file.
        group_bytes = file.size_bytes * group.total_byte_size / total
        if run and run_bytes + group_bytes > task_bytes:
            yield _make_part(file.path, groups, run), int(run_bytes)
            run = []
            run_bytes = 0.0
        run.append(number)
        run_bytes += group_bytes
    if run:
        yield _make_part(file.path, groups, run), int(run_bytes)


def _make_part(path: str, groups: Sequence[Any], run: Sequence[int]) -> FilePart:
    """Return the part of a file that consists of these row groups.

    Args:
        path: the path of the file.
        groups: the metadata of all row groups of the file.
        run: the numbers of the row groups of the part.
    """
    rows = sum(groups[number].num_rows for number in run)
    size_bytes = sum(groups[number].total_byte_size for number in run)
    return FilePart(path, tuple(run), rows, size_bytes)
