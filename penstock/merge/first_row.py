"""`penstock.first_row`: a payload that keeps the first row of a key until the key is deleted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.merge.deletes import delete_flags
from penstock.merge.kernels.gather import take_rows
from penstock.merge.kernels.runs import Folded, Runs
from penstock.merge.merger import Merger
from penstock.merge.ordered import OrderedMerger, drop_before_deletes
from penstock.merge.payload_settings import PayloadSettings
from penstock.merge.row_choice import Choice, Choices


@dataclass(frozen=True)
class FirstRow(OrderedMerger):
    """A merger that keeps the first row of a key, until the key is deleted. Later rows of the key are ignored."""

    ordering: str | None = None

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return the merger for the table's ordering column.

        The ordering column decides which row of a batch is first, and whether a delete is older than the stored row.
        """
        return cls(settings.ordering)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return self.choose(old, new, Choice.KEEP_OLD)

    def fold(self, runs: Runs) -> Folded:
        if runs.in_log:
            # Rows of a log were committed one after another: the first one that came counts, not the least ordering value.
            return _fold_by_arrival(runs)
        left, fresh = drop_before_deletes(runs)
        return Folded(take_rows(left.rows, left.starts), fresh)


def _fold_by_arrival(runs: Runs) -> Folded:
    """Return one row per run (the log rows of one key): the first row after the run's last delete, or that delete if it is last.

    A delete with a lower ordering value than the row kept so far is ignored. The loop handles the first row of all runs, then the
    second row of all runs, and so on.
    """
    first = np.full(len(runs), -1)
    last_delete = np.full(len(runs), -1)
    active = np.arange(len(runs))
    deletes = delete_flags(runs.rows)
    ranks = np.zeros(len(deletes), np.int64) if runs.ranks is None else runs.ranks
    for place in range(int(runs.lengths.max(initial=0))):
        active = active[runs.lengths[active] > place]
        at = runs.starts[active] + place
        current = first[active]
        ends = deletes[at] & ((current < 0) | (ranks[at] >= ranks[current]))
        last_delete[active[ends]] = at[ends]
        first[active[ends]] = -1
        begins = ~deletes[at] & (current < 0)
        first[active[begins]] = at[begins]
    fresh = (last_delete >= 0) & (first >= 0)
    if runs.after_delete is not None:
        fresh |= runs.after_delete & (first >= 0)
    return Folded(take_rows(runs.rows, np.where(first < 0, last_delete, first)), fresh)
