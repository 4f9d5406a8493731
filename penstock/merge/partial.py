"""Mergers of partial rows: a column that an incoming row does not supply keeps its stored value. Null means "not supplied".

They implement OverwriteNonDefaultsWithLatestAvroPayload and PartialUpdateAvroPayload. Several rows of a key in one batch or log
are combined too. Where "not supplied" has to differ from "set to null", use the merger in `column_mask.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.deletes import DELETE_FLAG, delete_flags
from penstock.merge.kernels.blend import blend, cast_column, fill_nulls, is_complete
from penstock.merge.kernels.gather import Flags, Positions, find_column, take_rows
from penstock.merge.kernels.ordering import stored_is_newer
from penstock.merge.kernels.runs import Folded, Runs, take_last_known
from penstock.merge.merger import Merger
from penstock.merge.payload_settings import PayloadSettings
from penstock.merge.row_choice import Choice, Choices
from penstock.schema import META_COLUMNS


@dataclass(frozen=True)
class OverwriteNonDefaults(Merger):
    """OverwriteNonDefaultsWithLatestAvroPayload: an incoming value wins unless it is the default of its column.

    Ordering values are compared only among the rows of a batch, not with stored rows. A column that is not in `defaults` has the
    default null.
    """

    #: Pairs of a column and its default.
    defaults: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return the merger with the column defaults of the table's Avro schema."""
        return cls(settings.defaults)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        taken = np.where(self._supplies_all(new), Choice.TAKE_NEW, Choice.BUILD)
        return np.where(self.is_delete(new), Choice.DELETE, taken)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        defaults = dict(self.defaults)
        columns = []
        for field in new.schema:
            stored = cast_column(old, field)
            incoming = new[field.name]
            default = defaults.get(field.name)
            if default is None:
                columns.append(fill_nulls(incoming, stored))
            else:
                columns.append(blend(~_equals_default(incoming, default), incoming, stored))
        return pa.table(columns, schema=new.schema)

    def _supplies_all(self, new: pa.Table) -> Flags:
        """Return a mask over the incoming rows, true where no value equals its column's default.

        These rows replace every stored value.
        """
        defaults = {name: value for name, value in self.defaults if value is not None and name in new.column_names}
        supplies_all = is_complete(new.drop_columns(list(defaults)) if defaults else new)
        for name, value in defaults.items():
            supplies_all &= ~_equals_default(new[name], value)
        return supplies_all


