"""`CommittedTimes`: which instants' log blocks a query reads."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.timeline.timeline import Timeline


@dataclass(frozen=True)
class CommittedTimes:
    """Decides whether a query reads a log block, by the block's instant. Pickled to the workers instead of the whole timeline.

    `start` is the first instant of the active timeline. An older instant that is not pending was archived, so it had completed.
    `as_of` is the instant of a time travel query. `skips_damaged`: damaged blocks are skipped and listed, not an error.
    """

    completed: frozenset[str]
    pending: frozenset[str] = frozenset()
    #: The first instant of the active timeline. An older instant that is not pending was archived, so it had completed.
    start: str | None = None
    as_of: str | None = None
    #: The table's base path, below which commits record the sizes of log files. They are read only for a damaged log file; None:
    #: the sizes are not known.
    base_path: str | None = None
    #: Whether damaged blocks of completed writes are skipped and listed. Otherwise they are an error.
    skips_damaged: bool = False

    def sees(self, instant: str) -> bool:
        """Whether a query reads log blocks of this instant: it completed, and is not later than `as_of`."""
        if instant in self.pending or (self.as_of is not None and instant > self.as_of):
            return False
        return instant in self.completed or (self.start is not None and instant < self.start)


def committed_times(timeline: Timeline, base_path: str, as_of: str | None = None) -> CommittedTimes:
    """Return the `CommittedTimes` of a query, by which it decides whether to read a log block.

    Args:
        as_of: the instant of a time travel query; None: the query reads the current table.
    """
    return CommittedTimes(timeline.completed_times, timeline.pending_times, timeline.start, as_of, base_path)
