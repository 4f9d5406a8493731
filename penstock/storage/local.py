"""The local file system, durable and atomic.

A published file is written under a temporary name in the same folder, synced, and linked to its final name: `link`
fails if the name is taken, so two writers cannot both win. Hadoop leaves a `.<name>.crc` beside every file it writes
and rejects the file when the two differ, so that whatever changes or removes a file removes that sibling too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.clock import new_uuid
from penstock.errors import AlreadyExists, StorageError
from penstock.storage.base import FileInfo

#: Above this many files one `sync` of everything is cheaper than one per file.
_SYNC_ALL = 8
#: How often something that others undo at the same moment is tried before giving up.
_ATTEMPTS = 5


@dataclass(frozen=True)
class LocalStorage:
    """Files of this machine, or of a network file system mounted here."""

    def read(self, path: str) -> bytes:
        with _reading(path), open(path, "rb") as file:
            return file.read()

    def open(self, path: str) -> pa.NativeFile:
        with _reading(path):
            return pa.OSFile(path, "rb")

    def create(self, path: str) -> pa.NativeFile:
        with _writing(path):
            _create_empty(path)
            return pa.OSFile(path, "wb")

    def map(self, path: str) -> pa.NativeFile:
        with _reading(path):
            return pa.memory_map(path, "rb")

    def sync(self, paths: Sequence[str]) -> None:
        if len(paths) > _SYNC_ALL:
            os.sync()
            return
        for path in [*paths, *sorted({os.path.dirname(p) for p in paths})]:
            with _writing(path):
                _sync_path(path)

    def write_new(self, path: str, data: bytes) -> None:
        with _writing(path), _temporary(path, data) as temporary:
            os.link(temporary, path)
            _drop_crc(path)
            _sync_path(os.path.dirname(path))

    def replace(self, path: str, data: bytes) -> None:
        with _writing(path), _temporary(path, data) as temporary:
            _drop_crc(path)
            os.replace(temporary, path)
            _sync_path(os.path.dirname(path))

    def list(self, path: str) -> list[FileInfo]:
        try:
            with _reading(path), os.scandir(path) as entries:
                found = [info for e in entries if (info := _entry(e)) is not None]
        except FileNotFoundError:
            return []
        return sorted(found, key=lambda f: f.path)

    def stat(self, path: str) -> FileInfo | None:
        try:
            with _reading(path):
                return _info(path, os.stat(path))
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> bool:
        try:
            with _reading(path):
                os.remove(path)
        except FileNotFoundError:
            return False
        _drop_crc(path)
        return True

    def delete_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), _reading(path):
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
        with _writing(to):
            if os.path.lexists(to):
                raise FileExistsError(errno.EEXIST, "the folder exists already", to)
            os.rename(path, to)
            _drop_crc(path)
            _sync_path(os.path.dirname(to))

    def make_dirs(self, path: str) -> None:
        with _writing(path):
            os.makedirs(path, exist_ok=True)


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn the operating system's errors into ours; what is not there is a FileNotFoundError."""
    try:
        yield
    except (FileNotFoundError, StorageError):
        raise
    except NotADirectoryError as e:
        raise FileNotFoundError(e.errno, e.strerror, path) from e
    except OSError as e:
        raise StorageError(e.errno, e.strerror or str(e), path) from e


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    """The same for what creates or changes a file: every failure is ours, a name that is taken has its own error."""
    try:
        yield
    except StorageError:
        raise
    except FileExistsError as e:
        raise AlreadyExists(e.errno, "the file exists already", path) from e
    except OSError as e:
        raise StorageError(e.errno, e.strerror or str(e), path) from e


def _create_empty(path: str) -> None:
    """A new file in a folder that somebody else may be removing because it is empty."""
    for attempt in range(_ATTEMPTS):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            return
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
        os.makedirs(os.path.dirname(path), exist_ok=True)


def _delete_tree(path: str) -> None:
    """Remove a folder although others may still add to it or take from it."""
    for attempt in range(_ATTEMPTS):
        with os.scandir(path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
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
def _temporary(path: str, data: bytes) -> Iterator[str]:
    """A synced file beside `path`; its name is one that no reader of a timeline takes for an instant."""
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


def _entry(entry: os.DirEntry[str]) -> FileInfo | None:
    """An entry of a listing, unless it has vanished since."""
    try:
        return _info(entry.path, entry.stat())
    except FileNotFoundError:
        return None


def _info(path: str, stat: os.stat_result) -> FileInfo:
    is_dir = (stat.st_mode & 0o170000) == 0o040000
    return FileInfo(path, 0 if is_dir else stat.st_size, stat.st_mtime_ns // 1_000_000, is_dir)


def _drop_crc(path: str) -> None:
    folder, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(folder, f".{name}.crc"))


def _sync_path(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporary_folder() -> str:
    """Where this machine keeps files that may go at any time."""
    return tempfile.gettempdir()
