"""Locates keys by reading base files: finds the stored row of each incoming key, and decides what happens to it (`Fate`).

This is a job of its own, before the tasks that write. Each of its tasks reads the keys of several base files (`key_lookup.py`),
except files that a key range or bloom filter in the footer rules out. It writes pairs of stored and incoming row numbers with the
same key (hits) to a hit file. The tasks that write then match rows by number and need not compare keys.

A log file may have deleted a key of the base file (`live_rows.py` finds out). The hit of this key has `Fate.DEAD`. When the hits
of all files are known, `new_rows.py` decides where its incoming row is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.filegroup.base_read import open_base_file, read_row_groups
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules
from penstock.index.pruning import Pruning
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.gather import Positions, find_top_column, take_rows
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Choice, Fate, Fates
from penstock.storage import join
from penstock.write.locate.key_lookup import KeyMatches, WantedKeys, look_up
from penstock.write.locate.live_rows import are_dead, look_up_merged
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import Piece
from penstock.write.tasks.located_rows import Hits, create_hit_file, name_of_attempt
from penstock.write.tasks.task import UpsertRules
from penstock.write.tasks.task_rows import TaskRows, TaskRowsSettings, load_task_rows

#: How many base files one tagging task reads. Each task loads all incoming keys, so it should read several files.
_FILES_PER_TASK = 10


@dataclass(frozen=True)
class TagTask:
    """Task description of `tag_slices`: look for the keys of the incoming rows in the base files of `slices`."""

    pieces: tuple[Piece, ...]
    slices: tuple[FileSlice, ...]
    loading: TaskRowsSettings
    pruning: Pruning
    merger: Merger
    #: Whether a row whose partition changed moves to its new partition.
    moves: bool
    #: The first part of the name of the hit file. The result holds the whole name.
    hit_file_prefix: str
    #: Whether the hit file also lists the newest incoming row of each key. The first task of a set of incoming rows does that.
    lists_rows: bool
    #: How base files and logs are merged to rows; None: the table is copy-on-write.
    merging: MergeRules | None = None


@dataclass(frozen=True)
class TagResult:
    """The result of one task that locates keys (`tag_slices`, `sort_answers`): its hit file, and counts for reports.

    The hit file lists pairs of a stored and an incoming row with the same key (hits).
    """

    hit_file: str
    #: The number of hits of each slice of the task.
    hits: list[int]
    #: How many different keys the incoming rows have.
    rows: int
    #: How many base files had their key column read, and how many keys were compared with it.
    files_opened: int = 0
    candidates: int = 0


def plan_tag_tasks(
    rules: UpsertRules,
    pieces: tuple[Piece, ...],
    slices: Mapping[str, Sequence[FileSlice]],
    number: int,
    *,
    with_logs_alone: bool = False,
) -> list[TagTask]:
    """Plan the tasks that look for incoming keys in base files, with several base files per task.

    Returns at least one task, even if there is no base file, because the first task also lists the newest incoming row of each
    key.

    Args:
        pieces: where one set of incoming rows is: the rows of one partition; with a global index, all rows. A piece is
            consecutive rows of a staged file.
        slices: the file slices that may hold the keys, by partition path.
        number: the number of this set. Part of the names of the hit files.
        with_logs_alone: whether to include slices without a base file.
    """
    paths = list(slices) if rules.index.is_global else sorted({piece.path for piece in pieces})
    candidates: list[FileSlice] = []
    for path in paths:
        candidates += [file_slice for file_slice in slices.get(path, ()) if file_slice.base_file or with_logs_alone]
    tasks: list[TagTask] = []
    for first in range(0, max(1, len(candidates)), _FILES_PER_TASK):
        task = TagTask(
            pieces=pieces,
            slices=tuple(candidates[first : first + _FILES_PER_TASK]),
            loading=rules.loading,
            pruning=rules.index.pruning,
            merger=rules.merger,
            moves=rules.index.moves_rows and not rules.drops_known,
            hit_file_prefix=join(rules.loading.staging.folder, f"tagged-{number}-{len(tasks)}"),
            lists_rows=first == 0,
            merging=rules.merging,
        )
        tasks.append(task)
    return tasks


def tag_slices(task: TagTask) -> TagResult:
    """Look for the incoming keys in the base file of each slice, and write the pairs of stored and incoming rows to a hit file.

    Runs in a task, on a worker or on the driver.
    """
    storage = task.loading.staging.storage
    hit_file = name_of_attempt(task.hit_file_prefix)
    incoming = load_task_rows(task.loading, task.pieces, columns=(*task.merger.needs, *task.merger.reads, DELETE_FLAG))
    partitions = RowPartitions(task.pieces)
    base_files = [file_slice.base_file for file_slice in task.slices if file_slice.base_file]
    found_by_slice = look_up(storage, base_files, WantedKeys(incoming.keys), task.pruning)
    hits_by_slice = []
    with create_hit_file(storage, hit_file) as file:
        for file_slice, found in zip(task.slices, found_by_slice, strict=True):
            hits = _find_hits(task, file_slice, incoming, found, partitions)
            file.write_hits(hits)
            hits_by_slice.append(len(hits.fates))
        if task.lists_rows:
            file.write_rows(incoming.rows)
    return TagResult(
        hit_file=hit_file,
        hits=hits_by_slice,
        rows=len(incoming.rows),
        files_opened=sum(found.opened for found in found_by_slice),
        candidates=sum(found.candidates for found in found_by_slice),
    )


def _find_hits(task: TagTask, file_slice: FileSlice, incoming: TaskRows, found: KeyMatches, partitions: RowPartitions) -> Hits:
    """Return the hits of one file slice: pairs of a stored and an incoming row with the same key.

    Each pair has a `Fate`: what happens to the stored row. If a log file of the slice has deleted the stored row, the fate is
    `Fate.DEAD`; but there is no pair at all for such a row if the index may move rows to other partitions.

    Args:
        found: the incoming keys that are in the slice's base file.
        partitions: the partition path of each incoming row.
    """
    new = incoming.rows[found.key]
    storage = task.loading.staging.storage
    if task.merging is None or not file_slice.log_files or not len(new):
        read_stored = partial(_read_from_base_file, task, file_slice, incoming, found.old)
        return Hits(found.old, new, _decide_fates(task, file_slice, incoming, new, partitions, read_stored))
    if not task.moves:
        is_dead = are_dead(storage, file_slice, task.merging, incoming.keys.take(pa.array(found.key)))
        return Hits(found.old, new, np.where(is_dead, Fate.DEAD, Fate.MERGE).astype(np.int8))
    # Rows may move out of this slice, so it must be known which of them are alive, and what they hold after the log is applied.
    columns = [find_top_column(path, task.merging.arrow.names) for path in task.merger.needs]
    keys, old = _positions_by_key(found)
    living = look_up_merged(storage, file_slice, task.merging, incoming.keys.take(pa.array(keys)), columns)
    old = old[living.key]
    new = incoming.rows[keys][living.key]
    order = np.argsort(old, kind="stable")
    read_stored = partial(_take_in_order, living.rows, order)
    fates = _decide_fates(task, file_slice, incoming, new[order], partitions, read_stored)
    return Hits(old[order], new[order], fates)


def _positions_by_key(found: KeyMatches) -> tuple[Positions, Positions]:
    """Return two arrays with one element per found key: its position among the incoming keys, its row number in the base file.

    The row number is -1 if the base file has the key several times. Then the task that writes looks for the rows by key.
    """
    keys, first, times = np.unique(found.key, return_index=True, return_counts=True)
    return keys, np.where(times == 1, found.old[first], -1)


def _decide_fates(
    task: TagTask,
    file_slice: FileSlice,
    incoming: TaskRows,
    new: Positions,
    partitions: RowPartitions,
    read_stored: Callable[[Positions], pa.Table],
) -> Fates:
    """Return the `Fate` of the stored row of each hit (pair of a stored and an incoming row with the same key) of a file slice.

    - MERGE (the merger decides later): the index does not move rows; or both rows are of the same partition; or the incoming row
      is a delete; or the merger deletes the key.
    - MOVE (the stored row is removed): the incoming row is of another partition, and the merger does not keep the stored row.
    - TOUCH (the stored row stays and counts as written): the incoming row is of another partition, but the merger keeps the
      stored row, for example because the incoming row is older.

    Args:
        new: for each hit, the position of its incoming row in `incoming`.
        partitions: the partition path of each incoming row.
        read_stored: takes positions in the list of hits, and returns the stored rows of these hits with the columns that the
            merger needs. Called for the hits whose fate depends on the stored row.
    """
    fates = np.full(len(new), Fate.MERGE, np.int8)
    if not task.moves:
        return fates
    is_away = partitions.path_numbers_of(new) != partitions.path_number(file_slice.partition_path)
    away = np.flatnonzero(is_away)
    if len(away) == 0:
        return fates
    rows = incoming.take(new[away])
    choices = np.full(len(away), Choice.TAKE_NEW, np.int8)
    if task.merger.needs:
        choices = task.merger.resolve(read_stored(away), rows)
    is_deleted = task.merger.is_delete(rows) | (choices == Choice.DELETE)
    fate_of_living = np.where(choices == Choice.KEEP_OLD, Fate.TOUCH, Fate.MOVE)
    fates[away] = np.where(is_deleted, Fate.MERGE, fate_of_living)
    return fates


def _read_from_base_file(task: TagTask, file_slice: FileSlice, incoming: TaskRows, old: Positions, hits: Positions) -> pa.Table:
    """Read the stored rows of some hits (pairs of a stored and an incoming row with the same key) from the base file.

    Return the columns that the merger needs (`Merger.needs`). For slices without log files.

    Args:
        old: the row number in the base file of each hit.
        hits: the positions in `old` of the hits to read.
    """
    assert file_slice.base_file is not None
    schema = incoming.schema
    path = file_slice.base_file.path
    names = dict.fromkeys(find_top_column(name, schema.names) for name in task.merger.needs)
    wanted = pa.schema([schema.field(name) for name in names if name in schema.names])
    row_groups = read_row_groups(open_base_file(task.loading.staging.storage, path), path, wanted)
    return take_rows(pa.concat_tables([wanted.empty_table(), *row_groups]), old[hits])


def _take_in_order(rows: pa.Table, order: Positions, hits: Positions) -> pa.Table:
    """Pick the stored rows of some hits (pairs of a stored and an incoming row) out of rows that were read before.

    Return them in the order of `hits`.

    Args:
        rows: the stored rows, in any order.
        order: for each hit, the position of its stored row in `rows`.
        hits: the positions in `order` of the hits whose rows are returned.
    """
    return take_rows(rows, order[hits])
