"""Which keys a write brings into a file, and which it takes out: written down by tasks, for an index that has to be told.

A task writes the keys beside the staged rows, a file of them for each data file, under that file's name. What an attempt that
lost wrote down carries the name of a file that no write stat has, so it counts for nothing. The folder goes with the markers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

import pyarrow as pa

from penstock.filegroup.markers import work_folder
from penstock.storage import Storage, join

_SCHEMA = pa.schema([("key", pa.string())])


class KeyChange(str, Enum):
    """What happened to the keys."""

    ADDED = "added"
    REMOVED = "removed"


class KeyChangeWriter:
    """What one task writes down; nothing, where there is no folder for it."""

    def __init__(self, storage: Storage, folder: str | None) -> None:
        self._storage, self._folder = storage, folder
        self._open: dict[tuple[KeyChange, str], tuple[pa.NativeFile, pa.ipc.RecordBatchFileWriter]] = {}

    def add(self, note: KeyChange, file: str, keys: pa.ChunkedArray) -> None:
        """Note keys of a data file, which goes by its name."""
        if self._folder is None or len(keys) == 0:
            return
        if (note, file) not in self._open:
            sink = self._storage.create(_path(self._folder, note, file))
            self._open[note, file] = sink, pa.ipc.new_file(sink, _SCHEMA)
        self._open[note, file][1].write_table(pa.table([keys.cast(pa.string())], schema=_SCHEMA))

    def close(self) -> None:
        """Finish what is open."""
        for sink, writer in self._open.values():
            writer.close()
            sink.close()
        self._open = {}


def key_changes_folder(base_path: str, instant: str) -> str:
    """Where the tasks of a write note keys."""
    return join(work_folder(base_path, instant), "keys")


def find_key_changes(storage: Storage, folder: str, note: KeyChange, files: Sequence[str]) -> dict[str, str]:
    """From the names of data files to what was noted of them, as far as anything was."""
    there = {info.name for info in storage.list(folder)}
    paths = {file: _path(folder, note, file) for file in files}
    return {file: path for file, path in paths.items() if path.rpartition("/")[2] in there}


def read_changed_keys(storage: Storage, path: str) -> Iterator[pa.Array]:
    """The keys, in parts."""
    reader = pa.ipc.open_file(storage.map(path))
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number).column("key")


def _path(folder: str, note: KeyChange, file: str) -> str:
    return join(folder, f"{file}.{note.value}")
