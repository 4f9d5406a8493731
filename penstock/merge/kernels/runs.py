"""Runs: the rows of one key next to one another, for many keys at once. A batch or a log in this form can be folded.

`Runs` holds the rows in the order in which they came. `Folded` is what a merger returns for them: one row per run. The functions
are the kernels of folding: find the newest row, take the last known value of each column, join neighbours pair by pair.
Reductions over runs are numpy's `reduceat` at the first row of each run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.merge.kernels.gather import Flags, Positions, take_rows


@dataclass(frozen=True)
class Runs:
    """Rows of one key stand together, in the order in which they came."""

    rows: pa.Table
    #: The first row of each run. The first element is 0; no run is empty.
    starts: Positions
    #: Numbers that compare as the ordering values do; None: rows are not compared by ordering value.
    ranks: Positions | None = None
    #: Whether the rows come from log files. Otherwise they are a batch that is about to be written.
    in_log: bool = False
    #: Runs whose key was deleted before their first row; None: no run.
    after_delete: Flags | None = None

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def lengths(self) -> Positions:
        """The number of rows of each run."""
        return np.diff(np.append(self.starts, self.rows.num_rows))

    @cached_property
    def run_of(self) -> Positions:
        """The number of each row's run."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @property
    def ends(self) -> Positions:
        """The last row of each run."""
        return self.starts + self.lengths - 1

    def sort_by_ordering(self) -> Runs:
        """Return the same runs with the rows of each in the order of their ordering values; equal ones keep their order."""
        if self.ranks is None:
            return self
        order = np.lexsort((self.ranks, self.run_of))
        if np.array_equal(order, np.arange(len(order))):
            return self
        return replace(self, rows=take_rows(self.rows, order), ranks=self.ranks[order])

    def drop_late_rows(self, deletes: Flags) -> Runs:
        """Return the runs without rows that are older than the row that was current when they came.

        A delete leaves no current row, so the row after it is never late. The loop takes one step per place in a run, over
        all runs at once.
        """
        if self.ranks is None:
            return self
        no_row = np.iinfo(np.int64).min
        kept = np.ones(len(self.ranks), np.bool_)
        active = np.arange(len(self))
        current = np.full(len(self), no_row)
        for place in range(int(self.lengths.max(initial=0))):
            active = active[self.lengths[active] > place]
            at = self.starts[active] + place
            late = self.ranks[at] < current[active]
            kept[at[late]] = False
            current[active[~late]] = np.where(deletes[at], no_row, self.ranks[at])[~late]
        counts = np.bincount(self.run_of[kept], minlength=len(self))
        rows = self.rows if kept.all() else self.rows.filter(pa.array(kept))
        return replace(self, rows=rows, starts=np.cumsum(counts) - counts, ranks=self.ranks[kept])

    def start_at(self, firsts: Positions) -> Runs:
        """Return the runs without the rows before these, one of each run."""
        kept = np.arange(self.rows.num_rows) >= firsts[self.run_of]
        if kept.all():
            return self
        counts = np.bincount(self.run_of[kept], minlength=len(self))
        ranks = None if self.ranks is None else self.ranks[kept]
        return replace(self, rows=self.rows.filter(pa.array(kept)), starts=np.cumsum(counts) - counts, ranks=ranks)


@dataclass(frozen=True)
class Folded:
    """One row per run."""

    rows: pa.Table
    #: Rows whose key was deleted before them (mark `FRESH`); None: no row.
    fresh: Flags | None = None
    #: Rows that only say that their key is deleted (mark `GONE`); None: no row.
    gone: Flags | None = None


def find_newest(starts: Positions, count: int, ranks: Positions | None) -> Positions:
    """Return the row of each run with the greatest rank, the last among equals. Without ranks, the last row.

    Args:
        starts: the first row of each run; no run is empty.
        count: the number of rows of all runs.
    """
    ends = np.append(starts[1:], count)[: len(starts)] - 1
    if ranks is None or len(starts) == count:
        return ends
    greatest = np.maximum.reduceat(ranks, starts)
    is_greatest = ranks == np.repeat(greatest, ends - starts + 1)
    # The greatest position among the rows with the greatest rank is the last one that came.
    return np.maximum.reduceat(np.where(is_greatest, np.arange(count), -1), starts)


def take_last_known(runs: Runs) -> pa.Table:
    """Return one row per run: for each column the last value that is not null."""
    columns = [_take_last_known(column, runs) for column in runs.rows.columns]
    return pa.table(columns, schema=runs.rows.schema)


def _take_last_known(column: pa.ChunkedArray, runs: Runs) -> pa.ChunkedArray:
    at = runs.ends
    if column.null_count:
        known = np.where(np.asarray(pc.is_valid(column)), np.arange(len(column)), -1)
        last_known = np.maximum.reduceat(known, runs.starts)
        at = np.where(last_known < 0, runs.ends, last_known)
    return take_rows(pa.table([column], names=["c"]), at)["c"]


def join_neighbours(runs: Runs, join: Callable[[pa.Table, pa.Table], pa.Table]) -> pa.Table:
    """Return one row per run, by joining neighbours until one row is left.

    Each round joins the rows at even places with the ones behind them, over all runs at once, and so halves every run: the number
    of rounds is the logarithm of the longest run.

    Args:
        join: returns one row for each pair of an older and a newer one. It has to be associative.
    """
    rows = runs.rows
    lengths = runs.lengths
    while len(lengths) and int(lengths.max()) > 1:
        is_even, older = split_into_pairs(lengths)
        joined = join(take_rows(rows, older), take_rows(rows, older + 1))
        source = np.arange(rows.num_rows)
        source[older] = rows.num_rows + np.arange(len(older))
        rows = take_rows(pa.concat_tables([rows, joined]), source[is_even])
        lengths = (lengths + 1) // 2
    return rows


def split_into_pairs(lengths: Positions) -> tuple[Flags, Positions]:
    """Return which rows are at even places of their runs, and those of them that have a row behind them.

    Args:
        lengths: the number of rows of each run.
    """
    length_of_run = np.repeat(lengths, lengths)
    place_in_run = np.arange(len(length_of_run)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    is_even = place_in_run % 2 == 0
    return is_even, np.flatnonzero(is_even & (place_in_run + 1 < length_of_run))
