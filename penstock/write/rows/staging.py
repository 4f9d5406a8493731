"""Stage 4 of a write: evaluates the incoming rows once and keeps them in Arrow IPC files (staged files) until the commit.

One Spark job brings every row to a Python worker. Each task splits its rows by partition path and writes them to one file, next
to the write's markers on the table's storage, which every executor can read. After that no row is sent from the JVM to Python
again: later stages read the staged files, a retried task reads the same rows, and the driver knows how many rows each partition
path gets. The folder is deleted together with the markers, after the commit or by a rollback.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.filegroup.markers import work_folder
from penstock.index.bucket_hash import Buckets
from penstock.storage import ArrowFile, Storage, has_whole_files, join, open_arrow_file, write_batch
from penstock.storage.os_errors import convert_os_errors
from penstock.workers.driver_limit import fits_on_driver
from penstock.workers.part_scope import shared_in_part
from penstock.workers.run_kernels import this_task
from penstock.workers.runner import Runner
from penstock.write.rows.crossing_columns import KEY, CrossingColumns, GroupedRows, group_by_partition
from penstock.write.rows.input_files import run_over_incoming
from penstock.write.rows.schema import PreparedRows

if TYPE_CHECKING:
    from penstock.commit.change import Change
    from penstock.write.context import WriteContext

#: Column with a number that grows in the order in which rows arrive, over all partitions.
ARRIVAL = "_penstock_arrival"
#: A task writes its collected rows when they have this many bytes. Large batches are fast to map.
_FLUSH_BYTES = 64 * 1024 * 1024
#: Partition paths with fewer bytes than this share record batches of about this size. Opening a file takes the longer the more
#: batches it has, and each later task opens files of many paths: a batch per path would cost the square of the number of paths.
_SHARED_BATCH_BYTES = 1024 * 1024
#: The names under which task descriptions of one Spark task share open staged files, and record batches of them.
_FILES = "open staged files"
_BATCHES = "batches of staged files"
#: The most batches that are shared. Each has at most twice `_SHARED_BATCH_BYTES`, in memory if the storage cannot map files.
_KEPT_BATCHES = 32
#: Room for the arrival numbers of one task. Numbers of task n begin at n times this.
_ROWS_PER_TASK = 1 << 40


@dataclass(frozen=True)
class Piece:
    """Where some incoming rows are: consecutive rows in one record batch of a staged file, all of one partition path."""

    #: The partition path of the rows.
    path: str
    #: The path of the staged file.
    file: str
    #: The number of the record batch in the file.
    batch: int
    rows: int
    size_bytes: int
    #: The position of the piece's first row in the record batch.
    offset: int = 0
    #: The bucket of all rows of the piece; None if the index has no buckets.
    bucket: int | None = None

    def cut(self, offset: int, rows: int) -> Piece:
        """Return a part of this piece: `rows` rows, beginning at row `offset` of this piece.

        The bytes of the part are estimated.
        """
        size = self.size_bytes * rows // max(1, self.rows)
        return replace(self, rows=rows, size_bytes=size, offset=self.offset + offset)


@dataclass(frozen=True)
class Staging:
    """The folder of a write's staged files, and the storage that holds it. Pickled to the workers."""

    storage: Storage
    folder: str


@dataclass(frozen=True)
class StagedRows:
    """Where all staged rows of a write are: a list of pieces, in the order in which the rows arrived.

    A piece is consecutive rows of a staged file, all of one partition path.
    """

    staging: Staging
    pieces: tuple[Piece, ...]

    def with_folder_of(self, change: Change) -> StagedRows:
        """Return a copy with the same rows, in which further staged files go to the folder of `change`.

        A write that runs again after a conflict is a new `Change` with a new instant. In its old folder it would create files
        of the same names again.
        """
        return replace(self, staging=replace(self.staging, folder=_staging_folder(change)))

    @property
    def partition_paths(self) -> set[str]:
        """The partition paths of the staged rows."""
        return {piece.path for piece in self.pieces}


@dataclass(frozen=True)
class StagedTask:
    """The result of one staging task: the pieces (consecutive rows of a staged file) that it wrote.

    Tasks are numbered in the order in which their rows arrive, so the driver can put the pieces of all tasks in this order.
    """

    number: int
    pieces: tuple[Piece, ...]


def stage_rows(write: WriteContext, change: Change, prepared: PreparedRows, *, numbered: bool = False) -> StagedRows:
    """Evaluate the incoming rows and write them to staged files, split by partition path, and by bucket if the index has buckets.

    The files are in the write's folder under `.hoodie/.temp`. Return where the rows are.

    Args:
        numbered: whether to add the column `ARRIVAL`, which records the order of arrival over all partition paths. A global index
            needs it to find the last row of a key. Without it only the order within a partition path is known.
    """
    staging = Staging(write.table.storage, _staging_folder(change))
    with write.stages.run("stage", "reading the incoming rows") as notes:
        pieces = stage_pieces(write.spark, prepared, staging, numbered=numbered, buckets=write.index.buckets)
        notes.rows = sum(piece.rows for piece in pieces)
        notes.size_bytes = sum(piece.size_bytes for piece in pieces)
    return StagedRows(staging, tuple(pieces))


