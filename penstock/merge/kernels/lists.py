"""List columns: concatenating, ordering and cutting the lists of all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import Flags, Positions, to_array


def concat_lists(
    columns: Sequence[pa.ChunkedArray], rank: Callable[[pa.Array], Positions] | None = None, limit: int | None = None
) -> pa.Array:
    """Return one list per row: the lists of all columns, one behind another. Null where all are null.

    All values are flattened, each with the number of its row; a stable sort by that number brings the values of a row
    together.

    Args:
        rank: returns numbers for values, by which each list is sorted; values of equal rank keep their order.
        limit: the most values that a list may keep, counted from its end.
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
    """Cut the values into lists of these lengths; a list is null where it is not known."""
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(~is_known)).cast(kind)
