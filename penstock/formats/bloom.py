"""Bloom filters of base files, bit for bit as Hudi builds them.

The footer of a base file holds a bloom filter over the file's record keys, as Base64 text with a type code. A `SIMPLE` filter is
one bit vector, called a row. A `DYNAMIC_V0` filter is a list of rows. It adds rows as keys are added, until it has rows for
`max_entries` keys.

Keys are Arrow arrays. Adding keys in batches of any size sets the same bits as adding them one by one in order. Besides the rows,
memory holds one block of keys (at most 65,536, see `murmur.py`) and a few rows unpacked to one byte per bit.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct

import numpy as np

from penstock.errors import CorruptFile, OptionError, Unsupported
from penstock.formats.murmur import Block, Bools, Bytes, Int64s, Keys, Rounds, Span, hash_few, key_spans

SIMPLE = "SIMPLE"
DYNAMIC = "DYNAMIC_V0"
#: The default of hoodie.bloom.index.filter.dynamic.max.entries. A stored filter does not hold its bound.
MAX_ENTRIES_DEFAULT = 100_000
#: Hash type and version as Hadoop's `BloomFilter`, which Hudi copied, writes them.
_MURMUR = 1
_VERSION = -1
_HEADER = struct.Struct(">iibi")  # version, hashes, hash type, bits
_GROWTH = struct.Struct(">iii")  # keys per row, keys in the last row, rows
#: Up to this many keys of one length, `hash_few` is faster than `Rounds`.
_FEW_KEYS = 64
#: The most bytes of unpacked rows that are held at once. One row may be larger.
_UNPACKED_BYTES = 1 << 24


class BloomFilter:
    """A bloom filter over record keys. `might_contain` is always True for an added key, and seldom True for another key.

    Base class of the two filter types. A filter has one or several rows, which are bit vectors. `bits` is the size of a row in
    bits, `hashes` the number of bits that each key sets.
    """

    type_code: str

    def __init__(self, *, bits: int, hashes: int, rows: list[Bytes]) -> None:
        self.bits = bits
        self.hashes = hashes
        #: Packed rows: bit i is in byte i // 8 at mask 1 << i % 8.
        self._rows = rows
        #: Unpacked rows with one byte per bit, by row number. Keys are added to unpacked rows: numpy cannot set single bits.
        self._unpacked: dict[int, Bytes] = {}

    @staticmethod
    def create(kind: str, entries: int, error_rate: float, max_entries: int) -> BloomFilter:
        """Create an empty bloom filter.

        Args:
            kind: the filter type, SIMPLE (one row, which is a bit vector) or DYNAMIC_V0 (several rows).
            entries: the number of keys that a row is sized for.
            error_rate: the rate of false positives that a row has with `entries` keys.
            max_entries: the number of keys up to which a dynamic filter adds rows. A simple filter ignores it.

        Raises:
            OptionError: the type is unknown, or the sizes are out of range.
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
        """Add all keys to the filter, in their order.

        Raises:
            RecordKeyError: a key is null or empty. No key was added.
        """
        raise NotImplementedError

    def might_contain(self, keys: Keys) -> Bools:
        """Return a mask over the keys: True where the key may have been added, False where it was certainly not added.

        Raises:
            RecordKeyError: a key is null or empty.
        """
        self._pack_rows()
        answers = [np.zeros(0, np.bool_)]
        for span in key_spans(keys):
            for block in span.blocks():
                answers.append(self._look_up(block))
        return np.concatenate(answers)

    def to_text(self) -> str:
        """Return the filter as a Base64 string, for the footer of a base file. `read_bloom` is the inverse."""
        raise NotImplementedError

    def _add_to_row(self, row: int, span: Span) -> None:
        """Set the bits of all keys of `span` in row number `row` (a bit vector) of the filter."""
        if len(span) == 0:
            return
        cells = self._unpack_row(row)
        bits = np.array(self.bits, np.uint32)
        for block in span.blocks():
            if len(block) <= _FEW_KEYS and block.order is None:
                cells[self._positions_of_few(block)] = 1
                continue
            rounds = Rounds(block)
            for _ in range(self.hashes):
                cells[rounds.next_positions(bits)] = 1

    def _positions_of_few(self, block: Block) -> Int64s:
        """Return the positions of all bits that the keys of a block set in a row (bit vector) of the filter.

        The block has few keys, all of one length.
        """
        hashes = hash_few(block, self.hashes).view(np.int32).astype(np.int64)
        return np.abs(hashes) % self.bits

    def _look_up(self, block: Block) -> Bools:
        """Return a mask over the keys of the block: True where the key may have been added.

        A key may have been added if all its bits are set in at least one row (bit vector) of the filter. Most keys that were not
        added are recognized after a few hashes. As soon as they are more than half of the keys, further hashes are computed for
        the remaining keys only.
        """
        answer = np.zeros(len(block), np.bool_)
        key_numbers = np.arange(len(block)) if block.order is None else block.order
        in_row = np.ones((len(self._rows), len(block)), np.bool_)  # by row and key: all bits so far are set
        rounds = Rounds(block)
        row_bits = np.array(self.bits, np.uint32)
        for _ in range(self.hashes):
            positions = rounds.next_positions(row_bits)
            byte = positions >> 3
            shift = (positions & 7).astype(np.uint8)
            for row_answer, row in zip(in_row, self._rows, strict=True):
                row_answer &= ((row[byte] >> shift) & 1).astype(np.bool_)
            in_any_row = np.asarray(in_row.any(axis=0))
            if 2 * np.count_nonzero(in_any_row) < len(in_any_row):
                if not in_any_row.any():
                    return answer
                rounds = rounds.only(in_any_row)
                key_numbers = key_numbers[in_any_row]
                in_row = in_row[:, in_any_row]
        answer[key_numbers] = in_row.any(axis=0)
        return answer

    def _unpack_row(self, row: int) -> Bytes:
        """Return row (bit vector) number `row` of the filter with one byte per bit, so that numpy can set single bits.

        Changes to the returned array change the filter.
        """
        if row not in self._unpacked:
            if (len(self._unpacked) + 1) * self.bits > _UNPACKED_BYTES:
                self._pack_rows()
            self._unpacked[row] = np.unpackbits(self._rows[row], count=self.bits, bitorder="little")
        return self._unpacked[row]

    def _pack_rows(self) -> None:
        """Pack the rows (bit vectors) that `_unpack_row` has unpacked to one byte per bit back to eight bits per byte."""
        for row, cells in self._unpacked.items():
            self._rows[row] = np.packbits(cells, bitorder="little")
        self._unpacked = {}

    def _row_bytes(self) -> list[bytes]:
        """Return one byte string per row (bit vector) of the filter: a header and the bits, as Hudi stores them."""
        self._pack_rows()
        head = _HEADER.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        return [head + row.tobytes() for row in self._rows]