def _staging_folder(change: Change) -> str:
    """Return the path of the folder in which a write keeps staged files."""
    return join(work_folder(change.table.base_path, change.time), "staged")


def stage_pieces(
    spark: SparkSession,
    prepared: PreparedRows,
    staging: Staging,
    *,
    numbered: bool = False,
    buckets: Buckets | None = None,
) -> list[Piece]:
    """Evaluate the incoming rows, write them to files in the staging folder, and return their pieces in the order of arrival.

    A piece is consecutive rows of a staged file, all of one partition path.

    Args:
        numbered: whether to add the column `ARRIVAL`, with numbers in the order of arrival.
        buckets: the buckets of the index. Each piece then holds rows of one bucket. None: the index has no buckets.
    """
    kernel = partial(_stage_batches, prepared.crossing, staging, numbered, buckets)
    staged = run_over_incoming(spark, prepared, kernel, StagedTask)
    pieces: list[Piece] = []
    for task in sorted(staged, key=lambda task: task.number):
        pieces += task.pieces
    return pieces


def make_runner(write: WriteContext, pieces: Sequence[Piece]) -> Runner:
    """Return the runner for tasks that read these staged rows: on the driver if they are few and small, otherwise in Spark.

    The limits are `penstock.small.batch.rows` and `penstock.small.batch.bytes`.
    """
    rows = sum(piece.rows for piece in pieces)
    size_bytes = sum(piece.size_bytes for piece in pieces)
    on_driver = fits_on_driver(write.options, rows=rows, size_bytes=size_bytes)
    return Runner(write.spark, on_driver=on_driver, waits=has_whole_files(write.table.storage))


