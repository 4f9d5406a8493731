"""`RangeReader`: random access to a remote file with few requests."""

from __future__ import annotations

from collections.abc import Callable

#: Bytes at the end of a file that are fetched when it is opened. A footer with a bloom filter of 60,000 keys fits.
TAIL_BYTES = 512 * 1024
#: The least that a later read fetches, and the most that is fetched ahead of a reader that reads on and on.
_LEAST_BYTES = 64 * 1024
_MOST_AHEAD_BYTES = 8 * 1024 * 1024


class RangeReader:
    """A remote file that is open for reading. `open` returns an Arrow stream over it.

    The end of the file is fetched when the file is opened, so that reading a Parquet footer costs no further request.

    Args:
        tail: the last bytes of the file.
        size: the size of the file in bytes.
        fetch: is called with the first byte of a range and the byte after its last one; returns the bytes of the range.
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
        """Return the next `size` bytes, or fewer at the end of the file; all remaining bytes if `size` is negative."""
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
        """Fetch the bytes from `start` to `end` and some more after them, and keep them as the current block.

        Args:
            reads_on: whether the range begins where the last block ended. Then twice as many bytes are fetched ahead as the last
                time, up to 8 MiB.
        """
        self._ahead = min(2 * self._ahead, _MOST_AHEAD_BYTES) if reads_on else _LEAST_BYTES
        end = min(max(end, start + self._ahead), self._tail_start)
        self._block = self._fetch(start, end)
        self._block_start = start

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position and return it. `whence` says what `offset` counts from: 0 the start, 1 the position, 2 the end."""
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        """Return the position in the file."""
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
        """Drop the bytes that are held in memory."""
        self._block = b""
        self._tail = b""
        self.closed = True
