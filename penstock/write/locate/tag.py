"""Stage 4: every known key carries its location. Kernels, and the small Arrow files they hand over to the merge.

Tagging is a job of its own only where a partition has more file groups than one task should open, or where keys are
looked for in all partitions. Its tasks give back row numbers, so that the merge needs no hash any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.filegroup.base_read import open_base_file, read_row_groups
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules
from penstock.index.lookup import Found, Keys, Pruning, look_up
from penstock.merge.choice import Choice, Fate, Fates
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.kernels.gather import Positions, find_top_column, take_rows
from penstock.merge.merger import Merger
from penstock.spread.run import this_task
from penstock.storage import Storage
from penstock.storage.os_errors import convert_os_errors
from penstock.write.locate.live_rows import are_dead, look_up_merged
from penstock.write.rows.staging import Piece
from penstock.write.rows.task_rows import TaskRows, TaskRowsSettings, load_task_rows
from penstock.write.tasks.base_file import Hits

#: Hits as they are written down: old rows, incoming ones, and what becomes of them.
PAIRS = pa.schema([("old", pa.int64()), ("new", pa.int64()), ("fate", pa.int8())])


@dataclass(frozen=True)
class TagTask:
    """Some base files, and the incoming rows whose keys are looked for in them."""

    pieces: tuple[Piece, ...]
    files: tuple[FileSlice, ...]
    loading: TaskRowsSettings
    pruning: Pruning
    merger: Merger
    moves: bool
    #: How the name of the file begins that the hits are written to; the result says how it ends.
    out: str
    #: Also write down which rows count, one per key; one task of a share does.
    lists_rows: bool
    #: How base files and logs become rows, in a merge-on-read table.
    merging: MergeRules | None = None


def tag_files(task: TagTask) -> dict[str, Any]:
    """Kernel: hits of each file to a file of its own, one batch a file; gives how many rows each file will see changed."""
    storage, out = task.loading.staging.storage, own_name(task.out)
    incoming = load_task_rows(task.loading, task.pieces, columns=(*task.merger.needs, *task.merger.reads, DELETE_FLAG))
    keys, places = Keys(incoming.keys), Places(task.pieces)
    counts, opened, candidates = [], 0, 0
    with convert_os_errors(out), storage.create(out) as sink, pa.ipc.new_file(sink, PAIRS) as writer:
        bases = [slice_.base_file for slice_ in task.files if slice_.base_file]
        answers = look_up(storage, bases, keys, task.pruning)
        for slice_, found in zip(task.files, answers, strict=True):
            hits = _hits(task, slice_, incoming, found, places)
            writer.write_batch(_batch(hits.old, hits.new, hits.fates))
            counts.append(len(hits.fates))
            opened, candidates = opened + found.opened, candidates + found.candidates
        if task.lists_rows:
            nothing = np.zeros(len(incoming.rows), np.int64)
            writer.write_batch(_batch(nothing, incoming.rows, nothing.astype(np.int8)))
    return {"out": out, "counts": counts, "rows": len(incoming.rows), "opened": opened, "candidates": candidates}


def own_name(out: str) -> str:
    """A name that no other attempt of this task takes: one that was killed may have left its own file."""
    return f"{out}-{this_task().write_token}.arrow"


def _batch(old: Positions, new: Positions, fates: Fates) -> pa.RecordBatch:
    return pa.record_batch([pa.array(old), pa.array(new), pa.array(fates)], schema=PAIRS)


def _hits(task: TagTask, slice_: FileSlice, incoming: TaskRows, found: Found, places: Places) -> Hits:
    """What becomes of the rows that were found in a base file, if they are still there."""
    new, storage = incoming.rows[found.key], task.loading.staging.storage
    if task.merging is None or not slice_.log_files or not len(new):
        fates = _fates(task, slice_, incoming, new, places, lambda at: _old_values(task, slice_, incoming, found.old[at]))
        return Hits(found.old, new, fates)
    if task.moves:
        columns = [find_top_column(path, task.merging.arrow.names) for path in task.merger.needs]
        keys, old = _places_of_keys(found)
        living = look_up_merged(storage, slice_, task.merging, incoming.keys.take(pa.array(keys)), columns)
        order = np.argsort(old[living.key], kind="stable")
        old, new = old[living.key][order], incoming.rows[keys][living.key][order]
        fates = _fates(task, slice_, incoming, new, places, lambda at: take_rows(living.rows, order[at]))
        return Hits(old, new, fates)
    dead = are_dead(storage, slice_, task.merging, incoming.keys.take(pa.array(found.key)))
    return Hits(found.old, new, np.where(dead, Fate.DEAD, Fate.MERGE).astype(np.int8))


def _places_of_keys(found: Found) -> tuple[Positions, Positions]:
    """The keys that were found in a base file, each once, and where; -1 if a key is there several times."""
    keys, first, times = np.unique(found.key, return_index=True, return_counts=True)
    return keys, np.where(times == 1, found.old[first], -1)


def _fates(
    task: TagTask,
    slice_: FileSlice,
    incoming: TaskRows,
    new: Positions,
    places: Places,
    old_values: Callable[[Positions], pa.Table],
) -> Fates:
    """What each hit is: a merge in place, or a row that goes to the partition of the incoming one.

    A delete finds its row wherever that is. A stored row that the merger would keep stays, and counts as written anew.

    Args:
        old_values: gives what the merger needs of the stored rows of some hits.
    """
    fates = np.full(len(new), Fate.MERGE, np.int8)
    is_away = places.of(new) != places.number(slice_.partition_path) if task.moves else np.zeros(len(new), np.bool_)
    away = np.flatnonzero(is_away)
    if len(away) == 0:
        return fates
    rows = incoming.take(new[away])
    choices = np.full(len(away), Choice.TAKE_NEW, np.int8)
    if task.merger.needs:
        choices = task.merger.resolve(old_values(away), rows)
    gone = task.merger.is_delete(rows) | (choices == Choice.DELETE)
    fates[away] = np.where(gone, Fate.MERGE, np.where(choices == Choice.KEEP_OLD, Fate.TOUCH, Fate.MOVE))
    return fates


def _old_values(task: TagTask, slice_: FileSlice, incoming: TaskRows, rows: Positions) -> pa.Table:
    """What the merger needs of some rows of a base file."""
    assert slice_.base_file is not None
    schema, path = incoming.schema, slice_.base_file.path
    names = dict.fromkeys(find_top_column(name, schema.names) for name in task.merger.needs)
    wanted = pa.schema([schema.field(name) for name in names if name in schema.names])
    groups = read_row_groups(open_base_file(task.loading.staging.storage, path), path, wanted)
    return take_rows(pa.concat_tables([wanted.empty_table(), *groups]), rows)


class Places:
    """From an incoming row's number to its partition path."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.paths = sorted({p.path for p in pieces})
        self._numbers = {path: i for i, path in enumerate(self.paths)}
        self._ends = np.cumsum([p.rows for p in pieces])
        self._of_piece = np.array([self._numbers[p.path] for p in pieces], np.int64)

    def number(self, path: str) -> int:
        """The number of a path; -1 if no row has it."""
        return self._numbers.get(path, -1)

    def of(self, rows: Positions) -> Positions:
        """The path's number of each row."""
        return self._of_piece[np.searchsorted(self._ends, rows, side="right")]


