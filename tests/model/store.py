"""A storage in memory for the model: each call that another process can notice is a step of the schedule."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.errors import AlreadyExists, StorageError
from penstock.storage import FileInfo, MemoryStorage
from penstock.storage.base import list_by_folders
from tests.model.schedule import Run

#: Files that one process alone reads and writes while it lives.
_PRIVATE = ("/.hoodie/.temp/", "/.hoodie_partition_metadata")


@dataclass(frozen=True)
class ModelStorage(MemoryStorage):
    """A memory storage that asks a run before each call. Its clock stands still, until the test sets it.

    Args:
        weak_put: whether `write_new` does not hold what it promises: it looks for the file and then replaces it.
    """

    weak_put: bool = False
    runs: list[Run] = field(default_factory=list, compare=False)
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict, compare=False)
    #: One number for all files: the exclusive or of the hashes of path and content.
    sums: list[int] = field(default_factory=lambda: [0], compare=False)
    #: The clock of the storage, in milliseconds.
    clock_ms: list[int] = field(default_factory=lambda: [0], compare=False)
    #: Called after each change, with the path.
    watchers: list[object] = field(default_factory=list, compare=False)

    @property
    def _files(self) -> dict[str, tuple[bytes, int]]:
        return self.files

    def _before(self, call: str, path: str) -> None:
        if self.runs:
            self.runs[-1].before_call(f"{call} {path}", is_step=not any(private in path for private in _PRIVATE))

    def _after(self, call: str, path: str, result: object) -> None:
        if self.runs:
            self.runs[-1].after_call(f"{call} {path}", result)

    def _put(self, path: str, data: bytes | None) -> None:
        """Set or delete a file, and keep the sum."""
        old = self.files.pop(path, None)
        if old is not None:
            self.sums[0] ^= hash((path, old[0]))
        if data is not None:
            self.files[path] = (data, self.clock_ms[0])
            self.sums[0] ^= hash((path, data))
        for watcher in self.watchers:
            watcher(path)  # type: ignore[operator]
        if self.runs:
            self.runs[-1].after_change()

    def read(self, path: str) -> bytes:
        self._before("read", path)
        found = self.files.get(path)
        self._after("read", path, found)
        return super().read(path)

    def open(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def write_new(self, path: str, data: bytes) -> None:
        self._before("write_new", path)
        exists = path in self.files
        if self.weak_put and not exists:
            self._before("put", path)
        self._after("write_new", path, exists)
        if exists:
            raise AlreadyExists(17, "the file exists already", path)
        self._put(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._before("replace", path)
        self._put(path, data)

    def list(self, path: str) -> list[FileInfo]:
        self._before("list", path)
        found = super().list(path)
        self._after("list", path, tuple(found))
        return found

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        return list_by_folders(self, path)

    def stat(self, path: str) -> FileInfo | None:
        self._before("stat", path)
        data = self.files.get(path)
        folder = None if data is not None or not self._paths_below(path) else FileInfo(path, 0, 0, is_dir=True)
        found = FileInfo(path, len(data[0]), data[1]) if data is not None else folder
        self._after("stat", path, found)
        return found

    def delete(self, path: str) -> bool:
        self._before("delete", path)
        existed = path in self.files
        self._after("delete", path, existed)
        if existed:
            self._put(path, None)
        return existed

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, path: str) -> None:
        self._before("delete_tree", path)
        for file_path in self._paths_below(path):
            self._put(file_path, None)

    def move_tree(self, path: str, to: str) -> None:
        self._before("move_tree", path)
        moved = self._paths_below(path)
        self._after("move_tree", path, len(moved))
        if self._paths_below(to):
            raise AlreadyExists(17, "the folder exists already", to)
        if not moved:
            raise StorageError(2, "no such folder", path)
        for file_path in moved:
            data = self.files[file_path][0]
            self._put(file_path, None)
            self._put(to + file_path[len(path) :], data)

    def remove_empty(self, path: str) -> bool:
        return not self._paths_below(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        content = self.read(path)
        return [content[start : start + size] for start, size in ranges]
