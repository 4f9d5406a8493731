"""The column `_hoodie_operation`: rows with the operation `D` are deletes, whatever the payload.

`WithOperation` wraps the merger of a table that has the column (`hoodie.allow.operation.metadata.field`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.merge.deletes import DELETE_FLAG, check_operations, has_text
from penstock.merge.kernels.blend import blend
from penstock.merge.kernels.gather import Flags
from penstock.merge.kernels.runs import Folded, Runs
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Choice, Choices
from penstock.schema import OPERATION_COLUMN

_OPERATIONS = ("I", "-U", "U", "D")


@dataclass(frozen=True)
class WithOperation(Merger):
    """A merger that wraps another merger: a row whose `_hoodie_operation` is `D` is a delete too.

    If the wrapped merger is one of Penstock's own, it sees these rows as deletes. A payload of Hudi sees them as plain rows, and
    the key is deleted unless the payload keeps the stored row.
    """

    merger: Merger

    @property
    def needs(self) -> tuple[str, ...]:
        return self.merger.needs

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.merger.reads, OPERATION_COLUMN)

    @property
    def ignores_ordering(self) -> bool:
        return self.merger.ignores_ordering

    @property
    def logs_deletes_as_rows(self) -> bool:
        return True

    @property
    def keeps_partition(self) -> bool:
        return self.merger.keeps_partition

    @property
    def orders_deletes(self) -> bool:
        return self.merger.orders_deletes

    @property
    def builds(self) -> bool:
        return self.merger.builds

    def is_delete(self, new: pa.Table) -> Flags:
        return self.merger.is_delete(new) | operation_deletes(new)

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return the wrapped merger's mask over the incoming rows: true where a log gets an entry in a delete block.

        Rows that are deletes only by the operation `D` are logged as rows.

        Raises:
            SchemaError: an operation is none of `I`, `-U`, `U`, `D`.
        """
        operation_deletes(new)  # raises for an unknown operation, before the row is in a log
        return self.merger.is_delete_entry(new)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        deletes = operation_deletes(new)
        if self.merger.logs_deletes_as_rows:
            return self.merger.resolve(old, _set_delete_flags(new, deletes))
        choices = self.merger.resolve(old, new)
        return np.where(deletes & (choices != Choice.KEEP_OLD), Choice.DELETE, choices)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        return self.merger.build(old, new)

    def to_stored(self, new: pa.Table) -> pa.Table:
        return self.merger.to_stored(new)

    def fold(self, runs: Runs) -> Folded:
        if not self.merger.logs_deletes_as_rows:
            return self.merger.fold(runs)
        folded = self.merger.fold(replace(runs, rows=_set_delete_flags(runs.rows, operation_deletes(runs.rows))))
        return replace(folded, rows=folded.rows.select(runs.rows.column_names))


def operation_deletes(rows: pa.Table) -> Flags:
    """Return a mask over the rows, true where `_hoodie_operation` is `D`; all false if the rows do not have the column.

    A write deletes the keys of these rows. A reader skips these rows when it reads them from a log.

    Raises:
        SchemaError: an operation is none of `I`, `-U`, `U`, `D`.
    """
    if OPERATION_COLUMN not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    check_operations(rows[OPERATION_COLUMN], OPERATION_COLUMN, _OPERATIONS)
    return has_text(rows[OPERATION_COLUMN], "D")


def _set_delete_flags(rows: pa.Table, deletes: Flags) -> pa.Table:
    """Return a copy of the rows in which `_hoodie_is_deleted` is true where `deletes` is true."""
    if not deletes.any():
        return rows
    if DELETE_FLAG not in rows.column_names:
        return rows.append_column(DELETE_FLAG, pa.array(deletes))
    at = rows.schema.get_field_index(DELETE_FLAG)
    all_true = pa.chunked_array([pa.repeat(True, len(deletes))])
    return rows.set_column(at, rows.schema.field(at), blend(~deletes, rows[DELETE_FLAG], all_true))
