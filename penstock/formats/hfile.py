"""HFiles, in which the metadata table keeps its rows, and logs of other tables may: sorted keys, a value each. Reading only.

Kernel: the bytes of a file (format version 3) in, places of keys and values out; block by block, cells walked in order.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptFile, Unsupported
from penstock.formats.avro.decode import Offsets

_TRAILER_SIZE = 4096
_TRAILER_MAGIC = b'TRABLK"$'
_BLOCK = struct.Struct(">8siiqbii")
_CELL = struct.Struct(">ii")
_ROW = struct.Struct(">H")
_GZIP, _NONE = 1, 2
_MOST_BLOCK = 2**30


@dataclass(frozen=True)
class Cells:
    """All cells of a file, in order: places in `data`, which holds the blocks uncompressed."""

    data: pa.Buffer
    key_starts: Offsets
    key_ends: Offsets
    value_starts: Offsets
    value_ends: Offsets

    def keys(self) -> list[bytes]:
        view = memoryview(self.data)
        return [bytes(view[start:end]) for start, end in zip(self.key_starts.tolist(), self.key_ends.tolist(), strict=True)]


def read_hfile(content: Any) -> Cells:
    """The cells of an HFile.

    Raises:
        CorruptFile: the bytes are no HFile.
        Unsupported: it is compressed in a way that is not known.
    """
    view = memoryview(content)
    try:
        trailer = _trailer(view)
        count, codec = trailer.get(7, 0), trailer.get(12, _NONE)
        blocks = _data_blocks(view, trailer.get(9, 0), trailer.get(10, -1), codec) if count else []
        cells = _walked(b"".join(blocks), [len(block) for block in blocks])
    except (struct.error, IndexError, zlib.error) as cause:
        raise CorruptFile(f"not an HFile: {cause}") from cause
    if len(cells.key_starts) != count:
        raise CorruptFile(f"an HFile of {count} entries has {len(cells.key_starts)}")
    return cells


def _trailer(view: memoryview) -> dict[int, int]:
    """The numbers of the trailer, by their field."""
    tail = bytes(view[-_TRAILER_SIZE:])
    if len(tail) < _TRAILER_SIZE or not tail.startswith(_TRAILER_MAGIC):
        raise CorruptFile("not an HFile: it has no trailer")
    if tail[-1] != 3:
        raise Unsupported(f"an HFile of version {tail[-1]}; known is 3")
    size, at = _protobuf_number(tail, len(_TRAILER_MAGIC))
    end, found = at + size, {}
    while at < end:
        tag, at = _protobuf_number(tail, at)
        value, at = _protobuf_number(tail, at)
        if tag & 7 == 2:
            at += value
        elif tag & 7 == 0:
            found[tag >> 3] = value
        else:
            raise CorruptFile("not an HFile: its trailer cannot be read")
    return found


def _data_blocks(view: memoryview, at: int, last: int, codec: int) -> list[bytes]:
    """The data blocks, uncompressed, up to the one that begins at `last`."""
    if codec not in (_GZIP, _NONE):
        raise Unsupported(f"an HFile with compression codec {codec}; known are {_GZIP} (gzip) and {_NONE} (none)")
    blocks = []
    while at <= last:
        magic, stored, plain, _, _, _, with_header = _BLOCK.unpack_from(view, at)
        if stored < 0 or not 0 <= plain <= _MOST_BLOCK or at + _BLOCK.size + stored > len(view):
            raise CorruptFile(f"not an HFile: a block of {stored} bytes at {at} does not fit into it")
        if magic == b"DATABLK*":
            payload = bytes(view[at + _BLOCK.size : at + with_header])
            blocks.append(_unpacked(payload, plain) if codec == _GZIP else payload)
            if len(blocks[-1]) != plain:
                raise CorruptFile(f"not an HFile: a block at {at} has {len(blocks[-1])} bytes, not {plain}")
        at += _BLOCK.size + stored
    return blocks


def _unpacked(payload: bytes, size: int) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(payload, size + 1)


def _walked(data: bytes, sizes: list[int]) -> Cells:
    places = []
    at = 0
    for size in sizes:
        end = at + size
        while at < end:  # each cell tells where the next one is
            key_size, value_size = _CELL.unpack_from(data, at)
            (row_size,) = _ROW.unpack_from(data, at + _CELL.size)
            row = at + _CELL.size + _ROW.size
            value = at + _CELL.size + key_size
            behind = value + value_size
            if key_size < _ROW.size + row_size or value_size < 0 or behind >= end or data[behind] != 0:
                raise CorruptFile(f"not an HFile: a cell at byte {at} of its blocks makes no sense")
            places.append((row, row + row_size, value, behind))
            at = behind + 1  # behind the value, a version that is always 0
    columns = np.array(places, np.int64).reshape(-1, 4).T
    return Cells(pa.py_buffer(data), *(np.ascontiguousarray(column) for column in columns))


def _protobuf_number(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        raw |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return raw, at
        if shift > 63:
            raise CorruptFile("not an HFile: a number of more than 64 bits")
