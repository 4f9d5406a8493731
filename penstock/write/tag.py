"""Stage 4: every known key carries its location. Kernels, and the small Arrow files they hand over to the merge.

Tagging is a job of its own only where a partition has more file groups than one task should open, or where keys are
looked for in all partitions. Its tasks give back row numbers, so that the merge needs no hash any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.filegroup.model import BaseFile
from penstock.filegroup.read import open_base_file, read_row_groups
from penstock.index.lookup import Keys, Pruning, look_up
from penstock.merge.mergers import KEEP_OLD, Merger
from penstock.merge.pair import Positions
from penstock.storage import Storage
from penstock.write.merge_file import Hits
from penstock.write.share import Share, ShareSettings, load_share
from penstock.write.stage import Piece

_PAIRS = pa.schema([("old", pa.int64()), ("new", pa.int64()), ("fate", pa.int8())])
#: What becomes of an old row that an incoming one meets.
_UPDATE, _MOVE, _KEEP = 0, 1, 2


@dataclass(frozen=True)
class TagTask:
    """Some base files, and the incoming rows whose keys are looked for in them."""

    pieces: tuple[Piece, ...]
    files: tuple[tuple[str, BaseFile], ...]
    share: ShareSettings
    pruning: Pruning
    merger: Merger
    moves: bool
    out: str
    #: Also write down which rows count, one per key; one task of a share does.
    lists_rows: bool


def tag_files(task: TagTask) -> dict[str, Any]:
    """Kernel: hits of each file to `task.out`, one batch a file; gives how many rows each file will see changed."""
    storage, share = task.share.staging.storage, load_share(task.share, task.pieces)
    keys, places = Keys(share.keys), Places(task.pieces)
    counts, opened, candidates = [], 0, 0
    with storage.create(task.out) as sink, pa.ipc.new_file(sink, _PAIRS) as writer:
        for path, base in task.files:
            found = look_up(storage, base, keys, task.pruning)
            fates = _fates(task, storage, path, base, share, found.old, share.rows[found.key], places)
            writer.write_batch(_batch(found.old, share.rows[found.key], fates))
            counts.append(int((fates != _KEEP).sum()))
            opened, candidates = opened + found.opened, candidates + found.candidates
        if task.lists_rows:
            nothing = np.zeros(len(share.rows), np.int64)
            writer.write_batch(_batch(nothing, share.rows, nothing.astype(np.int8)))
    return {"counts": counts, "rows": len(share.rows), "opened": opened, "candidates": candidates}


def _batch(old: Positions, new: Positions, fates: npt.NDArray[np.int8]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(old), pa.array(new), pa.array(fates)], schema=_PAIRS)


def _fates(
    task: TagTask, storage: Storage, path: str, base: BaseFile, share: Share, old: Positions, new: Positions, places: Places
) -> npt.NDArray[np.int8]:
    """Whether each hit is an update in place, or a row that moves to the partition of the incoming one.

    A stored row that the merger would keep stays where it is.
    """
    fates = np.zeros(len(old), np.int8)
    if not task.moves or len(old) == 0:
        return fates
    away = np.flatnonzero(places.of(new) != places.number(path))
    if len(away) == 0:
        return fates
    rows = share.take(new[away])
    kept = np.zeros(len(away), np.bool_)
    if task.merger.needs:
        kept = task.merger.resolve(_old_values(storage, base, task.merger.needs, rows.schema, old[away]), rows) == KEEP_OLD
    fates[away] = np.where(kept, _KEEP, np.where(task.merger.is_delete(rows), _UPDATE, _MOVE))
    return fates


def _old_values(storage: Storage, base: BaseFile, columns: Sequence[str], schema: pa.Schema, rows: Positions) -> pa.Table:
    file = open_base_file(storage, base.path)
    wanted = pa.schema([schema.field(c) for c in columns])
    groups = list(read_row_groups(file, base.path, wanted))
    return pa.concat_tables(groups).take(pa.array(rows))


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


def find_inserts(task: InsertsTask) -> list[list[Any]]:
    """Kernel: rows that met nobody, or that move, to `task.out`, ordered by partition path; gives the count of each path."""
    rows: Positions = np.empty(0, np.int64)
    met = [np.empty(0, np.int64)]
    for i, name in enumerate(task.tagged):
        reader = pa.ipc.open_file(task.storage.map(name))
        batches = [reader.get_batch(b) for b in range(reader.num_record_batches)]
        if i == 0:
            rows = np.asarray(batches.pop().column("new"))
        met.extend(np.asarray(b.column("new"))[np.asarray(b.column("fate")) != _MOVE] for b in batches)
    places = Places(task.pieces)
    inserts = np.setdiff1d(rows, np.concatenate(met))
    of = places.of(inserts)
    inserts = inserts[np.argsort(of, kind="stable")]
    with task.storage.create(task.out) as sink, pa.ipc.new_file(sink, pa.schema([("new", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch([pa.array(inserts)], names=["new"]))
    return [[path, int((of == i).sum())] for i, path in enumerate(places.paths)]


def read_hits(storage: Storage, name: str, batch: int) -> Hits:
    """One file's hits, as the merge takes them; rows that stay as they are are left out."""
    pairs = pa.ipc.open_file(storage.map(name)).get_batch(batch)
    fates = np.asarray(pairs.column("fate"))
    counts = fates != _KEEP
    old, new = np.asarray(pairs.column("old"))[counts], np.asarray(pairs.column("new"))[counts]
    return Hits(old, new, (fates == _MOVE)[counts])


def read_inserts(storage: Storage, name: str, offset: int, count: int) -> Positions:
    """Some of the rows that are new."""
    batch = pa.ipc.open_file(storage.map(name)).get_batch(0)
    return np.asarray(batch.column("new").slice(offset, count))
