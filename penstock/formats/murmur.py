"""Hashes of keys, many at once and round after round, as bloom filters take them.

How a block is hashed. The hash (a MurmurHash2 variant) walks over a key in groups of four bytes. What it does to a
group before mixing it in does not depend on the seed, and a filter hashes each key some thirty times with changing
seeds. So

1. cut the keys into blocks that fit the cache, longest key first: the keys that have an n-th group are a prefix;
2. scramble the groups once per block;
3. per round: mix all groups in, take the position, mark it in a row held as one byte per bit.
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

# Arrays of no dimension: numpy takes them as they are, while it makes an array of a number anew in every call.
_M = np.array(0x5BD1E995, np.uint32)
_ONE, _13, _15, _24 = (np.array(number, np.uint32) for number in (1, 13, 15, 24))
_BLOCK_KEYS = 1 << 16
_BLOCK_BYTES = 1 << 24


def murmur(keys: Keys, seed: int = 0) -> Int32s:
    """The hash of every key, as the signed 32-bit number Java shows."""
    hashes = [np.zeros(0, np.int32)]
    for span in spans(keys):
        for block in span.blocks():
            rounds = Rounds(block, np.full(len(block), seed, np.int32))
            rounds.hash()
            in_order = np.empty_like(rounds.state)
            in_order[slice(None) if block.order is None else block.order] = rounds.state
            hashes.append(in_order)
    return np.concatenate(hashes)


@dataclass(frozen=True)
class Span:
    """Keys as places in one byte buffer: key i starts at `starts[i]` and has `lengths[i]` bytes."""

    data: Bytes
    starts: npt.NDArray[Any]
    lengths: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, part: slice) -> Span:
        return Span(self.data, self.starts[part], self.lengths[part])

    def blocks(self) -> Iterator[Block]:
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
class Block:
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

    def only(self, chosen: Bools) -> Block:
        """The chosen keys of the block, without their order."""
        return Block(
            count=int(np.count_nonzero(chosen)),
            order=None,
            lengths=self.lengths[chosen] if self.lengths.ndim else self.lengths,
            groups=[group[chosen[: len(group)]] for group in self.groups],
            tail=None if self.tail is None else self.tail[chosen],
            tail_factor=self.tail_factor[chosen] if self.tail_factor.ndim else self.tail_factor,
        )


class Rounds:
    """The hashes of a block's keys, round after round: each hash is the seed of the next. Owns the buffers.

    A round is some thirty calls of numpy over the whole block, so that what a call costs by itself counts: arrays are made once,
    and handed over by position.
    """

    def __init__(self, block: Block, state: Int32s | None = None) -> None:
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

    def only(self, chosen: Bools) -> Rounds:
        """Go on with the chosen keys."""
        return Rounds(self.block.only(chosen), self.state[chosen])


def spans(keys: Keys) -> list[Span]:
    """The keys of each chunk as bytes, checked: none is null, none is empty."""
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    return [_span(chunk) for chunk in chunks if len(chunk)]


def _span(keys: pa.Array[Any]) -> Span:
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
    return Span(data, offsets[:-1], lengths)


def _block(keys: Span) -> Block:
    if (keys.lengths == keys.lengths[0]).all():
        return _even_block(keys)
    return _mixed_block(keys)


def _even_block(keys: Span) -> Block:
    """All keys have one length, and so stand at even distances: the groups are a strided view of the buffer."""
    count, length, start = len(keys), int(keys.lengths[0]), int(keys.starts[0])
    stride = int(keys.starts[1]) - start if count > 1 else length
    words = np.ndarray((length // 4, count), "<u4", buffer=keys.data, offset=start, strides=(4, stride))
    groups = list(np.array(words, dtype=np.uint32, order="C"))  # always a copy: the groups are written to
    tail = _tail(keys.data, keys.starts + length, length % 4) if length % 4 else None
    return Block(count, None, np.array(length, np.uint32), _scramble(groups), tail, _M)


def _mixed_block(keys: Span) -> Block:
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
    return Block(len(keys), order, lengths, _scramble(groups), tail, np.where(over > 0, _M, _ONE))


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
