"""`LocalStorage`: files of the local file system.

`write_new` writes a temporary file in the same folder, syncs it and links it to the final name. `link` fails if the name is
taken. Therefore exactly one of two concurrent writers succeeds.

Hadoop's local file system writes a checksum file `.<name>.crc` next to every file, and refuses to read a file that does not match
its checksum. So `LocalStorage` deletes the checksum file whenever it replaces, moves or deletes a file.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.clock import new_uuid
from penstock.errors import AlreadyExists, OptionError, StorageError
from penstock.storage.base import FileInfo, Storage, list_by_folders, read_ranges_of_open, split_scheme

#: Above this many files one `os.sync()` is cheaper than an `fsync` per file.
_MOST_FSYNCS = 8
#: Attempts to create a file in a folder that a concurrent process deletes, or to delete a folder that one adds files to.
_ATTEMPTS = 5


def open_local(path: str) -> tuple[Storage, str]:
    """Return (local storage, absolute path) for a path without a scheme or with the scheme `file:`.

    Raises:
        OptionError: the path names a host, as `file://host/folder` does.
    """
    scheme, rest = split_scheme(path)
    if scheme == "file":
        if rest.startswith("//") and not rest.startswith("///"):
            raise OptionError(f"the path {path!r} names a host; write file:///folder for a local folder")
        # The rest is taken literally, as Spark does: %20 is not a space.
        rest = re.sub("^/+", "/", rest)
    return LocalStorage(), os.path.abspath(rest)


@dataclass(frozen=True)
class LocalStorage:
    """A storage for files of this machine, or of a network file system that is mounted on it."""

    def read(self, path: str) -> bytes:
        with _errors_of_reading(path), open(path, "rb") as file:
            return file.read()

    def open(self, path: str) -> pa.NativeFile:
        with _errors_of_reading(path):
            return pa.OSFile(path, "rb")

    def map(self, path: str) -> pa.NativeFile:
        with _errors_of_reading(path):
            return pa.memory_map(path, "rb")

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        return read_ranges_of_open(self.open(path), ranges)

    def create(self, path: str) -> pa.NativeFile:
        with _errors_of_writing(path):
            # Arrow's OSFile cannot create exclusively: it would truncate a file that exists.
            _create_empty_file(path)
            return pa.OSFile(path, "wb")

    def sync(self, paths: Sequence[str]) -> None:
        if len(paths) > _MOST_FSYNCS:
            os.sync()
            return
        # The entry of a new file in its folder is durable only when the folder is synced.
        folders = sorted({os.path.dirname(path) for path in paths})
        for path in [*paths, *folders]:
            with _errors_of_writing(path):
                _fsync(path)

    def write_new(self, path: str, data: bytes) -> None:
        with _errors_of_writing(path), _temporary_file(path, data) as temporary:
            os.link(temporary, path)
            # After the link: if the name is taken, the checksum belongs to the existing file.
            _delete_checksum(path)
            _fsync(os.path.dirname(path))

    def replace(self, path: str, data: bytes) -> None:
        with _errors_of_writing(path), _temporary_file(path, data) as temporary:
            # Before the rename: Hadoop must not check the new content against the old checksum.
            _delete_checksum(path)
            os.replace(temporary, path)
            _fsync(os.path.dirname(path))

    def list(self, path: str) -> list[FileInfo]:
        children = []
        try:
            with _errors_of_reading(path), os.scandir(path) as entries:
                for entry in entries:
                    info = _info_of_entry(entry)
                    if info is not None:
                        children.append(info)
        except FileNotFoundError:
            return []
        return sorted(children, key=lambda info: info.path)

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        return list_by_folders(self, path)

    def stat(self, path: str) -> FileInfo | None:
        try:
            with _errors_of_reading(path):
                return _file_info(path, os.stat(path))
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> bool:
        try:
            with _errors_of_reading(path):
                os.remove(path)
        except FileNotFoundError:
            return False
        _delete_checksum(path)
        return True

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), _errors_of_reading(path):
            _delete_tree(path)

    def remove_empty(self, path: str) -> bool:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def move_tree(self, path: str, to: str) -> None:
        with _errors_of_writing(to):
            # `rename` replaces an existing file or an empty folder without an error.
            if os.path.lexists(to):
                raise FileExistsError(errno.EEXIST, "the folder exists already", to)
            os.rename(path, to)
            _delete_checksum(path)
            _fsync(os.path.dirname(to))

    def make_dirs(self, path: str) -> None:
        with _errors_of_writing(path):
            os.makedirs(path, exist_ok=True)

    def uri(self, path: str) -> str:
        return path


def temporary_folder() -> str:
    """Return the path of this machine's folder for temporary files."""
    return tempfile.gettempdir()


