"""The footer of a base file: the range and the bloom filter of its record keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.filegroup.base_read import open_base_file
from penstock.filegroup.model import BaseFile
from penstock.formats.bloom import BloomFilter, DynamicBloomFilter, read_bloom
from penstock.formats.parquet import read_footer
from penstock.storage import Storage

FOOTER_BLOOM = "org.apache.hudi.bloomfilter"
FOOTER_BLOOM_OLD = "com.uber.hoodie.bloomfilter"  # before Hudi was an Apache project
FOOTER_BLOOM_TYPE = "hoodie_bloom_filter_type_code"
FOOTER_MIN_KEY = "hoodie_min_record_key"
FOOTER_MAX_KEY = "hoodie_max_record_key"

#: The fewest keys that a bloom filter is sized for.
_LEAST_ENTRIES = 1_000
#: Up to this many bytes, the keys of a file are joined to one array before the filter is built.
_JOINED_KEYS_BYTES = 1 << 24


def read_key_range(storage: Storage, base: BaseFile) -> tuple[str, str] | None:
    """Return the least and the greatest record key of a base file, from its footer; None if the footer does not hold them."""
    footer = read_footer(open_base_file(storage, base.path))
    if FOOTER_MIN_KEY not in footer or FOOTER_MAX_KEY not in footer:
        return None
    return footer[FOOTER_MIN_KEY], footer[FOOTER_MAX_KEY]


@dataclass(frozen=True)
class BloomSettings:
    """The type of the bloom filters in base files, and how large they are: number of keys, and error rate with that many keys."""

    kind: str = "DYNAMIC_V0"
    entries: int = 60_000
    error_rate: float = 1e-9
    max_entries: int = 100_000


class KeyFooter:
    """Collects the record keys of a base file for its footer: the key range and, unless `settings` is None, a bloom filter.

    The filter is built when `settings.entries` keys were added. A file with fewer keys gets a smaller filter, sized at the end.
    If the file is the next version of an older base file, the old bloom filter is continued where possible: only keys that the
    old file lacks are added to a copy of it (`add`, not `keep`), which is faster than building a filter from all keys.

    Args:
        settings: type and size of the bloom filter; None: no bloom filter is written.
        old: the footer of the old base file; None: there is no old base file.
        old_rows: the number of rows of the old base file.
    """

    def __init__(self, settings: BloomSettings | None, old: Mapping[str, str] | None = None, old_rows: int = 0) -> None:
        self._settings = settings
        #: Whether the old file's filter is continued. It already holds the keys of the old file.
        self._resumes = False
        self._waiting: list[pa.ChunkedArray] = []
        self._count = 0
        self._min_key: str | None = None
        self._max_key: str | None = None
        self._bloom: BloomFilter | None = None
        if old is not None and settings is not None:
            self._resume(settings, old, old_rows)

    def _resume(self, settings: BloomSettings, old: Mapping[str, str], old_rows: int) -> None:
        """Start from the bloom filter of the old base file. Do nothing if its footer has none, or if the filter is too small.

        A filter is too small if two things hold: it is sized for fewer keys than `settings.entries`, and for less than half of
        the rows of the old file.

        Args:
            old: the footer of the old base file.
            old_rows: the number of rows of the old base file.
        """
        text = old.get(FOOTER_BLOOM) or old.get(FOOTER_BLOOM_OLD)
        if not text:
            return
        bloom = read_bloom(text, old.get(FOOTER_BLOOM_TYPE), settings.max_entries)
        entries = _entries_of(bloom, settings.error_rate)
        if entries < settings.entries and old_rows > 2 * entries:
            return
        self._bloom = bloom
        self._resumes = True

    def add(self, keys: pa.ChunkedArray) -> None:
        """Add keys that the new base file has and the old base file lacks. If there is no old file, add any keys."""
        if len(keys) == 0:
            return
        self._widen_range(keys)
        self._count += len(keys)
        if self._bloom is not None:
            self._bloom.add(keys)
        elif self._settings is not None:
            self._waiting.append(keys)
            if self._count >= self._settings.entries:
                self._bloom = self._build_filter(self._settings, self._settings.entries)

    def keep(self, keys: pa.ChunkedArray) -> None:
        """Add keys that both the new base file and the old base file have.

        If the old bloom filter is continued, it already holds these keys, and only the key range changes.
        """
        if self._resumes and len(keys):
            self._widen_range(keys)
        else:
            self.add(keys)

    def _widen_range(self, keys: pa.ChunkedArray) -> None:
        """Extend the key range of the footer so that it includes these keys."""
        low, high = min_max_keys(keys)
        self._min_key = low if self._min_key is None else min(self._min_key, low, key=java_order)
        self._max_key = high if self._max_key is None else max(self._max_key, high, key=java_order)

    def _build_filter(self, settings: BloomSettings, entries: int) -> BloomFilter:
        """Build a bloom filter sized for `entries` keys, and add the keys collected so far. Return the filter."""
        bloom = BloomFilter.create(settings.kind, entries, settings.error_rate, settings.max_entries)
        chunks: list[pa.Array] = []
        for keys in self._waiting:
            chunks += keys.chunks
        # Each call of `add` costs the same for one key as for a thousand, and so does each chunk.
        is_small = sum(chunk.nbytes for chunk in chunks) <= _JOINED_KEYS_BYTES
        bloom.add(pa.concat_arrays(chunks) if len(chunks) > 1 and is_small else pa.chunked_array(chunks, pa.string()))
        self._waiting = []
        return bloom

    def metadata(self) -> dict[str, str]:
        """Return the bloom filter and the key range as footer entries with Hudi's names. Call it after all keys were added."""
        entries = {}
        if self._settings is not None:
            if self._bloom is None:
                self._bloom = self._build_filter(self._settings, choose_entries(self._count, self._settings.entries))
            entries[FOOTER_BLOOM] = self._bloom.to_text()
            if self._bloom.type_code != "SIMPLE":  # Hudi reads a filter without a type code as a simple one
                entries[FOOTER_BLOOM_TYPE] = self._bloom.type_code
        if self._min_key is not None and self._max_key is not None:
            entries[FOOTER_MIN_KEY] = self._min_key
            entries[FOOTER_MAX_KEY] = self._max_key
        return entries


