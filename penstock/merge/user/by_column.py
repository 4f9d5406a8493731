"""A function over Arrow tables as one that mergers call, and the checks of what functions of both kinds give back.

Row i of both tables has one key. What comes back has to have as many rows, in the same order, and the same columns; a boolean
column `_hoodie_is_deleted`, which may come in addition, says which keys are gone. Columns of the record key and the partition
path have to be those of either row. Nothing is put right silently, but for types: numbers, texts and times may come in another
width, if no value is lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.deletes import DELETE_FLAG, delete_flags
from penstock.merge.kernels.gather import Flags, find_column
from penstock.merge.user.guard import Guard
from penstock.registry import Registered

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


@dataclass(frozen=True)
class Joined:
    """What a function made of pairs of rows: the rows of those that stay, and which pairs came to nothing."""

    rows: pa.Table
    gone: Flags


class Joins(Protocol):
    """A function of the user's own, whichever way it takes its rows. Tables hold the data columns alone."""

    @property
    def guard(self) -> Guard:
        """What its errors say."""

    def join(self, old: pa.Table, new: pa.Table) -> Joined:
        """One row of each pair. Both have the same columns; so have the rows that come out."""

    def begin(self, new: pa.Table) -> Joined:
        """Rows as they are stored where there is no old one."""


@dataclass(frozen=True)
class ByColumn:
    """A merger of the user's own: many pairs at a time."""

    registered: Registered
    guard: Guard

    def join(self, old: pa.Table, new: pa.Table) -> Joined:
        made = self.guard.run(lambda _: self.registered.function(old, new), new)
        return checked(self.guard, _as_table(self.guard, made, new), old, new)

    def begin(self, new: pa.Table) -> Joined:
        return Joined(new, np.zeros(new.num_rows, np.bool_))


def checked(guard: Guard, made: pa.Table, old: pa.Table | None, new: pa.Table) -> Joined:
    """What a function gave back for pairs of rows, in the columns of `new`.

    Raises:
        PayloadError: rows or columns are missing, doubled, or of another type, or a key or partition path is another.
    """
    _check_columns(guard, made, new)
    gone = delete_flags(made)
    if gone.any():
        kept = pa.array(~gone)
        made, new, old = made.filter(kept), new.filter(kept), None if old is None else old.filter(kept)
    rows = pa.table([_typed(guard, made[field.name], field, new) for field in new.schema], schema=new.schema)
    for path in guard.fixed:
        _check_fixed(guard, path, rows, old, new)
    return Joined(rows, gone)


def _as_table(guard: Guard, made: Any, new: pa.Table) -> pa.Table:
    if not isinstance(made, pa.Table):
        raise guard.failed(f"gave back a {type(made).__name__}, not a pyarrow.Table,", new, 0)
    if made.num_rows != new.num_rows:
        said = f"gave back {made.num_rows} rows for {new.num_rows} pairs of rows, the first of them"
        raise guard.failed(said, new, 0, f"Say that a key is gone by a boolean column {DELETE_FLAG!r}, not by leaving it out.")
    return made


def _check_columns(guard: Guard, made: pa.Table, new: pa.Table) -> None:
    names, wanted = Counter(made.column_names), set(new.column_names)
    missing, extra = wanted - names.keys(), names.keys() - wanted - {DELETE_FLAG}
    twice = [name for name, times in names.items() if times > 1]
    wrong = [
        f"{what} {', '.join(repr(name) for name in sorted(its))}"
        for what, its in (("without column", missing), ("with a column of its own,", extra), ("with two columns", twice))
        if its
    ]
    if wrong:
        raise guard.failed(
            f"gave back rows {' and '.join(wrong)},", new, 0, f"The table's columns are {', '.join(new.column_names)}."
        )
    if DELETE_FLAG in names and not pa.types.is_boolean(made.schema.field(DELETE_FLAG).type):
        raise guard.failed(f"gave back a column {DELETE_FLAG!r} that is not boolean,", new, 0)


def _typed(guard: Guard, values: pa.ChunkedArray, field: pa.Field, new: pa.Table) -> pa.ChunkedArray:
    """A column in the table's type."""
    if not field.nullable and values.null_count:
        at = int(np.flatnonzero(np.asarray(pc.is_null(values)))[0])
        raise guard.failed(f"gave back a null in column {field.name!r}, which takes none,", new, at)
    if values.type == field.type:
        return values
    try:
        if not _are_kin(values.type, field.type):
            raise pa.ArrowTypeError(f"{values.type} is no {field.type}")
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise guard.failed(f"gave back column {field.name!r} as {values.type}; it is {field.type}: {e}", new, 0) from e


def _are_kin(one: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_null(one):
        return True
    if pa.types.is_dictionary(one):
        return _are_kin(one.value_type, other)
    return any(any(is_a(one) for is_a in family) and any(is_a(other) for is_a in family) for family in _FAMILIES)


def _check_fixed(guard: Guard, path: str, rows: pa.Table, old: pa.Table | None, new: pa.Table) -> None:
    """A column of the key or partition path is that of the new row or, in the same way, of the old one."""
    found, wanted = find_column(rows, path), find_column(new, path)
    if found is None or wanted is None:
        return
    same = _are_same(found, wanted)
    if old is not None and not same.all() and (stored := find_column(old, path)) is not None:
        same |= _are_same(found, stored)
    if not same.all():
        at = int(np.flatnonzero(~same)[0])
        value = found[at].as_py()
        raise guard.failed(f"changed column {path!r}, of the record key or the partition path, to {value!r}", new, at)


def _are_same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Flags:
    same = pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(pc.is_null(one), pc.is_null(other)))
    if pa.types.is_floating(one.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), False))
    return np.asarray(same, dtype=np.bool_).copy()
