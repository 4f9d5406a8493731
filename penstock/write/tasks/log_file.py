"""Merge-on-read: changes of known rows are appended to the log of their file slice; no base file is rewritten for them.

Where the index finds keys in logs, new rows are appended too: to the log of a file slice that has room, or of a new file group,
which then has no base file until it is compacted.

The rows of a batch are reduced to one per key, as for a merge, and then written as they came: what they mean for the stored
row is decided when the slice is read or compacted. Rows that say their key is gone become delete entries, which carry the
ordering value of the row that says so; a row that leaves for another partition leaves one without, which always applies.
Mergers of our own get such rows back as they came. What was deleted and came again in one batch is both, the entry first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock import clock
from penstock import options as o
from penstock.catalog.listing import merged_slices
from penstock.catalog.pending import pending_compactions
from penstock.commit.file_settings import log_block_format
from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.log.write import LogSettings, LogWriter
from penstock.filegroup.model import FileSlice
from penstock.filegroup.task_output import TaskOutput
from penstock.formats.log.deletes import Deletes, build_deletes
from penstock.merge.choice import Fate
from penstock.merge.kernels.gather import Positions, find_column
from penstock.merge.kernels.marks import drop_marks, is_fresh
from penstock.merge.kernels.ordering import check_ordering_values
from penstock.merge.merger import Merger
from penstock.options import Options
from penstock.table import TableState
from penstock.timeline.commit_file import WriteStat
from penstock.write.locate.assign import insert_ratio
from penstock.write.rows.crossing import KEY
from penstock.write.rows.task_rows import TaskRows
from penstock.write.tasks.base_file import Hits, row_group_parts

#: Nothing, where row numbers are meant.
NO_ROWS: Positions = np.empty(0, np.int64)


def log_settings(table: TableState, options: Options, compared: str | None = None) -> LogSettings | None:
    """How log files are written; None for a table that has none.

    Args:
        compared: the column by which rows of the log are compared with stored ones.
    """
    if not table.is_merge_on_read:
        return None
    return LogSettings(
        block_format=log_block_format(options),
        max_block_bytes=options[o.LOG_BLOCK_MAX_SIZE],
        max_file_bytes=options[o.LOG_FILE_MAX_SIZE],
        insert_ratio=insert_ratio(table, options),
        compared=compared,
    )


def appendable_slices(
    table: TableState, partitions: Sequence[str] | None, *, instant: str, logs_alone: bool = False
) -> dict[str, list[FileSlice]]:
    """Where the rows of each file group are and where changes of them go, by partition path.

    The base file and the log files are those that a query merges. While a compaction is pending for the group, the base instant
    is the compaction's, so that it differs from the base file's own. Compactions that were planned behind the write do not count.

    Args:
        table: with a timeline that was loaded after the write's own instant was taken.
        instant: the write's own.
        logs_alone: groups without a base file as well, for an index that finds keys in logs.
    """
    pending = pending_compactions(table, before=instant)
    return {
        path: [
            replace(s, base_instant=pending.get((path, s.file_id), s.base_instant)) for s in slices if s.base_file or logs_alone
        ]
        for path, slices in merged_slices(table, partitions).items()
    }


@dataclass(frozen=True)
class Append:
    """What is appended to, and how."""

    target: FileSlice
    settings: LogSettings
    merger: Merger
    #: The column whose value delete entries carry; None: they always apply.
    ordering: str | None = None


def append_hits(
    output: TaskOutput, append: Append, incoming: TaskRows, hits: Hits, inserts: Positions = NO_ROWS
) -> list[WriteStat]:
    """Append what a share says about the rows of one file group, which were found at `hits`, and rows that are new to it.

    A stored row that stays because the incoming one came too late (`TOUCH`) is not written again. Blocks also say where in the
    base file the rows stand that they change, so that readers need not look for keys.
    """
    writer, gone = LogWriter(output, append.target, append.settings), _Gone(append.ordering)
    known = _are_places_known(append.target, hits) and not len(inserts)
    merged, left = hits.fates == Fate.MERGE, hits.fates == Fate.MOVE
    removed: list[pa.Array] = []
    order, places = (hits.new[merged], hits.old[merged]) if known else (np.unique(hits.new[merged]), None)
    for part in row_group_parts(np.arange(len(order))):
        rows, at = incoming.take(order[part]), None if places is None else places[part]
        deletes = append.merger.is_delete_entry(rows)
        if (fresh := is_fresh(rows)).any():
            _delete_before(writer, append, rows.filter(pa.array(fresh)), None if at is None else at[fresh])
        if deletes.any():
            gone.add(rows.filter(pa.array(deletes)), None if at is None else at[deletes])
            removed += rows[KEY].filter(pa.array(deletes)).chunks
            rows, at = rows.filter(pa.array(~deletes)), None if at is None else at[~deletes]
        _check_compared(rows, append.settings)
        writer.write(drop_marks(rows.drop_columns([KEY])), rows[KEY], at)
    for part in row_group_parts(inserts):
        rows = incoming.take(part)
        deletes = append.merger.is_delete_entry(rows)
        if deletes.any():
            gone.add(rows.filter(pa.array(deletes)), None)
            rows = rows.filter(pa.array(~deletes))
        writer.write(append.merger.to_stored(rows.drop_columns([KEY])), rows[KEY], are_updates=False)
    if left.any():
        gone.add_always(incoming.take(np.unique(hits.new[left]))[KEY], hits.old[left])
    writer.delete(gone.entries(append.target.partition_path), np.concatenate(gone.places) if known else None)
    if append.ordering is None:  # otherwise a greater ordering value may keep the row alive
        writer.note_removed(pa.chunked_array(removed, pa.string()))
    return writer.close()


def _check_compared(rows: pa.Table, settings: LogSettings) -> None:
    """Refuse rows that could not be compared with the stored ones of their keys when the log is read."""
    values = find_column(rows, settings.compared) if settings.compared else None
    if settings.compared and values is not None:
        check_ordering_values(values, settings.compared)


def _delete_before(writer: LogWriter, append: Append, rows: pa.Table, places: Positions | None) -> None:
    """Delete entries for rows whose keys were deleted before they came."""
    before = _Gone(append.ordering)
    before.add(rows, places)
    writer.delete(before.entries(append.target.partition_path), places)


def _are_places_known(target: FileSlice, hits: Hits) -> bool:
    """Whether every row that is changed stands at one place of the base file that the log belongs to."""
    base = target.base_file
    if base is None or base.instant != target.base_instant:
        return False  # a compaction is pending, after which rows stand elsewhere
    return bool((hits.old >= 0).all()) and len(np.unique(hits.new)) == len(hits.new)


class LogGroups:
    """New rows of one partition to logs: of a file slice, then of new file groups, a next one whenever a log is full.

    Args:
        target: the slice that takes the first rows; None: a new group does.
    """

    def __init__(self, output: TaskOutput, partition_path: str, settings: LogSettings, target: FileSlice | None = None) -> None:
        self._output, self._path, self._settings = output, partition_path, settings
        self._open = LogWriter(output, target, settings) if target else None
        self._meets_others = target is not None
        self._prefix, self._groups = clock.new_uuid(), 0
        self._stats: list[WriteStat] = []

    def write(self, rows: pa.Table, keys: pa.ChunkedArray) -> None:
        """Add rows without meta columns."""
        if not rows.num_rows:
            return
        if self._meets_others:
            _check_compared(rows, self._settings)
        writer = self._open = self._open or self._next()
        writer.write(drop_marks(rows), keys, are_updates=False)
        if writer.written_bytes * (self._settings.insert_ratio or 0.0) >= self._output.settings.max_file_bytes:
            self.close()

    def _next(self) -> LogWriter:
        name = f"{self._prefix}-{self._groups}"
        self._groups += 1
        return LogWriter(self._output, FileSlice(self._path, name, self._output.settings.instant), self._settings)

    def close(self) -> list[WriteStat]:
        """Finish the open log; gives the stats of all."""
        if self._open:
            self._stats += self._open.close()
            self._open, self._meets_others = None, False
        return self._stats


def new_groups(
    output: TaskOutput, path: str, logs: LogSettings | None, target: FileSlice | None = None
) -> RollingWriter | LogGroups:
    """What new rows of a partition are written with: base files or, where the index finds keys there, logs.

    Args:
        target: the slice whose log takes the first of them.
    """
    if logs is None or logs.insert_ratio is None:
        return RollingWriter(output, path)
    return LogGroups(output, path, logs, target)


class _Gone:
    """Keys that are deleted, with the ordering values of their deletes."""

    def __init__(self, ordering: str | None) -> None:
        self._ordering = ordering
        self._keys: list[pa.ChunkedArray] = []
        self._values: list[pa.ChunkedArray | int] = []  # or how many have none
        self.places: list[Positions] = [np.empty(0, np.int64)]

    def add(self, rows: pa.Table, places: Positions | None) -> None:
        values = find_column(rows, self._ordering) if self._ordering else None
        self._keys.append(rows[KEY])
        self._values.append(rows.num_rows if values is None else values)
        self.places += [] if places is None else [places]

    def add_always(self, keys: pa.ChunkedArray, places: Positions) -> None:
        self._keys.append(keys)
        self._values.append(len(keys))
        self.places.append(places)

    def entries(self, path: str) -> Deletes:
        keys = pa.chunked_array([chunk for each in self._keys for chunk in each.chunks], pa.string())
        kind = next((values.type for values in self._values if not isinstance(values, int)), None)
        if kind is None:
            return build_deletes(keys, pa.repeat(path, len(keys)))
        values = [[pa.nulls(each, kind)] if isinstance(each, int) else each.chunks for each in self._values]
        return build_deletes(
            keys, pa.repeat(path, len(keys)), pa.chunked_array([chunk for each in values for chunk in each], kind)
        )