@contextlib.contextmanager
def _errors_of_reading(path: str) -> Iterator[None]:
    """Convert an OSError inside the `with` block: to FileNotFoundError if the file is missing, otherwise to StorageError."""
    try:
        yield
    except (FileNotFoundError, StorageError):
        raise
    except NotADirectoryError as e:  # the path lies below a file
        raise FileNotFoundError(e.errno, e.strerror, path) from e
    except OSError as e:
        raise StorageError(e.errno, e.strerror or str(e), path) from e


@contextlib.contextmanager
def _errors_of_writing(path: str) -> Iterator[None]:
    """Convert an OSError inside the `with` block: to AlreadyExists if the name is taken, otherwise to StorageError."""
    try:
        yield
    except StorageError:
        raise
    except FileExistsError as e:
        raise AlreadyExists(e.errno, "the file exists already", path) from e
    except OSError as e:
        raise StorageError(e.errno, e.strerror or str(e), path) from e


def _create_empty_file(path: str) -> None:
    """Create an empty file, and its folder if missing. Raises FileExistsError if the file exists.

    Tries again if the folder is missing: after this function created the folder, a concurrent process may delete it again while
    it is still empty.
    """
    for attempt in range(_ATTEMPTS):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            return
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
        os.makedirs(os.path.dirname(path), exist_ok=True)


def _delete_tree(path: str) -> None:
    """Delete a folder and everything below it.

    Tries again if the folder is not empty after its files were deleted: a concurrent process may add files to it.
    """
    for attempt in range(_ATTEMPTS):
        with os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # deleted by a concurrent process
                    if entry.is_dir(follow_symlinks=False):
                        _delete_tree(entry.path)
                    else:
                        os.remove(entry.path)
        try:
            os.rmdir(path)
            return
        except OSError as e:
            if e.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                raise


@contextlib.contextmanager
def _temporary_file(path: str, data: bytes) -> Iterator[str]:
    """Write `data` to a temporary file next to `path`, and sync it; yield the temporary path. Delete the file after the block.

    The name begins with a dot and ends in `.tmp`, so that no reader of the timeline takes the file for an instant.
    """
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.{new_uuid()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


def _info_of_entry(entry: os.DirEntry[str]) -> FileInfo | None:
    """Return path, size and modification time of a directory entry; None for a dangling link or a file that was just deleted."""
    try:
        return _file_info(entry.path, entry.stat())
    except FileNotFoundError:
        return None


def _file_info(path: str, status: os.stat_result) -> FileInfo:
    """Return path, size and modification time from a stat result. A folder has size 0."""
    is_dir = stat.S_ISDIR(status.st_mode)
    size_bytes = 0 if is_dir else status.st_size
    return FileInfo(path, size_bytes, status.st_mtime_ns // 1_000_000, is_dir)


def _delete_checksum(path: str) -> None:
    """Delete the checksum file `.<name>.crc` that Hadoop may have written next to a file."""
    folder, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(folder, f".{name}.crc"))


def _fsync(path: str) -> None:
    """Sync a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
