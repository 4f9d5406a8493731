"""A new version of a file group: its old rows merged with a share of the incoming ones, one row group at a time.

1. Each row group of the old base file is read once; its keys are looked up in the share.
2. The merger decides for every pair; rows that are not touched are copied as they are, but for the file's name.
3. Incoming rows that met nobody, and are meant for this file, are added at the end.

Counts are Hudi's: a row that the merger keeps is neither update nor write error; a delete that met nobody but came to this
file counts as delete and as insert. Memory is the share, two row groups, and the rows that wait to become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.filegroup.base_read import open_base_file, read_ahead, read_row_groups
from penstock.filegroup.base_write import BaseFileWriter
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.meta_columns import KEY_COLUMN, body_schema
from penstock.filegroup.model import BaseFile
from penstock.filegroup.task_output import TaskOutput
from penstock.formats.parquet import ROW_GROUP_ROWS
from penstock.merge.choice import Choice, Fate, Fates, is_changed
from penstock.merge.kernels.by_key import find_positions
from penstock.merge.kernels.gather import Positions, take_rows, to_array
from penstock.merge.merger import Merger
from penstock.timeline.commit_file import WriteStat
from penstock.write.rows.crossing import KEY
from penstock.write.rows.task_rows import TaskRows


@dataclass
class _Counts:
    updates: int = 0
    deletes: int = 0
    inserts: int = 0


@dataclass(frozen=True)
class Hits:
    """Which old rows of a file meet which incoming ones: pairs of row numbers."""

    #: -1 where an index names the file alone: then the row is looked for by its key, and is a new one if it is not there.
    old: Positions
    new: Positions
    fates: Fates

    @property
    def are_placed(self) -> bool:
        """Whether it is known where the old rows stand."""
        return bool((self.old >= 0).all())


NO_HITS = Hits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int8))


@dataclass(frozen=True)
class FileMerge:
    """What is done to one file group."""

    path: str
    base: BaseFile
    merger: Merger
    #: None: to be found by key.
    hits: Hits | None = None


@dataclass
class Merged:
    """A finished merge: its write stat, and the numbers of incoming rows that met an old one."""

    stat: WriteStat
    met: Positions = field(repr=False)


def merge_file(output: TaskOutput, merge: FileMerge, incoming: TaskRows, inserts: Positions | int = 0) -> Merged:
    """Write the next version of a file group.

    Args:
        inserts: numbers of incoming rows that are added to this file; or how many of those that meet nobody, from the front.
    """
    file = open_base_file(output.settings.storage, merge.base.path)
    writer = BaseFileWriter(output, merge.path, merge.base.file_id, MarkerType.MERGE, old=file)
    counts, met = _Counts(), [np.empty(0, np.int64)]
    for old, hits in _old_rows(file, merge, incoming, output.settings.schema):
        _write_group(writer, merge.merger, incoming, old, hits, counts)
        met.append(hits.new)
        del old  # before the next row group is read
    known = np.unique(np.concatenate(met))
    chosen = np.setdiff1d(incoming.rows, known, assume_unique=True)[:inserts] if isinstance(inserts, int) else inserts
    if merge.hits is not None and not merge.hits.are_placed:
        chosen = np.concatenate([np.setdiff1d(merge.hits.new[merge.hits.fates == Fate.MERGE], known), chosen])
    _write_inserts(writer, merge.merger, incoming, chosen, counts)
    stat = writer.stat(
        writer.close(),
        prev_commit=merge.base.instant,
        num_update_writes=counts.updates,
        num_deletes=counts.deletes,
        num_inserts=counts.inserts,
    )
    output.take_rows(writer.rows)  # rows that this task writes elsewhere are numbered from there on
    return Merged(stat, known)


def find_hits(incoming: TaskRows, keys: pa.ChunkedArray, first: int = 0) -> Hits:
    """Old rows, numbered from `first`, whose key is in the share."""
    at = find_positions(keys, incoming.keys)
    old = np.flatnonzero(at >= 0)
    return Hits(old + first, incoming.rows[at[old]], np.full(len(old), Fate.MERGE, np.int8))


def _old_rows(file: pq.ParquetFile, merge: FileMerge, incoming: TaskRows, schema: pa.Schema) -> Iterator[tuple[pa.Table, Hits]]:
    """Row groups of the old file with their hits; old rows are numbered within the row group."""
    first, wanted = 0, _wanted_keys(merge, incoming)
    for old in read_ahead(read_row_groups(file, merge.base.path, body_schema(schema))):
        if merge.hits is None:
            hits = find_hits(incoming, old[KEY_COLUMN])
        elif wanted is not None:
            at = find_positions(old[KEY_COLUMN], wanted)
            rows = np.flatnonzero(at >= 0)
            hits = Hits(rows, merge.hits.new[at[rows]], merge.hits.fates[at[rows]])
        else:
            start, end = np.searchsorted(merge.hits.old, [first, first + old.num_rows])
            part = slice(int(start), int(end))
            hits = Hits(merge.hits.old[part] - first, merge.hits.new[part], merge.hits.fates[part])
        first += old.num_rows
        yield old, hits
        del old


def _wanted_keys(merge: FileMerge, incoming: TaskRows) -> pa.Array | None:
    """Keys of the hits, where their places are not known."""
    if merge.hits is None or merge.hits.are_placed:
        return None
    return to_array(incoming.take(merge.hits.new, [KEY])[KEY])


def _write_group(writer: BaseFileWriter, merger: Merger, incoming: TaskRows, old: pa.Table, hits: Hits, counts: _Counts) -> None:
    """One row group: rows that meet nobody are copied, the merger decides about the others."""
    if len(hits.old) == 0:
        writer.keep(old)
        return
    new = incoming.take(hits.new).drop_columns([KEY])
    asked = hits.fates == Fate.MERGE
    meeting = merger.merge(old, hits.old[asked], new if asked.all() else new.filter(pa.array(asked)))
    choices = _choices(meeting.choices, hits)
    gone = hits.old[choices == Choice.DELETE]
    kept = np.ones(old.num_rows, np.bool_)
    kept[gone] = False
    taken = is_changed(choices)
    writer.note_times(new.filter(pa.array((taken | (choices == Choice.DELETE)) & asked)))
    changed = np.concatenate([hits.old[taken], hits.old[choices == Choice.TOUCH]])
    counts.updates += len(changed)
    counts.deletes += len(gone)
    writer.note_removed(old[KEY_COLUMN].take(pa.array(hits.old[(choices == Choice.DELETE) & (hits.fates != Fate.MOVE)])))
    if len(changed):
        rows = meeting.rows(meeting.choices)
        if (choices == Choice.TOUCH).any():
            rows = pa.concat_tables([rows, take_rows(old.select(rows.column_names), hits.old[choices == Choice.TOUCH])])
        numbers = writer.rows + np.cumsum(kept)[changed] - 1
        updates = writer.stamp(rows, old[KEY_COLUMN].take(pa.array(changed)), numbers)
        order = np.arange(old.num_rows)
        order[changed] = old.num_rows + np.arange(len(changed))
        writer.keep(take_rows(pa.concat_tables([old, updates]), order[kept]))
    else:
        writer.keep(old.filter(pa.array(kept)))


def _choices(of_merger: Fates, hits: Hits) -> Fates:
    """What happens to each old row that is met: its fate says it, or else the merger."""
    choices = np.where(hits.fates == Fate.MOVE, Choice.DELETE, Choice.TOUCH).astype(np.int8)
    choices[hits.fates == Fate.MERGE] = of_merger
    return choices


def _write_inserts(writer: BaseFileWriter, merger: Merger, incoming: TaskRows, chosen: Positions, counts: _Counts) -> None:
    """Rows that met nobody, behind the others."""
    for part in row_group_parts(chosen):
        rows = incoming.take(part)
        kept, stored = merger.insert(rows.drop_columns([KEY]))
        counts.inserts += len(part)
        counts.deletes += len(part) - stored.num_rows
        if not kept.all():
            writer.note_removed(rows[KEY].filter(pa.array(~kept)))
        writer.add(stored, rows[KEY].filter(pa.array(kept)), writer.rows + np.arange(stored.num_rows))


def row_group_parts(numbers: Positions) -> Iterator[Positions]:
    """Row numbers in parts that are held in memory at once."""
    for start in range(0, len(numbers), ROW_GROUP_ROWS):
        yield numbers[start : start + ROW_GROUP_ROWS]
