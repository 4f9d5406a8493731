"""Which incoming rows are new, once the hits of all file slices are known: those that no living stored row meets, and those
that move.

A key may be in several base files if logs have deleted it in some of them: it was deleted and inserted again, or it moved. Then
the incoming row goes where the key lives. A row whose key is dead everywhere comes alive where it was, so that the group keeps
the key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.merge.choice import Fate
from penstock.storage import Storage
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import Piece
from penstock.write.tasks.located_rows import name_of_attempt, read_hit_file, write_new_rows_file


@dataclass(frozen=True)
class NewRowsTask:
    """The hit files of one set of incoming rows."""

    storage: Storage
    pieces: tuple[Piece, ...]
    #: The first one lists the rows that count.
    hit_files: tuple[str, ...]
    #: The first part of the name of the file of new rows.
    file_prefix: str
    #: Whether a row whose only stored version is dead comes alive where that was. Otherwise it is new.
    revives: bool = True


@dataclass(frozen=True)
class NewRowsResult:
    """A file of new rows, ordered by partition path."""

    file: str
    #: How many new rows each partition path has, in the order of the file.
    rows_by_path: list[tuple[str, int]]
    #: Whether the file lists rows that must not be appended where a log has deleted them.
    lists_elsewhere: bool


def find_new_rows(task: NewRowsTask) -> NewRowsResult:
    """Kernel: Write the numbers of the new rows to a file."""
    total = sum(piece.rows for piece in task.pieces)
    counts = np.zeros(total, np.bool_)
    is_met = np.zeros(total, np.bool_)
    dead_versions = np.zeros(total, np.int64)
    for number, hit_file in enumerate(task.hit_files):
        hits_by_slice, rows = read_hit_file(task.storage, hit_file, lists_rows=number == 0)
        counts[rows] = True
        for hits in hits_by_slice:
            is_met[hits.new[(hits.fates == Fate.MERGE) | (hits.fates == Fate.TOUCH)]] = True
            dead_versions[np.unique(hits.new[hits.fates == Fate.DEAD])] += 1
    is_revived = counts & ~is_met & (dead_versions == 1) & task.revives
    new_rows = np.flatnonzero(counts & ~is_met & ~is_revived)
    elsewhere = np.flatnonzero((dead_versions > 0) & ~is_revived)
    partitions = RowPartitions(task.pieces)
    path_numbers = partitions.path_numbers_of(new_rows)
    file = name_of_attempt(task.file_prefix)
    write_new_rows_file(task.storage, file, new_rows[np.argsort(path_numbers, kind="stable")], elsewhere)
    rows_per_path = np.bincount(path_numbers, minlength=len(partitions.paths)).tolist()
    return NewRowsResult(file, list(zip(partitions.paths, rows_per_path, strict=True)), len(elsewhere) > 0)
