"""`UserMerger`: merges rows with a user's function, in batches, logs and stored rows.

The function receives the rows of a key in the order in which they were committed, and the rows of one batch by ordering value.
The function itself decides whether a row is too old. The function is not called for a delete: the delete removes the key, and the
next row of the key is handled as the first row of a new key. So a copy-on-write and a merge-on-read table hold the same rows, if
the function is associative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.merge.deletes import delete_flags
from penstock.merge.kernels.blend import cast_column
from penstock.merge.kernels.gather import Flags, Positions, take_rows
from penstock.merge.kernels.marks import GONE, drop_marks, is_fresh, is_gone, is_made
from penstock.merge.kernels.runs import Folded, Runs, split_into_pairs
from penstock.merge.merger import MergedPairs, Merger
from penstock.merge.operation_column import operation_deletes
from penstock.merge.row_choice import Choice, Choices
from penstock.merge.user.column_function import ColumnFunction
from penstock.merge.user.function import JoinedRows, UserFunction
from penstock.merge.user.guard import Guard
from penstock.merge.user.row_function import RowFunction
from penstock.registered.registry import Kind, Registered
from penstock.schema import META_COLUMNS, OPERATION_COLUMN

_NOT_DATA = {*META_COLUMNS, OPERATION_COLUMN}


@dataclass(frozen=True)
class UserMerger(Merger):
    """A merger that calls a user's function with the older and the newer row of each key.

    `operation` says whether `_hoodie_operation` decides which rows are deletes, besides `_hoodie_is_deleted`.
    """

    is_user_function = True
    ignores_ordering = True
    keeps_partition = True
    builds = True

    function: UserFunction
    #: Whether `_hoodie_operation` decides which rows are deletes, besides `_hoodie_is_deleted`.
    operation: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        return (GONE, OPERATION_COLUMN) if self.operation else (GONE,)

    def is_delete(self, new: pa.Table) -> Flags:
        deletes = delete_flags(new) | is_gone(new)
        return deletes | operation_deletes(new) if self.operation else deletes

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        choices, _ = self.join_pairs(old, new)
        return choices

    def merge(self, old: pa.Table, at: Positions, new: pa.Table) -> MergedPairs:
        # Only the joined row says whether the key stays, so the rows are built together with the choices.
        choices, rows = self.join_pairs(take_rows(old, at), new)
        return MergedPairs(choices, self, old, at, new, rows)

    def join_pairs(self, old: pa.Table, new: pa.Table) -> tuple[Choices, pa.Table]:
        """Return BUILD or DELETE for each (stored, incoming) pair of rows, and a table of the merged rows of the BUILD pairs.

        A pair is row i of `old` and row i of `new`. The merged rows are in the order of the pairs.
        """
        gone = self.is_delete(new)
        fresh = is_fresh(new) & ~gone
        new = drop_marks(new)
        pairs = np.flatnonzero(~gone & ~fresh)
        beginnings = np.flatnonzero(fresh)
        joined = self._join(_take_some(old, pairs), _take_some(new, pairs))
        begun = self._begin(_take_some(new, beginnings))
        gone[pairs[joined.gone]] = True
        gone[beginnings[begun.gone]] = True
        choices = np.where(gone, Choice.DELETE, Choice.BUILD)
        if not len(beginnings):
            return choices, joined.rows
        places = np.concatenate([pairs[~joined.gone], beginnings[~begun.gone]])
        return choices, take_rows(pa.concat_tables([joined.rows, begun.rows]), np.argsort(places))

    def insert(self, new: pa.Table) -> tuple[Flags, pa.Table]:
        """Return a mask over `new`, true for the rows to write, and a table of these rows as the user's function returned them.

        `new` are incoming rows whose key has no stored row. A row that was already merged in another partition (its column
        `MADE` is true) is written unchanged, because the function must not be called for it twice.
        """
        kept = ~self.is_delete(new)
        made = is_made(new)
        new = drop_marks(new)
        beginnings = np.flatnonzero(kept & ~made)
        begun = self._begin(_take_some(new, beginnings))
        kept[beginnings[begun.gone]] = False
        if not made.any():
            return kept, begun.rows
        unchanged = np.flatnonzero(kept & made)
        order = np.argsort(np.concatenate([beginnings[~begun.gone], unchanged]))
        return kept, take_rows(pa.concat_tables([begun.rows, take_rows(new, unchanged)]), order)

    def fold(self, runs: Runs) -> Folded:
        """Reduce each run (the rows of one key) to one row: join neighbouring rows in pairs until one row is left.

        Each round joins the first row of every run with the second, the third with the fourth, and so on. A pair becomes the
        joined row, or the newer row alone if one of the two rows is a delete or the newer row follows a delete.
        """
        runs = runs.sort_by_ordering()
        rows = drop_marks(runs.rows)
        lengths = runs.lengths
        gone = self.is_delete(runs.rows)
        fresh = np.zeros(rows.num_rows, np.bool_)
        if runs.after_delete is not None:
            fresh[runs.starts] = runs.after_delete
        while len(lengths) and int(lengths.max()) > 1:
            is_even, older = split_into_pairs(lengths)
            newer = older + 1
            is_joined = ~gone[newer] & ~fresh[newer] & ~gone[older]
            joined = self._join(take_rows(rows, older[is_joined]), take_rows(rows, newer[is_joined]))
            source = np.arange(rows.num_rows)
            source[older] = newer
            stays = older[is_joined][~joined.gone]
            source[stays] = rows.num_rows + np.arange(len(stays))
            fresh[older] = np.where(is_joined, fresh[older], ~gone[newer])  # a row behind a delete begins again
            gone[older] = gone[newer]
            gone[older[is_joined][joined.gone]] = True
            rows = take_rows(pa.concat_tables([rows, joined.rows]), source[is_even])
            gone = gone[is_even]
            fresh = fresh[is_even]
            lengths = (lengths + 1) // 2
        return Folded(rows, fresh & ~gone, gone)

    def _join(self, old: pa.Table, new: pa.Table) -> JoinedRows:
        """Call the user's function with the data columns of the rows; return the merged rows with the meta columns of `new`.

        Row i of `old` and row i of `new` have the same key.
        """
        if not new.num_rows:
            return JoinedRows(new, np.zeros(0, np.bool_))
        data = _select_data(new)
        stored = pa.table([cast_column(old, field) for field in data.schema], schema=data.schema)
        return _add_meta_columns(self.function.join(stored, data), new)

    def _begin(self, new: pa.Table) -> JoinedRows:
        """Call the user's function for incoming rows of new keys. Return its rows with the meta columns of `new`."""
        if not new.num_rows:
            return JoinedRows(new, np.zeros(0, np.bool_))
        return _add_meta_columns(self.function.begin(_select_data(new)), new)


