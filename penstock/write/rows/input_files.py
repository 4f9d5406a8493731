"""How incoming rows reach the workers: through Spark, or directly from Parquet files, if the rows are nothing but these files.

Crossing from the JVM costs more than all that is done with a row afterwards. A DataFrame that is just `spark.read.parquet(path)`
says no more than "these files". Workers then read the files with Arrow, and Spark only runs the tasks. Rows go through Spark
whenever Spark could see other values than Arrow: an option of the reader, a type that is converted, a partition column from the
name of a folder, dates in the old calendar, cached rows.
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
from penstock.spread.run import Result, RowKernel, run_over_rows
from penstock.spread.runner import Runner
from penstock.spread.session import count_cores
from penstock.storage import Storage, open_storage

#: The attribute of a DataFrame that is a read of Parquet files without options.
_MARK = "_penstock_bare_parquet"
_BATCH_ROWS = 64 * 1024
#: With more files than this, reading all footers first would take longer than it saves.
_MOST_FILES = 1_000
_FOOTER_THREADS = 8
#: Bytes for one task where Spark's settings do not say how many cores there are.
_TASK_BYTES = 32 * 1024 * 1024
#: Keys in the footer of files whose dates or timestamps are in the old calendar. Spark converts these values when it reads them.
_LEGACY_KEYS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
#: Settings of a session with which Spark returns other rows than the files hold, and the values that do no harm.
_HARMLESS_VALUES = {
    "spark.sql.parquet.datetimeRebaseModeInRead": ("EXCEPTION", "CORRECTED"),
    "spark.sql.files.ignoreCorruptFiles": ("FALSE",),
    "spark.sql.files.ignoreMissingFiles": ("FALSE",),
    "spark.sql.parquet.fieldId.read.enabled": ("FALSE",),
}
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True)
class FilePart:
    """Some row groups of an input file."""

    path: str
    row_groups: tuple[int, ...]
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class InputFiles:
    """Input that workers read themselves: the parts of files that each task reads, and the columns."""

    storage: Storage
    tasks: tuple[tuple[FilePart, ...], ...]
    columns: tuple[str, ...]
    #: Whether the driver reads the files, because Spark tasks would take longer than the work.
    on_driver: bool = False

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(sum(part.rows for part in task) for task in self.tasks)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, uncompressed."""
        return sum(sum(part.size_bytes for part in task) for task in self.tasks)


@dataclass(frozen=True)
class _InputFile:
    """An input file whose footer was read."""

    path: str
    metadata: pq.FileMetaData
    #: The size on storage.
    size_bytes: int


def mark_bare(frame: DataFrame) -> DataFrame:
    """Mark a DataFrame as a read of Parquet files without options. A DataFrame that is derived from it is not marked."""
    setattr(frame, _MARK, True)
    return frame


class Incoming(Protocol):
    """Incoming rows, and the files they are read from, if workers can read these themselves."""

    @property
    def rows(self) -> DataFrame: ...

    @property
    def files(self) -> InputFiles | None: ...


def run_over_incoming(spark: SparkSession, incoming: Incoming, kernel: RowKernel[Result], returns: type[Result]) -> list[Result]:
    """Run a kernel once per task over the incoming rows, or over the files that they are read from.

    Args:
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
    return list(kernel(_read_parts(storage, columns, parts)))


def _read_parts(storage: Storage, columns: Sequence[str], parts: Sequence[FilePart]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        try:
            file = pq.ParquetFile(storage.open(part.path), pre_buffer=False)
            yield from file.iter_batches(_BATCH_ROWS, row_groups=list(part.row_groups), columns=list(columns), use_threads=False)
        except (pa.ArrowException, OSError) as e:
            if isinstance(e, PenstockError):
                raise
            raise CorruptFile(f"input file {part.path} cannot be read as Parquet: {e}") from e


def find_input_files(incoming: DataFrame, expected: pa.Schema) -> InputFiles | None:
    """Return the files that a DataFrame reads, if it does nothing else and each file has the expected columns and types."""
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
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk or level.useOffHeap)


def _is_harmless(spark: SparkSession) -> bool:
    """Whether Spark returns the rows as the files hold them, by the settings of the session."""
    return all(str(spark.conf.get(key, values[0])).upper() in values for key, values in _HARMLESS_VALUES.items())


def _local_paths(incoming: DataFrame) -> list[str]:
    """Return the paths of the files; an empty list if one is not local, or is in a folder that names a value of a column."""
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
    """Whether a folder names a value of a column. Spark reads the value from the name of the folder."""
    folders = os.path.dirname(path).split("/")
    named = {folder.partition("=")[0].lower() for folder in folders if "=" in folder}
    return any(column.lower() in named for column in columns)


def _read_footer(storage: Storage, expected: pa.Schema, path: str) -> _InputFile | None:
    """Return a file and its footer; None if the file does not have the expected columns and types."""
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
    """Return how many bytes a task reads and how many bytes opening a file counts for, with the formula of Spark."""
    most = _parse_bytes(conf.get("spark.sql.files.maxPartitionBytes", "128m"))
    open_cost = _parse_bytes(conf.get("spark.sql.files.openCostInBytes", "4m"))
    cores = count_cores(conf)
    wanted = max(open_cost, total_bytes // cores) if cores else _TASK_BYTES
    return min(most, wanted), open_cost


def _parse_bytes(text: str) -> int:
    """Return the number of bytes that a setting of Spark says, such as `128m`."""
    match = re.match(r"^\s*(\d+)\s*([kmgt]?)b?\s*$", str(text).lower())
    if not match:
        return _TASK_BYTES
    return int(match[1]) << _UNITS[match[2]]


def _pack_tasks(files: Sequence[_InputFile], task_bytes: int, open_cost: int) -> Iterator[tuple[FilePart, ...]]:
    """Yield the parts of each task: files in order, several small ones together, a large one cut between row groups."""
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
    """Yield a file in runs of row groups of about the bytes of a task, each with the bytes it takes on storage."""
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
    rows = sum(groups[number].num_rows for number in run)
    size_bytes = sum(groups[number].total_byte_size for number in run)
    return FilePart(path, tuple(run), rows, size_bytes)
