"""The kernel of a clustering, which each task runs: read the slices of one group of the plan, sort the rows, write file groups.

Without an ordering, rows are copied one row group at a time. With an ordering, all rows of the group are in memory at once;
groups that are too large for that are rewritten in several tasks (`rewrite_large.py`). Runs in workers or on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.filegroup.base_read import open_base_file, read_ahead, read_row_groups
from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.fill_meta_columns import KEY_COLUMN, body_schema
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeRules, read_merged_rows
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.formats.cast import fit_to_schema
from penstock.formats.parquet import ROW_GROUP_ROWS
from penstock.merge.kernels.gather import OFFSETS_REACH, take_rows
from penstock.schema import META_COLUMNS
from penstock.services.clustering.row_order import Ordering, order_of, sort_columns, sort_keys
from penstock.timeline.commit_file import WriteStat
from penstock.workers.run_kernels import this_task


@dataclass(frozen=True)
class RewriteSettings:
    """How the tasks of one clustering read, sort and write rows. Pickled to the workers."""

    file_settings: FileSettings
    #: What to sort rows by; None to keep rows in the order in which they are read.
    ordering: Ordering | None
    #: Whether rows keep their commit time and sequence number.
    preserves_meta: bool
    #: How to merge base files with log files; None if no slice of the plan has log files.
    rules: MergeRules | None = None

    @property
    def keeps_meta_columns(self) -> bool:
        """Whether rows keep the meta columns of the old files; otherwise they get new ones, with the instant of this clustering.

        True if the plan preserves meta columns, or if the table does not populate them.
        """
        return self.preserves_meta or not self.file_settings.populate_meta


@dataclass(frozen=True)
class RewriteTask:
    """Task description: slices of one partition whose rows `rewrite` writes to new file groups. Pickled to a worker."""

    settings: RewriteSettings
    slices: tuple[FileSlice, ...]
    #: Unique among all tasks of the clustering, of every kind. Part of the names of new files.
    number: int


def rewrite(task: RewriteTask) -> list[WriteStat]:
    """Write the rows of a task's slices to new file groups, sorted if the settings ask for it. Return the write stats."""
    only_file = _open_only_file(task)
    rows = _read_slices(task, only_file)
    if task.settings.ordering is not None:
        rows = in_order(rows, task.settings.ordering)
    return write_groups(rows, task.slices[0].partition_path, task.settings, task.number, only_file)


def _open_only_file(task: RewriteTask) -> pq.ParquetFile | None:
    """Open the base file that holds all rows of the task; return None if the rows come from several files or from log files.

    If there is only one file, its bloom filter can be copied to the new file.
    """
    first = task.slices[0]
    if len(task.slices) > 1 or first.log_files or first.base_file is None:
        return None
    return open_base_file(task.settings.file_settings.storage, first.base_file.path)


def _read_slices(task: RewriteTask, only_file: pq.ParquetFile | None) -> Iterator[pa.Table]:
    """Yield the rows of all slices of a task, merged with their log files.

    Args:
        only_file: the open base file that holds all rows of the task; None if they come from several files or from log files.
    """
    for file_slice in task.slices:
        yield from read_slice(file_slice, task.settings, file=only_file)


def read_slice(
    file_slice: FileSlice, settings: RewriteSettings, columns: Sequence[str] | None = None, file: pq.ParquetFile | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of a slice, merged with its log files, as several Arrow tables. Rows have their stored meta columns.

    Args:
        columns: the columns to read; None for all columns.
        file: the base file of the slice if it is already open; None to open it.
    """
    storage = settings.file_settings.storage
    wanted = body_schema(settings.file_settings.schema)
    if columns is not None:
        wanted = pa.schema([wanted.field(name) for name in columns])
    if file_slice.log_files and settings.rules is not None:
        for rows in read_merged_rows(storage, file_slice, settings.rules, wanted.names):
            yield fit_to_schema(rows, wanted)
    elif file_slice.base_file is not None:
        file = file or open_base_file(storage, file_slice.base_file.path)
        yield from read_ahead(read_row_groups(file, file_slice.base_file.path, wanted))


def in_order(parts: Iterable[pa.Table], ordering: Ordering, sample: pa.Table | None = None) -> Iterator[pa.Table]:
    """Sort rows in memory and yield them as Arrow tables, one for each row group of a file.

    Args:
        parts: the rows to sort, as Arrow tables; all of them are held in memory.
        sample: sort columns of sampled rows of the whole group of the plan. Needed if `parts` has not all rows of the group,
            because the sample decides where values lie on a curve. None to sample `parts`.
    """
    held = list(parts)
    if not held:
        return
    rows = pa.concat_tables(held)
    del held  # the parts share their buffers with `rows`, which may be freed below
    keys = sort_keys(sort_columns(rows, ordering), ordering, sample)
    order = np.asarray(order_of(keys), np.int64)
    # One gather of all rows is faster than one per row group, and needs no more memory than a second copy. It is only
    # possible while 32-bit offsets reach every value.
    if rows.nbytes <= OFFSETS_REACH:
        rows = take_rows(rows, order)
        order = np.arange(len(order))
    for start in range(0, len(order), ROW_GROUP_ROWS):
        yield take_rows(rows, order[start : start + ROW_GROUP_ROWS])


def write_groups(
    rows: Iterable[pa.Table], path: str, settings: RewriteSettings, number: int, only_file: pq.ParquetFile | None = None
) -> list[WriteStat]:
    """Write rows to new file groups of one partition; return the write stats of the new files.

    Args:
        path: the partition path.
        number: the number of the task, which is part of the names of the new files.
        only_file: the open base file that all rows come from, whose bloom filter can be copied; None if the rows come from
            several files.
    """
    output = open_output(settings, number)
    writer = RollingWriter(output, path, old=only_file if settings.keeps_meta_columns else None)
    for part in rows:
        write_rows(writer, part, settings)
        del part  # free this part before the next one is made
    stats = writer.close()
    output.finish()
    return stats


def open_output(settings: RewriteSettings, number: int) -> TaskOutput:
    """Open the output through which a task creates files.

    Args:
        number: the number of the task, the first part of its write token. The other parts are stage and attempt in Spark.
    """
    attempt = this_task().write_token.partition("-")[2]
    return TaskOutput(settings.file_settings, number, f"{number}-{attempt}")


def write_rows(writer: RollingWriter, rows: pa.Table, settings: RewriteSettings) -> None:
    """Write rows, with their stored meta columns if `settings.keeps_meta_columns` is true, otherwise with new meta columns."""
    if settings.keeps_meta_columns:
        writer.keep(rows)
    else:
        writer.write(rows.drop_columns(list(META_COLUMNS[:3])), rows[KEY_COLUMN])
