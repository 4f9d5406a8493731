"""Avro records from the columns of an Arrow table: the writing half of `avro_columns`.

Kernel. Every column becomes segments, one binary value per record: short ones (lengths, numbers, union branches) are put
side by side in a matrix of bytes, of which each row uses as many as it needs; texts stay the arrays they are. Arrow then
lays the segments of a record behind one another, for all records in one step.
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


@dataclass(frozen=True)
class ShortSegment:
    """A few bytes per record: row i of `cells`, where `used` says so."""

    cells: Bytes
    used: Mask

    def sizes(self) -> npt.NDArray[np.int64]:
        return np.count_nonzero(self.used, axis=1)


Segment = Any  # a ShortSegment, or a binary array without nulls


def encode_records(rows: pa.Table, layout: AvroLayout, *, with_length: bool) -> pa.Buffer:
    """The records of a table with exactly the columns of the layout, one behind the other.

    `with_length` puts the length of each record before it, in four bytes.

    Raises:
        SchemaError: a value is null, or too great, where the schema does not allow it.
    """
    columns = [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in rows.columns]
    segments: list[Segment] = []
    for name, node, column in zip(layout.record.names, layout.record.fields, columns, strict=True):
        segments += encode_values(node, column, name)
    segments = fuse_segments(segments)
    if with_length:
        sizes = sum((_sizes(segment) for segment in segments), np.zeros(rows.num_rows, np.int64))
        segments = fuse_segments([_filled(sizes.astype(">i4").view(np.uint8).reshape(-1, 4)), *segments])
    return value_bytes(join_segments(segments, rows.num_rows))


def encode_values(node: Node, array: Any, name: str) -> list[Segment]:
    """The segments of a column, in their order within a record."""
    if isinstance(node, UnionNode):
        return _union(node, array, name)
    if array.null_count:
        raise SchemaError(f"column {name!r} holds null, which its schema does not allow; make the column nullable or fill it")
    return _values(node, array, name)


def _union(node: UnionNode, array: Any, name: str) -> list[Segment]:
    if node.null_at is None or not array.null_count:
        branch = np.full((len(array), 1), node.value_at * 2, np.uint8)
        return [_filled(branch), *encode_values(node.value, array, name)]
    filled = pc.is_valid(array).to_numpy(zero_copy_only=False)
    branch = np.where(filled, node.value_at * 2, node.null_at * 2).astype(np.uint8)[:, None]
    segments = [scatter_segment(segment, filled) for segment in encode_values(node.value, array.drop_null(), name)]
    return [_filled(branch), *segments]


def scatter_segment(segment: Segment, filled: Mask) -> Segment:
    """A segment of the values that are there, with nothing where there is none."""
    if isinstance(segment, ShortSegment):
        cells = np.zeros((len(filled), segment.cells.shape[1]), np.uint8)
        used = np.zeros(cells.shape, bool)
        cells[filled], used[filled] = segment.cells, segment.used
        return ShortSegment(cells, used)
    sizes = np.zeros(len(filled), np.int64)
    sizes[filled] = _sizes(segment)
    return _binary(_offsets_of(sizes), value_bytes(segment))


def _values(node: Node, array: Any, name: str) -> list[Segment]:
    """The segments of values of which none is null."""
    match node:
        case SizedNode():
            return _sized(array)
        case IntegerNode():
            return [_varints(_integers(array))]
        case FixedNode(size=size):
            return [_filled(_raw(array, size))]
        case BooleanNode():
            return [_filled(array.cast(pa.uint8()).to_numpy().reshape(-1, 1))]
        case DecimalNode(size=size):
            return _decimals(_raw(array, 16), size, name)
        case EnumNode(symbols=symbols):
            return [_varints(_choices(array, symbols, name))]
        case RecordNode(names=names, fields=fields):
            children = zip(names, fields, array.flatten(), strict=True)
            return [segment for inner, field, child in children for segment in encode_values(field, child, f"{name}.{inner}")]
        case ArrayNode(item=item):
            first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
            child = array.values.slice(first, last - first)
            return _lists(array, join_segments(fuse_segments(encode_values(item, child, f"{name}.element")), len(child)))
        case MapNode(value=value):
            first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
            keys, values = (child.slice(first, last - first) for child in (array.keys, array.items))
            segments = [
                *encode_values(SizedNode(pa.string()), keys, f"{name}.key"),
                *encode_values(value, values, f"{name}.value"),
            ]
            return _lists(array, join_segments(fuse_segments(segments), last - first))
    raise AssertionError(node)


def _lists(array: Any, items: Any) -> list[Segment]:
    """Lists of items that are encoded already: how many, the items, and the end."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    counts = np.diff(offsets)
    head = _varints(counts)
    head.used[counts == 0] = False
    bounds = np.frombuffer(items.buffers()[1], np.int32, len(items) + 1, items.offset * 4)
    body = _binary(bounds[offsets - offsets[0]], items.buffers()[2])
    return [head, body, _filled(np.zeros((len(array), 1), np.uint8))]


def _sized(array: Any) -> list[Segment]:
    binary = array if array.type.equals(pa.binary()) else array.view(pa.binary())
    return [_varints(_sizes(binary)), binary]


def _integers(array: Any) -> npt.NDArray[np.int64]:
    width = array.type.bit_width
    numbers = array.view(pa.int32() if width == 32 else pa.int64()).to_numpy()
    return np.asarray(numbers, np.int64)


