"""Writing base files: rows in, one or several base files out, each announced first; gives write stats.

Works on the driver and in Spark's workers alike. Memory is one row group per open file, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from penstock import clock
from penstock.filegroup.key_changes import KeyChange
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.meta_columns import KEY_COLUMN, add_file_columns, add_null_meta_columns, schema_with_meta, stamp_rows
from penstock.filegroup.task_output import TaskOutput
from penstock.formats.parquet import ROW_GROUP_ROWS, KeyFooter, open_writer, read_footer
from penstock.merge.kernels.event_time import EventTimeSpan, find_event_times
from penstock.schema import META_COLUMNS
from penstock.storage.os_errors import convert_os_errors
from penstock.timeline.commit_file import WriteStat


class BaseFileWriter:
    """One base file. Rows come with their meta columns; they are cut into row groups as they arrive."""

    def __init__(
        self, output: TaskOutput, partition_path: str, file_id: str, kind: MarkerType, old: pq.ParquetFile | None = None
    ) -> None:
        settings = output.settings
        self.settings, self.partition_path, self.file_id = settings, partition_path, file_id
        self.path = output.path_of(partition_path, file_id)
        self.name = self.path.rpartition("/")[2]
        self.rows = 0
        self._output = output
        self._task = output.task
        self._times = EventTimeSpan()
        bloom = settings.bloom if settings.populate_meta else None
        self._footer = KeyFooter(bloom, read_footer(old), old.metadata.num_rows) if old else KeyFooter(bloom)
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        #: Memory that rows not yet written take.
        self.waiting_bytes = 0
        self._parquet: pq.ParquetWriter | None = None
        self._sink = output.create(self.path, kind)

    @property
    def written_bytes(self) -> int:
        """Bytes of the file so far."""
        return int(self._sink.tell())

    @property
    def bytes_per_row(self) -> float | None:
        """What a row of this file takes, once some are written."""
        written = self.rows - self._waiting_rows
        return self.written_bytes / written if written else None

    def stamp(self, rows: pa.Table, keys: pa.ChunkedArray, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """New rows with the meta columns that are theirs, as `keep` takes them."""
        return stamp_rows(rows, keys, instant=self.settings.instant, task=self._task, numbers=numbers)

    def add(self, rows: pa.Table, keys: pa.ChunkedArray, numbers: npt.NDArray[np.int64]) -> None:
        """Write new rows, data columns only; `numbers` count them for their sequence numbers."""
        self._output.notes.add(KeyChange.ADDED, self.name, keys)
        if self.settings.populate_meta:
            self._footer.add(keys)
            self._write(add_file_columns(self.stamp(rows, keys, numbers), self.partition_path, self.name))
        else:
            self._write(add_null_meta_columns(rows))

    def keep(self, body: pa.Table, *, new: bool = False) -> None:
        """Write rows of the old version of this file, changed or not; they carry their own meta columns.

        Args:
            new: whether their keys were not in that version.
        """
        if not self.settings.populate_meta:
            self._write(add_null_meta_columns(body.drop_columns(list(META_COLUMNS[:3]))))
            return
        (self._footer.add if new else self._footer.keep)(body[KEY_COLUMN])
        self._write(add_file_columns(body, self.partition_path, self.name))

    def note_times(self, rows: pa.Table) -> None:
        """Take note of the event times of rows that replace or delete old ones."""
        if self.settings.event_time is not None:
            self._times = self._times.extend(find_event_times(rows, self.settings.event_time))

    def note_removed(self, keys: pa.ChunkedArray) -> None:
        """Say that rows of the old version, or such as an index takes for them, are gone for good."""
        self._output.notes.add(KeyChange.REMOVED, self.name, keys)

    def _write(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._hold(rows.nbytes)
        self.rows += rows.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self.flush()

    def _hold(self, size_bytes: int) -> None:
        self.waiting_bytes += size_bytes
        self._output.waiting_bytes += size_bytes

    def flush(self) -> None:
        """Write the rows at hand as row groups."""
        if not self._waiting:
            return
        rows = self._waiting[0] if len(self._waiting) == 1 else pa.concat_tables(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        self._hold(-self.waiting_bytes)
        whole = rows.num_rows < 2 * ROW_GROUP_ROWS
        with convert_os_errors(self.path):
            if self._parquet is None:
                self._parquet = open_writer(self._sink, rows, self.settings.codec)
            self._parquet.write_table(rows, row_group_size=rows.num_rows if whole else ROW_GROUP_ROWS)

    def close(self) -> int:
        """Finish the file, which may have no rows at all, and give its size."""
        self.flush()
        footer = {
            "parquet.avro.schema": self.settings.avro_schema,
            "writer.model.name": "avro",
            **self._footer.metadata(),
        }
        with convert_os_errors(self.path):
            if self._parquet is None:
                self._parquet = open_writer(self._sink, schema_with_meta(self.settings.schema).empty_table(), self.settings.codec)
            self._parquet.add_key_value_metadata(footer)
            self._parquet.close()
            size = self.written_bytes
            self._sink.close()
        return size

    def stat(self, size_bytes: int, **counts: int | str) -> WriteStat:
        """The write stat of the finished file."""
        return WriteStat(
            min_event_time=self._times.least_ms,
            max_event_time=self._times.greatest_ms,
            file_id=self.file_id,
            partition_path=self.partition_path,
            path=self.path,
            num_writes=self.rows,
            total_write_bytes=size_bytes,
            file_size_in_bytes=size_bytes,
            **counts,  # type: ignore[arg-type]
        )


class RollingWriter:
    """New file groups of one partition: a base file each, the next one opened when a file is full.

    Args:
        file_id: all rows go to this file group, however large it becomes.
        old: a file whose rows `keep` brings, all of them and no others: the first file goes on with its key filter.
    """

    def __init__(
        self, output: TaskOutput, partition_path: str, file_id: str | None = None, old: pq.ParquetFile | None = None
    ) -> None:
        self._output, self._settings, self._partition, self._old = output, output.settings, partition_path, old
        self._prefix, self._files, self._only_id = clock.new_uuid(), 0, file_id
        self._open: BaseFileWriter | None = None
        self._bytes_per_row: float | None = None
        self.stats: list[WriteStat] = []

    @property
    def waiting_bytes(self) -> int:
        """Memory that rows not yet written take."""
        return self._open.waiting_bytes if self._open else 0

    @property
    def next_path(self) -> str:
        """The base file that is written next, relative to the table."""
        return self._output.path_of(self._partition, self._next_id)

    @property
    def _next_id(self) -> str:
        return self._only_id or f"{self._prefix}-{self._files}"

    def flush(self) -> None:
        """Write the rows at hand."""
        if self._open:
            self._open.flush()

    def write(self, rows: pa.Table, keys: pa.ChunkedArray) -> None:
        """Add rows without meta columns, in arrival order."""
        for writer, start, count in self._parts(rows):
            first = self._output.take_rows(count)
            writer.add(rows.slice(start, count), keys.slice(start, count), np.arange(first, first + count))

    def keep(self, body: pa.Table) -> None:
        """Add rows that carry the meta columns which are theirs."""
        for writer, start, count in self._parts(body):
            rows = body.slice(start, count)
            self._output.notes.add(KeyChange.ADDED, writer.name, rows[KEY_COLUMN])
            writer.keep(rows)

    def _parts(self, rows: pa.Table) -> Iterator[tuple[BaseFileWriter, int, int]]:
        """The file that takes the next rows, where these begin and how many they are; it is looked at when they are written."""
        start = 0
        while start < rows.num_rows:
            writer = self._open or self._next()
            count = min(rows.num_rows - start, self._room(writer, rows))
            yield writer, start, count
            start += count
            self._roll_if_full(writer)

    def _next(self) -> BaseFileWriter:
        self._open = BaseFileWriter(self._output, self._partition, self._next_id, MarkerType.CREATE, old=self._old)
        self._old = None
        self._files += 1
        return self._open

    def _room(self, writer: BaseFileWriter, rows: pa.Table) -> int:
        """Rows until the next look at the file's size: a row group, or what still fits."""
        if self._only_id:
            return ROW_GROUP_ROWS
        per_row = writer.bytes_per_row or self._bytes_per_row or max(1.0, rows.nbytes / rows.num_rows)
        fits = int(self._settings.max_file_bytes / per_row) - writer.rows
        return max(1, min(ROW_GROUP_ROWS, fits))

    def _roll_if_full(self, writer: BaseFileWriter) -> None:
        if self._only_id:
            return
        if self._bytes_per_row is None and writer.waiting_bytes >= self._settings.max_file_bytes:
            writer.flush()  # enough for a file even if nothing compresses: see what a row takes
        self._bytes_per_row = writer.bytes_per_row or self._bytes_per_row
        per_row = self._bytes_per_row
        if per_row and writer.rows * per_row + 2 * per_row >= self._settings.max_file_bytes:
            self._finish(writer)

    def _finish(self, writer: BaseFileWriter) -> None:
        size = writer.close()
        self.stats.append(writer.stat(size, num_inserts=writer.rows))
        self._open = None

    def close(self) -> list[WriteStat]:
        """Finish the open file; gives the stats of all."""
        if self._open:
            self._finish(self._open)
        return self.stats
