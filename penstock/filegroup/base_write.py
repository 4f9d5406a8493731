"""Writing base files: rows in, one or several base files out, each announced first; gives write stats.

Works on the driver and in Spark's workers alike. Memory is one row group per open file, whatever the number of rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from penstock import clock
from penstock.errors import AlreadyExists, StorageError
from penstock.filegroup.key_log import KeyNotes, Note
from penstock.filegroup.markers import Marker, MarkerStyle, MarkerType, announce, check_open
from penstock.filegroup.meta_columns import KEY_COLUMN, numbered, placed, stamped, unstamped, with_meta
from penstock.filegroup.names import PARTITION_METAFILE, base_file_name, is_whole_metafile, partition_metafile
from penstock.formats.parquet import ROW_GROUP_ROWS, BloomSettings, KeyFooter, footer_of, open_writer
from penstock.merge.kernels.event_time import EventTimes, event_times
from penstock.schema import META_COLUMNS
from penstock.storage import Storage, join
from penstock.timeline.commit_file import WriteStat


@dataclass(frozen=True)
class FileSettings:
    """How a table's base files are written; the same for every task of a write."""

    storage: Storage
    base_path: str
    instant: str
    #: The data columns as they are stored, and the same with meta columns as Avro JSON.
    schema: pa.Schema
    avro_schema: str
    codec: str = "gzip"
    bloom: BloomSettings | None = field(default_factory=BloomSettings)
    populate_meta: bool = True
    max_file_bytes: int = 120 * 1024 * 1024
    markers: MarkerStyle = MarkerStyle.DIRECT
    #: The column whose least and greatest value go into write stats, of rows that meet older ones; None: none do.
    event_time: str | None = None
    #: Where tasks note which keys they add and remove, for an index that has to be told; None: nowhere.
    notes_folder: str | None = None


@contextlib.contextmanager
def failing_as_storage(path: str) -> Iterator[None]:
    """Errors of the operating system while a file is written (a full disk, a limit) as ours."""
    try:
        yield
    except StorageError:
        raise
    except OSError as e:
        raise StorageError(e.errno, e.strerror or str(e), path) from e


class Output:
    """What one task writes: who it is, how far its row numbers are, and the files it has made."""

    def __init__(self, settings: FileSettings, task: int, write_token: str) -> None:
        self.settings, self.task, self.write_token = settings, task, write_token
        self._rows = 0
        self._keys = 0
        self._announced: set[str] = set()
        self._turns = 0
        self._made: list[str] = []
        self._metafiles: list[str] = []
        self._others: dict[str, bytes] = {}
        self.notes = KeyNotes(settings.storage, settings.notes_folder)
        #: Memory that rows not yet written take, in all open files together.
        self.waiting_bytes = 0

    def path_of(self, partition_path: str, file_id: str) -> str:
        """Where this task writes the base file of a file group, relative to the table."""
        name = base_file_name(file_id, self.write_token, self.settings.instant)
        return join(partition_path, name) if partition_path else name

    def take_rows(self, count: int) -> int:
        """Reserve row numbers; gives the first."""
        first = self._rows
        self._rows += count
        return first

    def make_keys(self, count: int) -> pa.ChunkedArray:
        """Record keys for rows that have none: `<instant>_<task>_<row>`."""
        numbers = np.arange(self._keys, self._keys + count)
        self._keys += count
        return pa.chunked_array([numbered(self.settings.instant, self.task, numbers)])

    def announce(self, file_paths: Sequence[str], kind: MarkerType) -> None:
        """Announce data files (paths relative to the table) that will be created soon, all at once.

        Raises:
            StorageError: the write was finished without this task.
        """
        if not file_paths:
            return
        s = self.settings
        announced = [Marker(path, kind) for path in file_paths]
        announce(s.storage, s.base_path, s.instant, announced, s.markers, self.task, self._turns)
        self._announced.update(file_paths)
        self._turns += 1

    def create(self, file_path: str, kind: MarkerType) -> pa.NativeFile:
        """Announce a data file (path relative to the table) if that was not done yet, then open it.

        Raises:
            StorageError: the write was finished without this task; the file is not there.
        """
        s = self.settings
        if file_path not in self._announced:
            self.announce([file_path], kind)
        self._ensure_partition(file_path.rpartition("/")[0])
        self._made.append(join(s.base_path, file_path))
        file = s.storage.create(self._made[-1])
        self._check_wanted()
        return file

    def _check_wanted(self) -> None:
        """Remove what this task made if the write was sealed meanwhile: who sealed it may have looked before it was there."""
        s = self.settings
        try:
            check_open(s.storage, s.base_path, s.instant)
        except StorageError:
            for path in self._made:
                s.storage.delete(path)
            raise

    def _ensure_partition(self, partition_path: str) -> None:
        """Make the folder a partition of the table, once. A metafile that is not whole was left by a writer that died."""
        storage, path = self.settings.storage, join(self.settings.base_path, partition_path, PARTITION_METAFILE)
        found: bytes | None = None
        with contextlib.suppress(FileNotFoundError):
            found = storage.read(path)
        if found is not None and is_whole_metafile(found):
            return
        date = clock.utc_now().strftime("%a %b %d %H:%M:%S UTC %Y")
        content = partition_metafile(self.settings.instant, partition_path, date)
        if found is not None:
            storage.replace(path, content)
            return
        try:
            with storage.create(path) as file:
                file.write(content)
            self._metafiles.append(path)
        except AlreadyExists:
            self._others[path] = content

    def finish(self) -> None:
        """Make what was written durable, unless the write was finished without this task."""
        storage = self.settings.storage
        for path, content in self._others.items():  # another task was about to write it; it may have died
            if not is_whole_metafile(storage.read(path)):
                storage.replace(path, content)
        self.notes.close()
        storage.sync([*self._metafiles, *self._made])
        self._check_wanted()


