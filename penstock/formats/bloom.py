"""Bloom filters of base files, bit for bit as Hudi builds them.

A base file carries in its footer a filter over its record keys, as Base64 text beside a type code. Two kinds exist:
``SIMPLE`` is one bit vector; ``DYNAMIC_V0`` is a list of such rows that grows with the keys up to a bound.

Kernel: Arrow keys in, text out. Everything works on columns of keys; adding keys in any number of batches gives the
same bits as adding them one by one in order. Memory is bounded by the rows, one block of keys and a few unpacked rows.

How a block is hashed. The hash (a MurmurHash2 variant) walks over a key in groups of four bytes. What it does to a
group before mixing it in does not depend on the seed, and a filter hashes each key some thirty times with changing
seeds. So

1. cut the keys into blocks that fit the cache, longest key first: the keys that have an n-th group are a prefix;
2. scramble the groups once per block;
3. per round: mix all groups in, take the position, mark it in a row held as one byte per bit.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import CorruptFile, OptionError, RecordKeyError, Unsupported

SIMPLE = "SIMPLE"
DYNAMIC = "DYNAMIC_V0"
MAX_ENTRIES_DEFAULT = 100_000  # hoodie.bloom.index.filter.dynamic.max.entries; a stored filter does not say its own

Int32s = npt.NDArray[np.int32]
UInt32s = npt.NDArray[np.uint32]
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Keys: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

# Arrays of no dimension: numpy takes them as they are, while it makes an array of a number anew in every call.
_M = np.array(0x5BD1E995, np.uint32)
_ONE, _13, _15, _24 = (np.array(number, np.uint32) for number in (1, 13, 15, 24))
_MURMUR = 1  # hash type on disk
_VERSION = -1
_HEADER = struct.Struct(">iibi")  # version, hashes, hash type, bits
_GROWTH = struct.Struct(">iii")  # keys per row, keys in the last row, rows
_BLOCK_KEYS = 1 << 15
_BLOCK_BYTES = 1 << 24
#: Unpacked rows that are held at once, but one of any size.
_OPEN_BYTES = 1 << 24


class BloomFilter:
    """A set of record keys that may answer yes by mistake, never no."""

    type_code: str

    def __init__(self, *, bits: int, hashes: int, rows: list[Bytes]) -> None:
        self.bits, self.hashes = bits, hashes
        self._rows = rows  # packed, bit i in byte i // 8 at mask 1 << i % 8
        self._open: dict[int, Bytes] = {}  # rows that are written to: one byte per bit

    @staticmethod
    def create(kind: str, entries: int, error_rate: float, max_entries: int) -> BloomFilter:
        """An empty filter of this kind for `entries` keys (per row), and `max_entries` in all for the dynamic kind.

        Raises:
            OptionError: the kind is unknown or the sizes make no filter.
        """
        bits, hashes = size_filter(entries, error_rate)
        if kind == SIMPLE:
            return SimpleBloomFilter(bits=bits, hashes=hashes, rows=[_empty_row(bits)])
        if kind == DYNAMIC:
            return DynamicBloomFilter(
                bits=bits, hashes=hashes, rows=[_empty_row(bits)], row_entries=entries, max_entries=max_entries
            )
        raise OptionError(f"hoodie.bloom.index.filter.type is {kind!r}; use {SIMPLE} or {DYNAMIC}")

    def add(self, keys: Keys) -> None:
        """All of `keys` are in the filter, in their order.

        Raises:
            RecordKeyError: a key is null or empty; nothing was added.
        """
        raise NotImplementedError

    def might_contain(self, keys: Keys) -> Bools:
        """True where the key may have been added, False where it was certainly not.

        Raises:
            RecordKeyError: a key is null or empty.
        """
        self._close()
        answers = [self._ask(block) for span in _spans(keys) for block in span.blocks()]
        return np.concatenate(answers) if answers else np.zeros(0, np.bool_)

    def to_text(self) -> str:
        """The filter as it stands in a base file's footer."""
        raise NotImplementedError

    def _fill(self, row: int, span: _Span) -> None:
        """Put the keys of `span` into one row."""
        if len(span) == 0:
            return
        cells, bits = self._unpacked(row), np.array(self.bits, np.uint32)
        for block in span.blocks():
            rounds = _Rounds(block)
            for _ in range(self.hashes):
                cells[rounds.next_positions(bits)] = 1

    def _ask(self, block: _Block) -> Bools:
        """Which keys of the block are in any row; keys that no row can hold any more leave the block early."""
        answer = np.zeros(len(block), np.bool_)
        places = np.arange(len(block)) if block.order is None else block.order
        held = np.ones((len(self._rows), len(block)), np.bool_)
        rounds, size = _Rounds(block), np.array(self.bits, np.uint32)
        for _ in range(self.hashes):
            positions = rounds.next_positions(size)
            byte, shift = positions >> 3, (positions & 7).astype(np.uint8)
            for row, bits in zip(held, self._rows, strict=True):
                row &= ((bits[byte] >> shift) & 1).astype(np.bool_)
            alive = np.asarray(held.any(axis=0))
            if 2 * np.count_nonzero(alive) < len(alive):
                if not alive.any():
                    return answer
                rounds, places, held = rounds.only(alive), places[alive], held[:, alive]
        answer[places] = held.any(axis=0)
        return answer

    def _unpacked(self, row: int) -> Bytes:
        """The row as one byte per bit, to be written to."""
        if row not in self._open:
            if (len(self._open) + 1) * self.bits > _OPEN_BYTES:
                self._close()
            self._open[row] = np.unpackbits(self._rows[row], count=self.bits, bitorder="little")
        return self._open[row]

    def _close(self) -> None:
        for row, cells in self._open.items():
            self._rows[row] = np.packbits(cells, bitorder="little")
        self._open = {}

    def _row_bytes(self) -> list[bytes]:
        self._close()
        head = _HEADER.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        return [head + row.tobytes() for row in self._rows]


