"""Streams of object stores: `open_reader`, random access with few requests; `Upload`, a multipart upload in bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from penstock.storage.object_store_client import ClientSettings, client_of, import_obstore
from penstock.storage.object_store_errors import call, status_of
from penstock.storage.range_reader import TAIL_BYTES, RangeReader

#: A part of an upload. S3 allows 10,000 parts, so a file can have 80 GB. Files up to one part are one plain request.
PART_BYTES = 8 * 1024 * 1024
#: Parts of one file that are sent concurrently. Memory of an upload is about this many parts and one more.
_PARTS_AT_ONCE = 2


def open_reader(settings: ClientSettings, key: str, uri: str) -> RangeReader:
    """Open an object for reading. One request fetches the end of the object and its size; on Azure, two requests.

    Args:
        key: the key of the object.
        uri: its path, for messages.

    Raises:
        FileNotFoundError: there is no object.
    """
    obstore = import_obstore(settings.kind)

    def fetch(start: int, end: int) -> bytes:
        action = partial(obstore.get_range, client_of(settings), key, start=start, end=end)
        return bytes(call(settings, uri, action))

    tail, size = call(settings, uri, lambda: _fetch_tail(settings, key))
    return RangeReader(tail, size, fetch)


def _fetch_tail(settings: ClientSettings, key: str) -> tuple[bytes, int]:
    """Return the last bytes of an object (`TAIL_BYTES`, or the whole object if it is smaller), and the object's size."""
    obstore = import_obstore(settings.kind)
    client = client_of(settings)
    if settings.kind == "azure":  # Azure knows no ranges from the end
        size = int(obstore.head(client, key)["size"])
        if size == 0:
            return b"", 0
        return bytes(obstore.get_range(client, key, start=max(0, size - TAIL_BYTES), end=size)), size
    try:
        answer = obstore.get(client, key, options={"range": {"suffix": TAIL_BYTES}})
        return bytes(answer.bytes()), int(answer.meta["size"])
    except FileNotFoundError:
        raise
    except Exception as e:
        # An empty object has no range: stores answer 416, or 200 with no bytes.
        if status_of(e) != 416 and "non-partial response" not in str(e):
            raise
    answer = obstore.get(client, key)
    return bytes(answer.bytes()), int(answer.meta["size"])


class Upload:
    """A file that is being written to an object store. `create` returns an Arrow stream over it.

    The file appears as a whole when the stream is closed.

    Args:
        key: the key of the object.
        uri: its path, for messages.
        refuse_existing: raises AlreadyExists if the file exists. Called before an upload of several parts begins.
        put_whole: creates the file with one request. Called at the end if the content fits in one part.
    """

    def __init__(
        self,
        settings: ClientSettings,
        key: str,
        uri: str,
        refuse_existing: Callable[[], None],
        put_whole: Callable[[bytes], None],
    ) -> None:
        self._settings = settings
        self._key = key
        self._uri = uri
        self._refuse_existing = refuse_existing
        self._put_whole = put_whole
        self._buffer = bytearray()
        self._writer: Any = None
        self._written = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Append bytes to the file, and return how many. Wait if too many parts are being sent."""
        view = memoryview(data).cast("B")
        self._written += len(view)
        if self._writer is None and len(self._buffer) + len(view) <= PART_BYTES:
            self._buffer += view
            return len(view)
        self._send(view)
        return len(view)

    def _send(self, view: memoryview) -> None:
        if self._writer is None:
            self._refuse_existing()
            obstore = import_obstore(self._settings.kind)
            self._writer = obstore.open_writer(
                client_of(self._settings), self._key, buffer_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )
            first = bytes(self._buffer)
            self._buffer = bytearray()
            self._try(partial(self._writer.write, first))
        # Piece by piece: obstore copies what it is called with, and the copy of a large column would add to the memory.
        for start in range(0, len(view), PART_BYTES):
            self._try(partial(self._writer.write, bytes(view[start : start + PART_BYTES])))

    def _try(self, action: Callable[[], object]) -> None:
        try:
            call(self._settings, self._uri, action)
        except BaseException:
            self.abort()
            raise

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._written

    def flush(self) -> None:
        """Do nothing: no part of the file can be read before it is closed."""

    def writable(self) -> bool:
        """Whether the file can be written: always."""
        return True

    def close(self) -> None:
        """Complete the file. Does nothing if it is complete or aborted."""
        if self.closed:
            return
        self.closed = True
        if self._writer is None:
            content = bytes(self._buffer)
            self._buffer = bytearray()
            self._put_whole(content)
            return
        writer = self._writer
        try:
            call(self._settings, self._uri, writer.close)
        except BaseException:
            self._end_upload()
            raise

    def abort(self) -> None:
        """Drop the upload and its parts. Does nothing if the file is complete."""
        if self.closed:
            return
        self.closed = True
        self._buffer = bytearray()
        self._end_upload()

    def _end_upload(self) -> None:
        """Make obstore abort the upload. Its writer does so if a `with` block around it ends with an error, as simulated here."""
        writer, self._writer = self._writer, None
        if writer is not None:
            error = RuntimeError("aborted")
            with contextlib.suppress(Exception):
                writer.__exit__(RuntimeError, error, None)


class Abortable(Protocol):
    """A file-like object whose writing can be aborted. `writable_file` needs this besides the methods that write."""

    def abort(self) -> None:
        """Drop everything that was written, so that no file appears."""


def writable_file(upload: Abortable) -> pa.NativeFile:
    """Return an Arrow stream that writes to a file-like object. If its `with` block ends with an error, it aborts the file."""
    return _WritableFile(upload, mode="w")


class _WritableFile(pa.PythonFile):  # type: ignore[misc]
    """The Arrow stream that `create` returns. If its `with` block ends with an error, it aborts the file."""

    def __init__(self, upload: Abortable, mode: str) -> None:
        # Arrow's own constructor, which runs before this one, receives the same arguments.
        self._upload = upload

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is not None:
            self.abort()
        else:
            self.close()

    def abort(self) -> None:
        """Drop everything that was written, so that no file appears."""
        self._upload.abort()
