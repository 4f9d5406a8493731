"""Rewriting a large group in several tasks, none of which holds all its rows.

    sample     a few rows of each slice tell where the order is cut into ranges of equal size
    sort       a task per slice: its rows in order, kept as Arrow IPC, a range after the other
    write      a task per new file: its ranges, one at a time, of all slices together

Every row is kept once in between, uncompressed, beside the markers of the run.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.filegroup.meta_columns import body_schema
from penstock.filegroup.model import FileSlice
from penstock.formats.parquet import ROW_GROUP_ROWS
from penstock.merge.kernels.gather import OFFSETS_REACH, Positions, take_rows
from penstock.services.clustering.rewrite_group import Rewriting, in_order, read_slice, write_groups
from penstock.services.clustering.row_order import Ordering, columns_read, keys_of, order_of, sample_of, sort_columns
from penstock.spread.run import this_task
from penstock.spread.runner import Runner
from penstock.storage import Storage, join
from penstock.storage.os_errors import convert_os_errors
from penstock.timeline.commit_file import WriteStat

#: Rows of a group that tell where its order is cut.
_SAMPLE_ROWS = 20_000


@dataclass(frozen=True)
class SampleTask:
    """A slice of which a few rows are looked at."""

    rewriting: Rewriting
    ordering: Ordering
    slice_: FileSlice
    rows: int


@dataclass(frozen=True)
class SortTask:
    """A slice whose rows are put in order."""

    rewriting: Rewriting
    ordering: Ordering
    slice_: FileSlice
    #: Columns of sampled rows, as IPC, and how many ranges the order has.
    sample: bytes
    ranges: int
    #: How the name of the file begins that keeps them.
    out: str


@dataclass(frozen=True)
class RangesTask:
    """Ranges of the order that become one file: of each, the batches of files that hold its rows."""

    rewriting: Rewriting
    ordering: Ordering
    sample: bytes
    path: str
    ranges: tuple[tuple[tuple[str, int, int], ...], ...]
    number: int


def rewrite_in_parts(
    rewriting: Rewriting, slices: Sequence[FileSlice], outputs: int, ranges: int, folder: str, runner: Runner, first: int
) -> list[WriteStat]:
    """Rewrite a group in several tasks; gives the write stats.

    Args:
        ranges: into how many parts the order is cut, each of which a task holds in memory; at least as many as outputs.
        folder: where rows are kept meanwhile.
        first: the number of the first task that writes a file.
    """
    ordering = rewriting.ordering
    assert ordering is not None
    each = max(1, max(ordering.sample_rows or 0, _SAMPLE_ROWS) // len(slices))
    sampled = runner.run(sample_slice, [SampleTask(rewriting, ordering, one, each) for one in slices], str)
    sample = _to_bytes(pa.concat_tables([_of_bytes(base64.b64decode(text)) for text in sampled]))
    sorting = [
        SortTask(rewriting, ordering, one, sample, ranges, join(folder, f"sorted-{number}")) for number, one in enumerate(slices)
    ]
    kept = runner.run(sort_slice, sorting, SortedSlice)
    by_range: list[tuple[tuple[str, int, int], ...]] = []
    for number in range(ranges):
        batches = []
        for slice_rows in kept:
            start, end = slice_rows.ranges[number]
            if start < end:
                batches.append((slice_rows.path, start, end))
        by_range.append(tuple(batches))
    cuts = np.linspace(0, ranges, outputs + 1).astype(int)
    path = slices[0].partition_path
    parts = [tuple(by_range[first:last]) for first, last in pairwise(cuts)]
    tasks = [RangesTask(rewriting, ordering, sample, path, part, first + i) for i, part in enumerate(parts) if any(part)]
    return runner.collect(write_ranges, tasks, WriteStat)


def sample_slice(task: SampleTask) -> str:
    """Kernel: what rows are ordered by, of a few rows of a slice."""
    names = columns_read(task.ordering, body_schema(task.rewriting.settings.schema).names)
    parts = [sort_columns(rows, task.ordering) for rows in read_slice(task.slice_, task.rewriting, names)]
    if not parts:
        body = body_schema(task.rewriting.settings.schema)
        parts = [sort_columns(pa.schema([body.field(name) for name in names]).empty_table(), task.ordering)]
    return base64.b64encode(_to_bytes(sample_of(pa.concat_tables(parts), task.rows))).decode()


@dataclass(frozen=True)
class SortedSlice:
    """A file with the rows of a slice in order, and of each range its first batch and the batch behind its last."""

    path: str
    ranges: list[tuple[int, int]]


def sort_slice(task: SortTask) -> SortedSlice:
    """Kernel: Write a slice's rows in order to a file."""
    rows = pa.concat_tables([body_schema(task.rewriting.settings.schema).empty_table(), *read_slice(task.slice_, task.rewriting)])
    rows = rows.combine_chunks() if rows.nbytes <= OFFSETS_REACH else rows
    sample = _of_bytes(task.sample)
    keys = keys_of(sort_columns(rows, task.ordering), task.ordering, sample)
    order, ends = order_and_ends(keys, range_ends(keys_of(sample, task.ordering, sample), task.ranges))
    path = f"{task.out}-{this_task().write_token}.arrow"  # another attempt makes another file
    return SortedSlice(path, _keep(task.rewriting.settings.storage, path, rows, order, ends))


def _keep(storage: Storage, path: str, rows: pa.Table, order: Positions, ends: Positions) -> list[tuple[int, int]]:
    """Write rows in order; gives for each range its first batch and the one behind its last."""
    written, found = 0, []
    with convert_os_errors(path), storage.create(path) as sink, pa.ipc.new_file(sink, rows.schema) as file:
        for start, end in zip([0, *ends], [*ends, len(order)], strict=True):
            first = written
            for at in range(start, end, ROW_GROUP_ROWS):
                for batch in take_rows(rows, order[at : min(end, at + ROW_GROUP_ROWS)]).to_batches():
                    file.write_batch(batch)
                    written += 1
            found.append((first, written))
    return found


def write_ranges(task: RangesTask) -> list[WriteStat]:
    """Kernel: write the file of some ranges; gives its write stat."""
    storage, sample = task.rewriting.settings.storage, _of_bytes(task.sample)
    rows = (part for its in task.ranges for part in in_order(_kept(storage, its), task.ordering, sample))
    return write_groups(rows, task.path, task.rewriting, task.number)


def _kept(storage: Storage, batches: Sequence[tuple[str, int, int]]) -> Iterator[pa.Table]:
    for path, first, last in batches:
        file = pa.ipc.open_file(storage.map(path))
        yield pa.Table.from_batches([file.get_batch(number) for number in range(first, last)])


def range_ends(keys: pa.Table, ranges: int) -> pa.Table:
    """Keys that cut sampled rows into ranges of equal size: the last of each range but the last."""
    order = order_of(keys)
    at = [len(order) * number // ranges for number in range(1, ranges)] if len(order) else []
    return keys.take(pa.array(order[np.array(at, np.int64)], pa.int64()))


def order_and_ends(keys: pa.Table, ends: pa.Table) -> tuple[Positions, Positions]:
    """The order of rows, and how many of them belong to ranges up to each that these keys end."""
    together = order_of(pa.concat_tables([keys, ends.cast(keys.schema)]))
    is_end = together >= keys.num_rows
    return np.asarray(together[~is_end], np.int64), np.cumsum(np.diff(np.flatnonzero(is_end), prepend=-1) - 1)


def _to_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as file:
        file.write_table(rows)
    return bytes(sink.getvalue())


def _of_bytes(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()
