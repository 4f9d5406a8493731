"""Rows meet: pairs of an old and a new one, and new rows that meet nobody. What files are merged by, whatever the merger.

A merger that chooses, or builds rows of those it chose to, is asked first and builds afterwards (`mergers.py`). One that can
only say what becomes of a pair by making the row (`Making`) is asked once, with whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from penstock.merge.choice import Choice, Choices
from penstock.merge.kernels.gather import Positions, take_rows, top_column
from penstock.merge.kernels.runs import Flags
from penstock.merge.merger import Merger, changed_rows, inserted_rows


@runtime_checkable
class Making(Protocol):
    """A merger that decides about a pair by making its row."""

    def make(self, old: pa.Table, new: pa.Table) -> tuple[Choices, pa.Table]:
        """BUILD or DELETE for each pair of whole rows, and the rows of those that are BUILD."""

    def begin(self, new: pa.Table) -> tuple[Flags, pa.Table]:
        """Which new rows are stored where they meet nobody, and these rows as they are stored."""


@dataclass(frozen=True)
class Meeting:
    """Pairs of rows, and what becomes of each. The caller may ask for some of the rows only, but not make new ones BUILD."""

    choices: Choices
    _merger: Merger
    _old: pa.Table
    _at: Positions
    _new: pa.Table
    _made: pa.Table | None = None

    def rows(self, choices: Choices) -> pa.Table:
        """The rows of the pairs that are TAKE_NEW or BUILD, in the order of the pairs, with the columns of the new ones."""
        if self._made is None:
            return changed_rows(self._merger, choices, self._old, self._at, self._new)
        still = (choices == Choice.BUILD)[self.choices == Choice.BUILD]
        return self._made if still.all() else self._made.filter(pa.array(still))


def meet(merger: Merger, old: pa.Table, at: Positions, new: pa.Table) -> Meeting:
    """Ask the merger about pairs of rows.

    Args:
        at: where the old row of each pair stands in `old`, whose rows are whole.
    """
    if isinstance(merger, Making):
        choices, made = merger.make(take_rows(old, at), new)
        return Meeting(choices, merger, old, at, new, made)
    names = dict.fromkeys(top_column(path, old.column_names) for path in merger.needs)
    needed = old.select([name for name in names if name in old.column_names])
    return Meeting(merger.resolve(take_rows(needed, at), new), merger, old, at, new)


def new_rows(merger: Merger, rows: pa.Table) -> tuple[Flags, pa.Table]:
    """Which rows are stored where they meet nobody, and these as they are stored: deletes are not."""
    if isinstance(merger, Making):
        return merger.begin(rows)
    kept = ~merger.is_delete(rows)
    return kept, inserted_rows(merger, rows if kept.all() else rows.filter(pa.array(kept)))


def is_changed(choices: Choices) -> Flags:
    """Pairs whose row is another one now."""
    return np.asarray((choices == Choice.TAKE_NEW) | (choices == Choice.BUILD), dtype=np.bool_)
