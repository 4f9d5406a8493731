"""Decodes many Avro records at once, field by field: the reading half of `block.py`.

An array holds, for each record, the offset at which the current field begins. A few numpy operations decode that field of all
records. Then the array is set to the offsets at which the next field begins. Arrow gathers the bytes of strings. Every length is
checked against the end of its record before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from penstock.formats.avro.varints import Offsets, VarintReader, overlapping_runs

#: If one step over all lists finds fewer items than this on average, decoding record by record is faster.
FEWEST_PER_STEP = 16
#: The most items of a list whose items take no bytes: the size of the record does not bound their number.
_MOST_EMPTY_ITEMS = 1 << 16


class UnevenLists(Exception):
    """Raised if lists have very different lengths, so that decoding record by record is faster than by columns."""


class ColumnDecoder:
    """Decodes Avro records field by field: each call decodes one field in many records of a buffer at once.

    In all methods `at` holds, per record, the offset at which the value begins, and `ends` the offset at which the record ends;
    both ascend. Most methods return (the values, the offset after each value). All methods raise CorruptFile if a value extends
    past the end of its record.

    Args:
        allow_uneven: whether to decode lists of very different lengths; otherwise UnevenLists is raised for them.
    """

    def __init__(self, buffer: pa.Buffer, *, allow_uneven: bool) -> None:
        # Padded, so that there are eight bytes to read a word from.
        is_short = buffer.size < 8
        self._buffer = pa.py_buffer(buffer.to_pybytes() + bytes(8)) if is_short else buffer
        self._bytes = np.frombuffer(self._buffer, np.uint8)
        self._allow_uneven = allow_uneven
        self._varints = VarintReader(self._buffer)

    def decode_columns(self, layout: AvroLayout, at: Offsets, ends: Offsets, target: pa.Schema) -> list[Any]:
        """Decode records; return the columns of `target` as Arrow arrays.

        Args:
            at: the offset at which each record begins.
            ends: the offset at which each record ends.

        Raises:
            CorruptFile: a record is malformed or does not fit the layout.
            UnevenLists: decoding record by record is faster, and `allow_uneven` is not set.
        """
        arrays = {}
        wanted = frozenset(target.names)
        for name, node in zip(layout.record.names, layout.record.fields, strict=True):
            try:
                if name in wanted:
                    arrays[name], at = self.decode_values(node, at, ends)
                else:
                    at = self.skip(node, at, ends)
            except CorruptFile as cause:
                raise CorruptFile(f"column {name!r} of an Avro block: {cause}") from cause
        if not np.array_equal(at, ends):
            record = int(np.flatnonzero(at != ends)[0])
            raise CorruptFile(f"record {record} of an Avro block does not end where its length says")
        return [arrays[name] for name in target.names]

    def decode_values(self, node: Node, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        """Decode the value at each offset of `at`; return (Arrow array of the values, offsets after them).

        Args:
            node: the layout of the values.
            ends: the end of each value's record.
        """
        if not len(at):
            return pa.array([], node.arrow), at
        match node:
            case UnionNode():
                return self._decode_union(node, at, ends)
            case SizedNode():
                starts, stops = self._read_sized(at, ends)
                return self._gather_slices(starts, stops, node.arrow), stops
            case IntegerNode():
                numbers, stops = self._read_integers(node, at, ends)
                array = pa.array(numbers).view(node.arrow)
                if pa.types.is_time(node.arrow):
                    _check_values(array)
                return array, stops
            case FixedNode(size=size):
                return self._decode_fixed(node, at, ends), at + size
            case BooleanNode():
                return self._decode_booleans(at, ends), at + 1
            case DecimalNode(size=None):
                starts, stops = self._read_sized(at, ends)
                return self._decode_decimals(starts, stops, node.arrow), stops
            case DecimalNode(size=int(size)):
                stops = self._skip_bytes(at, size, ends)
                return self._decode_decimals(at, stops, node.arrow), stops
            case EnumNode():
                numbers, stops = self._read_symbol_numbers(node, at, ends)
                return pa.array(node.symbols, node.arrow).take(pa.array(numbers)), stops
            case RecordNode():
                return self._decode_fields(node, at, ends)
            case ArrayNode(item=item):
                items = self._find_items(item, at, ends)
                values, _ = self.decode_values(item, items.starts, items.ends)
                return pa.ListArray.from_arrays(_list_offsets(items.counts), values, type=node.arrow), items.stops
            case MapNode():
                return self._decode_map(node, at, ends)
        raise AssertionError(node)

    def skip(self, node: Node, at: Offsets, ends: Offsets) -> Offsets:
        """Skip one value per record, without decoding it. Return the offset at which each value ends.

        Args:
            node: the layout of the values.
            ends: the end of each value's record.
        """
        if not len(at):
            return at
        size = constant_size(node)
        if size is not None:
            return self._skip_bytes(at, size, ends)
        match node:
            case SizedNode() | DecimalNode():
                _, stops = self._read_sized(at, ends)
                return stops
            case IntegerNode():
                _, stops = self._read_integers(node, at, ends)
                return stops
            case EnumNode():
                _, stops = self._read_symbol_numbers(node, at, ends)
                return stops
            case RecordNode(fields=fields):
                for field in fields:
                    at = self.skip(field, at, ends)
                return at
            case UnionNode(value=value):
                present, at = self._read_branches(node, at, ends)
                if present.all():
                    return self.skip(value, at, ends)
                at = at.copy()
                at[present] = self.skip(value, at[present], ends[present])
                return at
            case ArrayNode(item=item):
                return self._find_items(item, at, ends).stops
            case MapNode():
                return self._find_items(_entry_node(node), at, ends).stops
        raise AssertionError(node)

    def _skip_bytes(self, at: Offsets, size: int, ends: Offsets) -> Offsets:
        """Return each offset of `at` plus `size`: the end of a value of that size. Raises CorruptFile if it is past `ends`.

        Args:
            ends: the offset at which the record of each value ends.
        """
        stops = at + size
        if (stops > ends).any():
            raise CorruptFile("a value reaches past the end of its record")
        return stops

    def _read_integers(self, node: IntegerNode, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        """Read the Avro int or long at each offset of `at`; return (numbers, offsets after them).

        Raises CorruptFile if an int has more than 32 bits.

        Args:
            node: the layout of the values.
            ends: the offset at which the record of each value ends.
        """
        numbers, stops = self._varints.read_longs(at, ends)
        if node.bits == 64:
            return numbers, stops
        ints = numbers.astype(np.int32)
        if not np.array_equal(ints, numbers):
            raise CorruptFile("an int of more than 32 bits")
        return ints, stops

    def _read_sized(self, at: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Read the length field of the string or bytes at each offset of `at`.

        Returns (offsets where the bytes of the values begin, offsets where they end).

        Args:
            ends: the offset at which the record of each value ends.
        """
        lengths, starts = self._varints.read_longs(at, ends)
        if (lengths < 0).any() or (lengths > ends - starts).any():
            raise CorruptFile("a length reaches past the end of its record")
        return starts, starts + lengths

    def _gather_slices(self, starts: Offsets, stops: Offsets, kind: Any) -> Any:
        """Return the slices of the buffer from `starts` to `stops` as an Arrow array of the string or binary type `kind`.

        An Arrow array over the whole buffer has the slices and the gaps between them as its values. Taking every second value
        gathers the slices without a loop.
        """
        fits_int32 = len(self._bytes) < 2**31
        offsets = np.empty(2 * len(starts), np.int32 if fits_int32 else np.int64)
        offsets[0::2] = starts
        offsets[1::2] = stops
        binary_type = pa.binary() if fits_int32 else pa.large_binary()
        count = len(offsets) - 1
        slices_and_gaps = pa.Array.from_buffers(binary_type, count, [None, pa.py_buffer(offsets), self._buffer], null_count=0)
        slices = slices_and_gaps.take(pa.array(np.arange(0, count, 2, dtype=offsets.dtype)))
        try:
            return slices if slices.type.equals(kind) else slices.cast(kind)
        except pa.ArrowInvalid as cause:
            raise CorruptFile("a text is not UTF-8") from cause

    def _decode_fixed(self, node: FixedNode, at: Offsets, ends: Offsets) -> Any:
        """Decode the value of fixed size at each offset of `at`; return an Arrow array.

        Args:
            node: the layout of the values.
            ends: the offset at which the record of each value ends.
        """
        self._skip_bytes(at, node.size, ends)
        if not node.size:
            return pa.array([b""] * len(at), node.arrow)
        values = np.ascontiguousarray(overlapping_runs(self._buffer, node.size)[at])
        return pa.Array.from_buffers(node.arrow, len(at), [None, pa.py_buffer(values.view(np.uint8))], null_count=0)

    def _decode_booleans(self, at: Offsets, ends: Offsets) -> Any:
        """Decode the boolean at each offset of `at`; return an Arrow array. Raises CorruptFile if a byte is neither 0 nor 1.

        Args:
            ends: the offset at which the record of each value ends.
        """
        self._skip_bytes(at, 1, ends)
        values = self._bytes[at]
        if values.max() > 1:
            raise CorruptFile("a boolean is neither 0 nor 1")
        return pa.array(values.astype(bool))

    def _read_symbol_numbers(self, node: EnumNode, at: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Read the enum at each offset of `at`; return (numbers of the symbols, offsets after them).

        Raises CorruptFile if the enum has no symbol of that number.

        Args:
            node: the layout of the values.
            ends: the offset at which the record of each value ends.
        """
        numbers, stops = self._varints.read_longs(at, ends)
        if numbers.min() < 0 or numbers.max() >= len(node.symbols):
            raise CorruptFile(f"an enum of {len(node.symbols)} symbols has a number outside of them")
        return numbers, stops

    def _decode_decimals(self, starts: Offsets, stops: Offsets, kind: Any) -> Any:
        """Decode big-endian numbers as Arrow decimals of the type `kind`. Number i is at `starts[i]` to `stops[i]`."""
        sizes = stops - starts
        has_bytes = sizes > 0
        negative = np.zeros(len(starts), bool)
        negative[has_bytes] = self._bytes[starts[has_bytes]] >= 0x80
        sign = np.where(negative, 0xFF, 0).astype(np.uint8)
        numbers = np.repeat(sign[:, None], 16, axis=1)
        for place in range(int(sizes.max())):  # a loop over bytes of a decimal, from the lowest on, not over records
            has_place = sizes > place
            digits = self._bytes[stops[has_place] - 1 - place]
            if place < 16:
                numbers[has_place, place] = digits
            elif (digits != sign[has_place]).any():
                raise CorruptFile("a decimal of more than 128 bits")
        buffer = pa.py_buffer(np.ascontiguousarray(numbers))
        decimals = pa.Array.from_buffers(kind, len(starts), [None, buffer], null_count=0)
        _check_values(decimals)
        return decimals

    def _read_branches(self, node: UnionNode, at: Offsets, ends: Offsets) -> tuple[npt.NDArray[np.bool_], Offsets]:
        """Read the branch number of the union at each offset of `at`.

        Returns (mask that is true where the union's value is not null, offsets after the branch numbers). Branch numbers are
        zigzag-encoded, so doubled.

        Args:
            node: the layout of the values.
            ends: the offset at which the record of each value ends.
        """
        self._skip_bytes(at, 1, ends)
        branch = self._bytes[at]
        present: npt.NDArray[np.bool_] = branch == node.value_at * 2
        if not present.all() and (node.null_at is None or (branch[~present] != node.null_at * 2).any()):
            raise CorruptFile("a union has a branch that its schema does not have")
        return present, at + 1

    def _decode_union(self, node: UnionNode, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        """Decode the union at each offset of `at`; return (Arrow array, offsets after the unions). Null branches become null.

        Args:
            node: the layout of the values.
            ends: the offset at which the record of each value ends.
        """
        present, at = self._read_branches(node, at, ends)
        if present.all():
            return self.decode_values(node.value, at, ends)
        dense, stops = self.decode_values(node.value, at[present], ends[present])
        at[present] = stops
        return dense.take(pa.array(np.cumsum(present) - 1, mask=~present)), at

    def _decode_fields(self, node: RecordNode, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        """Decode the record at each offset of `at`; return (Arrow struct array, offsets after the records).

        Args:
            node: the layout of the values.
            ends: the offset at which the record of each value ends.
        """
        if not node.fields:
            return pa.array([{}] * len(at), node.arrow), at
        columns = []
        for field in node.fields:
            column, at = self.decode_values(field, at, ends)
            columns.append(column)
        return pa.StructArray.from_arrays(columns, fields=list(node.arrow)), at

    def _decode_map(self, node: MapNode, at: Offsets, ends: Offsets) -> tuple[Any, Offsets]:
        """Decode the map at each offset of `at`; return (Arrow map array, offsets after the maps).

        Args:
            node: the layout of the values.
            ends: the offset at which the record of each value ends.
        """
        items = self._find_items(_entry_node(node), at, ends)
        keys, value_starts = self.decode_values(SizedNode(pa.string()), items.starts, items.ends)
        values, _ = self.decode_values(node.value, value_starts, items.ends)
        return pa.MapArray.from_arrays(_list_offsets(items.counts), keys, values, type=node.arrow), items.stops

    def _find_items(self, item: Node, at: Offsets, ends: Offsets) -> _Items:
        """Find all items of the lists or maps that begin at offsets `at`, without decoding the items.

        All lists are walked at the same time: each step finds the next item of every list that is not at its end. An item of a
        map is a record of key and value.

        Args:
            item: the layout of an item.
            ends: the end of each list's record.
        """
        at = at.copy()
        counts = np.zeros(len(at), np.int64)
        list_parts: list[Offsets] = []
        start_parts: list[Offsets] = []
        open_lists = np.arange(len(at))
        while len(open_lists):
            run_counts, stops = self._varints.read_longs(at[open_lists], ends[open_lists])
            has_size = run_counts < 0
            if has_size.any():  # Avro: a negative count is followed by the size of the run in bytes
                _, stops[has_size] = self._varints.read_longs(stops[has_size], ends[open_lists[has_size]])
                run_counts = np.abs(run_counts)
            at[open_lists] = stops
            goes_on = run_counts != 0
            open_lists = open_lists[goes_on]
            run_counts = run_counts[goes_on]
            self._check_counts(item, run_counts, ends[open_lists] - at[open_lists])
            counts[open_lists] += run_counts
            self._walk_runs(item, open_lists, run_counts, at, ends, list_parts, start_parts)
        if not start_parts:
            return _Items(np.empty(0, np.int64), np.empty(0, np.int64), counts, at)
        lists = np.concatenate(list_parts)
        starts = np.concatenate(start_parts)
        # Steps found the items across the lists; the stable sort puts each list's items together, in their order.
        order = np.argsort(lists, kind="stable")
        return _Items(starts[order], ends[lists[order]], counts, at)

    def _walk_runs(
        self,
        item: Node,
        lists: Offsets,
        run_counts: Offsets,
        at: Offsets,
        ends: Offsets,
        list_parts: list[Offsets],
        start_parts: list[Offsets],
    ) -> None:
        """Find the items of the next run in each list of `lists`, and set `at` of these lists to the end of the run.

        An Avro list is one or several runs of items (Avro calls them blocks), each preceded by its item count.

        Args:
            lists: numbers of lists, which are indexes into `at` and `ends`.
            run_counts: the number of items in the run of each list.
            list_parts: the method appends the list number of each item to it.
            start_parts: the method appends the offset of each item to it.
        """
        size = constant_size(item)
        if size is not None:
            item_lists = np.repeat(lists, run_counts)
            number_in_run = np.arange(len(item_lists)) - np.repeat(np.cumsum(run_counts) - run_counts, run_counts)
            list_parts.append(item_lists)
            start_parts.append(at[item_lists] + number_in_run * size)
            at[lists] += run_counts * size
            return
        while len(lists):
            list_parts.append(lists)
            start_parts.append(at[lists])
            at[lists] = self.skip(item, at[lists], ends[lists])
            run_counts = run_counts - 1
            if not run_counts.all():
                lists = lists[run_counts > 0]
                run_counts = run_counts[run_counts > 0]

    def _check_counts(self, item: Node, counts: Offsets, room: Offsets) -> None:
        """Check the item count that precedes the items of each list against the bytes left in its record.

        Args:
            item: the layout of an item.
            counts: the item counts.
            room: the bytes left in the record of each list.

        Raises:
            CorruptFile: a record is too small for that many items.
            UnevenLists: the lists have very different lengths, and `allow_uneven` is not set.
        """
        fewest_bytes = min_size(item)
        most = room // fewest_bytes if fewest_bytes else np.full(len(room), _MOST_EMPTY_ITEMS)
        if (counts < 0).any() or (counts > most).any():  # the absolute value of the smallest long is negative
            raise CorruptFile("a list claims more items than its record has room for")
        if self._allow_uneven or not len(counts) or constant_size(item) is not None:
            return
        longest = int(counts.max())
        if longest > 4 * FEWEST_PER_STEP and counts.sum() < longest * FEWEST_PER_STEP:
            raise UnevenLists


@dataclass(frozen=True)
class _Items:
    """The offsets of the items of many lists: first all items of the first list, then those of the second, and so on.

    Attributes:
        starts: the offset of each item.
        ends: the end of the record that each item is in.
        counts: the number of items of each list.
        stops: the offset after each list.
    """

    starts: Offsets
    ends: Offsets
    counts: Offsets
    stops: Offsets


def _check_values(array: Any) -> None:
    """Raise CorruptFile if a value is outside the range of its type: a decimal with too many digits, a time past midnight."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as cause:
        raise CorruptFile(f"a value that {array.type} does not hold") from cause


def _entry_node(node: MapNode) -> RecordNode:
    """Return the layout of a map's entry: a record of key and value."""
    return RecordNode(None, ("key", "value"), (SizedNode(pa.string()), node.value))


def _list_offsets(counts: Offsets) -> Any:
    """Return the Arrow offsets of lists, from the number of items of each list."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if offsets[-1] >= 2**31:
        raise CorruptFile("lists of more than 2^31 items")
    return pa.array(offsets.astype(np.int32))