class SimpleBloomFilter(BloomFilter):
    """One row of a fixed size; more keys than planned only make it answer yes more often."""

    type_code = SIMPLE

    def add(self, keys: Keys) -> None:
        for span in _spans(keys):
            self._fill(0, span)

    def to_text(self) -> str:
        return base64.b64encode(self._row_bytes()[0]).decode("ascii")


class DynamicBloomFilter(BloomFilter):
    """Rows of `row_entries` keys each, up to `max_entries` in all; beyond that the rows take turns."""

    type_code = DYNAMIC

    def __init__(
        self, *, bits: int, hashes: int, rows: list[Bytes], row_entries: int, max_entries: int, in_last_row: int = 0
    ) -> None:
        super().__init__(bits=bits, hashes=hashes, rows=rows)
        self.row_entries, self.max_entries, self.in_last_row = row_entries, max_entries, in_last_row

    def add(self, keys: Keys) -> None:
        for span in _spans(keys):
            rest = self._grow(span)
            if len(rest):
                self._overflow(rest)

    def _grow(self, span: _Span) -> _Span:
        """Fill the last row, then new ones while the bound allows; gives the keys that found no room."""
        while len(span) and self.in_last_row <= self.row_entries:
            room = self.row_entries - self.in_last_row
            if room == 0:
                if len(self._rows) * self.row_entries >= self.max_entries:
                    break
                self._rows.append(_empty_row(self.bits))
                self.in_last_row, room = 0, self.row_entries
            head, span = span[:room], span[room:]
            self._fill(len(self._rows) - 1, head)
            self.in_last_row += len(head)
        return span

    def _overflow(self, span: _Span) -> None:
        """Deal the keys out: the very first one too many goes to row 0, all later ones to rows 0, 1, 2, ... in turn."""
        rows, seen = len(self._rows), self.in_last_row - self.row_entries
        self.in_last_row += len(span)
        if seen == 0:
            self._fill(0, span[:1])
            span, seen = span[1:], 1
        turn = (seen - 1) % rows  # the row of the span's first key
        for row in range(rows):
            self._fill(row, span[(row - turn) % rows :: rows])

    def to_text(self) -> str:
        head = _HEADER.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        growth = _GROWTH.pack(self.row_entries, self.in_last_row, len(self._rows))
        return base64.b64encode(b"".join([head, growth, *self._row_bytes()])).decode("ascii")


