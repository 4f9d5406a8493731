"""Mergers of partial rows: a column that an incoming row does not supply keeps its stored value. Null means "not supplied".

OverwriteNonDefaultsWithLatestAvroPayload and PartialUpdateAvroPayload, with what they do to rows of one batch and one log.
Where "absent" has to differ from "set to null", see `masked.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.choice import Choice, Choices
from penstock.merge.deletes import DELETE_FLAG, delete_flags
from penstock.merge.kernels.blend import blend, cast_column, fill_nulls, is_complete
from penstock.merge.kernels.gather import Flags, Positions, find_column, take_rows
from penstock.merge.kernels.ordering import stored_is_newer
from penstock.merge.kernels.runs import Folded, Runs, take_last_known
from penstock.merge.merger import Merger
from penstock.schema import META_COLUMNS


@dataclass(frozen=True)
class NonDefaults(Merger):
    """The incoming value of a column wins unless it is the column's default: OverwriteNonDefaultsWithLatestAvroPayload.

    Ordering values are not looked at, but among the rows of a batch. The default of a column that is not named is null.
    """

    defaults: tuple[tuple[str, Any], ...] = ()

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        taken = np.where(self._supplied(new), Choice.TAKE_NEW, Choice.BUILD)
        return np.where(self.is_delete(new), Choice.DELETE, taken).astype(np.int8)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        defaults = dict(self.defaults)
        columns = []
        for field in new.schema:
            stored = cast_column(old, field)
            if defaults.get(field.name) is None:
                columns.append(fill_nulls(new[field.name], stored))
            else:
                columns.append(blend(~_equals(new[field.name], defaults[field.name]), new[field.name], stored))
        return pa.table(columns, schema=new.schema)

    def _supplied(self, new: pa.Table) -> Flags:
        """Rows that replace every value."""
        if not self.defaults:
            return is_complete(new)
        supplied = is_complete(new.drop_columns([n for n, v in self.defaults if v is not None and n in new.column_names]))
        for name, value in self.defaults:
            if value is not None and name in new.column_names:
                supplied &= ~_equals(new[name], value)
        return supplied


@dataclass(frozen=True)
class PartialUpdate(Merger):
    """Values that are not null win, those of the row with the greater ordering value first: PartialUpdateAvroPayload.

    A delete always deletes. Of a batch or log, each key's rows become one in the same way; there a delete that is not the
    older one starts anew, and in a batch a delete that is met by an older row is lost, as with Hudi.
    """

    ordering: str | None

    @property
    def needs(self) -> tuple[str, ...]:
        return (*((self.ordering,) if self.ordering else ()), DELETE_FLAG)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        deletes = self.is_delete(new)
        older = self._is_late(old, new, ~deletes)
        gone = deletes | (older & delete_flags(old))
        taken = np.where(is_complete(new) & ~older, Choice.TAKE_NEW, Choice.BUILD)
        return np.where(gone, Choice.DELETE, taken).astype(np.int8)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        late = self._is_late(old, new, np.ones(new.num_rows, np.bool_))
        columns = []
        for field in new.schema:
            incoming, stored = new[field.name], cast_column(old, field)
            if field.name in META_COLUMNS or not late.any():
                merged = fill_nulls(incoming, stored)
            else:
                lacking = np.asarray(pc.is_null(stored), dtype=np.bool_)
                merged = blend(np.where(late, lacking, np.asarray(pc.is_valid(incoming))), incoming, stored)
            columns.append(merged)
        return pa.table(columns, schema=new.schema)

    def fold(self, runs: Runs) -> Folded:
        return Folded(take_last_known(_by_precedence(runs.start_at(_fold_begins(runs)))))

    def _is_late(self, old: pa.Table, new: pa.Table, among: Flags) -> Flags:
        """Where the stored row is the newer one, among some; values of two types do not compare."""
        if self.ordering is None:
            return np.zeros(new.num_rows, np.bool_)
        stored, incoming = find_column(old, self.ordering), find_column(new, self.ordering)
        if stored is None or incoming is None or stored.type != incoming.type:
            return np.zeros(new.num_rows, np.bool_)
        return stored_is_newer(old, new, self.ordering, among)


def _fold_begins(runs: Runs) -> Positions:
    """The row of each run from which on rows are merged: deletes among them start anew.

    Runs without deletes begin at their first row. Of the others only ordering values and flags are looked at, one round for
    each place in a run.
    """
    begins = runs.starts.copy()
    if not delete_flags(runs.rows).any():
        return begins
    flags = _three_valued(runs.rows[DELETE_FLAG])
    ranks = np.zeros(len(flags), np.int64) if runs.ranks is None else runs.ranks
    active = np.flatnonzero(np.maximum.reduceat(flags, runs.starts) == 1)
    top, flag = ranks[runs.starts[active]], flags[runs.starts[active]]
    for step in range(1, int(runs.lengths[active].max())):
        more = runs.lengths[active] > step
        active, top, flag = active[more], top[more], flag[more]
        at = runs.starts[active] + step
        newer = ranks[at] >= top
        anew = newer & (flags[at] == 1)
        if not runs.in_log:
            anew |= ~newer & (flag == 1)
        begins[active[anew]] = at[anew]
        base, other = np.where(newer, flags[at], flag), np.where(newer, flag, flags[at])
        flag = np.where(anew, flags[at], np.where(base < 0, other, base))
        top = np.where(anew | newer, ranks[at], top)
    return begins


def _by_precedence(runs: Runs) -> Runs:
    """Each run's rows so that the last known value of a column is the merged one.

    A row that is not older than all before it goes before them; one that came too late only fills what is still null.
    """
    if runs.ranks is None:
        return runs
    apart = runs.run_of * (int(runs.ranks.max(initial=0)) + 1)
    late = runs.ranks + apart < np.maximum.accumulate(runs.ranks + apart)
    if not late.any():
        return runs
    arrival = np.arange(len(late))
    order = np.lexsort((np.where(late, -arrival, arrival), runs.run_of))
    return replace(runs, rows=take_rows(runs.rows, order), ranks=runs.ranks[order])


def _three_valued(flags: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    """1 for true, 0 for false, -1 for null."""
    return np.asarray(pc.fill_null(flags.cast(pa.int8()), -1), dtype=np.int8)


def _equals(values: pa.ChunkedArray, default: Any) -> Flags:
    """Where a value is the default. Types whose values do not compare, or that JSON does not hold as they are, have none."""
    if pa.types.is_binary(values.type) and isinstance(default, str):
        default = default.encode("latin-1", "replace")  # Avro writes a byte as the character of its number
    try:
        return np.asarray(pc.fill_null(pc.equal(values, pa.scalar(default, values.type)), False), dtype=np.bool_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return np.zeros(len(values), np.bool_)
