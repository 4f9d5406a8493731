"""What one task of a write makes: data files, each announced by a marker first, the partitions they lie in, and key changes.

Base files (`base_write.py`) and log files (`log/write.py`) are created through it, on the driver and in Spark's workers alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock import clock
from penstock.errors import AlreadyExists, StorageError
from penstock.filegroup.key_changes import KeyChangeWriter
from penstock.filegroup.markers import Marker, MarkerStyle, MarkerType, announce, check_open
from penstock.filegroup.meta_columns import sequence_numbers
from penstock.filegroup.names import PARTITION_METAFILE, base_file_name, is_whole_metafile, partition_metafile
from penstock.formats.parquet import BloomSettings
from penstock.storage import Storage, join


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
    key_changes_folder: str | None = None


class TaskOutput:
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
        self.notes = KeyChangeWriter(settings.storage, settings.key_changes_folder)
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
        return pa.chunked_array([sequence_numbers(self.settings.instant, self.task, numbers)])

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
