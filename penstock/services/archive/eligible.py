"""Which instants may leave the timeline. Kernels: a timeline and options in, instants out.

An instant stays on the timeline:

- while there are only few commits;
- if it has a savepoint, or, unless the options say otherwise, comes after one;
- if it is later than a pending write or plan, so that the timeline gets no hole;
- if it is a delta commit that the trigger of compaction still counts;
- if it is a commit that cleaning has not passed yet.

`run.py` also holds back a replace commit whose file groups still have files: without the commit they would be read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from penstock import options as o
from penstock.options import Options
from penstock.services.clean.retention import earliest_retained
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State, parse_instant
from penstock.timeline.timeline import Timeline

#: Triggers of compaction that count delta commits.
_COUNTING_TRIGGERS = ("NUM_COMMITS", "NUM_AND_TIME")


@dataclass(frozen=True)
class ArchiveLimits:
    """Above `most` instants of a kind, the oldest are archived until `least` are left."""

    least: int
    most: int


def archive_limits(timeline: Timeline, options: Options, now: datetime) -> ArchiveLimits:
    """Return the limits of the options, raised to what cleaning still needs."""
    least = options[o.KEEP_MIN_COMMITS]
    most = options[o.KEEP_MAX_COMMITS]
    earliest = earliest_retained(timeline, options, now)
    if earliest is None:
        return ArchiveLimits(least, most)
    # As Hudi counts: the commits after the earliest retained one, that one itself, and one before it.
    needed = sum(write.time > earliest.time for write in timeline.writes) + 2
    return ArchiveLimits(max(least, needed), most + max(0, needed - least))


def archivable(timeline: Timeline, options: Options, now: datetime, *, merge_on_read: bool) -> list[Instant]:
    """Return the completed instants that may be archived, oldest first, as far as the timeline alone tells."""
    limits = archive_limits(timeline, options, now)
    commits = _archivable_commits(timeline, options, limits, merge_on_read)
    return sorted([*commits, *_archivable_services(timeline, limits)])


def _archivable_services(timeline: Timeline, limits: ArchiveLimits) -> list[Instant]:
    """Return the oldest cleans and rollbacks."""
    oldest: list[Instant] = []
    for action in (Action.CLEAN, Action.ROLLBACK):
        instants = timeline.filter(action, state=State.COMPLETED)
        if len(instants) > limits.most:
            oldest += instants[: len(instants) - limits.least]
    return oldest


def _archivable_commits(timeline: Timeline, options: Options, limits: ArchiveLimits, merge_on_read: bool) -> list[Instant]:
    writes = timeline.writes
    if len(writes) <= limits.most:
        return []
    savepoints = {instant.time for instant in timeline.filter(Action.SAVEPOINT, state=State.COMPLETED)}
    # Of each reason to stay, the time from which on commits do.
    ends = [_end_before_pending(timeline)]
    if merge_on_read:
        ends.append(_end_for_compaction(timeline, options))
    if not options[o.ARCHIVE_BEYOND_SAVEPOINT]:
        ends.append(min(savepoints, default=None))
    end = min((time for time in ends if time is not None), default=None)
    free = [write for write in writes if (end is None or write.time < end) and write.time not in savepoints]
    return free[: max(0, len(writes) - limits.least)]


def _end_before_pending(timeline: Timeline) -> str | None:
    """Return the commit before the oldest pending write or plan, or that write or plan if there is no commit before it."""
    oldest = next((instant.time for instant in timeline.pending if instant.action.family in WRITE_ACTIONS), None)
    if oldest is None:
        return None
    return max((write.time for write in timeline.writes if write.time < oldest), default=oldest)


def _end_for_compaction(timeline: Timeline, options: Options) -> str | None:
    """Return the oldest instant that counts for the trigger of compaction."""
    if options[o.COMPACT_TRIGGER_STRATEGY] not in _COUNTING_TRIGGERS:
        return None
    compactions = [write.time for write in timeline.writes if write.action is Action.COMMIT]
    last_compaction = compactions[-1] if compactions else None
    delta_commits = [
        write.time
        for write in timeline.writes
        if write.action is Action.DELTA_COMMIT and (last_compaction is None or write.time > last_compaction)
    ]
    threshold = options[o.COMPACT_MAX_DELTA_COMMITS]
    if len(delta_commits) >= threshold:
        return delta_commits[len(delta_commits) - threshold]
    return last_compaction or next(iter(delta_commits), None)


def states_of(names: Iterable[str], instants: Iterable[Instant]) -> list[str]:
    """Return the names of all files of some instants, those of one instant together and in the order of its states."""
    wanted = {(instant.time, instant.action.family) for instant in instants}
    files: list[tuple[str, Action, State, str]] = []
    for name in names:
        instant = parse_instant(name)
        if instant is not None and (instant.time, instant.action.family) in wanted:
            files.append((instant.time, instant.action.family, instant.state, name))
    files.sort(key=lambda file: file[:3])
    return [name for *_, name in files]
