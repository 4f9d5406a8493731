"""`MemoryStorage`: files in the memory of this process, for tests that need no disk.

Storages of the same name share their files. Therefore a pickled copy in the same process reads the same table.
"""

from __future__ import annotations

import builtins
import errno
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.clock import now_ms
from penstock.errors import AlreadyExists, StorageError
from penstock.storage.base import FileInfo, Storage, list_by_folders, read_ranges_of_open, split_scheme

#: Name of the storage → path → content and modification time.
_FILES: dict[str, dict[str, tuple[bytes, int]]] = {}
_LOCK = threading.Lock()


def open_memory(path: str) -> tuple[Storage, str]:
    """Return (memory storage named "default", path without the scheme `memory:`)."""
    _, rest = split_scheme(path)
    return MemoryStorage(), "/" + rest.strip("/")


@dataclass(frozen=True)
class MemoryStorage:
    """A storage that keeps files in the memory of this process. A folder exists as long as there is a file below it."""

    name: str = "default"

    @property
    def _files(self) -> dict[str, tuple[bytes, int]]:
        """The files of all `MemoryStorage` objects of this name: path → (content, modification time)."""
        return _FILES.setdefault(self.name, {})

    def read(self, path: str) -> bytes:
        try:
            return self._files[path][0]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None

    def open(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        return read_ranges_of_open(self.open(path), ranges)

    def create(self, path: str) -> pa.NativeFile:
        self.write_new(path, b"")
        return pa.PythonFile(_Sink(self, path), mode="w")

    def map(self, path: str) -> pa.NativeFile:
        return self.open(path)

    def sync(self, paths: Sequence[str]) -> None:
        pass

    def write_new(self, path: str, data: bytes) -> None:
        with _LOCK:
            if path in self._files:
                raise AlreadyExists(errno.EEXIST, "the file exists already", path)
            self._files[path] = (data, now_ms())

    def replace(self, path: str, data: bytes) -> None:
        with _LOCK:
            self._files[path] = (data, now_ms())

    def list(self, path: str) -> list[FileInfo]:
        prefix = path.rstrip("/") + "/"
        children: dict[str, FileInfo] = {}
        for file_path, (data, modified_ms) in list(self._files.items()):
            if not file_path.startswith(prefix):
                continue
            name, slash, _ = file_path[len(prefix) :].partition("/")
            is_dir = bool(slash)
            children[name] = FileInfo(prefix + name, 0 if is_dir else len(data), modified_ms, is_dir)
        return [children[name] for name in sorted(children)]

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        return list_by_folders(self, path)

    def stat(self, path: str) -> FileInfo | None:
        if path in self._files:
            data, modified_ms = self._files[path]
            return FileInfo(path, len(data), modified_ms)
        children = self.list(path)
        if not children:
            return None
        return FileInfo(path, 0, max(child.modified_ms for child in children), is_dir=True)

    def delete(self, path: str) -> bool:
        with _LOCK:
            return self._files.pop(path, None) is not None

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, path: str) -> None:
        with _LOCK:
            for file_path in self._paths_below(path):
                del self._files[file_path]

    def remove_empty(self, path: str) -> bool:
        return self.stat(path) is None

    def move_tree(self, path: str, to: str) -> None:
        old_prefix = path.rstrip("/") + "/"
        new_prefix = to.rstrip("/") + "/"
        with _LOCK:
            if to in self._files or self._paths_below(to):
                raise AlreadyExists(errno.EEXIST, "the folder exists already", to)
            if path in self._files:
                self._files[to] = self._files.pop(path)
                return
            moved = self._paths_below(path)
            if not moved:
                raise StorageError(errno.ENOENT, "no such folder", path)
            for file_path in moved:
                self._files[new_prefix + file_path[len(old_prefix) :]] = self._files.pop(file_path)

    def make_dirs(self, path: str) -> None:
        pass

    def uri(self, path: str) -> str:
        return path

    def _paths_below(self, folder: str) -> builtins.list[str]:
        """Return the paths of all files below a folder."""
        prefix = folder.rstrip("/") + "/"
        return [file_path for file_path in self._files if file_path.startswith(prefix)]


class _Sink:
    """The stream that `MemoryStorage.create` returns. Written bytes become visible when the stream is flushed or closed."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._content = bytearray()
        self.closed = False

    def write(self, data: bytes) -> int:
        self._content += data
        return len(data)

    def tell(self) -> int:
        return len(self._content)

    def flush(self) -> None:
        self._storage.replace(self._path, bytes(self._content))

    def close(self) -> None:
        self.flush()
        self.closed = True