def read_bloom(text: str, type_code: str | None, max_entries: int = MAX_ENTRIES_DEFAULT) -> BloomFilter:
    """The filter of a base file's footer; without a type code it is a simple one. It can be added to.

    The stored form does not hold the bound of a dynamic filter, so `max_entries` says it.

    Raises:
        CorruptFile: the text is not such a filter.
        Unsupported: the kind or the hash is one that Penstock does not know.
    """
    if type_code not in (None, SIMPLE, DYNAMIC):
        raise Unsupported(f"bloom filter of type {type_code!r}; known are {SIMPLE} and {DYNAMIC}")
    try:
        data = base64.b64decode(text, validate=True)
        if type_code == DYNAMIC:
            return _read_dynamic(data, max_entries)
        bits, hashes, at = _read_header(data, 0)
        row, at = _read_row(data, at, bits)
        if at != len(data):
            raise ValueError("more bytes than bits")
    except Unsupported:
        raise
    except (binascii.Error, struct.error, ValueError) as cause:
        raise CorruptFile(f"not a bloom filter of type {type_code or SIMPLE}: {cause}") from cause
    return SimpleBloomFilter(bits=bits, hashes=hashes, rows=[row])


def size_filter(entries: int, error_rate: float) -> tuple[int, int]:
    """Bits and hashes of a filter that holds `entries` keys and errs for at most `error_rate` of the others."""
    if entries < 1:
        raise OptionError(f"hoodie.index.bloom.num_entries is {entries}; it must be at least 1")
    if not 0.0 < error_rate < 1.0:
        raise OptionError(f"hoodie.index.bloom.fpp is {error_rate}; it must lie between 0 and 1")
    bits = math.ceil(entries * (-math.log(error_rate) / (math.log(2) * math.log(2))))
    if bits >= 1 << 31:
        raise OptionError(
            f"hoodie.index.bloom.num_entries={entries} with hoodie.index.bloom.fpp={error_rate} "
            f"needs {bits} bits, more than a filter can hold (2^31); lower the first or raise the second"
        )
    return bits, math.ceil(math.log(2) * bits / entries)


def murmur(keys: Keys, seed: int = 0) -> Int32s:
    """The hash of every key, as the signed 32-bit number Java shows."""
    hashes = [np.zeros(0, np.int32)]
    for span in _spans(keys):
        for block in span.blocks():
            rounds = _Rounds(block, np.full(len(block), seed, np.int32))
            rounds.hash()
            in_order = np.empty_like(rounds.state)
            in_order[slice(None) if block.order is None else block.order] = rounds.state
            hashes.append(in_order)
    return np.concatenate(hashes)


@dataclass(frozen=True)
class _Span:
    """Keys as places in one byte buffer: key i starts at `starts[i]` and has `lengths[i]` bytes."""

    data: Bytes
    starts: npt.NDArray[Any]
    lengths: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, part: slice) -> _Span:
        return _Span(self.data, self.starts[part], self.lengths[part])

    def blocks(self) -> Iterator[_Block]:
        """The keys in pieces, bounded in number and in bytes (but at least one key each)."""
        at = 0
        while at < len(self):
            piece = self[at : at + _BLOCK_KEYS]
            if int(piece.starts[-1]) - int(piece.starts[0]) > _BLOCK_BYTES:
                ends = np.cumsum(piece.lengths, dtype=np.int64)
                piece = piece[: max(1, int(np.searchsorted(ends, _BLOCK_BYTES)))]
            yield _block(piece)
            at += len(piece)


@dataclass(frozen=True)
class _Block:
    """Keys made ready for hashing, longest first.

    `groups[g]` holds the scrambled g-th four bytes of every key that has as many: a prefix of the block. `tail` is what
    the up to three bytes after the last group add, `tail_factor` the multiplication that follows it (1: no tail). Lengths and
    factors that are one for all keys have no dimension.
    """

    count: int
    order: Int64s | None  # which key of the piece each one is; None: as they came
    lengths: UInt32s
    groups: list[UInt32s]
    tail: UInt32s | None
    tail_factor: UInt32s

    def __len__(self) -> int:
        return self.count

    def only(self, chosen: Bools) -> _Block:
        """The chosen keys of the block, without their order."""
        return _Block(
            count=int(np.count_nonzero(chosen)),
            order=None,
            lengths=self.lengths[chosen] if self.lengths.ndim else self.lengths,
            groups=[group[chosen[: len(group)]] for group in self.groups],
            tail=None if self.tail is None else self.tail[chosen],
            tail_factor=self.tail_factor[chosen] if self.tail_factor.ndim else self.tail_factor,
        )