def make_user_merger(
    registered: Registered, *, fixed: tuple[str, ...] = (), timeout_s: float = 0.0, operation: bool = False
) -> UserMerger:
    """Return the merger that calls a registered function.

    Args:
        fixed: the columns of the record key and the partition path, which the function must not change.
        timeout_s: seconds that one call may take; 0: no limit.
        operation: whether `_hoodie_operation` decides which rows are deletes, besides `_hoodie_is_deleted`.
    """
    guard = Guard(f"{registered.kind.value} {registered.name!r}", fixed, timeout_s)
    function_class = RowFunction if registered.kind is Kind.PAYLOAD else ColumnFunction
    return UserMerger(function_class(registered, guard), operation)


def _select_data(rows: pa.Table) -> pa.Table:
    """Return the rows without meta columns and `_hoodie_operation`: the columns that the user's function receives."""
    return rows.select([name for name in rows.column_names if name not in _NOT_DATA])


def _add_meta_columns(joined: JoinedRows, new: pa.Table) -> JoinedRows:
    """Return `joined` with the meta columns of `new` added.

    The row joined from row i of `new` gets the meta columns of that row.
    """
    if joined.rows.num_columns == new.num_columns:
        return joined
    kept = new.filter(pa.array(~joined.gone)) if joined.gone.any() else new
    names = joined.rows.column_names
    columns = [joined.rows[field.name] if field.name in names else kept[field.name] for field in new.schema]
    return JoinedRows(pa.table(columns, schema=new.schema), joined.gone)


def _take_some(rows: pa.Table, at: Positions) -> pa.Table:
    """Return the rows at the ascending positions `at`. If these are all rows, return `rows` itself, without a copy."""
    return rows if len(at) == rows.num_rows else take_rows(rows, at)
