"""Hashes of texts as Java's libraries compute them, a column at a time. Kernel: Arrow texts in, numbers out.

`java_hash` is `String.hashCode`: a polynomial in 31 over the UTF-16 units, modulo 2^32. 31 has an inverse there, so that the
hashes of all texts come out of one running sum over all units: the sum of `unit * 31^-place`, from the first unit of a text to
its last, times `31^(last place)`. Plain texts of one length, as most keys are, need no running sum: each is a row of a matrix.
`xx_hash` is xxHash32 over the UTF-8 bytes, texts of one length at a time.
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
#: Texts that are widened to four bytes a character together, to stay in the cache.
_ROWS_AT_ONCE = 8_192
_P1, _P2, _P3, _P4, _P5 = (np.uint32(p) for p in (2654435761, 2246822519, 3266489917, 668265263, 374761393))


def java_hash(texts: Texts) -> UInt32s:
    """`String.hashCode` of every text, as an unsigned number; 0 for null."""
    data, offsets = _bytes(texts)
    is_plain = not (data >= 0x80).any()
    if is_plain and len(data) and (np.diff(offsets) == offsets[1]).all():
        return _java_hash_of(data.reshape(len(texts), -1))
    units = data.astype(np.uint32)
    if not is_plain:
        units = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-16-le"), np.uint16).astype(np.uint32)
        # a byte that continues a character adds no unit, one that begins a character of four bytes adds two
        added = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(added)])[offsets]
    return java_polynomial(units, offsets)


def _java_hash_of(rows: npt.NDArray[np.uint8]) -> UInt32s:
    """The hashes of plain texts of one length, a row each, some of them at a time."""
    powers = _powers(_BASE, rows.shape[1])[::-1]
    parts = (rows[at : at + _ROWS_AT_ONCE].astype(np.uint32) for at in range(0, len(rows), _ROWS_AT_ONCE))
    return np.concatenate([np.einsum("ij,j->i", part, powers) for part in parts])


def java_polynomial(values: UInt32s, offsets: Int64s) -> UInt32s:
    """For each run of values, from one offset to the next: the polynomial in 31 whose last coefficient is the last value."""
    powers = _powers(_INVERSE, len(values))
    sums = np.concatenate([np.zeros(1, np.uint32), np.cumsum(values * powers, dtype=np.uint32)])
    found = sums[offsets[1:]] - sums[offsets[:-1]]
    last = np.maximum(offsets[1:] - 1, 0)
    return np.asarray(found * _powers(_BASE, len(values) + 1)[last], np.uint32)


def powers_of_31(counts: Int64s) -> UInt32s:
    """31 to each of some powers."""
    return _powers(_BASE, int(counts.max(initial=0)) + 1)[counts]


def _powers(base: np.uint32, count: int) -> UInt32s:
    """1, base, base², ..."""
    factors = np.full(count, base, np.uint32)
    factors[:1] = 1
    return np.cumprod(factors, dtype=np.uint32)


def xx_hash(texts: Texts) -> UInt32s:
    """xxHash32 with seed 0 of every text; a null counts as empty."""
    data, offsets = _bytes(texts)
    lengths = offsets[1:] - offsets[:-1]
    hashes = np.zeros(len(lengths), np.uint32)
    order = np.argsort(lengths, kind="stable")
    sizes, starts = np.unique(lengths[order], return_index=True)
    for size, rows in zip(sizes.tolist(), np.split(order, starts[1:]), strict=True):  # lengths, not records
        places = offsets[rows][:, None] + np.arange(size)
        hashes[rows] = _xx_hash_of(data[places] if size else np.zeros((len(rows), 0), np.uint8))
    return hashes


def _xx_hash_of(rows: npt.NDArray[np.uint8]) -> UInt32s:
    """xxHash32 of texts of one length, a row each."""
    count, size = rows.shape
    words = np.ascontiguousarray(rows[:, : size // 4 * 4]).view("<u4").astype(np.uint32, copy=False)
    lanes = size // 16 * 4
    if lanes:
        first = (int(_P1) + int(_P2), int(_P2), 0, -int(_P1))
        state = [np.full(count, at % 2**32, np.uint32) for at in first]
        for i in range(lanes):
            state[i % 4] = _rotated(state[i % 4] + words[:, i] * _P2, 13) * _P1
        hashes = _rotated(state[0], 1) + _rotated(state[1], 7) + _rotated(state[2], 12) + _rotated(state[3], 18)
    else:
        hashes = np.full(count, _P5, np.uint32)
    hashes = hashes + np.uint32(size)
    for i in range(lanes, size // 4):
        hashes = _rotated(hashes + words[:, i] * _P3, 17) * _P4
    for i in range(size // 4 * 4, size):
        hashes = _rotated(hashes + rows[:, i].astype(np.uint32) * _P5, 11) * _P1
    hashes = (hashes ^ (hashes >> np.uint32(15))) * _P2
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _P3
    return np.asarray(hashes ^ (hashes >> np.uint32(16)), np.uint32)


def _rotated(values: UInt32s, by: int) -> UInt32s:
    return np.asarray((values << np.uint32(by)) | (values >> np.uint32(32 - by)), np.uint32)


def _bytes(texts: Texts) -> tuple[npt.NDArray[np.uint8], Int64s]:
    """The bytes of all texts, and where each begins; the last offset is the end."""
    filled = pc.fill_null(texts.cast(pa.large_string()), "")
    _, offsets, data = filled.buffers()
    if len(filled) == 0 or offsets is None:
        return np.zeros(0, np.uint8), np.zeros(len(filled) + 1, np.int64)
    places = np.frombuffer(offsets, np.int64)[filled.offset : filled.offset + len(filled) + 1]
    held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return held[places[0] : places[-1]], places - places[0]
