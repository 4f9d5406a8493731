"""Chooses the instants that may be archived. Only the timeline and the options decide; no file is read.

An instant stays on the timeline:

- while the timeline has at most `hoodie.keep.max.commits` commits;
- if it has a savepoint, or comes after a savepoint (unless `hoodie.archive.beyond.savepoint` is set);
- if it is later than a pending write or plan, because the timeline must not get a hole: a write that is missing between others
  counts as not completed, and its rows would disappear;
- if it is a delta commit that the compaction trigger still counts;
- if it is the earliest commit that cleaning retains, a later one, or the one commit before it, which Hudi keeps too.

`run.py` also keeps a replace commit while the file groups that it replaced have files: without the commit, queries would read
these files again.
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

#: Compaction triggers that count delta commits.
_COUNTING_TRIGGERS = ("NUM_COMMITS", "NUM_AND_TIME")


@dataclass(frozen=True)
class ArchiveLimits:
    """How many instants of one kind the timeline may have. Commits, cleans and rollbacks are counted separately.

    If there are more than `most`, the oldest are archived until `least` are left.
    """

    least: int
    most: int


def archive_limits(timeline: Timeline, options: Options, now: datetime) -> ArchiveLimits:
    """Return the limits of archiving: `hoodie.keep.min.commits` (`least`) and `hoodie.keep.max.commits` (`most`).

    If cleaning retains more commits than `hoodie.keep.min.commits`, both limits are raised by the difference.

    Args:
        now: the current time in the timeline's time zone.
    """
    least = options[o.KEEP_MIN_COMMITS]
    most = options[o.KEEP_MAX_COMMITS]
    earliest = earliest_retained(timeline, options, now)
    if earliest is None:
        return ArchiveLimits(least, most)
    # As Hudi counts: the commits after the earliest retained one, that one itself, and one before it.
    needed = sum(write.time > earliest.time for write in timeline.writes) + 2
    return ArchiveLimits(max(least, needed), most + max(0, needed - least))


def archivable(timeline: Timeline, options: Options, now: datetime, *, merge_on_read: bool) -> list[Instant]:
    """Return the completed instants that may be archived, oldest first. Only timeline and options decide; no file is read.

    Args:
        now: the current time in the timeline's time zone.
        merge_on_read: whether the table is merge-on-read. Then delta commits that the compaction trigger counts stay.
    """
    limits = archive_limits(timeline, options, now)
    commits = _archivable_commits(timeline, options, limits, merge_on_read)
    return sorted([*commits, *_archivable_services(timeline, limits)])


def _archivable_services(timeline: Timeline, limits: ArchiveLimits) -> list[Instant]:
    """Return the completed cleans and rollbacks that may be archived.

    If there are more than `limits.most` cleans, these are the oldest ones, so that `limits.least` are left. Rollbacks are
    counted in the same way, separately.
    """
    oldest: list[Instant] = []
    for action in (Action.CLEAN, Action.ROLLBACK):
        instants = timeline.filter(action, state=State.COMPLETED)
        if len(instants) > limits.most:
            oldest += instants[: len(instants) - limits.least]
    return oldest


def _archivable_commits(timeline: Timeline, options: Options, limits: ArchiveLimits, merge_on_read: bool) -> list[Instant]:
    """Return the completed commits that may be archived, oldest first; none if there are at most `limits.most` commits.

    These commits must stay:

    - commits with a savepoint
    - the first commit that a pending instant, the compaction trigger or a savepoint needs, and all later commits
    - as many of the newest commits as it takes for `limits.least` to stay in total

    Args:
        limits: how many commits the timeline may have.
        merge_on_read: whether the table is merge-on-read. Then the compaction trigger counts.
    """
    writes = timeline.writes
    if len(writes) <= limits.most:
        return []
    savepoints = {instant.time for instant in timeline.filter(Action.SAVEPOINT, state=State.COMPLETED)}
    # One entry per reason to stay: commits from this instant time on stay. None: the reason does not apply.
    ends = [_end_before_pending(timeline)]
    if merge_on_read:
        ends.append(_end_for_compaction(timeline, options))
    if not options[o.ARCHIVE_BEYOND_SAVEPOINT]:
        ends.append(min(savepoints, default=None))
    end = min((time for time in ends if time is not None), default=None)
    free = [write for write in writes if (end is None or write.time < end) and write.time not in savepoints]
    return free[: max(0, len(writes) - limits.least)]


def _end_before_pending(timeline: Timeline) -> str | None:
    """Return the instant time from which on commits must stay on the timeline because of pending writes and plans.

    This is the time of the last commit before the oldest pending write or plan. If there is no commit before it, this is the
    time of the pending write or plan itself. None if no write or plan is pending.
    """
    oldest = next((instant.time for instant in timeline.pending if instant.action.family in WRITE_ACTIONS), None)
    if oldest is None:
        return None
    return max((write.time for write in timeline.writes if write.time < oldest), default=oldest)


def _end_for_compaction(timeline: Timeline, options: Options) -> str | None:
    """Return the instant time from which on commits must stay on the timeline because the compaction trigger counts them.

    None if the trigger in the options does not count delta commits, or the timeline has none to count.
    """
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
    """Return the names of the timeline files of `instants`, sorted by instant time, then requested, inflight, completed.

    Args:
        names: the names of all files in the timeline folder.
    """
    wanted = {(instant.time, instant.action.family) for instant in instants}
    files: list[tuple[str, Action, State, str]] = []
    for name in names:
        instant = parse_instant(name)
        if instant is not None and (instant.time, instant.action.family) in wanted:
            files.append((instant.time, instant.action.family, instant.state, name))
    files.sort(key=lambda file: file[:3])
    return [name for *_, name in files]
