"""The active timeline as a value: all instants below `.hoodie`, each in its latest state. A kernel, which reads no files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State, parse_instant


@dataclass(frozen=True)
class Timeline:
    """Instants in order of time, each in the latest state that has a file."""

    instants: tuple[Instant, ...] = ()

    @staticmethod
    def from_names(names: Iterable[str]) -> Timeline:
        """Return the timeline of the files in `.hoodie`."""
        latest: dict[tuple[str, Action], Instant] = {}
        for name in names:
            instant = parse_instant(name)
            if instant is None:
                continue
            # By family: the completed file of a compaction is that of a commit.
            key = (instant.time, instant.action.family)
            if key not in latest or latest[key].state < instant.state:
                latest[key] = instant
        return Timeline(tuple(sorted(latest.values())))

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
        """The greatest time of all instants, in any state."""
        return self.instants[-1].time if self.instants else None

    def filter(self, *actions: Action, state: State | None = None) -> tuple[Instant, ...]:
        """Return the instants of some actions, oldest first; only those in one state, if it is given."""
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
        """The time at which the active timeline begins: earlier writes have been archived. None if there is no write.

        Archival leaves a commit with a savepoint behind and archives later ones. So such a commit is not the start, unless
        there is no other.
        """
        if not self.writes:
            return None
        savepoint_times = {i.time for i in self.filter(Action.SAVEPOINT)}
        return next((i.time for i in self.writes if i.time not in savepoint_times), self.writes[0].time)

    def is_visible(self, time: str) -> bool:
        """Whether files that were written at this time belong to the table.

        A write before the start of the active timeline was archived. Only completed writes are archived.
        """
        if time in self.completed_times:
            return True
        return self.start is not None and time < self.start and time not in self.pending_times
