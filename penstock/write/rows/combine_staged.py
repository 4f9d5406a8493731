"""Stage 3 of a write, for mergers that fold: builds one new row out of the staged rows of each key, before keys are located.

To fold is to build one row with new values out of all incoming rows of a key (`Merger.folds`). Mergers that do not fold only pick
one of these rows; the task that merges does that by row number. A folded row has values that no staged row has. So the rows of
each partition (with a global index, all rows) are folded once and staged again, one per key. Later stages need not know about it.
If no key of a partition occurs twice, its rows stay in their staged files. Up to a million incoming rows, the driver looks for
duplicate keys first, and starts fold tasks only for partitions that have some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.fold import FoldedBatch, fold_batch
from penstock.merge.kernels.gather import Flags, take_rows, to_array
from penstock.merge.kernels.marks import FRESH, GONE
from penstock.merge.kernels.ordering import check_ordering_values
from penstock.merge.merger import Merger
from penstock.storage import join, write_batch
from penstock.storage.os_errors import convert_os_errors
from penstock.workers.run_kernels import this_task
from penstock.write.rows.combine import combine_rows, wants_one_row_per_key
from penstock.write.rows.crossing_columns import KEY
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import ARRIVAL, Piece, StagedRows, Staging, make_runner, read_pieces, stage_rows
from penstock.write.tasks.task_rows import ordering_values, split_row_numbers

if TYPE_CHECKING:
    from penstock.commit.change import Change
    from penstock.write.context import WriteContext

#: Up to this many rows the driver looks for duplicate keys itself, because a Spark job takes longer to start.
_DRIVER_ROWS = 1_000_000


@dataclass(frozen=True)
class FoldTask:
    """Task description of `fold_rows`: build one row out of all staged rows of each key."""

    staging: Staging
    #: Where the rows are. The pieces have all incoming rows of their keys.
    pieces: tuple[Piece, ...]
    merger: Merger
    #: The ordering column; None: rows are folded in the order of their arrival.
    ordering: str | None
    #: The partition columns if rows of one key may be of several partitions (global index); otherwise empty.
    partition_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoldResult:
    """The result of `fold_rows`: where in the new staged file the rows are.

    `pieces` is None if no key had several rows, so that nothing was written.
    """

    #: The new pieces (consecutive rows of a staged file), with one row per key. None if the rows of the task had one row per key
    #: already.
    pieces: list[Piece] | None = None


def stage_combined_rows(write: WriteContext, change: Change, merger: Merger) -> StagedRows:
    """Stage the incoming rows of an insert. Combine them to one per key if the options ask for it (`wants_one_row_per_key`)."""
    if merger.folds and wants_one_row_per_key(write.prepared, write.settings):
        staged = stage_rows(write, change, write.prepared, numbered=write.index.is_global)
        return fold_staged_rows(write, staged, merger)
    return stage_rows(write, change, combine_rows(write.prepared, write.settings, merger))


def fold_staged_rows(write: WriteContext, staged: StagedRows, merger: Merger) -> StagedRows:
    """Let the merger build one row out of all staged rows of each key. Return where the staged rows are now, one per key.

    A key is unique in its partition; with a global index, in the whole table. A partition without duplicate keys keeps its staged
    files.
    """
    with write.stages.run("combine", "making one row of several of a key"):
        runner = make_runner(write, staged.pieces)
        tasks = _fold_tasks(write, staged, merger)
        has_duplicates = [True] * len(tasks)
        if sum(piece.rows for piece in staged.pieces) <= _DRIVER_ROWS:
            has_duplicates = runner.at_driver().run(has_duplicate_keys, tasks, bool)
        to_fold = [task for task, repeats in zip(tasks, has_duplicates, strict=True) if repeats]
        results = iter(runner.run(fold_rows, to_fold, FoldResult))
        pieces: list[Piece] = []
        for task, repeats in zip(tasks, has_duplicates, strict=True):
            result = next(results) if repeats else FoldResult()
            pieces += task.pieces if result.pieces is None else result.pieces
    return StagedRows(staged.staging, tuple(pieces))


def _fold_tasks(write: WriteContext, staged: StagedRows, merger: Merger) -> list[FoldTask]:
    """Return the tasks that combine staged rows: one per partition path, or per bucket if the index has buckets.

    With a global index it is a single task, because rows of one key may be of several partitions.
    """
    ordering = write.settings.ordering_field
    if write.index.is_global:
        return [FoldTask(staged.staging, staged.pieces, merger, ordering, write.partition_columns)] if staged.pieces else []
    pieces_of: dict[tuple[str, int | None], list[Piece]] = {}
    for piece in staged.pieces:
        pieces_of.setdefault((piece.path, piece.bucket), []).append(piece)
    return [FoldTask(staged.staging, tuple(pieces), merger, ordering) for pieces in pieces_of.values()]


def has_duplicate_keys(task: FoldTask) -> bool:
    """Whether a record key occurs more than once in the rows of a fold task, so that `fold_rows` must run.

    Also checks the ordering values, because `fold_rows` is skipped if no key occurs twice. Runs in a task on the driver.

    Raises:
        SchemaError: an ordering value is null.
    """
    tables = list(read_pieces(task.staging, task.pieces))
    _read_ordering(task, tables)
    chunks: list[pa.Array] = []
    for table in tables:
        chunks += table[KEY].chunks
    keys = pa.chunked_array(chunks)
    return bool(pc.count_distinct(keys).as_py() < len(keys))


def fold_rows(task: FoldTask) -> FoldResult:
    """Build one row out of all rows of each key, and write the rows to a new staged file.

    The result says where in the file the rows are (`pieces`). If each key has one row already, nothing is written, and `pieces`
    is None. Runs in a task, on a worker or on the driver.

    Raises:
        SchemaError: an ordering value is null.
    """
    tables = list(read_pieces(task.staging, task.pieces))
    staged = pa.concat_tables(tables)
    ordering = _read_ordering(task, tables)
    rows = staged.drop_columns([name for name in (KEY, ARRIVAL) if name in staged.column_names])
    arrival = np.asarray(staged[ARRIVAL]) if ARRIVAL in staged.column_names else None
    keys = to_array(staged[KEY])
    batch = fold_batch(task.merger, rows, keys, ordering, task.ordering or "", arrival, task.partition_columns)
    if not len(batch.changed):
        return FoldResult()
    return FoldResult(_stage_again(task, batch, rows, keys))


def _read_ordering(task: FoldTask, tables: Sequence[pa.Table]) -> pa.ChunkedArray | None:
    """Return the ordering values of the rows of several Arrow tables, in one array; None if the task has no ordering column.

    Raises:
        SchemaError: an ordering value is null.
    """
    if task.ordering is None:
        return None
    values = ordering_values(tables, task.ordering)
    check_ordering_values(values, task.ordering)
    return values


def _stage_again(task: FoldTask, batch: FoldedBatch, rows: pa.Table, keys: pa.Array) -> list[Piece]:
    """Write the combined rows to a new staged file. Return its pieces, which say where in the file the rows are.

    The rows are built and written in parts of the size of a row group, to save memory.

    Args:
        batch: says which rows remain, and the values of the rows that the merger built.
        rows: the staged rows before they were combined, without record keys.
        keys: the record key of each of these rows.
    """
    places = RowPartitions(task.pieces)
    path_of = places.path_numbers_of(batch.rows)
    file_name = join(task.staging.folder, f"folded-{this_task().write_token}.arrow")
    marks = _mark_columns(batch, rows.num_rows)
    key_table = pa.table([keys], names=[KEY])
    pieces: list[Piece] = []
    writer: pa.ipc.RecordBatchFileWriter | None = None
    with convert_os_errors(file_name), task.staging.storage.create(file_name) as sink:
        for number, path in enumerate(places.paths):
            for part in split_row_numbers(batch.rows[path_of == number]):
                table = batch.values_of(rows, part)
                for name, flags in marks.items():
                    table = table.append_column(name, pa.array(flags[part]))
                table = table.append_column(KEY, take_rows(key_table, part)[KEY]).combine_chunks()
                if writer is None:
                    writer = pa.ipc.new_file(sink, table.schema)
                for staged in table.to_batches():
                    bucket = task.pieces[0].bucket
                    pieces.append(Piece(path, file_name, len(pieces), staged.num_rows, staged.nbytes, bucket=bucket))
                    write_batch(task.staging.storage, writer, staged)
        if writer is not None:
            writer.close()
    return pieces


def _mark_columns(batch: FoldedBatch, rows: int) -> dict[str, Flags]:
    """Return the columns `FRESH` and `GONE` of the combined rows, as name → mask. A column that no row needs is left out.

    - `FRESH` is true if incoming rows deleted the key and then inserted it again. The stored row must not be merged then.
    - `GONE` is true if the key is to be deleted.

    Each mask has one element per row before combining. If a key has several rows, the combined row takes the place of one of
    them, and only the element of that row may be true.

    Args:
        rows: the number of rows before combining.
    """
    columns: dict[str, Flags] = {}
    for name, flags in ((FRESH, batch.fresh), (GONE, batch.gone)):
        if flags is not None:
            columns[name] = np.zeros(rows, np.bool_)
            columns[name][batch.changed] = flags
    return columns
