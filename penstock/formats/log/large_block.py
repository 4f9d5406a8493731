"""Reads the rows of a large log block in parts. Neither the whole content nor all rows are in memory at once.

`read.py` reads small blocks whole, and calls this module for large ones. Both raise the same errors, but damage near the end of a
large block raises its error only when that part is read.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import CorruptFile
from penstock.formats.avro.block import HEAD_BYTES, decode_records, read_record_count
from penstock.formats.avro.varints import Offsets
from penstock.formats.cast import fit_to_schema
from penstock.schema import avro_to_arrow

PART_BYTES = 16 * 1024 * 1024
#: How many times larger the rows of a Parquet block are expected to be than its bytes, at most. Few blocks compress better.
PARQUET_RATIO = 8
_LENGTH = struct.Struct(">i")
_BUFFER_BYTES = 64 * 1024
#: The number of rows from which the size of a row of a Parquet block is estimated.
_SAMPLE_ROWS = 256


@dataclass(frozen=True)
class Content:
    """The content of a log block in an open file: `size` bytes, from byte `offset` of the file on."""

    file: Any
    offset: int
    size: int

    def read(self, at: int, size: int) -> pa.Buffer:
        """Return `size` bytes of the content, from byte `at` of the content on. Raises CorruptFile if the file ends before."""
        self.file.seek(self.offset + at)
        buffer = self.file.read_buffer(size)
        if buffer.size != size:
            raise CorruptFile("the file ends inside its content")
        return buffer


def read_avro_parts(content: Content, schema: str, wanted: Sequence[str], part_bytes: int) -> Iterator[pa.Table]:
    """Yield the records of an Avro block in tables of about `part_bytes` bytes. A larger record is a table of its own.

    Args:
        schema: the Avro schema of the block, as JSON.
        wanted: the columns to decode. Other columns are skipped.

    Raises:
        CorruptFile: the bytes are not records of the schema.
    """
    head = content.read(0, min(HEAD_BYTES, content.size))
    count = read_record_count(head, content.size)
    left = count
    at = HEAD_BYTES
    while left:
        window = content.read(at, min(max(part_bytes, _LENGTH.size), content.size - at))
        starts, ends = _find_whole_records(window, left)
        if not len(starts):
            window = content.read(at, _first_record_size(window, content.size - at, count - left, count))
            starts, ends = _find_whole_records(window, 1)
        yield decode_records(window, starts, ends, schema, columns=wanted)
        at += int(ends[-1])
        left -= len(starts)
    if at != content.size:
        raise CorruptFile(f"an Avro block of {content.size} bytes has {count} records whose lengths do not add up to it")


def _find_whole_records(window: pa.Buffer, most: int) -> tuple[Offsets, Offsets]:
    """Return (offsets where records begin, offsets where they end) for the records that lie completely in a window of bytes.

    Args:
        window: bytes of a block's content, from the length field of a record on.
        most: the most records to return.
    """
    view = memoryview(window)
    size = window.size
    unpack_length = _LENGTH.unpack_from
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    while len(starts) < most and at + _LENGTH.size <= size:  # each length says where the next one is
        begin = at + _LENGTH.size
        length = unpack_length(view, at)[0]
        if not 0 <= length <= size - begin:
            break
        at = begin + length
        starts.append(begin)
        ends.append(at)
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _first_record_size(window: pa.Buffer, room: int, number: int, count: int) -> int:
    """Return the size in bytes of the record that a window begins with, including its length field.

    Args:
        window: bytes of a block's content, which may end inside the record.
        room: the number of bytes from the beginning of the window to the end of the content.
        number: the number of the record in its block, for the error.
        count: the number of records of the block, for the error.

    Raises:
        CorruptFile: the record is larger than `room`.
    """
    length = _LENGTH.unpack_from(window)[0] if window.size >= _LENGTH.size else -1
    if not 0 <= length <= room - _LENGTH.size:
        raise CorruptFile(f"record {number} of {count} in an Avro block does not fit into what is left of it")
    return int(length) + _LENGTH.size


def read_parquet_parts(content: Content, schema: str, wanted: Sequence[str], part_bytes: int) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet block in tables of about `part_bytes` bytes.

    Args:
        schema: the Avro schema of the block, as JSON.
        wanted: the columns to read.

    Raises:
        CorruptFile: the bytes are not a Parquet file.
    """
    arrow_schema = avro_to_arrow(schema)
    try:
        file = pq.ParquetFile(pa.PythonFile(_ContentFile(content), mode="r"), buffer_size=_BUFFER_BYTES)
        stored = frozenset(file.schema_arrow.names)
        names = [name for name in arrow_schema.names if name in stored and name in wanted]
        target = pa.schema([arrow_schema.field(name) for name in names])
        sample = next(file.iter_batches(_SAMPLE_ROWS, columns=names, use_threads=False), None)
        if sample is None:
            return
        row_bytes = max(1, sample.nbytes // max(1, sample.num_rows))
        part_rows = max(1, part_bytes // row_bytes)
        for batch in file.iter_batches(part_rows, columns=names, use_threads=False):
            yield fit_to_schema(pa.Table.from_batches([batch]), target)
    except (pa.ArrowException, OSError) as cause:
        raise CorruptFile(f"not the Parquet file it should hold: {cause}") from cause


class _ContentFile(io.RawIOBase):
    """A Python file object that reads the content of a log block. Arrow's Parquet reader reads Parquet blocks through it."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.size}
        self._at = max(0, origins[whence] + offset)
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._content.size - self._at)
        data: bytes = self._content.read(self._at, left if size < 0 else min(size, left)).to_pybytes()
        self._at += len(data)
        return data
