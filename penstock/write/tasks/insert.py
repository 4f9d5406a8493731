"""Stage 6: every file group is written, markers first; gives write stats. Kernels for workers and driver alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.filegroup.base_read import open_base_file, read_row_groups
from penstock.filegroup.base_write import BaseFileWriter, RollingWriter
from penstock.filegroup.log.write import LogSettings
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.meta_columns import body_schema
from penstock.filegroup.model import BaseFile
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.merge.merger import Merger
from penstock.spread.run import this_task
from penstock.timeline.commit_file import WriteStat
from penstock.write.locate.assign import InsertBucket
from penstock.write.rows.crossing import KEY, CrossingColumns, PartitionRows, split_by_partition
from penstock.write.rows.staging import Staging, read_pieces
from penstock.write.rows.task_rows import TaskRowsSettings, load_task_rows
from penstock.write.tasks.base_file import FileMerge, merge_file
from penstock.write.tasks.log_file import LogGroups, new_groups

#: Rows that many open files may hold back together before the fullest is written out.
_WAITING_BYTES = 256 * 1024 * 1024


def open_output(settings: FileSettings) -> TaskOutput:
    """What this task writes to."""
    task = this_task()
    return TaskOutput(settings, task.number, task.write_token)


def write_rows(
    crossing: CrossingColumns, settings: FileSettings, in_runs: bool, batches: Iterator[pa.RecordBatch]
) -> list[WriteStat]:
    """Kernel of bulk_insert: one task's rows into new file groups, one open file per partition path.

    Args:
        in_runs: a path's rows come in one run, so that its file can be closed when the next path begins.
    """
    output = open_output(settings)
    writers: dict[str, RollingWriter] = {}
    stats: list[WriteStat] = []
    for batch in batches:
        parts = list(split_by_partition(crossing, batch))
        fresh = {rows.path: RollingWriter(output, rows.path) for rows in parts if rows.path not in writers}
        output.announce([writer.next_path for writer in fresh.values()], MarkerType.CREATE)
        for rows in parts:
            if in_runs and rows.path not in writers:
                stats.extend(s for writer in writers.values() for s in writer.close())
                writers = {}
            writer = writers.get(rows.path) or writers.setdefault(rows.path, fresh[rows.path])
            writer.write(rows.table, _record_keys(rows, output))
            _bound_memory(output, writers)
    stats.extend(s for writer in writers.values() for s in writer.close())
    output.finish()
    return stats


def _record_keys(rows: PartitionRows, output: TaskOutput) -> pa.ChunkedArray:
    """The rows' keys, or fresh ones where the table generates them."""
    return rows.keys if rows.keys is not None else output.make_keys(rows.table.num_rows)


def _bound_memory(output: TaskOutput, writers: dict[str, RollingWriter]) -> None:
    while output.waiting_bytes > _WAITING_BYTES:
        max(writers.values(), key=lambda w: w.waiting_bytes).flush()


@dataclass(frozen=True)
class StoreTask:
    """One bucket, and all a task needs to write it."""

    bucket: InsertBucket
    settings: FileSettings
    staging: Staging
    merger: Merger
    #: Rows that fill up a base file are merged with its rows by key, brought together like this; None: they are added.
    loading: TaskRowsSettings | None = None
    #: How log files are written, in a merge-on-read table.
    logs: LogSettings | None = None


def store_bucket(task: StoreTask) -> list[WriteStat]:
    """Kernel of insert: one bucket into new file groups, or behind the rows of an existing base file or log."""
    output, bucket = open_output(task.settings), task.bucket
    base = bucket.target.base_file if bucket.target else None
    rows = (unstaged(bucket.path, table) for table in read_pieces(task.staging, bucket.pieces))
    if base is None or (task.logs and task.logs.insert_ratio is not None):
        stats = write_new(new_groups(output, bucket.path, task.logs, bucket.target), output, task.merger, rows)
    elif task.loading is None:
        stats = [append_rows(output, bucket.path, base, task.merger, rows)]
    else:
        incoming = load_task_rows(task.loading, bucket.pieces)
        merge = FileMerge(bucket.path, base, task.merger)
        stats = [merge_file(output, merge, incoming, len(incoming.rows)).stat]
    output.finish()
    return stats


def unstaged(path: str, table: pa.Table) -> PartitionRows:
    """A staged piece as rows and keys."""
    if KEY not in table.column_names:
        return PartitionRows(path, table, None)
    return PartitionRows(path, table.drop_columns([KEY]), table[KEY])


def write_new(
    writer: RollingWriter | LogGroups, output: TaskOutput, merger: Merger, rows: Iterable[PartitionRows]
) -> list[WriteStat]:
    """Rows to file groups as the writer opens them; deletes are only counted."""
    deletes = 0
    for part in rows:
        part, dropped = _without_deletes(part, merger)
        deletes += dropped
        writer.write(part.table, _record_keys(part, output))
    return [replace(stat, num_deletes=deletes if i == 0 else 0) for i, stat in enumerate(writer.close())]


def _without_deletes(rows: PartitionRows, merger: Merger) -> tuple[PartitionRows, int]:
    """The rows that are none, as they are stored, and how many are."""
    kept, stored = merger.insert(rows.table)
    keys = rows.keys if rows.keys is None or kept.all() else rows.keys.filter(pa.array(kept))
    return PartitionRows(rows.path, stored, keys), int((~kept).sum())


def append_rows(output: TaskOutput, path: str, base: BaseFile, merger: Merger, rows: Iterable[PartitionRows]) -> WriteStat:
    """A new version of a file group: its old rows unchanged, new ones behind them. A delete counts as delete and as insert."""
    settings, inserts, deletes = output.settings, 0, 0
    file = open_base_file(settings.storage, base.path)
    writer = BaseFileWriter(output, path, base.file_id, MarkerType.MERGE, old=file)
    for old in read_row_groups(file, base.path, body_schema(settings.schema)):
        writer.keep(old)
        del old  # before the next row group is read
    for part in rows:
        inserts += part.table.num_rows
        part, dropped = _without_deletes(part, merger)
        deletes += dropped
        writer.add(part.table, _record_keys(part, output), writer.rows + np.arange(part.table.num_rows))
    return writer.stat(writer.close(), num_inserts=inserts, num_deletes=deletes, prev_commit=base.instant)
