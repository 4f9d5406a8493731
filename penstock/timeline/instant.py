"""Instants and the names of their files. An instant is one action on the table at one time, in one state.

A file of the timeline in `.hoodie` is named `<time>.<action>`, `<time>.<action>.requested` or `<time>.<action>.inflight`. The
exception is the inflight file of a commit: `<time>.inflight`. A file with any other name is not part of the timeline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from penstock.errors import OptionError


class Action(str, Enum):
    """The action of an instant, as spelled in the names of its files."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    REPLACE_COMMIT = "replacecommit"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"

    @property
    def family(self) -> Action:
        """The action in the name of the completed file: `commit` for a compaction, `deltacommit` for a log compaction.

        For any other action, the action itself.
        """
        return _COMPLETES_AS.get(self, self)


_COMPLETES_AS = {Action.COMPACTION: Action.COMMIT, Action.LOG_COMPACTION: Action.DELTA_COMMIT}

#: Actions that add data files when they complete.
WRITE_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})


class State(int, Enum):
    """The state of an instant: requested, inflight (running) or completed."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


@dataclass(frozen=True, order=True)
class Instant:
    """One action on the table at one time, in one state. Times are compared as strings."""

    time: str
    action: Action
    state: State

    @property
    def file_name(self) -> str:
        """The name of the instant's file in `.hoodie`, for its state."""
        if self.state is State.COMPLETED:
            return f"{self.time}.{self.action.family.value}"
        if self.state is State.INFLIGHT and self.action is Action.COMMIT:
            return f"{self.time}.inflight"
        return f"{self.time}.{self.action.value}.{self.state.name.lower()}"

    @property
    def is_completed(self) -> bool:
        """Whether the action has completed, so that its result is part of the table."""
        return self.state is State.COMPLETED

    def in_state(self, state: State) -> Instant:
        """Return a copy of the instant in the state `state`. Writes no file."""
        return Instant(self.time, self.action, state)


_NAME = re.compile(r"([0-9]+)\.(\w+)(?:\.(requested|inflight))?")
_STATES = {"requested": State.REQUESTED, "inflight": State.INFLIGHT, None: State.COMPLETED}
_ACTIONS = {a.value: a for a in Action}


def parse_instant(file_name: str) -> Instant | None:
    """Parse the name of a file in `.hoodie` to an instant; return None if the file is not part of the timeline."""
    match = _NAME.fullmatch(file_name)
    if not match:
        return None
    time, word, state = match.groups()
    if word == "inflight" and state is None:
        return Instant(time, Action.COMMIT, State.INFLIGHT)
    action = _ACTIONS.get(word)
    if action is None:
        return None
    return Instant(time, action, _STATES[state])


TIME_LENGTH = 17


def format_time(at: datetime) -> str:
    """Format a date and time as an instant time, `yyyyMMddHHmmssSSS`."""
    return at.strftime("%Y%m%d%H%M%S") + f"{at.microsecond // 1000:03d}"


def parse_time(text: str) -> datetime:
    """Parse an instant time to a date and time without a zone.

    Old releases of Hudi write 14 digits, without milliseconds. Then the result is the last millisecond of that second, as Hudi
    reads it.
    """
    digits = text if len(text) > 14 else text + "999"
    return datetime.strptime(digits[:14], "%Y%m%d%H%M%S") + timedelta(milliseconds=int(digits[14:17] or 0))


def next_time(last: str | None, now: str) -> str:
    """Return the time for a new instant, which must be later than the latest instant time `last`.

    The result is the current time `now` if it is later than `last`, or if `last` is None; otherwise the millisecond after `last`.
    """
    if last is None or now > last:
        return now
    return format_time(parse_time(last[:TIME_LENGTH]) + timedelta(milliseconds=1))


def _is_time(text: str) -> bool:
    """Whether a string is a valid instant time: 17 digits, or 14 as old releases of Hudi write it."""
    if not re.fullmatch("[0-9]{17}|[0-9]{14}", text):
        return False
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def parse_query_time(text: str, option: str = "as.of.instant") -> str:
    """Parse the time of a time travel query, written as an instant time or as a date with or without a time of day.

    Returns an instant time. An instant time is returned unchanged. A time of day without milliseconds becomes the last
    millisecond of its second. A date without a time of day becomes its midnight.

    Args:
        text: the time as the user wrote it.
        option: the name of the option whose value is `text`, for the error.

    Raises:
        OptionError: the text is neither an instant time nor a date.
    """
    text = text.strip()
    return text if _is_time(text) else _wall_clock(text, option, "999")


def parse_bound_time(text: str, option: str) -> str:
    """Parse the begin or end of a range of instants, written as digits or as a date with or without a time of day.

    Returns an instant time. Digits are returned unchanged. A time of day without milliseconds becomes the last millisecond of
    its second, a date without a time of day its midnight. The same string becomes the same instant time as a begin and as an end,
    so adjoining ranges neither overlap nor leave a gap.

    Args:
        text: the time as the user wrote it.
        option: the name of the option whose value is `text`, for the error.

    Raises:
        OptionError: the text is neither digits nor a date.
    """
    text = text.strip()
    return text if re.fullmatch("[0-9]+", text) else _wall_clock(text, option, "999")


def _wall_clock(text: str, option: str, milliseconds: str) -> str:
    """Parse a date with or without a time of day to an instant time. A date without a time of day becomes its midnight.

    Args:
        option: the name of the option whose value is `text`, for the error.
        milliseconds: the three digits to append to a time of day without milliseconds.

    Raises:
        OptionError: the string is not a date.
    """
    for pattern, suffix in (("%Y-%m-%d %H:%M:%S.%f", None), ("%Y-%m-%d %H:%M:%S", milliseconds), ("%Y-%m-%d", "000")):
        try:
            at = datetime.strptime(text, pattern)
        except ValueError:
            continue
        return format_time(at)[:14] + suffix if suffix else format_time(at)
    raise OptionError(
        f"{option}={text!r} is not a time: write yyyyMMddHHmmssSSS, yyyyMMddHHmmss, 'yyyy-MM-dd HH:mm:ss[.SSS]' or 'yyyy-MM-dd'"
    )
