"""Checks of the rows that a user's merge function returns.

The rows must have the columns of the table. They may also have a boolean column `_hoodie_is_deleted`, which is true for keys to
delete. Columns of the record key and the partition path must equal those of the old or the new row. Only types are corrected:
numbers, text and times may come in another width if no value is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.deletes import DELETE_FLAG, delete_flags
from penstock.merge.kernels.gather import Flags, find_column
from penstock.merge.user.function import JoinedRows
from penstock.merge.user.guard import Guard

#: Types of one family are cast to one another.
_FAMILIES = (
    (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    (pa.types.is_string, pa.types.is_large_string),
    (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
    (pa.types.is_timestamp,),
    (pa.types.is_date,),
    (pa.types.is_time,),
    (pa.types.is_list, pa.types.is_large_list),
    (pa.types.is_struct,),
    (pa.types.is_map,),
)


def check_rows(guard: Guard, returned: pa.Table, old: pa.Table | None, new: pa.Table) -> JoinedRows:
    """Check the rows that a user's function returned, and return them in the columns and types of `new`.

    Args:
        guard: makes the errors; its `fixed` names the columns that must not change.
        returned: the rows to check; row i was merged from row i of `old` and row i of `new`.
        old: the older rows; None if the function was called without old rows.
        new: the newer rows.

    Raises:
        PayloadError: a column is missing, doubled, unknown or of another type, or a key or partition path was changed.
    """
    _check_columns(guard, returned, new)
    gone = delete_flags(returned)
    if gone.any():
        kept = pa.array(~gone)
        returned = returned.filter(kept)
        new = new.filter(kept)
        old = None if old is None else old.filter(kept)
    rows = pa.table([_cast(guard, returned[field.name], field, new) for field in new.schema], schema=new.schema)
    for path in guard.fixed:
        _check_unchanged(guard, path, rows, old, new)
    return JoinedRows(rows, gone)


def _check_columns(guard: Guard, returned: pa.Table, new: pa.Table) -> None:
    """Raise PayloadError unless `returned` has the columns of `new`. It may also have a boolean column `_hoodie_is_deleted`."""
    counts = Counter(returned.column_names)
    expected = set(new.column_names)
    problems = [
        ("without column", expected - counts.keys()),
        ("with a column of its own,", counts.keys() - expected - {DELETE_FLAG}),
        ("with two columns", {name for name, count in counts.items() if count > 1}),
    ]
    wrong = [f"{problem} {', '.join(repr(name) for name in sorted(names))}" for problem, names in problems if names]
    if wrong:
        raise guard.make_error(
            f"returned rows {' and '.join(wrong)},", new, 0, f"The table's columns are {', '.join(new.column_names)}."
        )
    if DELETE_FLAG in counts and not pa.types.is_boolean(returned.schema.field(DELETE_FLAG).type):
        raise guard.make_error(f"returned a column {DELETE_FLAG!r} that is not boolean,", new, 0)


def _cast(guard: Guard, values: pa.ChunkedArray, field: pa.Field, new: pa.Table) -> pa.ChunkedArray:
    """Return a column that the user's function returned, cast to the type that the column has in the new rows.

    Args:
        values: the returned column.
        field: the column's field in the schema of the new rows.
        new: the new rows, to name the record key in an error.

    Raises:
        PayloadError: a value is null in a required column, or a value cannot be cast to the type without loss.
    """
    if not field.nullable and values.null_count:
        at = int(np.flatnonzero(np.asarray(pc.is_null(values)))[0])
        raise guard.make_error(f"returned a null in column {field.name!r}, which takes none,", new, at)
    if values.type == field.type:
        return values
    try:
        if not _are_of_one_family(values.type, field.type):
            raise pa.ArrowTypeError(f"{values.type} is no {field.type}")
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise guard.make_error(f"returned column {field.name!r} as {values.type}; it is {field.type}: {e}", new, 0) from e


def _are_of_one_family(returned: pa.DataType, expected: pa.DataType) -> bool:
    """Whether values of the type `returned` may be cast to the type `expected`: both are numbers, both are text, and so on.

    True if `returned` is the null type. A dictionary type counts as the type of its values.
    """
    if pa.types.is_null(returned):
        return True
    if pa.types.is_dictionary(returned):
        return _are_of_one_family(returned.value_type, expected)
    return _find_family(returned) is not None and _find_family(returned) is _find_family(expected)


def _find_family(kind: pa.DataType) -> tuple[Callable[[pa.DataType], bool], ...] | None:
    """Return the group of Arrow types (numbers, text and so on) to which a type belongs; None if it belongs to no group.

    The groups are listed in `_FAMILIES`. A value may be cast from one type of a group to another.
    """
    return next((family for family in _FAMILIES if any(is_of(kind) for is_of in family)), None)


def _check_unchanged(guard: Guard, path: str, rows: pa.Table, old: pa.Table | None, new: pa.Table) -> None:
    """Raise PayloadError if a returned row differs from both its old and its new row in a record key or partition path column.

    Args:
        path: the name of the column; the field of a struct as `a.b`.
        rows: the rows that the user's function returned; row i was merged from row i of `old` and row i of `new`.
        old: the older rows; None if the function was called without old rows.
        new: the newer rows.
    """
    values = find_column(rows, path)
    expected = find_column(new, path)
    if values is None or expected is None:
        return
    same = _are_equal(values, expected)
    if old is not None and not same.all() and (stored := find_column(old, path)) is not None:
        same |= _are_equal(values, stored)
    if not same.all():
        at = int(np.flatnonzero(~same)[0])
        value = values[at].as_py()
        raise guard.make_error(f"changed column {path!r}, of the record key or the partition path, to {value!r}", new, at)


def _are_equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Flags:
    """Return a mask, true where value i of `left` equals value i of `right`. Null equals null, and NaN equals NaN."""
    same = pc.or_(pc.fill_null(pc.equal(left, right), False), pc.and_(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    return np.asarray(same, dtype=np.bool_).copy()  # Arrow's memory cannot be written to
