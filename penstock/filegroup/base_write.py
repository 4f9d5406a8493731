"""Writing base files: rows in, one or several base files and their write stats out.

`BaseFileWriter` writes one file. `RollingWriter` writes new file groups, and opens the next file when one is full. Files are
created through a `TaskOutput`, which writes a marker for each file first. A writer holds at most about one row group in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.filegroup.base_read import open_base_file
from penstock.filegroup.fill_meta_columns import KEY_COLUMN, add_file_columns, add_null_meta_columns, schema_with_meta, stamp_rows
from penstock.filegroup.key_changes import KeyChange
from penstock.filegroup.key_footer import KeyFooter
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.model import FileSlice
from penstock.filegroup.task_output import TaskOutput
from penstock.formats.parquet import ROW_GROUP_ROWS, open_writer, read_footer
from penstock.merge.kernels.event_time import EventTimeSpan, find_event_times
from penstock.schema import META_COLUMNS
from penstock.storage.os_errors import convert_os_errors
from penstock.timeline.commit_file import WriteStat


class BaseFileWriter:
    """Writes one base file. Rows are collected in memory and written as row groups.

    Args:
        output: the task that the file belongs to. It creates the file and its marker.
        kind: CREATE if the file begins a file group, MERGE if it is the next version of a base file.
        old: the old version of the base file, if `keep` will add its rows. Where possible, the new file then continues the old
            bloom filter (`KeyFooter`). None: there is no old version, or its rows are not kept.
    """

    def __init__(
        self, output: TaskOutput, partition_path: str, file_id: str, kind: MarkerType, old: pq.ParquetFile | None = None
    ) -> None:
        self.settings = output.settings
        self.partition_path = partition_path
        self.file_id = file_id
        self.path = output.base_file_path(partition_path, file_id)
        self.name = self.path.rpartition("/")[2]
        self.rows = 0
        #: Memory that rows not yet written take.
        self.waiting_bytes = 0
        self._output = output
        self._event_times = EventTimeSpan()
        bloom = self.settings.bloom if self.settings.populate_meta else None
        self._footer = KeyFooter(bloom, read_footer(old), old.metadata.num_rows) if old else KeyFooter(bloom)
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._parquet: pq.ParquetWriter | None = None
        self._sink = output.create(self.path, kind)

    @property
    def written_bytes(self) -> int:
        """The number of bytes written to the file so far, without rows that wait in memory."""
        return int(self._sink.tell())

    @property
    def bytes_per_row(self) -> float | None:
        """The mean size of a row in the file, in bytes; None before the first row group is written."""
        written = self.rows - self._waiting_rows
        return self.written_bytes / written if written else None

    def stamp(self, rows: pa.Table, keys: pa.ChunkedArray, numbers: npt.NDArray[np.int64]) -> pa.Table:
        """Return new rows with commit time, sequence number and record key in front. Writes nothing: pass the result to `keep`.

        Args:
            rows: the data columns of the rows.
            keys: the record key of each row.
            numbers: the number of each row within the task, which becomes part of its sequence number.
        """
        return stamp_rows(rows, keys, instant=self.settings.instant, task=self._output.task, numbers=numbers)

    def add(self, rows: pa.Table, keys: pa.ChunkedArray, numbers: npt.NDArray[np.int64]) -> None:
        """Write new rows and add their keys to the bloom filter. Meta columns are null if the table does not fill them.

        Args:
            rows: the data columns of the rows.
            keys: the record key of each row.
            numbers: the number of each row within the task, which becomes part of its sequence number.
        """
        self._output.key_changes.add(KeyChange.ADDED, self.name, keys)
        if self.settings.populate_meta:
            self._footer.add(keys)
            self._write(add_file_columns(self.stamp(rows, keys, numbers), self.partition_path, self.name))
        else:
            self._write(add_null_meta_columns(rows))

    def keep(self, body: pa.Table, *, new: bool = False) -> None:
        """Write rows that already have commit time, sequence number and record key: stored rows, or rows that `stamp` returned.

        Args:
            body: commit time, sequence number and record key, then the data columns.
            new: whether the old version of the base file lacks these keys. If so, they are also added to a bloom filter that
                continues the old version's.
        """
        if not self.settings.populate_meta:
            self._write(add_null_meta_columns(body.drop_columns(list(META_COLUMNS[:3]))))
            return
        if new:
            self._footer.add(body[KEY_COLUMN])
        else:
            self._footer.keep(body[KEY_COLUMN])
        self._write(add_file_columns(body, self.partition_path, self.name))

    def note_times(self, rows: pa.Table) -> None:
        """Widen the range of event times in the file's write stat so that it includes the event times of these rows.

        Does nothing if the write records no event times.

        Args:
            rows: incoming rows that replace or delete stored rows.
        """
        if self.settings.event_time is not None:
            self._event_times = self._event_times.extend(find_event_times(rows, self.settings.event_time))

    def note_removed(self, keys: pa.ChunkedArray) -> None:
        """Record that this write deletes these keys from the file group, so that the index can remove its entries for them.

        Only an index that stores an entry per key outside the table, such as HBase, uses this. Some of the keys may be missing in
        the old version of the file, because the index may still have entries for them.
        """
        self._output.key_changes.add(KeyChange.REMOVED, self.name, keys)

    def _write(self, rows: pa.Table) -> None:
        """Collect rows, which have all meta columns, in memory. Write them to the file once they fill a row group."""
        if rows.num_rows == 0:
            return
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._add_waiting_bytes(rows.nbytes)
        self.rows += rows.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self.flush()

    def _add_waiting_bytes(self, size_bytes: int) -> None:
        """Add `size_bytes`, which may be negative, to the memory of unwritten rows, both of this file and of the whole task."""
        self.waiting_bytes += size_bytes
        self._output.waiting_bytes += size_bytes

    def flush(self) -> None:
        """Write the rows that wait in memory to the file, as one or several row groups."""
        if not self._waiting:
            return
        rows = self._waiting[0] if len(self._waiting) == 1 else pa.concat_tables(self._waiting)
        self._waiting = []
        self._waiting_rows = 0
        self._add_waiting_bytes(-self.waiting_bytes)
        # One row group of up to twice the usual size: a small rest would become a row group of its own.
        row_group_rows = rows.num_rows if rows.num_rows < 2 * ROW_GROUP_ROWS else ROW_GROUP_ROWS
        with convert_os_errors(self.path):
            if self._parquet is None:
                self._parquet = open_writer(self._sink, rows, self.settings.codec)
            self._parquet.write_table(rows, row_group_size=row_group_rows)

    def close(self) -> int:
        """Write the remaining rows and the footer, and close the file. Return the file's size in bytes.

        The file may have no rows.
        """
        self.flush()
        footer = {
            # What parquet-avro writes: Hudi reads the schema of a base file from here.
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
        """Return the write stat of the closed file.

        Args:
            size_bytes: the size of the file, as `close` returned it.
            counts: further fields of the write stat, such as `num_inserts`.
        """
        return WriteStat(
            min_event_time=self._event_times.least_ms,
            max_event_time=self._event_times.greatest_ms,
            file_id=self.file_id,
            partition_path=self.partition_path,
            path=self.path,
            num_writes=self.rows,
            total_write_bytes=size_bytes,
            file_size_in_bytes=size_bytes,
            **counts,  # type: ignore[arg-type]
        )


def open_successor(output: TaskOutput, file_slice: FileSlice) -> BaseFileWriter:
    """Open a writer for a file group's next base file, the one that follows `file_slice`.

    If the slice has a base file, the new file continues its bloom filter where possible. If not, the file begins the file group.
    """
    if file_slice.base_file is None:
        return BaseFileWriter(output, file_slice.partition_path, file_slice.file_id, MarkerType.CREATE)
    old = open_base_file(output.settings.storage, file_slice.base_file.path)
    return BaseFileWriter(output, file_slice.partition_path, file_slice.file_id, MarkerType.MERGE, old=old)


class RollingWriter:
    """Writes rows to new file groups of one partition, one base file each. When a file is full, the next file group begins.

    Args:
        output: the task that the files belong to. It creates the files and their markers.
        file_id: all rows go to this file group, however large its file becomes; None: file ids are generated.
        old: a base file whose rows, and no others, `keep` will add. Where possible, the first new file continues its bloom
            filter. None: the bloom filter is built from all keys.
    """

    def __init__(
        self, output: TaskOutput, partition_path: str, file_id: str | None = None, old: pq.ParquetFile | None = None
    ) -> None:
        self.stats: list[WriteStat] = []
        self._output = output
        self._settings = output.settings
        self._partition_path = partition_path
        self._only_file_id = file_id
        self._old = old
        self._file_id_prefix = output.make_file_id_prefix(partition_path)
        self._files = 0
        self._open: BaseFileWriter | None = None
        #: The mean size of a row in the files so far; None before the first row group is written.
        self._bytes_per_row: float | None = None

    @property
    def waiting_bytes(self) -> int:
        """The memory of the rows of this partition that are not written to a file yet, in bytes."""
        return self._open.waiting_bytes if self._open else 0

    @property
    def next_path(self) -> str:
        """The path of the base file that will be opened next, relative to the table's base path."""
        return self._output.base_file_path(self._partition_path, self._next_file_id)

    @property
    def _next_file_id(self) -> str:
        """The file id of the file group that will be opened next: the writer's `file_id` if set, otherwise a generated one."""
        return self._only_file_id or f"{self._file_id_prefix}-{self._files}"

    def flush(self) -> None:
        """Write the rows that wait in memory to the open file, if one is open."""
        if self._open:
            self._open.flush()

    def write(self, rows: pa.Table, keys: pa.ChunkedArray) -> None:
        """Write new rows in their order. `rows` has the data columns only, `keys` the record key of each row."""
        for writer, start, count in self._split(rows):
            first = self._output.reserve_row_numbers(count)
            writer.add(rows.slice(start, count), keys.slice(start, count), np.arange(first, first + count))

    def keep(self, body: pa.Table) -> None:
        """Write rows that already have commit time, sequence number and record key, in their order.

        Args:
            body: commit time, sequence number and record key, then the data columns.
        """
        for writer, start, count in self._split(body):
            rows = body.slice(start, count)
            self._output.key_changes.add(KeyChange.ADDED, writer.name, rows[KEY_COLUMN])
            writer.keep(rows)

    def _split(self, rows: pa.Table) -> Iterator[tuple[BaseFileWriter, int, int]]:
        """Split rows by file. Yield (writer, start, count): `count` rows from position `start` on go to the writer's file.

        Write these rows before taking the next item, because the size of the file decides where the next rows go.
        """
        start = 0
        while start < rows.num_rows:
            writer = self._open or self._open_next()
            count = min(rows.num_rows - start, self._count_rows_that_fit(writer, rows))
            yield writer, start, count
            start += count
            self._roll_if_full(writer)

    def _open_next(self) -> BaseFileWriter:
        """Open the base file of the next file group, and return its writer."""
        self._open = BaseFileWriter(self._output, self._partition_path, self._next_file_id, MarkerType.CREATE, old=self._old)
        self._old = None
        self._files += 1
        return self._open

    def _count_rows_that_fit(self, writer: BaseFileWriter, rows: pa.Table) -> int:
        """Return how many rows to write before the file's size is checked again: as many as fit, at most a row group."""
        if self._only_file_id:
            return ROW_GROUP_ROWS
        is_first = writer.rows == 0 and self._bytes_per_row is None
        # The size of whole buffers, which a slice has too, is known without a look at each column.
        if is_first and max(rows.num_rows, rows.get_total_buffer_size()) <= self._settings.max_file_bytes:
            return ROW_GROUP_ROWS
        # Before the first row group is written, a row's size in memory is the estimate. It is mostly too large, since memory is
        # not compressed; then the file's size is only checked earlier than necessary.
        in_memory = max(1.0, rows.nbytes / rows.num_rows)
        bytes_per_row = writer.bytes_per_row or self._bytes_per_row or in_memory
        fitting = int(self._settings.max_file_bytes / bytes_per_row) - writer.rows
        return max(1, min(ROW_GROUP_ROWS, fitting))

    def _roll_if_full(self, writer: BaseFileWriter) -> None:
        """Close the writer's file if it is full: it has no room for two more rows. The next rows then begin a new file group.

        A file is never full if all rows must go to one file group (`file_id` of the writer is set).
        """
        if self._only_file_id:
            return
        # The waiting rows would fill the file without compression. Write a row group to learn the compressed size of a row.
        if self._bytes_per_row is None and writer.waiting_bytes >= self._settings.max_file_bytes:
            writer.flush()
        self._bytes_per_row = writer.bytes_per_row or self._bytes_per_row
        bytes_per_row = self._bytes_per_row
        if bytes_per_row and writer.rows * bytes_per_row + 2 * bytes_per_row >= self._settings.max_file_bytes:
            self._finish(writer)

    def _finish(self, writer: BaseFileWriter) -> None:
        """Close the writer's file and append its write stat to `stats`."""
        size = writer.close()
        self.stats.append(writer.stat(size, num_inserts=writer.rows))
        self._open = None

    def close(self) -> list[WriteStat]:
        """Close the open file, if there is one; return the write stats of all files."""
        if self._open:
            self._finish(self._open)
        return self.stats
