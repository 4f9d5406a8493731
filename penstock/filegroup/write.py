"""Writing base files: rows in, one or several base files out, each announced first; gives write stats.

Works on the driver and in Spark's workers alike. Memory is one row group per open file, whatever the number of rows.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock import clock
from penstock.errors import AlreadyExists
from penstock.filegroup.markers import MarkerType, check_open, create_marker
from penstock.filegroup.names import PARTITION_METAFILE, base_file_name, partition_metafile
from penstock.formats.parquet import ROW_GROUP_ROWS, BloomSettings, KeyFooter, open_writer
from penstock.schema import META_COLUMNS
from penstock.storage import Storage, join
from penstock.timeline.contents import WriteStat

KEY_COLUMN = "_hoodie_record_key"
FILE_NAME_COLUMN = "_hoodie_file_name"


@dataclass(frozen=True)
class FileSettings:
    """How a table's base files are written; the same for every task of a write."""

    storage: Storage
    base_path: str
    instant: str
    avro_schema: str
    codec: str = "gzip"
    bloom: BloomSettings | None = field(default_factory=BloomSettings)
    populate_meta: bool = True
    max_file_bytes: int = 120 * 1024 * 1024


class Output:
    """What one task writes: who it is, how far its row numbers are, and the files it has made."""

    def __init__(self, settings: FileSettings, task: int, write_token: str) -> None:
        self.settings, self.task, self.write_token = settings, task, write_token
        self._rows = 0
        self._keys = 0
        self._made: list[str] = []

    def take_rows(self, count: int) -> int:
        """Reserve row numbers; gives the first."""
        first = self._rows
        self._rows += count
        return first

    def make_keys(self, count: int) -> pa.ChunkedArray:
        """Record keys for rows that have none: `<instant>_<task>_<row>`."""
        keys = sequence_numbers(self.settings.instant, self.task, self._keys, count)
        self._keys += count
        return pa.chunked_array([keys])

    def create(self, file_path: str, kind: MarkerType) -> pa.NativeFile:
        """Announce a data file (path relative to the table), then open it."""
        s = self.settings
        self._ensure_partition(file_path.rpartition("/")[0])
        create_marker(s.storage, s.base_path, s.instant, file_path, kind)
        self._made.append(join(s.base_path, file_path))
        return s.storage.create(self._made[-1])

    def _ensure_partition(self, partition_path: str) -> None:
        """Make the folder a partition of the table, once."""
        storage, path = self.settings.storage, join(self.settings.base_path, partition_path, PARTITION_METAFILE)
        if storage.stat(path) is not None:
            return
        date = clock.utc_now().strftime("%a %b %d %H:%M:%S UTC %Y")
        with contextlib.suppress(AlreadyExists), storage.create(path) as file:
            file.write(partition_metafile(self.settings.instant, partition_path, date))
            self._made.append(path)

    def finish(self) -> None:
        """Make what was written durable, unless the write was finished without this task."""
        s = self.settings
        s.storage.sync(self._made)
        check_open(s.storage, s.base_path, s.instant)


