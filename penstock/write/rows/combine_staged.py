"""Stage 3 where the payload makes one row of several: the batch is folded before its keys are looked for.

Other payloads pick one of the rows, by its number, in the task that merges; one that makes new values needs rows to hold
them. So the staged rows of each partition, or of the whole batch where keys count everywhere, are folded once and staged
again, one per key, and from there on the batch is like any other. Where no key comes twice the rows stay as they are staged,
and of a batch that is not large the driver finds that out by a look at the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.fold import FoldedBatch, fold_batch
from penstock.merge.kernels.gather import Flags, take_rows, to_array
from penstock.merge.kernels.marks import FRESH, GONE
from penstock.merge.kernels.ordering import check_ordering_values
from penstock.merge.merger import Merger
from penstock.spread.run import this_task
from penstock.spread.runner import Runner
from penstock.storage import join
from penstock.storage.os_errors import convert_os_errors
from penstock.write.locate.tag import Places
from penstock.write.rows.crossing import KEY
from penstock.write.rows.staging import ARRIVAL, Piece, Staging, read_pieces
from penstock.write.rows.task_rows import ordering_values
from penstock.write.tasks.base_file import row_group_parts

#: Rows whose keys the driver looks at, sooner than a Spark job starts.
_ROWS_LOOKED_AT_HERE = 1_000_000


@dataclass(frozen=True)
class FoldTask:
    """Staged rows that are folded together."""

    staging: Staging
    pieces: tuple[Piece, ...]
    merger: Merger
    #: The ordering column; None: the order of arrival alone.
    ordering: str | None
    #: Columns of the partition path, where rows of a key may come for several partitions.
    placed_by: tuple[str, ...] = ()


def fold_pieces(
    staging: Staging,
    pieces: Sequence[Piece],
    merger: Merger,
    ordering: str | None,
    *,
    everywhere: bool,
    placed_by: Sequence[str],
    runner: Runner,
) -> list[Piece]:
    """The staged rows with one row per key; per partition path, or everywhere.

    Args:
        placed_by: the columns of the partition path, by which a row made of several goes to the partition of one of them.
    """
    shares: dict[tuple[str, int | None], list[Piece]] = {}
    for piece in pieces:
        shares.setdefault(("", None) if everywhere else (piece.path, piece.bucket), []).append(piece)
    by = tuple(placed_by) if everywhere else ()
    tasks = [FoldTask(staging, tuple(its), merger, ordering, by) for its in shares.values()]
    if sum(piece.rows for piece in pieces) <= _ROWS_LOOKED_AT_HERE:
        several = runner.at_driver().run(has_several, tasks, bool)
    else:
        several = [True] * len(tasks)
    folded = iter(runner.run(fold_rows, [task for task, has in zip(tasks, several, strict=True) if has], FoldResult))
    found: list[Piece] = []
    for task, has in zip(tasks, several, strict=True):
        result = next(folded) if has else FoldResult()
        found += task.pieces if result.pieces is None else result.pieces
    return found


def has_several(task: FoldTask) -> bool:
    """Kernel: whether a key comes more than once. Rows without an ordering value are refused."""
    tables = list(read_pieces(task.staging, task.pieces))
    _ordering(task, tables)
    keys = pa.chunked_array([chunk for table in tables for chunk in table[KEY].chunks])
    return bool(pc.count_distinct(keys).as_py() < len(keys))


@dataclass(frozen=True)
class FoldResult:
    """The pieces with one row per key; None if the staged rows have one row per key already."""

    pieces: list[Piece] | None = None


def fold_rows(task: FoldTask) -> FoldResult:
    """Kernel: Write one share, folded, to one staged file, in batches of one partition path each."""
    tables = list(read_pieces(task.staging, task.pieces))
    staged, ordering = pa.concat_tables(tables), _ordering(task, tables)
    rows = staged.drop_columns([name for name in (KEY, ARRIVAL) if name in staged.column_names])
    arrival = np.asarray(staged[ARRIVAL]) if ARRIVAL in staged.column_names else None
    keys = to_array(staged[KEY])
    batch = fold_batch(task.merger, rows, keys, ordering, task.ordering or "", arrival, task.placed_by)
    return FoldResult(_stage_again(task, batch, rows, keys) if len(batch.changed) else None)


def _ordering(task: FoldTask, tables: Sequence[pa.Table]) -> pa.ChunkedArray | None:
    if task.ordering is None:
        return None
    values = ordering_values(tables, task.ordering)
    check_ordering_values(values, task.ordering)
    return values


def _stage_again(task: FoldTask, batch: FoldedBatch, rows: pa.Table, keys: pa.Array) -> list[Piece]:
    """Write one row per key, a row group's worth at a time; rows that are alone under their key come from where they are."""
    places = Places(task.pieces)
    path_of = places.of(batch.rows)
    name = join(task.staging.folder, f"folded-{this_task().write_token}.arrow")
    marks = {
        name: _marks(batch, flags, rows.num_rows)
        for name, flags in ((FRESH, batch.fresh), (GONE, batch.gone))
        if flags is not None
    }
    pieces: list[Piece] = []
    writer: pa.ipc.RecordBatchFileWriter | None = None
    with convert_os_errors(name), task.staging.storage.create(name) as sink:
        for i, path in enumerate(places.paths):
            for part in row_group_parts(batch.rows[path_of == i]):
                table = batch.values_of(rows, part)
                for mark, of_rows in marks.items():
                    table = table.append_column(mark, pa.array(of_rows[part]))
                table = table.append_column(KEY, take_rows(pa.table([keys], names=["k"]), part)["k"]).combine_chunks()
                writer = writer or pa.ipc.new_file(sink, table.schema)
                for one in table.to_batches():
                    pieces.append(Piece(path, name, len(pieces), one.num_rows, one.nbytes, bucket=task.pieces[0].bucket))
                    writer.write_batch(one)
        if writer is not None:
            writer.close()
    return pieces


def _marks(batch: FoldedBatch, flags: Flags, rows: int) -> Flags:
    """What is known of the changed rows, for all rows by their number."""
    marks = np.zeros(rows, np.bool_)
    marks[batch.changed] = flags
    return marks
