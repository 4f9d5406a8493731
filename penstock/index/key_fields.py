"""Parses the column values out of record keys, to hash them for the bucket index.

A key of several columns is the string `column:value,column:value`. A key of one column is its value. But Hudi parses every key
that has a colon like a key of several columns, so this module does the same.
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
    """Whether any of the record keys has a colon. If so, Hudi parses all of the keys as `column:value,column:value`."""
    return bool(pc.any(pc.match_substring(keys, ":")).as_py())


def values_of_keys(keys: RecordKeys, fields: Sequence[str]) -> tuple[pa.Array, Int64s]:
    """Return the values of the columns `fields` in all keys as one flat array, and the offset of each key's first value in it.

    The last offset is the number of values. For example, the keys `a:1,b:2` and `a:3,b:4` have the values 1, 2, 3, 4 and the
    offsets 0, 2, 4. A key without a colon has one value: the key itself.
    """
    keys = keys.cast(pa.string())
    has_colon = np.asarray(pc.match_substring(keys, ":"))
    parsed_values, parsed_counts = _parse_keys(keys.filter(pa.array(has_colon)), fields)
    plain_values = keys.filter(pa.array(~has_colon))
    counts = np.ones(len(keys), np.int64)
    counts[has_colon] = parsed_counts
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    # The values of plain keys stand before those of parsed ones; `order` takes each from its place.
    is_plain = np.repeat(~has_colon, counts)
    order = np.empty(len(is_plain), np.int64)
    order[is_plain] = np.arange(len(plain_values))
    order[~is_plain] = len(plain_values) + np.arange(len(parsed_values))
    return pa.concat_arrays([plain_values, parsed_values]).take(pa.array(order)), offsets


def _parse_keys(keys: RecordKeys, fields: Sequence[str]) -> tuple[pa.Array, Int64s]:
    """Return the values of the columns `fields` in keys with colons, as one flat array, and the number of values of each key.

    A key is split at its commas. A part without a colon names no column; Hudi always hashes it, so it is kept.
    """
    lists = pc.split_pattern(keys, ",")
    parts = lists.flatten()
    key_numbers = np.asarray(pc.list_parent_indices(lists))
    pairs = pc.split_pattern(parts, ":", max_splits=1)
    is_bare = np.asarray(pc.list_value_length(pairs)) == 1
    names = pc.list_element(pairs, 0)
    values = pairs.flatten().take(pa.array(np.asarray(pairs.offsets)[1:] - 1))
    is_kept = is_bare | np.asarray(pc.is_in(names, value_set=pa.array(fields, pa.string())))
    is_kept &= ~_is_trailing(np.asarray(pc.equal(parts, "")), key_numbers)
    for placeholder, value in (("__null__", None), ("__empty__", "")):
        is_placeholder = pc.and_(pa.array(~is_bare), pc.fill_null(pc.equal(values, placeholder), False))
        values = pc.if_else(is_placeholder, pa.scalar(value, pa.string()), values)
    return values.filter(pa.array(is_kept)), np.bincount(key_numbers[is_kept], minlength=len(keys))


def _is_trailing(is_empty: Any, key_numbers: Any) -> Any:
    """Return a mask over the parts of record keys split at commas, true for empty parts after a key's last non-empty part.

    Java's `split` drops these parts.

    Args:
        is_empty: a mask over the parts of all keys, true where the part is empty.
        key_numbers: for each part the number of the key that it belongs to.
    """
    filled = np.flatnonzero(~is_empty)
    keys = int(key_numbers[-1]) + 1 if len(key_numbers) else 0
    last_filled = np.full(keys, -1, np.int64)
    last_filled[key_numbers[filled]] = filled
    return np.arange(len(key_numbers)) > last_filled[key_numbers]
