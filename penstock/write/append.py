"""Merge-on-read: changes of known rows are appended to the log of their file slice; no base file is rewritten for them.

The rows of a batch are reduced to one per key, as for a merge, and then written as they came: what they mean for the stored
row is decided when the slice is read or compacted. Rows that say their key is gone become delete entries, which carry the
ordering value of the row that says so; a row that leaves for another partition leaves one without, which always applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock import options as o
from penstock.filegroup.log_write import BlockFormat, LogSettings, LogWriter
from penstock.filegroup.model import FileSlice
from penstock.filegroup.write import Output
from penstock.formats.delete_records import Deletes, deletes_of
from penstock.merge.gather import Positions, column_at
from penstock.merge.mergers import Merger
from penstock.merge.runs import plain
from penstock.metadata.listing import merged_slices
from penstock.metadata.pending import pending_compactions
from penstock.options import Options
from penstock.table import TableState
from penstock.timeline.contents import WriteStat
from penstock.write.layout import KEY
from penstock.write.merge_file import MERGE, MOVE, Hits, row_group_parts
from penstock.write.share import Share


def log_settings(table: TableState, options: Options) -> LogSettings | None:
    """How log files are written; None for a table that has none."""
    if not table.is_merge_on_read:
        return None
    return LogSettings(
        block_format=BlockFormat((options[o.LOG_BLOCK_FORMAT] or BlockFormat.AVRO.value).lower()),
        max_block_bytes=options[o.LOG_BLOCK_MAX_SIZE],
        max_file_bytes=options[o.LOG_FILE_MAX_SIZE],
    )


def appendable_slices(table: TableState, partitions: Sequence[str] | None = None) -> dict[str, list[FileSlice]]:
    """Where the rows of each file group are and where changes of them go, by partition path.

    The base file and the log files are those that a query merges. While a compaction is pending for the group, the base instant
    is the compaction's, so that it differs from the base file's own. Groups without a base file are left out: no index looks
    into logs.

    Args:
        table: with a timeline that was loaded after the write's own instant was taken.
    """
    pending = pending_compactions(table)
    return {
        path: [replace(s, base_instant=pending.get((path, s.file_id), s.base_instant)) for s in slices if s.base_file]
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


def append_hits(output: Output, append: Append, share: Share, hits: Hits) -> list[WriteStat]:
    """Append what a share says about the rows of one file group, which were found at `hits`.

    A stored row that stays because the incoming one came too late (`TOUCH`) is not written again. Blocks also say where in the
    base file the rows stand that they change, so that readers need not look for keys.
    """
    writer, gone = LogWriter(output, append.target, append.settings), _Gone(append.ordering)
    known, merged, left = _are_places_known(append.target, hits), hits.fates == MERGE, hits.fates == MOVE
    order, places = (hits.new[merged], hits.old[merged]) if known else (np.unique(hits.new[merged]), None)
    for part in row_group_parts(np.arange(len(order))):
        rows, at = share.take(order[part]), None if places is None else places[part]
        deletes = append.merger.is_delete(rows)
        if deletes.any():
            gone.add(rows.filter(pa.array(deletes)), None if at is None else at[deletes])
            rows, at = rows.filter(pa.array(~deletes)), None if at is None else at[~deletes]
        writer.write(plain(rows.drop_columns([KEY])), rows[KEY], at)
    if left.any():
        gone.add_always(share.take(np.unique(hits.new[left]))[KEY], hits.old[left])
    writer.delete(gone.entries(append.target.partition_path), np.concatenate(gone.places) if known else None)
    return writer.close()


def _are_places_known(target: FileSlice, hits: Hits) -> bool:
    """Whether every row that is changed stands at one place of the base file that the log belongs to."""
    base = target.base_file
    if base is None or base.instant != target.base_instant:
        return False  # a compaction is pending, after which rows stand elsewhere
    return bool((hits.old >= 0).all()) and len(np.unique(hits.new)) == len(hits.new)


class _Gone:
    """Keys that are deleted, with the ordering values of their deletes."""

    def __init__(self, ordering: str | None) -> None:
        self._ordering = ordering
        self._keys: list[pa.ChunkedArray] = []
        self._values: list[pa.ChunkedArray | int] = []  # or how many have none
        self.places: list[Positions] = [np.empty(0, np.int64)]

    def add(self, rows: pa.Table, places: Positions | None) -> None:
        values = column_at(rows, self._ordering) if self._ordering else None
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
            return deletes_of(keys, pa.repeat(path, len(keys)))
        values = [[pa.nulls(each, kind)] if isinstance(each, int) else each.chunks for each in self._values]
        return deletes_of(keys, pa.repeat(path, len(keys)), pa.chunked_array([chunk for each in values for chunk in each], kind))
