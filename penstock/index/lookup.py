"""Which of the incoming keys are in a base file, and at which rows; with as little reading as the footers allow.

1. The footer's key range: keys outside are not in the file. Keys are sorted once, a range is two binary searches.
2. The footer's bloom filter: a file that no key can be in is not read.
3. The key column, whole: a hash of the wanted keys is built once for several files.

Steps 1 and 2 are the bloom indexes'; the simple ones go straight to step 3. Both give the same answer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.filegroup.base_read import open_base_file, read_row_groups
from penstock.filegroup.meta_columns import KEY_COLUMN
from penstock.filegroup.model import BaseFile
from penstock.formats.bloom import read_bloom
from penstock.formats.parquet import (
    FOOTER_BLOOM,
    FOOTER_BLOOM_OLD,
    FOOTER_BLOOM_TYPE,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    has_java_order,
    read_footer,
)
from penstock.merge.kernels.by_key import find_positions
from penstock.merge.kernels.gather import Positions
from penstock.storage import Storage

#: Keys that are asked of a filter or a range first; if the filter may hold one of them, asking the others saves nothing.
_SAMPLE = 1_000
#: A range that holds this share of the sampled keys rules out too few to be worth sorting all keys for.
_WIDE = 0.5


@dataclass(frozen=True)
class Pruning:
    """What the footers may be used for."""

    ranges: bool = False
    blooms: bool = False


@dataclass(frozen=True)
class Found:
    """Rows of a file whose keys were looked for: row numbers, and positions among the keys."""

    old: Positions
    key: Positions
    #: How much had to be looked at, for reports.
    candidates: int
    opened: bool


class Keys:
    """Keys to look for. Sorting them waits until a range asks for it."""

    def __init__(self, keys: pa.Array) -> None:
        self.keys = keys
        self._order: Positions | None = None
        self._sorted: pa.Array | None = None

    def between(self, low: str, high: str) -> Positions | None:
        """Positions of the keys in a range, or None for all of them.

        A footer's range is in Java's order; where that may differ from ours, it rules nothing out.
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
        text = _Texts(self._sorted)
        start, end = bisect_left(text, low), bisect_right(text, high)
        if start == 0 and end == len(self.keys):
            return None
        return self._order[start:end]

    def _mostly_between(self, low: str, high: str) -> bool:
        if len(self.keys) <= _SAMPLE:
            return False
        sample = self.keys.take(pa.array(np.linspace(0, len(self.keys) - 1, _SAMPLE, dtype=np.int64)))
        inside = pc.and_(pc.greater_equal(sample, low), pc.less_equal(sample, high))
        return bool(np.asarray(inside).mean() >= _WIDE)


class _Texts:
    """An Arrow array as `bisect` wants it: a few scalars are looked at, never all."""

    def __init__(self, texts: pa.Array) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, at: int) -> str:
        return str(self._texts[at].as_py())


def look_up(storage: Storage, bases: Sequence[BaseFile], keys: Keys, pruning: Pruning) -> list[Found]:
    """Find keys in base files; one answer for each file, in their order.

    Files for which every key is a candidate are looked into together, because a hash of the keys costs more than reading a
    file's.
    """
    found: dict[int, Found] = {}
    together: dict[int, pa.ChunkedArray] = {}
    for number, base in enumerate(bases):
        file = open_base_file(storage, base.path)
        chosen = _candidates(file, keys, pruning)
        if len(keys.keys) == 0 or (chosen is not None and len(chosen) == 0):
            found[number] = Found(_NONE, _NONE, 0, opened=False)
        elif chosen is not None:
            wanted = keys.keys.take(pa.array(chosen))
            at = find_positions(_stored_keys(file, base), wanted)
            rows = np.flatnonzero(at >= 0)
            found[number] = Found(rows, chosen[at[rows]], len(wanted), opened=True)
        else:
            together[number] = _stored_keys(file, base)
            if sum(map(len, together.values())) >= _ROWS_TOGETHER:
                found |= _look_up_together(together, keys)
                together = {}
    found |= _look_up_together(together, keys)
    return [found[number] for number in range(len(bases))]


_NONE: Positions = np.empty(0, np.int64)
#: Stored keys that are held at once.
_ROWS_TOGETHER = 2_000_000


def _stored_keys(file: pq.ParquetFile, base: BaseFile) -> pa.ChunkedArray:
    schema = pa.schema([pa.field(KEY_COLUMN, pa.string())])
    return pa.concat_tables([schema.empty_table(), *read_row_groups(file, base.path, schema)])[KEY_COLUMN]


def _look_up_together(stored: Mapping[int, pa.ChunkedArray], keys: Keys) -> dict[int, Found]:
    if not stored:
        return {}
    at = find_positions(pa.chunked_array([c for column in stored.values() for c in column.chunks], pa.string()), keys.keys)
    found, start = {}, 0
    for number, column in stored.items():
        its = at[start : start + len(column)]
        rows = np.flatnonzero(its >= 0)
        found[number] = Found(rows, its[rows], len(keys.keys), opened=True)
        start += len(column)
    return found


def may_hold(storage: Storage, base: BaseFile, keys: Keys, pruning: Pruning) -> bool:
    """Whether a file holds any of the keys; stops at the first one."""
    file = open_base_file(storage, base.path)
    chosen = _candidates(file, keys, pruning)
    wanted = keys.keys if chosen is None else keys.keys.take(pa.array(chosen))
    schema = pa.schema([pa.field(KEY_COLUMN, pa.string())])
    groups = read_row_groups(file, base.path, schema) if len(wanted) else iter(())
    return any(bool((find_positions(g[KEY_COLUMN], wanted) >= 0).any()) for g in groups)


def key_range(storage: Storage, base: BaseFile) -> tuple[str, str] | None:
    """The least and the greatest key of a file, as its footer says; None if it does not."""
    footer = read_footer(open_base_file(storage, base.path))
    if FOOTER_MIN_KEY not in footer or FOOTER_MAX_KEY not in footer:
        return None
    return footer[FOOTER_MIN_KEY], footer[FOOTER_MAX_KEY]


def _candidates(file: pq.ParquetFile, keys: Keys, pruning: Pruning) -> Positions | None:
    """Positions of the keys that the footer does not rule out, or None for all of them."""
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
    rest = np.flatnonzero(bloom.might_contain(wanted.slice(_SAMPLE))) + min(_SAMPLE, len(wanted))
    return rest if chosen is None else chosen[rest]
