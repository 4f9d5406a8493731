"""Which keys a write adds to a data file and removes from it: recorded by its tasks, for an index that keeps entries of its own.

A task writes the keys to a folder next to the staged rows, one file for each data file and kind of change, under the data file's
name. The keys of an attempt that lost have the name of a data file that no write stat names, so they are never read. The folder
is deleted with the markers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

import pyarrow as pa

from penstock.filegroup.markers import work_folder
from penstock.storage import Storage, join

_SCHEMA = pa.schema([("key", pa.string())])


class KeyChange(str, Enum):
    """What happened to keys of a data file."""

    ADDED = "added"
    REMOVED = "removed"


class KeyChangeWriter:
    """Records the key changes of one task.

    Args:
        folder: where to; None: no index asks for key changes, and nothing is written.
    """

    def __init__(self, storage: Storage, folder: str | None) -> None:
        self._storage = storage
        self._folder = folder
        self._open: dict[tuple[KeyChange, str], tuple[pa.NativeFile, pa.ipc.RecordBatchFileWriter]] = {}

    def add(self, change: KeyChange, file_name: str, keys: pa.ChunkedArray) -> None:
        """Record keys that were added to or removed from a data file."""
        if self._folder is None or len(keys) == 0:
            return
        if (change, file_name) not in self._open:
            sink = self._storage.create(_path(self._folder, change, file_name))
            self._open[change, file_name] = sink, pa.ipc.new_file(sink, _SCHEMA)
        _, writer = self._open[change, file_name]
        writer.write_table(pa.table([keys.cast(pa.string())], schema=_SCHEMA))

    def close(self) -> None:
        """Finish the open files."""
        for sink, writer in self._open.values():
            writer.close()
            sink.close()
        self._open = {}


def key_changes_folder(base_path: str, instant: str) -> str:
    """Return the folder of a write's key changes."""
    return join(work_folder(base_path, instant), "keys")


def find_key_changes(storage: Storage, folder: str, change: KeyChange, file_names: Sequence[str]) -> dict[str, str]:
    """Return the files of key changes by the names of data files, without data files that have none."""
    listed = {info.name for info in storage.list(folder)}
    return {name: _path(folder, change, name) for name in file_names if _name(change, name) in listed}


def read_changed_keys(storage: Storage, path: str) -> Iterator[pa.Array]:
    """Yield the keys in a file of key changes, in parts."""
    reader = pa.ipc.open_file(storage.map(path))
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number).column("key")


def _path(folder: str, change: KeyChange, file_name: str) -> str:
    return join(folder, _name(change, file_name))


def _name(change: KeyChange, file_name: str) -> str:
    return f"{file_name}.{change.value}"
