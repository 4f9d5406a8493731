"""The storage port: the protocol that every storage implements, and functions that work on any storage.

Paths are plain strings: absolute, with `/` between components, without the scheme. `tests/contract/test_storage.py` checks
every implementation against the promises of `Storage`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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

    Errors: methods that read a file raise the built-in `FileNotFoundError` if the file does not exist, or if its parent is a
    file. Methods that need a new file name raise `AlreadyExists` if the name is taken. Every other failure (permissions, disk
    full, network) raises `StorageError`, also in `list` and `stat`: an unreadable folder is never reported as empty.
    """

    def read(self, path: str) -> bytes:
        """Return the whole content of a file. During a concurrent `replace` this is the old or the new content, never a mix.

        Raises FileNotFoundError.
        """

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reading, with random access. Raises FileNotFoundError."""

    def map(self, path: str) -> pa.NativeFile:
        """Open a file for reading as a memory map; if the storage has no memory maps, open it for reading with random access.

        Only for files that no other process truncates while they are open: reading past the end of a mapped file kills this
        process. Raises FileNotFoundError.
        """

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of several ranges of a file, each (first byte, number of bytes), in the order of the ranges.

        An object store fetches ranges that lie close together with one request, and the others concurrently. A range that ends
        after the end of the file is cut there. Raises FileNotFoundError.
        """

    def create(self, path: str) -> pa.NativeFile:
        """Create a data file and return a stream that writes it. Missing parent folders are created.

        Not atomic: readers may see the file before the stream is closed, and a crash leaves a partial file. For this reason a
        write creates a marker before each data file. Raises AlreadyExists if the path is taken; the file there is unchanged.

        On an object store the file appears as a whole when the stream is closed, and a taken path may raise AlreadyExists only
        then. If a `with` block of the stream ends with an error, the upload is aborted and no file appears.
        """

    def sync(self, paths: Sequence[str]) -> None:
        """Make files durable that `create` created and that are closed: afterwards they survive a power failure."""

    def write_new(self, path: str, data: bytes) -> None:
        """Create a file with this content, atomically and durably. Missing parent folders are created.

        Instants are published with this method. Of several concurrent calls with the same path exactly one succeeds. Readers see
        the whole file or no file. Raises AlreadyExists if the path is taken; the file there is unchanged.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Replace the content of a file, or create the file, atomically and durably.

        Readers see the old content or the new content. Missing parent folders are created.
        """

    def list(self, path: str) -> list[FileInfo]:
        """Return the files and folders directly in a folder, sorted by path; an empty list if there is no folder at the path.

        The list contains every file that exists during the whole call. It may or may not contain files that other processes
        create or delete during the call.
        """

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        """Return all files below a folder, at any depth, without the folders; nothing if there is no folder at the path.

        An object store answers with one recursive listing. Other storages list folder by folder.
        """

    def stat(self, path: str) -> FileInfo | None:
        """Return path, size and modification time of a file or folder; None if there is neither at the path."""

    def delete(self, path: str) -> bool:
        """Delete a file. Return True if the file existed, False if there was no file at the path."""

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete several files. Files that do not exist are ignored. An object store deletes up to 1,000 files per request."""

    def delete_tree(self, path: str) -> None:
        """Delete a folder and everything below it. Links are deleted, not followed.

        Not atomic. Other processes may delete files in the folder at the same time. Does nothing if there is no folder.
        """

    def remove_empty(self, path: str) -> bool:
        """Delete a folder if it is empty. Return True if the folder does not exist afterwards, False if it still exists."""

    def move_tree(self, path: str, to: str) -> None:
        """Rename a file, or a folder with everything below it.

        The rename itself is atomic, except on object stores: they cannot rename, so every file is copied and then deleted, and a
        crash between these steps leaves files at both places. Another process may create `to` between the check and the rename,
        so concurrent calls must not have the same `to`. Raises AlreadyExists, and moves nothing, if `to` exists. Raises
        StorageError if `path` does not exist.
        """

    def make_dirs(self, path: str) -> None:
        """Create a folder and its parents. Does nothing if the folder exists, or if the storage has no folders of its own."""

    def uri(self, path: str) -> str:
        """Return the path as Spark and other engines take it: with the scheme that the user wrote, and bucket or host."""


def split_scheme(path: str) -> tuple[str, str]:
    """Split a path into (scheme in lower case, path after the colon); `("", path)` if the path has no scheme."""
    match = _SCHEME.match(path)
    if match is None:
        return "", path
    return match[1].lower(), match[2]


def walk(storage: Storage, path: str) -> Iterable[FileInfo]:
    """Return all files below a folder, at any depth. Folders are not returned."""
    return storage.list_tree(path)


def list_by_folders(storage: Storage, path: str) -> Iterator[FileInfo]:
    """Yield all files below a folder, folder by folder. A storage without a recursive listing uses it for `list_tree`."""
    for entry in storage.list(path):
        if entry.is_dir:
            yield from list_by_folders(storage, entry.path)
        else:
            yield entry


def read_ranges_of_open(source: pa.NativeFile, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """Return the bytes of several ranges of an open file, each (first byte, number of bytes), and close the file.

    A storage whose reads are cheap uses it for `read_ranges`.
    """
    with source:
        return [source.read_at(size, offset) for offset, size in ranges]


def is_file(storage: Storage, path: str) -> bool:
    """Whether there is a file, not a folder, at the path."""
    found = storage.stat(path)
    return found is not None and not found.is_dir


def join(*parts: str) -> str:
    """Join path components with `/`. Empty components (the partition path of a non-partitioned table) are left out."""
    head, *tail = filter(None, parts)
    return "/".join([head.rstrip("/"), *[part.strip("/") for part in tail]]) or "/"
