"""Rewrite a large group of a clustering plan in several tasks, none of which holds all its rows.

    sample     read some rows of each slice and choose the keys that cut the sort order into ranges of equal size
    sort       one task per slice: sort its rows and store them as Arrow IPC, one range after the other
    write      one task per new file: read its ranges from the sorted files of all slices, one range at a time, and write them

Between sort and write every row is stored once, uncompressed, in the work folder of the run. The work folder is deleted together
with the markers of the run.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.filegroup.fill_meta_columns import body_schema
from penstock.filegroup.model import FileSlice
from penstock.formats.parquet import ROW_GROUP_ROWS
from penstock.merge.kernels.gather import OFFSETS_REACH, Positions, take_rows
from penstock.services.clustering.rewrite_group import RewriteSettings, in_order, read_slice, write_groups
from penstock.services.clustering.row_order import Ordering, columns_read, order_of, sample_of, sort_columns, sort_keys
from penstock.storage import Storage, join, open_arrow_file, write_batch
from penstock.storage.os_errors import convert_os_errors
from penstock.timeline.commit_file import WriteStat
from penstock.workers.run_kernels import this_task
from penstock.workers.runner import Runner

#: Sampled rows of a group: enough for ranges of nearly equal size.
_SAMPLE_ROWS = 20_000


@dataclass(frozen=True)
class LargeGroup:
    """A group of a clustering plan that is too large for one task. `rewrite_large` runs its three steps from the driver.

    The steps are: sample rows, sort each slice, write new files.
    """

    settings: RewriteSettings
    slices: tuple[FileSlice, ...]
    #: How many file groups to write.
    outputs: int
    #: Into how many ranges to cut the sort order, at least `outputs`. A task holds one range in memory.
    ranges: int
    #: Folder of the files with sorted rows.
    folder: str
    #: Number of the first task that writes a file; the others follow. No task of another group has these numbers.
    number: int


@dataclass(frozen=True)
class SampleTask:
    """Task description: the slice from which `sample_slice` samples `rows` rows. Pickled to a worker."""

    settings: RewriteSettings
    ordering: Ordering
    file_slice: FileSlice
    rows: int


@dataclass(frozen=True)
class SortTask:
    """Task description: the slice that `sort_slice` sorts and cuts into ranges of the sort order. Pickled to a worker."""

    settings: RewriteSettings
    ordering: Ordering
    file_slice: FileSlice
    #: Sort columns of the sampled rows of all slices, as Arrow IPC.
    sample: bytes
    ranges: int
    #: Path of the file to write, without the write token and suffix.
    path_prefix: str


#: The rows of one range in one file of sorted rows: path, number of the first record batch, number after the last one.
Batches = tuple[str, int, int]


@dataclass(frozen=True)
class RangesTask:
    """Task description: ranges of the sort order that `write_ranges` writes to one new file group. Pickled to a worker.

    The ranges follow one another in the sort order.
    """

    settings: RewriteSettings
    ordering: Ordering
    sample: bytes
    partition_path: str
    #: For each range, where its rows are in the files of sorted rows.
    ranges: tuple[tuple[Batches, ...], ...]
    number: int


def rewrite_large(group: LargeGroup, runner: Runner) -> list[WriteStat]:
    """Rewrite a large group of a clustering plan in three steps: sample, sort, write. Return the write stats of the new files."""
    ordering = group.settings.ordering
    assert ordering is not None  # rows that need no order never make a large group
    sample = _take_sample(group, ordering, runner)
    sort_tasks = []
    for number, file_slice in enumerate(group.slices):
        prefix = join(group.folder, f"sorted-{number}")
        sort_tasks.append(SortTask(group.settings, ordering, file_slice, sample, group.ranges, prefix))
    by_range = _group_by_range(runner.run(sort_slice, sort_tasks, SortedSlice), group.ranges)
    cuts = np.linspace(0, group.ranges, group.outputs + 1).astype(int)
    path = group.slices[0].partition_path
    write_tasks = []
    for number, (first, last) in enumerate(pairwise(cuts), start=group.number):
        ranges = tuple(by_range[first:last])
        if any(ranges):
            write_tasks.append(RangesTask(group.settings, ordering, sample, path, ranges, number))
    return runner.collect(write_ranges, write_tasks, WriteStat)


def _take_sample(group: LargeGroup, ordering: Ordering, runner: Runner) -> bytes:
    """Sample rows of all slices of a group, in tasks; return the sort columns of the sampled rows as Arrow IPC."""
    rows_per_slice = max(1, max(ordering.sample_rows or 0, _SAMPLE_ROWS) // len(group.slices))
    tasks = [SampleTask(group.settings, ordering, file_slice, rows_per_slice) for file_slice in group.slices]
    samples = [_from_ipc(base64.b64decode(text)) for text in runner.run(sample_slice, tasks, str)]
    return _to_ipc(pa.concat_tables(samples))


def _group_by_range(sorted_slices: Sequence[SortedSlice], ranges: int) -> list[tuple[Batches, ...]]:
    """Locate the rows of each range of the sort order. Return one tuple per range, with the record batches of each sorted file.

    Files without rows of the range are left out of its tuple.

    Args:
        ranges: the number of ranges.
    """
    by_range = []
    for number in range(ranges):
        batches = []
        for sorted_slice in sorted_slices:
            first, last = sorted_slice.ranges[number]
            if first < last:
                batches.append((sorted_slice.path, first, last))
        by_range.append(tuple(batches))
    return by_range


def sample_slice(task: SampleTask) -> str:
    """Sample rows of a slice; return the sort columns of the sampled rows as Arrow IPC.

    The bytes are encoded in base64, because results of tasks are sent as JSON.
    """
    body = body_schema(task.settings.file_settings.schema)
    names = columns_read(task.ordering, body.names)
    # With an empty table in front, the result has its columns even if the slice has no rows.
    parts = [sort_columns(pa.schema([body.field(name) for name in names]).empty_table(), task.ordering)]
    for rows in read_slice(task.file_slice, task.settings, names):
        parts.append(sort_columns(rows, task.ordering))
    return base64.b64encode(_to_ipc(sample_of(pa.concat_tables(parts), task.rows))).decode()


@dataclass(frozen=True)
class SortedSlice:
    """A file of sorted rows in Arrow IPC: the rows of one slice, one range of the sort order after the other."""

    path: str
    #: For each range the number of its first record batch, and the number after its last one.
    ranges: list[tuple[int, int]]


def sort_slice(task: SortTask) -> SortedSlice:
    """Sort the rows of a slice and write them to a new Arrow IPC file, one range of the sort order after the other."""
    file_settings = task.settings.file_settings
    empty = body_schema(file_settings.schema).empty_table()
    rows = pa.concat_tables([empty, *read_slice(task.file_slice, task.settings)])
    if rows.nbytes <= OFFSETS_REACH:
        rows = rows.combine_chunks()  # gathering from one chunk is faster
    sample = _from_ipc(task.sample)
    keys = sort_keys(sort_columns(rows, task.ordering), task.ordering, sample)
    sample_keys = sort_keys(sample, task.ordering, sample)
    order, ends = order_and_ends(keys, range_ends(sample_keys, task.ranges))
    # The write token makes the name different for every attempt of the Spark task: two attempts may run at the same time.
    path = f"{task.path_prefix}-{this_task().write_token}.arrow"
    return SortedSlice(path, _store_ranges(file_settings.storage, path, rows, order, ends))


def _store_ranges(storage: Storage, path: str, rows: pa.Table, order: Positions, ends: Positions) -> list[tuple[int, int]]:
    """Write rows to an Arrow IPC file in sort order, cut into ranges. A record batch holds rows of one range only.

    Args:
        path: the path of the new file.
        order: positions of the rows in sort order.
        ends: for each range but the last, the position in `order` at which the range ends.

    Returns:
        For each range, the number of its first record batch and the number after its last one.
    """
    written = 0
    batches_of_ranges = []
    with convert_os_errors(path), storage.create(path) as sink, pa.ipc.new_file(sink, rows.schema) as file:
        for start, end in zip([0, *ends], [*ends, len(order)], strict=True):
            first = written
            for position in range(start, end, ROW_GROUP_ROWS):
                part = take_rows(rows, order[position : min(end, position + ROW_GROUP_ROWS)])
                for batch in part.to_batches():
                    write_batch(storage, file, batch)
                    written += 1
            batches_of_ranges.append((first, written))
    return batches_of_ranges


def write_ranges(task: RangesTask) -> list[WriteStat]:
    """Write the rows in a task's ranges of the sort order to a new file group; return the write stats of the new files."""
    return write_groups(_sorted_rows(task), task.partition_path, task.settings, task.number)


