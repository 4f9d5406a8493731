"""Partial updates with a mask: each row names the columns that it supplies, and other columns keep their stored values.

The mask is a list column with the names of the supplied columns. A supplied null overwrites the stored value. A null mask means
that the row supplies all columns. Rows in base files are complete, so their mask is null. Rows in a log keep their mask, because
they are merged with the base row when the log is read. Several rows of a key in a batch or log are combined, in order, to one
row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.merge.deletes import DELETE_FLAG, check_operations, delete_flags, has_text
from penstock.merge.kernels.blend import blend, cast_column
from penstock.merge.kernels.gather import Flags, find_top_column, take_rows, to_array
from penstock.merge.kernels.lists import build_lists
from penstock.merge.kernels.marks import drop_marks, is_fresh
from penstock.merge.kernels.runs import Folded, Runs
from penstock.merge.merger import Merger
from penstock.merge.ordered import OrderedMerger
from penstock.merge.payload_settings import PayloadSettings
from penstock.merge.row_choice import Choice, Choices
from penstock.schema import META_COLUMNS, OPERATION_COLUMN

#: The name of the mask column, unless `penstock.payload.mask.column` names another.
MASK = "_changed_columns"


@dataclass(frozen=True)
class MaskedUpdate(OrderedMerger):
    """A merger of rows that supply only some columns. Supplied columns replace the stored values; other columns stay as stored.

    An incoming row with a lower ordering value than the stored row changes nothing. `mask` is the column that names the supplied
    columns. `operation` is a column in which `D` marks a delete; None: the rows have no such column. `operations` are the values
    that this column may hold.
    """

    ordering: str | None
    mask: str = MASK
    #: A column where `D` means delete, in addition to the delete flag; None: there is no such column.
    operation: str | None = None
    #: The values that the operation column may hold.
    operations: tuple[str, ...] = ()

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return a merger that orders rows by the ordering column and reads the mask from `penstock.payload.mask.column`."""
        return cls(settings.ordering, settings.own.get("mask.column", MASK))

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.mask, self.operation) if self.operation else (self.mask,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        replaces = np.where(self._is_whole(new) | is_fresh(new), Choice.TAKE_NEW, Choice.BUILD)
        taken = np.where(self.is_delete(new), Choice.DELETE, replaces)
        return np.where(self.stored_is_newer(old, new), Choice.KEEP_OLD, taken)

    def is_delete(self, new: pa.Table) -> Flags:
        deletes = delete_flags(new)
        if self.operation and self.operation in new.column_names:
            check_operations(new[self.operation], self.operation, self.operations)
            deletes = deletes | has_text(new[self.operation], "D", any_case=True)
        return deletes

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return false for all rows: deletes are logged as rows, not in delete blocks.

        So the merger can compare them with stored rows when the log is read. The rows are also checked, because an error would
        otherwise show only when the log is read.

        Raises:
            SchemaError: a row's mask names an unknown column, or its operation is unknown.
        """
        self.is_delete(new)
        self._find_supplied(new)
        return super().is_delete_entry(new)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        new = drop_marks(new)
        supplied = self._find_supplied(new)
        columns = []
        for number, field in enumerate(new.schema):
            incoming = new[field.name]
            if supplied[:, number].all():
                columns.append(incoming)
            else:
                columns.append(blend(supplied[:, number], incoming, cast_column(old, field)))
        return self.to_stored(pa.table(columns, schema=new.schema))

    def to_stored(self, new: pa.Table) -> pa.Table:
        """Return the rows with null in the mask column, for base files: a row in a base file supplies all columns."""
        new = drop_marks(new)
        if self.mask not in new.column_names:
            return new
        at = new.schema.get_field_index(self.mask)
        return new.set_column(at, new.schema.field(at), pa.nulls(new.num_rows, new.schema.field(at).type))

    def fold(self, runs: Runs) -> Folded:
        runs = runs.drop_late_rows(self.is_delete(runs.rows)) if runs.in_log else runs.sort_by_ordering()
        deletes = self.is_delete(runs.rows)
        positions = np.arange(runs.rows.num_rows)
        # The last delete or whole row of each run: what came before it does not matter.
        restart = np.maximum.reduceat(np.where(deletes | self._is_whole(runs.rows), positions, -1), runs.starts)
        follows_delete = (restart >= 0) & deletes[restart] & (restart < runs.ends)
        is_whole = restart >= 0
        if runs.after_delete is not None:
            is_whole = is_whole | runs.after_delete
        left = runs.start_at(np.where(restart < 0, runs.starts, restart + follows_delete))
        supplied = self._find_supplied(left.rows) | self._is_whole(left.rows)[:, None]
        supplied[self.is_delete(left.rows)] = True
        return Folded(self._take_last_supplied(left, supplied, is_whole))

    def _take_last_supplied(self, runs: Runs, supplied: Flags, is_whole: Flags) -> pa.Table:
        """Return one row per run (the rows of one key): in each column the last value that a row of the run supplied.

        The mask of the returned row names all columns that any row of the run supplied.

        Args:
            supplied: true where a row (first axis) supplies a column (second axis).
            is_whole: one flag per run, true where the run's row gets a null mask because it supplies all columns.
        """
        names = runs.rows.column_names
        positions = np.arange(runs.rows.num_rows)
        columns = []
        for number, name in enumerate(names):
            last = np.maximum.reduceat(np.where(supplied[:, number], positions, -1), runs.starts)
            columns.append(take_rows(runs.rows.select([number]), np.where(last < 0, runs.ends, last))[name])
        if self.mask in names:
            is_named = np.logical_or.reduceat(supplied, runs.starts, axis=0)
            is_named[:, self._is_always_supplied(runs.rows)] = False
            is_named[is_whole] = False
            # nonzero goes row by row, so the names come in the order of the lists.
            named = pa.array(names).take(pa.array(np.nonzero(is_named)[1]))
            at = runs.rows.schema.get_field_index(self.mask)
            columns[at] = build_lists(named, is_named.sum(axis=1), ~is_whole, runs.rows.schema.field(at).type)
        return pa.table(columns, schema=runs.rows.schema)

    def _is_always_supplied(self, rows: pa.Table) -> Flags:
        """Return one flag per column, true where every row supplies the column, even if the row's mask does not name it.

        These are the meta columns, the ordering column, the mask itself, and the columns that mark deletes.
        """
        always = {self.mask, DELETE_FLAG, OPERATION_COLUMN, *META_COLUMNS}
        if self.operation:
            always.add(self.operation)
        if self.ordering:
            always.add(find_top_column(self.ordering, rows.column_names))
        return np.array([name in always for name in rows.column_names], np.bool_)

    def _is_whole(self, rows: pa.Table) -> Flags:
        """Return one flag per row, true where the row supplies all columns: its mask is null."""
        if self.mask not in rows.column_names:
            return np.ones(rows.num_rows, np.bool_)
        return np.asarray(pc.is_null(rows[self.mask]), dtype=np.bool_)

    def _find_supplied(self, rows: pa.Table) -> Flags:
        """Return a two-dimensional array of flags, true where a row (first axis) supplies a column (second axis).

        A row with a null mask supplies all columns, but the result says so only for columns that every row supplies. Combine it
        with `_is_whole`.

        Raises:
            SchemaError: a row's mask names a column that the rows do not have.
        """
        names = rows.column_names
        if self.mask not in names:
            return np.ones((rows.num_rows, len(names)), np.bool_)
        supplied = np.zeros((rows.num_rows, len(names)), np.bool_)
        supplied[:, self._is_always_supplied(rows)] = True
        mask = to_array(rows[self.mask])
        column_numbers = pc.index_in(pc.list_flatten(mask), value_set=pa.array(names))
        if column_numbers.null_count:
            unknown = pc.list_flatten(mask).filter(column_numbers.is_null())[0].as_py()
            raise SchemaError(f"column {self.mask!r} names {unknown!r}, which is none of the columns: {', '.join(names)}")
        supplied[np.asarray(pc.list_parent_indices(mask)), np.asarray(column_numbers)] = True
        return supplied