@dataclass(frozen=True)
class InsertsTask:
    """The tagging results of one share."""

    storage: Storage
    pieces: tuple[Piece, ...]
    tagged: tuple[str, ...]
    out: str
    #: A row whose only stored version is dead comes alive where that was, which is in its own partition; otherwise it is new.
    revives: bool = True


def find_inserts(task: InsertsTask) -> dict[str, Any]:
    """Kernel: rows that met nobody, or that move, to a file, ordered by partition path; gives the count of each path.

    In a second batch the rows that must not be appended where they are dead, since they live elsewhere or will; gives whether
    there are any.
    """
    total = sum(p.rows for p in task.pieces)
    counts, met, dead = np.zeros(total, np.bool_), np.zeros(total, np.bool_), np.zeros(total, np.int64)
    for i, name in enumerate(task.tagged):
        reader = pa.ipc.open_file(task.storage.map(name))
        batches = [reader.get_batch(b) for b in range(reader.num_record_batches)]
        if i == 0:
            counts[np.asarray(batches.pop().column("new"))] = True
        for batch in batches:
            rows, fates = np.asarray(batch.column("new")), np.asarray(batch.column("fate"))
            met[rows[(fates == Fate.MERGE) | (fates == Fate.TOUCH)]] = True
            dead[np.unique(rows[fates == Fate.DEAD])] += 1
    revived = counts & ~met & (dead == 1) & task.revives
    places = Places(task.pieces)
    inserts, settled = np.flatnonzero(counts & ~met & ~revived), np.flatnonzero((dead > 0) & ~revived)
    of = places.of(inserts)
    inserts = inserts[np.argsort(of, kind="stable")]
    out = own_name(task.out)
    schema = pa.schema([("new", pa.int64())])
    with convert_os_errors(out), task.storage.create(out) as sink, pa.ipc.new_file(sink, schema) as writer:
        for rows in (inserts, settled):
            writer.write_batch(pa.record_batch([pa.array(rows)], names=["new"]))
    found = [[path, int((of == i).sum())] for i, path in enumerate(places.paths)]
    return {"out": out, "counts": found, "settled": len(settled) > 0}


def read_hits(storage: Storage, name: str, batch: int, settled: str | None = None) -> Hits:
    """One file's hits, as the merge takes them: dead rows come alive, but for those that live elsewhere.

    Args:
        settled: the file that lists these.
    """
    pairs = pa.ipc.open_file(storage.map(name)).get_batch(batch)
    old, new, fates = (np.asarray(pairs.column(field)) for field in PAIRS.names)
    if (fates != Fate.DEAD).all():
        return Hits(old, new, fates)
    elsewhere = np.empty(0, np.int64)
    if settled is not None:
        elsewhere = np.asarray(pa.ipc.open_file(storage.map(settled)).get_batch(1).column("new"))
    kept = (fates != Fate.DEAD) | ~np.isin(new, elsewhere)
    return Hits(old[kept], new[kept], np.where(fates == Fate.DEAD, Fate.MERGE, fates)[kept])


def read_inserts(storage: Storage, name: str, offset: int, count: int) -> Positions:
    """Some of the rows that are new."""
    batch = pa.ipc.open_file(storage.map(name)).get_batch(0)
    return np.asarray(batch.column("new").slice(offset, count))
