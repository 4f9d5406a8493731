"""Bloom filters of base files, bit for bit as Hudi builds them.

A base file carries in its footer a filter over its record keys, as Base64 text beside a type code. Two kinds exist:
``SIMPLE`` is one bit vector; ``DYNAMIC_V0`` is a list of such rows that grows with the keys up to a bound.

Kernel: Arrow keys in, text out. Everything works on columns of keys; adding keys in any number of batches gives the
same bits as adding them one by one in order. Memory is bounded by the rows, one block of keys and a few unpacked rows.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct

import numpy as np

from penstock.errors import CorruptFile, OptionError, Unsupported
from penstock.formats.murmur import Block, Bools, Bytes, Keys, Rounds, Span, spans

SIMPLE = "SIMPLE"
DYNAMIC = "DYNAMIC_V0"
MAX_ENTRIES_DEFAULT = 100_000  # hoodie.bloom.index.filter.dynamic.max.entries; a stored filter does not say its own
_MURMUR = 1  # hash type on disk
_VERSION = -1
_HEADER = struct.Struct(">iibi")  # version, hashes, hash type, bits
_GROWTH = struct.Struct(">iii")  # keys per row, keys in the last row, rows
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
        answers = [self._ask(block) for span in spans(keys) for block in span.blocks()]
        return np.concatenate(answers) if answers else np.zeros(0, np.bool_)

    def to_text(self) -> str:
        """The filter as it stands in a base file's footer."""
        raise NotImplementedError

    def _fill(self, row: int, span: Span) -> None:
        """Put the keys of `span` into one row."""
        if len(span) == 0:
            return
        cells, bits = self._unpacked(row), np.array(self.bits, np.uint32)
        for block in span.blocks():
            rounds = Rounds(block)
            for _ in range(self.hashes):
                cells[rounds.next_positions(bits)] = 1

    def _ask(self, block: Block) -> Bools:
        """Which keys of the block are in any row; keys that no row can hold any more leave the block early."""
        answer = np.zeros(len(block), np.bool_)
        places = np.arange(len(block)) if block.order is None else block.order
        held = np.ones((len(self._rows), len(block)), np.bool_)
        rounds, size = Rounds(block), np.array(self.bits, np.uint32)
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
        for span in spans(keys):
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
        for span in spans(keys):
            rest = self._grow(span)
            if len(rest):
                self._overflow(rest)

    def _grow(self, span: Span) -> Span:
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

    def _overflow(self, span: Span) -> None:
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
