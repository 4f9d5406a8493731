"""Kernels that find rows by record key: the position of each key in another array of keys, and the newest row of each key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import Positions, to_array
from penstock.merge.kernels.ordering import sort_values


def find_positions(keys: pa.Array | pa.ChunkedArray, wanted: pa.Array) -> Positions:
    """Return for each key its position in `wanted`, or -1 if `wanted` does not hold it. The keys of `wanted` must be distinct.

    A hash table is built over `wanted`, so of two arrays pass the smaller one as `wanted`.
    """
    if keys.type != wanted.type:
        keys = keys.cast(wanted.type)
    positions = pc.index_in(keys, value_set=wanted)
    return np.asarray(pc.fill_null(positions, -1), dtype=np.int64)


def pick_newest(
    keys: pa.Array, ordering: pa.Array | pa.ChunkedArray | None, column: str = "", arrival: Positions | None = None
) -> Positions:
    """Return the position of the newest row of each key, ascending: the greatest ordering value, and the last row among equals.

    Args:
        keys: the record key of each row.
        ordering: the ordering value of each row; None: the last row of each key is the newest.
        column: the name of the ordering column, for error messages.
        arrival: a number per row, greater for rows that came later; None: the rows are in the order in which they came.
    """
    codes = keys.dictionary_encode()
    count = len(codes.dictionary)
    if count == len(keys):
        return np.arange(len(keys), dtype=np.int64)
    order: Positions = np.arange(len(keys), dtype=np.int64) if arrival is None else np.argsort(arrival, kind="stable")
    if ordering is not None:
        values = to_array(ordering) if arrival is None else to_array(ordering).take(pa.array(order))
        order = order[sort_values(values, column)]
    # Positions are assigned in ascending order of ordering value; of several rows of a key the last assignment stays.
    last = np.empty(count, dtype=np.int64)
    last[np.asarray(codes.indices)[order]] = order
    return np.sort(last)