def _varints(numbers: npt.NDArray[np.int64]) -> ShortSegment:
    """Zigzag, seven bits to a byte, low bits first."""
    raw = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    most = int(raw.max()) if len(raw) else 0
    width = max(1, -(-most.bit_length() // 7))
    if width == 1:
        return _filled(raw.astype(np.uint8).reshape(-1, 1))
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    groups = raw[:, None] >> shifts
    used = groups != 0
    used[:, 0] = True
    cells = (groups & np.uint64(0x7F)).astype(np.uint8)
    cells[:, :-1] |= used[:, 1:].astype(np.uint8) << 7
    return ShortSegment(cells, used)


def _raw(array: Any, size: int) -> Bytes:
    """The bytes of an array of values of one size, as a matrix."""
    data = array.buffers()[1]
    if data is None or not size:
        return np.zeros((len(array), size), np.uint8)
    return np.frombuffer(data, np.uint8, len(array) * size, array.offset * size).reshape(-1, size)


def _decimals(little: Bytes, size: int | None, name: str) -> list[Segment]:
    """Whole numbers of sixteen bytes, big end first, in `size` bytes or as few as each needs."""
    big = little[:, ::-1]
    sign = np.where(big[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    if size is not None and size >= 16:
        return [_filled(np.hstack([np.repeat(sign, size - 16, axis=1), big]))]
    # A byte is needed from the first one on that is not the sign, or whose high bit would change it.
    differs = (big != sign) | np.hstack([np.zeros_like(sign, bool), ((big[:, 1:] ^ sign) >= 0x80)])
    carries = np.hstack([((big[:, 1:] ^ sign) >= 0x80), np.ones_like(sign, bool)])
    needed = np.logical_or.accumulate(differs | carries, axis=1)
    if size is None:
        return [_varints(np.count_nonzero(needed, axis=1)), ShortSegment(np.ascontiguousarray(big), needed)]
    if needed[:, : 16 - size].any():
        raise SchemaError(f"column {name!r} holds a decimal that does not fit the {size} bytes of its schema")
    return [_filled(np.ascontiguousarray(big[:, 16 - size :]))]


def _choices(array: Any, symbols: tuple[str, ...], name: str) -> npt.NDArray[np.int64]:
    found = pc.index_in(array, value_set=pa.array(symbols, array.type))
    if found.null_count:
        stranger = array.filter(pc.is_null(found))[0].as_py()
        raise SchemaError(f"column {name!r} holds {stranger!r}, which is none of its enum's symbols: {', '.join(symbols)}")
    return np.asarray(found.to_numpy(), np.int64)


def _filled(cells: Bytes) -> ShortSegment:
    return ShortSegment(cells, np.ones(cells.shape, bool))


def fuse_segments(segments: list[Segment]) -> list[Segment]:
    """Neighbouring short segments put side by side."""
    fused: list[Segment] = []
    run: list[ShortSegment] = []
    for segment in [*segments, None]:
        if isinstance(segment, ShortSegment):
            run.append(segment)
            continue
        if run:
            fused.append(
                ShortSegment(np.hstack([s.cells for s in run]), np.hstack([s.used for s in run])) if len(run) > 1 else run[0]
            )
            run = []
        if segment is not None:
            fused.append(segment)
    return fused


def join_segments(segments: list[Segment], count: int) -> Any:
    """One binary value per record: its segments, one behind the other."""
    if not count or not segments:
        return _binary(np.zeros(count + 1, np.int64), pa.py_buffer(b""))
    arrays = [_flattened(segment) if isinstance(segment, ShortSegment) else segment for segment in segments]
    if len(arrays) == 1:
        return _compact(arrays[0])
    if sum(int(_sizes(array).sum()) for array in arrays) >= 2**31:
        raise SchemaError("rows of more than 2 GiB cannot be one run of Avro records: write them in smaller blocks")
    order = np.arange(count, dtype=np.int32)[:, None] + np.arange(len(arrays), dtype=np.int32) * count
    taken = pa.concat_arrays(arrays).take(pa.array(order.ravel()))
    offsets = np.frombuffer(taken.buffers()[1], np.int32, len(taken) + 1, taken.offset * 4)
    return _binary(offsets[:: len(arrays)], taken.buffers()[2])


def _flattened(segment: ShortSegment) -> Any:
    data = segment.cells.ravel() if segment.used.all() else segment.cells[segment.used]
    return _binary(_offsets_of(segment.sizes()), pa.py_buffer(np.ascontiguousarray(data)))


def _compact(array: Any) -> Any:
    """The same values, with their bytes alone in the buffer."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    return _binary(offsets - offsets[0], value_bytes(array))


def value_bytes(array: Any) -> pa.Buffer:
    """The bytes of all values of a binary array."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    data = array.buffers()[2]
    return pa.py_buffer(b"") if data is None else data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _sizes(segment: Segment) -> npt.NDArray[np.int64]:
    if isinstance(segment, ShortSegment):
        return segment.sizes()
    if not len(segment):
        return np.zeros(0, np.int64)
    return np.diff(np.frombuffer(segment.buffers()[1], np.int32, len(segment) + 1, segment.offset * 4)).astype(np.int64)


def _offsets_of(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _binary(offsets: Any, data: pa.Buffer) -> Any:
    narrow = np.ascontiguousarray(offsets, np.int32)
    return pa.Array.from_buffers(pa.binary(), len(narrow) - 1, [None, pa.py_buffer(narrow), data], null_count=0)
