"""`Merger`: decides how rows of one key become one row. The base class of all payloads, with a default for every method.

Mergers work on many keys at once: row i of an Arrow table of stored rows and row i of an Arrow table of incoming rows have the
same key. A write first calls `fold` for keys with several rows in the batch or log, then `merge` for pairs of a stored and an
incoming row, and `insert` for rows of new keys. A new payload is a subclass that overrides what differs, and a line in
`penstock/options/payload_names.py`.

Mergers are frozen dataclasses, because they are pickled to the workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.merge.deletes import delete_flags
from penstock.merge.kernels.gather import Flags, Positions, find_top_column, take_rows
from penstock.merge.kernels.marks import drop_marks
from penstock.merge.kernels.runs import Folded, Runs, find_newest
from penstock.merge.payload_settings import PayloadSettings
from penstock.merge.row_choice import Choice, Choices


class Merger:
    """Decides how rows of one key become one row. By default the incoming row replaces the stored row, or deletes the key.

    A merger that chooses one of two rows overrides `resolve` and names the columns that it compares in `needs`. A merger that
    builds a row out of both returns `Choice.BUILD` for some pairs and overrides `build`. A merger that must build the row before
    it can decide overrides `merge` and `insert` (`penstock/merge/user/merger.py`).
    """

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return a merger of this class for the settings of a table's payload. The default ignores the settings.

        Raises:
            OptionError: a setting is wrong.
        """
        return cls()

    # Which columns the merger reads.

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the columns that `resolve` compares, in stored and incoming rows; fields of structs as `a.b`.

        The stored rows that `resolve` receives have only these columns.
        """
        return ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of further columns that the merger reads in incoming rows to decide, besides `needs` and `_hoodie_is_deleted`."""
        return ()

    # How callers have to treat the merger.

    @property
    def ignores_ordering(self) -> bool:
        """Whether the last row of a batch or log wins, whatever its ordering value. If so, the merger gets no ordering values."""
        return False

    @property
    def folds(self) -> bool:
        """Whether `fold` does more than pick the newest row of each key.

        If false, writes and readers of logs pick that row without the merger, which is faster.
        """
        return type(self).fold is not Merger.fold

    @property
    def builds(self) -> bool:
        """Whether the merger builds rows out of a stored and an incoming row.

        If true, all columns of the stored rows are read for the merger, not only `needs`.
        """
        return type(self).build is not Merger.build

    @property
    def is_user_function(self) -> bool:
        """Whether a function that the user registered merges the rows.

        The function may drop a row that is not a delete, and may change rows of new keys. A second call could change a row again,
        so `insert` must be called only once for each row of a new key.
        """
        return False

    @property
    def keeps_partition(self) -> bool:
        """Whether a merged row goes to the partition that its own columns name, even if the incoming row names another partition.

        If true, a merged row whose partition columns are those of the stored row stays in the stored row's partition. False for
        Hudi's payloads: there the merged row always goes to the incoming row's partition.
        """
        return False

    @property
    def logs_deletes_as_rows(self) -> bool:
        """Whether deletes are written to a log as rows, instead of entries in a delete block.

        If true, the merger decides when the log is read whether the row deletes its key.
        """
        return False

    @property
    def orders_deletes(self) -> bool:
        """Whether a delete that is older than the stored row, by ordering value, is ignored.

        False for Hudi's payloads, although some of them compare deletes with the stored rows of base files.
        """
        return False

    # What the merger decides.

    def is_delete(self, new: pa.Table) -> Flags:
        """Return a mask over the incoming rows, true where the row is a delete. The default reads `_hoodie_is_deleted`."""
        return delete_flags(new)

    def is_delete_entry(self, new: pa.Table) -> Flags:
        """Return a mask over the incoming rows, true where a log gets an entry in a delete block instead of a row.

        By default these are all deletes.

        Raises:
            SchemaError: a row could not be merged later, when the log is read.
        """
        return self.is_delete(new)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        """Return the choice for each (stored, incoming) pair of rows: row i of `old` and row i of `new`.

        `old` has only the columns of `needs`. The default is DELETE for a delete and TAKE_NEW for any other row.
        """
        return np.where(self.is_delete(new), Choice.DELETE, Choice.TAKE_NEW)

    def build(self, old: pa.Table, new: pa.Table) -> pa.Table:
        """Build one row for each pair of a stored and an incoming row, with the columns of `new`.

        It is called only with pairs for which `resolve` returned `Choice.BUILD`. `old` has all columns of the stored rows.
        """
        raise NotImplementedError(f"{type(self).__name__} builds no rows")

    def to_stored(self, new: pa.Table) -> pa.Table:
        """Return incoming rows in the form in which they are written to base files.

        Each row has a new key or replaces a stored row; none is a delete. By default only the columns `FRESH`, `GONE` and `MADE`,
        which a write adds for mergers, are dropped.
        """
        return drop_marks(new)

    def merge(self, old: pa.Table, at: Positions, new: pa.Table) -> MergedPairs:
        """Merge pairs of a stored and an incoming row. Pair i is the row of `old` at position `at[i]`, and row i of `new`.

        The result says for each pair whether the stored row stays, is deleted or is replaced, and holds the new rows.

        Args:
            old: stored rows with all columns; some of them may be in no pair.
            at: the positions in `old`, one for each row of `new`.
        """
        names = dict.fromkeys(find_top_column(path, old.column_names) for path in self.needs)
        needed = old.select([name for name in names if name in old.column_names])
        return MergedPairs(self.resolve(take_rows(needed, at), new), self, old, at, new)

    def insert(self, new: pa.Table) -> tuple[Flags, pa.Table]:
        """Decide which incoming rows of new keys to write. By default all of them except deletes.

        Returns (mask over `new`, true for the rows to write; a table of only these rows, in their stored form).

        Args:
            new: incoming rows whose key has no stored row.
        """
        kept = ~self.is_delete(new)
        return kept, self.to_stored(new if kept.all() else new.filter(pa.array(kept)))

    def fold(self, runs: Runs) -> Folded:
        """Combine the rows of each run to one row with the same columns. A run is the rows of one key in a batch or log.

        The default picks the row with the greatest ordering value, the last one among equals.
        """
        ranks = None if self.ignores_ordering else runs.ranks
        return Folded(take_rows(runs.rows, find_newest(runs.starts, runs.rows.num_rows, ranks)))


@dataclass(frozen=True)
class MergedPairs:
    """The result of `Merger.merge` for (stored, incoming) pairs of rows with the same key.

    `choices` has the merger's choice for each pair: the stored row stays, is deleted or is replaced. `rows` returns the new rows.
    """

    choices: Choices
    _merger: Merger
    _old: pa.Table
    _at: Positions
    _new: pa.Table
    #: The rows of all pairs that are `BUILD`, if the merger built them in order to decide.
    _built: pa.Table | None = None

    def rows(self, choices: Choices) -> pa.Table:
        """Return the merged row of each (stored, incoming) pair whose choice is TAKE_NEW or BUILD, in the order of the pairs.

        Args:
            choices: the choices of this merge. For a row to be left out, its choice may be set to KEEP_OLD.
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
    """Return the rows of an Arrow table where the mask `flags` is true. If all flags are true, return `rows` itself."""
    return rows if flags.all() else rows.filter(pa.array(flags))
