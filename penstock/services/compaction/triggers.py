"""Compaction triggers: decide from the timeline alone whether a plan is due. A new trigger is one entry of `TRIGGERS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock import options as o
from penstock.options import Options
from penstock.timeline.instant import Action, Instant, State, parse_time
from penstock.timeline.timeline import Timeline


@dataclass(frozen=True)
class TriggerLimits:
    """The limits of the compaction trigger in the options: a number of delta commits, and a number of seconds."""

    commits: int
    seconds: int


@dataclass(frozen=True)
class SinceLast:
    """How many delta commits were made, and seconds have passed, since the last completed compaction.

    If the table was never compacted, both count from the first delta commit.
    """

    #: Number of delta commits, completed or pending, after the last completed compaction.
    commits: int
    #: Number of delta commits after the last pending compaction, if one is pending; otherwise equal to `commits`.
    commits_after_request: int
    seconds: float


TRIGGERS: dict[str, Callable[[SinceLast, TriggerLimits], bool]] = {
    "NUM_COMMITS": lambda since, limits: since.commits >= limits.commits,
    "NUM_COMMITS_AFTER_LAST_REQUEST": lambda since, limits: since.commits_after_request >= limits.commits,
    "TIME_ELAPSED": lambda since, limits: since.seconds >= limits.seconds,
    "NUM_AND_TIME": lambda since, limits: since.commits >= limits.commits and since.seconds >= limits.seconds,
    "NUM_OR_TIME": lambda since, limits: since.commits >= limits.commits or since.seconds >= limits.seconds,
}


def is_due(timeline: Timeline, options: Options, now: str) -> bool:
    """Whether a compaction is due, by the trigger that `hoodie.compact.inline.trigger.strategy` names.

    Args:
        now: the current time in the form of an instant time.
    """
    since = since_last(timeline, now)
    if since is None:
        return False
    limits = TriggerLimits(options[o.COMPACT_MAX_DELTA_COMMITS], options[o.COMPACT_MAX_DELTA_SECONDS])
    return TRIGGERS[options[o.COMPACT_TRIGGER_STRATEGY].upper()](since, limits)


def since_last(timeline: Timeline, now: str) -> SinceLast | None:
    """Count delta commits and seconds since the last completed compaction.

    Return None if the timeline has neither delta commits nor compactions.

    Args:
        now: the current time in the form of an instant time.
    """
    deltas = timeline.filter(Action.DELTA_COMMIT)
    # On a merge-on-read table writes are delta commits, so a completed commit is a compaction.
    compactions = timeline.filter(Action.COMMIT, state=State.COMPLETED)
    if not deltas and not compactions:
        return None
    last = compactions[-1].time if compactions else deltas[0].time
    commits = _count_after(deltas, compactions[-1].time if compactions else "")
    pending = [instant for instant in timeline.filter(Action.COMPACTION) if not instant.is_completed]
    commits_after_request = _count_after(deltas, pending[-1].time) if pending else commits
    return SinceLast(commits, commits_after_request, _seconds_between(last, now))


def _count_after(deltas: Sequence[Instant], time: str) -> int:
    """Return how many delta commits are later than the instant time `time`."""
    return sum(delta.time > time for delta in deltas)


def _seconds_between(begin: str, end: str) -> float:
    """Return the whole seconds between two instant times.

    Return infinity if one of them is not a date, for example the fixed instant time of Hudi's bootstrap.
    """
    try:
        first = parse_time(begin).replace(microsecond=0)
        last = parse_time(end).replace(microsecond=0)
    except ValueError:
        return float("inf")
    return (last - first).total_seconds()
