"""Files in this process's memory: for tests of everything that needs a storage and no disk.

Instances with one name share their files, so that a pickled copy in the same process sees the same table.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.clock import now_ms
from penstock.errors import AlreadyExists, StorageError
from penstock.storage.base import FileInfo

_FILES: dict[str, dict[str, tuple[bytes, int]]] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True)
class MemoryStorage:
    """A flat map of path to bytes; folders exist as far as files do."""

    name: str = "default"

    @property
    def _files(self) -> dict[str, tuple[bytes, int]]:
        return _FILES.setdefault(self.name, {})

    def read(self, path: str) -> bytes:
        try:
            return self._files[path][0]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None

    def open(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

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
        found: dict[str, FileInfo] = {}
        for name, (data, modified) in list(self._files.items()):
            if name.startswith(prefix):
                head, *rest = name[len(prefix) :].split("/", 1)
                found[head] = FileInfo(prefix + head, 0 if rest else len(data), modified, bool(rest))
        return [found[k] for k in sorted(found)]

    def stat(self, path: str) -> FileInfo | None:
        if path in self._files:
            data, modified = self._files[path]
            return FileInfo(path, len(data), modified)
        children = self.list(path)
        return FileInfo(path, 0, max(c.modified_ms for c in children), True) if children else None

    def delete(self, path: str) -> bool:
        with _LOCK:
            return self._files.pop(path, None) is not None

    def delete_tree(self, path: str) -> None:
        with _LOCK:
            for name in [n for n in self._files if n.startswith(path.rstrip("/") + "/")]:
                del self._files[name]

    def remove_empty(self, path: str) -> bool:
        return self.stat(path) is None

    def move_tree(self, path: str, to: str) -> None:
        old, new = path.rstrip("/") + "/", to.rstrip("/") + "/"
        with _LOCK:
            if any(name == to or name.startswith(new) for name in self._files):
                raise AlreadyExists(errno.EEXIST, "the folder exists already", to)
            if path in self._files:
                self._files[to] = self._files.pop(path)
                return
            moved = [name for name in self._files if name.startswith(old)]
            if not moved:
                raise StorageError(errno.ENOENT, "no such folder", path)
            for name in moved:
                self._files[new + name[len(old) :]] = self._files.pop(name)

    def make_dirs(self, path: str) -> None:
        pass


class _Sink:
    """Collects a stream; what was written so far is visible, as on a disk."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        self._storage, self._path, self._chunks = storage, path, bytearray()
        self.closed = False

    def write(self, data: bytes) -> int:
        self._chunks += data
        return len(data)

    def tell(self) -> int:
        return len(self._chunks)

    def flush(self) -> None:
        self._storage.replace(self._path, bytes(self._chunks))

    def close(self) -> None:
        self.flush()
        self.closed = True
