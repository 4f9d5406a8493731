"""Reads HFiles: files of sorted keys with one value each, in HBase's format, version 3.

The metadata table stores its rows in HFiles. Log files of other tables may have HFile blocks. `read_hfile` takes the bytes of a
whole file and returns the byte offsets of keys and values. The index blocks of the file are not used: all data blocks are read
in order.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptFile, Unsupported
from penstock.formats.avro.varints import Offsets

_TRAILER_SIZE = 4096
_TRAILER_MAGIC = b'TRABLK"$'
#: Magic, size on disk without this header, size uncompressed, offset of the block before, checksum type, bytes per checksum,
#: size on disk with this header and without checksums.
_BLOCK = struct.Struct(">8siiqbii")
_CELL = struct.Struct(">ii")  # size of the key, size of the value
_ROW = struct.Struct(">H")  # size of the row within the key
# HBase's numbers of compression codecs.
_GZIP = 1
_NONE = 2
#: The most bytes of a block that are uncompressed: a damaged size must not exhaust the memory.
_MOST_BLOCK = 2**30
# Numbers of fields in the trailer's protobuf message.
_FIRST_DATA_BLOCK_OFFSET = 9
_LAST_DATA_BLOCK_OFFSET = 10
_ENTRY_COUNT = 7
_COMPRESSION_CODEC = 12


@dataclass(frozen=True)
class Cells:
    """The cells of an HFile, each a key and a value, in order. Arrays hold the byte offsets of keys and values in `data`.

    `data` holds the uncompressed data blocks.
    """

    data: pa.Buffer
    key_starts: Offsets
    key_ends: Offsets
    value_starts: Offsets
    value_ends: Offsets

    def keys(self) -> list[bytes]:
        """Return the key of each cell as bytes."""
        view = memoryview(self.data)
        return [bytes(view[start:end]) for start, end in zip(self.key_starts.tolist(), self.key_ends.tolist(), strict=True)]


def read_hfile(content: Any) -> Cells:
    """Read the cells of an HFile from the bytes of the whole file.

    Raises:
        CorruptFile: the bytes are not an HFile.
        Unsupported: the version or the compression codec is unknown.
    """
    view = memoryview(content)
    try:
        trailer = _read_trailer(view)
        count = trailer.get(_ENTRY_COUNT, 0)
        blocks = _read_data_blocks(view, trailer) if count else []
        cells = _find_cells(b"".join(blocks), [len(block) for block in blocks])
    except (struct.error, IndexError, zlib.error) as cause:
        raise CorruptFile(f"not an HFile: {cause}") from cause
    if len(cells.key_starts) != count:
        raise CorruptFile(f"an HFile of {count} entries has {len(cells.key_starts)}")
    return cells


def _read_trailer(view: memoryview) -> dict[int, int]:
    """Read the trailer at the end of an HFile, which is a protobuf message; return its integers as field number → integer.

    Fields of other types are skipped.
    """
    tail = bytes(view[-_TRAILER_SIZE:])
    if len(tail) < _TRAILER_SIZE or not tail.startswith(_TRAILER_MAGIC):
        raise CorruptFile("not an HFile: it has no trailer")
    if tail[-1] != 3:
        raise Unsupported(f"an HFile of version {tail[-1]}; known is 3")
    size, at = _read_varint(tail, len(_TRAILER_MAGIC))
    end = at + size
    numbers = {}
    while at < end:
        tag, at = _read_varint(tail, at)
        value, at = _read_varint(tail, at)
        wire_type = tag & 7
        if wire_type == 2:  # bytes: the value is their length
            at += value
        elif wire_type == 0:  # a number
            numbers[tag >> 3] = value
        else:
            raise CorruptFile("not an HFile: its trailer cannot be read")
    return numbers


def _read_data_blocks(view: memoryview, trailer: dict[int, int]) -> list[bytes]:
    """Return the uncompressed data blocks, in the order of the file. Other blocks between them are skipped.

    Args:
        view: the bytes of the whole HFile.
        trailer: the integers of the trailer by field number.
    """
    at = trailer.get(_FIRST_DATA_BLOCK_OFFSET, 0)
    last = trailer.get(_LAST_DATA_BLOCK_OFFSET, -1)
    codec = trailer.get(_COMPRESSION_CODEC, _NONE)
    if codec not in (_GZIP, _NONE):
        raise Unsupported(f"an HFile with compression codec {codec}; known are {_GZIP} (gzip) and {_NONE} (none)")
    blocks = []
    while at <= last:
        magic, stored_size, plain_size, _, _, _, size_with_header = _BLOCK.unpack_from(view, at)
        if stored_size < 0 or not 0 <= plain_size <= _MOST_BLOCK or at + _BLOCK.size + stored_size > len(view):
            raise CorruptFile(f"not an HFile: a block of {stored_size} bytes at {at} does not fit into it")
        if magic == b"DATABLK*":
            payload = bytes(view[at + _BLOCK.size : at + size_with_header])
            block = _decompress(payload, plain_size) if codec == _GZIP else payload
            if len(block) != plain_size:
                raise CorruptFile(f"not an HFile: a block at {at} has {len(block)} bytes, not {plain_size}")
            blocks.append(block)
        at += _BLOCK.size + stored_size
    return blocks


def _decompress(payload: bytes, size: int) -> bytes:
    """Decompress gzip bytes, and stop after `size` + 1 bytes.

    `size` is the expected number of bytes. One byte more is enough to detect a wrong size, and damaged bytes cannot exhaust the
    memory.
    """
    return zlib.decompressobj(wbits=31).decompress(payload, size + 1)


def _find_cells(data: bytes, block_sizes: list[int]) -> Cells:
    """Find the cells (a key and a value each) in uncompressed data blocks.

    The key of a cell is the row part of HBase's key. Column family, timestamp and type are skipped.

    Args:
        data: the data blocks, concatenated.
        block_sizes: the size of each data block in `data`.
    """
    bounds = []
    at = 0
    for block_size in block_sizes:
        end = at + block_size
        while at < end:  # a loop over cells: each cell says where the next one begins
            key_size, value_size = _CELL.unpack_from(data, at)
            (row_size,) = _ROW.unpack_from(data, at + _CELL.size)
            row_at = at + _CELL.size + _ROW.size
            value_at = at + _CELL.size + key_size
            value_end = value_at + value_size
            # One byte follows the value: HBase's memstore version, which is 0 in every file that Hudi writes.
            if key_size < _ROW.size + row_size or value_size < 0 or value_end >= end or data[value_end] != 0:
                raise CorruptFile(f"not an HFile: a cell at byte {at} of its blocks is malformed")
            bounds.append((row_at, row_at + row_size, value_at, value_end))
            at = value_end + 1
    columns = np.array(bounds, np.int64).reshape(-1, 4).T
    return Cells(pa.py_buffer(data), *(np.ascontiguousarray(column) for column in columns))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read the protobuf varint at offset `at`; return (the number, the offset after the varint)."""
    number = 0
    shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise CorruptFile("not an HFile: a number of more than 64 bits")
