"""Encodes the columns of an Arrow table as Avro records: the writing half of `block.py`.

Each column becomes one or more *segments*. A segment is an array with some bytes for every record. A short segment (lengths,
numbers, union branches) is a byte matrix with one row per record, of which each row uses only as many bytes as its value needs.
A segment of strings or bytes is the Arrow array of the column itself. Arrow then concatenates the segments of each record, for
all records in one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.formats.avro.layout import (
    ArrayNode,
    AvroLayout,
    BooleanNode,
    DecimalNode,
    EnumNode,
    FixedNode,
    IntegerNode,
    MapNode,
    Node,
    RecordNode,
    SizedNode,
    UnionNode,
)

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

#: Bytes of an Arrow decimal128.
_DECIMAL_BYTES = 16


@dataclass(frozen=True)
class ShortSegment:
    """A segment (some bytes of every record) with few bytes per record.

    Record i has the bytes in row i of `cells` where row i of `used` is true.
    """

    cells: Bytes
    used: Mask

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return for each record the number of bytes that it has in this segment."""
        return np.count_nonzero(self.used, axis=1)


#: A ShortSegment, or a binary array without nulls.
Segment = Any


def encode_records(rows: pa.Table, layout: AvroLayout, *, with_length: bool) -> pa.Buffer:
    """Encode rows as Avro records; return their bytes, one record after the other.

    Args:
        rows: an Arrow table with exactly the columns of the layout.
        with_length: whether to write the length of each record before the record, in four bytes.

    Raises:
        SchemaError: a value is null, or too large, where the schema does not allow it.
    """
    segments: list[Segment] = []
    for name, node, column in zip(layout.record.names, layout.record.fields, rows.columns, strict=True):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        segments += encode_values(node, array, name)
    segments = fuse_segments(segments)
    if with_length:
        sizes = np.zeros(rows.num_rows, np.int64)
        for segment in segments:
            sizes += _sizes(segment)
        lengths = sizes.astype(">i4").view(np.uint8).reshape(-1, 4)
        segments = fuse_segments([_full_segment(lengths), *segments])
    return value_bytes(join_segments(segments, rows.num_rows))


def encode_values(node: Node, array: Any, name: str) -> list[Segment]:
    """Encode a column. Return its segments in order: each holds, for every record, the next bytes of the column's value.

    A record may have no bytes in a segment. `ShortSegment` is the form of a segment with few bytes per record.

    Args:
        node: the layout of the column's values.
        array: the column.
        name: the column's name, for errors.

    Raises:
        SchemaError: a value is null, or too large, where the schema does not allow it.
    """
    if isinstance(node, UnionNode):
        return _encode_union(node, array, name)
    if array.null_count:
        raise SchemaError(f"column {name!r} holds null, which its schema does not allow; make the column nullable or fill it")
    return _encode_non_null(node, array, name)


def _encode_union(node: UnionNode, array: Any, name: str) -> list[Segment]:
    """Encode a nullable column. Return its segments (arrays with some bytes for every record): branch numbers, then values.

    A null has a branch number, but no bytes in the segments of the values. The branch number is zigzag-encoded, so doubled.

    Args:
        node: the layout of the union.
        array: the column.
        name: the column's name, for errors.
    """
    if node.null_at is None or not array.null_count:
        branch = np.full((len(array), 1), node.value_at * 2, np.uint8)
        return [_full_segment(branch), *encode_values(node.value, array, name)]
    is_valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
    branch = np.where(is_valid, node.value_at * 2, node.null_at * 2).astype(np.uint8)[:, None]
    dense = encode_values(node.value, array.drop_null(), name)
    return [_full_segment(branch), *(scatter_segment(segment, is_valid) for segment in dense)]


