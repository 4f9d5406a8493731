"""Rows paired by key, and the one row of each key that a batch is reduced to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError

Positions = npt.NDArray[np.int64]


def positions_in(keys: pa.Array | pa.ChunkedArray, wanted: pa.Array) -> Positions:
    """For each key, where it stands in `wanted` (which holds no key twice), or -1. The hash is built on `wanted`."""
    found = pc.index_in(keys, value_set=wanted)
    return np.asarray(pc.fill_null(found, -1), dtype=np.int64)


def newest_of_each(keys: pa.Array, ordering: pa.Array | pa.ChunkedArray | None) -> Positions:
    """Positions of one row per key, ascending: the one with the greatest ordering value, the last among equals.

    Without ordering values the last row of each key stays.
    """
    codes = keys.dictionary_encode()
    count = len(codes.dictionary)
    if count == len(keys):
        return np.arange(len(keys), dtype=np.int64)
    if ordering is None:
        order: Positions = np.arange(len(keys), dtype=np.int64)
    else:
        order = np.asarray(pc.sort_indices(_flat(ordering)), dtype=np.int64)  # stable: arrival decides among equals
    last = np.empty(count, dtype=np.int64)
    last[np.asarray(codes.indices)[order]] = order
    return np.sort(last)


def check_ordering(ordering: pa.Array | pa.ChunkedArray, column: str) -> None:
    """Refuse rows without an ordering value, which could neither win nor lose."""
    if ordering.null_count:
        raise SchemaError(
            f"Ordering value is null for {ordering.null_count} of {len(ordering)} rows: column {column!r} decides which row "
            "of a key is newer. Fill it, or choose another hoodie.datasource.write.precombine.field"
        )


def _flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
