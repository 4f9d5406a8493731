"""Port: where a table's files live.

Paths are plain strings, absolute, with `/` between components; a storage takes the spelling its own scheme has.
What every implementation promises (and `tests/contract/test_storage.py` holds each of them to):

- `write_new` makes the whole file visible at once, durably, or not at all; if the name is taken it raises
  `AlreadyExists` and changes nothing. It is the commit primitive.
- `list` gives every file that is there all the time while it runs, whatever others create or remove beside it.
- `replace` swaps a file's content in one step: a reader sees the old bytes or the new ones.
- `create` streams a data file. A file that was not closed may be there in part; markers exist for that.
- A storage is a small picklable value, so that it can travel to Spark's workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class FileInfo:
    """One entry of a listing."""

    path: str
    size_bytes: int
    modified_ms: int
    is_dir: bool = False

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rsplit("/", 1)[-1]


class Storage(Protocol):
    """What the rest of Penstock needs of a file system."""

    def read(self, path: str) -> bytes:
        """The whole content. Raises FileNotFoundError."""

    def open(self, path: str) -> pa.NativeFile:
        """Random access to a data file, for Parquet. Raises FileNotFoundError."""

    def create(self, path: str) -> pa.NativeFile:
        """A stream that writes a new data file; folders above it are made. Raises AlreadyExists."""

    def map(self, path: str) -> pa.NativeFile:
        """Random access without copying where the storage can; for files that only we write. Raises FileNotFoundError."""

    def sync(self, paths: Sequence[str]) -> None:
        """Make data files that were created and closed survive a power failure."""

    def write_new(self, path: str, data: bytes) -> None:
        """Publish a new file, whole and durable. Raises AlreadyExists if the name is taken."""

    def replace(self, path: str, data: bytes) -> None:
        """Publish a file in place of an older one, or as a new one."""

    def list(self, path: str) -> list[FileInfo]:
        """The direct children of a folder, sorted by name; empty if there is no such folder."""

    def stat(self, path: str) -> FileInfo | None:
        """One entry, or None."""

    def delete(self, path: str) -> bool:
        """Remove a file. False if it was not there."""

    def delete_tree(self, path: str) -> None:
        """Remove a folder and everything below it; nothing happens if it is not there."""

    def remove_empty(self, path: str) -> bool:
        """Remove a folder that has nothing in it; whether it is gone."""

    def move_tree(self, path: str, to: str) -> None:
        """Rename a file, or a folder with everything below it, in one step. Raises AlreadyExists if `to` is taken."""

    def make_dirs(self, path: str) -> None:
        """Make a folder and those above it, where the storage knows folders."""


def walk(storage: Storage, path: str) -> Iterable[FileInfo]:
    """Every file below a folder, depth first."""
    for entry in storage.list(path):
        if entry.is_dir:
            yield from walk(storage, entry.path)
        else:
            yield entry


def join(*parts: str) -> str:
    """Join path components; empty ones (the path of a non-partitioned table) vanish."""
    head, *tail = (p for p in parts if p)
    return "/".join([head.rstrip("/") or "", *(p.strip("/") for p in tail)]) or "/"
