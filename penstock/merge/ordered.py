"""Base classes of Penstock's own mergers: `OrderedMerger`, and `JoiningMerger` for mergers that join two rows to one.

The rows of a key in a batch are sorted by ordering value, then by arrival. A delete among them discards the rows before it, and
the rows after it take no value from the stored row (the column `FRESH` marks them). A delete that is older than the stored row is
ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.deletes import delete_flags
from penstock.merge.kernels.blend import blend, cast_column
from penstock.merge.kernels.gather import Flags
from penstock.merge.kernels.marks import drop_marks, is_fresh
from penstock.merge.kernels.ordering import stored_is_newer
from penstock.merge.kernels.runs import Folded, Runs, join_neighbours
from penstock.merge.merger import Merger
from penstock.merge.row_choice import Choice, Choices
from penstock.schema import META_COLUMNS


class OrderedMerger(Merger):
    """A base class of mergers that compare deletes by ordering value: a delete older than the stored row is ignored.

    A row is fresh if a delete of its key precedes it in the batch or log. A fresh row replaces the stored row and takes no value
    from it, unless the stored row has the greater ordering value.
    """

    logs_deletes_as_rows = True
    keeps_partition = True
    orders_deletes = True
    ordering: str | None

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,) if self.ordering else ()

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return false for all rows: deletes are logged as rows, not in delete blocks.

        So the merger can compare them with stored rows when the log is read.
        """
        return np.zeros(new.num_rows, np.bool_)

    def stored_is_newer(self, old: pa.Table, new: pa.Table) -> Flags:
        """Return a mask over the (stored, incoming) pairs of rows, true where the stored row has the greater ordering value.

        All false if the table has no ordering column.

        Args:
            old: the stored rows.
            new: the incoming rows; row i has the key of row i of `old`.
        """
        if self.ordering is None:
            return np.zeros(new.num_rows, np.bool_)
        return stored_is_newer(old, new, self.ordering)

    def choose(self, old: pa.Table, new: pa.Table, otherwise: Choice) -> Choices:
        """Return the choice for each (stored, incoming) pair of rows.

        An incoming delete gets DELETE, or KEEP_OLD if the stored row has the greater ordering value. An incoming row that follows
        a delete of its key in the batch or log gets TAKE_NEW, unless the stored row has the greater ordering value. Every other
        pair gets the choice `otherwise`.
        """
        late = self.stored_is_newer(old, new)
        deleted = np.where(late, Choice.KEEP_OLD, Choice.DELETE)
        taken = np.where(is_fresh(new) & ~late, Choice.TAKE_NEW, otherwise)
        return np.where(self.is_delete(new), deleted, taken)


class JoiningMerger(OrderedMerger):
    """A base class of mergers that join two rows of a key to one row.

    A merger of this class first joins the rows of a key in a batch or log, then joins the result with the stored row.
    """

    def join(self, old: pa.Table, new: pa.Table, late: Flags) -> pa.Table:
        """Join row i of `old` and row i of `new`, which have the same key, to one row with the columns of `new`.

        Args:
            late: one flag per row, true where the row of `new` has the lesser ordering value.
        """
        raise NotImplementedError

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return self.choose(old, new, Choice.BUILD)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        new = drop_marks(new)
        rows = self.join(old, new, self.stored_is_newer(old, new))
        return _take_later_meta_columns(rows, old, new)

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return false for all rows: deletes are logged as rows, not in delete blocks.

        So the merger can compare them with stored rows when the log is read. The column types are also checked, because an error
        would otherwise show only when the log is read.

        Raises:
            SchemaError: the columns have types that cannot be joined.
        """
        no_rows = drop_marks(new).slice(0, 0)
        self.join(no_rows, no_rows, np.zeros(0, np.bool_))
        return super().is_delete_entry(new)

    def fold(self, runs: Runs) -> Folded:
        left, fresh = drop_before_deletes(runs)
        return Folded(join_neighbours(left, self._join_in_order), fresh)

    def _join_in_order(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        """Join row i of `older` and row i of `newer`, which have the same key, to one row. The row of `newer` came later."""
        rows = self.join(older, newer, np.zeros(older.num_rows, np.bool_))
        return _take_later_meta_columns(rows, older, newer)


def drop_before_deletes(runs: Runs, find_deletes: Callable[[pa.Table], Flags] = delete_flags) -> tuple[Runs, Flags]:
    """Sort each run (the rows of one key) by ordering value, then drop the run's last delete and all rows before that delete.

    If no row follows the last delete, the delete is kept.

    Args:
        find_deletes: returns a mask over rows, true for deletes.

    Returns:
        The runs with the remaining rows, and a mask over the runs: true where a delete preceded the remaining rows.
    """
    runs = runs.sort_by_ordering()
    fresh = np.zeros(len(runs), np.bool_) if runs.after_delete is None else runs.after_delete
    deletes = find_deletes(runs.rows)
    if not deletes.any():
        return runs, fresh
    last_delete = np.maximum.reduceat(np.where(deletes, np.arange(len(deletes)), -1), runs.starts)
    is_followed = (last_delete >= 0) & (last_delete < runs.ends)
    first_kept = np.where(last_delete < 0, runs.starts, np.minimum(last_delete + 1, runs.ends))
    left = replace(runs.start_at(first_kept), after_delete=None)
    return left, (fresh & (last_delete != runs.ends)) | is_followed


def _take_later_meta_columns(rows: pa.Table, old: pa.Table, new: pa.Table) -> pa.Table:
    """Return the joined rows with the meta columns of `old` or of `new`: for each row, of the one with the later commit time.

    Args:
        rows: the joined rows; row i was joined from row i of `old` and row i of `new`.
    """
    known = [name for name in META_COLUMNS if name in rows.column_names and name in old.column_names]
    commit_time = META_COLUMNS[0]
    if commit_time not in known:
        return rows
    old_times = cast_column(old, new.schema.field(commit_time))
    takes_old = np.asarray(pc.greater(old_times, new[commit_time])).astype(np.bool_)
    for name in known:
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, blend(takes_old, cast_column(old, field), new[name]))
    return rows