def _entries_of(bloom: BloomFilter, error_rate: float) -> float:
    """Return the number of keys that a stored bloom filter was sized for.

    A simple filter does not store that number, so it is computed from the number of bits and the error rate.
    """
    if isinstance(bloom, DynamicBloomFilter):
        return bloom.row_entries
    return bloom.bits * math.log(2) ** 2 / -math.log(error_rate)


def min_max_keys(keys: pa.ChunkedArray) -> tuple[str, str]:
    """Return (least key, greatest key) in Java's string order."""
    if any(_has_high_bytes(chunk) for chunk in keys.chunks):
        texts = keys.to_pylist()  # a loop over keys, but rare: Arrow has no kernel for Java's order
        return min(texts, key=java_order), max(texts, key=java_order)
    bounds = pc.min_max(keys)
    return bounds["min"].as_py(), bounds["max"].as_py()


def java_order(text: str) -> bytes:
    """Return a sort key that orders strings as Java does, by UTF-16 units.

    Arrow compares UTF-8 bytes. Both orders agree unless there are characters from U+E000 on. A character beyond U+FFFF sorts
    after U+E000 to U+FFFF in UTF-8, but before them in UTF-16, where it is a surrogate pair.
    """
    return text.encode("utf-16-be", "surrogatepass")


def has_java_order(text: str) -> bool:
    """Whether this string compares with every other string in UTF-8 order as in Java's order, which is that of UTF-16.

    It does if it has no character from U+E000 on.
    """
    return not text or max(text) < "\ue000"


def _has_high_bytes(keys: pa.Array) -> bool:
    """Whether Java may order these keys in another way than Arrow, which compares bytes.

    It may if a key has a character from U+E000 on. The first byte of that character in UTF-8 is 0xEE or more.
    """
    _, offsets, data = keys.buffers()
    if data is None:
        return False
    # The array may be a slice: only its own bytes count.
    start, end = np.frombuffer(offsets, np.int32)[[keys.offset, keys.offset + len(keys)]]
    return bool((np.frombuffer(data, np.uint8)[start:end] >= 0xEE).any())


def choose_entries(keys: int, configured: int) -> int:
    """Return the number of keys to size a bloom filter for: at least twice the file's `keys`, but at most `configured`.

    The result is a power of two times a constant, or `configured`. So files of similar size have filters of the same size.
    """
    entries = _LEAST_ENTRIES
    while entries < keys * 2:
        entries *= 2
    return min(configured, entries)
