"""The incoming rows, evaluated once and kept as Arrow IPC files until the commit.

One Spark job brings every row to a Python worker, which cuts it by partition path and writes it beside the write's
markers, on the table's own storage, which every executor sees. From there on nothing crosses from the JVM any more: later
stages read these files, a retried task reads the same rows, and the driver knows exactly how many rows go where.
The folder goes with the markers, after the commit or by a rollback.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.filegroup.markers import work_folder
from penstock.index.bucket import Buckets
from penstock.index.consistent_hashing import HashRings
from penstock.options import Options
from penstock.spread.driver import fits_on_driver
from penstock.spread.run import this_task
from penstock.storage import Storage, join
from penstock.storage.os_errors import convert_os_errors
from penstock.write.rows.crossing import KEY, CrossingColumns, PartitionRows, split_by_partition
from penstock.write.rows.input_files import run_over_incoming
from penstock.write.rows.schema import PreparedRows

#: Column with a number that grows in the order in which rows arrive, whatever their partition.
ARRIVAL = "_penstock_arrival"
_FLUSH_BYTES = 64 * 1024 * 1024
#: Rows that one task can number.
_ROWS_PER_TASK = 1 << 40


@dataclass(frozen=True)
class Piece:
    """Rows of one partition path, in one batch of one staged file."""

    path: str
    file: str
    batch: int
    rows: int
    size_bytes: int
    #: The part of the batch that is meant.
    offset: int = 0
    #: The bucket of all these rows, in a table that has buckets.
    bucket: int | None = None

    def cut(self, offset: int, rows: int) -> Piece:
        """A part of these rows."""
        size = self.size_bytes * rows // max(1, self.rows)
        return replace(self, rows=rows, size_bytes=size, offset=self.offset + offset)


@dataclass(frozen=True)
class StagedTask:
    """The pieces that one task of staging wrote. Tasks are numbered in the order in which their rows arrive."""

    number: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Staging:
    """Where staged rows are kept."""

    storage: Storage
    folder: str


def staging_of(storage: Storage, base_path: str, instant: str) -> Staging:
    """The place for a write's staged rows."""
    return Staging(storage, join(work_folder(base_path, instant), "staged"))


def stage(
    spark: SparkSession,
    prepared: PreparedRows,
    staging: Staging,
    *,
    numbered: bool = False,
    buckets: Buckets | HashRings | None = None,
) -> list[Piece]:
    """Evaluate the rows and keep them; gives the pieces in arrival order.

    Args:
        numbered: keep each row's place in that order too (`ARRIVAL`); pieces only keep it within a partition path.
        buckets: cut pieces so that each is of one bucket.
    """
    kernel = partial(_stage_rows, prepared.crossing, staging, numbered, buckets)
    staged = run_over_incoming(spark, prepared, kernel, StagedTask)
    pieces: list[Piece] = []
    for task in sorted(staged, key=lambda task: task.number):
        pieces += task.pieces
    return pieces


def pieces_fit_on_driver(options: Options, pieces: Sequence[Piece]) -> bool:
    """Whether the driver works on these rows itself, without Spark tasks."""
    rows = sum(piece.rows for piece in pieces)
    return fits_on_driver(options, rows=rows, size_bytes=sum(piece.size_bytes for piece in pieces))


def read_pieces(staging: Staging, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
    """Staged rows, one table a piece, with the record key as the last column (`KEY`) where there is one."""
    readers: dict[str, pa.ipc.RecordBatchFileReader] = {}
    for piece in pieces:
        if piece.file not in readers:
            readers[piece.file] = pa.ipc.open_file(staging.storage.map(piece.file))
        batch = readers[piece.file].get_batch(piece.batch)
        yield pa.Table.from_batches([batch.slice(piece.offset, piece.rows)])


def _stage_rows(
    crossing: CrossingColumns,
    staging: Staging,
    numbered: bool,
    buckets: Buckets | HashRings | None,
    batches: Iterator[pa.RecordBatch],
) -> list[StagedTask]:
    """Kernel: Write one task's rows to one IPC file, and return the task's number and its pieces."""
    task = this_task()
    file = _StagedFile(staging, join(staging.folder, f"{task.write_token}.arrow"), buckets)
    if numbered:
        crossing = replace(crossing, schema=crossing.schema.append(pa.field(ARRIVAL, pa.int64())))
        batches = _numbered(batches, task.number * _ROWS_PER_TASK)
    for batch in batches:
        for rows in split_by_partition(crossing, batch):
            file.add(rows)
    return [StagedTask(task.number, tuple(file.close()))]


def _numbered(batches: Iterator[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = pa.array(np.arange(first, first + batch.num_rows))
        first += batch.num_rows
        schema = batch.schema.append(pa.field(ARRIVAL, pa.int64()))
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], schema=schema)


class _StagedFile:
    """Collects rows by path and writes each path's as one batch whenever enough have come together."""

    def __init__(self, staging: Staging, name: str, buckets: Buckets | HashRings | None = None) -> None:
        self._staging, self._name, self._buckets = staging, name, buckets
        self._waiting: dict[str, list[pa.Table]] = {}
        self._waiting_bytes = 0
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._pieces: list[Piece] = []
        self._batches = 0

    def add(self, rows: PartitionRows) -> None:
        has_key = rows.keys is None or KEY in rows.table.column_names
        table = rows.table if has_key else rows.table.append_column(KEY, rows.keys)
        self._waiting.setdefault(rows.path, []).append(table)
        self._waiting_bytes += table.nbytes
        if self._waiting_bytes >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        with convert_os_errors(self._name):
            for path, tables in self._waiting.items():
                table = pa.concat_tables(tables).combine_chunks()
                if self._writer is None:
                    self._sink = self._staging.storage.create(self._name)
                    self._writer = pa.ipc.new_file(self._sink, table.schema)
                for batch in table.to_batches():
                    self._write(path, batch)
        self._waiting, self._waiting_bytes = {}, 0

    def _write(self, path: str, batch: pa.RecordBatch) -> None:
        """One batch, whose rows stand bucket by bucket where there are buckets."""
        assert self._writer is not None
        piece = Piece(path, self._name, self._batches, batch.num_rows, batch.nbytes)
        self._batches += 1
        if self._buckets is None:
            self._writer.write_batch(batch)
            self._pieces.append(piece)
            return
        numbers = self._buckets.numbers(batch.column(KEY), path)
        order = np.argsort(numbers, kind="stable")
        self._writer.write_batch(batch.take(pa.array(order)))
        found, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
        for number, start, count in zip(found.tolist(), starts.tolist(), counts.tolist(), strict=True):  # buckets, not records
            self._pieces.append(replace(piece.cut(start, count), bucket=number))

    def close(self) -> list[Piece]:
        self._flush()
        if self._writer is not None and self._sink is not None:
            with convert_os_errors(self._name):
                self._writer.close()
                self._sink.close()
        return self._pieces
