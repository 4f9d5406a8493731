"""`TaskOutput`: creates the files of one task of a write: data files with their markers, partition metafiles and key changes.

Base files (`base_write.py`) and log files (`log/write.py`) are created through a `TaskOutput`, on the driver and in Spark's
workers. It ensures that every data file has a marker before it exists. When a write finishes or is rolled back, the driver seals
it: tasks of the write may create no more files. If a task creates a file later, the task deletes it again.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock import clock
from penstock.errors import AlreadyExists, StorageError
from penstock.filegroup.fill_meta_columns import sequence_numbers
from penstock.filegroup.key_changes import KeyChangeWriter
from penstock.filegroup.key_footer import BloomSettings
from penstock.filegroup.markers import Marker, MarkerStyle, MarkerType, announce, check_open
from penstock.filegroup.names import PARTITION_METAFILE, base_file_name, is_whole_metafile, mark_token, partition_metafile
from penstock.formats.properties import java_date
from penstock.storage import Storage, has_whole_files, join
from penstock.workers.part_scope import sync_files


@dataclass(frozen=True)
class FileSettings:
    """Settings of the data files of one write, the same for all of its tasks. Pickled to the workers.

    `schema` has the data columns, `avro_schema` the same columns after the meta columns, as JSON. `event_time` is the column
    whose least and greatest value go into write stats, `key_changes_folder` the folder in which tasks record the keys that they
    add and remove. Each is None if nothing is to be recorded.
    """

    storage: Storage
    base_path: str
    instant: str
    #: The data columns as they are stored.
    schema: pa.Schema
    #: The same columns with meta columns in front, as Avro JSON.
    avro_schema: str
    codec: str = "gzip"
    bloom: BloomSettings | None = field(default_factory=BloomSettings)
    populate_meta: bool = True
    max_file_bytes: int = 120 * 1024 * 1024
    markers: MarkerStyle = MarkerStyle.DIRECT
    #: The event time column. Its least and greatest value among incoming rows that replace or delete stored rows go into write
    #: stats; None: no event times.
    event_time: str | None = None
    #: Where tasks record which keys they add and remove, for an index that keeps entries of its own; None: nowhere.
    key_changes_folder: str | None = None
    #: The number of the first task. Greater than 0 if the write keeps files of an earlier attempt: sequence numbers in them hold
    #: smaller numbers.
    first_task: int = 0
    #: The seed of the ids of new file groups. Every run of the write's tasks has another one.
    file_id_seed: str = field(default_factory=clock.new_uuid)


class TaskOutput:
    """Creates the files of one task, numbers the task's rows, and counts the memory of its unwritten rows.

    Args:
        task: the number of the task.
        write_token: the task and its attempt, `<task>-<stage>-<attempt>`, as file names contain it.
    """

    def __init__(self, settings: FileSettings, task: int, write_token: str) -> None:
        self.settings = settings
        self.task = task
        self.write_token = write_token
        #: Memory that rows not yet written take, in all open files together.
        self.waiting_bytes = 0
        self.key_changes = KeyChangeWriter(settings.storage, settings.key_changes_folder)
        self._next_row = 0
        self._next_key = 0
        #: How many prefixes of file ids were made for each partition path.
        self._prefixes: Counter[str] = Counter()
        self._announced: set[str] = set()
        self._announcements = 0
        self._created: list[str] = []
        self._metafiles: list[str] = []
        #: Metafiles that this task has created, or found.
        self._ensured: set[str] = set()
        #: Metafiles that another task was writing, with what this task would have written.
        self._foreign_metafiles: dict[str, bytes] = {}

    def base_file_path(self, partition_path: str, file_id: str) -> str:
        """Return the path of the base file that this task writes for a file group, relative to the table's base path."""
        name = base_file_name(file_id, mark_token(self.write_token, self.settings.instant), self.settings.instant)
        return join(partition_path, name) if partition_path else name

    def reserve_row_numbers(self, count: int) -> int:
        """Reserve the next `count` row numbers of this task, for sequence numbers; return the first reserved number."""
        first = self._next_row
        self._next_row += count
        return first

    def make_keys(self, count: int) -> pa.ChunkedArray:
        """Generate `count` new record keys, `<instant>_<task>_<number>`, for rows without a record key."""
        numbers = np.arange(self._next_key, self._next_key + count)
        self._next_key += count
        return pa.chunked_array([sequence_numbers(self.settings.instant, self.task, numbers)])

    def make_file_id_prefix(self, partition_path: str) -> str:
        """Return a new prefix for the ids of new file groups in a partition. Another attempt of this task gets the same ones.

        An attempt may have stood still, and put a file on an object store after the commit. A file group that has this file too
        has two base files with the same rows, of which readers take one. In a file group of its own the rows would be read twice.
        """
        self._prefixes[partition_path] += 1
        stage = self.write_token.split("-")[1]
        name = f"{self.task}-{stage}-{self._prefixes[partition_path]}-{partition_path}"
        return clock.derive_uuid(self.settings.file_id_seed, name)

    def announce(self, file_paths: Sequence[str], kind: MarkerType) -> None:
        """Write the markers of data files, all at once, before the files are created.

        Args:
            file_paths: paths below the table's base path.
            kind: what the task is about to do with the files.

        Raises:
            StorageError: the write was committed or undone without this task, so the task may create no more files.
        """
        if not file_paths:
            return
        settings = self.settings
        markers = [Marker(path, kind) for path in file_paths]
        announce(
            settings.storage, settings.base_path, settings.instant, markers, settings.markers, self.task, self._announcements
        )
        self._announced.update(file_paths)
        self._announcements += 1

    def create(self, file_path: str, kind: MarkerType) -> pa.NativeFile:
        """Create a data file and open it for writing. The file's marker is written first, unless `announce` wrote it.

        Args:
            file_path: the path below the table's base path.
            kind: what the task is about to do with the file.

        Raises:
            StorageError: the write was committed or undone without this task. The file was deleted again.
        """
        if file_path not in self._announced:
            self.announce([file_path], kind)
        storage = self.settings.storage
        if kind is not MarkerType.MERGE or not has_whole_files(storage):  # the partition of a base file that is there is whole
            self._ensure_partition(file_path.rpartition("/")[0], may_exist=kind is MarkerType.APPEND)
        path = join(self.settings.base_path, file_path)
        self._created.append(path)
        file = storage.create(path)
        if not has_whole_files(storage):  # otherwise the file appears later, and `finish` checks
            self._remove_if_sealed()
        return file

    def _remove_if_sealed(self) -> None:
        """Check whether the driver has sealed the write (no more files allowed). If so, delete this task's files and raise.

        Call this after a file was created. Either this check finds that the write is sealed; or the driver seals it later, finds
        the file by its marker, and deletes it.

        Raises:
            StorageError: the write is sealed.
        """
        try:
            self._check_open()
        except StorageError:
            self._remove()
            raise

    def _check_open(self) -> None:
        """Raise StorageError if the driver has sealed the write, so that its tasks may create no more files."""
        check_open(self.settings.storage, self.settings.base_path, self.settings.instant)

    def _remove(self) -> None:
        """Delete the files that this task has created."""
        for path in self._created:
            self.settings.storage.delete(path)

    def _ensure_partition(self, partition_path: str, *, may_exist: bool) -> None:
        """Write the metafile that makes a folder a partition, unless the folder has a complete metafile.

        A metafile that a dead writer wrote only in part is replaced.

        Args:
            may_exist: whether the folder may have a metafile already. If false, and the table is on an object store, the
                metafile is created without looking for it first, which saves a request. A metafile that exists all the same is
                kept.
        """
        storage = self.settings.storage
        path = join(self.settings.base_path, partition_path, PARTITION_METAFILE)
        if path in self._ensured:
            return
        self._ensured.add(path)
        stored: bytes | None = None
        if may_exist or not has_whole_files(storage):
            with contextlib.suppress(FileNotFoundError):
                stored = storage.read(path)
        if stored is not None and is_whole_metafile(stored):
            return
        content = partition_metafile(self.settings.instant, partition_path, java_date(clock.utc_now()))
        if stored is not None:
            storage.replace(path, content)
            return
        try:
            with storage.create(path) as file:
                file.write(content)
            self._metafiles.append(path)
        except AlreadyExists:
            if not has_whole_files(storage):
                self._foreign_metafiles[path] = content

    def finish(self) -> None:
        """Sync this task's closed files to disk, and complete partition metafiles that another task wrote only in part.

        If one Spark task runs many tasks of the write, the files of all of them are synced together at the end of the Spark task.

        Raises:
            StorageError: the write was committed or undone without this task. The files were deleted again.
        """
        storage = self.settings.storage
        # Another task created the metafile while this one was about to. It may have died before it wrote the content.
        for path, content in self._foreign_metafiles.items():
            if not is_whole_metafile(storage.read(path)):
                storage.replace(path, content)
        self.key_changes.close()
        paths = [*self._metafiles, *self._created]
        sync_files(storage, paths, check_name=self.settings.instant, check=self._check_open, undo=self._remove)
