"""`Merger`: what becomes of rows of one key. The base class of all payloads, with a default for everything a merger is asked.

Mergers work on many keys at once: row i of a table of stored rows and row i of a table of incoming rows have the same key. A
write calls `merge` for pairs of rows and `insert` for rows of new keys; several rows of a key in a batch or a log go through
`fold` first. A new payload is a subclass that overrides what differs, and a line in `payloads.py`.

Mergers are frozen dataclasses, because they are pickled to the workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.merge.choice import Choice, Choices
from penstock.merge.deletes import delete_flags
from penstock.merge.kernels.gather import Flags, Positions, find_top_column, take_rows
from penstock.merge.kernels.marks import drop_marks
from penstock.merge.kernels.runs import Folded, Runs, find_newest
from penstock.merge.payload_settings import PayloadSettings


class Merger:
    """What becomes of rows of one key. By default the incoming row replaces the stored one, and a delete deletes.

    A merger that chooses one of two rows overrides `resolve` and names the columns that it compares in `needs`. One that builds
    a row out of both answers `Choice.BUILD` for some pairs and overrides `build`. One that cannot decide before it has built
    the row overrides `merge` and `insert` (`penstock/merge/user/merger.py`).
    """

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return the merger for a payload's settings. By default a merger has none. Raise OptionError if one is wrong."""
        return cls()

    # Which columns the merger reads.

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns that `resolve` compares, in both rows; fields of structs as `a.b`. The stored rows it gets have no others."""
        return ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the incoming row alone that decisions depend on, besides the delete flag."""
        return ()

    # How callers have to treat the merger.

    @property
    def ignores_ordering(self) -> bool:
        """Whether the last row of a batch or log wins, whatever its ordering value. Callers then pass no ordering values."""
        return False

    @property
    def folds(self) -> bool:
        """Whether `fold` does more than pick the newest row. If not, callers pick that row by position, which is faster."""
        return type(self).fold is not Merger.fold

    @property
    def builds(self) -> bool:
        """Whether rows are built out of a stored and an incoming one, so that whole stored rows have to be read."""
        return type(self).build is not Merger.build

    @property
    def is_user_function(self) -> bool:
        """Whether a function of the user's own decides.

        The function may drop a row that is not a delete, and it changes new rows when they are inserted: no row may be inserted
        through it twice.
        """
        return False

    @property
    def keeps_partition(self) -> bool:
        """Whether a merged row stays in the stored row's partition when it keeps the partition columns of the stored row.

        Hudi's payloads do not: the row goes to the partition that the incoming row names.
        """
        return False

    @property
    def logs_deletes_as_rows(self) -> bool:
        """Whether a log holds deletes as rows, for the merger to decide about when the log is read, not as delete entries."""
        return False

    # What the merger decides.

    def is_delete(self, new: pa.Table) -> Flags:
        """Return which incoming rows say that their key is deleted. The default reads `_hoodie_is_deleted`."""
        return delete_flags(new)

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return which rows are written to a log as delete entries. By default all deletes are.

        A merger raises SchemaError here for rows that could not be merged when the log is read.
        """
        return self.is_delete(new)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        """Return the choice for each pair of rows. `old` has the columns of `needs` alone.

        By default the incoming row wins.
        """
        return np.where(self.is_delete(new), Choice.DELETE, Choice.TAKE_NEW)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        """Return the row of each pair that `resolve` answered `Choice.BUILD` for, with the columns of `new`.

        `old` has all columns of the stored rows.
        """
        raise NotImplementedError(f"{type(self).__name__} builds no rows")

    def to_stored(self, new: pa.Table) -> pa.Table:
        """Return incoming rows, none of them deletes, as they are stored when they meet no stored row or replace it.

        By default only the marks that writers add for mergers are dropped.
        """
        return drop_marks(new)

    def merge(self, old: pa.Table, at: Positions, new: pa.Table) -> MergedPairs:
        """Decide about pairs of rows: each row of `new` and the row of `old` at the same place in `at`.

        Args:
            old: whole stored rows; some may be in no pair.
        """
        names = dict.fromkeys(find_top_column(path, old.column_names) for path in self.needs)
        needed = old.select([name for name in names if name in old.column_names])
        return MergedPairs(self.resolve(take_rows(needed, at), new), self, old, at, new)

    def insert(self, new: pa.Table) -> tuple[Flags, pa.Table]:
        """Return which rows of new keys are stored, and these rows as they are stored. By default all but the deletes."""
        kept = ~self.is_delete(new)
        return kept, self.to_stored(new if kept.all() else new.filter(pa.array(kept)))

    def fold(self, runs: Runs) -> Folded:
        """Combine the rows of each run, which have one key, to one row with the same columns.

        The default picks the row with the greatest ordering value, the last one among equals.
        """
        ranks = None if self.ignores_ordering else runs.ranks
        return Folded(take_rows(runs.rows, find_newest(runs.starts, runs.rows.num_rows, ranks)))


@dataclass(frozen=True)
class MergedPairs:
    """Pairs of a stored and an incoming row, and the merger's choice for each."""

    choices: Choices
    _merger: Merger
    _old: pa.Table
    _at: Positions
    _new: pa.Table
    #: The rows of all pairs that are `BUILD`, if the merger built them in order to decide.
    _built: pa.Table | None = None

    def rows(self, choices: Choices) -> pa.Table:
        """Return the rows of the pairs that are TAKE_NEW or BUILD, in the order of the pairs, with the columns of the new rows.

        Args:
            choices: those of this merge; a caller that does not want some of the rows may set them to KEEP_OLD.
        """
        if self._built is not None:
            wanted = (choices == Choice.BUILD)[self.choices == Choice.BUILD]
            return self._built if wanted.all() else self._built.filter(pa.array(wanted))
        is_taken = choices == Choice.TAKE_NEW
        is_built = choices == Choice.BUILD
        if not is_built.any():
            return self._merger.to_stored(self._new.filter(pa.array(is_taken)))
        built = self._merger.build(take_rows(self._old, self._at[is_built]), _where(self._new, is_built))
        if not is_taken.any():
            return built
        taken = self._merger.to_stored(self._new.filter(pa.array(is_taken)))
        order = np.argsort(np.concatenate([np.flatnonzero(is_taken), np.flatnonzero(is_built)]))
        return take_rows(pa.concat_tables([taken, built]), order)


def _where(rows: pa.Table, flags: Flags) -> pa.Table:
    return rows if flags.all() else rows.filter(pa.array(flags))
