"""Reads and writes the content of delete blocks: deleted record keys, each with its partition path and ordering value.

The content is one Avro list of records. This module calls them entries. The ordering value is a union of null and eleven wrapper
records (`orderingVal` of Hudi's `HoodieDeleteRecord`), each with one field of a different type. The number of the type in the
union is called branch. A delete without an ordering value is written with the int 0. It removes the row whatever the row's
ordering value is. Null is never written, because Hudi fails on it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import CorruptFile, SchemaError, Unsupported
from penstock.formats.avro.decode import ColumnDecoder
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
from penstock.formats.avro.varints import Offsets

CONTENT_VERSION = 3


class Branch(int, Enum):
    """The type of an ordering value in a delete block: its branch of the union `orderingVal`. Branch 0 is null."""

    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11


#: The branch of deletes without an ordering value: the int 0.
ALWAYS = Branch.INT

#: The fewest bytes of a delete: one byte for each of its three unions.
_LEAST_BYTES = 3
_HEAD = struct.Struct(">ii")  # version, size of the list
_TEXT = UnionNode(pa.string(), SizedNode(pa.string()), 0, 1)

#: The encoding of the value of each branch.
_NODES: dict[Branch, Node] = {
    Branch.BOOLEAN: BooleanNode(pa.bool_()),
    Branch.INT: IntegerNode(pa.int32(), 32),
    Branch.LONG: IntegerNode(pa.int64(), 64),
    Branch.FLOAT: FixedNode(pa.float32(), 4),
    Branch.DOUBLE: FixedNode(pa.float64(), 8),
    Branch.BYTES: SizedNode(pa.binary()),
    Branch.STRING: SizedNode(pa.string()),
    Branch.DATE: IntegerNode(pa.date32(), 32),
    Branch.DECIMAL: DecimalNode(pa.decimal128(30, 15), None),
    Branch.TIME_MICROS: IntegerNode(pa.time64("us"), 64),
    Branch.TIMESTAMP_MICROS: IntegerNode(pa.timestamp("us", "UTC"), 64),
}
#: The branch of a column's type. Decimals and timestamps have several types and are handled in `_choose_branch`.
_BRANCH_OF = {node.arrow: branch for branch, node in _NODES.items() if branch not in (Branch.DECIMAL, Branch.TIMESTAMP_MICROS)}


@dataclass(frozen=True)
class Deletes:
    """The entries of a delete block, as columns.

    Attributes:
        keys: the record keys, an array of strings.
        partitions: the partition paths, an array of strings.
        branches: the branch (type) of each ordering value; 0 for null.
        values: branch → ordering values, for each branch that occurs. Each array is as long as `keys`, with null where the
            ordering value has another branch.
    """

    keys: Any
    partitions: Any
    branches: npt.NDArray[np.int8]
    values: Mapping[int, Any]

    def __len__(self) -> int:
        return len(self.keys)

    def ordering(self, kind: Any) -> Any:
        """Return the ordering value of each entry as a column of the Arrow type `kind`, the type of the table's ordering column.

        The result is null for an entry that deletes its key whatever the row's ordering value is. It has no ordering value, or
        one of a type that Hudi does not compare with `kind`.

        Raises:
            CorruptFile: a decimal has more digits than the column.
        """
        ordering = pa.nulls(len(self), kind)
        for branch in _comparable_branches(kind):
            if branch in self.values:
                ordering = pc.coalesce(ordering, _cast_ordering(self.values[branch], branch, kind))
        return ordering


def build_deletes(keys: Any, partitions: Any, ordering: Any = None) -> Deletes:
    """Build the entries of a delete block from columns of equal length.

    Args:
        keys: the deleted record keys.
        partitions: the partition path of each key.
        ordering: the ordering value of each delete. If it is None, or null for an entry, the delete applies whatever the row's
            ordering value is.

    Raises:
        SchemaError: the columns differ in length, a key or partition path is null, or a delete block cannot hold ordering values
            of this type.
    """
    keys = _to_string_array(keys)
    partitions = _to_string_array(partitions)
    if len(keys) != len(partitions) or (ordering is not None and len(ordering) != len(keys)):
        raise SchemaError("deletes need as many partition paths and ordering values as keys")
    if keys.null_count or partitions.null_count:
        raise SchemaError("a delete needs a record key and a partition path; there is a null among them")
    branches = np.full(len(keys), ALWAYS, np.int8)
    values: dict[int, Any] = {}
    if ordering is not None:
        array = ordering.combine_chunks() if isinstance(ordering, pa.ChunkedArray) else ordering
        branch, array = _choose_branch(array)
        branches[pc.is_valid(array).to_numpy(zero_copy_only=False)] = branch
        values[branch] = array
    if (branches == ALWAYS).any():
        if ALWAYS in values:
            values[ALWAYS] = pc.coalesce(values[ALWAYS], pa.scalar(0, pa.int32()))
        else:
            values[ALWAYS] = pa.array(np.zeros(len(keys), np.int32), mask=branches != ALWAYS)
    return Deletes(keys, partitions, branches, values)


def encode_deletes(deletes: Deletes) -> bytes:
    """Encode the entries of a delete block as the block's content."""
    count = len(deletes)
    segments = encode_values(_TEXT, deletes.keys, "record key")
    segments += encode_values(_TEXT, deletes.partitions, "partition path")
    zigzag_branches = (deletes.branches[:, None] * 2).astype(np.uint8)
    segments.append(ShortSegment(zigzag_branches, np.ones((count, 1), bool)))
    for branch, values in deletes.values.items():
        has_branch = deletes.branches == branch
        dense = values.filter(pa.array(has_branch))
        for segment in encode_values(_NODES[Branch(branch)], dense, "ordering value"):
            segments.append(scatter_segment(segment, has_branch))
    items = value_bytes(join_segments(fuse_segments(segments), count))
    head = _encode_count(count) if count else b""
    end = b"\0"
    size = len(head) + items.size + len(end)
    return b"".join([_HEAD.pack(CONTENT_VERSION, size), head, items, end])


