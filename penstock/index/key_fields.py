"""The column values inside record keys, as the bucket indexes take them apart. Kernel.

A key made of several columns says `column:value,column:value`. A plain key is its own only value, unless it has a colon: then it
is taken apart as if it were of the other kind, as Hudi does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.hashes import Int64s

RecordKeys: TypeAlias = "pa.Array[Any]"


def is_compound(keys: RecordKeys) -> bool:
    """Whether any key has to be taken apart."""
    return bool(pc.any(pc.match_substring(keys, ":")).as_py())


def values_of_keys(keys: RecordKeys, fields: Sequence[str]) -> tuple[pa.Array, Int64s]:
    """The values that count of every key, one after the other, and where each key's begin."""
    keys = keys.cast(pa.string())
    apart = np.asarray(pc.match_substring(keys, ":"))
    values, counts_apart = _taken_apart(keys.filter(pa.array(apart)), fields)
    plain = keys.filter(pa.array(~apart))
    counts = np.ones(len(keys), np.int64)
    counts[apart] = counts_apart
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    is_plain = np.repeat(~apart, counts)
    order = np.empty(len(is_plain), np.int64)
    order[is_plain], order[~is_plain] = np.arange(len(plain)), len(plain) + np.arange(len(values))
    return pa.concat_arrays([plain, values]).take(pa.array(order)), offsets


def _taken_apart(keys: RecordKeys, fields: Sequence[str]) -> tuple[pa.Array, Int64s]:
    """The values of keys that have a colon, and how many each has. A part without one counts too."""
    lists = pc.split_pattern(keys, ",")
    parts, parents = lists.flatten(), np.asarray(pc.list_parent_indices(lists))
    pairs = pc.split_pattern(parts, ":", max_splits=1)
    is_bare = np.asarray(pc.list_value_length(pairs)) == 1
    names = pc.list_element(pairs, 0)
    values = pairs.flatten().take(pa.array(np.asarray(pairs.offsets)[1:] - 1))
    kept = is_bare | np.asarray(pc.is_in(names, value_set=pa.array(fields, pa.string())))
    kept &= ~_trailing(np.asarray(pc.equal(parts, "")), parents)
    for written, meant in (("__null__", None), ("__empty__", "")):
        stands_for = pc.and_(pa.array(~is_bare), pc.fill_null(pc.equal(values, written), False))
        values = pc.if_else(stands_for, pa.scalar(meant, pa.string()), values)
    return values.filter(pa.array(kept)), np.bincount(parents[kept], minlength=len(keys))


def _trailing(empty: Any, parents: Any) -> Any:
    """Empty parts behind the last part of a key that is not: Java's split leaves them out."""
    filled = np.flatnonzero(~empty)
    last = np.full(int(parents[-1]) + 1 if len(parents) else 0, -1, np.int64)
    last[parents[filled]] = filled
    return np.arange(len(parents)) > last[parents]
