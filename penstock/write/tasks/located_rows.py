"""The files by which the jobs that locate keys pass results to the tasks that write: hit files and files of new rows.

A hit is a pair of a stored and an incoming row with the same key. Both kinds of file are Arrow files of row numbers in the
staging folder, so the row numbers never pass through the driver; a task description holds only references to the files. Incoming
rows are numbered in the order of the task's pieces (a piece is consecutive rows of a staged file).

- A hit file is written by one task that locates keys. It has a record batch of `Hits` for each file slice of the task. The first
  hit file of a set of incoming rows has one more batch, which lists the newest incoming row of each key.
- A file of new rows is written once all hits are known. Its first batch lists the new rows, ordered by partition path. Its second
  batch lists rows whose key a log file has deleted in some slice, but which are written to another slice. The task of the slice
  with the deleted key must not append them to its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.merge.kernels.gather import Positions
from penstock.merge.row_choice import Fate, Fates
from penstock.storage import Storage, open_arrow_file, write_batch
from penstock.storage.os_errors import convert_os_errors
from penstock.workers.run_kernels import this_task

#: No row numbers.
NO_ROWS: Positions = np.empty(0, np.int64)
_HITS = pa.schema([("old", pa.int64()), ("new", pa.int64()), ("fate", pa.int8())])
_ROWS = pa.schema([("new", pa.int64())])
#: The numbers of the record batches in a file of new rows.
_NEW_BATCH = 0
_ELSEWHERE_BATCH = 1


@dataclass(frozen=True)
class Hits:
    """Pairs of a stored row of one file slice and an incoming row with the same key, as arrays with one element per pair.

    Each pair has a `Fate`, which says what happens to the stored row: the merger decides (MERGE), it is removed because the
    incoming row goes to another partition (MOVE), it stays and counts as written (TOUCH), or a log file has deleted it (DEAD).
    """

    #: The row numbers of the stored rows in the base file; -1 if only the file group is known. Then the task that writes looks
    #: for the key in the base file, and the incoming row is new if the key is not there.
    old: Positions
    #: The numbers of the incoming rows.
    new: Positions
    fates: Fates

    @property
    def have_positions(self) -> bool:
        """Whether the stored row of every pair is known by its row number in the base file. If not, it is found by its key."""
        return bool((self.old >= 0).all())


NO_HITS = Hits(NO_ROWS, NO_ROWS, np.empty(0, np.int8))


def make_merge_hits(old: Positions, new: Positions) -> Hits:
    """Return hits (pairs of a stored and an incoming row with the same key) that all have `Fate.MERGE`: the merger decides.

    Args:
        old: the row numbers of the stored rows in the base file; -1 where unknown.
        new: the numbers of the incoming rows.
    """
    return Hits(old, new, np.full(len(new), Fate.MERGE, np.int8))


@dataclass(frozen=True)
class HitBatch:
    """Where the hits of one file slice are stored: the hit file, and the number of the record batch in that file.

    A hit is a pair of a stored and an incoming row with the same key.
    """

    file: str
    batch: int


@dataclass(frozen=True)
class NewRowRange:
    """A range in a file that lists the numbers of new rows: `rows` numbers, beginning at position `offset` of the list."""

    file: str
    offset: int
    rows: int


def name_of_attempt(prefix: str) -> str:
    """Return a file name that begins with `prefix` and is unique to this attempt of the running task.

    An earlier attempt that was killed may have left its file, and creating a file that exists would fail.
    """
    return f"{prefix}-{this_task().write_token}.arrow"


class HitFile:
    """A hit file, open for writing: an Arrow file of hits. A hit is a pair of a stored and an incoming row with the same key.

    The hits of each file slice are written first, one record batch per slice. The numbers of the newest incoming rows, one per
    key, may follow as the last batch.
    """

    def __init__(self, storage: Storage, writer: pa.ipc.RecordBatchFileWriter) -> None:
        self._storage = storage
        self._writer = writer

    def write_hits(self, hits: Hits) -> None:
        """Write the hits (pairs of a stored and an incoming row) of the next file slice as one record batch.

        Called once per slice of the task, in the order of the slices.
        """
        self._write(hits.old, hits.new, hits.fates)

    def write_rows(self, rows: Positions) -> None:
        """Write the numbers of the newest incoming row of each key. Called after all hits are written."""
        unused = np.zeros(len(rows), np.int64)
        self._write(unused, rows, unused.astype(np.int8))

    def _write(self, old: Positions, new: Positions, fates: Fates) -> None:
        """Append one record batch to the file. Its columns are the stored row numbers, the incoming row numbers and the fates."""
        batch = pa.record_batch([pa.array(old), pa.array(new), pa.array(fates)], schema=_HITS)
        write_batch(self._storage, self._writer, batch)


@contextmanager
def create_hit_file(storage: Storage, path: str) -> Iterator[HitFile]:
    """Create a hit file (an Arrow file of pairs of stored and incoming row numbers), and yield it open for writing.

    The file is closed when the `with` block ends.
    """
    with convert_os_errors(path), storage.create(path) as sink, pa.ipc.new_file(sink, _HITS) as writer:
        yield HitFile(storage, writer)


def read_hit_file(storage: Storage, path: str, *, lists_rows: bool) -> tuple[list[Hits], Positions]:
    """Read a whole hit file. Return the hits of each file slice, and the number of the newest incoming row of each key.

    A hit is a pair of a stored and an incoming row with the same key.

    Args:
        lists_rows: whether the file ends with the numbers of the newest rows. If not, the second result is empty.
    """
    reader = open_arrow_file(storage, path)
    batches = [_to_hits(reader.get_batch(number)) for number in range(reader.num_record_batches)]
    if not lists_rows:
        return batches, NO_ROWS
    return batches[:-1], batches[-1].new


def read_hits(storage: Storage, hits: HitBatch, new_rows_file: str | None = None) -> Hits:
    """Read the hits of one file slice (pairs of a stored and an incoming row with the same key), for the task that writes it.

    The result has no `Fate.DEAD` (a log file has deleted the stored row). If the incoming row is written to another slice, the
    hit is left out. Otherwise its fate becomes `Fate.MERGE`: the row is written to this slice, and the key stays here.

    Args:
        hits: where the hits are stored.
        new_rows_file: the file of new rows that lists the rows written to another slice; None if there are none.
    """
    found = _to_hits(open_arrow_file(storage, hits.file).get_batch(hits.batch))
    is_dead = found.fates == Fate.DEAD
    if not is_dead.any():
        return found
    elsewhere = NO_ROWS
    if new_rows_file is not None:
        elsewhere = _read_rows(storage, new_rows_file, _ELSEWHERE_BATCH)
    kept = ~is_dead | ~np.isin(found.new, elsewhere)
    fates = np.where(is_dead, Fate.MERGE, found.fates)
    return Hits(found.old[kept], found.new[kept], fates[kept])


def write_new_rows_file(storage: Storage, path: str, new_rows: Positions, elsewhere: Positions) -> None:
    """Write the Arrow file from which the tasks that write read the numbers of their new rows.

    Args:
        new_rows: the numbers of the new rows, ordered by partition path.
        elsewhere: the numbers of rows whose key a log file of some slice has deleted, but which are written to another slice.
            They must not be appended to the slice with the deleted key.
    """
    with convert_os_errors(path), storage.create(path) as sink, pa.ipc.new_file(sink, _ROWS) as writer:
        for rows in (new_rows, elsewhere):
            write_batch(storage, writer, pa.record_batch([pa.array(rows)], schema=_ROWS))


def read_new_rows(storage: Storage, rows: NewRowRange) -> Positions:
    """Return the numbers of the new rows that one task writes: a range of the list in the file of new rows."""
    return _read_rows(storage, rows.file, _NEW_BATCH)[rows.offset : rows.offset + rows.rows]


def _read_rows(storage: Storage, path: str, batch: int) -> Positions:
    """Return the row numbers in one record batch of a file of new rows.

    Args:
        batch: the number of the record batch: `_NEW_BATCH` or `_ELSEWHERE_BATCH`.
    """
    return np.asarray(open_arrow_file(storage, path).get_batch(batch).column("new"))


def _to_hits(batch: pa.RecordBatch) -> Hits:
    """Convert a record batch of a hit file to `Hits`."""
    return Hits(np.asarray(batch.column("old")), np.asarray(batch.column("new")), np.asarray(batch.column("fate")))