class SimpleBloomFilter(BloomFilter):
    """A bloom filter of one row (bit vector) with a fixed size. More keys than it is sized for cause more false positives."""

    type_code = SIMPLE

    def add(self, keys: Keys) -> None:
        for span in key_spans(keys):
            self._add_to_row(0, span)

    def to_text(self) -> str:
        return base64.b64encode(self._row_bytes()[0]).decode("ascii")


class DynamicBloomFilter(BloomFilter):
    """A bloom filter that adds rows (bit vectors) as keys are added: one per `row_entries` keys, up to `max_entries` keys.

    Keys beyond `max_entries` are added to the existing rows in turn, so there are more false positives.
    """

    type_code = DYNAMIC

    def __init__(
        self, *, bits: int, hashes: int, rows: list[Bytes], row_entries: int, max_entries: int, in_last_row: int = 0
    ) -> None:
        super().__init__(bits=bits, hashes=hashes, rows=rows)
        self.row_entries = row_entries
        self.max_entries = max_entries
        #: The number of keys in the last row. It goes beyond `row_entries` when keys overflow, as in Hudi.
        self.in_last_row = in_last_row

    def add(self, keys: Keys) -> None:
        for span in key_spans(keys):
            rest = self._fill_rows(span)
            if len(rest):
                self._add_overflow(rest)

    def _fill_rows(self, span: Span) -> Span:
        """Add keys to the last row (bit vector), then to new rows, until there are rows for `max_entries` keys.

        Return the keys for which there is no room, for `_add_overflow`.
        """
        while len(span) and self.in_last_row <= self.row_entries:
            room = self.row_entries - self.in_last_row
            if room == 0:
                if len(self._rows) * self.row_entries >= self.max_entries:
                    break
                self._rows.append(_empty_row(self.bits))
                self.in_last_row = 0
                room = self.row_entries
            head = span[:room]
            span = span[room:]
            self._add_to_row(len(self._rows) - 1, head)
            self.in_last_row += len(head)
        return span

    def _add_overflow(self, span: Span) -> None:
        """Add keys beyond `max_entries` to the existing rows (bit vectors), one key per row in turn, as Hudi does.

        Row 0 gets the first and the second of these keys, row 1 the third, row 2 the fourth, and so on.
        """
        row_count = len(self._rows)
        overflowed = self.in_last_row - self.row_entries
        self.in_last_row += len(span)
        if overflowed == 0:
            self._add_to_row(0, span[:1])
            span = span[1:]
            overflowed = 1
        first_row = (overflowed - 1) % row_count  # the row of the span's first key
        for row in range(row_count):
            self._add_to_row(row, span[(row - first_row) % row_count :: row_count])

    def to_text(self) -> str:
        head = _HEADER.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        growth = _GROWTH.pack(self.row_entries, self.in_last_row, len(self._rows))
        return base64.b64encode(b"".join([head, growth, *self._row_bytes()])).decode("ascii")


