"""Kernels that find the deletes among incoming rows: by `_hoodie_is_deleted`, a delete marker column, or an operation column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.kernels.gather import Flags

#: The boolean column that says that a row is a delete.
DELETE_FLAG = "_hoodie_is_deleted"


@dataclass(frozen=True)
class DeleteMarker:
    """A column and a value that mark deletes: a row with the text `value` in `column` is a delete.

    `column` is the option hoodie.payload.delete.field, `value` the option hoodie.payload.delete.marker. In a table with a delete
    marker, `_hoodie_is_deleted` is ignored.
    """

    column: str
    value: str

    def marks(self, rows: pa.Table) -> Flags:
        """Return a mask over the rows, true where `column` has the text `value`; all false if the rows lack the column."""
        if self.column not in rows.column_names:
            return np.zeros(rows.num_rows, np.bool_)
        return has_text(rows[self.column], self.value)


def delete_flags(rows: pa.Table) -> Flags:
    """Return a mask over the rows, true where the column `_hoodie_is_deleted` is true; all false if the rows lack that column."""
    if DELETE_FLAG not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(pc.fill_null(rows[DELETE_FLAG], False), dtype=np.bool_)


def has_text(values: pa.ChunkedArray, text: str, *, any_case: bool = False) -> Flags:
    """Return a mask over the values, true where the value, printed as Java prints it, equals `text`.

    Java prints floating-point numbers with a point: the number 1.0 equals the text `1.0`, but not `1`.

    Args:
        any_case: whether upper and lower case are the same.
    """
    if pa.types.is_floating(values.type):
        number = _parse_fraction(text)
        return np.asarray(pc.fill_null(pc.equal(values, pa.scalar(number, values.type)), False), dtype=np.bool_)
    texts = values if pa.types.is_string(values.type) else values.cast(pa.string())
    is_same = pc.equal(pc.utf8_lower(texts), text.lower()) if any_case else pc.equal(texts, text)
    return np.asarray(pc.fill_null(is_same, False), dtype=np.bool_)


def _parse_fraction(text: str) -> float | None:
    """Parse a number with a decimal point, as Java prints floating-point numbers.

    Return None for any other text, also for `1`.
    """
    try:
        return float(text) if "." in text else None
    except ValueError:
        return None


def check_operations(values: pa.ChunkedArray, column: str, known: Sequence[str]) -> None:
    """Raise SchemaError if an operation column holds a value that is neither null nor one of the known operations.

    Args:
        column: the name of the column, for the error message.
        known: the operations, such as `I`, `U` and `D`.
    """
    is_valid = pc.or_(pc.is_null(values), pc.is_in(values, value_set=pa.array(known, values.type)))
    if not pc.all(is_valid, min_count=0).as_py():
        unknown = pc.unique(values.filter(pc.invert(is_valid))).to_pylist()[:3]
        raise SchemaError(f"column {column!r} holds {unknown}; operations are {', '.join(known[:-1])} and {known[-1]}, or null")
