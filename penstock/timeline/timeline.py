"""The active timeline as a value: which instants there are and how far each has come. A kernel, no files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State, parse_instant


@dataclass(frozen=True)
class Timeline:
    """Instants in order of time, each in the furthest state that has a file."""

    instants: tuple[Instant, ...] = ()

    @staticmethod
    def from_names(names: Iterable[str]) -> Timeline:
        """The timeline that a listing of `.hoodie` shows."""
        furthest: dict[tuple[str, Action], Instant] = {}
        for instant in filter(None, map(parse_instant, names)):
            key = (instant.time, instant.action.family)
            if key not in furthest or furthest[key].state < instant.state:
                furthest[key] = instant
        return Timeline(tuple(sorted(furthest.values())))

    @cached_property
    def writes(self) -> tuple[Instant, ...]:
        """Completed commits, delta commits and replace commits, oldest first."""
        return tuple(i for i in self.instants if i.is_completed and i.action in WRITE_ACTIONS)

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """Instants that are not completed, oldest first."""
        return tuple(i for i in self.instants if not i.is_completed)

    @property
    def pending_restore(self) -> Instant | None:
        """The restore that has not completed yet, if there is one. Until it has, nothing else may change the table."""
        return next((instant for instant in self.filter(Action.RESTORE) if not instant.is_completed), None)

    @property
    def last_write(self) -> Instant | None:
        """The newest completed write."""
        return self.writes[-1] if self.writes else None

    @property
    def last_time(self) -> str | None:
        """The greatest time of any instant, whatever its state."""
        return self.instants[-1].time if self.instants else None

    def filter(self, *actions: Action, state: State | None = None) -> tuple[Instant, ...]:
        """Instants of some actions, in one state if given."""
        return tuple(i for i in self.instants if i.action in actions and (state is None or i.state is state))

    @cached_property
    def completed_times(self) -> frozenset[str]:
        """Times of completed writes."""
        return frozenset(i.time for i in self.writes)

    @cached_property
    def pending_times(self) -> frozenset[str]:
        """Times of instants that are not completed."""
        return frozenset(i.time for i in self.pending)

    @cached_property
    def start(self) -> str | None:
        """Where the active timeline begins: what was written before has been archived.

        Archival may leave a savepointed commit behind and go on after it, so that one does not count.
        """
        kept = {i.time for i in self.filter(Action.SAVEPOINT)}
        return next((i.time for i in self.writes if i.time not in kept), self.writes[0].time if self.writes else None)

    def is_visible(self, time: str) -> bool:
        """Whether files written at this time belong to the table.

        A time before the start of the active timeline was archived, so it did complete.
        """
        if time in self.completed_times:
            return True
        return self.start is not None and time < self.start and time not in self.pending_times
