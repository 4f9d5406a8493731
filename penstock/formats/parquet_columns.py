"""Copies a Parquet file with other values in some of its columns. The bytes of all other columns are copied unread.

A Parquet file is a sequence of row groups, and a row group is one chunk of bytes per column. The footer says where each chunk is.
To change a column, its chunks are encoded again, and all chunks that follow move. No other column is decompressed, so that a copy
costs a small part of what it costs to write the rows again.

Page indexes and bloom filters of columns, which lie outside of the chunks, are left out of the copy. They are optional, and
Penstock writes none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pyarrow as pa

from penstock.errors import CorruptFile
from penstock.formats.parquet import open_writer
from penstock.formats.thrift_compact import Struct, Value, Wire, decode_struct, encode_struct

#: Returns the new values of some top-level columns of a row group, given the number of the row group.
MakeColumns = Callable[[int], pa.Table]

_MAGIC = b"PAR1"
_TAIL = struct.Struct("<i4s")  # the size of the footer, and the magic
#: Bytes of other columns that are in memory at a time.
_COPIED_BYTES = 16 * 1024 * 1024

# The numbers of fields, from parquet.thrift.
#: Of the footer.
_ROW_GROUPS = 4


class _RowGroup(IntEnum):
    """The numbers by which Parquet's footer, a Thrift struct, identifies fields of a row group."""

    COLUMNS = 1
    UNCOMPRESSED_BYTES = 2
    OFFSET = 5
    COMPRESSED_BYTES = 6


class _Chunk(IntEnum):
    """The numbers by which Parquet's footer, a Thrift struct, identifies fields of a column chunk."""

    OFFSET = 2
    METADATA = 3


class _Column(IntEnum):
    """The numbers by which Parquet's footer, a Thrift struct, identifies fields of a column chunk's metadata."""

    PATH = 3
    UNCOMPRESSED_BYTES = 6
    COMPRESSED_BYTES = 7
    DATA_PAGE = 9
    INDEX_PAGE = 10
    DICTIONARY_PAGE = 11


#: Offsets and lengths of the page indexes of a column chunk, and of the bloom filter in its metadata.
_PAGE_INDEXES = (4, 5, 6, 7)
_BLOOM_FILTER = (14, 15)


def copy_with_columns(source: Any, sink: Any, make_columns: MakeColumns, codec: str) -> int:
    """Copy a Parquet file, with other values in some columns. Return the size of the copy in bytes.

    Args:
        source: the open Parquet file.
        sink: an open file, at its beginning.
        make_columns: returns the new values of the columns to change, for each row group. The columns have no nested fields, and
            their names and types are those of the file.
        codec: the compression codec of the new chunks, by Hudi's name.

    Raises:
        CorruptFile: the footer cannot be read.
    """
    footer = read_raw_footer(source)
    sink.write(_MAGIC)
    at = len(_MAGIC)
    for number, row_group in enumerate(_items(footer, _ROW_GROUPS)):
        at = _copy_row_group(source, sink, row_group, _encode_columns(make_columns(number), codec), at)
    data = encode_struct(footer)
    sink.write(data + _TAIL.pack(len(data), _MAGIC))
    return at + len(data) + _TAIL.size


def read_raw_footer(source: Any) -> Struct:
    """Return the footer of an open Parquet file as a Thrift struct, with all its fields.

    Raises:
        CorruptFile: the file does not end with a Parquet footer, or the footer cannot be decoded.
    """
    size = source.size()
    if size < len(_MAGIC) + _TAIL.size:
        raise CorruptFile(f"a file of {size} bytes is no Parquet file")
    footer_bytes, magic = _TAIL.unpack(_read(source, size - _TAIL.size, _TAIL.size))
    if magic != _MAGIC or not 0 < footer_bytes <= size - _TAIL.size:
        raise CorruptFile(f"a file of {size} bytes does not end as a Parquet file does")
    return decode_struct(_read(source, size - _TAIL.size - footer_bytes, footer_bytes))


class _NewChunks:
    """The encoded column chunks of one row group's new columns, by the path of the column."""

    def __init__(self, data: pa.Buffer) -> None:
        self._file = pa.BufferReader(data)
        (row_group,) = _items(read_raw_footer(self._file), _ROW_GROUPS)
        self.by_path = {_path(chunk): chunk for chunk in _items(row_group, _RowGroup.COLUMNS)}

    def read(self, chunk: Struct) -> bytes:
        """Return the encoded bytes of a column chunk.

        Args:
            chunk: the description of the chunk, a value of `by_path`.
        """
        return _read(self._file, *_place(chunk))


