"""`HdfsStorage`: files of HDFS, through hdfs-native, without a JVM.

`write_new` writes a temporary file next to the final one and renames it without overwriting. HDFS could also create the final
file without overwriting. But HDFS shows a file as soon as it is created: readers would see it before its content, and a writer
that dies would leave a part of it. The rename is one operation of the name node, under its lock, and is in its edit log when it
returns. Before the rename `hsync` makes the data nodes write the content to disk. If the name node does not answer the rename,
the storage looks for the temporary file, whose name is unique: if it is gone, the rename was done.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from penstock.clock import new_uuid
from penstock.errors import AlreadyExists, CommitUnknown, PenstockError, StorageError, Unsupported
from penstock.storage.base import FileInfo
from penstock.storage.object_store_streams import writable_file
from penstock.storage.range_reader import TAIL_BYTES, RangeReader
from penstock.storage.settings import Found

T = TypeVar("T")

_lock = threading.Lock()
_clients: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
_first_user: list[int] = []

#: Names of the name node's exceptions → what to do.
_FIXES = {
    "SafeModeException": "the name node is in safe mode; wait until it has left it (hdfs dfsadmin -safemode get)",
    "NSQuotaExceededException": "the folder's quota of names is reached; raise it (hdfs dfsadmin -setQuota), or delete files",
    "DSQuotaExceededException": "the folder's quota of space is reached; raise it (hdfs dfsadmin -setSpaceQuota)",
    "QuotaByStorageTypeExceededException": "the folder's quota of a storage type is reached; raise it, or delete files",
    "StandbyException": "the name node is in standby; name the name service instead of one node (dfs.nameservices)",
    "AccessControlException": "no permission; grant it, or set HADOOP_USER_NAME or log in with kinit",
}


@dataclass(frozen=True)
class HdfsStorage:
    """A storage for the files of one HDFS.

    Attributes:
        url: `hdfs://` and the host and port of the name node, or the name service; empty: the default of `HADOOP_CONF_DIR`.
        config: Hadoop's settings for the client, as (key, value).
        found: the settings that were found, each with its place, for messages.
    """

    url: str
    config: tuple[tuple[str, str], ...] = ()
    found: tuple[Found, ...] = field(default=(), compare=False, repr=False)

    @property
    def _client(self) -> Any:
        return _client_of(self.url, self.config)

    def uri(self, path: str) -> str:
        return f"{self.url or 'hdfs://'}{path}"

    # --- reading

    def read(self, path: str) -> bytes:
        with self._errors(path):
            reader = self._client.read(path)
            return bytes(reader.read_range(0, len(reader)))

    def open(self, path: str) -> pa.NativeFile:
        with self._errors(path):
            reader = self._client.read(path)
            size = len(reader)
            start = max(0, size - TAIL_BYTES)
            tail = bytes(reader.read_range(start, size - start))

        def fetch(start: int, end: int) -> bytes:
            with self._errors(path):
                return bytes(reader.read_range(start, end - start))

        return pa.PythonFile(RangeReader(tail, size, fetch), mode="r")

    def map(self, path: str) -> pa.NativeFile:
        return self.open(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        with self._errors(path):
            reader = self._client.read(path)
            file_size = len(reader)
            parts = []
            for offset, size in ranges:
                part_size = max(0, min(size, file_size - offset))
                parts.append(bytes(reader.read_range(offset, part_size)) if part_size else b"")
            return parts

    # --- writing

    def create(self, path: str) -> pa.NativeFile:
        with self._errors(path, writing=True):
            return writable_file(_NewFile(self, path, self._create(path)))

    def _create(self, path: str) -> Any:
        from hdfs_native import WriteOptions

        return self._client.create(path, WriteOptions(overwrite=False, create_parent=True))

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: a stream from `create` makes the file durable when it is closed."""

    def write_new(self, path: str, data: bytes) -> None:
        with self._temporary_file(path, data) as temporary:
            self._publish(temporary, path, overwrite=False)

    def replace(self, path: str, data: bytes) -> None:
        with self._temporary_file(path, data) as temporary:
            self._publish(temporary, path, overwrite=True)

    @contextlib.contextmanager
    def _temporary_file(self, path: str, data: bytes) -> Iterator[str]:
        """Write `data` to a temporary file next to `path`, and yield its path. Delete it if the `with` block raises."""
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{new_uuid()}.tmp"
        try:
            with self._errors(path, writing=True):
                writer = self._create(temporary)
                if data:
                    writer.write(data)
                    writer.hsync()
                writer.close()
            yield temporary
        except BaseException:
            with contextlib.suppress(Exception):
                self._client.delete(temporary, False)
            raise

    def _publish(self, temporary: str, path: str, *, overwrite: bool) -> None:
        """Rename the temporary file to `path`. If the rename fails without a clear answer, find out whether it was done.

        Raises:
            AlreadyExists: `path` is taken.
            CommitUnknown: the name node answered neither the rename nor the question whether it was done.
        """
        try:
            with self._errors(path):
                self._client.rename(temporary, path, overwrite)
            return
        except AlreadyExists:
            if not self._was_renamed(temporary, path):  # the client repeats calls: the name may be taken by the first attempt
                raise
        except StorageError:
            if not self._was_renamed(temporary, path):
                raise

    def _was_renamed(self, temporary: str, path: str) -> bool:
        """Whether a rename that failed was done nevertheless: the temporary file is gone and a file is at `path`.

        Raises:
            CommitUnknown: the name node does not answer.
        """
        try:
            return self.stat(temporary) is None and self.stat(path) is not None
        except StorageError as e:
            reason = str(e)
        raise CommitUnknown(
            f"{self.uri(path)} may have been created or not: the name node does not answer ({reason}); look at the timeline "
            "before you delete anything or write again"
        )

    # --- looking

    def list(self, path: str) -> builtins.list[FileInfo]:
        children = [_info(status) for status in self._statuses(path, recursive=False)]
        return sorted((info for info in children if info.path != path), key=lambda info: info.path)

    def list_tree(self, path: str) -> Iterable[FileInfo]:
        found = [_info(status) for status in self._statuses(path, recursive=True)]
        return [info for info in found if not info.is_dir and info.path != path]

    def _statuses(self, path: str, *, recursive: bool) -> builtins.list[Any]:
        """Return hdfs-native's status of each entry below a folder; an empty list if there is no folder."""
        try:
            with self._errors(path):
                return list(self._client.list_status(path, recursive))
        except FileNotFoundError:
            return []

    def stat(self, path: str) -> FileInfo | None:
        try:
            with self._errors(path):
                return _info(self._client.get_file_info(path), path)
        except FileNotFoundError:
            return None

    # --- removing

    def delete(self, path: str) -> bool:
        found = self.stat(path)
        if found is None or found.is_dir:
            return False
        with self._errors(path):
            return bool(self._client.delete(path, False))

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, path: str) -> None:
        found = self.stat(path)
        if found is not None and found.is_dir:
            with self._errors(path):
                self._client.delete(path, True)

    def remove_empty(self, path: str) -> bool:
        if self.stat(path) is None:
            return True
        if self.list(path):
            return False
        try:
            self._client.delete(path, False)
        except OSError:  # another process added a file
            return False
        return True

    def move_tree(self, path: str, to: str) -> None:
        if self.stat(to) is not None:
            raise AlreadyExists(errno.EEXIST, "the folder exists already", self.uri(to))
        try:
            with self._errors(path):
                self._client.mkdirs(to.rpartition("/")[0] or "/", 0o755, True)
                self._client.rename(path, to, False)
        except FileNotFoundError:
            raise StorageError(errno.ENOENT, "no such folder", self.uri(path)) from None

    def make_dirs(self, path: str) -> None:
        with self._errors(path, writing=True):
            self._client.mkdirs(path, 0o755, True)

    @contextlib.contextmanager
    def _errors(self, path: str, *, writing: bool = False) -> Iterator[None]:
        """Convert errors of hdfs-native inside the `with` block to FileNotFoundError, AlreadyExists or StorageError.

        Args:
            path: the file or folder that the errors name.
            writing: whether the block writes. Then a missing parent folder, or a parent that is a file, is a StorageError instead
                of a FileNotFoundError.
        """
        try:
            yield
        except PenstockError:
            raise
        except FileNotFoundError as e:
            kind = StorageError if writing else FileNotFoundError
            raise kind(errno.ENOENT, "no such file or folder", self.uri(path)) from e
        except FileExistsError as e:
            raise AlreadyExists(errno.EEXIST, "the file exists already", self.uri(path)) from e
        except (OSError, RuntimeError, ValueError) as e:
            if isinstance(e, NotADirectoryError) or "is not a directory" in str(e) or "NotDirectory" in str(e):
                kind = StorageError if writing else FileNotFoundError
                raise kind(errno.ENOTDIR, "the path is below a file", self.uri(path)) from e
            raise StorageError(getattr(e, "errno", None) or errno.EIO, _explain(str(e), self.url), self.uri(path)) from e


