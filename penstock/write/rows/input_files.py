"""How incoming rows get to the workers: through Spark, or straight from the files where they are nothing but Parquet files.

Crossing from the JVM costs more than all that is done with a row afterwards. A DataFrame that is `spark.read.parquet(path)`
as it stands says no more than "these files", so that workers read them with Arrow and Spark only runs the tasks. Whenever
anything could make Spark see other values than Arrow does (a reader's option, a type that is converted, a partition column
from a folder's name, an old calendar, cached rows), the rows take the ordinary way.
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

_MARK = "_penstock_bare_parquet"
_BATCH_ROWS = 64 * 1024
#: Above this many files reading their footers first would take longer than it saves.
_MOST_FILES = 1_000
_FOOTER_THREADS = 8
#: Bytes for one task where nobody says how many cores there are.
_TASK_BYTES = 32 * 1024 * 1024
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
#: Settings of the session under which Spark gives other rows than the files hold, and the values that are harmless.
_HARMLESS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": ("EXCEPTION", "CORRECTED"),
    "spark.sql.files.ignoreCorruptFiles": ("FALSE",),
    "spark.sql.files.ignoreMissingFiles": ("FALSE",),
    "spark.sql.parquet.fieldId.read.enabled": ("FALSE",),
}


@dataclass(frozen=True)
class FilePart:
    """Some row groups of an input file."""

    path: str
    row_groups: tuple[int, ...]
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class InputFiles:
    """Input that workers read themselves: what each task reads, and which columns."""

    storage: Storage
    tasks: tuple[tuple[FilePart, ...], ...]
    columns: tuple[str, ...]
    #: So few rows that Spark tasks would cost more than the work: read on the driver.
    here: bool = False

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(part.rows for task in self.tasks for part in task)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, before compression."""
        return sum(part.size_bytes for task in self.tasks for part in task)


def mark_bare(frame: DataFrame) -> DataFrame:
    """Note that a DataFrame is a read of Parquet files without any option; what is derived from it is another DataFrame."""
    setattr(frame, _MARK, True)
    return frame


class Incoming(Protocol):
    """Rows, and the files that they are where they are nothing else."""

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
    work = partial(_over_files, kernel, files.storage, files.columns)
    return Runner(spark, on_driver=files.here).collect(work, files.tasks, returns)


def _over_files(kernel: RowKernel[Result], storage: Storage, columns: Sequence[str], parts: Sequence[FilePart]) -> list[Result]:
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


def input_files(incoming: DataFrame, expected: pa.Schema) -> InputFiles | None:
    """The files that a DataFrame is, if it is nothing else and all of them hold these columns in just these types."""
    if getattr(incoming, _MARK, None) is not True or _is_cached(incoming) or not _harmless(incoming.sparkSession):
        return None
    paths = [_local_path(uri) for uri in incoming.inputFiles()]
    known = [p for p in paths if p is not None and not _has_partition_folder(p, incoming.columns)]
    if not known or len(known) < len(paths) or len(paths) > _MOST_FILES:
        return None
    storage, _ = open_storage(known[0])
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        found = list(pool.map(partial(_footer, storage, expected), sorted(known)))
    footers = [f for f in found if f is not None]
    if len(footers) < len(found):
        return None
    conf = incoming.sparkSession.conf
    tasks = tuple(_tasks(footers, *_task_bytes(conf, sum(size for _, _, size in footers))))
    return InputFiles(storage, tasks, tuple(expected.names))


def _is_cached(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk or level.useOffHeap)


def _harmless(spark: SparkSession) -> bool:
    return all(str(spark.conf.get(key, allowed[0])).upper() in allowed for key, allowed in _HARMLESS.items())


def _local_path(uri: str) -> str | None:
    match = re.match("^file:/+(.*)$", uri, re.DOTALL)
    return "/" + unquote(match[1]) if match else None


def _has_partition_folder(path: str, columns: Iterable[str]) -> bool:
    """Whether a folder names a value of a column, which Spark then takes from there."""
    folders = {folder.partition("=")[0].lower() for folder in os.path.dirname(path).split("/") if "=" in folder}
    return any(column.lower() in folders for column in columns)


def _footer(storage: Storage, expected: pa.Schema, path: str) -> tuple[str, pq.FileMetaData, int] | None:
    """A file's footer and size, if it holds the expected columns as they are expected."""
    try:
        with storage.open(path) as source:
            size = source.size()
            file = pq.ParquetFile(source, pre_buffer=False)
            metadata, schema = file.metadata, file.schema_arrow
    except (pa.ArrowException, OSError):
        return None  # Spark has its own words for it
    written_by = (metadata.metadata or {}).get(b"org.apache.spark.version", b"9")
    if any(key in (metadata.metadata or {}) for key in _LEGACY) or int(written_by.split(b".")[0]) < 3:
        return None
    indexes = [schema.get_all_field_indices(field.name) for field in expected]
    if not all(len(at) == 1 for at in indexes):
        return None
    same = all(schema.field(at[0]).type.equals(field.type) for at, field in zip(indexes, expected, strict=True))
    return (path, metadata, size) if same else None


def _task_bytes(conf: Any, total: int) -> tuple[int, int]:
    """The size of a task's share and what opening a file counts for, as Spark reckons them."""
    most, cost = (_bytes(conf.get(f"spark.sql.files.{name}", d)) for name, d in _SIZES)
    at_once = count_cores(conf)
    return min(most, max(cost, total // at_once) if at_once else _TASK_BYTES), cost


_SIZES = (("maxPartitionBytes", "128m"), ("openCostInBytes", "4m"))
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def _bytes(text: str) -> int:
    """Spark's spelling of a number of bytes."""
    match = re.match(r"^\s*(\d+)\s*([kmgt]?)b?\s*$", str(text).lower())
    if not match:
        return _TASK_BYTES
    return int(match[1]) << _UNITS[match[2]]


def _tasks(footers: Sequence[tuple[str, pq.FileMetaData, int]], task_bytes: int, cost: int) -> Iterator[tuple[FilePart, ...]]:
    """Files in order, several small ones to a task, a large one cut between row groups."""
    waiting: list[FilePart] = []
    weight = 0
    for path, metadata, size in footers:
        for part, share in _parts(path, metadata, size, task_bytes):
            if waiting and weight + share > task_bytes:
                yield tuple(waiting)
                waiting, weight = [], 0
            waiting.append(part)
            weight += share + cost
    if waiting:
        yield tuple(waiting)


def _parts(path: str, metadata: pq.FileMetaData, size: int, task_bytes: int) -> Iterator[tuple[FilePart, int]]:
    """A file as a whole, or in runs of row groups of about a task's share; with the bytes each takes on disk."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    total = max(1, sum(g.total_byte_size for g in groups))
    run: list[int] = []
    taken = 0.0
    for i, group in enumerate(groups):
        share = size * group.total_byte_size / total
        if run and taken + share > task_bytes:
            yield _part(path, groups, run), int(taken)
            run, taken = [], 0.0
        run.append(i)
        taken += share
    if run:
        yield _part(path, groups, run), int(taken)


def _part(path: str, groups: Sequence[Any], run: Sequence[int]) -> FilePart:
    return FilePart(path, tuple(run), sum(groups[i].num_rows for i in run), sum(groups[i].total_byte_size for i in run))
