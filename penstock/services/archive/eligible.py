"""Which instants may leave the timeline. Kernels: a timeline and options in, instants out.

What holds one back: too few commits; a savepoint; a write or plan that is not finished, before which no hole may come to be;
delta commits that the trigger of compaction still counts; commits that cleaning has not passed. A replace commit whose file
groups still have files, which would be seen again without it, is held back in `run.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from penstock import options as o
from penstock.options import Options
from penstock.services.clean.retention import earliest_retained
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State, parse_instant
from penstock.timeline.timeline import Timeline

_COUNTING_TRIGGERS = ("NUM_COMMITS", "NUM_AND_TIME")


@dataclass(frozen=True)
class ArchiveLimits:
    """How many instants of a kind stay, and from how many on the oldest go."""

    least: int
    most: int


def archive_limits(timeline: Timeline, options: Options, now: datetime) -> ArchiveLimits:
    """The limits that the options ask for, raised to what cleaning still needs."""
    least = options[o.KEEP_MIN_COMMITS]
    most = options[o.KEEP_MAX_COMMITS]
    earliest = earliest_retained(timeline, options, now)
    if earliest is None:
        return ArchiveLimits(least, most)
    needed = sum(i.time > earliest.time for i in timeline.writes) + 2
    return ArchiveLimits(max(least, needed), most + max(0, needed - least))


def archivable(timeline: Timeline, options: Options, now: datetime, *, merge_on_read: bool) -> list[Instant]:
    """Completed instants that may be archived, oldest first; of replace commits only storage tells whether they may."""
    limits = archive_limits(timeline, options, now)
    commits = _commits(timeline, options, limits, merge_on_read)
    return sorted([*commits, *_others(timeline, limits)])


def _others(timeline: Timeline, limits: ArchiveLimits) -> Iterator[Instant]:
    """The oldest cleans and rollbacks."""
    for action in (Action.CLEAN, Action.ROLLBACK):
        instants = timeline.of(action, state=State.COMPLETED)
        if len(instants) > limits.most:
            yield from instants[: len(instants) - limits.least]


def _commits(timeline: Timeline, options: Options, limits: ArchiveLimits, merge_on_read: bool) -> Iterator[Instant]:
    writes = timeline.writes
    if len(writes) <= limits.most:
        return
    ends = [_before_pending(timeline), _for_compaction(timeline, options) if merge_on_read else None]
    savepoints = {i.time for i in timeline.of(Action.SAVEPOINT, state=State.COMPLETED)}
    if not options[o.ARCHIVE_BEYOND_SAVEPOINT]:
        ends += sorted(savepoints)[:1]
    end = min((time for time in ends if time is not None), default=None)
    free = (i for i in writes if (end is None or i.time < end) and i.time not in savepoints)
    yield from (instant for _, instant in zip(range(len(writes) - limits.least), free, strict=False))


def _before_pending(timeline: Timeline) -> str | None:
    """The commit before the oldest write or plan that is not finished; that one itself where there is none before."""
    oldest = next((i.time for i in timeline.pending if i.action.family in WRITE_ACTIONS), None)
    if oldest is None:
        return None
    return max((i.time for i in timeline.writes if i.time < oldest), default=oldest)


def _for_compaction(timeline: Timeline, options: Options) -> str | None:
    """The oldest instant that counts for the trigger of compaction."""
    if options[o.COMPACT_TRIGGER_STRATEGY] not in _COUNTING_TRIGGERS:
        return None
    compactions = [i.time for i in timeline.writes if i.action is Action.COMMIT]
    last = compactions[-1] if compactions else None
    deltas = [i.time for i in timeline.writes if i.action is Action.DELTA_COMMIT and (last is None or i.time > last)]
    most = options[o.COMPACT_MAX_DELTA_COMMITS]
    if len(deltas) < most:
        return last or next(iter(deltas), None)
    return deltas[len(deltas) - most]


def states_of(names: Iterable[str], instants: Iterable[Instant]) -> list[str]:
    """All files of some instants, by name, those of one instant together and in the order of its states."""
    wanted = {(i.time, i.action.family) for i in instants}
    parsed = [(i, name) for name in names if (i := parse_instant(name)) and (i.time, i.action.family) in wanted]
    return [name for _, name in sorted(parsed, key=lambda one: (one[0].time, one[0].action.family, one[0].state))]