class _NewFile:
    """A file that is being written to HDFS. `create` returns an Arrow stream over it. The file is durable once it is closed."""

    def __init__(self, storage: HdfsStorage, path: str, writer: Any) -> None:
        self._storage = storage
        self._path = path
        self._writer = writer
        self._written = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Append bytes to the file. Return how many."""
        self._try(lambda: self._writer.write(data))
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._written

    def flush(self) -> None:
        """Do nothing: `close` makes the file durable."""

    def writable(self) -> bool:
        """Whether the file can be written: always."""
        return True

    def close(self) -> None:
        """Write the rest to the disks of the data nodes, and complete the file."""
        if self.closed:
            return
        self.closed = True
        if self._written:
            self._try(self._writer.hsync)
        self._try(self._writer.close)

    def abort(self) -> None:
        """Delete the file."""
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(Exception):
            self._storage.delete(self._path)

    def _try(self, action: Callable[[], T]) -> T:
        with self._storage._errors(self._path):
            return action()


def _client_of(url: str, config: tuple[tuple[str, str], ...]) -> Any:
    """Return this process's client for one HDFS.

    Like obstore, hdfs-native does not work in a process that was forked after its first use.

    Raises:
        Unsupported: hdfs-native is not installed.
        StorageError: this process was forked from one that had used HDFS, or the settings name no HDFS.
    """
    hdfs_native = import_hdfs_native()
    with _lock:
        if _first_user and _first_user[0] != os.getpid():
            raise StorageError(
                "this process was forked from one that had used HDFS already, which hdfs-native does not support; start "
                'processes with multiprocessing.get_context("spawn")'
            )
        key = (url, config)
        if key not in _clients:
            try:
                _clients[key] = hdfs_native.Client(url or None, dict(config))
            except Exception as e:
                raise StorageError(errno.EINVAL, _explain(str(e), url), url) from e
            _first_user[:] = [os.getpid()]
        return _clients[key]


def import_hdfs_native() -> Any:
    """Return the module hdfs_native.

    Raises:
        Unsupported: hdfs-native is not installed.
    """
    try:
        import hdfs_native
    except ImportError:
        raise Unsupported("tables on HDFS need the package hdfs-native; run: pip install 'penstock[hdfs]'") from None
    return hdfs_native


def _explain(text: str, url: str) -> str:
    """Return a sentence for an error of hdfs-native: what is wrong and how to repair it.

    If the cause is not known, the sentence quotes the first line of `text`.

    Args:
        text: the text of the error.
        url: the URL of the HDFS, for the sentence.
    """
    for name, fix in _FIXES.items():
        if name in text:
            return fix
    first_line = text.strip().splitlines()[0][:300] if text.strip() else "unknown failure"
    if "onnection" in first_line or "resolve" in first_line or "lookup" in first_line:
        return (
            f"no name node answers at {url or 'the default file system'}; correct the path, fs.defaultFS or dfs.* ({first_line})"
        )
    return f"HDFS failed: {first_line}"


def _info(status: Any, path: str | None = None) -> FileInfo:
    full_path = str(status.path) if path is None else path
    size_bytes = 0 if status.isdir else int(status.length)
    return FileInfo(full_path, size_bytes, int(status.modification_time), bool(status.isdir))
