"""Kernels that compare and sort ordering values, with Java's rules for NaN. They decide which row of a key is newer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.kernels.gather import Flags, Positions, find_column, to_array


def stored_is_newer(old: pa.Table, new: pa.Table, ordering: str, among: Flags | None = None) -> Flags:
    """Return a mask over the (stored, incoming) pairs of rows, true where the stored row has the greater ordering value.

    All false if `old` or `new` has no ordering column.

    Args:
        old: the stored rows; row i has the key of row i of `new`.
        new: the incoming rows.
        ordering: the name or path of the ordering column.
        among: a mask of the pairs to compare; None: all. The result is False for pairs that are not compared; their incoming
            ordering value may be null.

    Raises:
        SchemaError: an incoming row lacks the ordering value that its stored row has, or the two types do not compare.
    """
    stored = find_column(old, ordering)
    incoming = find_column(new, ordering)
    if stored is None or incoming is None:
        return np.zeros(new.num_rows, np.bool_)
    if among is not None and not among.all():
        # An array of nulls, not a null scalar: with a scalar pyarrow 17 gets the text offsets of sliced arrays wrong.
        stored = pc.if_else(pa.array(among), stored, pa.nulls(len(stored), stored.type))
    return is_greater(stored, incoming, ordering)


def stored_is_as_new(old: pa.Table, new: pa.Table, ordering: str) -> Flags:
    """Return a mask over the pairs (row i of `old`, row i of `new`), true where both rows have the same ordering value.

    All false if `old` or `new` has no ordering column. Call `stored_is_newer` first: it raises if the types do not compare.

    Args:
        old: the stored rows.
        new: the incoming rows; row i has the key of row i of `old`.
        ordering: the name or path of the ordering column.
    """
    stored = find_column(old, ordering)
    incoming = find_column(new, ordering)
    if stored is None or incoming is None:
        return np.zeros(new.num_rows, np.bool_)
    same = pc.equal(stored, incoming)
    if pa.types.is_floating(stored.type) and pa.types.is_floating(incoming.type):
        same = pc.or_(same, pc.and_(pc.is_nan(stored), pc.is_nan(incoming)))
    return np.asarray(pc.fill_null(same, False), dtype=np.bool_)


def is_greater(left: pa.ChunkedArray, right: pa.ChunkedArray, column: str) -> Flags:
    """Return a mask, true where value i of `left` is strictly greater than value i of `right`.

    A null on the left is never greater; NaN is above all numbers.

    Args:
        left: ordering values of stored rows.
        right: ordering values of the incoming rows with the same keys.
        column: the name of the ordering column, for error messages.

    Raises:
        SchemaError: a right value is null while the left one is not, or the two types do not compare.
    """
    is_unknown = pc.and_(pc.is_valid(left), pc.is_null(right))
    if pc.any(is_unknown).as_py():
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
        # Arrow says False for every comparison with NaN; Java puts NaN above all numbers.
        greater = pc.or_(greater, pc.and_(pc.is_nan(left), pc.invert(pc.is_nan(right))))
    return np.asarray(pc.fill_null(greater, False), dtype=np.bool_)


def rank_values(values: pa.Array | pa.ChunkedArray, column: str) -> Positions:
    """Return a number per value. The numbers compare as the values do; equal values get equal numbers, and a null gets the least.

    Only the distinct values are sorted: a dictionary encoding maps each row to the rank of its value.

    Args:
        column: the name of the column, for error messages.
    """
    array = to_array(values)
    if pa.types.is_int64(array.type) and not array.null_count:
        return np.asarray(array, dtype=np.int64)
    codes = array.dictionary_encode()
    order = sort_values(codes.dictionary, column)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    indices = np.asarray(pc.fill_null(codes.indices, -1), dtype=np.int64)
    return np.where(indices < 0, np.int64(-1), rank[indices]) if len(order) else indices


def sort_values(values: pa.Array, column: str) -> Positions:
    """Return the positions that sort the values in ascending order. Equal values keep their order.

    Args:
        column: the name of the column, for error messages.

    Raises:
        SchemaError: values of this type have no order.
    """
    try:
        return np.asarray(pc.sort_indices(values), dtype=np.int64)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as e:
        raise SchemaError(
            f"ordering column {column!r} is {values.type}, whose values have no order; "
            "choose another hoodie.datasource.write.precombine.field"
        ) from e


def check_ordering_values(ordering: pa.Array | pa.ChunkedArray, column: str) -> None:
    """Raise SchemaError if an ordering value is null: that row would be neither newer nor older than other rows of its key.

    Args:
        column: the name of the ordering column, for the error message.
    """
    if ordering.null_count:
        raise SchemaError(
            f"Ordering value is null for {ordering.null_count} of {len(ordering)} rows: column {column!r} decides which row "
            "of a key is newer. Fill it, or choose another hoodie.datasource.write.precombine.field"
        )
