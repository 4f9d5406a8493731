"""The Parquet format of base files: the writer's settings, and the footer with the range and bloom filter of the record keys.

Kernel: paths and tables are not known at this level. Hudi's Java readers require three-level lists with the child `element`,
decimals as fixed-length bytes, timestamps in microseconds UTC, and no Arrow schema in the footer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.formats.bloom import BloomFilter, DynamicBloomFilter, read_bloom
from penstock.formats.dictionaries import repetitive_columns

FOOTER_BLOOM = "org.apache.hudi.bloomfilter"
FOOTER_BLOOM_OLD = "com.uber.hoodie.bloomfilter"  # before Hudi was an Apache project
FOOTER_BLOOM_TYPE = "hoodie_bloom_filter_type_code"
FOOTER_MIN_KEY = "hoodie_min_record_key"
FOOTER_MAX_KEY = "hoodie_max_record_key"

ROW_GROUP_ROWS = 125_000
#: The fewest keys that a bloom filter is sized for.
_LEAST_ENTRIES = 1_000
#: Arrow's names of codecs that Hudi calls otherwise.
_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}


@dataclass(frozen=True)
class BloomSettings:
    """The type and size of the bloom filter over a file's record keys."""

    kind: str = "DYNAMIC_V0"
    entries: int = 60_000
    error_rate: float = 1e-9
    max_entries: int = 100_000


def open_writer(sink: pa.NativeFile, sample: pa.Table, codec: str, dictionary: Sequence[str] | None = None) -> pq.ParquetWriter:
    """Open a writer for tables with the schema of `sample`.

    `dictionary` names the columns that are written with a dictionary. If it is None, the sample decides.
    """
    return pq.ParquetWriter(
        sink,
        sample.schema,
        compression=_CODECS.get(codec.lower(), codec.lower()),
        use_dictionary=list(dictionary) if dictionary is not None else repetitive_columns(sample),
        use_compliant_nested_type=True,
        store_schema=False,
        write_batch_size=ROW_GROUP_ROWS,
        use_deprecated_int96_timestamps=False,
    )


class KeyFooter:
    """Collects the record keys of a file for its footer: their range and a bloom filter, unless `settings` is None.

    Keys are held back until there are as many as the settings expect. A file that ends before gets a smaller filter. If the file
    replaces an old one, `old` is the old footer and `old_rows` the old number of rows: keys are added to the old filter.
    """

    def __init__(self, settings: BloomSettings | None, old: Mapping[str, str] | None = None, old_rows: int = 0) -> None:
        self._settings = settings
        #: Whether the old file's filter is used, which holds the old keys already.
        self._resumes = False
        self._waiting: list[pa.ChunkedArray] = []
        self._count = 0
        self._min_key: str | None = None
        self._max_key: str | None = None
        self._bloom: BloomFilter | None = None
        if old is not None and settings is not None:
            self._resume(settings, old, old_rows)

    def _resume(self, settings: BloomSettings, old: Mapping[str, str], old_rows: int) -> None:
        """Continue with the old file's filter, unless there is none or it was sized for far fewer keys."""
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
        """Add the keys of rows that are new in the file."""
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
        """Add the keys of rows that were in the old file."""
        if self._resumes and len(keys):
            self._widen_range(keys)
        else:
            self.add(keys)

    def _widen_range(self, keys: pa.ChunkedArray) -> None:
        low, high = min_max_keys(keys)
        self._min_key = low if self._min_key is None else min(self._min_key, low, key=java_order)
        self._max_key = high if self._max_key is None else max(self._max_key, high, key=java_order)

    def _build_filter(self, settings: BloomSettings, entries: int) -> BloomFilter:
        """Return a filter for `entries` keys, with the keys that were held back."""
        bloom = BloomFilter.create(settings.kind, entries, settings.error_rate, settings.max_entries)
        for keys in self._waiting:
            bloom.add(keys)
        self._waiting = []
        return bloom

    def metadata(self) -> dict[str, str]:
        """Return the footer entries, as Hudi names them."""
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
    """Return the number of keys that a stored filter was sized for. For a simple filter it follows from the size."""
    if isinstance(bloom, DynamicBloomFilter):
        return bloom.row_entries
    return bloom.bits * math.log(2) ** 2 / -math.log(error_rate)


def min_max_keys(keys: pa.ChunkedArray) -> tuple[str, str]:
    """Return the least and the greatest key, in Java's order."""
    if any(_has_high_bytes(chunk) for chunk in keys.chunks):
        texts = keys.to_pylist()  # a loop over keys, but rare: Arrow has no kernel for Java's order
        return min(texts, key=java_order), max(texts, key=java_order)
    bounds = pc.min_max(keys)
    return bounds["min"].as_py(), bounds["max"].as_py()


def java_order(text: str) -> bytes:
    """Return the sort key of a string in Java, which compares UTF-16 units.

    UTF-8 bytes, which Arrow compares, sort in the same order unless there are characters from U+E000 on: the surrogates of
    characters beyond U+FFFF sort before these in UTF-16, and after these in UTF-8.
    """
    return text.encode("utf-16-be", "surrogatepass")


def has_java_order(text: str) -> bool:
    """Whether a string compares with every other string in UTF-8 as in Java."""
    return not text or max(text) < "\ue000"


def _has_high_bytes(keys: pa.Array) -> bool:
    """Whether a key may have a character from U+E000 on: in UTF-8 its first byte is 0xEE or more."""
    _, offsets, data = keys.buffers()
    if data is None:
        return False
    # The array may be a slice: only its own bytes count.
    start, end = np.frombuffer(offsets, np.int32)[[keys.offset, keys.offset + len(keys)]]
    return bool((np.frombuffer(data, np.uint8)[start:end] >= 0xEE).any())


def choose_entries(keys: int, configured: int) -> int:
    """Return the entries that a filter for a file of `keys` keys is sized for: at least twice the keys, at most `configured`.

    Powers of two times a constant, so that files of similar size have filters of the same size.
    """
    entries = _LEAST_ENTRIES
    while entries < keys * 2:
        entries *= 2
    return min(configured, entries)


def read_footer(file: pq.ParquetFile) -> Mapping[str, str]:
    """Return the key-value metadata of the footer as text."""
    metadata = file.metadata.metadata or {}
    return {key.decode(): value.decode("utf-8", "replace") for key, value in metadata.items()}
