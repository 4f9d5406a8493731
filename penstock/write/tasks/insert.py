"""The functions that write the rows of one task of a bulk_insert or insert, and helpers with which all writes insert new rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.log.write import LogSettings
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.merge.kernels.gather import Positions
from penstock.merge.merger import Merger
from penstock.timeline.commit_file import WriteStat
from penstock.write.rows.crossing_columns import KEY, CrossingColumns, PartitionRows, split_by_partition
from penstock.write.rows.staging import read_pieces
from penstock.write.tasks.base_file import FileMerge, add_to_base_file, drop_deletes, get_or_make_keys, merge_base_file
from penstock.write.tasks.log_file import RollingLogWriter, open_insert_writer
from penstock.write.tasks.task import InsertTask, open_task_output
from penstock.write.tasks.task_rows import TaskRows, load_task_rows, split_row_numbers

#: How many bytes of rows all open files of a task may buffer in memory. Above it the file with the largest buffer is flushed.
_WAITING_BYTES = 256 * 1024 * 1024


def bulk_insert_rows(
    columns: CrossingColumns, settings: FileSettings, is_sorted_by_path: bool, batches: Iterator[pa.RecordBatch]
) -> list[WriteStat]:
    """Write the rows of one bulk_insert task to new file groups, with one open file per partition path.

    Runs in a task, on a worker or on the driver.

    Args:
        columns: which columns of the batches are data columns, and which are the record key and the partition path.
        is_sorted_by_path: whether all rows of a partition path come one after another. Then its file is closed when the next
            path begins.
        batches: the rows of the task.

    Returns:
        The write stats of the files.
    """
    output = open_task_output(settings)
    writers: dict[str, RollingWriter] = {}
    stats: list[WriteStat] = []
    for batch in batches:
        parts = list(split_by_partition(columns, batch))
        new_writers = {rows.path: RollingWriter(output, rows.path) for rows in parts if rows.path not in writers}
        # The markers of all files that the batch opens are written at once: one request instead of one per path.
        output.announce([writer.next_path for writer in new_writers.values()], MarkerType.CREATE)
        for rows in parts:
            if is_sorted_by_path and rows.path not in writers:
                stats += _close_all(writers)
            if rows.path not in writers:
                writers[rows.path] = new_writers[rows.path]
            writers[rows.path].write(rows.table, get_or_make_keys(rows, output))
            _limit_memory(output, writers)
    stats += _close_all(writers)
    output.finish()
    return stats


def _close_all(writers: dict[str, RollingWriter]) -> list[WriteStat]:
    """Close all writers and return their write stats. The dict is empty afterwards."""
    stats: list[WriteStat] = []
    for writer in writers.values():
        stats += writer.close()
    writers.clear()
    return stats


def _limit_memory(output: TaskOutput, writers: dict[str, RollingWriter]) -> None:
    """Flush the writers with the largest buffers until all buffers together have at most `_WAITING_BYTES`."""
    while output.waiting_bytes > _WAITING_BYTES:
        fullest = max(writers.values(), key=lambda writer: writer.waiting_bytes)
        fullest.flush()


def insert_bucket(task: InsertTask) -> list[WriteStat]:
    """Write the rows of one insert bucket to a new file group, or to the base file or log of an existing one.

    An insert bucket is the incoming rows that an insert assigns to one file group. Returns the write stats. There are several if
    the rows do not fit in one file: the rest goes to more new file groups. Runs in a task, on a worker or on the driver.
    """
    output = open_task_output(task.settings)
    bucket = task.bucket
    base_file = bucket.target.base_file if bucket.target else None
    rows = (split_key(bucket.partition_path, table) for table in read_pieces(task.staging, bucket.pieces))
    if base_file is None or (task.logs and task.logs.insert_ratio is not None):
        writer = open_insert_writer(output, bucket.partition_path, task.logs, bucket.target)
        stats = insert_pieces(writer, output, task.merger, rows)
    elif task.loading is None:
        stats = [add_to_base_file(output, bucket.partition_path, base_file, task.merger, rows)]
    else:
        incoming = load_task_rows(task.loading, bucket.pieces)
        merge = FileMerge(bucket.partition_path, base_file, task.merger)
        stats = [merge_base_file(output, merge, incoming, len(incoming.rows)).stat]
    output.finish()
    return stats


def split_key(partition_path: str, piece: pa.Table) -> PartitionRows:
    """Split rows that were read from a staged file into data columns and record keys.

    The keys are None if the table generates record keys: staged rows then have no key column.

    Args:
        piece: the rows of one piece (consecutive rows of a staged file).
    """
    if KEY not in piece.column_names:
        return PartitionRows(partition_path, piece, None)
    return PartitionRows(partition_path, piece.drop_columns([KEY]), piece[KEY])


def insert_pieces(
    writer: RollingWriter | RollingLogWriter, output: TaskOutput, merger: Merger, pieces: Iterable[PartitionRows]
) -> list[WriteStat]:
    """Write staged rows with this writer, close it, and return the write stats.

    Deletes among the rows are counted, not written: an insert compares no keys, so they delete nothing.

    Args:
        output: generates the record keys of rows without keys.
        pieces: the staged rows, one item per piece (consecutive rows of a staged file).
    """
    deletes = 0
    for rows in pieces:
        stored = drop_deletes(rows, merger)
        deletes += rows.table.num_rows - stored.table.num_rows
        writer.write(stored.table, get_or_make_keys(stored, output))
    return _add_deletes(writer.close(), deletes)


def insert_rows(
    writer: RollingWriter | RollingLogWriter, merger: Merger, incoming: TaskRows, numbers: Positions
) -> list[WriteStat]:
    """Write incoming rows, whose keys are new, with this writer; close it and return the write stats.

    Deletes among the rows are counted, not written. If all rows are deletes, no file is created.

    Args:
        numbers: the numbers (in `incoming`) of the rows to write.
    """
    deletes = 0
    for part in split_row_numbers(numbers):
        rows = incoming.take(part)
        is_kept, stored = merger.insert(rows.drop_columns([KEY]))
        deletes += len(part) - stored.num_rows
        writer.write(stored, rows[KEY].filter(pa.array(is_kept)))
    return _add_deletes(writer.close(), deletes)


def insert_into_new_groups(
    output: TaskOutput,
    partition_path: str,
    logs: LogSettings | None,
    merger: Merger,
    incoming: TaskRows,
    numbers: Positions,
    rows_per_group: int,
) -> list[WriteStat]:
    """Write incoming rows, whose keys are new, to new file groups of one partition. Return the write stats.

    Args:
        logs: how log files are written; None: the table is copy-on-write.
        numbers: the numbers (in `incoming`) of the rows to write.
        rows_per_group: the most rows of a new file group.
    """
    stats: list[WriteStat] = []
    for start in range(0, len(numbers), rows_per_group):
        writer = open_insert_writer(output, partition_path, logs)
        stats += insert_rows(writer, merger, incoming, numbers[start : start + rows_per_group])
    return stats


def _add_deletes(stats: list[WriteStat], deletes: int) -> list[WriteStat]:
    """Return a copy of the write stats in which the first one counts all deletes, and the others none.

    A delete among inserted rows has no stored row, so it belongs to no file in particular.
    """
    if not stats:
        return []
    return [replace(stats[0], num_deletes=deletes), *(replace(stat, num_deletes=0) for stat in stats[1:])]
