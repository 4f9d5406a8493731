"""Runs: several rows of one key side by side, for many keys at once. What a batch and a log are made of before they are folded.

`Runs` holds them in the order in which they came; `Folded` is what a merger makes of them, one row a run. The kernels
here are what folding takes: the newest row, the last known value of each column, and joining neighbours pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import Positions, take_rows

Flags = npt.NDArray[np.bool_]

#: Beside an incoming row: its key was deleted before it came, so nothing that is stored may go into the merged row.
FRESH = "_penstock_fresh"
#: Likewise: the rows of its batch, made one, came to nothing; the key is to be deleted.
GONE = "_penstock_gone"
#: Likewise: it has met the stored row already, in the partition that it leaves; it is stored as it is.
MADE = "_penstock_made"


@dataclass(frozen=True)
class Runs:
    """Rows of one key stand together, oldest first."""

    rows: pa.Table
    #: Where each key's rows begin; the first is 0, and none is empty.
    starts: Positions
    #: Numbers that compare as the ordering values do; None: none is newer than another by its values.
    ranks: Positions | None = None
    #: Rows of log files, not of a batch that is about to be written.
    in_log: bool = False
    #: Runs whose key was deleted before their first row.
    after_delete: Flags | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def lengths(self) -> Positions:
        return np.diff(np.append(self.starts, self.rows.num_rows))

    @cached_property
    def run_of(self) -> Positions:
        """The number of each row's run."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @property
    def ends(self) -> Positions:
        """The last row of each run."""
        return self.starts + self.lengths - 1

    def by_ordering(self) -> Runs:
        """The same runs, each by ordering value; equal ones stay in their order."""
        if self.ranks is None:
            return self
        order = np.lexsort((self.ranks, self.run_of))
        if np.array_equal(order, np.arange(len(order))):
            return self
        return replace(self, rows=take_rows(self.rows, order), ranks=self.ranks[order])

    def without_late(self, deletes: Flags) -> Runs:
        """The same runs without the rows that are older than the one which was there when they came.

        After a delete there is none. One round for each place in a run.
        """
        if self.ranks is None:
            return self
        kept, active = np.ones(len(self.ranks), np.bool_), np.arange(len(self))
        none = np.iinfo(np.int64).min
        there = np.full(len(self), none)
        for step in range(int(self.lengths.max(initial=0))):
            active = active[self.lengths[active] > step]
            at = self.starts[active] + step
            late = self.ranks[at] < there[active]
            kept[at[late]] = False
            there[active[~late]] = np.where(deletes[at], none, self.ranks[at])[~late]
        counts = np.bincount(self.run_of[kept], minlength=len(self))
        rows = self.rows if kept.all() else self.rows.filter(pa.array(kept))
        return replace(self, rows=rows, starts=np.cumsum(counts) - counts, ranks=self.ranks[kept])

    def from_row(self, firsts: Positions) -> Runs:
        """What is left of each run from this row on."""
        kept = np.arange(self.rows.num_rows) >= firsts[self.run_of]
        if kept.all():
            return self
        starts = np.cumsum(np.append(0, np.bincount(self.run_of[kept], minlength=len(self))))[:-1]
        ranks = None if self.ranks is None else self.ranks[kept]
        return replace(self, rows=self.rows.filter(pa.array(kept)), starts=starts, ranks=ranks)


@dataclass(frozen=True)
class Folded:
    """One row a run."""

    rows: pa.Table
    #: Rows before which their key was deleted (`FRESH`); None: there are none.
    fresh: Flags | None = None
    #: Rows that say nothing but that their key is gone (`GONE`); None: there are none.
    gone: Flags | None = None


def newest(starts: Positions, count: int, ranks: Positions | None) -> Positions:
    """The row of each run with the greatest rank, the last among equals; without ranks, the last.

    Args:
        starts: where the runs begin; none is empty.
        count: how many rows there are.
    """
    ends = np.append(starts[1:], count)[: len(starts)] - 1
    if ranks is None or len(starts) == count:
        return ends
    greatest = np.maximum.reduceat(ranks, starts)
    is_greatest = ranks == np.repeat(greatest, ends - starts + 1)
    return np.maximum.reduceat(np.where(is_greatest, np.arange(count), -1), starts)


def last_known(runs: Runs) -> pa.Table:
    """The last value of each column of each run that is not null."""
    columns = [_last_of_column(column, runs) for column in runs.rows.columns]
    return pa.table(columns, schema=runs.rows.schema)


def _last_of_column(column: pa.ChunkedArray, runs: Runs) -> pa.ChunkedArray:
    if column.null_count == 0:
        at = runs.ends
    else:
        known = np.where(np.asarray(pc.is_valid(column)), np.arange(len(column)), -1)
        at = np.maximum.reduceat(known, runs.starts)
        at = np.where(at < 0, runs.ends, at)
    return take_rows(pa.table([column], names=["c"]), at)["c"]


def joined(runs: Runs, join: Callable[[pa.Table, pa.Table], pa.Table]) -> pa.Table:
    """One row a run by joining neighbours until one is left: few rounds, however long the longest run is.

    Args:
        join: makes one row of each older and newer one. It has to be associative.
    """
    rows, lengths = runs.rows, runs.lengths
    while len(lengths) and int(lengths.max()) > 1:
        offsets = np.arange(len(np.repeat(lengths, lengths))) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        older = np.flatnonzero((offsets % 2 == 0) & (offsets + 1 < np.repeat(lengths, lengths)))
        pairs = join(take_rows(rows, older), take_rows(rows, older + 1))
        source = np.arange(rows.num_rows)
        source[older] = rows.num_rows + np.arange(len(older))
        rows = take_rows(pa.concat_tables([rows, pairs]), source[offsets % 2 == 0])
        lengths = (lengths + 1) // 2
    return rows


def fresh_rows(rows: pa.Table) -> Flags:
    """Which incoming rows must not take anything from what is stored."""
    return _flagged(rows, FRESH)


def gone_rows(rows: pa.Table) -> Flags:
    """Which incoming rows came to nothing while their batch was folded."""
    return _flagged(rows, GONE)


def made_rows(rows: pa.Table) -> Flags:
    """Which incoming rows are merged ones that come from another partition."""
    return _flagged(rows, MADE)


def _flagged(rows: pa.Table, column: str) -> Flags:
    if column not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(rows[column], dtype=np.bool_)


def plain(rows: pa.Table) -> pa.Table:
    """The rows without what only mergers look at."""
    own = [name for name in (FRESH, GONE, MADE) if name in rows.column_names]
    return rows.drop_columns(own) if own else rows
