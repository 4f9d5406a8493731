"""Merges incoming rows with stored rows of other partitions, and stages the merged rows again, before keys are located.

A global index may find the key of an incoming row in another partition than the row's own. If the merger builds a new row out of
the stored and the incoming row, the stored row must be read before the built row can be written to its partition.
`relocate_rows` runs two jobs:

1. `find_moves` finds stored rows with the same key as an incoming row of another partition. It merges the two rows and writes the
   merged rows to Arrow files (files of moves).
2. `stage_moves` stages all incoming rows again, with the merged rows in place of the incoming ones.

With Hudi's payloads the merged row always goes to the partition of the incoming row. With Penstock's mergers and with functions
of the user, the merged row may have the partition columns of the stored row, because the incoming row came late or does not
supply them. Then it stays in the stored row's partition: the incoming row is staged for that partition and merged there. The same
holds for a row that a function deletes.

Usually the job that locates keys (`tag.py`) finds out which stored rows the merger keeps or deletes where they are. It cannot if
the index keeps entries in a store, because then no stored row is read, or if the merger needs no stored column, because then the
merger is not called. In these two cases `find_moves` finds these rows too (`MoveTask.decides`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import Unsupported
from penstock.filegroup.base_read import open_base_file, read_row_groups
from penstock.filegroup.model import FileSlice
from penstock.merge.kernels.gather import Flags, Positions, have_same_values, take_rows
from penstock.merge.kernels.marks import FRESH, GONE, MADE, drop_marks
from penstock.merge.row_choice import Choice
from penstock.storage import join, open_arrow_file, write_batch
from penstock.storage.os_errors import convert_os_errors
from penstock.workers.runner import Runner
from penstock.write.locate.key_lookup import KeyMatches, WantedKeys, look_up
from penstock.write.locate.live_rows import look_up_merged
from penstock.write.locate.tag import TagTask, plan_tag_tasks
from penstock.write.rows.crossing_columns import KEY
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import ARRIVAL, Piece, Staging, read_pieces
from penstock.write.tasks.located_rows import name_of_attempt
from penstock.write.tasks.task import UpsertRules
from penstock.write.tasks.task_rows import TaskRows, load_task_rows, split_row_numbers

#: Columns of a file of moves: the number of the incoming row, whether it stays in the stored row's partition, and that partition.
_NUMBER = "_penstock_number"
_STAYS = "_penstock_stays"
_STORED_PATH = "_penstock_stored_path"


@dataclass(frozen=True)
class MoveTask:
    """Task description: find incoming rows whose stored row is in a slice of another partition, and merge the two rows."""

    #: The file slices and the incoming rows.
    tag: TagTask
    partition_columns: tuple[str, ...]
    #: Whether to stage rows for the stored row's partition if the merger keeps or deletes the stored row, because the job that
    #: locates keys does not call the merger.
    decides: bool = False
    #: Whether keys may be in log files alone.
    in_logs: bool = False


@dataclass(frozen=True)
class StageTask:
    """Task description: stage all incoming rows again. Rows that `find_moves` merged take the place of the incoming rows."""

    staging: Staging
    pieces: tuple[Piece, ...]
    #: The files that `find_moves` wrote.
    move_files: tuple[str, ...]
    #: Whether built rows are marked (`MADE`), for a merger that would build them from scratch again when they are inserted.
    marks_built: bool = False


def relocate_rows(
    rules: UpsertRules,
    pieces: Sequence[Piece],
    slices: Mapping[str, Sequence[FileSlice]],
    partition_columns: Sequence[str],
    runner: Runner,
) -> list[Piece]:
    """Merge incoming rows with stored rows of other partitions, if the merger needs both. Return where the staged rows are now.

    If a row was merged or assigned to another partition, all rows are staged again, and the new pieces are returned. Otherwise
    `pieces` is returned. A piece is consecutive rows of a staged file.

    Args:
        pieces: where the staged rows are.
        slices: the file slices that may hold the keys, by partition path.
        partition_columns: the columns that the partition path is made of.
        runner: runs the jobs in Spark or on the driver.
    """
    if not pieces or not _needs_stored_rows(rules):
        return list(pieces)
    in_logs = rules.index.finds_rows_in_logs
    tags = plan_tag_tasks(rules, tuple(pieces), slices, 0, with_logs_alone=in_logs)
    tasks = [MoveTask(tag, tuple(partition_columns), _decides(rules), in_logs) for tag in tags]
    move_files = tuple(file for file in runner.run(find_moves, tasks, str) if file)
    if not move_files:
        return list(pieces)
    task = StageTask(rules.loading.staging, tuple(pieces), move_files, rules.merger.is_user_function)
    return runner.collect(stage_moves, [task], Piece)


def _needs_stored_rows(rules: UpsertRules) -> bool:
    """Whether an incoming row whose stored row is in another partition can only be written after the stored row was read.

    True if the merger builds a new row out of the two. Also true if the merger may keep the stored row where it is, and the jobs
    that locate keys do not find that out (`_decides`). False for a payload of Hudi that picks one of the two rows, and for an
    index that does not move rows.
    """
    if not rules.index.moves_rows:
        return False
    merger = rules.merger
    return merger.builds or (merger.keeps_partition and _decides(rules))


def _decides(rules: UpsertRules) -> bool:
    """Whether `find_moves` must find out which stored rows the merger keeps or deletes in their own partition.

    Usually the jobs that locate keys do so. But they do not call the merger if the index looks up entries in a key-value store,
    or if the merger needs no stored column.
    """
    return rules.index.store is not None or not rules.merger.needs


def find_moves(task: MoveTask) -> str:
    """Merge incoming rows with their stored rows in other partitions, and write the merged rows to a new Arrow file.

    Runs in a task, on a worker or on the driver.

    Returns:
        The name of the file; an empty string if there is no row to stage again.
    """
    tag = task.tag
    incoming = load_task_rows(tag.loading, tag.pieces)
    partitions = RowPartitions(tag.pieces)
    moves = []
    for file_slice, found in zip(tag.slices, _find_candidates(task, incoming), strict=True):
        rows = _merge_moving(task, file_slice, found, incoming, partitions)
        if rows is not None:
            moves.append(rows)
    if not moves:
        return ""
    path = name_of_attempt(f"{tag.hit_file_prefix}-moves")
    storage = tag.loading.staging.storage
    with convert_os_errors(path), storage.create(path) as sink, pa.ipc.new_file(sink, moves[0].schema) as writer:
        for rows in moves:
            for batch in rows.to_batches():
                write_batch(storage, writer, batch)
    return path


def _find_candidates(task: MoveTask, incoming: TaskRows) -> list[KeyMatches]:
    """Return for each slice of the task the incoming keys that the slice may hold.

    These are the keys found in the slice's base file. If the slice has log files, and the index allows keys that are only in log
    files, these are all incoming keys.
    """
    keys = len(incoming.keys)
    all_keys = KeyMatches(np.full(keys, -1), np.arange(keys), keys, True)
    slices = task.tag.slices
    may_log_hold_more = [task.in_logs and bool(file_slice.log_files) for file_slice in slices]
    base_files = []
    for file_slice, holds_more in zip(slices, may_log_hold_more, strict=True):
        if file_slice.base_file and not holds_more:
            base_files.append(file_slice.base_file)
    in_base_files = iter(look_up(task.tag.loading.staging.storage, base_files, WantedKeys(incoming.keys), task.tag.pruning))
    return [all_keys if holds_more else next(in_base_files) for holds_more in may_log_hold_more]


def _merge_moving(
    task: MoveTask, file_slice: FileSlice, found: KeyMatches, incoming: TaskRows, partitions: RowPartitions
) -> pa.Table | None:
    """Merge the stored rows of one file slice with the incoming rows of other partitions that have the same keys.

    Args:
        found: the incoming keys that the slice may hold.
        partitions: the partition path of each incoming row.

    Returns:
        The rows for the file that `find_moves` writes; None if there is no row to stage again.
    """
    is_away = partitions.path_numbers_of(incoming.rows[found.key]) != partitions.path_number(file_slice.partition_path)
    away = np.flatnonzero(is_away)
    if not len(away):
        return None
    merger = task.tag.merger
    keys, stored = _read_stored(task.tag, file_slice, incoming, found, away)
    new = incoming.take(incoming.rows[keys]).drop_columns([KEY])
    merged = merger.merge(stored, np.arange(stored.num_rows), new)
    is_built = merged.choices == Choice.BUILD
    is_in_place = (merged.choices == Choice.DELETE) & (merger.is_user_function or task.decides)
    if task.decides:
        is_in_place |= merged.choices == Choice.KEEP_OLD
    chosen = np.concatenate([np.flatnonzero(is_built), np.flatnonzero(is_in_place)])
    if not len(chosen):
        return None
    built = merged.rows(np.where(is_built, Choice.BUILD, Choice.KEEP_OLD))
    stored = take_rows(stored, chosen)
    new = drop_marks(take_rows(new, chosen))
    # Built rows come first. A row that is merged in place has no built row: the file of moves lists the stored row instead.
    in_place = np.arange(len(chosen)) >= built.num_rows
    rows = pa.concat_tables([built, stored.filter(pa.array(in_place))])
    stays = _find_staying(task, file_slice, rows, stored, new) | in_place
    added = {
        _NUMBER: pa.array(incoming.rows[keys[chosen]]),
        _STAYS: pa.array(stays),
        _STORED_PATH: pa.repeat(file_slice.partition_path, len(chosen)),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    return rows


def _find_staying(task: MoveTask, file_slice: FileSlice, rows: pa.Table, stored: pa.Table, new: pa.Table) -> Flags:
    """Return a mask over the merged rows: true where the merged row stays in the partition of the stored row.

    Args:
        rows: the merged rows.
        stored: the stored row of each merged row.
        new: the incoming row of each merged row.

    Raises:
        Unsupported: a merged row has some partition columns of the stored row and some of the incoming row.
    """
    columns = task.partition_columns
    stays = ~have_same_values(rows, new, columns) & task.tag.merger.keeps_partition
    if (stays & ~have_same_values(rows, stored, columns)).any():
        raise Unsupported(
            f"a row of {file_slice.partition_path!r} takes some of its partition columns ({', '.join(columns)}) from the stored "
            "row and some from the incoming one, so that it belongs to neither's partition; supply all, or none"
        )
    return stays


def _read_stored(
    tag: TagTask, file_slice: FileSlice, incoming: TaskRows, found: KeyMatches, away: Positions
) -> tuple[Positions, pa.Table]:
    """Read the stored rows of a file slice that have the same keys as incoming rows of other partitions.

    Args:
        found: the incoming keys that the slice may hold.
        away: the positions in `found` of keys whose incoming row is of another partition.

    Returns:
        The position in `incoming.keys` of each stored row's key, and the stored rows with the columns of the incoming rows. Keys
            that a log has deleted are left out.
    """
    storage = tag.loading.staging.storage
    schema = pa.schema([field for field in incoming.schema if field.name not in (KEY, FRESH, GONE, ARRIVAL)])
    if tag.merging is not None and file_slice.log_files:
        keys = np.unique(found.key[away])
        living = look_up_merged(storage, file_slice, tag.merging, incoming.keys.take(pa.array(keys)), schema.names)
        return keys[living.key], living.rows.select(schema.names).cast(schema)
    assert file_slice.base_file is not None
    path = file_slice.base_file.path
    row_groups = read_row_groups(open_base_file(storage, path), path, schema)
    keys, first = np.unique(found.key[away], return_index=True)
    return keys, take_rows(pa.concat_tables([schema.empty_table(), *row_groups]), found.old[away][first])


def stage_moves(task: StageTask) -> list[Piece]:
    """Write all incoming rows to one new staged file. Return its pieces, which say where in the file the rows are.

    A row that moves gets its merged values. A row that stays in the partition of its stored row keeps its values and gets the
    path of that partition. Runs in a task, on a worker or on the driver.
    """
    storage = task.staging.storage
    rows = pa.concat_tables(list(read_pieces(task.staging, task.pieces)))
    moves = pa.concat_tables([open_arrow_file(storage, file).read_all() for file in task.move_files])
    numbers, first = np.unique(np.asarray(moves[_NUMBER]), return_index=True)
    moves = take_rows(moves, first)
    stays = np.asarray(moves[_STAYS], dtype=np.bool_)
    partitions = RowPartitions(task.pieces)
    paths = sorted({*partitions.paths, *moves[_STORED_PATH].unique().to_pylist()})
    # Rows that stay keep their values and change their path; rows that move change their values and keep their path.
    path_of_row = np.array([paths.index(path) for path in partitions.paths])[partitions.path_numbers_of(np.arange(rows.num_rows))]
    stored_paths = pc.index_in(moves[_STORED_PATH], value_set=pa.array(paths))
    path_of_row[numbers[stays]] = np.asarray(stored_paths, dtype=np.int64)[stays]
    moving = numbers[~stays]
    moved = _replace_values(take_rows(rows, moving), moves.filter(pa.array(~stays)))
    if task.marks_built:
        rows = rows.append_column(MADE, pa.repeat(False, rows.num_rows))
        moved = moved.append_column(MADE, pa.repeat(True, moved.num_rows))
    source = np.arange(rows.num_rows)
    source[moving] = rows.num_rows + np.arange(len(moving))
    return _write_by_path(task.staging, pa.concat_tables([rows, moved]), source, path_of_row, paths)


def _replace_values(rows: pa.Table, values: pa.Table) -> pa.Table:
    """Return `rows` with the columns of `values` in place of their own. The record key and the arrival number stay.

    Args:
        rows: incoming rows as they were staged.
        values: the merged row of each of these rows.
    """
    columns = [values[name] if name in values.column_names else rows[name] for name in rows.column_names]
    return pa.table(columns, schema=rows.schema)


def _write_by_path(
    staging: Staging, rows: pa.Table, source: Positions, path_of_row: Positions, paths: Sequence[str]
) -> list[Piece]:
    """Write the incoming rows of a write to a new staged file, one partition path after the other.

    Return one piece per record batch of the file. A piece says where some incoming rows are.

    Args:
        rows: the incoming rows, followed by the merged rows that replace some of them.
        source: for each incoming row, the position in `rows` of the row to write: its own, or that of its merged row.
        path_of_row: for each incoming row, the position of its partition path in `paths`.
        paths: all partition paths.
    """
    file = name_of_attempt(join(staging.folder, "relocated"))
    pieces: list[Piece] = []
    with convert_os_errors(file), staging.storage.create(file) as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        for number, path in enumerate(paths):
            for part in split_row_numbers(np.flatnonzero(path_of_row == number)):
                for batch in take_rows(rows, source[part]).combine_chunks().to_batches():
                    pieces.append(Piece(path, file, len(pieces), batch.num_rows, batch.nbytes))
                    write_batch(staging.storage, writer, batch)
    return pieces
