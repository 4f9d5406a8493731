"""Mergers that choose: which of two rows of a key stays, for many keys at once. And what every merger promises.

`resolve(old, new)` gets rows that belong together: row i of both has one key. It says for each what becomes of it; the
caller copies rows. A merger names the columns of the old row it looks at, so that no others are read for it. One that makes
rows out of both (`Building`) says `BUILD` for some pairs and is then asked for these rows, with all their columns. What is
made of several rows of one batch or log is in `runs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.choice import Choice, Choices
from penstock.merge.kernels.gather import Positions, column_at, take_rows
from penstock.merge.kernels.runs import Flags, Folded, Runs, plain

DELETE_FLAG = "_hoodie_is_deleted"


class Merger(Protocol):
    """How a stored row and an incoming one become one row, or none."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns that the decision looks at in both rows; fields of structs as `a.b`."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the incoming row alone that decisions look at, beside the delete flag."""

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        """KEEP_OLD, TAKE_NEW, DELETE or BUILD for each pair of rows."""

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        """Which incoming rows say that their key is gone."""


@runtime_checkable
class Building(Protocol):
    """A merger that makes rows out of an old and a new one. Only these ever say BUILD."""

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        """The row of each pair that `resolve` said BUILD for, with the columns of `new`. The old rows are whole."""

    def insert(self, new: pa.Table) -> pa.Table:
        """Rows that are no deletes, as they are stored where they meet no other or replace it."""


@dataclass(frozen=True)
class DeleteMarker:
    """A column whose text form says that a row is a delete, in place of `_hoodie_is_deleted`."""

    column: str
    value: str

    def marks(self, rows: pa.Table) -> Flags:
        if self.column not in rows.column_names:
            return np.zeros(rows.num_rows, np.bool_)
        return has_text(rows[self.column], self.value)


@dataclass(frozen=True)
class LatestCommit:
    """The incoming row always wins: OverwriteWithLatestAvroPayload."""

    marker: DeleteMarker | None = None
    needs: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.marker.column,) if self.marker else ()

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return np.where(self.is_delete(new), Choice.DELETE, Choice.TAKE_NEW).astype(np.int8)

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        return self.marker.marks(new) if self.marker else delete_flags(new)


@dataclass(frozen=True)
class CommitTime(LatestCommit):
    """The incoming row always wins, the last one of a batch and of a log too: COMMIT_TIME_ORDERING, HoodieAvroPayload."""

    ignores_ordering: bool = True


@dataclass(frozen=True)
class LatestOrdering:
    """The greater ordering value wins, the incoming row among equals: DefaultHoodieRecordPayload.

    A stored row without an ordering value, or of a time before the column was there, gives way.
    """

    ordering: str
    marker: DeleteMarker | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,)

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.marker.column,) if self.marker else ()

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        taken = np.where(self.is_delete(new), Choice.DELETE, Choice.TAKE_NEW)
        return np.where(is_newer(old, new, self.ordering), Choice.KEEP_OLD, taken).astype(np.int8)

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        return self.marker.marks(new) if self.marker else delete_flags(new)


@dataclass(frozen=True)
class EventTime:
    """The greater ordering value wins, but a delete always does: EventTimeAvroPayload."""

    ordering: str
    reads: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        gone = self.is_delete(new)
        kept = np.where(is_newer(old, new, self.ordering, ~gone), Choice.KEEP_OLD, Choice.TAKE_NEW)
        return np.where(gone, Choice.DELETE, kept).astype(np.int8)

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        return delete_flags(new)


@dataclass(frozen=True)
class FirstValue:
    """The greater ordering value wins, the older row among equals: FirstValueAvroPayload."""

    ordering: str
    marker: DeleteMarker | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,)

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.marker.column,) if self.marker else ()

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        taken = np.where(self.is_delete(new), Choice.DELETE, Choice.TAKE_NEW)
        kept = is_newer(old, new, self.ordering) | is_as_new(old, new, self.ordering)
        return np.where(kept, Choice.KEEP_OLD, taken).astype(np.int8)

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        return self.marker.marks(new) if self.marker else delete_flags(new)

    def fold(self, runs: Runs) -> Folded:
        if runs.ranks is None:
            return Folded(take_rows(runs.rows, runs.starts))
        newest_first = np.lexsort((-runs.ranks, runs.run_of))
        return Folded(take_rows(runs.rows, newest_first[runs.starts]))


@dataclass(frozen=True)
class AlwaysDelete:
    """Every incoming key is gone, whatever the ordering: EmptyHoodieRecordPayload and the delete operation."""

    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    ignores_ordering: bool = True

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return np.full(new.num_rows, Choice.DELETE, np.int8)

    def is_delete(self, new: pa.Table) -> npt.NDArray[np.bool_]:
        return np.ones(new.num_rows, np.bool_)


def ignores_ordering(merger: Merger) -> bool:
    """Whether the last row of a batch or log counts, whatever its ordering value: such a merger is not to be given any."""
    return getattr(merger, "ignores_ordering", False)


def logs_deletes(merger: Merger) -> bool:
    """Whether deletes go to a log as the rows they are, for the merger to decide when it is read, and not as delete entries."""
    return getattr(merger, "logs_deletes", False)


def delete_entries(merger: Merger, rows: pa.Table) -> Flags:
    """Which rows become delete entries of a log. A merger may refuse rows here that could not be merged when the log is read."""
    entries: Callable[[pa.Table], Flags] = getattr(merger, "delete_entries", merger.is_delete)
    return entries(rows)


def keeps_partition(merger: Merger) -> bool:
    """Whether a row that is made of two stays in its partition where it keeps the partition columns of the stored one."""
    return getattr(merger, "keeps_partition", False)


def makes_rows(merger: Merger) -> bool:
    """Whether the merger makes rows out of two, itself or the one that it stands around."""
    return getattr(merger, "makes_rows", isinstance(merger, Building))


def inserted_rows(merger: Merger, rows: pa.Table) -> pa.Table:
    """Rows that are no deletes and meet no other, as they are stored."""
    return merger.insert(rows) if isinstance(merger, Building) else plain(rows)


def changed_rows(merger: Merger, choices: Choices, old: pa.Table, at: Positions, new: pa.Table) -> pa.Table:
    """The rows of the pairs that become TAKE_NEW or BUILD, in the order of the pairs, with the columns of `new`.

    Args:
        at: where the old row of each pair stands in `old`, whose rows are whole.
    """
    if not isinstance(merger, Building):
        return plain(new.filter(pa.array(choices == Choice.TAKE_NEW)))
    taken, built = choices == Choice.TAKE_NEW, choices == Choice.BUILD
    rows = []
    if taken.any() or not built.any():
        rows.append(merger.insert(new.filter(pa.array(taken))))
    if built.any():
        rows.append(merger.build(take_rows(old, at[built]), new if built.all() else new.filter(pa.array(built))))
    if len(rows) == 1:
        return rows[0]
    order = np.argsort(np.concatenate([np.flatnonzero(taken), np.flatnonzero(built)]))
    return take_rows(pa.concat_tables(rows), order)


def delete_flags(rows: pa.Table) -> npt.NDArray[np.bool_]:
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
