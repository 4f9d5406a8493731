"""Curves through several columns: rows that are near one another in all of them come near one another. Kernels.

Every column becomes whole numbers of 64 bits in the order of its values. The z-order curve takes the bits of all columns in
turn. The hilbert curve turns and mirrors the cells on every level first (Skilling, 2004), so that neighbours along it are
neighbours in space. Either gives a few columns of numbers, by which rows are sorted one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)
_BYTES = 8
#: Columns beyond this many would leave a curve no order worth the name.
MOST_COLUMNS = 8


def words_of(column: pa.ChunkedArray) -> Words:
    """A column as numbers in the order of its values, which do not depend on other rows. Nulls come first.

    Of a text, or bytes, the first eight bytes count.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        found = _leading_bytes(column)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        found = _of_floats(_floats(column))
    else:
        found = _of_whole_numbers(column)
    if column.null_count:
        found[pc.is_null(column).to_numpy()] = 0
    return found


def _of_whole_numbers(column: pa.ChunkedArray) -> Words:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        column = pc.cast(column, pa.int32() if kind.bit_width == 32 else pa.int64())
    numbers = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy()
    return numbers.view(np.uint64) ^ _SIGN


def _of_floats(values: npt.NDArray[np.float64]) -> Words:
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # and no negative zero
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _leading_bytes(column: pa.ChunkedArray) -> Words:
    parts = [_leading_bytes_of(chunk) for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _leading_bytes_of(texts: pa.Array) -> Words:
    _, offsets, data = texts.buffers()
    found = np.zeros(len(texts), np.uint64)
    if data is None or not data.size:
        return found
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8)
    for at in range(_BYTES):
        here = ends[:-1] + at
        inside = here < ends[1:]
        values = content[np.minimum(here, len(content) - 1)].astype(np.uint64)
        found |= np.where(inside, values, np.uint64(0)) << np.uint64(8 * (_BYTES - 1 - at))
    return found


def widened(sample: pa.ChunkedArray, column: pa.ChunkedArray) -> Words:
    """A column as numbers that use all bits between the least and the greatest value of a sample; nulls come first.

    Otherwise a column of small whole numbers would differ in the last bits alone, and count only after all others; and
    floating-point numbers, most of whose bits tell small ones apart, likewise.
    """
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        return _scaled(_floats(sample.drop_null()), _floats(column), pc.is_null(column).to_numpy())
    known, found = words_of(sample.drop_null()), words_of(column)
    low, high = (known.min(), known.max()) if len(known) else (np.uint64(0), np.uint64(0))
    room = 64 - int(high - low).bit_length()
    return (np.clip(found, low, high) - low) << np.uint64(room) if room < 64 else np.zeros_like(found)


def _floats(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    return pc.fill_null(pc.cast(column, pa.float64(), safe=False), 0.0).to_numpy()


def _scaled(known: npt.NDArray[np.float64], values: npt.NDArray[np.float64], is_null: npt.NDArray[np.bool_]) -> Words:
    known = known[np.isfinite(known)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    if not 0 < high - low < np.inf:
        return np.zeros(len(values), np.uint64)
    found = (np.clip(np.nan_to_num(values, nan=high), low, high) - low) / (high - low) * (1 << 53)
    return np.where(is_null, np.uint64(0), found.astype(np.uint64) << np.uint64(10))


def distinct(column: pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """The values of a column, each once, and for every row the number of its value; nulls have the number after the last."""
    encoded = column.dictionary_encode().unify_dictionaries()
    values = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], column.type)
    codes = [pc.fill_null(chunk.indices, len(values)).to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return values, np.concatenate([np.empty(0, np.int32), *codes])


def ranks_in(sample: pa.ChunkedArray, column: pa.ChunkedArray) -> Words:
    """How many values of a sample are not greater than each value of a column, in upper bits of a number; nulls come first."""
    values, codes = distinct(column)
    known = sample.drop_null()
    both = pa.chunked_array([*known.chunks, values], column.type)
    order = pc.sort_indices(both).to_numpy()
    ranks = np.empty(len(both) + 1, np.uint64)
    ranks[order] = np.cumsum(order < len(known)) + 1
    ranks[-1] = 0
    return ranks[len(known) :][codes] << np.uint64(63 - (len(known) + 1).bit_length())


def z_order(columns: Sequence[Words]) -> list[Words]:
    """The bits of all columns in turn, the highest first, as numbers to sort by one after the other."""
    count = len(columns)
    spread = _spreading(count)
    per_word = max(1, 64 // (_BYTES * count))
    found: list[Words] = []
    for level in range(_BYTES):
        shift = np.uint64(8 * (_BYTES - 1 - level))
        chunk = np.zeros(len(columns[0]), np.uint64)
        for at, column in enumerate(columns):
            chunk |= spread[(column >> shift).astype(np.uint8)] << np.uint64(count - 1 - at)
        if level % per_word:
            found[-1] = (found[-1] << np.uint64(_BYTES * count)) | chunk
        else:
            found.append(chunk)
    return found


def _spreading(count: int) -> Words:
    """For each byte, its bits with room for those of the other columns between them."""
    numbers = np.arange(256, dtype=np.uint64)
    spread = np.zeros(256, np.uint64)
    for bit in range(8):
        spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * count)
    return spread


def hilbert(columns: Sequence[Words]) -> list[Words]:
    """The place of each row along the hilbert curve, as numbers to sort by one after the other."""
    axes = [column.copy() for column in columns]
    for level in range(63, 0, -1):
        _turn(axes, np.uint64(1 << level))
    for one, other in zip(axes[1:], axes[:-1], strict=True):
        one ^= other
    flips = np.zeros(len(axes[0]), np.uint64)
    for level in range(63, 0, -1):
        bit = np.uint64(1 << level)
        flips ^= np.where(axes[-1] & bit, bit - np.uint64(1), np.uint64(0))
    for axis in axes:
        axis ^= flips
    return z_order(axes)


def _turn(axes: list[Words], bit: np.uint64) -> None:
    """Undo, on one level, how the cell is mirrored (its first axis) or turned (its first axis and another one)."""
    below = bit - np.uint64(1)
    first = axes[0]
    for axis in axes:
        upper = (axis & bit) != 0
        swapped = np.where(upper, np.uint64(0), (first ^ axis) & below)
        first ^= np.where(upper, below, swapped)
        if axis is not first:
            axis ^= swapped
