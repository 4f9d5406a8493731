"""The rows of large log blocks, a part at a time: neither the content nor the rows of a block are in memory as a whole.

Kernel beside `read.py`, which reads small blocks in one go: an open file and a place in it in, Arrow tables of about a given
size out, as many as it takes. The bytes are checked as those of a small block are, each before it is used; what is wrong
further behind is told when that part is reached.
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
from penstock.formats.avro.decode import Offsets
from penstock.formats.cast import fit_to_schema
from penstock.schema import avro_to_arrow

PART_BYTES = 16 * 1024 * 1024
#: How many times larger rows of a Parquet block may be than its bytes; what is repetitive beyond that is met seldom.
PARQUET_RATIO = 8
_LENGTH = struct.Struct(">i")
_BUFFER_BYTES = 64 * 1024
#: Rows that say how large those of a Parquet block are.
_SAMPLE_ROWS = 256


@dataclass(frozen=True)
class Content:
    """Where the content of a block lies."""

    file: Any
    offset: int
    size: int

    def read(self, at: int, size: int) -> pa.Buffer:
        """Some of its bytes. Raises CorruptFile where the file is shorter than it was."""
        self.file.seek(self.offset + at)
        found = self.file.read_buffer(size)
        if found.size != size:
            raise CorruptFile("the file ends inside its content")
        return found


def avro_parts(content: Content, schema: str, wanted: Sequence[str], part_bytes: int) -> Iterator[pa.Table]:
    """The records of an Avro block, those of about `part_bytes` at a time.

    Raises:
        CorruptFile: the bytes are no such records.
    """
    head = content.read(0, min(HEAD_BYTES, content.size))
    count = left = read_record_count(head, content.size)
    at = HEAD_BYTES
    while left:
        window = content.read(at, min(max(part_bytes, _LENGTH.size), content.size - at))
        starts, ends = _whole_records(window, left)
        if not len(starts):
            window = content.read(at, _size_of_first(window, content.size - at, count - left, count))
            starts, ends = _whole_records(window, 1)
        yield decode_records(window, starts, ends, schema, columns=wanted)
        at, left = at + int(ends[-1]), left - len(starts)
    if at != content.size:
        raise CorruptFile(f"an Avro block of {content.size} bytes has {count} records whose lengths do not add up to it")


def _whole_records(window: pa.Buffer, most: int) -> tuple[Offsets, Offsets]:
    """Where the records begin and end that lie in a window as a whole, from its beginning on."""
    view, size, length_at = memoryview(window), window.size, _LENGTH.unpack_from
    starts, ends, at = list[int](), list[int](), 0
    while len(starts) < most and at + _LENGTH.size <= size:  # each length says where the next one is
        begin = at + _LENGTH.size
        length = length_at(view, at)[0]
        if not 0 <= length <= size - begin:
            break
        at = begin + length
        starts.append(begin)
        ends.append(at)
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _size_of_first(window: pa.Buffer, room: int, number: int, count: int) -> int:
    """The bytes of a record that does not fit into a window, its length included."""
    length = _LENGTH.unpack_from(window)[0] if window.size >= _LENGTH.size else -1
    if not 0 <= length <= room - _LENGTH.size:
        raise CorruptFile(f"record {number} of {count} in an Avro block does not fit into what is left of it")
    return int(length) + _LENGTH.size


def parquet_parts(content: Content, schema: str, wanted: Sequence[str], part_bytes: int) -> Iterator[pa.Table]:
    """The rows of a Parquet block, those of about `part_bytes` at a time.

    Raises:
        CorruptFile: the bytes are no Parquet file.
    """
    kind = avro_to_arrow(schema)
    try:
        file = pq.ParquetFile(pa.PythonFile(_Segment(content), mode="r"), buffer_size=_BUFFER_BYTES)
        names = [name for name in kind.names if name in file.schema_arrow.names and name in wanted]
        target = pa.schema([kind.field(name) for name in names])
        sample = next(file.iter_batches(_SAMPLE_ROWS, columns=names, use_threads=False), None)
        if sample is None:
            return
        rows = max(1, part_bytes // max(1, sample.nbytes // max(1, sample.num_rows)))
        for batch in file.iter_batches(rows, columns=names, use_threads=False):
            yield fit_to_schema(pa.Table.from_batches([batch]), target)
    except (pa.ArrowException, OSError) as cause:
        raise CorruptFile(f"not the Parquet file it should hold: {cause}") from cause


class _Segment(io.RawIOBase):
    """A content as a file of its own."""

    def __init__(self, content: Content) -> None:
        self._content, self._at = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._content.size - self._at)
        found: bytes = self._content.read(self._at, left if size < 0 else min(size, left)).to_pybytes()
        self._at += len(found)
        return found