class BaseFileWriter:
    """One base file. Rows come with their meta columns; they are cut into row groups as they arrive."""

    def __init__(self, output: Output, partition_path: str, file_id: str, kind: MarkerType) -> None:
        settings = output.settings
        self.settings, self.partition_path, self.file_id = settings, partition_path, file_id
        self.name = base_file_name(file_id, output.write_token, settings.instant)
        self.path = join(partition_path, self.name) if partition_path else self.name
        self.rows = 0
        self._footer = KeyFooter(settings.bloom if settings.populate_meta else None)
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._parquet: pq.ParquetWriter | None = None
        self._sink = output.create(self.path, kind)

    @property
    def waiting_bytes(self) -> int:
        """Memory that rows not yet written take."""
        return sum(t.nbytes for t in self._waiting)

    @property
    def written_bytes(self) -> int:
        """Bytes of the file so far."""
        return int(self._sink.tell())

    @property
    def bytes_per_row(self) -> float | None:
        """What a row of this file takes, once some are written."""
        written = self.rows - self._waiting_rows
        return self.written_bytes / written if written else None

    def write(self, rows: pa.Table, new_keys: pa.ChunkedArray | None = None) -> None:
        """Add rows; `new_keys` are the keys to enter in the footer, all of them if not given."""
        if rows.num_rows == 0:
            return
        if self.settings.populate_meta:
            self._footer.add(rows[KEY_COLUMN] if new_keys is None else new_keys)
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the rows at hand as row groups."""
        if not self._waiting:
            return
        rows = self._waiting[0] if len(self._waiting) == 1 else pa.concat_tables(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        if self._parquet is None:
            self._parquet = open_writer(self._sink, rows, self.settings.codec)
        self._parquet.write_table(rows, row_group_size=ROW_GROUP_ROWS)

    def close(self, empty: pa.Schema) -> int:
        """Finish the file (one without rows gets the schema `empty`) and give its size."""
        self.flush()
        if self._parquet is None:
            self._parquet = open_writer(self._sink, empty.empty_table(), self.settings.codec)
        footer = {"parquet.avro.schema": self.settings.avro_schema, "writer.model.name": "avro", **self._footer.metadata()}
        self._parquet.add_key_value_metadata(footer)
        self._parquet.close()
        size = self.written_bytes
        self._sink.close()
        return size

    def stat(self, size_bytes: int, **counts: int | str) -> WriteStat:
        """The write stat of the finished file."""
        return WriteStat(
            file_id=self.file_id,
            partition_path=self.partition_path,
            path=self.path,
            num_writes=self.rows,
            total_write_bytes=size_bytes,
            file_size_in_bytes=size_bytes,
            **counts,  # type: ignore[arg-type]
        )


class GroupWriter:
    """New file groups of one partition: a base file each, the next one opened when a file is full."""

    def __init__(self, output: Output, partition_path: str) -> None:
        self._output, self._settings, self._partition = output, output.settings, partition_path
        self._prefix, self._files = clock.new_uuid(), 0
        self._open: BaseFileWriter | None = None
        self._schema: pa.Schema | None = None
        self._bytes_per_row: float | None = None
        self.stats: list[WriteStat] = []

    @property
    def waiting_bytes(self) -> int:
        """Memory that rows not yet written take."""
        return self._open.waiting_bytes if self._open else 0

    def flush(self) -> None:
        """Write the rows at hand."""
        if self._open:
            self._open.flush()

    def write(self, rows: pa.Table, keys: pa.ChunkedArray) -> None:
        """Add rows without meta columns, in arrival order."""
        start = 0
        while start < rows.num_rows:
            writer = self._open or self._next()
            count = min(rows.num_rows - start, self._room(writer))
            part = add_meta_columns(
                rows.slice(start, count),
                keys.slice(start, count),
                instant=self._settings.instant,
                task=self._output.task,
                first_row=self._output.take_rows(count),
                partition_path=self._partition,
                file_name=writer.name,
                populate=self._settings.populate_meta,
            )
            self._schema = part.schema
            writer.write(part)
            start += count
            self._roll_if_full(writer)

    def _next(self) -> BaseFileWriter:
        file_id = f"{self._prefix}-{self._files}"
        self._files += 1
        self._open = BaseFileWriter(self._output, self._partition, file_id, MarkerType.CREATE)
        return self._open

    def _room(self, writer: BaseFileWriter) -> int:
        """Rows until the next look at the file's size: a row group, or what still fits."""
        per_row = writer.bytes_per_row or self._bytes_per_row
        if not per_row:
            return ROW_GROUP_ROWS
        fits = int((self._settings.max_file_bytes - writer.written_bytes) / per_row)
        return max(1, min(ROW_GROUP_ROWS, fits))

    def _roll_if_full(self, writer: BaseFileWriter) -> None:
        self._bytes_per_row = writer.bytes_per_row or self._bytes_per_row
        per_row = self._bytes_per_row
        if per_row and writer.rows * per_row + 2 * per_row >= self._settings.max_file_bytes:
            self._finish(writer)

    def _finish(self, writer: BaseFileWriter) -> None:
        assert self._schema is not None
        size = writer.close(self._schema)
        self.stats.append(writer.stat(size, num_inserts=writer.rows))
        self._open = None

    def close(self) -> list[WriteStat]:
        """Finish the open file; gives the stats of all."""
        if self._open:
            self._finish(self._open)
        return self.stats


def add_meta_columns(
    rows: pa.Table,
    keys: pa.ChunkedArray,
    *,
    instant: str,
    task: int,
    first_row: int,
    partition_path: str,
    file_name: str,
    populate: bool = True,
) -> pa.Table:
    """Rows with the five meta columns in front; nulls where the table does not populate them."""
    count = rows.num_rows
    if populate:
        meta: list[pa.Array | pa.ChunkedArray] = [
            constant(instant, count),
            sequence_numbers(instant, task, first_row, count),
            keys,
            constant(partition_path, count),
            constant(file_name, count),
        ]
    else:
        meta = [pa.nulls(count, pa.string())] * len(META_COLUMNS)
    return pa.table([*meta, *rows.columns], names=[*META_COLUMNS, *rows.column_names])


def constant(text: str, count: int) -> pa.Array:
    """One text for every row, as a dictionary of one: cheap to hold and to encode."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def sequence_numbers(instant: str, task: int, first_row: int, count: int) -> pa.Array:
    """`<instant>_<task>_<row>` for consecutive rows."""
    numbers = pc.cast(pa.array(np.arange(first_row, first_row + count)), pa.string())
    return pc.binary_join_element_wise(pa.scalar(f"{instant}_{task}_"), numbers, pa.scalar(""))
