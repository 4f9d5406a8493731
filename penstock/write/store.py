"""Stage 6: every file group is written, markers first; gives write stats. Kernels for workers and driver alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from penstock.filegroup.markers import MarkerType
from penstock.filegroup.model import BaseFile
from penstock.filegroup.read import open_base_file, read_row_groups
from penstock.filegroup.write import BaseFileWriter, FileSettings, GroupWriter, Output, add_meta_columns, constant
from penstock.schema import META_COLUMNS
from penstock.spread import this_task
from penstock.timeline.contents import WriteStat
from penstock.write.assign import Bucket
from penstock.write.layout import KEY, Layout, Rows, split_batch
from penstock.write.stage import Staging, read_pieces

#: Rows that many open files may hold back together before the fullest is written out.
_WAITING_BYTES = 256 * 1024 * 1024


def open_output(settings: FileSettings) -> Output:
    """What this task writes to."""
    task = this_task()
    return Output(settings, task.number, task.write_token)


def write_rows(layout: Layout, settings: FileSettings, in_runs: bool, batches: Iterator[pa.RecordBatch]) -> Iterable[Any]:
    """Kernel of bulk_insert: one task's rows into new file groups, one open file per partition path.

    Args:
        in_runs: a path's rows come in one run, so that its file can be closed when the next path begins.
    """
    output = open_output(settings)
    writers: dict[str, GroupWriter] = {}
    stats: list[WriteStat] = []
    for batch in batches:
        for rows in split_batch(layout, batch):
            if in_runs and rows.path not in writers:
                stats.extend(s for writer in writers.values() for s in writer.close())
                writers = {}
            writer = writers.get(rows.path) or writers.setdefault(rows.path, GroupWriter(output, rows.path))
            writer.write(rows.table, _keys_of(rows, output))
            _bound_memory(writers)
    stats.extend(s for writer in writers.values() for s in writer.close())
    output.finish()
    return [asdict(s) for s in stats]


def _keys_of(rows: Rows, output: Output) -> pa.ChunkedArray:
    """The rows' keys, or fresh ones where the table generates them."""
    return rows.keys if rows.keys is not None else output.make_keys(rows.table.num_rows)


def _bound_memory(writers: dict[str, GroupWriter]) -> None:
    while sum(w.waiting_bytes for w in writers.values()) > _WAITING_BYTES:
        max(writers.values(), key=lambda w: w.waiting_bytes).flush()


@dataclass(frozen=True)
class StoreTask:
    """One bucket, and all a task needs to write it."""

    bucket: Bucket
    settings: FileSettings
    staging: Staging
    schema: pa.Schema


def store_bucket(task: StoreTask) -> list[Any]:
    """Kernel of insert: one bucket into new file groups, or behind the rows of an existing base file."""
    output = open_output(task.settings)
    tables = read_pieces(task.staging, task.bucket.pieces)
    rows = (_unstaged(task.bucket.path, table) for table in tables)
    if task.bucket.base is None:
        writer = GroupWriter(output, task.bucket.path)
        for part in rows:
            writer.write(part.table, _keys_of(part, output))
        stats = writer.close()
    else:
        stats = [append_rows(output, task.bucket.path, task.bucket.base, task.schema, rows)]
    output.finish()
    return [asdict(s) for s in stats]


def _unstaged(path: str, table: pa.Table) -> Rows:
    if KEY not in table.column_names:
        return Rows(path, table, None)
    return Rows(path, table.drop_columns([KEY]), table[KEY])


def append_rows(output: Output, path: str, base: BaseFile, schema: pa.Schema, rows: Iterable[Rows]) -> WriteStat:
    """A new version of a file group: its old rows unchanged, new ones behind them."""
    settings = output.settings
    writer = BaseFileWriter(output, path, base.file_id, MarkerType.MERGE)
    stored = stored_with_meta(schema)
    file = open_base_file(settings.storage, base.path)
    for old in read_row_groups(file, base.path, stored):
        writer.write(moved(old, path, writer.name, settings.populate_meta))
    first, inserts = output.take_rows(writer.rows) + writer.rows, 0
    for part in rows:
        count = part.table.num_rows
        new = add_meta_columns(
            part.table,
            _keys_of(part, output),
            instant=settings.instant,
            task=output.task,
            first_row=first + inserts,
            partition_path=path,
            file_name=writer.name,
            populate=settings.populate_meta,
        )
        writer.write(_plain_commit_time(new))
        inserts += count
    size = writer.close(stored)
    return writer.stat(size, num_inserts=inserts, prev_commit=base.instant)


def stored_with_meta(schema: pa.Schema) -> pa.Schema:
    """The data columns with the five meta columns in front."""
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])


def moved(rows: pa.Table, path: str, file_name: str, populate: bool) -> pa.Table:
    """Old rows in a new file: everything as it was but the file's name."""
    if not populate:
        return rows
    count = rows.num_rows
    for name, text in (("_hoodie_partition_path", path), ("_hoodie_file_name", file_name)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, constant(text, count))
    return rows


def _plain_commit_time(rows: pa.Table) -> pa.Table:
    """New rows with the commit time as plain text, as old rows have it."""
    name = META_COLUMNS[0]
    return rows.set_column(0, name, rows[name].cast(pa.string()))


def stats_of(results: Sequence[Sequence[Any]] | Sequence[Any]) -> list[WriteStat]:
    """Write stats as workers gave them back."""
    flat = [s for r in results for s in (r if isinstance(r, list) else [r])]
    return [WriteStat(**s) for s in flat]
