"""Finds record keys in base files: which of the wanted keys a file holds, and in which rows.

Reads as little as the footers allow:

1. The key range in the footer: keys outside are not in the file. Keys are sorted once; a range is two binary searches.
2. The bloom filter in the footer: a file that cannot hold any of the keys is not read.
3. The whole key column: its keys are looked up in a hash table of the wanted keys, which is built once for several files.

Steps 1 and 2 are for the bloom index. The simple index begins with step 3. Both return the same rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.filegroup.base_read import open_base_file, open_base_files, read_row_groups
from penstock.filegroup.fill_meta_columns import KEY_COLUMN
from penstock.filegroup.key_footer import (
    FOOTER_BLOOM,
    FOOTER_BLOOM_OLD,
    FOOTER_BLOOM_TYPE,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    has_java_order,
)
from penstock.filegroup.model import BaseFile
from penstock.formats.bloom import read_bloom
from penstock.formats.parquet import read_footer
from penstock.index.pruning import Pruning
from penstock.merge.kernels.by_key import find_positions
from penstock.merge.kernels.gather import Positions
from penstock.storage import Storage

#: How many keys are tried first. If a filter may hold one of them, the file is read anyway, and trying the others saves nothing.
_SAMPLE = 1_000
#: A range that holds this share of the sampled keys rules out too few to be worth sorting all keys for.
_WIDE = 0.5


@dataclass(frozen=True)
class KeyMatches:
    """The rows of one base file whose key is wanted (the key of an incoming row).

    `old` holds the number of each of these rows in the file, `key` the position of its key among the wanted keys.
    """

    #: The numbers of the rows in the file.
    old: Positions
    #: The position of each row's key among the wanted keys.
    key: Positions
    #: How many of the wanted keys the footer did not rule out, for reports.
    candidates: int
    #: Whether the key column was read, for reports.
    opened: bool


class WantedKeys:
    """The record keys to find in base files, usually those of the incoming rows.

    Their sort order is computed only when `between` first needs it.
    """

    def __init__(self, keys: pa.Array) -> None:
        self.keys = keys
        self._order: Positions | None = None
        self._sorted: pa.Array | None = None

    def between(self, low: str, high: str) -> Positions | None:
        """Return the positions of the keys that may be in a file with the key range `low` to `high`; None means all keys.

        None is also returned in two cases in which some keys may be outside: if Java's string order, in which Hudi computed the
        range, may differ from Arrow's order for these strings, or if a sample shows that most keys are inside, so that sorting
        would not pay.
        """
        if len(self.keys) == 0:
            return np.empty(0, np.int64)
        if not (has_java_order(low) and has_java_order(high)):
            return None
        if self._order is None and self._mostly_between(low, high):
            return None
        if self._order is None:
            self._order = np.asarray(pc.sort_indices(self.keys), dtype=np.int64)
            self._sorted = self.keys.take(pa.array(self._order))
        texts = _Texts(self._sorted)
        start = bisect_left(texts, low)
        end = bisect_right(texts, high)
        if start == 0 and end == len(self.keys):
            return None
        return self._order[start:end]

    def _mostly_between(self, low: str, high: str) -> bool:
        """Whether at least half of a sample of the keys is from `low` to `high`. If so, sorting all keys does not pay.

        Return False without sampling if there are so few keys that sorting them is cheap.
        """
        if len(self.keys) <= _SAMPLE:
            return False
        sample = self.keys.take(pa.array(np.linspace(0, len(self.keys) - 1, _SAMPLE, dtype=np.int64)))
        inside = pc.and_(pc.greater_equal(sample, low), pc.less_equal(sample, high))
        return bool(np.asarray(inside).mean() >= _WIDE)


class _Texts:
    """An Arrow string array as a sequence of Python strings, for `bisect`. Only the few elements that it reads are converted."""

    def __init__(self, texts: pa.Array) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, at: int) -> str:
        return str(self._texts[at].as_py())


def look_up(storage: Storage, bases: Sequence[BaseFile], keys: WantedKeys, pruning: Pruning) -> list[KeyMatches]:
    """Find the wanted keys in base files; return one `KeyMatches` per file, in the order of `bases`.

    Files whose footers rule out no key are searched together, because building a hash table of all wanted keys costs more than
    reading the keys of one file.

    Args:
        pruning: which parts of the footers (key range, bloom filter) may rule out keys.
    """
    matches: dict[int, KeyMatches] = {}
    together: dict[int, pa.ChunkedArray] = {}
    files = open_base_files(storage, [base.path for base in bases])
    for number, (base, file) in enumerate(zip(bases, files, strict=True)):
        chosen = _candidates(file, keys, pruning)
        if len(keys.keys) == 0 or (chosen is not None and len(chosen) == 0):
            matches[number] = KeyMatches(_NONE, _NONE, 0, opened=False)
        elif chosen is not None:
            wanted = keys.keys.take(pa.array(chosen))
            positions = find_positions(_read_keys(file, base), wanted)
            rows = np.flatnonzero(positions >= 0)
            matches[number] = KeyMatches(rows, chosen[positions[rows]], len(wanted), opened=True)
        else:
            together[number] = _read_keys(file, base)
            if sum(map(len, together.values())) >= _ROWS_TOGETHER:
                matches |= _look_up_together(together, keys)
                together = {}
    matches |= _look_up_together(together, keys)
    return [matches[number] for number in range(len(bases))]


_NONE: Positions = np.empty(0, np.int64)
#: How many stored keys are held in memory and matched together.
_ROWS_TOGETHER = 2_000_000


def _read_keys(file: pq.ParquetFile, base: BaseFile) -> pa.ChunkedArray:
    """Return the record key column of a base file."""
    schema = pa.schema([pa.field(KEY_COLUMN, pa.string())])
    return pa.concat_tables([schema.empty_table(), *read_row_groups(file, base.path, schema)])[KEY_COLUMN]


def _look_up_together(key_columns: Mapping[int, pa.ChunkedArray], keys: WantedKeys) -> dict[int, KeyMatches]:
    """Find all wanted keys in the key columns of several base files, with one hash table for all files.

    Return the matches by file number.

    Args:
        key_columns: the key column of each file, by the number of the file in the argument `bases` of `look_up`.
    """
    if not key_columns:
        return {}
    chunks: list[pa.Array] = []
    for column in key_columns.values():
        chunks += column.chunks
    positions = find_positions(pa.chunked_array(chunks, pa.string()), keys.keys)
    matches = {}
    start = 0
    for number, column in key_columns.items():
        positions_of_file = positions[start : start + len(column)]
        rows = np.flatnonzero(positions_of_file >= 0)
        matches[number] = KeyMatches(rows, positions_of_file[rows], len(keys.keys), opened=True)
        start += len(column)
    return matches


def holds_any_key(storage: Storage, base: BaseFile, keys: WantedKeys, pruning: Pruning) -> bool:
    """Whether a base file holds any of the wanted keys. Stops reading at the first row group with a wanted key.

    Args:
        pruning: which parts of the footer (key range, bloom filter) may rule out keys.
    """
    file = open_base_file(storage, base.path)
    chosen = _candidates(file, keys, pruning)
    wanted = keys.keys if chosen is None else keys.keys.take(pa.array(chosen))
    if not len(wanted):
        return False
    schema = pa.schema([pa.field(KEY_COLUMN, pa.string())])
    row_groups = read_row_groups(file, base.path, schema)
    return any((find_positions(rows[KEY_COLUMN], wanted) >= 0).any() for rows in row_groups)


def _candidates(file: pq.ParquetFile, keys: WantedKeys, pruning: Pruning) -> Positions | None:
    """Return the positions of the wanted keys that a base file may hold according to its footer; None if all may be in it.

    Args:
        pruning: which parts of the footer (key range, bloom filter) to use.
    """
    if not (pruning.ranges or pruning.blooms):
        return None
    footer = read_footer(file)
    chosen: Positions | None = None
    if file.metadata.num_rows == 0:
        return np.empty(0, np.int64)
    if pruning.ranges and FOOTER_MIN_KEY in footer and FOOTER_MAX_KEY in footer:
        chosen = keys.between(footer[FOOTER_MIN_KEY], footer[FOOTER_MAX_KEY])
    text = footer.get(FOOTER_BLOOM) or footer.get(FOOTER_BLOOM_OLD)
    if not pruning.blooms or not text or (chosen is not None and len(chosen) == 0):
        return chosen
    bloom = read_bloom(text, footer.get(FOOTER_BLOOM_TYPE))
    wanted = keys.keys if chosen is None else keys.keys.take(pa.array(chosen))
    if bloom.might_contain(wanted.slice(0, _SAMPLE)).any():
        return chosen
    # None of the sample is in the file. The rest is tried, and its positions follow those of the sample.
    rest = np.flatnonzero(bloom.might_contain(wanted.slice(_SAMPLE))) + min(_SAMPLE, len(wanted))
    return rest if chosen is None else chosen[rest]
