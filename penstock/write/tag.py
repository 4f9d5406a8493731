"""Stage 4: every known key carries its location. Kernels, and the small Arrow files they hand over to the merge.

Tagging is a job of its own only where a partition has more file groups than one task should open, or where keys are
looked for in all partitions. Its tasks give back row numbers, so that the merge needs no hash any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.filegroup.model import BaseFile
from penstock.filegroup.read import open_base_file, read_row_groups
from penstock.filegroup.write import failing_as_storage
from penstock.index.lookup import Keys, Pruning, look_up
from penstock.merge.gather import Positions, take_rows, top_column
from penstock.merge.mergers import DELETE_FLAG, KEEP_OLD, Merger
from penstock.spread import this_task
from penstock.storage import Storage
from penstock.write.merge_file import MERGE, MOVE, TOUCH, Fates, Hits
from penstock.write.share import Share, ShareSettings, load_share
from penstock.write.stage import Piece

_PAIRS = pa.schema([("old", pa.int64()), ("new", pa.int64()), ("fate", pa.int8())])


@dataclass(frozen=True)
class TagTask:
    """Some base files, and the incoming rows whose keys are looked for in them."""

    pieces: tuple[Piece, ...]
    files: tuple[tuple[str, BaseFile], ...]
    share: ShareSettings
    pruning: Pruning
    merger: Merger
    moves: bool
    #: How the name of the file begins that the hits are written to; the result says how it ends.
    out: str
    #: Also write down which rows count, one per key; one task of a share does.
    lists_rows: bool


def tag_files(task: TagTask) -> dict[str, Any]:
    """Kernel: hits of each file to a file of its own, one batch a file; gives how many rows each file will see changed."""
    storage, out = task.share.staging.storage, _own_name(task.out)
    share = load_share(task.share, task.pieces, columns=(*task.merger.needs, *task.merger.reads, DELETE_FLAG))
    keys, places = Keys(share.keys), Places(task.pieces)
    counts, opened, candidates = [], 0, 0
    with failing_as_storage(out), storage.create(out) as sink, pa.ipc.new_file(sink, _PAIRS) as writer:
        answers = look_up(storage, [base for _, base in task.files], keys, task.pruning)
        for (path, base), found in zip(task.files, answers, strict=True):
            fates = _fates(task, path, base, share, found.old, share.rows[found.key], places)
            writer.write_batch(_batch(found.old, share.rows[found.key], fates))
            counts.append(len(fates))
            opened, candidates = opened + found.opened, candidates + found.candidates
        if task.lists_rows:
            nothing = np.zeros(len(share.rows), np.int64)
            writer.write_batch(_batch(nothing, share.rows, nothing.astype(np.int8)))
    return {"out": out, "counts": counts, "rows": len(share.rows), "opened": opened, "candidates": candidates}


def _own_name(out: str) -> str:
    """A name that no other attempt of this task takes: one that was killed may have left its own file."""
    return f"{out}-{this_task().write_token}.arrow"


def _batch(old: Positions, new: Positions, fates: Fates) -> pa.RecordBatch:
    return pa.record_batch([pa.array(old), pa.array(new), pa.array(fates)], schema=_PAIRS)


def _fates(task: TagTask, path: str, base: BaseFile, share: Share, old: Positions, new: Positions, places: Places) -> Fates:
    """What each hit is: a merge in place, or a row that goes to the partition of the incoming one.

    A delete finds its row wherever that is. A stored row that the merger would keep stays, and counts as written anew.
    """
    fates = np.full(len(old), MERGE)
    away = np.flatnonzero(places.of(new) != places.number(path)) if task.moves else np.empty(0, np.int64)
    if len(away) == 0:
        return fates
    rows = share.take(new[away])
    kept = np.zeros(len(away), np.bool_)
    if task.merger.needs:
        kept = task.merger.resolve(_old_values(task, base, rows.schema, old[away]), rows) == KEEP_OLD
    fates[away] = np.where(task.merger.is_delete(rows), MERGE, np.where(kept, TOUCH, MOVE))
    return fates


def _old_values(task: TagTask, base: BaseFile, schema: pa.Schema, rows: Positions) -> pa.Table:
    """What the merger needs of some stored rows."""
    names = dict.fromkeys(top_column(path, schema.names) for path in task.merger.needs)
    wanted = pa.schema([schema.field(name) for name in names if name in schema.names])
    groups = read_row_groups(open_base_file(task.share.staging.storage, base.path), base.path, wanted)
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


def find_inserts(task: InsertsTask) -> dict[str, Any]:
    """Kernel: rows that met nobody, or that move, to a file, ordered by partition path; gives the count of each path."""
    is_new = np.zeros(sum(p.rows for p in task.pieces), np.bool_)
    for i, name in enumerate(task.tagged):
        reader = pa.ipc.open_file(task.storage.map(name))
        batches = [reader.get_batch(b) for b in range(reader.num_record_batches)]
        if i == 0:
            is_new[np.asarray(batches.pop().column("new"))] = True
        for batch in batches:
            is_new[np.asarray(batch.column("new"))[np.asarray(batch.column("fate")) != MOVE]] = False
    places = Places(task.pieces)
    inserts = np.flatnonzero(is_new)
    of = places.of(inserts)
    inserts = inserts[np.argsort(of, kind="stable")]
    out = _own_name(task.out)
    schema = pa.schema([("new", pa.int64())])
    with failing_as_storage(out), task.storage.create(out) as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(inserts)], names=["new"]))
    return {"out": out, "counts": [[path, int((of == i).sum())] for i, path in enumerate(places.paths)]}


def read_hits(storage: Storage, name: str, batch: int) -> Hits:
    """One file's hits, as the merge takes them."""
    pairs = pa.ipc.open_file(storage.map(name)).get_batch(batch)
    return Hits(*(np.asarray(pairs.column(field)) for field in _PAIRS.names))


def read_inserts(storage: Storage, name: str, offset: int, count: int) -> Positions:
    """Some of the rows that are new."""
    batch = pa.ipc.open_file(storage.map(name)).get_batch(0)
    return np.asarray(batch.column("new").slice(offset, count))