@dataclass(frozen=True)
class PartialUpdate(Merger):
    """PartialUpdateAvroPayload: each column takes the newer row's value if that is not null, otherwise the older row's value.

    A delete always deletes the stored row. Several rows of a key in a batch or log are combined in the same way. A delete among
    them discards the earlier rows of its key, unless one of these has a greater ordering value than the delete. As in Hudi, a
    delete in a batch is lost if a row with a lower ordering value follows it.
    """

    ordering: str | None

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return a merger that compares rows by the table's ordering column, if there is one."""
        return cls(settings.ordering)

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering, DELETE_FLAG) if self.ordering else (DELETE_FLAG,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        deletes = self.is_delete(new)
        late = self._stored_is_newer(old, new, ~deletes)
        # The newer stored row may itself be marked as deleted: then its flag wins, and the key is deleted.
        deleted = deletes | (late & delete_flags(old))
        taken = np.where(is_complete(new) & ~late, Choice.TAKE_NEW, Choice.BUILD)
        return np.where(deleted, Choice.DELETE, taken)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        late = self._stored_is_newer(old, new, np.ones(new.num_rows, np.bool_))
        columns = []
        for field in new.schema:
            incoming = new[field.name]
            stored = cast_column(old, field)
            if field.name in META_COLUMNS or not late.any():
                columns.append(fill_nulls(incoming, stored))
                continue
            # A late row only fills what the stored row lacks; any other row wins wherever it has a value.
            stored_is_null = np.asarray(pc.is_null(stored), dtype=np.bool_)
            takes_incoming = np.where(late, stored_is_null, np.asarray(pc.is_valid(incoming)))
            columns.append(blend(takes_incoming, incoming, stored))
        return pa.table(columns, schema=new.schema)

    def fold(self, runs: Runs) -> Folded:
        left = runs.start_at(_find_first_merged(runs))
        return Folded(take_last_known(_sort_by_precedence(left)))

    def _stored_is_newer(self, old: pa.Table, new: pa.Table, among: Flags) -> Flags:
        """Return a mask over the (stored, incoming) pairs of rows, true where the stored row has the greater ordering value.

        All false if the ordering column is missing or has different types in stored and incoming rows.

        Args:
            among: a mask of the pairs to compare. The result is false for pairs that are not compared.
        """
        if self.ordering is None:
            return np.zeros(new.num_rows, np.bool_)
        stored = find_column(old, self.ordering)
        incoming = find_column(new, self.ordering)
        if stored is None or incoming is None or stored.type != incoming.type:
            return np.zeros(new.num_rows, np.bool_)
        return stored_is_newer(old, new, self.ordering, among)


def _find_first_merged(runs: Runs) -> Positions:
    """Return for each run (the rows of one key) the position of the first row to merge. Rows before a delete are discarded.

    For a run without deletes this is its first row. A delete that is not older than the rows before it discards them, and merging
    starts with the delete. As in Hudi, merging in a batch also starts with a row that is older than a delete before it: that
    delete is lost. The loop handles the first row of all runs with deletes, then the second row, and so on.
    """
    firsts = runs.starts.copy()
    if not delete_flags(runs.rows).any():
        return firsts
    flags = _read_three_valued(runs.rows[DELETE_FLAG])
    ranks = np.zeros(len(flags), np.int64) if runs.ranks is None else runs.ranks
    active = np.flatnonzero(np.maximum.reduceat(flags, runs.starts) == 1)
    # The greatest rank and the merged delete flag of the rows so far, one of each active run.
    greatest = ranks[runs.starts[active]]
    merged_flag = flags[runs.starts[active]]
    for place in range(1, int(runs.lengths[active].max())):
        has_more = runs.lengths[active] > place
        active = active[has_more]
        greatest = greatest[has_more]
        merged_flag = merged_flag[has_more]
        at = runs.starts[active] + place
        is_newer = ranks[at] >= greatest
        starts_over = is_newer & (flags[at] == 1)
        if not runs.in_log:
            starts_over |= ~is_newer & (merged_flag == 1)  # Hudi loses a delete that an older row of the batch follows
        firsts[active[starts_over]] = at[starts_over]
        winner_flag = np.where(is_newer, flags[at], merged_flag)
        loser_flag = np.where(is_newer, merged_flag, flags[at])
        filled_flag = np.where(winner_flag < 0, loser_flag, winner_flag)
        merged_flag = np.where(starts_over, flags[at], filled_flag)
        greatest = np.where(starts_over | is_newer, ranks[at], greatest)
    return firsts


def _sort_by_precedence(runs: Runs) -> Runs:
    """Return a copy in which each run (the rows of one key) is sorted so that a column's last non-null value is its merged value.

    A row stays after the earlier rows of its run if its ordering value is at least that of each of them. Any other row is late:
    it is put in front of the earlier rows, so it only fills columns that are null in all of them.
    """
    if runs.ranks is None:
        return runs
    # A running maximum within each run: an offset per run, greater than any rank, keeps it from reaching into the next run.
    ranks = _make_dense(runs.ranks)
    shifted = ranks + runs.run_of * (int(ranks.max(initial=0)) + 1)
    late = shifted < np.maximum.accumulate(shifted)
    if not late.any():
        return runs
    # Late rows go to the front, the last of them first, so that every other row and every earlier late row overrules them.
    arrival = np.arange(len(late))
    order = np.lexsort((np.where(late, -arrival, arrival), runs.run_of))
    return replace(runs, rows=take_rows(runs.rows, order), ranks=runs.ranks[order])


def _make_dense(ranks: Positions) -> Positions:
    """Return small non-negative numbers that compare as the ranks do. (Ranks are numbers that compare as ordering values do.)

    The ranks of a column of longs are its values. They may be negative, or so large that computing with them overflows in
    `_sort_by_precedence`.
    """
    if ranks.min(initial=0) >= 0 and ranks.max(initial=0) <= len(ranks):
        return ranks
    return np.unique(ranks, return_inverse=True)[1]


def _read_three_valued(flags: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    """Return a boolean column as numbers: 1 for true, 0 for false, -1 for null."""
    return np.asarray(pc.fill_null(flags.cast(pa.int8()), -1), dtype=np.int8)


def _equals_default(values: pa.ChunkedArray, default: Any) -> Flags:
    """Return a mask over the values, true where the value equals the column's default; all false if the types do not compare."""
    if pa.types.is_binary(values.type) and isinstance(default, str):
        default = default.encode("latin-1", "replace")  # Avro's JSON writes a byte as the character of that number
    try:
        return np.asarray(pc.fill_null(pc.equal(values, pa.scalar(default, values.type)), False), dtype=np.bool_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return np.zeros(len(values), np.bool_)
