"""Reads the varints at many offsets of a buffer at once. Avro writes every int, long, length and count as a varint.

A varint holds seven bits of a number in each byte, the lowest first; all bytes but the last have the high bit set. Avro's numbers
are zigzag-encoded in addition: 0, -1, 1, -2 are stored as 0, 1, 2, 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import CorruptFile

#: Byte offsets in a buffer, or numbers of items, one per record or value.
Offsets = npt.NDArray[np.int64]

_ONE = np.uint64(1)
#: Numbers as numpy scalars, so that operations with arrays of uint64 return arrays of uint64 in every version of numpy.
_U = {number: np.uint64(number) for number in (1, 2, 3, 4, 52, 56, 63, 0x7F, 0x80, 1022)}
_HIGH_BITS = np.uint64(0x8080808080808080)
#: Steps that join neighbouring groups of bits: 7+7, 14+14, 28+28. Each: the low groups, the high groups, and their shift.
_PACKING = [
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), _U[1]),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), _U[2]),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), _U[4]),
]


class VarintReader:
    """Reads numbers at many offsets of one buffer, which has eight bytes at least.

    In all methods `at` holds the offset of a number in each record, and `ends` the end of each record; both ascend. The methods
    raise CorruptFile if a number extends past the end of its record.
    """

    def __init__(self, buffer: pa.Buffer) -> None:
        self._bytes = np.frombuffer(buffer, np.uint8)
        self._words = overlapping_runs(buffer, 8)

    def read_longs(self, at: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Read the Avro long at each offset of `at`; return (signed numbers, offsets after them).

        Args:
            ends: the offset at which the record of each number ends.
        """
        zigzag, stops = self._read_varints(at, ends)
        return (zigzag >> _ONE).view(np.int64) ^ -(zigzag & _ONE).view(np.int64), stops

    def _read_varints(self, at: Offsets, ends: Offsets) -> tuple[npt.NDArray[np.uint64], Offsets]:
        """Read the varint at each offset of `at`; return (the numbers, still zigzag-encoded; the offsets after them).

        The eight bytes from each offset on are handled as one 64-bit word, with the first byte lowest. The last byte of a varint
        is the first one whose high bit is not set. To find it, the word is reduced to that single bit and cast to float64: the
        exponent of the float is the place of the bit.

        Args:
            ends: the offset at which the record of each number ends.
        """
        if (at >= ends).any():
            raise CorruptFile("a value begins past the end of its record")
        first = self._bytes[at]
        if first.max() < 0x80:
            return first.astype(np.uint64), at + 1
        words = self._words_at(at)
        stop_bits = ~words & _HIGH_BITS
        lowest = stop_bits & (~stop_bits + _ONE)
        exponents = lowest.astype(np.float64).view(np.uint64) >> _U[52]
        sizes = ((exponents - _U[1022]) >> _U[3]).astype(np.int64)
        numbers = _pack_groups(words & (lowest - _ONE) & ~_HIGH_BITS)
        if not stop_bits.all():
            self._finish_long_numbers(numbers, sizes, words, stop_bits == 0, at, ends)
        stops = at + sizes
        if (stops > ends).any():
            raise CorruptFile("a number reaches past the end of its record")
        return numbers, stops

    def _finish_long_numbers(
        self,
        numbers: npt.NDArray[np.uint64],
        sizes: Offsets,
        words: npt.NDArray[np.uint64],
        is_long: npt.NDArray[np.bool_],
        at: Offsets,
        ends: Offsets,
    ) -> None:
        """Complete the varints of nine or ten bytes, which do not end within eight bytes: set `numbers` and `sizes` in place.

        Args:
            numbers: the decoded varints, still zigzag.
            sizes: the number of bytes of each varint.
            words: the first eight bytes of each varint.
            is_long: a mask over the varints, true for those of nine or ten bytes.
            at: the offset of each varint.
            ends: the end of each varint's record.
        """
        ninth_at = at[is_long] + 8
        if (ninth_at >= ends[is_long]).any():
            raise CorruptFile("a number reaches past the end of its record")
        ninth = self._bytes[ninth_at].astype(np.uint64)
        has_tenth = ninth >= _U[0x80]
        tenth_at = np.minimum(ninth_at + 1, len(self._bytes) - 1)
        tenth = np.where(has_tenth, self._bytes[tenth_at], 0).astype(np.uint64)
        if (tenth > _ONE).any():
            raise CorruptFile("a number of more than 64 bits")
        low = _pack_groups(words[is_long] & ~_HIGH_BITS)
        numbers[is_long] = low | ((ninth & _U[0x7F]) << _U[56]) | (tenth << _U[63])
        sizes[is_long] = np.where(has_tenth, 10, 9)

    def _words_at(self, at: Offsets) -> npt.NDArray[np.uint64]:
        """Return for each offset the next eight bytes as a little-endian number; zeros past the end of the buffer."""
        last = len(self._bytes) - 8
        if at[-1] <= last:
            return np.asarray(self._words[at].view("<u8"), np.uint64)
        clipped = np.minimum(at, last)
        excess_bits = ((at - clipped) * 8).astype(np.uint64)
        return np.asarray(self._words[clipped].view("<u8"), np.uint64) >> excess_bits


def overlapping_runs(buffer: pa.Buffer, size: int) -> Any:
    """Return a view of a buffer whose item i is the `size` bytes from offset i on. Indexing the view gathers values."""
    if not size:
        return np.empty(buffer.size + 1, "V0")
    count = max(0, buffer.size - size + 1)
    return np.ndarray((count,), f"V{size}", buffer, 0, (1,))


def _pack_groups(groups: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Convert each 64-bit word to a number of 56 bits: remove the high bit of each of its eight bytes, and join the rest."""
    for low, high, shift in _PACKING:
        groups = (groups & low) | ((groups & high) >> shift)
    return groups
