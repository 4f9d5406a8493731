"""Whether a compaction is due: a kernel over the timeline. A new trigger is one entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock import options as o
from penstock.options import Options
from penstock.timeline.instant import Action, Instant, State, parse_time
from penstock.timeline.timeline import Timeline


@dataclass(frozen=True)
class Limits:
    """How much makes a compaction due."""

    commits: int
    seconds: int


@dataclass(frozen=True)
class Since:
    """What happened since the last compaction, or since the first delta commit where there was none."""

    #: Delta commits after the last completed compaction, finished or not.
    commits: int
    #: The same after the last one that was requested, if one still waits.
    commits_after_request: int
    seconds: float


TRIGGERS: dict[str, Callable[[Since, Limits], bool]] = {
    "NUM_COMMITS": lambda since, limits: since.commits >= limits.commits,
    "NUM_COMMITS_AFTER_LAST_REQUEST": lambda since, limits: since.commits_after_request >= limits.commits,
    "TIME_ELAPSED": lambda since, limits: since.seconds >= limits.seconds,
    "NUM_AND_TIME": lambda since, limits: since.commits >= limits.commits and since.seconds >= limits.seconds,
    "NUM_OR_TIME": lambda since, limits: since.commits >= limits.commits or since.seconds >= limits.seconds,
}


def is_due(timeline: Timeline, options: Options, now: str) -> bool:
    """Whether the options' trigger asks for a compaction at a time."""
    since = since_last(timeline, now)
    limits = Limits(options[o.COMPACT_MAX_DELTA_COMMITS], options[o.COMPACT_MAX_DELTA_SECONDS])
    return since is not None and TRIGGERS[options[o.COMPACT_TRIGGER_STRATEGY].upper()](since, limits)


def since_last(timeline: Timeline, now: str) -> Since | None:
    """What happened up to a time; None where there is nothing to compact at all."""
    deltas = timeline.of(Action.DELTA_COMMIT)
    done = timeline.of(Action.COMMIT, state=State.COMPLETED)
    waiting = [i for i in timeline.of(Action.COMPACTION) if not i.is_completed]
    if not deltas and not done:
        return None
    last = done[-1].time if done else deltas[0].time
    asked = waiting[-1].time if waiting else None
    commits = _after(deltas, done[-1].time if done else "")
    return Since(commits, _after(deltas, asked) if asked else commits, _seconds(last, now))


def _after(deltas: tuple[Instant, ...], time: str) -> int:
    return sum(delta.time > time for delta in deltas)


def _seconds(begin: str, end: str) -> float:
    """Whole seconds of the clock between two instants; for ever, if the first is not a time but a name for the beginning."""
    try:
        first, last = (parse_time(text).replace(microsecond=0) for text in (begin, end))
    except ValueError:
        return float("inf")
    return (last - first).total_seconds()
