"""Base files: Arrow tables in, Parquet bytes out, laid out so that Hudi's Java readers take them.

Three-level lists with child `element`, decimals as fixed-length bytes, timestamps in microseconds UTC, no Arrow schema;
the record keys' range and bloom filter go to the footer. Nothing here knows paths or tables.
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
FOOTER_BLOOM_OLD = "com.uber.hoodie.bloomfilter"
FOOTER_BLOOM_TYPE = "hoodie_bloom_filter_type_code"
FOOTER_MIN_KEY = "hoodie_min_record_key"
FOOTER_MAX_KEY = "hoodie_max_record_key"

ROW_GROUP_ROWS = 125_000
#: Hudi's names of codecs where Arrow's differ.
_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}


@dataclass(frozen=True)
class BloomSettings:
    """How the filter over a file's record keys is sized."""

    kind: str = "DYNAMIC_V0"
    entries: int = 60_000
    error_rate: float = 1e-9
    max_entries: int = 100_000


def open_writer(sink: pa.NativeFile, sample: pa.Table, codec: str, dictionary: Sequence[str] | None = None) -> pq.ParquetWriter:
    """A writer for tables with the schema of `sample`, which also decides the columns worth a dictionary."""
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
    """Gathers the record keys of one file: their range, and a filter sized by how many there turn out to be.

    Keys are kept until there are as many as the filter is configured for; a file that ends before gets a smaller filter.
    """

    def __init__(self, settings: BloomSettings | None, old: Mapping[str, str] | None = None, old_rows: int = 0) -> None:
        self._settings = settings
        #: Whether the old file's filter stands, so that only keys that are new have to be added to it.
        self._resumes = False
        self._waiting: list[pa.ChunkedArray] = []
        self._count = 0
        self._low: str | None = None
        self._high: str | None = None
        self._bloom: BloomFilter | None = None
        if old is not None and settings is not None:
            self._resume(settings, old, old_rows)

    def _resume(self, settings: BloomSettings, old: Mapping[str, str], old_rows: int) -> None:
        """Go on from the old file's filter, unless there is none or it was made for far fewer keys."""
        text = old.get(FOOTER_BLOOM) or old.get(FOOTER_BLOOM_OLD)
        if not text:
            return
        bloom = read_bloom(text, old.get(FOOTER_BLOOM_TYPE), settings.max_entries)
        made_for = _entries_of(bloom, settings.error_rate)
        if made_for < settings.entries and old_rows > 2 * made_for:
            return
        self._bloom, self._resumes = bloom, True

    def add(self, keys: pa.ChunkedArray) -> None:
        """Take in the keys of some more rows."""
        if len(keys) == 0:
            return
        self._widen(keys)
        self._count += len(keys)
        if self._bloom is not None:
            self._bloom.add(keys)
        elif self._settings is not None:
            self._waiting.append(keys)
            if self._count >= self._settings.entries:
                self._build(self._settings.entries)

    def keep(self, keys: pa.ChunkedArray) -> None:
        """Take in the keys of rows that were in the old file."""
        if self._resumes and len(keys):
            self._widen(keys)
        else:
            self.add(keys)

    def _widen(self, keys: pa.ChunkedArray) -> None:
        low, high = min_max_keys(keys)
        self._low = low if self._low is None else min(self._low, low, key=java_order)
        self._high = high if self._high is None else max(self._high, high, key=java_order)

    def _build(self, entries: int) -> None:
        assert self._settings is not None
        s = self._settings
        self._bloom = BloomFilter.create(s.kind, entries, s.error_rate, s.max_entries)
        for keys in self._waiting:
            self._bloom.add(keys)
        self._waiting = []

    def metadata(self) -> dict[str, str]:
        """The footer entries."""
        found = {}
        if self._settings is not None:
            if self._bloom is None:
                self._build(choose_entries(self._count, self._settings.entries))
            assert self._bloom is not None
            found[FOOTER_BLOOM] = self._bloom.to_text()
            if self._bloom.type_code != "SIMPLE":
                found[FOOTER_BLOOM_TYPE] = self._bloom.type_code
        if self._low is not None and self._high is not None:
            found |= {FOOTER_MIN_KEY: self._low, FOOTER_MAX_KEY: self._high}
        return found


def _entries_of(bloom: BloomFilter, error_rate: float) -> float:
    """How many keys a stored filter was made for; a simple one does not say, but its size does."""
    if isinstance(bloom, DynamicBloomFilter):
        return bloom.row_entries
    return bloom.bits * math.log(2) ** 2 / -math.log(error_rate)


def min_max_keys(keys: pa.ChunkedArray) -> tuple[str, str]:
    """The least and the greatest key, in Java's order."""
    bounds = pc.min_max(keys)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if any(_holds_high_bytes(chunk) for chunk in keys.chunks):
        texts = keys.to_pylist()  # rare, and Arrow knows no such order
        return min(texts, key=java_order), max(texts, key=java_order)
    return low, high


def java_order(text: str) -> bytes:
    """What Java compares texts by: UTF-16 code units. Bytes of UTF-8 give the same order up to U+DFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def has_java_order(text: str) -> bool:
    """Whether a text compares with every other one in Java as it does in UTF-8."""
    return not text or max(text) < "\ue000"


def _holds_high_bytes(keys: pa.Array) -> bool:
    """Whether any key may hold a character from U+E000 on: in UTF-8 such a character begins with 0xEE or more."""
    _, offsets, data = keys.buffers()
    if data is None:
        return False
    ends = np.frombuffer(offsets, np.int32)[[keys.offset, keys.offset + len(keys)]]  # of this slice, not of all it is cut from
    return bool((np.frombuffer(data, np.uint8)[ends[0] : ends[1]] >= 0xEE).any())


_LEAST_ENTRIES = 1_000


def choose_entries(keys: int, configured: int) -> int:
    """How many entries a filter for a file of this many keys is sized for: room to double, never above the setting."""
    wanted = _LEAST_ENTRIES
    while wanted < keys * 2:
        wanted *= 2
    return min(configured, wanted)


def read_footer(file: pq.ParquetFile) -> Mapping[str, str]:
    """The footer's text entries."""
    raw = file.metadata.metadata or {}
    return {k.decode(): v.decode("utf-8", "replace") for k, v in raw.items()}
