"""What Penstock's own mergers have in common: `OrderedMerger`, and `JoiningMerger` for those that join two rows to one.

The rows of a batch are taken by ordering value, then by arrival. A delete among them starts over: rows behind it take no value
from the stored row (mark `FRESH`). A delete that is older than the stored row does nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.choice import Choice, Choices
from penstock.merge.deletes import delete_flags
from penstock.merge.kernels.blend import blend, cast_column
from penstock.merge.kernels.gather import Flags
from penstock.merge.kernels.marks import drop_marks, is_fresh
from penstock.merge.kernels.ordering import stored_is_newer
from penstock.merge.kernels.runs import Folded, Runs, join_neighbours
from penstock.merge.merger import Merger
from penstock.schema import META_COLUMNS


class OrderedMerger(Merger):
    """A merger for which a delete or a fresh row counts unless the stored row is newer."""

    logs_deletes_as_rows = True
    keeps_partition = True
    ordering: str | None

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,) if self.ordering else ()

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return that no row becomes a delete entry: in a log deletes are rows."""
        return np.zeros(new.num_rows, np.bool_)

    def stored_is_newer(self, old: pa.Table, new: pa.Table) -> Flags:
        """Return the pairs whose stored row has the greater ordering value; none without an ordering column."""
        if self.ordering is None:
            return np.zeros(new.num_rows, np.bool_)
        return stored_is_newer(old, new, self.ordering)

    def choose(self, old: pa.Table, new: pa.Table, otherwise: Choice) -> Choices:
        """Return the choices about deletes and fresh rows, and `otherwise` for all other pairs."""
        late = self.stored_is_newer(old, new)
        deleted = np.where(late, Choice.KEEP_OLD, Choice.DELETE)
        taken = np.where(is_fresh(new) & ~late, Choice.TAKE_NEW, otherwise)
        return np.where(self.is_delete(new), deleted, taken)


class JoiningMerger(OrderedMerger):
    """A merger that joins an earlier and a later row to one, in a batch and with the stored row alike."""

    def join(self, old: pa.Table, new: pa.Table, late: Flags) -> pa.Table:
        """Return one row for each pair, with the columns of `new`. Where `late` holds, the new row is the earlier one."""
        raise NotImplementedError

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return self.choose(old, new, Choice.BUILD)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        new = drop_marks(new)
        rows = self.join(old, new, self.stored_is_newer(old, new))
        return _take_later_meta_columns(rows, old, new)

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return that no row becomes a delete entry. Raise SchemaError if the columns cannot be joined when the log is read."""
        no_rows = drop_marks(new).slice(0, 0)
        self.join(no_rows, no_rows, np.zeros(0, np.bool_))
        return super().is_delete_entry(new)

    def fold(self, runs: Runs) -> Folded:
        left, fresh = drop_before_deletes(runs)
        return Folded(join_neighbours(left, self._join_in_order), fresh)

    def _join_in_order(self, older: pa.Table, newer: pa.Table) -> pa.Table:
        rows = self.join(older, newer, np.zeros(older.num_rows, np.bool_))
        return _take_later_meta_columns(rows, older, newer)


def drop_before_deletes(runs: Runs) -> tuple[Runs, Flags]:
    """Return the rows of each run that follow its last delete, by ordering value, and which runs start after a delete.

    If no row follows the delete, the delete itself is left.
    """
    runs = runs.sort_by_ordering()
    fresh = np.zeros(len(runs), np.bool_) if runs.after_delete is None else runs.after_delete
    deletes = delete_flags(runs.rows)
    if not deletes.any():
        return runs, fresh
    last_delete = np.maximum.reduceat(np.where(deletes, np.arange(len(deletes)), -1), runs.starts)
    is_followed = (last_delete >= 0) & (last_delete < runs.ends)
    first_kept = np.where(last_delete < 0, runs.starts, np.minimum(last_delete + 1, runs.ends))
    left = replace(runs.start_at(first_kept), after_delete=None)
    return left, (fresh & (last_delete != runs.ends)) | is_followed


def _take_later_meta_columns(rows: pa.Table, old: pa.Table, new: pa.Table) -> pa.Table:
    """Return joined rows with the meta columns of the row that was committed later: that commit made the row what it is."""
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