def scatter_segment(segment: Segment, present: Mask) -> Segment:
    """Return a segment for more records, in which the added records have no bytes. A segment holds some bytes of every record.

    Args:
        segment: the bytes of the records where `present` is true, in the order of these records.
        present: a mask over all records of the returned segment. Records where it is false get no bytes.
    """
    if isinstance(segment, ShortSegment):
        cells = np.zeros((len(present), segment.cells.shape[1]), np.uint8)
        used = np.zeros(cells.shape, bool)
        cells[present] = segment.cells
        used[present] = segment.used
        return ShortSegment(cells, used)
    sizes = np.zeros(len(present), np.int64)
    sizes[present] = _sizes(segment)
    return _binary_array(_offsets_of(sizes), value_bytes(segment))


def _encode_non_null(node: Node, array: Any, name: str) -> list[Segment]:
    """Encode a column without nulls. Returns its segments (arrays with some bytes for every record), in their order in a record.

    Args:
        node: the layout of the column's values.
        array: the column.
        name: the column's name, for errors.
    """
    match node:
        case SizedNode():
            return _encode_sized(array)
        case IntegerNode():
            return [_encode_varints(_to_int64(array))]
        case FixedNode(size=size):
            return [_full_segment(_byte_matrix(array, size))]
        case BooleanNode():
            return [_full_segment(array.cast(pa.uint8()).to_numpy().reshape(-1, 1))]
        case DecimalNode(size=size):
            return _encode_decimals(_byte_matrix(array, _DECIMAL_BYTES), size, name)
        case EnumNode(symbols=symbols):
            return [_encode_varints(_symbol_numbers(array, symbols, name))]
        case RecordNode(names=names, fields=fields):
            segments = []
            for field_name, field, child in zip(names, fields, array.flatten(), strict=True):
                segments += encode_values(field, child, f"{name}.{field_name}")
            return segments
        case ArrayNode(item=item):
            first, count = _child_range(array)
            segments = encode_values(item, array.values.slice(first, count), f"{name}.element")
            return _encode_lists(array, join_segments(fuse_segments(segments), count))
        case MapNode(value=value):
            first, count = _child_range(array)
            segments = encode_values(SizedNode(pa.string()), array.keys.slice(first, count), f"{name}.key")
            segments += encode_values(value, array.items.slice(first, count), f"{name}.value")
            return _encode_lists(array, join_segments(fuse_segments(segments), count))
    raise AssertionError(node)


def _child_range(array: Any) -> tuple[int, int]:
    """Return (position of the first item, number of items) of all lists or maps in an array.

    The array may be a slice of a longer array. Then the array of its items starts with items of other lists.
    """
    first = array.offsets[0].as_py()
    return first, array.offsets[-1].as_py() - first


def _encode_lists(array: Any, items: Any) -> list[Segment]:
    """Encode lists or maps whose items are already encoded.

    Returns three segments (arrays with bytes for every record): item count, items, and a zero that ends the list. An empty list
    has no bytes in the first two segments.

    Args:
        array: the list or map array.
        items: a binary array with the encoded items of all lists.
    """
    offsets = array.offsets.to_numpy().astype(np.int64)
    counts = np.diff(offsets)
    head = _encode_varints(counts)
    head.used[counts == 0] = False
    item_offsets = _offsets(items)
    body = _binary_array(item_offsets[offsets - offsets[0]], items.buffers()[2])
    end = _full_segment(np.zeros((len(array), 1), np.uint8))
    return [head, body, end]


def _encode_sized(array: Any) -> list[Segment]:
    """Encode strings or bytes. Returns two segments (arrays with bytes for every record): the lengths, then the array itself."""
    binary = array if array.type.equals(pa.binary()) else array.view(pa.binary())
    return [_encode_varints(_sizes(binary)), binary]


def _to_int64(array: Any) -> npt.NDArray[np.int64]:
    """Return an array of integers, dates, times or timestamps as int64 numbers."""
    is_narrow = array.type.bit_width == 32
    numbers = array.view(pa.int32() if is_narrow else pa.int64()).to_numpy()
    return np.asarray(numbers, np.int64)


