"""Mergers: which of two rows of a key stays, for many keys at once.

`resolve(old, new)` gets rows that belong together: row i of both has one key. It says for each what becomes of it; the
caller copies rows. A merger names the columns of the old row it looks at, so that no others are read for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.gather import column_at

DELETE_FLAG = "_hoodie_is_deleted"

Choices = npt.NDArray[np.int8]
KEEP_OLD, TAKE_NEW, DELETE = np.int8(0), np.int8(1), np.int8(2)


class Merger(Protocol):
    """How a stored row and an incoming one become one row, or none."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns of the stored row that the decision looks at; fields of structs as `a.b`."""

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        """KEEP_OLD, TAKE_NEW or DELETE for each pair of rows."""

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        """Which incoming rows say that their key is gone."""


@dataclass(frozen=True)
class LatestCommit:
    """The incoming row always wins: OverwriteWithLatestAvroPayload."""

    needs: tuple[str, ...] = ()

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return np.where(self.is_delete(new), DELETE, TAKE_NEW).astype(np.int8)

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        return delete_flags(new)


@dataclass(frozen=True)
class LatestOrdering:
    """The greater ordering value wins, the incoming row among equals: DefaultHoodieRecordPayload.

    A stored row without an ordering value, or of a time before the column was there, gives way.
    """

    ordering: str

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        stored, incoming = column_at(old, self.ordering), column_at(new, self.ordering)
        older = np.zeros(new.num_rows, np.bool_)
        if stored is not None and incoming is not None:
            older = is_greater(stored, incoming, self.ordering)
        taken = np.where(self.is_delete(new), DELETE, TAKE_NEW)
        return np.where(older, KEEP_OLD, taken).astype(np.int8)

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        return delete_flags(new)


@dataclass(frozen=True)
class AlwaysDelete:
    """Every incoming key is gone, whatever the ordering: EmptyHoodieRecordPayload and the delete operation."""

    needs: tuple[str, ...] = ()

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return np.full(new.num_rows, DELETE, np.int8)

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        return np.ones(new.num_rows, np.bool_)


def delete_flags(rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Rows whose `_hoodie_is_deleted` is true."""
    if DELETE_FLAG not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(pc.fill_null(rows[DELETE_FLAG], False), dtype=np.bool_)


def is_greater(left: pa.ChunkedArray, right: pa.ChunkedArray, column: str) -> npt.NDArray[np.bool_]:
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
