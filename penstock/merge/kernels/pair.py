"""Rows paired by key, and the one row of each key that a batch is reduced to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.kernels.gather import OFFSETS_REACH, Positions


def positions_in(keys: pa.Array | pa.ChunkedArray, wanted: pa.Array) -> Positions:
    """For each key, where it stands in `wanted` (which holds no key twice), or -1. The hash is built on `wanted`."""
    if keys.type != wanted.type:
        keys = keys.cast(wanted.type)
    found = pc.index_in(keys, value_set=wanted)
    return np.asarray(pc.fill_null(found, -1), dtype=np.int64)


def newest_of_each(
    keys: pa.Array, ordering: pa.Array | pa.ChunkedArray | None, column: str = "", arrival: Positions | None = None
) -> Positions:
    """Positions of one row per key, ascending: the one with the greatest ordering value, the last among equals.

    Without ordering values the last row of each key stays.

    Args:
        column: what the ordering column is called, for the message.
        arrival: numbers that tell which row came later, where the rows do not stand in that order.
    """
    codes = keys.dictionary_encode()
    count = len(codes.dictionary)
    if count == len(keys):
        return np.arange(len(keys), dtype=np.int64)
    order: Positions = np.arange(len(keys), dtype=np.int64) if arrival is None else np.argsort(arrival, kind="stable")
    if ordering is not None:
        values = flat(ordering) if arrival is None else flat(ordering).take(pa.array(order))
        order = order[_ascending(values, column)]
    last = np.empty(count, dtype=np.int64)
    last[np.asarray(codes.indices)[order]] = order
    return np.sort(last)


def ranks(values: pa.Array | pa.ChunkedArray, column: str) -> Positions:
    """Numbers that compare as the values do; equal values have one number. A null counts as the least."""
    array = flat(values)
    if pa.types.is_int64(array.type) and not array.null_count:
        return np.asarray(array, dtype=np.int64)
    codes = array.dictionary_encode()
    order = _ascending(codes.dictionary, column)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    indices = np.asarray(pc.fill_null(codes.indices, -1), dtype=np.int64)
    return np.where(indices < 0, np.int64(-1), rank[indices]) if len(order) else indices


def _ascending(values: pa.Array, column: str) -> Positions:
    """Positions by value; equal ones stay in their order."""
    try:
        return np.asarray(pc.sort_indices(values), dtype=np.int64)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as e:
        raise SchemaError(
            f"ordering column {column!r} is {values.type}, whose values have no order; "
            "choose another hoodie.datasource.write.precombine.field"
        ) from e


def check_ordering(ordering: pa.Array | pa.ChunkedArray, column: str) -> None:
    """Refuse rows without an ordering value, which could neither win nor lose."""
    if ordering.null_count:
        raise SchemaError(
            f"Ordering value is null for {ordering.null_count} of {len(ordering)} rows: column {column!r} decides which row "
            "of a key is newer. Fill it, or choose another hoodie.datasource.write.precombine.field"
        )


def flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """All values in one array; texts beyond what 32-bit offsets reach become large ones."""
    if isinstance(values, pa.Array):
        return values
    if pa.types.is_string(values.type) and values.nbytes > OFFSETS_REACH:
        values = values.cast(pa.large_string())
    if values.num_chunks == 1:
        return values.chunk(0)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