def decode_deletes(content: Any) -> Deletes:
    """Decode the content of a delete block.

    Raises:
        CorruptFile: the bytes are not a list of delete entries.
        Unsupported: the content was serialised by Java, as before Hudi 0.13.
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
    deletes = _decode_equal_sizes(data)
    if deletes is None:
        starts, ends = _find_deletes(data)
        deletes = _decode_between(data, starts, ends)
    return deletes


def _decode_equal_sizes(data: pa.Buffer) -> Deletes | None:
    """Decode delete entries that all have the same number of bytes, as is common with keys of one form; otherwise return None.

    Saves the slow loop of `_find_deletes`. Whether the entries have equal sizes is a guess from the total size. A wrong guess is
    detected: decoding fails if an entry does not end where the next one begins.

    Args:
        data: the content of the delete block, without the version and size at its beginning.
    """
    if not data.size:
        return None
    count, first = _read_count(data)
    room = data.size - first - 1
    if count <= 0 or room % count or room // count < _LEAST_BYTES or memoryview(data)[data.size - 1] != 0:
        return None
    size = room // count
    starts = np.arange(count, dtype=np.int64) * size + first
    try:
        return _decode_between(data, starts, starts + size)
    except CorruptFile:
        return None


def _decode_between(data: pa.Buffer, starts: Offsets, ends: Offsets) -> Deletes:
    """Decode the delete entries that begin at `starts`. Raises CorruptFile if one does not end exactly where `ends` says."""
    decoder = ColumnDecoder(data, allow_uneven=True)
    keys, at = decoder.decode_values(_TEXT, starts, ends)
    partitions, at = decoder.decode_values(_TEXT, at, ends)
    if (at >= ends).any():
        raise CorruptFile("a delete reaches past its end")
    zigzag_branches = np.frombuffer(data, np.uint8)[at]
    at = at + 1
    values: dict[int, Any] = {}
    for zigzag in np.unique(zigzag_branches).tolist():
        if zigzag == 0:
            continue  # null: no ordering value
        branch = _branch_of(zigzag)
        has_branch = zigzag_branches == zigzag
        dense, at[has_branch] = decoder.decode_values(_NODES[branch], at[has_branch], ends[has_branch])
        values[branch] = dense if has_branch.all() else dense.take(pa.array(np.cumsum(has_branch) - 1, mask=~has_branch))
    if not np.array_equal(at, ends):
        raise CorruptFile("a delete does not end where the next one begins")
    return Deletes(keys, partitions, (zigzag_branches // 2).astype(np.int8), values)


def _branch_of(zigzag: int) -> Branch:
    """Return the branch (type of an ordering value) for the byte that encodes it, which is twice the number of the branch.

    Raises CorruptFile if the byte encodes no branch.
    """
    if zigzag % 2 or zigzag // 2 > max(Branch):
        raise CorruptFile(f"a delete has an ordering value of type {zigzag / 2:g}, which there is not")
    return Branch(zigzag // 2)


def _find_deletes(data: pa.Buffer) -> tuple[Offsets, Offsets]:
    """Return (offsets where delete entries begin, offsets where they end).

    Args:
        data: the content of the delete block, without the version and size at its beginning.
    """
    view = data.to_pybytes()
    starts = []
    ends = []
    try:
        count, at = _read_long(view, 0)
        while count:
            if count < 0:  # Avro: a negative count is followed by the size of the run in bytes
                count = -count
                _, at = _read_long(view, at)
            if count > len(view):
                raise CorruptFile(f"a delete block of {len(view)} bytes claims {count} deletes")
            for _ in range(count):  # a loop over deletes: only the end of a delete says where the next one begins
                starts.append(at)
                at = _skip_delete(view, at)
                ends.append(at)
            count, at = _read_long(view, at)
    except IndexError:
        raise CorruptFile("a delete block ends inside a delete") from None
    if at != len(view):
        raise CorruptFile(f"a delete block of {len(view)} bytes has deletes up to byte {at}")
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _read_count(data: pa.Buffer) -> tuple[int, int]:
    """Return (number of delete entries in the first part of the Avro list, offset of the first entry).

    An Avro list has one or several parts, each preceded by its number of entries.
    """
    try:
        return _read_long(memoryview(data).cast("B"), 0)
    except IndexError:
        raise CorruptFile("a delete block ends inside its first number") from None


def _skip_delete(view: bytes, at: int) -> int:
    """Return the offset after the delete entry at offset `at`. Damage inside the entry is only found when it is decoded.

    Tries the form of nearly all entries first: two strings of less than 64 bytes, and an int or a long.
    """
    if view[at] == 2 and view[at + 1] < 0x80:
        path_at = at + 2 + (view[at + 1] >> 1)
        if view[path_at] == 2 and view[path_at + 1] < 0x80:
            value_at = path_at + 2 + (view[path_at + 1] >> 1)
            if view[value_at] in (2 * Branch.INT, 2 * Branch.LONG):
                value_at += 1
                while view[value_at] >= 0x80:
                    value_at += 1
                return value_at + 1
    return _skip_any_delete(view, at)


def _skip_any_delete(view: bytes, at: int) -> int:
    """Return the offset after the delete entry at offset `at`, whatever the form of the entry."""
    for _ in range(2):  # the key and the partition path
        zigzag = view[at]
        at += 1
        if zigzag == 2:
            length, at = _read_long(view, at)
            at += max(0, length)
        elif zigzag:
            raise CorruptFile(f"a delete has a text of type {zigzag / 2:g}, which there is not")
    zigzag = view[at]
    at += 1
    if not zigzag:
        return at
    node = _NODES[_branch_of(zigzag)]
    size = constant_size(node)
    if size is not None:
        return at + size
    number, at = _read_long(view, at)
    return at if isinstance(node, IntegerNode) else at + max(0, number)


def _read_long(view: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return (Avro long at offset `at`, offset after it)."""
    zigzag = 0
    shift = 0
    while True:
        byte = view[at]
        zigzag |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), at
        if shift > 63:
            raise CorruptFile("a number of more than 64 bits")


