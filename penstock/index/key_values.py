"""The column values inside record keys, as the bucket indexes take them apart. Kernel.

A key made of several columns says `column:value,column:value`. A plain key is its own only value, unless it has a comma or colon:
then it is taken apart as if it were of the other kind, as Hudi does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.hashes import Int64s

Keys: TypeAlias = "pa.Array[Any]"


def is_compound(keys: Keys) -> bool:
    """Whether any key has to be taken apart."""
    return bool(pc.any(pc.or_(pc.match_substring(keys, ","), pc.match_substring(keys, ":"))).as_py())


def values_of_keys(keys: Keys, fields: Sequence[str]) -> tuple[pa.Array, Int64s]:
    """The values that count of every key, one after the other, and where each key's begin."""
    lists = pc.split_pattern(keys.cast(pa.string()), ",")
    parts, parents = lists.flatten(), np.asarray(pc.list_parent_indices(lists))
    pairs = pc.split_pattern(parts, ":", max_splits=1)
    is_plain = np.asarray(pc.list_value_length(pairs)) == 1
    first = pc.list_element(pairs, 0)
    rest = pairs.flatten().take(pa.array(np.asarray(pairs.offsets)[1:] - 1))
    kept = is_plain | np.asarray(pc.is_in(first, value_set=pa.array(fields, pa.string())))
    kept &= ~_trailing(np.asarray(pc.equal(parts, "")), parents)
    value = pc.if_else(pc.and_(pc.invert(pa.array(is_plain)), pc.equal(rest, "__null__")), None, rest)
    value = pc.if_else(pc.and_(pc.invert(pa.array(is_plain)), pc.equal(rest, "__empty__")), "", value)
    counts = np.bincount(parents[kept], minlength=len(keys))
    return value.filter(pa.array(kept)), np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _trailing(empty: Any, parents: Any) -> Any:
    """Empty parts behind the last part of a key that is not: Java's split leaves them out."""
    filled = np.flatnonzero(~empty)
    last = np.full(int(parents[-1]) + 1 if len(parents) else 0, -1, np.int64)
    last[parents[filled]] = filled
    return np.arange(len(parents)) > last[parents]
