"""Rewriting one group of a plan in one task: its slices are read, their rows put in order, and new file groups written.

Without an order rows go through a row group at a time. With one, all rows of the group are in memory at once; groups that
are too large for that are split (`split.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.filegroup.base_read import open_base_file, read_ahead, read_row_groups
from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.meta_columns import KEY_COLUMN, body_schema
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules, read_merged_rows
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.formats.cast import fit_to_schema
from penstock.formats.parquet import ROW_GROUP_ROWS
from penstock.merge.kernels.gather import OFFSETS_REACH, take_rows
from penstock.schema import META_COLUMNS
from penstock.services.clustering.row_order import Ordering, keys_of, order_of, sort_columns
from penstock.spread.run import this_task
from penstock.timeline.commit_file import WriteStat


@dataclass(frozen=True)
class Rewriting:
    """What holds for every task of one clustering."""

    settings: FileSettings
    ordering: Ordering | None
    #: Whether rows keep their commit time and sequence number.
    preserves_meta: bool
    #: How base files and logs become rows; None: the table has no logs.
    rules: MergeRules | None = None


@dataclass(frozen=True)
class RewriteTask:
    """Slices of one partition that become new file groups."""

    rewriting: Rewriting
    slices: tuple[FileSlice, ...]
    #: Tells the tasks of a clustering apart, of whatever kind they are.
    number: int


def rewrite(task: RewriteTask) -> list[WriteStat]:
    """Kernel: write the new file groups; gives their write stats."""
    how, old = task.rewriting, _only_file(task)
    rows: Iterable[pa.Table] = (part for one in task.slices for part in read_slice(one, how, file=old))
    if how.ordering is not None:
        rows = in_order(rows, how.ordering)
    return write_groups(rows, task.slices[0].partition_path, how, task.number, old)


def _only_file(task: RewriteTask) -> pq.ParquetFile | None:
    """The base file that has all rows of the task, if one has."""
    first, how = task.slices[0], task.rewriting
    if len(task.slices) > 1 or first.log_files or first.base_file is None:
        return None
    return open_base_file(how.settings.storage, first.base_file.path)


def read_slice(
    slice_: FileSlice, how: Rewriting, columns: Sequence[str] | None = None, file: pq.ParquetFile | None = None
) -> Iterator[pa.Table]:
    """The rows of a slice, with the meta columns that are theirs, or some columns of them.

    Args:
        file: its base file, if that is open already.
    """
    body = body_schema(how.settings.schema)
    wanted = body if columns is None else pa.schema([body.field(name) for name in columns])
    if slice_.log_files and how.rules is not None:
        yield from (
            fit_to_schema(rows, wanted) for rows in read_merged_rows(how.settings.storage, slice_, how.rules, wanted.names)
        )
    elif slice_.base_file is not None:
        file = file or open_base_file(how.settings.storage, slice_.base_file.path)
        yield from read_ahead(read_row_groups(file, slice_.base_file.path, wanted))


def in_order(parts: Iterable[pa.Table], ordering: Ordering, sample: pa.Table | None = None) -> Iterator[pa.Table]:
    """Rows in order, a row group at a time."""
    held = list(parts)
    if not held:
        return
    rows = pa.concat_tables(held)
    del held
    order = np.asarray(order_of(keys_of(sort_columns(rows, ordering), ordering, sample)), np.int64)
    if rows.nbytes <= OFFSETS_REACH:  # all at once is faster, and takes no more memory than one more copy to gather from
        rows, order = take_rows(rows, order), np.arange(len(order))
    for start in range(0, len(order), ROW_GROUP_ROWS):
        yield take_rows(rows, order[start : start + ROW_GROUP_ROWS])


def write_groups(
    rows: Iterable[pa.Table], path: str, how: Rewriting, number: int, old: pq.ParquetFile | None = None
) -> list[WriteStat]:
    """Rows to new file groups of a partition; gives the write stats.

    Args:
        old: the file that they all come from, if it is one.
    """
    attempt = this_task().write_token.partition("-")[2]
    output = TaskOutput(how.settings, number, f"{number}-{attempt}")
    keeps = how.preserves_meta or not how.settings.populate_meta
    writer = RollingWriter(output, path, old=old if keeps else None)
    for part in rows:
        if keeps:
            writer.keep(part)
        else:
            writer.write(part.drop_columns(list(META_COLUMNS[:3])), part[KEY_COLUMN])
        del part
    stats = writer.close()
    output.finish()
    return stats
