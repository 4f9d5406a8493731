"""Partial updates whose rows say which columns they supply: a column that is absent keeps its stored value, null is a value.

A list column names the supplied columns of each row; null means all. Stored rows are whole, so the list is null there; in a
log it stays, and with it what is absent. Several rows of a key in a batch or log become one change, in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.choice import Choice, Choices
from penstock.merge.deletes import DELETE_FLAG, check_operations, delete_flags, has_text
from penstock.merge.kernels.blend import blend, cast_column
from penstock.merge.kernels.gather import Flags, find_top_column, take_rows, to_array
from penstock.merge.kernels.lists import build_lists
from penstock.merge.kernels.marks import drop_marks, is_fresh
from penstock.merge.kernels.ordering import stored_is_newer
from penstock.merge.kernels.runs import Folded, Runs
from penstock.merge.merger import Merger
from penstock.schema import META_COLUMNS, OPERATION_COLUMN

MASK = "_changed_columns"


@dataclass(frozen=True)
class Masked(Merger):
    """Columns that a row supplies replace the stored ones; rows older than the stored one change nothing."""

    logs_deletes_as_rows = True
    keeps_partition = True
    ordering: str | None
    mask: str = MASK
    #: A column where `D` means delete, beside the delete flag.
    operation: str | None = None
    #: What that column may hold.
    operations: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,) if self.ordering else ()

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.mask, self.operation) if self.operation else (self.mask,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        whole = self._is_whole(new) | is_fresh(new)
        taken = np.where(self.is_delete(new), Choice.DELETE, np.where(whole, Choice.TAKE_NEW, Choice.BUILD))
        late = stored_is_newer(old, new, self.ordering) if self.ordering else np.zeros(new.num_rows, np.bool_)
        return np.where(late, Choice.KEEP_OLD, taken).astype(np.int8)

    def is_delete(self, new: pa.Table) -> Flags:
        gone = delete_flags(new)
        if self.operation and self.operation in new.column_names:
            check_operations(new[self.operation], self.operation, self.operations)
            gone = gone | has_text(new[self.operation], "D", any_case=True)
        return gone

    def is_delete_entry(self, rows: pa.Table) -> Flags:
        """Rows that name unknown columns or operations are refused before they are in a log."""
        self.is_delete(rows)
        self._supplied(rows)
        return np.zeros(rows.num_rows, np.bool_)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        new = drop_marks(new)
        supplied = self._supplied(new)
        columns = [
            blend(supplied[:, i], new[field.name], cast_column(old, field)) if not supplied[:, i].all() else new[field.name]
            for i, field in enumerate(new.schema)
        ]
        return self.to_stored(pa.table(columns, schema=new.schema))

    def to_stored(self, new: pa.Table) -> pa.Table:
        new = drop_marks(new)
        if self.mask not in new.column_names:
            return new
        at = new.schema.get_field_index(self.mask)
        return new.set_column(at, new.schema.field(at), pa.nulls(new.num_rows, new.schema.field(at).type))

    def fold(self, runs: Runs) -> Folded:
        runs = runs.drop_late_rows(self.is_delete(runs.rows)) if runs.in_log else runs.sort_by_ordering()
        gone, whole = self.is_delete(runs.rows), self._is_whole(runs.rows)
        places = np.arange(runs.rows.num_rows)
        anew = np.maximum.reduceat(np.where(gone | whole, places, -1), runs.starts)
        after_delete = (anew >= 0) & gone[anew] & (anew < runs.ends)
        complete = anew >= 0
        if runs.after_delete is not None:
            complete = complete | runs.after_delete
        left = runs.start_at(np.where(anew < 0, runs.starts, anew + after_delete))
        supplied = self._supplied(left.rows) | self._is_whole(left.rows)[:, None]
        supplied[self.is_delete(left.rows)] = True
        return Folded(self._last_supplied(left, supplied, complete))

    def _last_supplied(self, runs: Runs, supplied: Flags, complete: Flags) -> pa.Table:
        """Each column's last supplied value, and the list of columns that any row supplied; null where that is all."""
        places = np.arange(runs.rows.num_rows)
        columns = []
        for i, field in enumerate(runs.rows.schema):
            at = np.maximum.reduceat(np.where(supplied[:, i], places, -1), runs.starts)
            column = take_rows(runs.rows.select([i]), np.where(at < 0, runs.ends, at))[field.name]
            columns.append(column)
        any_row = np.logical_or.reduceat(supplied, runs.starts, axis=0)
        any_row[:, [n in self._not_named(runs.rows) for n in runs.rows.column_names]] = False
        names = pa.array(runs.rows.column_names).take(pa.array(np.nonzero(any_row)[1]))
        if self.mask in runs.rows.column_names:
            at = runs.rows.schema.get_field_index(self.mask)
            lengths = np.where(complete, 0, any_row.sum(axis=1))
            named = names.filter(pa.array(~complete[np.nonzero(any_row)[0]]))
            columns[at] = build_lists(named, lengths, ~complete, runs.rows.schema.field(at).type)
        return pa.table(columns, schema=runs.rows.schema)

    def _not_named(self, rows: pa.Table) -> set[str]:
        """Columns that every row supplies, whether it names them or not."""
        named = {self.mask, DELETE_FLAG, OPERATION_COLUMN, *META_COLUMNS}
        if self.operation:
            named.add(self.operation)
        if self.ordering:
            named.add(find_top_column(self.ordering, rows.column_names))
        return named

    def _is_whole(self, rows: pa.Table) -> Flags:
        if self.mask not in rows.column_names:
            return np.ones(rows.num_rows, np.bool_)
        return np.asarray(pc.is_null(rows[self.mask]), dtype=np.bool_)

    def _supplied(self, rows: pa.Table) -> Flags:
        """Which columns (second axis) each row supplies by name.

        Raises:
            SchemaError: a name that is no column.
        """
        names = rows.column_names
        supplied = np.zeros((rows.num_rows, len(names)), np.bool_)
        supplied[:, [name in self._not_named(rows) for name in names]] = True
        if self.mask not in names:
            return supplied | True
        mask = to_array(rows[self.mask])
        named = pc.index_in(pc.list_flatten(mask), value_set=pa.array(names))
        if named.null_count:
            odd = pc.list_flatten(mask).filter(named.is_null())[0].as_py()
            raise SchemaError(f"column {self.mask!r} names {odd!r}, which is none of the columns: {', '.join(names)}")
        supplied[np.asarray(pc.list_parent_indices(mask)), np.asarray(named)] = True
        return supplied
