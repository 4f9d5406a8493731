"""File sizing: which small file slices take more rows, how many rows still fit, and how many rows a new file group gets.

The driver assigns new rows by these rules (`assign.py`). A task that writes a whole partition applies them itself
(`tasks/upsert_kernel.py`), because only the task finds out which rows are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock import options as o
from penstock.filegroup.model import FileSlice
from penstock.index import make_index
from penstock.options import Options
from penstock.table.pending import find_pending_clusterings
from penstock.table.state import TableState
from penstock.timeline.instant import Action, Instant
from penstock.timeline.store import read_stats

#: The fields of a write stat from which the average size of a record is computed: path, bytes and rows of the file.
_SIZE_FIELDS = ("path", "totalWriteBytes", "numWrites")
#: How many of the latest commits are read to find the average size of a record.
_COMMITS_BACK = 100


@dataclass(frozen=True)
class Sizing:
    """The limits that decide how many rows a write puts into a file group. Pickled to the workers."""

    small_file_limit: int
    max_file_bytes: int
    record_bytes: int
    #: How many rows a new file group gets; None: as many as fit in a file of `max_file_bytes`.
    split_rows: int | None = None
    #: How many small slices of a partition one write fills, in a merge-on-read table; None: all (copy-on-write).
    candidates: int | None = None
    #: How many bytes of a base file one byte of a log counts as, if new rows go to logs; None if they go to base files.
    log_ratio: float | None = None
    #: (partition path, file id) of file groups that take no more rows, because a pending clustering will rewrite them.
    busy: frozenset[tuple[str, str]] = frozenset()

    @property
    def rows_per_group(self) -> int:
        """The most rows that a write puts into a new file group: `split_rows` if set, else as many as fill a file."""
        return self.split_rows or -(-self.max_file_bytes // self.record_bytes)

    def count_rows_that_fit(self, file_slice: FileSlice) -> int:
        """Return how many rows can be added to a file slice until its size is `max_file_bytes`.

        Args:
            file_slice: a slice that `find_small_slices` returned.
        """
        return max(0, self.max_file_bytes - self.estimate_bytes(file_slice)) // self.record_bytes

    def estimate_bytes(self, file_slice: FileSlice) -> int:
        """Return the estimated size of a file slice, which decides whether the slice is small or full.

        This is the size of the base file. If new rows go to logs, the size that the slice's logs will have after a compaction is
        added.
        """
        return file_slice.base_bytes + int(file_slice.log_bytes * (self.log_ratio or 0.0))

    def find_small_slices(self, slices: Sequence[FileSlice]) -> list[FileSlice]:
        """Return those of `slices` to which a write adds new rows; none if `small_file_limit` is 0.

        - Copy-on-write: all slices with a small base file.
        - Merge-on-read, new rows go to base files: the smallest slices that have a small base file and no logs. Adding rows
          rewrites the base file, and readers would then ignore the logs of the old one.
        - Merge-on-read, new rows go to logs: all slices whose estimated size is less than `max_file_bytes`.

        A slice with a pending compaction or clustering is left out.
        """
        if self.small_file_limit <= 0:
            return []
        free = []
        for file_slice in slices:
            is_busy = (file_slice.partition_path, file_slice.file_id) in self.busy
            if not is_busy and not _is_being_compacted(file_slice):
                free.append(file_slice)
        if self.log_ratio is not None:
            return [file_slice for file_slice in free if self.estimate_bytes(file_slice) < self.max_file_bytes]
        small = [file_slice for file_slice in free if file_slice.base_file and file_slice.base_bytes < self.small_file_limit]
        if self.candidates is None:
            return small
        without_logs = [file_slice for file_slice in small if not file_slice.log_files]
        return sorted(without_logs, key=self.estimate_bytes)[: max(0, self.candidates)]


def _is_being_compacted(file_slice: FileSlice) -> bool:
    """Whether a compaction of the file slice is pending.

    If so, the slice's base instant is that of the compaction, and its base file or log files have an older one.
    """
    if file_slice.base_file is not None and file_slice.base_file.instant != file_slice.base_instant:
        return True
    return any(log.base_instant != file_slice.base_instant for log in file_slice.log_files)


def read_sizing(table: TableState, options: Options) -> Sizing:
    """Return the limits for the file sizes of a write. They come from the options and from the table.

    The average record size is computed from the write stats of the latest commits. File groups with a pending clustering are
    listed, because they take no more rows.
    """
    sizing = Sizing(
        small_file_limit=options[o.SMALL_FILE_LIMIT],
        max_file_bytes=options[o.MAX_FILE_SIZE],
        record_bytes=options[o.RECORD_SIZE_ESTIMATE],
        split_rows=None if options[o.INSERT_AUTO_SPLIT] else options[o.INSERT_SPLIT_SIZE],
        candidates=options[o.SMALL_FILE_CANDIDATES] if table.is_merge_on_read else None,
        log_ratio=insert_ratio(table, options),
        busy=frozenset(find_pending_clusterings(table)),
    )
    least_bytes = options[o.RECORD_SIZE_ESTIMATION_THRESHOLD] * sizing.small_file_limit
    recent = reversed(table.timeline.writes[-_COMMITS_BACK:])
    commits = ((instant.action, _read_sizes(table, instant)) for instant in recent)
    return replace(sizing, record_bytes=estimate_record_bytes(commits, least_bytes, sizing.record_bytes))


def _read_sizes(table: TableState, instant: Instant) -> list[tuple[Any, ...]]:
    """Return (path, bytes, rows) of each file that a commit wrote; nothing if the commit has been archived."""
    try:
        return read_stats(table.storage, table.base_path, instant, _SIZE_FIELDS, is_final=table.is_final(instant))
    except FileNotFoundError:  # the size of a record is an estimate
        return []


def insert_ratio(table: TableState, options: Options) -> float | None:
    """Return how many bytes of a base file one byte of a log file becomes when it is compacted, by estimate.

    This is `hoodie.logfile.to.parquet.compression.ratio`. None if the table's new rows go to base files, not to log files.
    """
    return options[o.LOG_TO_PARQUET_RATIO] if table.is_merge_on_read and make_index(options).inserts_into_logs else None


def estimate_record_bytes(
    commits: Iterable[tuple[Action, Sequence[tuple[str | None, int | None, int | None]]]], least_bytes: float, estimate: int
) -> int:
    """Return the average bytes per record of the newest commit that wrote more than `least_bytes`.

    Of a deltacommit only base files count. Return `estimate` if no commit wrote that much.

    Args:
        commits: the action of each commit, newest first, with the path, the bytes and the rows of each file that it wrote.
        estimate: the value of `hoodie.copyonwrite.record.size.estimate`.
    """
    for action, files in commits:
        if action is Action.DELTA_COMMIT:  # records of logs are larger than those of base files
            files = [file for file in files if (file[0] or "").endswith(".parquet")]
        size_bytes = sum(file_bytes or 0 for _, file_bytes, _ in files)
        rows = sum(file_rows or 0 for _, _, file_rows in files)
        if size_bytes > least_bytes and rows > 0:
            return -(-size_bytes // rows)
    return max(1, estimate)
