"""Computes hashes of strings as Java libraries do, for a whole Arrow column at once.

The bucket index and consistent hashing place record keys by these hashes. `java_hash` is `String.hashCode`: a polynomial in 31
over the UTF-16 units, modulo 2^32. 31 has an inverse modulo 2^32. Therefore one running sum over the units of all strings, placed
one after the other, yields all hashes. The hash of a string is the sum of `unit * 31^-place` from its first to its last unit,
times `31^(last place)`. ASCII strings of one length, as most keys are, need no running sum: each string is a row of a matrix.
`xx_hash` is xxHash32 over the UTF-8 bytes, computed for all strings of one length at once.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

UInt32s = npt.NDArray[np.uint32]
Int64s = npt.NDArray[np.int64]
Texts: TypeAlias = "pa.Array[Any]"

_BASE = np.uint32(31)
_INVERSE = np.uint32(pow(31, -1, 2**32))
#: How many strings are widened to four bytes per character at once: the copy should stay in the processor's cache.
_ROWS_AT_ONCE = 8_192
# The primes of xxHash32.
_P1, _P2, _P3, _P4, _P5 = (np.uint32(p) for p in (2654435761, 2246822519, 3266489917, 668265263, 374761393))


def java_hash(texts: Texts) -> UInt32s:
    """Return `String.hashCode` of every string as an unsigned number; 0 for null."""
    data, offsets = _bytes_and_offsets(texts)
    is_ascii = not (data >= 0x80).any()
    if is_ascii and len(data) and (np.diff(offsets) == offsets[1]).all():
        return _java_hash_of_rows(data.reshape(len(texts), -1))
    units = data.astype(np.uint32)
    if not is_ascii:
        units = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-16-le"), np.uint16).astype(np.uint32)
        # Offsets count bytes and must count UTF-16 units. The first byte of a character adds one unit, that of a character of
        # four bytes adds two (a surrogate pair), and the other bytes add none.
        units_added = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(units_added)])[offsets]
    return java_polynomial(units, offsets)


def _java_hash_of_rows(rows: npt.NDArray[np.uint8]) -> UInt32s:
    """Return `String.hashCode` of ASCII strings of one length. Each row of the matrix holds the bytes of a string."""
    powers = _powers(_BASE, rows.shape[1])[::-1]
    hashes = []
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[first : first + _ROWS_AT_ONCE].astype(np.uint32)
        hashes.append(np.einsum("ij,j->i", part, powers))
    return np.concatenate(hashes)


def java_polynomial(values: UInt32s, offsets: Int64s) -> UInt32s:
    """Return one number per list of values: the polynomial in 31 with the values as coefficients, modulo 2^32.

    This is Java's hash of a string (values: UTF-16 units), and the main part of Java's hash of a list (values: hashes of items).
    The last value of a list is the constant term. List i holds the values from `offsets[i]` to `offsets[i + 1]`.
    """
    inverse_powers = _powers(_INVERSE, len(values))
    sums = np.concatenate([np.zeros(1, np.uint32), np.cumsum(values * inverse_powers, dtype=np.uint32)])
    scaled = sums[offsets[1:]] - sums[offsets[:-1]]
    last = np.maximum(offsets[1:] - 1, 0)
    return np.asarray(scaled * _powers(_BASE, len(values) + 1)[last], np.uint32)


def powers_of_31(counts: Int64s) -> UInt32s:
    """Return 31 to the power of each count, modulo 2^32. Java's hash of a list with `count` items adds this power."""
    return _powers(_BASE, int(counts.max(initial=0)) + 1)[counts]


def _powers(base: np.uint32, count: int) -> UInt32s:
    """Return the first `count` powers of `base`, from 1 on, modulo 2^32."""
    factors = np.full(count, base, np.uint32)
    factors[:1] = 1
    return np.cumprod(factors, dtype=np.uint32)


def xx_hash(texts: Texts) -> UInt32s:
    """Return xxHash32 with seed 0 of the UTF-8 bytes of every string. A null is hashed as the empty string."""
    data, offsets = _bytes_and_offsets(texts)
    lengths = offsets[1:] - offsets[:-1]
    hashes = np.zeros(len(lengths), np.uint32)
    order = np.argsort(lengths, kind="stable")
    sizes, starts = np.unique(lengths[order], return_index=True)
    for size, numbers in zip(sizes.tolist(), np.split(order, starts[1:]), strict=True):  # a loop over lengths, not over rows
        byte_offsets = offsets[numbers][:, None] + np.arange(size)
        rows = data[byte_offsets] if size else np.zeros((len(numbers), 0), np.uint8)
        hashes[numbers] = _xx_hash_of_rows(rows)
    return hashes


def _xx_hash_of_rows(rows: npt.NDArray[np.uint8]) -> UInt32s:
    """Return xxHash32 with seed 0 of strings of one length. Each row of the matrix holds the bytes of a string."""
    count, size = rows.shape
    words = np.ascontiguousarray(rows[:, : size // 4 * 4]).view("<u4").astype(np.uint32, copy=False)
    lane_words = size // 16 * 4  # words in stripes of sixteen bytes, four lanes each
    if lane_words:
        initial = (int(_P1) + int(_P2), int(_P2), 0, -int(_P1))
        state = [np.full(count, value % 2**32, np.uint32) for value in initial]
        for i in range(lane_words):
            state[i % 4] = _rotated(state[i % 4] + words[:, i] * _P2, 13) * _P1
        hashes = _rotated(state[0], 1) + _rotated(state[1], 7) + _rotated(state[2], 12) + _rotated(state[3], 18)
    else:
        hashes = np.full(count, _P5, np.uint32)
    hashes = hashes + np.uint32(size)
    for i in range(lane_words, size // 4):
        hashes = _rotated(hashes + words[:, i] * _P3, 17) * _P4
    for i in range(size // 4 * 4, size):
        hashes = _rotated(hashes + rows[:, i].astype(np.uint32) * _P5, 11) * _P1
    hashes = (hashes ^ (hashes >> np.uint32(15))) * _P2
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _P3
    return np.asarray(hashes ^ (hashes >> np.uint32(16)), np.uint32)


def _rotated(values: UInt32s, by: int) -> UInt32s:
    """Return 32-bit numbers rotated to the left by `by` bits."""
    return np.asarray((values << np.uint32(by)) | (values >> np.uint32(32 - by)), np.uint32)


def _bytes_and_offsets(texts: Texts) -> tuple[npt.NDArray[np.uint8], Int64s]:
    """Return (the UTF-8 bytes of all strings, the offset of each string followed by the end of the last one).

    A null counts as an empty string.
    """
    strings = pc.fill_null(texts.cast(pa.large_string()), "")
    _, offset_buffer, data_buffer = strings.buffers()
    if len(strings) == 0 or offset_buffer is None:
        return np.zeros(0, np.uint8), np.zeros(len(strings) + 1, np.int64)
    offsets = np.frombuffer(offset_buffer, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    has_data = data_buffer is not None and data_buffer.size > 0
    data = np.frombuffer(data_buffer, np.uint8) if has_data else np.zeros(0, np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]
