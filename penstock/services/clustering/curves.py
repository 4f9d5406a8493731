"""Space-filling curves through several columns: rows with similar values in all columns come close together.

    column → words → z-order or hilbert → numbers to sort by

Every column is converted to words: unsigned 64-bit numbers that sort as the values do. The z-order curve interleaves the bits of
all columns. The hilbert curve does the same, but first turns and mirrors the cells of every level. A level is one bit position,
and a cell holds the points that share all higher bits. So rows that are neighbours on the curve have similar values in all
columns (Skilling, "Programming the Hilbert curve", 2004). Both curves return a few columns of numbers; rows are sorted by the
first, then by the second, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

_SIGN = np.uint64(1 << 63)
_WORD_BITS = 64
_WORD_BYTES = 8
#: With more columns the first bits of a curve would distinguish too little to be an order. 8 columns of one byte fill a word.
MOST_COLUMNS = 8


# Words: a column as numbers in the order of its values


def order_words(column: pa.ChunkedArray) -> Words:
    """Return an unsigned 64-bit number per value; the numbers sort as the values do. A null gets 0 and so comes first.

    The number depends on the value alone, so values of different files can be compared. Of strings and binary values only the
    first eight bytes count.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        words = _words_of_texts(column)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        words = _words_of_floats(_to_floats(column))
    else:
        words = _words_of_integers(column)
    if column.null_count:
        words[pc.is_null(column).to_numpy()] = 0
    return words


def _words_of_integers(column: pa.ChunkedArray) -> Words:
    """Return an unsigned 64-bit number per integer, boolean, date, time or timestamp. The numbers sort as the values do."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        column = pc.cast(column, pa.int32() if kind.bit_width == 32 else pa.int64())  # dates, times and timestamps
    numbers = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy()
    # With the sign bit flipped, negative numbers come before positive ones in unsigned order.
    return numbers.view(np.uint64) ^ _SIGN


def _words_of_floats(values: Floats) -> Words:
    """Return an unsigned 64-bit number per floating point value. The numbers sort as the values do."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # adding zero turns -0.0 into 0.0
    # IEEE 754: the bits of positive numbers are in order, those of negative ones in reverse order. Negative numbers are inverted,
    # and positive ones get the upper bit, so that they come behind.
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _words_of_texts(column: pa.ChunkedArray) -> Words:
    """Return an unsigned 64-bit number per string or binary value, made of the value's first eight bytes."""
    parts = [_leading_bytes(chunk) for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.uint64), *parts])  # the empty one is for a column without chunks


def _leading_bytes(texts: pa.Array) -> Words:
    """Return the first eight bytes of each string or binary value as a big-endian number, padded with zero bytes."""
    _, offsets, data = texts.buffers()
    words = np.zeros(len(texts), np.uint64)
    if data is None or not data.size:
        return words
    # An array may be a slice of a longer one: its own offset says where its texts begin.
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8)
    # One pass per byte position over all texts at once.
    for place in range(_WORD_BYTES):
        positions = bounds[:-1] + place
        is_inside = positions < bounds[1:]
        found = content[np.minimum(positions, len(content) - 1)].astype(np.uint64)
        words |= np.where(is_inside, found, np.uint64(0)) << np.uint64(8 * (_WORD_BYTES - 1 - place))
    return words


def stretch_to_sample(sample: pa.ChunkedArray, column: pa.ChunkedArray) -> Words:
    """Return an unsigned 64-bit number per value, scaled so that the range of values in `sample` uses all bits.

    Values outside the range count as its nearest end. Nulls become 0, so they come first. The scaling is needed because a curve
    compares the upper bits of all columns first. Small whole numbers differ in their last bits only, and floating point numbers
    spend most of their bits on tiny values. Without scaling, a column of these would hardly influence the order.

    Args:
        sample: sampled values of the column.
        column: the values to convert.
    """
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        return _stretch_floats(_to_floats(sample.drop_null()), _to_floats(column), pc.is_null(column).to_numpy())
    words = order_words(column)
    known = order_words(sample.drop_null())
    if not len(known):
        return np.zeros_like(words)
    low = known.min()
    high = known.max()
    unused_bits = _WORD_BITS - int(high - low).bit_length()
    if unused_bits == _WORD_BITS:  # one value only; a shift by all bits is not defined
        return np.zeros_like(words)
    return (np.clip(words, low, high) - low) << np.uint64(unused_bits)


def _to_floats(column: pa.ChunkedArray) -> Floats:
    """Return the values of a column as 64-bit floats; 0 for nulls."""
    return pc.fill_null(pc.cast(column, pa.float64(), safe=False), 0.0).to_numpy()


def _stretch_floats(known: Floats, values: Floats, is_null: npt.NDArray[np.bool_]) -> Words:
    """Return an unsigned 64-bit number per float, scaled to the range of the finite values in `known`.

    Nulls become 0, NaN counts as the greatest value.

    Args:
        known: sampled values.
        values: the values to convert.
        is_null: a mask over `values`, true for nulls.
    """
    known = known[np.isfinite(known)]
    if not len(known):
        return np.zeros(len(values), np.uint64)
    low = known.min()
    high = known.max()
    if not 0 < high - low < np.inf:
        return np.zeros(len(values), np.uint64)
    clipped = np.clip(np.nan_to_num(values, nan=high), low, high)
    # A float holds whole numbers up to 2 ** 53 exactly, so the share of the span becomes 53 bits. Shifted by 10, the greatest
    # value still fits in a word.
    scaled = (clipped - low) / (high - low) * (1 << 53)
    return np.where(is_null, np.uint64(0), scaled.astype(np.uint64) << np.uint64(10))


