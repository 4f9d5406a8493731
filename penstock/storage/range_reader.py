"""`RangeReader`: random access to a remote file with few requests."""

from __future__ import annotations

from collections.abc import Callable

#: Bytes at the end of a file that are fetched when it is opened. A footer with a bloom filter of 60,000 keys fits.
TAIL_BYTES = 512 * 1024
#: The least that a later read fetches, and the most that is fetched ahead of a reader that reads on and on.
_LEAST_BYTES = 64 * 1024
_MOST_AHEAD_BYTES = 8 * 1024 * 1024


class RangeReader:
    """A remote file, for `pa.PythonFile`. Opening it fetches the end of the file, so that a Parquet footer costs one request.

    Args:
        tail: the last bytes of the file.
        size: the size of the file.
        fetch: returns the bytes of a range (start, end).
    """

    def __init__(self, tail: bytes, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._tail = tail
        self._size = size
        self._tail_start = size - len(tail)
        self._fetch = fetch
        self._position = 0
        self._ahead = _LEAST_BYTES
        self._block_start = 0
        self._block = b""
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        end = self._size if size is None or size < 0 else min(self._size, self._position + size)
        start = self._position
        if start >= end:
            return b""
        data = self._read(start, end)
        self._position = end
        return data

    def _read(self, start: int, end: int) -> bytes:
        if start >= self._tail_start:
            return self._tail[start - self._tail_start : end - self._tail_start]
        if end > self._tail_start:
            return self._read(start, self._tail_start) + self._tail[: end - self._tail_start]
        block_end = self._block_start + len(self._block)
        if start < self._block_start or end > block_end:
            self._fetch_block(start, end, reads_on=start == block_end)
        return self._block[start - self._block_start : end - self._block_start]

    def _fetch_block(self, start: int, end: int, *, reads_on: bool) -> None:
        """Fetch at least a range. A reader that continues where the last block ended gets more and more ahead."""
        self._ahead = min(2 * self._ahead, _MOST_AHEAD_BYTES) if reads_on else _LEAST_BYTES
        end = min(max(end, start + self._ahead), self._tail_start)
        self._block = self._fetch(start, end)
        self._block_start = start

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position: from the start (0), from here (1) or from the end (2)."""
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def size(self) -> int:
        """Return the size of the file."""
        return self._size

    def readable(self) -> bool:
        """Whether the file can be read: always."""
        return True

    def seekable(self) -> bool:
        """Whether the position can be changed: always."""
        return True

    def flush(self) -> None:
        """Do nothing: the file is not written."""

    def close(self) -> None:
        """Drop the bytes that are kept."""
        self._block = b""
        self._tail = b""
        self.closed = True