def _encode_columns(columns: pa.Table, codec: str) -> _NewChunks:
    """Encode the new columns of a row group as Parquet column chunks.

    Args:
        columns: the values of the new columns.
        codec: the compression codec, by Hudi's name.
    """
    sink = pa.BufferOutputStream()
    with open_writer(sink, columns, codec) as writer:
        writer.write_table(columns, row_group_size=max(1, columns.num_rows))
    return _NewChunks(sink.getvalue())


def _copy_row_group(source: Any, sink: Any, row_group: Struct, new: _NewChunks, at: int) -> int:
    """Copy a row group with new values in some columns, and set the offsets and sizes in its description.

    Args:
        source: the Parquet file that is copied.
        sink: the copy, an open file.
        row_group: the description of the row group in the footer of the copy.
        new: the chunks that replace those of the same columns.
        at: the offset in `sink` at which the row group begins.

    Returns:
        The offset in `sink` at which the row group ends.
    """
    chunks = _items(row_group, _RowGroup.COLUMNS)
    group_start = at
    waiting: tuple[int, int] = (0, 0)  # consecutive chunks of the source are copied at once
    for number, chunk in enumerate(chunks):
        changed = new.by_path.get(_path(chunk))
        if changed is None:
            start, size = _place(chunk)
            if start != sum(waiting):
                _copy(source, sink, *waiting)
                waiting = (start, 0)
            waiting = (waiting[0], waiting[1] + size)
        else:
            _copy(source, sink, *waiting)
            waiting = (0, 0)
            start, size = _place(changed)
            sink.write(new.read(changed))
            chunks[number] = chunk = changed
        _move_chunk(chunk, at - start)
        at += size
    _copy(source, sink, *waiting)
    metadata = [chunk[_Chunk.METADATA].content for chunk in chunks]
    _set(row_group, _RowGroup.UNCOMPRESSED_BYTES, sum(of_chunk[_Column.UNCOMPRESSED_BYTES].content for of_chunk in metadata))
    _set(row_group, _RowGroup.COMPRESSED_BYTES, sum(of_chunk[_Column.COMPRESSED_BYTES].content for of_chunk in metadata))
    _set(row_group, _RowGroup.OFFSET, group_start)
    return at


def _items(fields: Struct, number: int) -> list[Struct]:
    """Return the items of a list field of a Thrift struct, which are structs; an empty list if the struct lacks the field.

    Args:
        number: the number of the field.
    """
    return fields[number].content[1] if number in fields else []


def _path(chunk: Struct) -> tuple[bytes, ...]:
    """Return the path of the column that a chunk holds, as the names of its nested fields. Raise CorruptFile if it has none.

    Args:
        chunk: the description of the chunk in the footer.
    """
    try:
        return tuple(chunk[_Chunk.METADATA].content[_Column.PATH].content[1])
    except KeyError:
        raise CorruptFile("a Parquet footer without the description of a column") from None


def _place(chunk: Struct) -> tuple[int, int]:
    """Return the offset and the size of a column chunk in its file.

    Args:
        chunk: the description of the chunk in the footer.
    """
    metadata = chunk[_Chunk.METADATA].content
    offsets = [metadata[_Column.DATA_PAGE].content]
    if _Column.DICTIONARY_PAGE in metadata and metadata[_Column.DICTIONARY_PAGE].content > 0:
        offsets.append(metadata[_Column.DICTIONARY_PAGE].content)
    return min(offsets), metadata[_Column.COMPRESSED_BYTES].content


def _move_chunk(chunk: Struct, distance: int) -> None:
    """Add `distance` to the offsets in the description of a column chunk. Remove the offsets of bloom filter and page indexes."""
    metadata = chunk[_Chunk.METADATA].content
    for page in (_Column.DATA_PAGE, _Column.INDEX_PAGE, _Column.DICTIONARY_PAGE):
        if page in metadata and metadata[page].content > 0:
            metadata[page].content += distance
    for number in _BLOOM_FILTER:
        metadata.pop(number, None)
    for number in _PAGE_INDEXES:
        chunk.pop(number, None)
    if _Chunk.OFFSET in chunk and chunk[_Chunk.OFFSET].content > 0:
        chunk[_Chunk.OFFSET].content += distance


def _set(fields: Struct, number: int, content: int) -> None:
    """Set a field of a Thrift struct, given by its number, to a 64-bit integer."""
    fields[number] = Value(Wire.I64, content)


def _copy(source: Any, sink: Any, start: int, size: int) -> None:
    """Copy `size` bytes of `source`, beginning at `start`, to `sink`."""
    end = start + size
    while start < end:
        part = min(_COPIED_BYTES, end - start)
        sink.write(_read(source, start, part))
        start += part


def _read(source: Any, start: int, size: int) -> Any:
    """Read `size` bytes of an open file, beginning at `start`. Raises CorruptFile if the file ends before."""
    source.seek(start)
    data = source.read(size)
    if len(data) != size:
        raise CorruptFile(f"the file ends before byte {start + size}")
    return data
