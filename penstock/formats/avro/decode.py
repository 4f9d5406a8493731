"""Avro values at many places at once: the reading half of `avro_columns`.

Kernel. Records do not have to be walked one by one: the place where a field begins is an array with one number per
record, and the end of one field is the beginning of the next. So each field is decoded for all records at once, and the
slices of text are gathered by Arrow. Every length is checked against the end of its record before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import CorruptFile
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
    constant_size,
    min_size,
)

FEWEST_PER_STEP = 16  # lists so uneven that a step of all lists moves fewer than this are better read record by record
_EMPTY_ITEMS = 1 << 16  # most items in a list whose items take no bytes

Offsets = npt.NDArray[np.int64]


class UnevenLists(Exception):
    """Lists of very different lengths: going through them side by side would move few at a time."""


class ColumnDecoder:
    """Decodes values that begin at many places of one buffer at once.

    `at` has the beginning of a value for each record, `ends` the end of that record; both grow. A method gives the values
    and the places behind them. No place ever passes the end of its record.
    """

    def __init__(self, buffer: pa.Buffer, *, allow_uneven: bool) -> None:
        self._short = buffer.size < 8
        self._buffer = pa.py_buffer(buffer.to_pybytes() + bytes(8)) if self._short else buffer
        self._bytes = np.frombuffer(self._buffer, np.uint8)
        self._allow_uneven = allow_uneven
        self._words: Any = self._every(8)

    def record(self, layout: AvroLayout, at: Offsets, ends: Offsets, target: pa.Schema) -> list[Any]:
        """The columns of `target`, of records that begin at `at` and fill the room to `ends`."""
        found = {}
        for name, node in zip(layout.record.names, layout.record.fields, strict=True):
            try:
                if name in target.names:
                    found[name], at = self.values(node, at, ends)
                else:
                    at = self.skip(node, at, ends)
            except CorruptFile as cause:
                raise CorruptFile(f"column {name!r} of an Avro block: {cause}") from cause
        if not np.array_equal(at, ends):
            raise CorruptFile(f"record {int(np.flatnonzero(at != ends)[0])} of an Avro block does not end where its length says")
        return [found[name] for name in target.names]

    def values(self, node: Node, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        """The values that begin at these places, and where they end."""
        if not len(at):
            return pa.array([], node.arrow), at
        match node:
            case UnionNode():
                return self._union(node, at, ends)
            case SizedNode():
                starts, stops = self._sized(at, ends)
                return self._text(starts, stops, node.arrow), stops
            case IntegerNode():
                numbers, stops = self._numbers(node, at, ends)
                array = pa.array(numbers).view(node.arrow)
                return _checked(array) if pa.types.is_time(node.arrow) else array, stops
            case FixedNode(size=size):
                return self._plain(node, at, ends), at + size
            case BooleanNode():
                return self._flags(at, ends), at + 1
            case DecimalNode():
                starts, stops = self._sized(at, ends) if node.size is None else self._room(at, node.size, ends)
                return self._decimals(starts, stops, node.arrow), stops
            case EnumNode():
                numbers, stops = self._choices(node, at, ends)
                return pa.array(node.symbols, node.arrow).take(pa.array(numbers)), stops
            case RecordNode():
                return self._fields(node, at, ends)
            case ArrayNode(item=item):
                places, item_ends, counts, stops = self._items(item, at, ends)
                values, _ = self.values(item, places, item_ends)
                return pa.ListArray.from_arrays(_offsets(counts), values, type=node.arrow), stops
            case MapNode():
                return self._entries(node, at, ends)

    def skip(self, node: Node, at: Offsets, ends: Offsets) -> Offsets:
        """Where the values that begin at these places end."""
        if not len(at):
            return at
        if (size := constant_size(node)) is not None:
            return self._room(at, size, ends)[1]
        match node:
            case SizedNode() | DecimalNode():
                return self._sized(at, ends)[1]
            case IntegerNode():
                return self._numbers(node, at, ends)[1]
            case EnumNode():
                return self._choices(node, at, ends)[1]
            case RecordNode(fields=fields):
                for field in fields:
                    at = self.skip(field, at, ends)
                return at
            case UnionNode(value=value):
                filled, at = self._branches(node, at, ends)
                if filled.all():
                    return self.skip(value, at, ends)
                at = at.copy()
                at[filled] = self.skip(value, at[filled], ends[filled])
                return at
            case ArrayNode(item=item):
                return self._items(item, at, ends)[3]
            case MapNode():
                return self._items(_pair(node), at, ends)[3]
        raise AssertionError(node)

    def _every(self, size: int) -> npt.NDArray[Any]:
        """The buffer as overlapping runs of `size` bytes, one from every place on."""
        count = max(0, len(self._bytes) - size + 1)
        return np.ndarray((count,), f"V{size}", self._buffer, 0, (1,)) if size else np.empty(len(self._bytes) + 1, "V0")

    def _room(self, at: Offsets, size: int, ends: Offsets) -> tuple[Offsets, Offsets]:
        stops = at + size
        if (stops > ends).any():
            raise CorruptFile("a value reaches past the end of its record")
        return at, stops

    def _varints(self, at: Offsets, ends: Offsets) -> tuple[npt.NDArray[np.uint64], Offsets]:
        """Numbers of seven bits to a byte, low bits first, still zigzag."""
        if (at >= ends).any():
            raise CorruptFile("a value begins past the end of its record")
        first = self._bytes[at]
        if first.max() < 0x80:
            return first.astype(np.uint64), at + 1
        words = self._words_at(at)
        stop = ~words & _HIGH_BITS
        lowest = stop & (~stop + _ONE)
        sizes = (((lowest.astype(np.float64).view(np.uint64) >> _U[52]) - _U[1022]) >> _U[3]).astype(np.int64)
        raw = _squeezed(words & (lowest - _ONE) & ~_HIGH_BITS)
        if not stop.all():
            self._finish_long(raw, sizes, words, stop == 0, at, ends)
        stops = at + sizes
        if (stops > ends).any():
            raise CorruptFile("a number reaches past the end of its record")
        return raw, stops

    def _finish_long(
        self, raw: npt.NDArray[np.uint64], sizes: Offsets, words: npt.NDArray[np.uint64], long: Any, at: Offsets, ends: Offsets
    ) -> None:
        """Put in the numbers of nine or ten bytes."""
        places = at[long] + 8
        if (places >= ends[long]).any():
            raise CorruptFile("a number reaches past the end of its record")
        ninth = self._bytes[places].astype(np.uint64)
        goes_on = ninth >= _U[0x80]
        tenth = np.where(goes_on, self._bytes[np.minimum(places + 1, len(self._bytes) - 1)], 0).astype(np.uint64)
        if (tenth > _ONE).any():
            raise CorruptFile("a number of more than 64 bits")
        low = _squeezed(words[long] & ~_HIGH_BITS)
        raw[long] = low | ((ninth & _U[0x7F]) << _U[56]) | (tenth << _U[63])
        sizes[long] = np.where(goes_on, 10, 9)

    def _words_at(self, at: Offsets) -> npt.NDArray[np.uint64]:
        """Eight bytes from each place on, as little-endian numbers; zeros past the end of the buffer."""
        last = len(self._bytes) - 8
        if at[-1] <= last:
            return np.asarray(self._words[at].view("<u8"), np.uint64)
        near = np.minimum(at, last)
        return np.asarray(self._words[near].view("<u8"), np.uint64) >> ((at - near) * 8).astype(np.uint64)

    def _signed(self, at: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        raw, stops = self._varints(at, ends)
        return (raw >> _ONE).view(np.int64) ^ -(raw & _ONE).view(np.int64), stops

    def _numbers(self, node: IntegerNode, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        numbers, stops = self._signed(at, ends)
        if node.bits == 64:
            return numbers, stops
        small = numbers.astype(np.int32)
        if not np.array_equal(small, numbers):
            raise CorruptFile("an int of more than 32 bits")
        return small, stops

    def _sized(self, at: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Where the bytes behind a length begin and end."""
        lengths, starts = self._signed(at, ends)
        if (lengths < 0).any() or (lengths > ends - starts).any():
            raise CorruptFile("a length reaches past the end of its record")
        return starts, starts + lengths

    def _text(self, starts: Offsets, stops: Offsets, kind: Any) -> Any:
        """The slices of the buffer from `starts` to `stops`.

        Arrow gathers them: of an array over the whole buffer, whose values are the slices and the gaps between them, it takes
        every other one.
        """
        narrow = len(self._bytes) < 2**31
        offsets = np.empty(2 * len(starts), np.int32 if narrow else np.int64)
        offsets[0::2], offsets[1::2] = starts, stops
        carrier = pa.binary() if narrow else pa.large_binary()
        count = len(offsets) - 1
        all_slices = pa.Array.from_buffers(carrier, count, [None, pa.py_buffer(offsets), self._buffer], null_count=0)
        taken = all_slices.take(pa.array(np.arange(0, count, 2, dtype=offsets.dtype)))
        try:
            return taken if taken.type.equals(kind) else taken.cast(kind)
        except pa.ArrowInvalid as cause:
            raise CorruptFile("a text is not UTF-8") from cause

    def _plain(self, node: FixedNode, at: Offsets, ends: Offsets) -> Any:
        self._room(at, node.size, ends)
        if not node.size:
            return pa.array([b""] * len(at), node.arrow)
        found = np.ascontiguousarray(self._every(node.size)[at])
        return pa.Array.from_buffers(node.arrow, len(at), [None, pa.py_buffer(found.view(np.uint8))], null_count=0)

    def _flags(self, at: Offsets, ends: Offsets) -> Any:
        self._room(at, 1, ends)
        found = self._bytes[at]
        if found.max() > 1:
            raise CorruptFile("a boolean is neither 0 nor 1")
        return pa.array(found.astype(bool))

    def _choices(self, node: EnumNode, at: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        numbers, stops = self._signed(at, ends)
        if numbers.min() < 0 or numbers.max() >= len(node.symbols):
            raise CorruptFile(f"an enum of {len(node.symbols)} symbols has a number outside of them")
        return numbers, stops

    def _decimals(self, starts: Offsets, stops: Offsets, kind: Any) -> Any:
        """Whole numbers, big end first, as Arrow's of sixteen bytes, little end first."""
        sizes = stops - starts
        filled = sizes > 0
        negative = np.zeros(len(starts), bool)
        negative[filled] = self._bytes[starts[filled]] >= 0x80
        sign = np.where(negative, 0xFF, 0).astype(np.uint8)
        numbers = np.repeat(sign[:, None], 16, axis=1)
        for place in range(int(sizes.max())):
            has = sizes > place
            found = self._bytes[stops[has] - 1 - place]
            if place < 16:
                numbers[has, place] = found
            elif (found != sign[has]).any():
                raise CorruptFile("a decimal of more than 128 bits")
        buffer = pa.py_buffer(np.ascontiguousarray(numbers))
        return _checked(pa.Array.from_buffers(kind, len(starts), [None, buffer], null_count=0))

    def _branches(self, node: UnionNode, at: Offsets, ends: Offsets) -> tuple[npt.NDArray[np.bool_], Offsets]:
        """Which values are not null, and where they begin."""
        self._room(at, 1, ends)
        branch = self._bytes[at]
        filled: npt.NDArray[np.bool_] = branch == node.value_at * 2
        if not filled.all() and (node.null_at is None or (branch[~filled] != node.null_at * 2).any()):
            raise CorruptFile("a union has a branch that its schema does not have")
        return filled, at + 1

    def _union(self, node: UnionNode, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        filled, at = self._branches(node, at, ends)
        if filled.all():
            return self.values(node.value, at, ends)
        dense, stops = self.values(node.value, at[filled], ends[filled])
        at[filled] = stops
        return dense.take(pa.array(np.cumsum(filled) - 1, mask=~filled)), at

    def _fields(self, node: RecordNode, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        if not node.fields:
            return pa.array([{}] * len(at), node.arrow), at
        columns = []
        for field in node.fields:
            column, at = self.values(field, at, ends)
            columns.append(column)
        return pa.StructArray.from_arrays(columns, fields=list(node.arrow)), at

    def _entries(self, node: MapNode, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        places, item_ends, counts, stops = self._items(_pair(node), at, ends)
        keys, places = self.values(SizedNode(pa.string()), places, item_ends)
        values, _ = self.values(node.value, places, item_ends)
        return pa.MapArray.from_arrays(_offsets(counts), keys, values, type=node.arrow), stops

    def _items(self, item: Node, at: Offsets, ends: Offsets) -> tuple[Offsets, Offsets, Offsets, Offsets]:
        """Where the items of each list begin, the ends of their records, how many each list has, and where the lists end.

        All lists are walked side by side: one step finds the next item of every list that has one.
        """
        at, counts = at.copy(), np.zeros(len(at), np.int64)
        lists: list[Offsets] = []
        places: list[Offsets] = []
        open_lists = np.arange(len(at))
        while len(open_lists):
            left, stops = self._signed(at[open_lists], ends[open_lists])
            if (backward := left < 0).any():  # a run that also says its size in bytes
                stops[backward] = self._signed(stops[backward], ends[open_lists[backward]])[1]
                left = np.abs(left)
            at[open_lists] = stops
            goes_on = left != 0
            open_lists, left = open_lists[goes_on], left[goes_on]
            self._check_counts(item, left, ends[open_lists] - at[open_lists])
            counts[open_lists] += left
            self._walk(item, open_lists, left, at, ends, lists, places)
        if not places:
            return np.empty(0, np.int64), np.empty(0, np.int64), counts, at
        owner, place = np.concatenate(lists), np.concatenate(places)
        order = np.argsort(owner, kind="stable")
        return place[order], ends[owner[order]], counts, at

    def _walk(
        self, item: Node, going: Offsets, left: Offsets, at: Offsets, ends: Offsets, lists: list[Offsets], places: list[Offsets]
    ) -> None:
        """Step over the items of one run of each list in `going`, noting where they begin; `at` ends up behind them."""
        if (size := constant_size(item)) is not None:
            owner = np.repeat(going, left)
            number = np.arange(len(owner)) - np.repeat(np.cumsum(left) - left, left)
            lists.append(owner)
            places.append(at[owner] + number * size)
            at[going] += left * size
            return
        while len(going):
            lists.append(going)
            places.append(at[going])
            at[going] = self.skip(item, at[going], ends[going])
            left = left - 1
            if not left.all():
                going, left = going[left > 0], left[left > 0]

    def _check_counts(self, item: Node, counts: Offsets, room: Offsets) -> None:
        least = min_size(item)
        most = room // least if least else np.full(len(room), _EMPTY_ITEMS)
        if (counts < 0).any() or (counts > most).any():
            raise CorruptFile("a list claims more items than its record has room for")
        if self._allow_uneven or not len(counts) or constant_size(item) is not None:
            return
        longest = int(counts.max())
        if longest > 4 * FEWEST_PER_STEP and counts.sum() < longest * FEWEST_PER_STEP:
            raise UnevenLists


_ONE = np.uint64(1)
_U = {number: np.uint64(number) for number in (1, 2, 3, 4, 52, 56, 63, 0x7F, 0x80, 1022)}
_HIGH_BITS = np.uint64(0x8080808080808080)
_SQUEEZE = [  # pairs of groups move together: 7+7, 14+14, 28+28 bits
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), _U[1]),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), _U[2]),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), _U[4]),
]


def _squeezed(groups: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Eight groups of seven bits, one in each byte, as one number of 56 bits."""
    for low, high, shift in _SQUEEZE:
        groups = (groups & low) | ((groups & high) >> shift)
    return groups


def _checked(array: Any) -> Any:
    """The array itself, if its type holds all its values: decimals of too many digits, times past midnight are damage."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as cause:
        raise CorruptFile(f"a value that {array.type} does not hold") from cause
    return array


def _pair(node: MapNode) -> RecordNode:
    """A map's entry as a record."""
    return RecordNode(None, ("key", "value"), (SizedNode(pa.string()), node.value))


def _offsets(counts: Offsets) -> Any:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if offsets[-1] >= 2**31:
        raise CorruptFile("lists of more than 2^31 items")
    return pa.array(offsets.astype(np.int32))