class _Rounds:
    """The hashes of a block's keys, round after round: each hash is the seed of the next. Owns the buffers.

    A round is some thirty calls of numpy over the whole block, so that what a call costs by itself counts: arrays are made once,
    and handed over by position.
    """

    def __init__(self, block: _Block, state: Int32s | None = None) -> None:
        self.block = block
        self.state = np.zeros(len(block), np.int32) if state is None else state
        self._hash, self._scratch, self._whole = self.state.view(np.uint32), *np.empty((2, len(block)), np.uint32)
        self._positions = np.empty(len(block), np.int64)
        self._steps = [(self._hash[: len(group)], group) for group in block.groups]

    def next_positions(self, bits: UInt32s) -> Int64s:
        """The next position of every key; valid until the next call.

        That is abs(hash % bits) with Java's remainder, so |hash| mod bits: exact for the smallest int too, whose
        absolute value only fits the unsigned view. Numpy uses vector instructions to divide by a scalar, but not to
        take a remainder.
        """
        self.hash()
        size, whole = self._scratch, self._whole
        np.absolute(self.state, size.view(np.int32))
        np.floor_divide(size, bits, whole)
        np.multiply(whole, bits, whole)
        np.subtract(size, whole, whole)
        self._positions[:] = whole
        return self._positions

    def hash(self) -> None:
        """From the seed of each key to its hash."""
        block, state, scratch, times, xor = self.block, self._hash, self._scratch, np.multiply, np.bitwise_xor
        xor(state, block.lengths, state)
        for head, group in self._steps:
            times(head, _M, head)
            xor(head, group, head)
        if block.tail is not None:
            xor(state, block.tail, state)
            times(state, block.tail_factor, state)
        _xor_shifted(state, _13, scratch)
        times(state, _M, state)
        _xor_shifted(state, _15, scratch)

    def only(self, chosen: Bools) -> _Rounds:
        """Go on with the chosen keys."""
        return _Rounds(self.block.only(chosen), self.state[chosen])


def _spans(keys: Keys) -> list[_Span]:
    """The keys of each chunk as bytes, checked: none is null, none is empty."""
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    return [_span(chunk) for chunk in chunks if len(chunk)]


def _span(keys: pa.Array[Any]) -> _Span:
    if not (pa.types.is_large_string(keys.type) or pa.types.is_string(keys.type)):
        keys = keys.cast(pa.large_string())
    if keys.null_count:
        raise RecordKeyError("a record key is null; a bloom filter takes keys of at least one byte")
    wide = pa.types.is_large_string(keys.type)
    buffers: list[Any] = keys.buffers()  # validity, offsets, bytes
    offsets = np.frombuffer(buffers[1], np.int64 if wide else np.int32)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(offsets)
    if lengths.min() == 0:
        raise RecordKeyError("a record key is an empty string; a bloom filter takes keys of at least one byte")
    data = np.frombuffer(buffers[2], np.uint8)
    data.flags.writeable = False  # the caller's memory
    return _Span(data, offsets[:-1], lengths)


def _block(keys: _Span) -> _Block:
    if (keys.lengths == keys.lengths[0]).all():
        return _even_block(keys)
    return _mixed_block(keys)


