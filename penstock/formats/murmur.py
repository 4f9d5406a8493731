"""Computes the hash of bloom filters (Hadoop's variant of MurmurHash2) for many keys at once.

The hash processes a key in groups of four bytes. It scrambles each group, then mixes the group into the hash. A bloom filter
hashes each key some thirty times (rounds), each time with another seed. Scrambling does not depend on the seed, so once is enough
for all rounds. This module

1. cuts the keys into blocks that fit the processor's cache, and sorts each block by length, the longest key first. Then the keys
   that have an n-th group are the first keys of the block;
2. scrambles the groups once per block;
3. mixes all groups into the hashes in each round. The hash of a key determines the bit that it sets in the filter, and is the
   key's seed in the next round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import RecordKeyError

Int32s = npt.NDArray[np.int32]
UInt32s = npt.NDArray[np.uint32]
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Keys: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

# Arrays without dimensions: numpy would convert a Python number to an array again in every call.
_M = np.array(0x5BD1E995, np.uint32)
_ONE, _13, _15, _24 = (np.array(number, np.uint32) for number in (1, 13, 15, 24))
#: The most keys of a block, and the most bytes of its keys.
_BLOCK_KEYS = 1 << 16
_BLOCK_BYTES = 1 << 24


def murmur(keys: Keys, seed: int = 0) -> Int32s:
    """Return the hash of every key as a signed 32-bit number, as in Java. Raises RecordKeyError if a key is null or empty."""
    hashes = [np.zeros(0, np.int32)]
    for span in key_spans(keys):
        for block in span.blocks():
            rounds = Rounds(block, np.full(len(block), seed, np.int32))
            rounds.hash()
            in_order = np.empty_like(rounds.state)
            in_order[slice(None) if block.order is None else block.order] = rounds.state
            hashes.append(in_order)
    return np.concatenate(hashes)


@dataclass(frozen=True)
class Span:
    """The bytes of many keys in one buffer: key i starts at `starts[i]` and has `lengths[i]` bytes."""

    data: Bytes
    starts: npt.NDArray[Any]
    lengths: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, part: slice) -> Span:
        return Span(self.data, self.starts[part], self.lengths[part])

    def blocks(self) -> Iterator[Block]:
        """Yield the keys in blocks of at most `_BLOCK_KEYS` keys and about `_BLOCK_BYTES` bytes. A block has at least one key."""
        first = 0
        while first < len(self):
            part = self[first : first + _BLOCK_KEYS]
            if int(part.starts[-1]) - int(part.starts[0]) > _BLOCK_BYTES:
                ends = np.cumsum(part.lengths, dtype=np.int64)
                part = part[: max(1, int(np.searchsorted(ends, _BLOCK_BYTES)))]
            yield _prepare_block(part)
            first += len(part)


@dataclass(frozen=True)
class Block:
    """Keys prepared for hashing many times with different seeds, the longest first.

    Attributes:
        count: the number of keys.
        order: the number that each key had before the block was sorted by length. None: the keys were not sorted.
        lengths: the lengths of the keys in bytes; an array without dimensions if all are equal.
        groups: `groups[g]` holds the scrambled g-th group of four bytes of each key that has that many groups. These keys are the
            first keys of the block.
        tail: the number to mix in for the one to three bytes after the last group of each key. None: no key has such bytes.
        tail_factor: the factor to multiply by after mixing in the tail; 1 for a key without a tail. An array without dimensions
            if all are equal.
    """

    count: int
    order: Int64s | None
    lengths: UInt32s
    groups: list[UInt32s]
    tail: UInt32s | None
    tail_factor: UInt32s

    def __len__(self) -> int:
        return self.count

    def only(self, chosen: Bools) -> Block:
        """Return a copy of the block with only the keys where the mask `chosen` is true. `order` of the copy is None."""
        return Block(
            count=int(np.count_nonzero(chosen)),
            order=None,
            lengths=self.lengths[chosen] if self.lengths.ndim else self.lengths,
            groups=[group[chosen[: len(group)]] for group in self.groups],
            tail=None if self.tail is None else self.tail[chosen],
            tail_factor=self.tail_factor[chosen] if self.tail_factor.ndim else self.tail_factor,
        )


class Rounds:
    """Computes the hashes of a block's keys, round after round. The hash of a key in one round is its seed in the next round.

    A round makes some thirty numpy calls over the whole block, and the overhead of each call matters. Therefore all buffers are
    allocated once, and output arrays are passed by position.

    Args:
        state: the seed of each key, which the rounds overwrite; None: all seeds are 0.
    """

    def __init__(self, block: Block, state: Int32s | None = None) -> None:
        self.block = block
        self.state = np.zeros(len(block), np.int32) if state is None else state
        self._hash = self.state.view(np.uint32)
        self._scratch = np.empty(len(block), np.uint32)
        self._quotient = np.empty(len(block), np.uint32)
        self._positions = np.empty(len(block), np.int64)
        self._steps = [(self._hash[: len(group)], group) for group in block.groups]

    def next_positions(self, bits: UInt32s) -> Int64s:
        """Run the next round and return the bit position of every key in a bloom filter row of `bits` bits.

        The next call overwrites the returned array. A position is Java's abs(hash % bits). This equals |hash| mod bits, also for
        the smallest int, whose absolute value fits only the unsigned view. The remainder is computed by a division: numpy has
        vector instructions for division by a scalar, but not for the remainder.
        """
        self.hash()
        magnitude = self._scratch
        quotient = self._quotient
        np.absolute(self.state, magnitude.view(np.int32))
        np.floor_divide(magnitude, bits, quotient)
        np.multiply(quotient, bits, quotient)
        np.subtract(magnitude, quotient, quotient)
        self._positions[:] = quotient
        return self._positions

    def hash(self) -> None:
        """Hash every key once, in place: `state` holds the seed of each key before the call, and its hash after it."""
        block = self.block
        state = self._hash
        scratch = self._scratch
        np.bitwise_xor(state, block.lengths, state)
        for head, group in self._steps:
            np.multiply(head, _M, head)
            np.bitwise_xor(head, group, head)
        if block.tail is not None:
            np.bitwise_xor(state, block.tail, state)
            np.multiply(state, block.tail_factor, state)
        _xor_shifted(state, _13, scratch)
        np.multiply(state, _M, state)
        _xor_shifted(state, _15, scratch)

    def only(self, chosen: Bools) -> Rounds:
        """Return a copy with only the keys where the mask `chosen` is true. It continues from the current hashes."""
        return Rounds(self.block.only(chosen), self.state[chosen])


def hash_few(block: Block, rounds: int) -> UInt32s:
    """Return the hashes of the first rounds for a block of few keys of one length, with one row per round.

    A round of `Rounds` takes the same time for one key as for some hundred: the overhead of thirty numpy calls. This function
    computes a round with Python integers instead. An integer holds one 64-bit lane per key, with the hash in the lower half. The
    product of two 32-bit numbers stays in its lane. The mask removes its upper half, and the bits that a shift brings from the
    next lane.

    Args:
        block: the keys. Its `order` is None: a block of keys of different lengths is sorted.
        rounds: the number of rounds.
    """
    mask = _pack_lanes(np.full(len(block), 0xFFFFFFFF, np.uint32))
    lengths = _pack_lanes(np.full(len(block), block.lengths))
    groups = [_pack_lanes(group) for group in block.groups]
    tail = None if block.tail is None else _pack_lanes(block.tail)
    factor = int(_M)
    state = 0
    states: list[bytes] = []
    for _ in range(rounds):
        state ^= lengths
        for group in groups:
            state = ((state * factor) & mask) ^ group
        if tail is not None:
            state = ((state ^ tail) * factor) & mask
        state ^= (state >> 13) & mask
        state = (state * factor) & mask
        state ^= (state >> 15) & mask
        states.append(state.to_bytes(8 * len(block), "little"))
    return np.frombuffer(b"".join(states), "<u8").astype(np.uint32).reshape(rounds, len(block))


def _pack_lanes(numbers: npt.NDArray[Any]) -> int:
    """Return 32-bit numbers as one integer with a 64-bit lane per number. The first number is in the lowest lane."""
    return int.from_bytes(numbers.astype("<u8").tobytes(), "little")


def key_spans(keys: Keys) -> list[Span]:
    """Return the bytes of all keys, as one `Span` per chunk of `keys`.

    Raises:
        RecordKeyError: a key is null or empty.
    """
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    return [_key_span(chunk) for chunk in chunks if len(chunk)]


def _key_span(keys: pa.Array[Any]) -> Span:
    """Return the bytes of the keys of one array as a `Span`. Raises RecordKeyError if a key is null or empty."""
    if not (pa.types.is_large_string(keys.type) or pa.types.is_string(keys.type)):
        keys = keys.cast(pa.large_string())
    if keys.null_count:
        raise RecordKeyError("a record key is null; a bloom filter takes keys of at least one byte")
    offset_type = np.int64 if pa.types.is_large_string(keys.type) else np.int32
    buffers: list[Any] = keys.buffers()  # validity, offsets, bytes
    offsets = np.frombuffer(buffers[1], offset_type)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(offsets)
    if lengths.min() == 0:
        raise RecordKeyError("a record key is an empty string; a bloom filter takes keys of at least one byte")
    data = np.frombuffer(buffers[2], np.uint8)
    data.flags.writeable = False  # the memory belongs to the caller
    return Span(data, offsets[:-1], lengths)


def _prepare_block(keys: Span) -> Block:
    """Prepare keys for hashing: scramble their groups of four bytes, and sort them by length if lengths differ."""
    if (keys.lengths == keys.lengths[0]).all():
        return _prepare_equal_lengths(keys)
    return _prepare_mixed_lengths(keys)


def _prepare_equal_lengths(keys: Span) -> Block:
    """Prepare keys of one length for hashing. They lie at equal distances, so a strided view of the bytes yields their groups."""
    count = len(keys)
    length = int(keys.lengths[0])
    start = int(keys.starts[0])
    stride = int(keys.starts[1]) - start if count > 1 else length
    words = np.ndarray((length // 4, count), "<u4", buffer=keys.data, offset=start, strides=(4, stride))
    groups = list(np.array(words, dtype=np.uint32, order="C"))  # a copy: scrambling writes to the groups
    tail = _read_tail(keys.data, keys.starts + length, length % 4) if length % 4 else None
    return Block(count, None, np.array(length, np.uint32), _scramble(groups), tail, _M)


def _prepare_mixed_lengths(keys: Span) -> Block:
    """Prepare keys of different lengths for hashing. The keys are sorted by length, the longest first."""
    order = np.argsort(-keys.lengths, kind="stable")
    starts = keys.starts[order].astype(np.int64)
    lengths = keys.lengths[order].astype(np.uint32)
    # The four bytes from every offset on, so that indexing with offsets gathers groups.
    words = np.ndarray((max(0, len(keys.data) - 3),), "<u4", buffer=keys.data, strides=(1,))
    negative_counts = -(lengths >> 2).astype(np.int64)  # of groups: negative, because searchsorted needs ascending numbers
    groups = []
    for number in range(-int(negative_counts[0])):
        keys_with_group = int(np.searchsorted(negative_counts, -number))
        groups.append(words[starts[:keys_with_group] + 4 * number].astype(np.uint32))
    tail_sizes = lengths & 3
    tail = np.zeros(len(lengths), np.uint32)
    for size in (1, 2, 3):
        chosen = tail_sizes == size
        tail[chosen] = _read_tail(keys.data, (starts + lengths)[chosen], size)
    return Block(len(keys), order, lengths, _scramble(groups), tail, np.where(tail_sizes > 0, _M, _ONE))


def _scramble(groups: list[UInt32s]) -> list[UInt32s]:
    """Scramble each group of four key bytes in place, and return the groups.

    MurmurHash2 scrambles a group before it mixes the group into the hash.
    """
    scratch = np.empty(len(groups[0]) if groups else 0, np.uint32)
    for group in groups:
        np.multiply(group, _M, group)
        _xor_shifted(group, _24, scratch[: len(group)])
        np.multiply(group, _M, group)
    return groups


def _xor_shifted(values: UInt32s, distance: UInt32s, scratch: UInt32s) -> None:
    """Compute values ^= values >> distance in place. `scratch` is a buffer of the same length, which is overwritten."""
    np.right_shift(values, distance, scratch)
    np.bitwise_xor(values, scratch, values)


def _read_tail(data: Bytes, ends: npt.NDArray[Any], size: int) -> UInt32s:
    """Return the last `size` bytes of each key as one number.

    Keeps two quirks of Hadoop's hash: the key's last byte is the lowest byte of the number, and bytes are signed, as in Java.

    Args:
        ends: the offset in `data` at which each key ends.
    """
    signed = data.view(np.int8)
    tail = np.zeros(len(ends), np.int32)
    for back in range(1, size + 1):
        tail ^= signed[ends - back].astype(np.int32) << np.int32(8 * (back - 1))
    return tail.view(np.uint32)
