"""Columns of lists, list by list: joining, ordering and cutting them without looking at one row at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import Positions
from penstock.merge.kernels.pair import flat
from penstock.merge.kernels.runs import Flags


def concat_lists(
    parts: Sequence[pa.ChunkedArray], rank: Callable[[pa.Array], Positions] | None = None, limit: int | None = None
) -> pa.Array:
    """The lists of all parts behind one another, row by row; null where all are.

    Args:
        rank: numbers for values by which each list is put in order; equal ones stay as they are.
        limit: how many values, from the end, each list may keep.
    """
    lists = [flat(part) for part in parts]
    rows = len(lists[0])
    values = pa.concat_arrays([pc.list_flatten(one) for one in lists])
    parents = np.concatenate([np.asarray(pc.list_parent_indices(one), dtype=np.int64) for one in lists])
    order = np.argsort(parents, kind="stable") if rank is None else np.lexsort((rank(values), parents))
    lengths = np.bincount(parents, minlength=rows)
    if limit is not None:
        place = np.arange(len(order)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        order = order[place >= np.repeat(lengths - limit, lengths)]
        lengths = np.minimum(lengths, limit)
    known = np.logical_or.reduce([np.asarray(pc.is_valid(one)) for one in lists])
    return lists_of(values.take(pa.array(order)), lengths, known, lists[0].type)


def lists_of(values: pa.Array, lengths: Positions, known: Flags, kind: pa.DataType) -> pa.Array:
    """Values cut into lists of these lengths; null where a list is not known."""
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(~known)).cast(kind)
