"""Writes the next version of a base file: the stored rows merged with incoming rows, one row group at a time.

1. Each row group of the old base file is read once, and its rows are matched with incoming rows. If the keys were looked up
   before, pairs of row numbers are known (hits). Otherwise keys are compared.
2. The merger decides about every pair of a stored and an incoming row. Stored rows without an incoming row are copied; only their
   meta column `_hoodie_file_name` changes.
3. Incoming rows whose keys are not in the file are added at the end.

Write stats count rows as Hudi does: a stored row that the merger keeps is neither an update nor a write error; a delete whose
key is not in the file counts as a delete and as an insert. A task holds in memory its incoming rows, two row groups of the old
file, and the rows that wait to be written as the next row group of the new file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.filegroup.base_read import open_base_file, read_ahead, read_row_groups
from penstock.filegroup.base_write import BaseFileWriter
from penstock.filegroup.fill_meta_columns import KEY_COLUMN, body_schema
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.model import BaseFile
from penstock.filegroup.task_output import TaskOutput
from penstock.merge.kernels.by_key import find_positions
from penstock.merge.kernels.gather import Positions, take_rows, to_array
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Choice, Choices, Fate, is_changed
from penstock.timeline.commit_file import WriteStat
from penstock.write.rows.crossing_columns import KEY, PartitionRows
from penstock.write.tasks.located_rows import NO_ROWS, Hits, make_merge_hits
from penstock.write.tasks.task_rows import TaskRows, split_row_numbers


@dataclass
class _Counts:
    """How many rows of one base file were updated, deleted and inserted, for the file's write stat."""

    updates: int = 0
    deletes: int = 0
    inserts: int = 0


@dataclass(frozen=True)
class FileMerge:
    """The base file to rewrite, and how its rows are matched and merged with incoming rows."""

    partition_path: str
    base_file: BaseFile
    merger: Merger
    #: The pairs of a stored and an incoming row with the same key, found before the task; None: the task compares keys itself.
    hits: Hits | None = None


@dataclass(frozen=True)
class MergedFile:
    """The result of `merge_base_file`: the write stat of the new file, and which incoming rows have a key of the old file."""

    stat: WriteStat
    #: The numbers of the incoming rows whose key is in the old base file.
    matched: Positions = field(repr=False)


def merge_base_file(output: TaskOutput, merge: FileMerge, incoming: TaskRows, new_rows: Positions | int = 0) -> MergedFile:
    """Write the next version of a base file: its stored rows merged with incoming rows, followed by new rows.

    Args:
        merge: the base file, and how its rows are matched with incoming rows.
        new_rows: the numbers (in `incoming`) of the new rows to add. As an int: add at most this many of the incoming rows whose
            keys are not in the file.
    """
    file = open_base_file(output.settings.storage, merge.base_file.path)
    writer = BaseFileWriter(output, merge.partition_path, merge.base_file.file_id, MarkerType.MERGE, old=file)
    counts = _Counts()
    matched_parts = [NO_ROWS]
    for stored, hits in _read_with_hits(file, merge, incoming, output.settings.schema):
        _write_row_group(writer, merge.merger, incoming, stored, hits, counts)
        matched_parts.append(hits.new)
        del stored  # frees the row group before the next one is read
    matched = np.unique(np.concatenate(matched_parts))
    if isinstance(new_rows, int):
        added = np.setdiff1d(incoming.rows, matched, assume_unique=True)[:new_rows]
    else:
        added = new_rows
    if merge.hits is not None and not merge.hits.have_positions:
        # The index entries of these rows name the file group, but their keys are not in the base file: the rows are new.
        missing = np.setdiff1d(merge.hits.new[merge.hits.fates == Fate.MERGE], matched)
        added = np.concatenate([missing, added])
    _write_new_rows(writer, merge.merger, incoming, added, counts)
    stat = writer.stat(
        writer.close(),
        prev_commit=merge.base_file.instant,
        num_update_writes=counts.updates,
        num_deletes=counts.deletes,
        num_inserts=counts.inserts,
    )
    output.reserve_row_numbers(writer.rows)  # rows that this task writes to other files are numbered after those of this file
    return MergedFile(stat, matched)