def read_pieces(staging: Staging, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
    """Yield the rows of each piece (consecutive rows of a staged file) as an Arrow table, mapped from the file.

    It has the data columns, and the record key (`KEY`) unless the writer generates keys.
    """
    # The next task description of the same Spark task mostly reads the same files, and rows of the same batches.
    files: dict[str, ArrowFile] = shared_in_part(_FILES)
    batches: dict[str, pa.RecordBatch] = shared_in_part(_BATCHES)
    for piece in pieces:
        place = f"{piece.file}#{piece.batch}"
        batch = batches.get(place)
        if batch is None:
            if piece.file not in files:
                files[piece.file] = open_arrow_file(staging.storage, piece.file)
            batch = files[piece.file].get_batch(piece.batch)
            if batch.num_rows > piece.rows and batch.nbytes <= 2 * _SHARED_BATCH_BYTES:
                _keep_batch(batches, place, batch)
        yield pa.Table.from_batches([batch.slice(piece.offset, piece.rows)])


def _keep_batch(batches: dict[str, pa.RecordBatch], place: str, batch: pa.RecordBatch) -> None:
    """Add a record batch to the dict of batches that the task descriptions of a Spark task share. If it is full, drop the oldest.

    Args:
        batches: the dict: file and number of a batch → batch.
        place: the key for the batch: the staged file and the number of the batch in it.
        batch: a batch with rows of several pieces, which other descriptions may read too.
    """
    if len(batches) >= _KEPT_BATCHES:
        del batches[next(iter(batches))]
    batches[place] = batch


def _stage_batches(
    crossing: CrossingColumns,
    staging: Staging,
    numbered: bool,
    buckets: Buckets | None,
    batches: Iterator[pa.RecordBatch],
) -> list[StagedTask]:
    """Write the rows of one task to one staged file. Return a list with one `StagedTask`, which says where the rows are.

    Runs in a task, on a worker or on the driver.

    Args:
        crossing: which of the received columns are data, record key and partition path.
        numbered: whether to add the column `ARRIVAL`, with numbers in the order of arrival.
        buckets: the buckets by which pieces are cut; None: the index has no buckets.
        batches: the rows of the task.
    """
    task = this_task()
    # Each attempt of a task has its own write token, so a retried task does not meet the file of the first attempt.
    file = _StagedFile(staging, join(staging.folder, f"{task.write_token}.arrow"), buckets)
    if numbered:
        crossing = replace(crossing, schema=crossing.schema.append(pa.field(ARRIVAL, pa.int64())))
        batches = _add_arrival(batches, task.number * _ROWS_PER_TASK)
    for batch in batches:
        if batch.num_rows:
            file.add(group_by_partition(crossing, batch))
    return [StagedTask(task.number, tuple(file.close()))]


def _add_arrival(batches: Iterator[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the column `ARRIVAL` appended: consecutive row numbers over all batches, beginning with `first`."""
    for batch in batches:
        numbers = pa.array(np.arange(first, first + batch.num_rows))
        first += batch.num_rows
        schema = batch.schema.append(pa.field(ARRIVAL, pa.int64()))
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)


class _WaitingRows:
    """Rows that are not written to a staged file yet, as a list of Arrow tables, and how many rows and bytes they have."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.rows = 0
        self.size_bytes = 0

    def add(self, table: pa.Table, size_bytes: int) -> None:
        """Append the rows of an Arrow table.

        Args:
            size_bytes: the bytes of these rows.
        """
        self.tables.append(table)
        self.rows += table.num_rows
        self.size_bytes += size_bytes

    def extend(self, other: _WaitingRows) -> None:
        """Append all rows of `other`."""
        self.tables += other.tables
        self.rows += other.rows
        self.size_bytes += other.size_bytes


class _StagedFile:
    """The staged file of one task, open for writing.

    It buffers rows, and writes the rows of each partition path as consecutive rows of a record batch.

    Args:
        name: the path of the file.
        buckets: the buckets by which pieces are cut; None: the index has no buckets.
    """

    def __init__(self, staging: Staging, name: str, buckets: Buckets | None = None) -> None:
        self._staging = staging
        self._name = name
        self._buckets = buckets
        self._waiting: dict[str, _WaitingRows] = {}
        self._waiting_bytes = 0
        #: The rows of the next record batch.
        self._next = _WaitingRows()
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._pieces: list[Piece] = []
        self._batches = 0

    def add(self, rows: GroupedRows) -> None:
        """Add rows to the buffer. Write the buffer to the file when it is full."""
        # In a delete the record key is a data column already.
        has_key = rows.keys is None or KEY in rows.table.column_names
        table = rows.table if has_key else rows.table.append_column(KEY, rows.keys)
        for number, path in enumerate(rows.paths):
            start = rows.starts[number]
            part = table.slice(start, rows.starts[number + 1] - start)
            size_bytes = part.nbytes
            self._waiting.setdefault(path, _WaitingRows()).add(part, size_bytes)
            self._waiting_bytes += size_bytes
        if self._waiting_bytes >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Write the buffered rows to the file, one partition path after the other. Create the file if it does not exist yet."""
        with convert_os_errors(self._name):
            for path, rows in self._waiting.items():
                if rows.size_bytes < _SHARED_BATCH_BYTES:
                    self._add_to_batch(path, rows)
                    continue
                self._write_batch()
                # More text than 32-bit offsets reach stays in several batches.
                for batch in pa.concat_tables(rows.tables).combine_chunks().to_batches():
                    own = _WaitingRows()
                    own.add(pa.Table.from_batches([batch]), batch.nbytes)
                    self._add_to_batch(path, own)
                    self._write_batch()
            self._write_batch()
        self._waiting = {}
        self._waiting_bytes = 0

    def _write_batch(self) -> None:
        """Write the next record batch to the file, if it has rows. Create the file if it does not exist yet."""
        if not self._next.tables:
            return
        table = pa.concat_tables(self._next.tables).combine_chunks()
        if self._writer is None:
            self._sink = self._staging.storage.create(self._name)
            self._writer = pa.ipc.new_file(self._sink, table.schema)
        (batch,) = table.to_batches()
        write_batch(self._staging.storage, self._writer, batch)
        self._batches += 1
        self._next = _WaitingRows()

    def _add_to_batch(self, path: str, rows: _WaitingRows) -> None:
        """Add rows of a partition path to the next record batch, and record where they will be, as a piece.

        If the index has buckets, sort the rows by bucket first, and record one piece per bucket. Write the record batch when it
        is full.
        """
        piece = Piece(path, self._name, self._batches, rows.rows, rows.size_bytes, offset=self._next.rows)
        if self._buckets is None:
            self._next.extend(rows)
            self._pieces.append(piece)
        else:
            self._add_by_bucket(piece, rows, self._buckets)
        if self._next.size_bytes >= _SHARED_BATCH_BYTES:
            self._write_batch()

    def _add_by_bucket(self, piece: Piece, rows: _WaitingRows, buckets_of_index: Buckets) -> None:
        """Add rows to the next record batch, sorted by bucket, and record one piece per bucket.

        Args:
            piece: where the rows will be.
        """
        table = pa.concat_tables(rows.tables).combine_chunks()
        numbers = buckets_of_index.numbers(table[KEY].combine_chunks(), piece.path)
        order = np.argsort(numbers, kind="stable")
        self._next.add(table.take(pa.array(order)), rows.size_bytes)
        buckets, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
        # A loop over the buckets of a batch, not over its rows.
        for bucket, start, count in zip(buckets.tolist(), starts.tolist(), counts.tolist(), strict=True):
            self._pieces.append(replace(piece.cut(start, count), bucket=bucket))

    def close(self) -> list[Piece]:
        """Write the rest of the buffer and close the file. Return its pieces, which say where in it the rows are.

        If there are no rows, no file is created.
        """
        self._flush()
        if self._writer is not None and self._sink is not None:
            with convert_os_errors(self._name):
                self._writer.close()
                self._sink.close()
        return self._pieces
