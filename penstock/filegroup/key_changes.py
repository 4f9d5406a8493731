"""Key changes: the record keys that a write adds to or removes from each data file.

Only an index that stores an entry per key outside the table, such as HBase, needs them: it updates its entries from them. A task
writes the keys to the write's temporary folder: one Arrow file for each data file and kind of change, for example
`<data file>.added`. If a task is retried, the files of the failed attempt are never read, because no write stat names its data
files. The folder is deleted with the markers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

import pyarrow as pa

from penstock.filegroup.markers import work_folder
from penstock.storage import Storage, join, open_arrow_file, write_batch

_SCHEMA = pa.schema([("key", pa.string())])


class KeyChange(str, Enum):
    """Whether a write added record keys to a data file, or removed keys from it."""

    ADDED = "added"
    REMOVED = "removed"


class KeyChangeWriter:
    """Writes the key changes of one task: files with the record keys that the task adds to or removes from each data file.

    An index that stores an entry per key reads the files to update its entries.

    Args:
        folder: the folder to write the key change files to; None: no index asks for key changes, and nothing is written.
    """

    def __init__(self, storage: Storage, folder: str | None) -> None:
        self._storage = storage
        self._folder = folder
        self._open: dict[tuple[KeyChange, str], tuple[pa.NativeFile, pa.ipc.RecordBatchFileWriter]] = {}

    def add(self, change: KeyChange, file_name: str, keys: pa.ChunkedArray) -> None:
        """Record that the task adds these keys to a data file, or removes them from it.

        Args:
            change: whether the keys are added or removed.
            file_name: the name of the data file.
        """
        if self._folder is None or len(keys) == 0:
            return
        if (change, file_name) not in self._open:
            sink = self._storage.create(_path(self._folder, change, file_name))
            self._open[change, file_name] = sink, pa.ipc.new_file(sink, _SCHEMA)
        _, writer = self._open[change, file_name]
        for batch in pa.table([keys.cast(pa.string())], schema=_SCHEMA).to_batches():
            write_batch(self._storage, writer, batch)

    def close(self) -> None:
        """Close all open key change files."""
        for sink, writer in self._open.values():
            writer.close()
            sink.close()
        self._open = {}


def key_changes_folder(base_path: str, instant: str) -> str:
    """Return the path of the folder for the key change files of the write at `instant`."""
    return join(work_folder(base_path, instant), "keys")


def find_key_changes(storage: Storage, folder: str, change: KeyChange, file_names: Sequence[str]) -> dict[str, str]:
    """Find the key change files of data files. Returns data file name → path of its key change file.

    Data files without key changes are left out.

    Args:
        folder: the folder of the write's key changes.
        change: whether to find added or removed keys.
        file_names: names of data files.
    """
    listed = {info.name for info in storage.list(folder)}
    return {name: _path(folder, change, name) for name in file_names if _name(change, name) in listed}


def read_changed_keys(storage: Storage, path: str) -> Iterator[pa.Array]:
    """Yield the record keys in one key change file, one array per record batch."""
    reader = open_arrow_file(storage, path)
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number).column("key")


def _path(folder: str, change: KeyChange, file_name: str) -> str:
    """Return the path of the key change file of a data file: the file that lists the keys added to it, or removed from it.

    Args:
        folder: the folder of the write's key changes.
        file_name: the name of the data file.
    """
    return join(folder, _name(change, file_name))


def _name(change: KeyChange, file_name: str) -> str:
    """Return the name of the key change file of a data file: the file that lists the keys added to it, or removed from it.

    Args:
        file_name: the name of the data file.
    """
    return f"{file_name}.{change.value}"
