"""Runs: a table in which all rows of a key are next to one another, for many keys at once.

Mergers receive the rows of a batch or log in this form to combine (fold) the rows of each key to one row.

`Runs` holds the rows of each key in the order in which they came. `Folded` is what a merger returns: one row per run. The
functions are kernels for `Merger.fold`: find the newest row of each run, take the last non-null value of each column, join
neighbouring rows pair by pair. Reductions over runs are numpy's `reduceat` at the first row of each run.
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
    """An Arrow table whose rows are grouped by key into runs.

    A run is the rows of one key, next to one another, in the order in which they came. `starts` has the position of each run's
    first row. `ranks` are numbers that compare as the rows' ordering values do; None: ordering values are not compared.
    `after_delete` is a mask over the runs, true if the key was deleted before the run; None: all false.
    """

    rows: pa.Table
    #: The position of the first row of each run. The first element is 0; no run is empty.
    starts: Positions
    #: A number per row; the numbers compare as the ordering values do. None: rows are not compared by ordering value.
    ranks: Positions | None = None
    #: Whether the rows come from log files. Otherwise they are a batch that is about to be written.
    in_log: bool = False
    #: A mask over the runs: true where the key was deleted before the first row of the run; None: all false.
    after_delete: Flags | None = None

    def __len__(self) -> int:
        """Return the number of runs, which is the number of keys."""
        return len(self.starts)

    @cached_property
    def lengths(self) -> Positions:
        """For each run (the rows of one key) the number of its rows."""
        return np.diff(np.append(self.starts, self.rows.num_rows))

    @cached_property
    def run_of(self) -> Positions:
        """For each row of `rows` the number of the run (the rows of one key) that contains the row."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    @property
    def ends(self) -> Positions:
        """For each run (the rows of one key) the position of its last row in `rows`."""
        return self.starts + self.lengths - 1

    def sort_by_ordering(self) -> Runs:
        """Return a copy in which the rows of each run (the rows of one key) are sorted by ordering value.

        Rows with equal ordering values keep their order.
        """
        if self.ranks is None:
            return self
        order = np.lexsort((self.ranks, self.run_of))
        if np.array_equal(order, np.arange(len(order))):
            return self
        return replace(self, rows=take_rows(self.rows, order), ranks=self.ranks[order])

    def drop_late_rows(self, deletes: Flags) -> Runs:
        """Return a copy of the runs without late rows. A run is the rows of one key, in the order in which they came.

        A row is late if an earlier row of the run has a greater ordering value, and no delete came between the two. The loop
        handles the first row of all runs, then the second row of all runs, and so on.

        Args:
            deletes: a mask over the rows, true where the row is a delete.
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
        """Return a copy of the runs in which each run, the rows of one key, begins at a given row. Earlier rows are dropped.

        Args:
            firsts: for each run, the position of the first row to keep.
        """
        kept = np.arange(self.rows.num_rows) >= firsts[self.run_of]
        if kept.all():
            return self
        counts = np.bincount(self.run_of[kept], minlength=len(self))
        ranks = None if self.ranks is None else self.ranks[kept]
        return replace(self, rows=self.rows.filter(pa.array(kept)), starts=np.cumsum(counts) - counts, ranks=ranks)


@dataclass(frozen=True)
class Folded:
    """The result of `Merger.fold`: one row per run (the rows of one key), in the order of the runs.

    `fresh` and `gone` are masks over the runs; None: all false. `fresh` is true if the key was deleted before the row, so that
    the row takes no value from the stored row. `gone` is true if the row only says that its key is to be deleted.
    """

    rows: pa.Table
    #: A mask over the runs: true where the key was deleted before the folded row (mark `FRESH`); None: all false.
    fresh: Flags | None = None
    #: A mask over the runs: true where the row only says that its key is deleted (mark `GONE`); None: all false.
    gone: Flags | None = None


def find_newest(starts: Positions, count: int, ranks: Positions | None) -> Positions:
    """Return for each run (the rows of one key) the position of the row with the greatest rank; the last one among equals.

    Args:
        starts: the position of the first row of each run; no run is empty.
        count: the number of rows of all runs together.
        ranks: numbers that compare like the ordering values; None: the last row of each run is the newest.
    """
    ends = np.append(starts[1:], count)[: len(starts)] - 1
    if ranks is None or len(starts) == count:
        return ends
    greatest = np.maximum.reduceat(ranks, starts)
    is_greatest = ranks == np.repeat(greatest, ends - starts + 1)
    # The greatest position among the rows with the greatest rank is the last one that came.
    return np.maximum.reduceat(np.where(is_greatest, np.arange(count), -1), starts)


def take_last_known(runs: Runs) -> pa.Table:
    """Return one row per run (the rows of one key): in each column the run's last value that is not null, or null if all are."""
    columns = [_take_last_known(column, runs) for column in runs.rows.columns]
    return pa.table(columns, schema=runs.rows.schema)


def _take_last_known(column: pa.ChunkedArray, runs: Runs) -> pa.ChunkedArray:
    """Return for each run (the rows of one key) the last value of the column that is not null, or null if all are null."""
    at = runs.ends
    if column.null_count:
        known = np.where(np.asarray(pc.is_valid(column)), np.arange(len(column)), -1)
        last_known = np.maximum.reduceat(known, runs.starts)
        at = np.where(last_known < 0, runs.ends, last_known)
    return take_rows(pa.table([column], names=["c"]), at)["c"]


def join_neighbours(runs: Runs, join: Callable[[pa.Table, pa.Table], pa.Table]) -> pa.Table:
    """Reduce each run (the rows of one key) to one row: join neighbouring rows in pairs until one row is left.

    Each round joins the first row of every run with the second, the third with the fourth, and so on. A round halves every run,
    so the number of rounds is the logarithm of the longest run.

    Args:
        join: called with an Arrow table of older rows and one of newer rows; returns a table with one row for each pair. It must
            be associative.
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
    """Pair the rows of each run (the rows of one key): the first row with the second, the third with the fourth, and so on.

    The last row of a run of odd length is in no pair.

    Args:
        lengths: the number of rows of each run.

    Returns:
        A mask over the rows, true for the first, third, … row of a run; and the position of the older row of each pair.
    """
    length_of_run = np.repeat(lengths, lengths)
    place_in_run = np.arange(len(length_of_run)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    is_even = place_in_run % 2 == 0
    return is_even, np.flatnonzero(is_even & (place_in_run + 1 < length_of_run))
