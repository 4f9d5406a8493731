"""Kernels for list columns: concatenate, sort and cut the lists of all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import Flags, Positions, to_array


def concat_lists(
    columns: Sequence[pa.ChunkedArray], rank: Callable[[pa.Array], Positions] | None = None, limit: int | None = None
) -> pa.Array:
    """Concatenate the list columns row by row: list i of the result holds the values of list i of each column.

    A list of the result is null where all columns are null.

    Args:
        rank: a function that returns a number for each value of an array. The values of a list are sorted by these numbers;
            values with equal numbers keep their order. None: the values stay in the order of the columns.
        limit: the number of values to keep of each list, the last ones; None: all.
    """
    lists = [to_array(column) for column in columns]
    values = pa.concat_arrays([pc.list_flatten(array) for array in lists])
    row_of_value = np.concatenate([np.asarray(pc.list_parent_indices(array), dtype=np.int64) for array in lists])
    order = np.argsort(row_of_value, kind="stable") if rank is None else np.lexsort((rank(values), row_of_value))
    lengths = np.bincount(row_of_value, minlength=len(lists[0]))
    if limit is not None:
        place_in_list = np.arange(len(order)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        order = order[place_in_list >= np.repeat(lengths - limit, lengths)]
        lengths = np.minimum(lengths, limit)
    is_known = np.logical_or.reduce([np.asarray(pc.is_valid(array)) for array in lists])
    return build_lists(values.take(pa.array(order)), lengths, is_known, lists[0].type)


def build_lists(values: pa.Array, lengths: Positions, is_known: Flags, kind: pa.DataType) -> pa.Array:
    """Return a list column: the first list has the first `lengths[0]` values, the next list the next `lengths[1]`, and so on.

    Args:
        is_known: a mask over the lists; a list is null where the mask is false.
        kind: the list type of the result.
    """
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(~is_known)).cast(kind)