def read_bloom(text: str, type_code: str | None, max_entries: int = MAX_ENTRIES_DEFAULT) -> BloomFilter:
    """Read the bloom filter from a base file's footer. More keys can be added to the filter.

    Args:
        text: the Base64 string of the filter.
        type_code: the filter type in the footer; None: SIMPLE.
        max_entries: the number of keys up to which a dynamic filter adds rows. The footer does not hold this number.

    Raises:
        CorruptFile: the string is not a filter of this type.
        Unsupported: the type or the hash is unknown.
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
    """Return the size of a bloom filter row (bit vector) for `entries` keys: (size in bits, number of hashes per key).

    Args:
        error_rate: the rate of false positives that the row has with `entries` keys.

    Raises:
        OptionError: a value is out of range, or the row would be too large.
    """
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


def _empty_row(bits: int) -> Bytes:
    """Return a row of a bloom filter, packed as bytes, with `bits` bits that are all 0."""
    return np.zeros((bits + 7) // 8, np.uint8)


def _read_header(data: bytes, at: int) -> tuple[int, int, int]:
    """Read the header of a bloom filter or row at offset `at`; return (bits, number of hashes, offset after the header)."""
    version, hashes, hash_type, bits = _HEADER.unpack_from(data, at)
    if version != _VERSION or hashes < 1 or bits < 1:
        raise ValueError(f"version {version}, {hashes} hashes, {bits} bits")
    if hash_type != _MURMUR:
        raise Unsupported(f"bloom filter with hash type {hash_type}; known is {_MURMUR} (murmur)")
    return bits, hashes, at + _HEADER.size


def _read_row(data: bytes, at: int, bits: int) -> tuple[Bytes, int]:
    """Read a bloom filter row of `bits` bits at offset `at`; return (the bits packed as bytes, the offset after the row)."""
    size = (bits + 7) // 8
    if at + size > len(data):
        raise ValueError(f"{bits} bits announced, {len(data) - at} bytes left")
    return np.frombuffer(data, np.uint8, size, at).copy(), at + size


def _read_dynamic(data: bytes, max_entries: int) -> DynamicBloomFilter:
    """Read a dynamic bloom filter from its bytes. Raises ValueError or struct.error if the bytes are malformed."""
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