def add_to_base_file(
    output: TaskOutput, partition_path: str, base_file: BaseFile, merger: Merger, new_rows: Iterable[PartitionRows]
) -> WriteStat:
    """Write the next version of a base file: its stored rows unchanged, followed by new rows. Return the write stat.

    Keys are not compared. A new row that is a delete counts as a delete and as an insert, and is not written.
    """
    settings = output.settings
    counts = _Counts()
    file = open_base_file(settings.storage, base_file.path)
    writer = BaseFileWriter(output, partition_path, base_file.file_id, MarkerType.MERGE, old=file)
    for stored in read_row_groups(file, base_file.path, body_schema(settings.schema)):
        writer.keep(stored)
        del stored  # frees the row group before the next one is read
    for rows in new_rows:
        stored_rows = drop_deletes(rows, merger)
        counts.inserts += rows.table.num_rows
        counts.deletes += rows.table.num_rows - stored_rows.table.num_rows
        numbers = writer.rows + np.arange(stored_rows.table.num_rows)
        writer.add(stored_rows.table, get_or_make_keys(stored_rows, output), numbers)
    return writer.stat(writer.close(), num_inserts=counts.inserts, num_deletes=counts.deletes, prev_commit=base_file.instant)


def drop_deletes(rows: PartitionRows, merger: Merger) -> PartitionRows:
    """Return the rows without deletes, and in the form in which the merger stores a new row."""
    is_kept, stored = merger.insert(rows.table)
    keys = rows.keys
    if keys is not None and not is_kept.all():
        keys = keys.filter(pa.array(is_kept))
    return PartitionRows(rows.path, stored, keys)


def get_or_make_keys(rows: PartitionRows, output: TaskOutput) -> pa.ChunkedArray:
    """Return the record keys of the rows; newly generated keys if the table generates record keys.

    Args:
        output: the output of the task, which generates keys from the instant and the number of the task.
    """
    return rows.keys if rows.keys is not None else output.make_keys(rows.table.num_rows)


def _read_with_hits(
    file: pq.ParquetFile, merge: FileMerge, incoming: TaskRows, schema: pa.Schema
) -> Iterator[tuple[pa.Table, Hits]]:
    """Yield each row group of the old base file with its hits (pairs of a stored and an incoming row with the same key).

    In these hits the number of a stored row counts from the start of its row group. They are found in one of three ways:

    - `merge.hits` has the numbers of the stored rows: its pairs are split by row group.
    - `merge.hits` lacks these numbers: the keys of its incoming rows are looked for in the row group.
    - `merge.hits` is None: the keys of all incoming rows are looked for in the row group.

    Args:
        file: the old base file.
        schema: the schema of the table's data files.
    """
    hits = merge.hits
    wanted_keys = None
    if hits is not None and not hits.have_positions:
        wanted_keys = to_array(incoming.take(hits.new, [KEY])[KEY])
    first_row = 0
    for stored in read_ahead(read_row_groups(file, merge.base_file.path, body_schema(schema))):
        if hits is None:
            yield stored, _find_by_key(stored, incoming)
        elif wanted_keys is not None:
            positions = find_positions(stored[KEY_COLUMN], wanted_keys)
            rows = np.flatnonzero(positions >= 0)
            yield stored, Hits(rows, hits.new[positions[rows]], hits.fates[positions[rows]])
        else:
            # Hits with positions are sorted by them, so those of a row group are one slice.
            start, end = np.searchsorted(hits.old, [first_row, first_row + stored.num_rows])
            yield stored, Hits(hits.old[start:end] - first_row, hits.new[start:end], hits.fates[start:end])
        first_row += stored.num_rows
        del stored


def _find_by_key(stored: pa.Table, incoming: TaskRows) -> Hits:
    """Return the hits of one row group: pairs of a stored row and the incoming row with the same key, with `Fate.MERGE`."""
    positions = find_positions(stored[KEY_COLUMN], incoming.keys)
    rows = np.flatnonzero(positions >= 0)
    return make_merge_hits(rows, incoming.rows[positions[rows]])