def _sorted_rows(task: RangesTask) -> Iterator[pa.Table]:
    """Yield the rows of the task's ranges in sort order.

    The ranges are already in order. The rows of one range come from several slices and are sorted together.
    """
    storage = task.settings.file_settings.storage
    sample = _from_ipc(task.sample)
    for batches in task.ranges:
        yield from in_order(_read_batches(storage, batches), task.ordering, sample)


def _read_batches(storage: Storage, batches: Sequence[Batches]) -> Iterator[pa.Table]:
    """Yield the rows of one range of the sort order, one Arrow table per file of sorted rows.

    Args:
        batches: where the rows are: files, and numbers of record batches in each.
    """
    for path, first, last in batches:
        file = open_arrow_file(storage, path)
        yield pa.Table.from_batches([file.get_batch(number) for number in range(first, last)])


def range_ends(keys: pa.Table, ranges: int) -> pa.Table:
    """Return the sort keys, `ranges - 1` of them in sort order, that cut sampled rows into `ranges` ranges of equal size.

    Args:
        keys: the sort keys of the sampled rows.
    """
    order = order_of(keys)
    positions = [len(order) * number // ranges for number in range(1, ranges)] if len(order) else []
    return keys.take(pa.array(order[np.array(positions, np.int64)], pa.int64()))


def order_and_ends(keys: pa.Table, ends: pa.Table) -> tuple[Positions, Positions]:
    """Return the positions of rows in sort order, and for each range end how many rows are sorted before that end.

    Rows and range ends are sorted together. Rows come first in the concatenated Arrow table and the sort is stable, so rows whose
    key equals an end are sorted before that end.

    Args:
        keys: the sort keys of the rows.
        ends: the sort keys at which ranges end, in sort order.
    """
    together = order_of(pa.concat_tables([keys, ends.cast(keys.schema)]))
    is_end = together >= keys.num_rows
    order = np.asarray(together[~is_end], np.int64)
    # Between two ends lie as many rows as their positions differ, less one for the end itself.
    rows_per_range = np.diff(np.flatnonzero(is_end), prepend=-1) - 1
    return order, np.cumsum(rows_per_range)


def _to_ipc(rows: pa.Table) -> bytes:
    """Return rows as the bytes of an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as file:
        file.write_table(rows)
    return bytes(sink.getvalue())


def _from_ipc(content: bytes) -> pa.Table:
    """Read an Arrow table from the bytes of an Arrow IPC stream."""
    return pa.ipc.open_stream(content).read_all()
