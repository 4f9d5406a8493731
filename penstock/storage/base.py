"""The storage port: the protocol that every storage implements, and functions that work on any storage.

Paths are plain strings: absolute, with `/` between components, without the scheme. `tests/contract/test_storage.py` checks
every implementation against the promises of `Storage`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

# At least two letters, as in Hadoop's paths: C:\folder has no scheme.
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):(.*)$", re.DOTALL)


@dataclass(frozen=True)
class FileInfo:
    """A file or folder as a listing shows it. A folder has size 0."""

    path: str
    size_bytes: int
    modified_ms: int
    is_dir: bool = False

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rsplit("/", 1)[-1]


class Storage(Protocol):
    """The file operations that Penstock needs.

    A storage is a small picklable value: it is sent to Spark workers, and two equal storages serve the same files. Methods may
    be called by many threads and processes at once. Data and metadata are durable when `sync`, `write_new` or `replace`
    returns; a file from `create` is durable only after `sync`.

    Errors: a file to read that does not exist, or whose parent is a file, raises the built-in `FileNotFoundError`. A file name
    that must be new and is taken raises `AlreadyExists`. Every other failure (permissions, disk full, network) raises
    `StorageError`, also in `list` and `stat`: an unreadable folder is never reported as empty.
    """

    def read(self, path: str) -> bytes:
        """Return the whole content of a file: of a file that is being replaced, the old bytes or the new ones.

        Raises FileNotFoundError.
        """

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for random access. Raises FileNotFoundError."""

    def map(self, path: str) -> pa.NativeFile:
        """Open a file for random access without copying, where the storage can.

        Only for files that no other process shortens while they are open: a mapped file that shrinks kills the process.
        Raises FileNotFoundError.
        """

    def create(self, path: str) -> pa.NativeFile:
        """Create a data file and return a stream that writes it. Missing parent folders are created.

        Not atomic: readers may see the file before the stream is closed, and a crash leaves a part of it. Markers name the
        data files of a write for this reason. Raises AlreadyExists and leaves the existing file unchanged.
        """

    def sync(self, paths: Sequence[str]) -> None:
        """Make closed files that `create` wrote survive a power failure."""

    def write_new(self, path: str, data: bytes) -> None:
        """Create a file with this content, atomically and durably. Missing parent folders are created.

        This is how instants are published: of many concurrent calls with one path exactly one succeeds, and readers see the
        whole file or none. Raises AlreadyExists if the path is taken, and then changes nothing.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Write a file with this content over an existing one or as a new one, atomically and durably.

        Readers see the old content or the new content. Missing parent folders are created.
        """

    def list(self, path: str) -> list[FileInfo]:
        """Return the direct children of a folder, sorted by path. Returns an empty list if there is no folder at the path.

        Every file that exists during the whole call is in the list, whatever other processes create or delete. Files that
        appear or vanish during the call may be in it or not.
        """

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a file or folder, or None if there is none."""

    def delete(self, path: str) -> bool:
        """Delete a file. Return False if there was none."""

    def delete_tree(self, path: str) -> None:
        """Delete a folder and everything below it, also while other processes delete in it. Links are not followed.

        Not atomic. Does nothing if there is no folder at the path.
        """

    def remove_empty(self, path: str) -> bool:
        """Delete a folder if it is empty. Return whether there is no such folder afterwards."""

    def move_tree(self, path: str, to: str) -> None:
        """Rename a file, or a folder with everything below it.

        The rename is atomic, the check that `to` is free need not be: callers must not race for one target. Raises
        AlreadyExists if `to` exists and changes nothing; raises StorageError if `path` does not exist.
        """

    def make_dirs(self, path: str) -> None:
        """Create a folder and its parents, where the storage has folders. Does nothing if the folder exists."""


def split_scheme(path: str) -> tuple[str, str]:
    """Split a path into its scheme in lower case ("" if it has none) and what follows the colon."""
    match = _SCHEME.match(path)
    if match is None:
        return "", path
    return match[1].lower(), match[2]


def walk(storage: Storage, path: str) -> Iterable[FileInfo]:
    """Yield every file below a folder, depth first. Folders are not yielded."""
    for entry in storage.list(path):
        if entry.is_dir:
            yield from walk(storage, entry.path)
        else:
            yield entry


def join(*parts: str) -> str:
    """Join path components with `/`. Empty components (the partition path of a non-partitioned table) are left out."""
    head, *tail = (part for part in parts if part)
    return "/".join([head.rstrip("/"), *(part.strip("/") for part in tail)]) or "/"
