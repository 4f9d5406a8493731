"""Appends changes to the log of a file slice, in a merge-on-read table. No base file is rewritten.

Incoming rows are appended without merging them with stored rows: readers and compactions of the slice do that. Each kind of row
has its form in the log:

- An update is a row in a data block. There is one per key, or all rows of the key if `UpsertRules.keeps_repeats` is set.
- A delete is an entry in a delete block, with the row's ordering value. For mergers with `Merger.logs_deletes_as_rows` it is a
  row in a data block, because these mergers decide when the log is read whether the row deletes its key.
- A row that moves to another partition leaves a delete entry without an ordering value, which applies to any stored row.
- A key that one batch deletes and inserts again gets a delete block first, and then a data block with its row.
- A new row is a row in a data block, if the index finds keys in logs: in the log of a slice with room, or in the log of a new
  file group, which then has no base file until it is compacted. With other indexes new rows go to base files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.log.write import LogSettings, LogWriter
from penstock.filegroup.model import FileSlice
from penstock.filegroup.task_output import TaskOutput
from penstock.formats.log.deletes import Deletes, build_deletes
from penstock.merge.kernels.gather import Positions, find_column
from penstock.merge.kernels.marks import drop_marks, is_fresh
from penstock.merge.kernels.ordering import check_ordering_values
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Fate
from penstock.timeline.commit_file import WriteStat
from penstock.write.rows.crossing_columns import KEY
from penstock.write.tasks.located_rows import NO_ROWS, Hits
from penstock.write.tasks.task_rows import TaskRows, split_row_numbers


@dataclass(frozen=True)
class LogAppend:
    """The file slice to whose log changes are appended, the settings of the new log files, and the merger that finds deletes."""

    target: FileSlice
    settings: LogSettings
    merger: Merger
    #: The column whose value delete entries carry; None: delete entries always apply.
    ordering: str | None = None


def append_changes(
    output: TaskOutput, append: LogAppend, incoming: TaskRows, hits: Hits, new_rows: Positions = NO_ROWS
) -> list[WriteStat]:
    """Append the incoming rows of one file slice to its log: updates and deletes of stored rows, and new rows.

    A pair with `Fate.TOUCH` writes nothing: the stored row stays, because the incoming row, which would have moved it to another
    partition, came too late. If the positions of all changed rows in the base file are known, the log blocks contain them, and
    readers need not compare keys.

    Args:
        hits: the pairs of a stored row of the slice and an incoming row with the same key.
        new_rows: the numbers (in `incoming`) of the rows whose keys are new to the slice.

    Returns:
        The write stats of the log files.
    """
    writer = LogWriter(output, append.target, append.settings)
    deletes = _DeleteEntries(append.ordering)
    has_positions = _are_positions_known(append.target, hits) and not len(new_rows)
    removed_keys = _append_updates(writer, append, incoming, hits, deletes, has_positions=has_positions)
    _append_new_rows(writer, append, incoming, new_rows, deletes)
    is_moved = hits.fates == Fate.MOVE
    if is_moved.any():
        moved_keys = incoming.take(np.unique(hits.new[is_moved]))[KEY]
        deletes.add_always(moved_keys, hits.old[is_moved])
    positions = np.concatenate(deletes.positions) if has_positions else None
    writer.delete(deletes.build(append.target.partition_path), positions)
    if append.ordering is None:  # otherwise a greater ordering value may keep a stored row, and the index must keep its entry
        writer.note_removed(pa.chunked_array(removed_keys, pa.string()))
    return writer.close()


def _append_updates(
    writer: LogWriter, append: LogAppend, incoming: TaskRows, hits: Hits, deletes: _DeleteEntries, *, has_positions: bool
) -> list[pa.Array]:
    """Append the incoming rows that update a stored row of the slice (`Fate.MERGE`), and return the keys that such rows delete.

    Deletes are not appended here: they are added to `deletes`, which the caller writes after all rows.

    Args:
        hits: the pairs of a stored row of the slice and an incoming row with the same key.
        has_positions: whether log blocks also hold the position of each changed row in the base file.
    """
    is_merged = hits.fates == Fate.MERGE
    if has_positions:
        rows_to_write = hits.new[is_merged]
        positions_to_write = hits.old[is_merged]
    else:
        rows_to_write = np.unique(hits.new[is_merged])  # a key may be in the base file several times
        positions_to_write = None
    removed_keys: list[pa.Array] = []
    for part in split_row_numbers(np.arange(len(rows_to_write))):
        rows = incoming.take(rows_to_write[part])
        positions = None if positions_to_write is None else positions_to_write[part]
        is_delete = append.merger.is_delete_entry(rows)
        fresh = is_fresh(rows)
        if fresh.any():
            _delete_before(writer, append, rows.filter(pa.array(fresh)), _filter(positions, fresh))
        if is_delete.any():
            deleted = rows.filter(pa.array(is_delete))
            deletes.add(deleted, _filter(positions, is_delete))
            removed_keys += deleted[KEY].chunks
            rows = rows.filter(pa.array(~is_delete))
            positions = _filter(positions, ~is_delete)
        _check_ordering(rows, append.settings)
        writer.write(drop_marks(rows.drop_columns([KEY])), rows[KEY], positions)
    return removed_keys


def _append_new_rows(
    writer: LogWriter, append: LogAppend, incoming: TaskRows, new_rows: Positions, deletes: _DeleteEntries
) -> None:
    """Append incoming rows whose keys are new to the slice.

    Deletes are not appended here: they are added to `deletes`, which the caller writes after all rows.

    Args:
        new_rows: the numbers (in `incoming`) of the rows to append.
    """
    for part in split_row_numbers(new_rows):
        rows = incoming.take(part)
        is_delete = append.merger.is_delete_entry(rows)
        if is_delete.any():
            deletes.add(rows.filter(pa.array(is_delete)), None)
            rows = rows.filter(pa.array(~is_delete))
        writer.write(append.merger.to_stored(rows.drop_columns([KEY])), rows[KEY], are_updates=False)


def _filter(positions: Positions | None, flags: np.ndarray) -> Positions | None:
    """Return the items of `positions` where the mask `flags` is true; None if `positions` is None."""
    return None if positions is None else positions[flags]


def _check_ordering(rows: pa.Table, settings: LogSettings) -> None:
    """Raise SchemaError if readers of the log will compare rows by their ordering value, and the value of a row is null."""
    if not settings.compared:
        return
    values = find_column(rows, settings.compared)
    if values is not None:
        check_ordering_values(values, settings.compared)


def _delete_before(writer: LogWriter, append: LogAppend, rows: pa.Table, positions: Positions | None) -> None:
    """Write a delete block with the keys of some rows. The caller then writes the rows themselves to a data block.

    The batch deletes these keys and inserts them again, so readers must not merge `rows` with the stored rows.

    Args:
        positions: the positions of the stored rows in the base file; None if they are not known.
    """
    deletes = _DeleteEntries(append.ordering)
    deletes.add(rows, positions)
    writer.delete(deletes.build(append.target.partition_path), positions)


def _are_positions_known(target: FileSlice, hits: Hits) -> bool:
    """Whether the position of each changed row is known in the base file below the log, and each row is changed only once."""
    base_file = target.base_file
    if base_file is None or base_file.instant != target.base_instant:
        return False  # a compaction is pending: the log will be on top of a base file with other positions
    return hits.have_positions and len(np.unique(hits.new)) == len(hits.new)


class RollingLogWriter:
    """Writes new rows of one partition to logs. When a log is full, the next rows go to the log of another, new file group.

    A log is full when a compaction would make a base file of the maximum size out of it, by estimate.

    Args:
        target: the slice whose log takes the first rows; None: they go to a new file group.
    """

    def __init__(self, output: TaskOutput, partition_path: str, settings: LogSettings, target: FileSlice | None = None) -> None:
        self._output = output
        self._partition_path = partition_path
        self._settings = settings
        self._open = LogWriter(output, target, settings) if target else None
        self._has_stored_rows = target is not None
        self._file_id_prefix = output.make_file_id_prefix(partition_path)
        self._groups = 0
        self._stats: list[WriteStat] = []

    def write(self, rows: pa.Table, keys: pa.ChunkedArray) -> None:
        """Append new rows to the open log. Close the log when it is full.

        Args:
            rows: the data columns, without meta columns.
            keys: the record key of each row.
        """
        if not rows.num_rows:
            return
        if self._has_stored_rows:
            _check_ordering(rows, self._settings)
        if self._open is None:
            self._open = self._open_next()
        self._open.write(drop_marks(rows), keys, are_updates=False)
        if self._open.written_bytes * (self._settings.insert_ratio or 0.0) >= self._output.settings.max_file_bytes:
            self.close()

    def _open_next(self) -> LogWriter:
        """Open a writer for the log of a new file group, and return it."""
        file_id = f"{self._file_id_prefix}-{self._groups}"
        self._groups += 1
        return LogWriter(self._output, FileSlice(self._partition_path, file_id, self._output.settings.instant), self._settings)

    def close(self) -> list[WriteStat]:
        """Finish the open log, if there is one. Return the write stats of all logs that were written so far."""
        if self._open:
            self._stats += self._open.close()
            self._open = None
            self._has_stored_rows = False
        return self._stats


def open_insert_writer(
    output: TaskOutput, partition_path: str, logs: LogSettings | None, target: FileSlice | None = None
) -> RollingWriter | RollingLogWriter:
    """Return the writer for new rows of a partition: a log writer if the index finds keys in logs, otherwise a base file writer.

    Args:
        logs: how log files are written; None: the table is copy-on-write.
        target: the slice whose log takes the first rows; None: a new file group. A base file writer ignores it.
    """
    if logs is None or logs.insert_ratio is None:
        return RollingWriter(output, partition_path)
    return RollingLogWriter(output, partition_path, logs, target)


class _DeleteEntries:
    """Collects the entries of a delete block: record keys, with the ordering values of the rows that delete them.

    Args:
        ordering: the name of the ordering column; None: entries have no ordering value.
    """

    def __init__(self, ordering: str | None) -> None:
        self._ordering = ordering
        self._keys: list[pa.ChunkedArray] = []
        #: One element per call of `add` or `add_always`: the ordering values; or, without values, the number of keys.
        self._values: list[pa.ChunkedArray | int] = []
        self.positions: list[Positions] = [NO_ROWS]

    def add(self, rows: pa.Table, positions: Positions | None) -> None:
        """Add a delete entry for the key of each row, with the row's ordering value.

        Args:
            rows: incoming rows that delete their keys.
            positions: the positions in the base file of the stored rows that are deleted; None if they are not known.
        """
        values = find_column(rows, self._ordering) if self._ordering else None
        self._keys.append(rows[KEY])
        self._values.append(rows.num_rows if values is None else values)
        if positions is not None:
            self.positions.append(positions)

    def add_always(self, keys: pa.ChunkedArray, positions: Positions) -> None:
        """Add an entry without ordering value for each key. Readers delete the key whatever the ordering value of the stored row.

        Args:
            positions: the positions in the base file of the stored rows that are deleted.
        """
        self._keys.append(keys)
        self._values.append(len(keys))
        self.positions.append(positions)

    def build(self, partition_path: str) -> Deletes:
        """Return the content of a delete block with all collected entries. Each entry gets this partition path."""
        key_chunks: list[pa.Array] = []
        for keys in self._keys:
            key_chunks += keys.chunks
        all_keys = pa.chunked_array(key_chunks, pa.string())
        partition_paths = pa.repeat(partition_path, len(all_keys))
        types = [values.type for values in self._values if not isinstance(values, int)]
        if not types:
            return build_deletes(all_keys, partition_paths)
        value_chunks: list[pa.Array] = []
        for values in self._values:
            value_chunks += [pa.nulls(values, types[0])] if isinstance(values, int) else values.chunks
        return build_deletes(all_keys, partition_paths, pa.chunked_array(value_chunks, types[0]))