def _write_row_group(
    writer: BaseFileWriter, merger: Merger, incoming: TaskRows, stored: pa.Table, hits: Hits, counts: _Counts
) -> None:
    """Write one row group of the old base file to the new file, changed by incoming rows, and add its rows to `counts`.

    A stored row without an incoming row is copied. For any other, the `Fate` of the pair decides. MERGE: the merger keeps,
    replaces or deletes the row. MOVE: the row is left out, because it goes to another partition. TOUCH: the row is kept, and
    counts as written by this commit.

    Args:
        stored: the row group of the old base file.
        hits: the pairs of a stored row of this row group and an incoming row with the same key.
        counts: the counts of the whole file.
    """
    if len(hits.old) == 0:
        writer.keep(stored)
        return
    new = incoming.take(hits.new).drop_columns([KEY])
    is_asked = hits.fates == Fate.MERGE
    merged = merger.merge(stored, hits.old[is_asked], new if is_asked.all() else new.filter(pa.array(is_asked)))
    choices = _combine_choices(merged.choices, hits)
    is_deleted = choices == Choice.DELETE
    is_touched = choices == Choice.TOUCH
    is_taken = is_changed(choices)
    is_kept = np.ones(stored.num_rows, np.bool_)
    is_kept[hits.old[is_deleted]] = False
    writer.note_times(new.filter(pa.array((is_taken | is_deleted) & is_asked)))
    changed = np.concatenate([hits.old[is_taken], hits.old[is_touched]])
    counts.updates += len(changed)
    counts.deletes += int(is_deleted.sum())
    # A row that moves to another partition keeps its key, so an index must not remove the key's entry.
    removed = hits.old[is_deleted & (hits.fates != Fate.MOVE)]
    writer.note_removed(stored[KEY_COLUMN].take(pa.array(removed)))
    if not len(changed):
        writer.keep(stored.filter(pa.array(is_kept)))
        return
    rows = merged.rows(merged.choices)
    if is_touched.any():
        rows = pa.concat_tables([rows, take_rows(stored.select(rows.column_names), hits.old[is_touched])])
    # Changed rows keep their position. The row number is the number of rows of the new file before it.
    numbers = writer.rows + np.cumsum(is_kept)[changed] - 1
    updates = writer.stamp(rows, stored[KEY_COLUMN].take(pa.array(changed)), numbers)
    order = np.arange(stored.num_rows)
    order[changed] = stored.num_rows + np.arange(len(changed))
    writer.keep(take_rows(pa.concat_tables([stored, updates]), order[is_kept]))


def _combine_choices(of_merger: Choices, hits: Hits) -> Choices:
    """Return what to do with the stored row of each hit (pair of a stored and an incoming row with the same key).

    This is the merger's choice for a pair with `Fate.MERGE`, DELETE for `Fate.MOVE` (the row goes to another partition), and
    TOUCH for `Fate.TOUCH` (the row stays and counts as written).

    Args:
        of_merger: the merger's choices, one per hit with `Fate.MERGE`.
    """
    choices = np.where(hits.fates == Fate.MOVE, Choice.DELETE, Choice.TOUCH).astype(np.int8)
    choices[hits.fates == Fate.MERGE] = of_merger
    return choices


def _write_new_rows(writer: BaseFileWriter, merger: Merger, incoming: TaskRows, numbers: Positions, counts: _Counts) -> None:
    """Write new rows at the end of the file, and add their inserts and deletes to `counts`. Deletes are not written.

    Args:
        numbers: the numbers (in `incoming`) of the rows to write.
    """
    for part in split_row_numbers(numbers):
        rows = incoming.take(part)
        is_kept, stored = merger.insert(rows.drop_columns([KEY]))
        counts.inserts += len(part)
        counts.deletes += len(part) - stored.num_rows
        if not is_kept.all():
            writer.note_removed(rows[KEY].filter(pa.array(~is_kept)))
        writer.add(stored, rows[KEY].filter(pa.array(is_kept)), writer.rows + np.arange(stored.num_rows))
