"""The active timeline as a value: all instants with a file in `.hoodie`, each in its latest state. This module reads no files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State, parse_instant


@dataclass(frozen=True)
class Timeline:
    """The active timeline: its instants in order of time, each in its latest state."""

    instants: tuple[Instant, ...] = ()
    #: The names of the folders in `.hoodie`, as the listing of the timeline showed them; None: it is not known.
    folders: frozenset[str] | None = field(default=None, compare=False)

    def may_have_folder(self, name: str) -> bool:
        """Whether `.hoodie` may have a folder of this name, by the listing of the timeline; true if its folders are not known.

        If not, the caller need not look for the folder on storage.
        """
        return self.folders is None or name in self.folders

    @staticmethod
    def from_names(names: Iterable[str], folders: Iterable[str] | None = None) -> Timeline:
        """Build the timeline from the names of all files in `.hoodie`. A name that is not that of a timeline file is ignored.

        Args:
            folders: the names of the folders in `.hoodie`; None: they are not known.
        """
        latest: dict[tuple[str, Action], Instant] = {}
        for name in names:
            instant = parse_instant(name)
            if instant is None:
                continue
            # By family: a compaction is pending as `.compaction.inflight`, but its completed file is `.commit`.
            key = (instant.time, instant.action.family)
            if key not in latest or latest[key].state < instant.state:
                latest[key] = instant
        return Timeline(tuple(sorted(latest.values())), None if folders is None else frozenset(folders))

    @cached_property
    def writes(self) -> tuple[Instant, ...]:
        """The completed commits, delta commits and replace commits, oldest first."""
        return tuple(i for i in self.instants if i.is_completed and i.action in WRITE_ACTIONS)

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """The instants that are requested or inflight, not completed, oldest first."""
        return tuple(i for i in self.instants if not i.is_completed)

    @property
    def pending_restore(self) -> Instant | None:
        """The restore that has not completed; None if there is none.

        Until the restore completes, no other action may change the table.
        """
        return next((instant for instant in self.filter(Action.RESTORE) if not instant.is_completed), None)

    @property
    def last_write(self) -> Instant | None:
        """The newest completed commit, delta commit or replace commit; None if there is none."""
        return self.writes[-1] if self.writes else None

    @property
    def last_time(self) -> str | None:
        """The latest time among all instants, whatever their state; None if the timeline is empty."""
        return self.instants[-1].time if self.instants else None

    def filter(self, *actions: Action, state: State | None = None) -> tuple[Instant, ...]:
        """Return the instants of these actions, oldest first.

        Args:
            state: return only instants in this state; None: in any state.
        """
        return tuple(i for i in self.instants if i.action in actions and (state is None or i.state is state))

    @cached_property
    def completed_times(self) -> frozenset[str]:
        """The instant times of completed commits, delta commits and replace commits."""
        return frozenset(i.time for i in self.writes)

    @cached_property
    def pending_times(self) -> frozenset[str]:
        """The instant times of all instants that are requested or inflight."""
        return frozenset(i.time for i in self.pending)

    @cached_property
    def start(self) -> str | None:
        """The time of the first write of the active timeline; None if there is no write. All earlier writes are archived.

        Archival keeps a commit with a savepoint, but archives later commits. So the start is the first write without a savepoint,
        or the first write if all have one.
        """
        if not self.writes:
            return None
        savepoint_times = {i.time for i in self.filter(Action.SAVEPOINT)}
        return next((i.time for i in self.writes if i.time not in savepoint_times), self.writes[0].time)

    def is_visible(self, time: str) -> bool:
        """Whether data files whose names have this instant time belong to the table: the write of that time has completed.

        A write before the start of the active timeline was archived, and only completed writes are archived. So its time counts
        as completed, unless an instant of that time is pending.
        """
        if time in self.completed_times:
            return True
        return self.start is not None and time < self.start and time not in self.pending_times
