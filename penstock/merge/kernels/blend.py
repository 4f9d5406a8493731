"""Kernels that build one column out of two: for each row the value of the first column or of the second. Work for every type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import Flags


def blend(takes_first: Flags, first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with the value of `first` where the mask `takes_first` is true, and the value of `second` elsewhere."""
    # Columns that come from one side alone are the usual case, and need no copy.
    if takes_first.all():
        return first
    if not takes_first.any():
        return second
    return _to_chunked(pc.if_else(pa.array(takes_first), first, second))


def fill_nulls(values: pa.ChunkedArray, fallback: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return `values` with each null replaced by the value of `fallback` in the same row."""
    return values if values.null_count == 0 else _to_chunked(pc.coalesce(values, fallback))


def cast_column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """Return the column of `rows` with the name of `field`, cast to the type of `field`.

    All nulls if `rows` has no such column.
    """
    if field.name not in rows.column_names:
        return pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
    column = rows[field.name]
    return column if column.type == field.type else column.cast(field.type)


def is_complete(rows: pa.Table) -> Flags:
    """Return a mask over the rows, true where no column is null."""
    complete = np.ones(rows.num_rows, np.bool_)
    for column in rows.columns:
        if column.null_count:
            complete &= np.asarray(pc.is_valid(column))
    return complete


def _to_chunked(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert an array to a ChunkedArray, because Arrow's functions return either kind."""
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
