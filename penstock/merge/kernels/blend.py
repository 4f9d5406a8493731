"""Rows out of two: for each column and pair of rows the value of one side or the other. Kernels, for columns of every type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.runs import Flags


def blend(first: Flags, one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of `one` where `first` holds, else of `other`."""
    if first.all():
        return one
    if not first.any():
        return other
    return _chunked(pc.if_else(pa.array(first), one, other))


def filled_from(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of `one`; where these are null, of `other`."""
    return one if one.null_count == 0 else _chunked(pc.coalesce(one, other))


def column_like(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """A column as this field says; nulls where the rows have none."""
    if field.name not in rows.column_names:
        return pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
    column = rows[field.name]
    return column if column.type == field.type else column.cast(field.type)


def complete_rows(rows: pa.Table) -> Flags:
    """Rows without a null."""
    complete = np.ones(rows.num_rows, np.bool_)
    for column in rows.columns:
        if column.null_count:
            complete &= np.asarray(pc.is_valid(column))
    return complete


def _chunked(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
