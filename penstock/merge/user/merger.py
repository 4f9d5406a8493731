"""Functions of the user's own as mergers, for everything that mergers are asked for: batches, logs, and what is stored.

Rows come to the function in the order in which they were committed, those of one batch by ordering value; whether a row is too
old is for the function to say. Deletes never reach it: a row that says so deletes, and what follows it begins anew. So a table
says the same as copy-on-write and as merge-on-read, if the function is associative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.merge.change_streams import operation_deletes
from penstock.merge.choice import Choice, Choices
from penstock.merge.deletes import delete_flags
from penstock.merge.kernels.blend import cast_column
from penstock.merge.kernels.gather import Flags, Positions, take_rows
from penstock.merge.kernels.marks import GONE, drop_marks, is_fresh, is_gone, is_made
from penstock.merge.kernels.runs import Folded, Runs
from penstock.merge.merger import MergedPairs, Merger
from penstock.merge.user.by_column import ByColumn, Joined, Joins
from penstock.merge.user.by_row import ByRow
from penstock.merge.user.guard import Guard
from penstock.registry import Kind, Registered
from penstock.schema import META_COLUMNS, OPERATION_COLUMN

_NOT_DATA = {*META_COLUMNS, OPERATION_COLUMN}


@dataclass(frozen=True)
class Own(Merger):
    """A merger that asks a function of the user's own for every row."""

    joins: Joins
    #: Whether `_hoodie_operation` counts.
    operation: bool = False

    is_user_function = True
    ignores_ordering = True
    keeps_partition = True
    builds = True

    @property
    def reads(self) -> tuple[str, ...]:
        return (GONE, OPERATION_COLUMN) if self.operation else (GONE,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return self.make(old, new)[0]

    def is_delete(self, new: pa.Table) -> Flags:
        gone = delete_flags(new) | is_gone(new)
        return gone | operation_deletes(new) if self.operation else gone

    def merge(self, old: pa.Table, at: Positions, new: pa.Table) -> MergedPairs:
        choices, rows = self.make(take_rows(old, at), new)
        return MergedPairs(choices, self, old, at, new, rows)

    def make(self, old: pa.Table, new: pa.Table) -> tuple[Choices, pa.Table]:
        """What becomes of each pair, and the rows of those that stay."""
        gone = self.is_delete(new)
        fresh = is_fresh(new) & ~gone
        new = drop_marks(new)
        at = [np.flatnonzero(~gone & ~fresh), np.flatnonzero(fresh)]
        joined = self._join(_taken(old, at[0]), _taken(new, at[0]))
        begun = self._begin(_taken(new, at[1]))
        gone[at[0][joined.gone]], gone[at[1][begun.gone]] = True, True
        places = np.concatenate([at[0][~joined.gone], at[1][~begun.gone]])
        rows = joined.rows if not len(at[1]) else take_rows(pa.concat_tables([joined.rows, begun.rows]), np.argsort(places))
        return np.where(gone, Choice.DELETE, Choice.BUILD).astype(np.int8), rows

    def insert(self, new: pa.Table) -> tuple[Flags, pa.Table]:
        """Which rows are stored where they meet nobody, and how. One that was made elsewhere does not begin anew."""
        kept, made = ~self.is_delete(new), is_made(new)
        new, at = drop_marks(new), np.flatnonzero(kept & ~made)
        begun = self._begin(_taken(new, at))
        kept[at[begun.gone]] = False
        if not made.any():
            return kept, begun.rows
        stay, there = at[~begun.gone], np.flatnonzero(kept & made)
        order = np.argsort(np.concatenate([stay, there]))
        return kept, take_rows(pa.concat_tables([begun.rows, take_rows(new, there)]), order)

    def fold(self, runs: Runs) -> Folded:
        """Neighbours are joined until one row of each run is left: few rounds, however long the longest run is."""
        runs = runs.sort_by_ordering()
        rows, lengths = drop_marks(runs.rows), runs.lengths
        gone, fresh = self.is_delete(runs.rows), np.zeros(rows.num_rows, np.bool_)
        if runs.after_delete is not None:
            fresh[runs.starts] = runs.after_delete
        while len(lengths) and int(lengths.max()) > 1:
            offsets = np.arange(rows.num_rows) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            older = np.flatnonzero((offsets % 2 == 0) & (offsets + 1 < np.repeat(lengths, lengths)))
            newer = older + 1
            both = ~gone[newer] & ~fresh[newer] & ~gone[older]
            joined = self._join(take_rows(rows, older[both]), take_rows(rows, newer[both]))
            source = np.arange(rows.num_rows)
            source[older] = newer
            stay = older[both][~joined.gone]
            source[stay] = rows.num_rows + np.arange(len(stay))
            fresh[older] = np.where(both, fresh[older], ~gone[newer])  # what follows a delete begins anew
            gone[older] = gone[newer]
            gone[older[both][joined.gone]] = True
            first = offsets % 2 == 0
            rows = take_rows(pa.concat_tables([rows, joined.rows]), source[first])
            gone, fresh, lengths = gone[first], fresh[first], (lengths + 1) // 2
        return Folded(rows, fresh & ~gone, gone)

    def _join(self, old: pa.Table, new: pa.Table) -> Joined:
        if not new.num_rows:
            return Joined(new, np.zeros(0, np.bool_))
        data = _data(new)
        stored = pa.table([cast_column(old, field) for field in data.schema], schema=data.schema)
        return _with_meta(self.joins.join(stored, data), new)

    def _begin(self, new: pa.Table) -> Joined:
        return _with_meta(self.joins.begin(_data(new)), new) if new.num_rows else Joined(new, np.zeros(0, np.bool_))


def own_merger(registered: Registered, *, fixed: tuple[str, ...] = (), timeout_s: float = 0.0, operation: bool = False) -> Own:
    """A registered function as a merger.

    Args:
        fixed: the columns of the record key and the partition path.
        timeout_s: seconds that a call may take; 0: no limit.
        operation: whether `_hoodie_operation` counts.
    """
    guard = Guard(f"{registered.kind.value} {registered.name!r}", fixed, timeout_s)
    return Own((ByRow if registered.kind is Kind.PAYLOAD else ByColumn)(registered, guard), operation)


def _data(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.column_names if name not in _NOT_DATA])


def _with_meta(joined: Joined, new: pa.Table) -> Joined:
    """Merged rows with the meta columns of the new ones."""
    if joined.rows.num_columns == new.num_columns:
        return joined
    kept = new.filter(pa.array(~joined.gone)) if joined.gone.any() else new
    names = joined.rows.column_names
    columns = [joined.rows[field.name] if field.name in names else kept[field.name] for field in new.schema]
    return Joined(pa.table(columns, schema=new.schema), joined.gone)


def _taken(rows: pa.Table, at: Positions) -> pa.Table:
    return rows if len(at) == rows.num_rows else take_rows(rows, at)
