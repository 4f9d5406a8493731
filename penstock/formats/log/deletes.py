"""The content of a log's delete blocks: keys that were deleted, each with the ordering value of its delete.

Kernel: content bytes to Arrow arrays and back. On disk it is one Avro list, whose ordering values are records wrapped
around one value of eleven types. A delete without an ordering value holds the int 0, which means that it always applies;
null is never written, since Hudi fails on it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import CorruptFile, SchemaError, Unsupported
from penstock.formats.avro.decode import ColumnDecoder, Offsets
from penstock.formats.avro.encode import ShortSegment, encode_values, fuse_segments, join_segments, scatter_segment, value_bytes
from penstock.formats.avro.layout import (
    BooleanNode,
    DecimalNode,
    FixedNode,
    IntegerNode,
    Node,
    SizedNode,
    UnionNode,
    constant_size,
)

CONTENT_VERSION = 3
ALWAYS = 2  # the branch of the int, whose 0 stands for no ordering value

_LEAST_BYTES = 3  # of a delete: three branches
_HEAD = struct.Struct(">ii")
_TEXT = UnionNode(pa.string(), SizedNode(pa.string()), 0, 1)
_MOMENT = pa.timestamp("us", "UTC")

#: What each branch of the union wraps: boolean, int, long, float, double, bytes, string, date, decimal, time, timestamp.
WRAPPED: dict[int, Node] = {
    1: BooleanNode(pa.bool_()),
    2: IntegerNode(pa.int32(), 32),
    3: IntegerNode(pa.int64(), 64),
    4: FixedNode(pa.float32(), 4),
    5: FixedNode(pa.float64(), 8),
    6: SizedNode(pa.binary()),
    7: SizedNode(pa.string()),
    8: IntegerNode(pa.date32(), 32),
    9: DecimalNode(pa.decimal128(30, 15), None),
    10: IntegerNode(pa.time64("us"), 64),
    11: IntegerNode(_MOMENT, 64),
}
_BRANCH_OF = {node.arrow: branch for branch, node in WRAPPED.items() if branch not in (9, 11)}


@dataclass(frozen=True)
class Deletes:
    """Deleted keys. `branches` has the type of each ordering value, `values` for each type that occurs the values.

    An array in `values` is as long as `keys`, and null where the value is of another type.
    """

    keys: Any  # strings
    partitions: Any  # strings
    branches: npt.NDArray[np.int8]
    values: Mapping[int, Any]

    def __len__(self) -> int:
        return len(self.keys)

    def ordering(self, kind: Any) -> Any:
        """The ordering values as they compare with a column of this Arrow type; null where the delete always applies.

        It does where it has no ordering value, and where its value is of a type that Hudi does not compare with the column's.

        Raises:
            CorruptFile: a decimal has more digits than the column.
        """
        found = pa.nulls(len(self), kind)
        for branch in _comparable(kind):
            if branch in self.values:
                found = pc.coalesce(found, _as_column(self.values[branch], branch, kind))
        return found


def build_deletes(keys: Any, partitions: Any, ordering: Any = None) -> Deletes:
    """Deletes to be written: all always apply without `ordering`, and those whose ordering value is null.

    Moments are written as the long they are in Avro: that is the class that Hudi compares them by.

    Raises:
        SchemaError: the columns differ in length, a key is null, or the ordering field has a type that a delete cannot hold.
    """
    keys, partitions = _one(keys, pa.string()), _one(partitions, pa.string())
    if len(keys) != len(partitions) or (ordering is not None and len(ordering) != len(keys)):
        raise SchemaError("deletes need as many partition paths and ordering values as keys")
    if keys.null_count or partitions.null_count:
        raise SchemaError("a delete needs a record key and a partition path; there is a null among them")
    branches, values = np.full(len(keys), ALWAYS, np.int8), {}
    if ordering is not None:
        branch, ordering = _wrapped(ordering.combine_chunks() if isinstance(ordering, pa.ChunkedArray) else ordering)
        filled = pc.is_valid(ordering).to_numpy(zero_copy_only=False)
        branches[filled], values[branch] = branch, ordering
    if (branches == ALWAYS).any():
        zeros = pa.array(np.zeros(len(keys), np.int32), mask=branches != ALWAYS)
        values[ALWAYS] = pc.coalesce(values[ALWAYS], pa.scalar(0, pa.int32())) if ALWAYS in values else zeros
    return Deletes(keys, partitions, branches, values)


def encode_deletes(deletes: Deletes) -> bytes:
    """The content of a delete block."""
    count = len(deletes)
    segments = [*encode_values(_TEXT, deletes.keys, "record key"), *encode_values(_TEXT, deletes.partitions, "partition path")]
    segments.append(ShortSegment((deletes.branches[:, None] * 2).astype(np.uint8), np.ones((count, 1), bool)))
    for branch, values in deletes.values.items():
        has = deletes.branches == branch
        segments += [
            scatter_segment(segment, has)
            for segment in encode_values(WRAPPED[branch], values.filter(pa.array(has)), "ordering value")
        ]
    items = value_bytes(join_segments(fuse_segments(segments), count))
    head = _varint(count) if count else b""
    size = len(head) + items.size + 1
    return b"".join([_HEAD.pack(CONTENT_VERSION, size), head, items, b"\0"])


def decode_deletes(content: Any) -> Deletes:
    """The deletes of a block's content.

    Raises:
        CorruptFile: the bytes are no list of deletes.
        Unsupported: they were serialised by Java, as before Hudi 0.13.
    """
    buffer = pa.py_buffer(content)
    if buffer.size < _HEAD.size:
        raise CorruptFile(f"a delete block of {buffer.size} bytes has no head")
    version, size = _HEAD.unpack_from(buffer)
    if version in (1, 2):
        raise Unsupported(
            f"a delete block of content version {version}, which only Java can read: compact the table with Hudi first"
        )
    if version != CONTENT_VERSION or size != buffer.size - _HEAD.size:
        raise CorruptFile(f"a delete block of content version {version} with {size} of {buffer.size - _HEAD.size} bytes")
    data = buffer.slice(_HEAD.size)
    return _evenly_decoded(data) or _decoded(data, *_record_places(data))


def _evenly_decoded(data: pa.Buffer) -> Deletes | None:
    """The deletes if all are of one size, as with keys of one form: decoding proves it, since the end of each one fits."""
    if not data.size:
        return None
    count, at = _count_at(data)
    room = data.size - at - 1
    if count <= 0 or room % count or room // count < _LEAST_BYTES or memoryview(data)[data.size - 1] != 0:
        return None
    starts = np.arange(count, dtype=np.int64) * (room // count) + at
    try:
        return _decoded(data, starts, starts + room // count)
    except CorruptFile:
        return None


def _decoded(data: pa.Buffer, at: Offsets, ends: Offsets) -> Deletes:
    """The deletes at these places, each of which must end where the next begins."""
    reader = ColumnDecoder(data, allow_uneven=True)
    keys, at = reader.decode_values(_TEXT, at, ends)
    partitions, at = reader.decode_values(_TEXT, at, ends)
    if (at >= ends).any():
        raise CorruptFile("a delete reaches past its end")
    marks = np.frombuffer(data, np.uint8)[at]
    at = at + 1
    values = {}
    for mark in np.unique(marks).tolist():
        has = marks == mark
        if mark == 0:
            continue  # no ordering value at all
        if mark % 2 or mark // 2 not in WRAPPED:
            raise CorruptFile(f"a delete has an ordering value of type {mark / 2:g}, which there is not")
        dense, at[has] = reader.decode_values(WRAPPED[mark // 2], at[has], ends[has])
        values[mark // 2] = dense if has.all() else dense.take(pa.array(np.cumsum(has) - 1, mask=~has))
    if not np.array_equal(at, ends):
        raise CorruptFile("a delete does not end where the next one begins")
    return Deletes(keys, partitions, (marks // 2).astype(np.int8), values)


def _record_places(data: pa.Buffer) -> tuple[Offsets, Offsets]:
    """Where each delete begins and ends."""
    view = data.to_pybytes()
    try:
        count, at = _signed_at(view, 0)
        starts, ends = [], []
        while count:
            if count < 0:
                count, at = -count, _signed_at(view, at)[1]
            if count > len(view):
                raise CorruptFile(f"a delete block of {len(view)} bytes claims {count} deletes")
            for _ in range(count):  # one list: only the end of a delete tells where the next one is
                starts.append(at)
                at = _behind(view, at)
                ends.append(at)
            count, at = _signed_at(view, at)
    except IndexError:
        raise CorruptFile("a delete block ends inside a delete") from None
    if at != len(view):
        raise CorruptFile(f"a delete block of {len(view)} bytes has deletes up to byte {at}")
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _count_at(data: pa.Buffer) -> tuple[int, int]:
    """How many deletes the list begins with, and where the first one is."""
    try:
        return _signed_at(memoryview(data).cast("B"), 0)
    except IndexError:
        raise CorruptFile("a delete block ends inside its first number") from None


def _behind(view: bytes, at: int) -> int:
    """Where the delete that begins here ends. What is wrong inside of it is found when it is decoded."""
    if view[at] == 2 and view[at + 1] < 0x80:
        path_at = at + 2 + (view[at + 1] >> 1)
        if view[path_at] == 2 and view[path_at + 1] < 0x80:
            value_at = path_at + 2 + (view[path_at + 1] >> 1)
            if view[value_at] in (4, 6):  # short texts, and an int or a long: nearly all there are
                value_at += 1
                while view[value_at] >= 0x80:
                    value_at += 1
                return value_at + 1
    return _behind_any(view, at)


def _behind_any(view: bytes, at: int) -> int:
    for _ in range(2):
        branch, at = view[at], at + 1
        if branch == 2:
            length, at = _signed_at(view, at)
            at += max(0, length)
        elif branch:
            raise CorruptFile(f"a delete has a text of type {branch / 2:g}, which there is not")
    branch, at = view[at], at + 1
    if not branch:
        return at
    node = WRAPPED.get(branch // 2) if branch % 2 == 0 else None
    if node is None:
        raise CorruptFile(f"a delete has an ordering value of type {branch / 2:g}, which there is not")
    if (size := constant_size(node)) is not None:
        return at + size
    number, at = _signed_at(view, at)
    return at if isinstance(node, IntegerNode) else at + max(0, number)


def _signed_at(view: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at a place, and where it ends."""
    raw = shift = 0
    while True:
        byte = view[at]
        raw |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
        if shift > 63:
            raise CorruptFile("a number of more than 64 bits")


