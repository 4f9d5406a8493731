"""Lists the new rows of a write: incoming rows whose key no living stored row has, and rows that move to another partition.

Runs when the hits (pairs of a stored and an incoming row with the same key) of all file slices are known. A stored row is living
unless a log file of its slice has deleted it. A key may be in several base files, deleted by log files in all but one of them,
because it was inserted again or moved. Then the incoming row is merged where the key is alive. If the key is in one base file
only, and deleted there by a log file, the incoming row is appended to that log, and the key stays in its file group. (With a
global index it is a new row instead.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.merge.row_choice import Fate
from penstock.storage import Storage
from penstock.write.rows.row_partitions import RowPartitions
from penstock.write.rows.staging import Piece
from penstock.write.tasks.located_rows import name_of_attempt, read_hit_file, write_new_rows_file


@dataclass(frozen=True)
class NewRowsTask:
    """Task description of `find_new_rows`: list the incoming rows whose keys are new, from the hit files of a set of rows.

    A hit file lists pairs of a stored and an incoming row with the same key. A set is the incoming rows of one partition; with a
    global index it is all incoming rows.
    """

    storage: Storage
    pieces: tuple[Piece, ...]
    #: The hit files of all locating tasks of the set. The first one also lists the newest incoming row of each key.
    hit_files: tuple[str, ...]
    #: The first part of the name of the file of new rows.
    file_prefix: str
    #: Whether an incoming row whose only stored row was deleted by a log is appended to that log. Otherwise the row is new.
    revives: bool = True


@dataclass(frozen=True)
class NewRowsResult:
    """The result of `find_new_rows`: the Arrow file that lists the numbers of the new rows, ordered by partition path.

    `rows_by_path` says how many new rows each partition path has, in the order of the file.
    """

    file: str
    #: (partition path, number of new rows), in the order of the file.
    rows_by_path: list[tuple[str, int]]
    #: Whether the file also lists rows that must not be appended to the slice in which a log has deleted their key.
    lists_elsewhere: bool


def find_new_rows(task: NewRowsTask) -> NewRowsResult:
    """Find the incoming rows to write as new rows, and write their numbers to a file.

    A row is new if no stored row has its key, if it moves to another partition, or if log files have deleted all stored rows of
    its key. With `task.revives`, a row whose only stored row was deleted by a log file is not listed: it is appended to that log.
    Of several incoming rows with the same key only the newest counts. Runs in a task, on a worker or on the driver.
    """
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
