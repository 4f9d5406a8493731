"""Comparing ordering values: which row of a pair is the newer one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.kernels.gather import column_at
from penstock.merge.kernels.runs import Flags


def is_newer(old: pa.Table, new: pa.Table, ordering: str, among: Flags | None = None) -> Flags:
    """Where the stored row has the greater ordering value.

    Args:
        among: the pairs that are compared; what is not stays false, and may lack an ordering value.
    """
    stored, incoming = column_at(old, ordering), column_at(new, ordering)
    if stored is None or incoming is None:
        return np.zeros(new.num_rows, np.bool_)
    if among is not None and not among.all():
        # not a scalar of null: pyarrow 17 gets the offsets of text wrong there where an array is a slice
        stored = pc.if_else(pa.array(among), stored, pa.nulls(len(stored), stored.type))
    return is_greater(stored, incoming, ordering)


def is_as_new(old: pa.Table, new: pa.Table, ordering: str) -> Flags:
    """Where both rows have one ordering value. Call it where `is_newer` has found them to compare."""
    stored, incoming = column_at(old, ordering), column_at(new, ordering)
    if stored is None or incoming is None:
        return np.zeros(new.num_rows, np.bool_)
    same = pc.equal(stored, incoming)
    if pa.types.is_floating(stored.type) and pa.types.is_floating(incoming.type):
        same = pc.or_(same, pc.and_(pc.is_nan(stored), pc.is_nan(incoming)))
    return np.asarray(pc.fill_null(same, False), dtype=np.bool_)


def is_greater(left: pa.ChunkedArray, right: pa.ChunkedArray, column: str) -> Flags:
    """Where the left value is strictly greater; a null on the left never is. Not-a-number is greater than any number.

    Raises:
        SchemaError: the right value is null beside one that is not, or the two cannot be compared.
    """
    unknown = pc.and_(pc.is_valid(left), pc.is_null(right))
    if pc.any(unknown).as_py():
        raise SchemaError(
            f"Ordering value is null in column {column!r} of a row whose stored version has one; fill the column, or choose "
            "a payload class that does not compare ordering values"
        )
    try:
        greater = pc.greater(left, right)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as e:
        raise SchemaError(
            f"ordering column {column!r} is {left.type} in the table and {right.type} in the rows, which cannot be compared; "
            "cast it"
        ) from e
    if pa.types.is_floating(left.type) and pa.types.is_floating(right.type):
        greater = pc.or_(greater, pc.and_(pc.is_nan(left), pc.invert(pc.is_nan(right))))
    return np.asarray(pc.fill_null(greater, False), dtype=np.bool_)