def _encode_varints(numbers: npt.NDArray[np.int64]) -> ShortSegment:
    """Encode numbers as Avro writes int and long: zigzag, seven bits per byte, low bits first."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    greatest = int(zigzag.max()) if len(zigzag) else 0
    width = max(1, -(-greatest.bit_length() // 7))  # rounded up
    if width == 1:
        return _full_segment(zigzag.astype(np.uint8).reshape(-1, 1))
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    groups = zigzag[:, None] >> shifts
    used = groups != 0
    used[:, 0] = True  # 0 takes one byte, too
    cells = (groups & np.uint64(0x7F)).astype(np.uint8)
    cells[:, :-1] |= used[:, 1:].astype(np.uint8) << 7  # the high bit: another byte follows
    return ShortSegment(cells, used)


def _byte_matrix(array: Any, size: int) -> Bytes:
    """Return the bytes of an array whose values have `size` bytes each, as a matrix with one row per value."""
    data = array.buffers()[1]
    if data is None or not size:
        return np.zeros((len(array), size), np.uint8)
    return np.frombuffer(data, np.uint8, len(array) * size, array.offset * size).reshape(-1, size)


def _encode_decimals(little_endian: Bytes, size: int | None, name: str) -> list[Segment]:
    """Encode decimals as big-endian numbers. Returns segments: arrays with some bytes for every record.

    Args:
        little_endian: the decimals as Arrow stores them, sixteen bytes per row.
        size: the number of bytes of every decimal. None: each decimal has as few bytes as it needs, after its length.
        name: the column's name, for errors.
    """
    big_endian = little_endian[:, ::-1]
    sign = np.where(big_endian[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    if size is not None and size >= _DECIMAL_BYTES:
        padding = np.repeat(sign, size - _DECIMAL_BYTES, axis=1)
        return [_full_segment(np.hstack([padding, big_endian]))]
    # A leading byte can be left out if it only repeats the sign and the next byte begins with the sign bit. The last byte stays.
    next_begins_otherwise = np.hstack([(big_endian[:, 1:] ^ sign) >= 0x80, np.ones_like(sign, bool)])
    needed = np.logical_or.accumulate((big_endian != sign) | next_begins_otherwise, axis=1)
    if size is None:
        lengths = _encode_varints(np.count_nonzero(needed, axis=1))
        return [lengths, ShortSegment(np.ascontiguousarray(big_endian), needed)]
    if needed[:, : _DECIMAL_BYTES - size].any():
        raise SchemaError(f"column {name!r} holds a decimal that does not fit the {size} bytes of its schema")
    return [_full_segment(np.ascontiguousarray(big_endian[:, _DECIMAL_BYTES - size :]))]


def _symbol_numbers(array: Any, symbols: tuple[str, ...], name: str) -> npt.NDArray[np.int64]:
    """Return the position of each value in `symbols`, the symbols of an enum. Raises SchemaError if a value is no symbol.

    Args:
        name: the column's name, for errors.
    """
    numbers = pc.index_in(array, value_set=pa.array(symbols, array.type))
    if numbers.null_count:
        unknown = array.filter(pc.is_null(numbers))[0].as_py()
        raise SchemaError(f"column {name!r} holds {unknown!r}, which is none of its enum's symbols: {', '.join(symbols)}")
    return np.asarray(numbers.to_numpy(), np.int64)


def _full_segment(cells: Bytes) -> ShortSegment:
    """Return a segment (some bytes of every record) in which record i has all bytes of row i of the matrix `cells`."""
    return ShortSegment(cells, np.ones(cells.shape, bool))


def fuse_segments(segments: list[Segment]) -> list[Segment]:
    """Replace neighbouring short segments (`ShortSegment`) by one segment. The order of the segments stays the same.

    A segment holds a part of the bytes of every record. `join_segments` takes time per segment, so fewer segments are faster.
    """
    fused: list[Segment] = []
    short_run: list[ShortSegment] = []
    for segment in segments:
        if isinstance(segment, ShortSegment):
            short_run.append(segment)
            continue
        if short_run:
            fused.append(_merge_short(short_run))
            short_run = []
        fused.append(segment)
    if short_run:
        fused.append(_merge_short(short_run))
    return fused


def _merge_short(segments: list[ShortSegment]) -> ShortSegment:
    """Merge short segments into one. In every record the bytes of a segment are followed by those of the next segment."""
    if len(segments) == 1:
        return segments[0]
    cells = np.hstack([segment.cells for segment in segments])
    used = np.hstack([segment.used for segment in segments])
    return ShortSegment(cells, used)


def join_segments(segments: list[Segment], count: int) -> Any:
    """Concatenate for each record its bytes in all segments. Return a binary array with one value per record.

    Args:
        segments: arrays with some bytes for every record, in their order within a record.
        count: the number of records.
    """
    if not count or not segments:
        return _binary_array(np.zeros(count + 1, np.int64), pa.py_buffer(b""))
    arrays = [_to_binary_array(segment) if isinstance(segment, ShortSegment) else segment for segment in segments]
    if len(arrays) == 1:
        return _compact(arrays[0])
    if sum(int(_sizes(array).sum()) for array in arrays) >= 2**31:  # Arrow's offsets of binary arrays have 32 bits
        raise SchemaError("rows of more than 2 GiB cannot be one run of Avro records: write them in smaller blocks")
    # All first segments, then all second ones, ...: taken record by record, the bytes lie as Avro wants them.
    order = np.arange(count, dtype=np.int32)[:, None] + np.arange(len(arrays), dtype=np.int32) * count
    taken = pa.concat_arrays(arrays).take(pa.array(order.ravel()))
    return _binary_array(_offsets(taken)[:: len(arrays)], taken.buffers()[2])


def _to_binary_array(segment: ShortSegment) -> Any:
    """Convert a short segment (some bytes of every record) to a binary array: value i has the bytes of record i."""
    data = segment.cells.ravel() if segment.used.all() else segment.cells[segment.used]
    return _binary_array(_offsets_of(segment.sizes()), pa.py_buffer(np.ascontiguousarray(data)))


def _compact(array: Any) -> Any:
    """Return a binary array with the same values whose buffer holds only their bytes, even if `array` is a slice."""
    offsets = _offsets(array)
    return _binary_array(offsets - offsets[0], value_bytes(array))


def value_bytes(array: Any) -> pa.Buffer:
    """Return the bytes of all values of a binary array. If the array is a slice, bytes outside the slice are left out."""
    data = array.buffers()[2]
    if data is None:
        return pa.py_buffer(b"")
    offsets = _offsets(array)
    return data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _sizes(segment: Segment) -> npt.NDArray[np.int64]:
    """Return for each record the number of bytes that it has in the segment (an array with some bytes for every record)."""
    if isinstance(segment, ShortSegment):
        return segment.sizes()
    if not len(segment):
        return np.zeros(0, np.int64)
    return np.diff(_offsets(segment)).astype(np.int64)


def _offsets(array: Any) -> npt.NDArray[np.int32]:
    """Return the offsets at which the values of a binary array begin in its buffer, and the end of the last value."""
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


def _offsets_of(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the offsets of values that have these sizes and lie one after the other, and the end of the last value."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _binary_array(offsets: Any, data: pa.Buffer) -> Any:
    """Return a binary array without nulls whose values lie in `data`.

    Args:
        offsets: the offset in `data` of each value, and the end of the last value.
    """
    narrow = np.ascontiguousarray(offsets, np.int32)
    return pa.Array.from_buffers(pa.binary(), len(narrow) - 1, [None, pa.py_buffer(narrow), data], null_count=0)