class BaseFileWriter:
    """One base file. Rows come with their meta columns; they are cut into row groups as they arrive."""

    def __init__(
        self, output: Output, partition_path: str, file_id: str, kind: MarkerType, old: pq.ParquetFile | None = None
    ) -> None:
        settings = output.settings
        self.settings, self.partition_path, self.file_id = settings, partition_path, file_id
        self.path = output.path_of(partition_path, file_id)
        self.name = self.path.rpartition("/")[2]
        self.rows = 0
        self._output = output
        self._task = output.task
        self._times = EventTimes()
        bloom = settings.bloom if settings.populate_meta else None
        self._footer = KeyFooter(bloom, footer_of(old), old.metadata.num_rows) if old else KeyFooter(bloom)
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
        return stamped(rows, keys, instant=self.settings.instant, task=self._task, numbers=numbers)

    def add(self, rows: pa.Table, keys: pa.ChunkedArray, numbers: npt.NDArray[np.int64]) -> None:
        """Write new rows, data columns only; `numbers` count them for their sequence numbers."""
        self._output.notes.add(Note.ADDED, self.name, keys)
        if self.settings.populate_meta:
            self._footer.add(keys)
            self._write(placed(self.stamp(rows, keys, numbers), self.partition_path, self.name))
        else:
            self._write(unstamped(rows))

    def keep(self, body: pa.Table, *, new: bool = False) -> None:
        """Write rows of the old version of this file, changed or not; they carry their own meta columns.

        Args:
            new: whether their keys were not in that version.
        """
        if not self.settings.populate_meta:
            self._write(unstamped(body.drop_columns(list(META_COLUMNS[:3]))))
            return
        (self._footer.add if new else self._footer.keep)(body[KEY_COLUMN])
        self._write(placed(body, self.partition_path, self.name))

    def note_times(self, rows: pa.Table) -> None:
        """Take note of the event times of rows that replace or delete old ones."""
        if self.settings.event_time is not None:
            self._times = self._times.with_more(event_times(rows, self.settings.event_time))

    def note_removed(self, keys: pa.ChunkedArray) -> None:
        """Say that rows of the old version, or such as an index takes for them, are gone for good."""
        self._output.notes.add(Note.REMOVED, self.name, keys)

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
        with failing_as_storage(self.path):
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
        with failing_as_storage(self.path):
            if self._parquet is None:
                self._parquet = open_writer(self._sink, with_meta(self.settings.schema).empty_table(), self.settings.codec)
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


class GroupWriter:
    """New file groups of one partition: a base file each, the next one opened when a file is full.

    Args:
        file_id: all rows go to this file group, however large it becomes.
        old: a file whose rows `keep` brings, all of them and no others: the first file goes on with its key filter.
    """

    def __init__(
        self, output: Output, partition_path: str, file_id: str | None = None, old: pq.ParquetFile | None = None
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
            self._output.notes.add(Note.ADDED, writer.name, rows[KEY_COLUMN])
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