def encode_distinct(column: pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Return the distinct values of a column, and for each row the position of the row's value among the distinct values.

    The distinct values are in the order of their first occurrence. For a null, the position is the number of distinct values.
    """
    encoded = column.dictionary_encode().unify_dictionaries()
    values = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], column.type)
    codes = [pc.fill_null(chunk.indices, len(values)).to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return values, np.concatenate([np.empty(0, np.int32), *codes])


def rank_in_sample(sample: pa.ChunkedArray, column: pa.ChunkedArray) -> Words:
    """Return the rank of each value of `column` in `sample`, shifted to the upper bits of an unsigned 64-bit number.

    The rank is one plus the number of sampled values that are less or equal. Nulls have rank 0, so they come first. Used instead
    of `stretch_to_sample` if `hoodie.layout.optimize.curve.build.method` is SAMPLE: ranks are evenly spread, also if most values
    are close together.

    Args:
        sample: sampled values of the column.
    """
    values, codes = encode_distinct(column)
    known = sample.drop_null()
    # Sample and values are sorted together; the sort is stable and the sample stands in front. So the sampled values that were
    # counted up to the place of a value are those that are not greater.
    both = pa.chunked_array([*known.chunks, values], column.type)
    order = pc.sort_indices(both).to_numpy()
    ranks = np.empty(len(both) + 1, np.uint64)
    ranks[order] = np.cumsum(order < len(known)) + 1
    ranks[-1] = 0  # the code behind the last value is that of nulls
    ranks_of_values = ranks[len(known) :]
    return ranks_of_values[codes] << np.uint64(63 - (len(known) + 1).bit_length())


# Curves: words of several columns as numbers to sort by


def z_order(columns: Sequence[Words]) -> list[Words]:
    """Compute the position of each row on the z-order curve, by interleaving the bits of all columns.

    Return columns of numbers to sort by, the most significant column first.

    The bits are interleaved one byte at a time. `_spread_bits` spreads the eight bits of a byte, so that the bits of the other
    columns fit between them. So one byte of every column makes a number of 8 bits per column. As many of these numbers as fit are
    packed into one 64-bit number.

    Args:
        columns: for each sort column, an unsigned 64-bit number per row.
    """
    count = len(columns)
    spread = _spread_bits(count)
    bytes_per_word = max(1, _WORD_BITS // (8 * count))
    numbers: list[Words] = []
    for level in range(_WORD_BYTES):
        shift = np.uint64(8 * (_WORD_BYTES - 1 - level))
        mixed = np.zeros(len(columns[0]), np.uint64)
        for place, column in enumerate(columns):
            level_byte = (column >> shift).astype(np.uint8)
            mixed |= spread[level_byte] << np.uint64(count - 1 - place)
        if level % bytes_per_word:
            numbers[-1] = (numbers[-1] << np.uint64(8 * count)) | mixed
        else:
            numbers.append(mixed)
    return numbers


def _spread_bits(count: int) -> Words:
    """Return 256 numbers of 64 bits, one for each byte: the bits of the byte with `count - 1` zero bits between neighbours.

    Args:
        count: the number of columns whose bits are interleaved.
    """
    numbers = np.arange(256, dtype=np.uint64)
    spread = np.zeros(256, np.uint64)
    for bit in range(8):
        spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * count)
    return spread


def hilbert(columns: Sequence[Words]) -> list[Words]:
    """Compute the position of each row on the hilbert curve. Return columns of numbers to sort by, the most significant first.

    This is Skilling's transform of coordinates, for all rows at once: undo the turns of every level (the module's docstring
    explains levels), then Gray-encode across the columns. Interleaving the bits of the result (`z_order`) yields the position.

    Args:
        columns: for each sort column, an unsigned 64-bit number per row.
    """
    axes = [column.copy() for column in columns]
    for level in range(_WORD_BITS - 1, 0, -1):
        _undo_turn(axes, np.uint64(1 << level))
    for previous, axis in pairwise(axes):
        axis ^= previous  # in place: the next step uses the changed axis
    flips = np.zeros(len(axes[0]), np.uint64)
    for level in range(_WORD_BITS - 1, 0, -1):
        bit = np.uint64(1 << level)
        flips ^= np.where(axes[-1] & bit, bit - np.uint64(1), np.uint64(0))
    for axis in axes:
        axis ^= flips
    return z_order(axes)


def _undo_turn(axes: list[Words], bit: np.uint64) -> None:
    """Undo, on the level of `bit`, how the hilbert curve mirrors and turns its cells. Changes `axes` in place.

    For each axis: where `bit` is set in the axis, invert the lower bits of the first axis; elsewhere swap the lower bits of this
    axis and the first one.

    Args:
        axes: for each sort column, an unsigned 64-bit number per row.
        bit: a number with one bit set, that of the level.
    """
    lower_bits = bit - np.uint64(1)
    first = axes[0]
    for axis in axes:
        is_set = (axis & bit) != 0
        swapped = np.where(is_set, np.uint64(0), (first ^ axis) & lower_bits)
        first ^= np.where(is_set, lower_bits, swapped)
        if axis is not first:
            axis ^= swapped
