"""Mergers that choose one of two rows as a whole: the row that came later, or the row with the greater ordering value.

Each class names the Hudi payload or merge mode that it implements.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.merge.deletes import DeleteMarker, delete_flags
from penstock.merge.kernels.gather import Flags, take_rows
from penstock.merge.kernels.ordering import stored_is_as_new, stored_is_newer
from penstock.merge.kernels.runs import Folded, Runs
from penstock.merge.merger import Merger
from penstock.merge.payload_settings import PayloadSettings
from penstock.merge.row_choice import Choice, Choices


@dataclass(frozen=True)
class OverwriteWithLatest(Merger):
    """OverwriteWithLatestAvroPayload: the incoming row always replaces the stored one.

    Among several rows of a key in a batch or log, the row with the greatest ordering value wins.
    """

    marker: DeleteMarker | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        return _marker_columns(self.marker)

    def is_delete(self, new: pa.Table) -> Flags:
        return _deletes(new, self.marker)


@dataclass(frozen=True)
class CommitTimeOrdering(OverwriteWithLatest):
    """COMMIT_TIME_ORDERING and HoodieAvroPayload: of the rows of a key, the one that came last wins, also in a batch or log."""

    ignores_ordering = True


@dataclass(frozen=True)
class EventTimeOrdering(Merger):
    """EVENT_TIME_ORDERING and DefaultHoodieRecordPayload: the greater ordering value wins; if equal, the incoming row wins.

    A stored row without an ordering value loses, for example a row written before the table had the ordering column.
    """

    ordering: str
    marker: DeleteMarker | None = None

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return the merger for the table's ordering column.

        If the table has no ordering column, return a merger in which the incoming row always wins.
        """
        if settings.ordering is None:
            return OverwriteWithLatest(settings.marker)
        return cls(settings.ordering, settings.marker)

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,)

    @property
    def reads(self) -> tuple[str, ...]:
        return _marker_columns(self.marker)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        taken = np.where(self.is_delete(new), Choice.DELETE, Choice.TAKE_NEW)
        return np.where(stored_is_newer(old, new, self.ordering), Choice.KEEP_OLD, taken)

    def is_delete(self, new: pa.Table) -> Flags:
        return _deletes(new, self.marker)


@dataclass(frozen=True)
class FirstValue(EventTimeOrdering):
    """FirstValueAvroPayload: the greater ordering value wins; if equal, the earlier row wins."""

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        choices = super().resolve(old, new)
        return np.where(stored_is_as_new(old, new, self.ordering), Choice.KEEP_OLD, choices)

    def fold(self, runs: Runs) -> Folded:
        if runs.ranks is None:
            return Folded(take_rows(runs.rows, runs.starts))
        # lexsort is stable, so the first row of each run is the earliest one among those with the greatest ordering value.
        newest_first = np.lexsort((-runs.ranks, runs.run_of))
        return Folded(take_rows(runs.rows, newest_first[runs.starts]))


@dataclass(frozen=True)
class EventTimeAvro(Merger):
    """EventTimeAvroPayload: the greater ordering value wins; if equal, the incoming row wins. A delete always deletes."""

    ordering: str

    @classmethod
    def from_settings(cls, settings: PayloadSettings) -> Merger:
        """Return the merger for the table's ordering column.

        If the table has no ordering column, return a merger in which the incoming row always wins.
        """
        return cls(settings.ordering) if settings.ordering else OverwriteWithLatest()

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.ordering,)

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        deletes = self.is_delete(new)
        # Deletes are not compared, so they may lack an ordering value.
        kept = np.where(stored_is_newer(old, new, self.ordering, ~deletes), Choice.KEEP_OLD, Choice.TAKE_NEW)
        return np.where(deletes, Choice.DELETE, kept)


@dataclass(frozen=True)
class AlwaysDelete(Merger):
    """EmptyHoodieRecordPayload, and the delete operation: every incoming key is deleted, whatever its ordering value."""

    ignores_ordering = True

    def resolve(self, old: pa.Table, new: pa.Table) -> Choices:
        return np.full(new.num_rows, Choice.DELETE, np.int8)

    def is_delete(self, new: pa.Table) -> Flags:
        return np.ones(new.num_rows, np.bool_)


def _deletes(rows: pa.Table, marker: DeleteMarker | None) -> Flags:
    """Return a mask over the rows, true for deletes: by the delete marker if there is one, otherwise by `_hoodie_is_deleted`."""
    return marker.marks(rows) if marker else delete_flags(rows)


def _marker_columns(marker: DeleteMarker | None) -> tuple[str, ...]:
    """Return a tuple with the name of the delete marker's column; empty if `marker` is None."""
    return (marker.column,) if marker else ()