def _even_block(keys: _Span) -> _Block:
    """All keys have one length, and so stand at even distances: the groups are a strided view of the buffer."""
    count, length, start = len(keys), int(keys.lengths[0]), int(keys.starts[0])
    stride = int(keys.starts[1]) - start if count > 1 else length
    words = np.ndarray((length // 4, count), "<u4", buffer=keys.data, offset=start, strides=(4, stride))
    groups = list(np.array(words, dtype=np.uint32, order="C"))  # always a copy: the groups are written to
    tail = _tail(keys.data, keys.starts + length, length % 4) if length % 4 else None
    return _Block(count, None, np.array(length, np.uint32), _scramble(groups), tail, _M)


def _mixed_block(keys: _Span) -> _Block:
    order = np.argsort(-keys.lengths, kind="stable")
    starts, lengths = keys.starts[order].astype(np.int64), keys.lengths[order].astype(np.uint32)
    words = np.ndarray((max(0, len(keys.data) - 3),), "<u4", buffer=keys.data, strides=(1,))  # one at every byte
    whole = -(lengths >> 2).astype(np.int64)  # ascending
    groups = []
    for number in range(-int(whole[0])):
        count = int(np.searchsorted(whole, -number))  # keys with more than `number` groups
        groups.append(words[starts[:count] + 4 * number].astype(np.uint32))
    over = lengths & 3
    tail = np.zeros(len(lengths), np.uint32)
    for size in (1, 2, 3):
        chosen = over == size
        tail[chosen] = _tail(keys.data, (starts + lengths)[chosen], size)
    return _Block(len(keys), order, lengths, _scramble(groups), tail, np.where(over > 0, _M, _ONE))


def _scramble(groups: list[UInt32s]) -> list[UInt32s]:
    """What the hash does to each four bytes before it mixes them in."""
    scratch = np.empty(len(groups[0]) if groups else 0, np.uint32)
    for group in groups:
        np.multiply(group, _M, group)
        _xor_shifted(group, _24, scratch[: len(group)])
        np.multiply(group, _M, group)
    return groups


def _xor_shifted(values: UInt32s, distance: UInt32s, scratch: UInt32s) -> None:
    """values ^= values >> distance."""
    np.right_shift(values, distance, scratch)
    np.bitwise_xor(values, scratch, values)


def _tail(data: Bytes, ends: npt.NDArray[Any], size: int) -> UInt32s:
    """The last `size` bytes before each end as one number; counted from the end, and signed, as Hudi has it."""
    signed = data.view(np.int8)
    tail = np.zeros(len(ends), np.int32)
    for back in range(1, size + 1):
        tail ^= signed[ends - back].astype(np.int32) << np.int32(8 * (back - 1))
    return tail.view(np.uint32)


def _empty_row(bits: int) -> Bytes:
    return np.zeros((bits + 7) // 8, np.uint8)


def _read_header(data: bytes, at: int) -> tuple[int, int, int]:
    """Bits, hashes, and where the header ends."""
    version, hashes, hash_type, bits = _HEADER.unpack_from(data, at)
    if version != _VERSION or hashes < 1 or bits < 1:
        raise ValueError(f"version {version}, {hashes} hashes, {bits} bits")
    if hash_type != _MURMUR:
        raise Unsupported(f"bloom filter with hash type {hash_type}; known is {_MURMUR} (murmur)")
    return bits, hashes, at + _HEADER.size


def _read_row(data: bytes, at: int, bits: int) -> tuple[Bytes, int]:
    """A row's packed bits, and where they end."""
    size = (bits + 7) // 8
    if at + size > len(data):
        raise ValueError(f"{bits} bits announced, {len(data) - at} bytes left")
    return np.frombuffer(data, np.uint8, size, at).copy(), at + size


def _read_dynamic(data: bytes, max_entries: int) -> DynamicBloomFilter:
    bits, hashes, at = _read_header(data, 0)
    row_entries, in_last_row, count = _GROWTH.unpack_from(data, at)
    at += _GROWTH.size
    if row_entries < 1 or in_last_row < 0 or count < 1:
        raise ValueError(f"{row_entries} keys per row, {in_last_row} in the last, {count} rows")
    rows = []
    for _ in range(count):
        row_bits, row_hashes, at = _read_header(data, at)
        if (row_bits, row_hashes) != (bits, hashes):
            raise ValueError("a row of another size")
        row, at = _read_row(data, at, bits)
        rows.append(row)
    if at != len(data):
        raise ValueError("more bytes than rows")
    return DynamicBloomFilter(
        bits=bits, hashes=hashes, rows=rows, row_entries=row_entries, max_entries=max_entries, in_last_row=in_last_row
    )