def _encode_count(count: int) -> bytes:
    """Encode a number that is not negative as an Avro long."""
    rest = count << 1
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _to_string_array(column: Any) -> Any:
    """Return a column as one array of strings."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if array.type.equals(pa.string()) else array.cast(pa.string())


def _choose_branch(ordering: Any) -> tuple[Branch, Any]:
    """Return (branch of the union `orderingVal` for a column of ordering values, the column cast to the type of that branch).

    A timestamp is written as a long, a time in milliseconds as an int. Hudi compares two ordering values only if they have the
    same Java class, and for these types the ordering value of a row is a Long or an Integer.
    """
    kind = ordering.type
    if pa.types.is_decimal(kind):
        try:
            return Branch.DECIMAL, ordering.cast(_NODES[Branch.DECIMAL].arrow)
        except pa.ArrowInvalid as cause:
            raise SchemaError(
                f"an ordering value of type {kind} does not fit decimal(30,15), which deletes hold: {cause}"
            ) from cause
    if pa.types.is_timestamp(kind):
        return Branch.LONG, ordering.view(pa.int64())
    if pa.types.is_time32(kind):
        return Branch.INT, ordering.view(pa.int32())
    if kind not in _BRANCH_OF:
        raise SchemaError(f"the ordering field has the type {kind}, which a delete cannot hold: choose another ordering field")
    return _BRANCH_OF[kind], ordering


def _comparable_branches(kind: Any) -> tuple[Branch, ...]:
    """Return the branches (types of ordering values) that Hudi compares with an ordering column of the Arrow type `kind`."""
    if pa.types.is_decimal(kind):
        return (Branch.DECIMAL,)
    if pa.types.is_timestamp(kind):
        return (Branch.LONG, Branch.TIMESTAMP_MICROS)
    if pa.types.is_time32(kind):
        return (Branch.INT,)
    if pa.types.is_time64(kind):
        return (Branch.TIME_MICROS, Branch.LONG)
    if pa.types.is_date(kind):
        return (Branch.DATE, Branch.INT)
    return (_BRANCH_OF[kind],) if kind in _BRANCH_OF else ()


def _cast_ordering(values: Any, branch: Branch, kind: Any) -> Any:
    """Cast ordering values of one branch (type) to the Arrow type `kind`. The int 0 means no ordering value and becomes null."""
    if branch is ALWAYS:
        values = pc.if_else(pc.equal(values, 0), pa.scalar(None, pa.int32()), values)
    if values.type.equals(kind):
        return values
    if branch in (Branch.INT, Branch.LONG):
        return values.view(kind)
    is_timestamp = branch is Branch.TIMESTAMP_MICROS
    if is_timestamp and kind.tz is None:
        # The stored number is kept: both count from the epoch in UTC.
        in_utc = pc.cast(values, pa.timestamp(kind.unit, "UTC"), safe=False)
        return in_utc.view(pa.int64()).view(kind)
    try:
        return pc.cast(values, kind, safe=not is_timestamp)
    except pa.ArrowInvalid as cause:
        raise CorruptFile(f"an ordering value of a delete does not fit {kind}: {cause}") from cause
