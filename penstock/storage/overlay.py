"""`OverlayStorage`: a storage with some files added and some hidden. It shows a table as it would be after a commit."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.errors import StorageError
from penstock.storage.base import FileInfo, Storage


@dataclass(frozen=True)
class OverlayStorage:
    """The files of another storage, with some files added and some hidden. It is read-only, and is pickled to workers."""

    inner: Storage
    #: (path, content) of each added file.
    added: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    #: The paths of the hidden files.
    hidden: frozenset[str] = frozenset()

    def read(self, path: str) -> bytes:
        content = self._find_added(path)
        self._check_visible(path)
        return self.inner.read(path) if content is None else content

    def open(self, path: str) -> pa.NativeFile:
        content = self._find_added(path)
        self._check_visible(path)
        return self.inner.open(path) if content is None else pa.BufferReader(content)

    def map(self, path: str) -> pa.NativeFile:
        content = self._find_added(path)
        self._check_visible(path)
        return self.inner.map(path) if content is None else pa.BufferReader(content)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        content = self._find_added(path)
        self._check_visible(path)
        if content is None:
            return self.inner.read_ranges(path, ranges)
        return [content[offset : offset + length] for offset, length in ranges]

    def list(self, path: str) -> builtins.list[FileInfo]:
        added = [_describe(name, content) for name, content in self.added if name.rpartition("/")[0] == path.rstrip("/")]
        left_out = self.hidden | {file.path for file in added}
        files = [file for file in self.inner.list(path) if file.path not in left_out]
        return sorted(files + added, key=lambda file: file.path)

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        below = path.rstrip("/") + "/"
        added = [_describe(name, content) for name, content in self.added if name.startswith(below)]
        left_out = self.hidden | {file.path for file in added}
        return [*(file for file in self.inner.list_tree(path) if file.path not in left_out), *added]

    def stat(self, path: str) -> FileInfo | None:
        content = self._find_added(path)
        if content is not None:
            return _describe(path, content)
        return None if path in self.hidden else self.inner.stat(path)

    def create(self, path: str) -> pa.NativeFile:
        raise self._read_only(path)

    def sync(self, paths: Sequence[str]) -> None:
        raise self._read_only(", ".join(paths))

    def write_new(self, path: str, data: bytes) -> None:
        raise self._read_only(path)

    def replace(self, path: str, data: bytes) -> None:
        raise self._read_only(path)

    def delete(self, path: str) -> bool:
        raise self._read_only(path)

    def delete_files(self, paths: Sequence[str]) -> None:
        raise self._read_only(", ".join(paths))

    def delete_tree(self, path: str) -> None:
        raise self._read_only(path)

    def remove_empty(self, path: str) -> bool:
        raise self._read_only(path)

    def move_tree(self, path: str, to: str) -> None:
        raise self._read_only(path)

    def make_dirs(self, path: str) -> None:
        raise self._read_only(path)

    def uri(self, path: str) -> str:
        return self.inner.uri(path)

    def _find_added(self, path: str) -> bytes | None:
        """Return the content of the added file at a path; None if no file was added there."""
        return dict(self.added).get(path)

    def _check_visible(self, path: str) -> None:
        """Raise FileNotFoundError if the file is hidden."""
        if path in self.hidden:
            raise FileNotFoundError(path)

    @staticmethod
    def _read_only(path: str) -> StorageError:
        """Return the error of a call that would change a file."""
        return StorageError(f"{path} cannot be changed: the storage is a preview of a commit")


def _describe(path: str, content: bytes) -> FileInfo:
    """Return an added file as a listing shows it."""
    return FileInfo(path, len(content), 0)
