"""Which incoming rows are deletes: the delete flag, a marker column, a column of operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.kernels.gather import Flags

#: The boolean column that says a row is a delete.
DELETE_FLAG = "_hoodie_is_deleted"


@dataclass(frozen=True)
class DeleteMarker:
    """A column whose text form says that a row is a delete, in place of `_hoodie_is_deleted`."""

    column: str
    value: str

    def marks(self, rows: pa.Table) -> Flags:
        if self.column not in rows.column_names:
            return np.zeros(rows.num_rows, np.bool_)
        return has_text(rows[self.column], self.value)


def delete_flags(rows: pa.Table) -> Flags:
    """Rows whose `_hoodie_is_deleted` is true."""
    if DELETE_FLAG not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(pc.fill_null(rows[DELETE_FLAG], False), dtype=np.bool_)


def has_text(values: pa.ChunkedArray, text: str, *, any_case: bool = False) -> Flags:
    """Where the text form of a value is this one; that of a fraction has a point, as in Java."""
    if pa.types.is_floating(values.type):
        try:
            wanted = float(text) if "." in text else None
        except ValueError:
            wanted = None
        return np.asarray(pc.fill_null(pc.equal(values, pa.scalar(wanted, values.type)), False), dtype=np.bool_)
    texts = values if pa.types.is_string(values.type) else values.cast(pa.string())
    found = pc.equal(pc.utf8_lower(texts), text.lower()) if any_case else pc.equal(texts, text)
    return np.asarray(pc.fill_null(found, False), dtype=np.bool_)


def check_operations(values: pa.ChunkedArray, column: str, known: Sequence[str]) -> None:
    """Refuse a column of operations that holds others than these, or null. Raises SchemaError."""
    fine = pc.or_(pc.is_null(values), pc.is_in(values, value_set=pa.array(known, values.type)))
    if not pc.all(fine, min_count=0).as_py():
        odd = pc.unique(values.filter(pc.invert(fine))).to_pylist()[:3]
        raise SchemaError(f"column {column!r} holds {odd}; operations are {', '.join(known[:-1])} and {known[-1]}, or null")