def _varint(number: int) -> bytes:
    raw, out = number << 1, bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _one(column: Any, kind: Any) -> Any:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if array.type.equals(kind) else array.cast(kind)


def _wrapped(ordering: Any) -> tuple[int, Any]:
    """The branch for a column, and the column as that branch holds it."""
    kind = ordering.type
    if pa.types.is_decimal(kind):
        try:
            return 9, ordering.cast(WRAPPED[9].arrow)
        except pa.ArrowInvalid as cause:
            raise SchemaError(
                f"an ordering value of type {kind} does not fit decimal(30,15), which deletes hold: {cause}"
            ) from cause
    if pa.types.is_timestamp(kind):
        return 3, ordering.view(pa.int64())
    if pa.types.is_time32(kind):
        return 2, ordering.view(pa.int32())
    if kind not in _BRANCH_OF:
        raise SchemaError(f"the ordering field has the type {kind}, which a delete cannot hold: choose another ordering field")
    return _BRANCH_OF[kind], ordering


def _comparable(kind: Any) -> tuple[int, ...]:
    """The types of ordering values that compare with a column."""
    if pa.types.is_decimal(kind):
        return (9,)
    if pa.types.is_timestamp(kind):
        return (3, 11)
    if pa.types.is_time32(kind):
        return (2,)
    if pa.types.is_time64(kind):
        return (10, 3)
    if pa.types.is_date(kind):
        return (8, 2)
    return (_BRANCH_OF[kind],) if kind in _BRANCH_OF else ()


def _as_column(values: Any, branch: int, kind: Any) -> Any:
    if branch == ALWAYS:
        values = pc.if_else(pc.equal(values, 0), pa.scalar(None, pa.int32()), values)
    if values.type.equals(kind):
        return values
    if branch in (2, 3):
        return values.view(kind)
    if branch == 11 and kind.tz is None:
        kind_utc = pa.timestamp(kind.unit, "UTC")
        return pc.cast(values, kind_utc, safe=False).view(pa.int64()).view(kind)
    try:
        return pc.cast(values, kind, safe=branch != 11)
    except pa.ArrowInvalid as cause:
        raise CorruptFile(f"an ordering value of a delete does not fit {kind}: {cause}") from cause
