"""Instants: one action on the table at one time, in one state; and the names of their files.

A file below `.hoodie` is `<time>.<action>`, `<time>.<action>.requested` or `<time>.<action>.inflight`, except that the
inflight file of a commit is `<time>.inflight`. A file with any other name is not part of the timeline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from penstock.errors import OptionError


class Action(str, Enum):
    """What an instant does, as spelled on disk."""

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
        """The action under which it completes: a compaction becomes a commit, a log compaction a delta commit."""
        return _COMPLETES_AS.get(self, self)


_COMPLETES_AS = {Action.COMPACTION: Action.COMMIT, Action.LOG_COMPACTION: Action.DELTA_COMMIT}

#: Actions that add data files when they complete.
WRITE_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})


class State(int, Enum):
    """How far an instant has come."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


@dataclass(frozen=True, order=True)
class Instant:
    """An action at a time, in a state. Times are compared as text."""

    time: str
    action: Action
    state: State

    @property
    def file_name(self) -> str:
        """The name of this state's file below `.hoodie`."""
        if self.state is State.COMPLETED:
            return f"{self.time}.{self.action.family.value}"
        if self.state is State.INFLIGHT and self.action is Action.COMMIT:
            return f"{self.time}.inflight"
        return f"{self.time}.{self.action.value}.{self.state.name.lower()}"

    @property
    def is_completed(self) -> bool:
        """Whether the result of the action is part of the table."""
        return self.state is State.COMPLETED

    def in_state(self, state: State) -> Instant:
        """Return the same instant in another state."""
        return Instant(self.time, self.action, state)


_NAME = re.compile(r"([0-9]+)\.(\w+)(?:\.(requested|inflight))?")
_STATES = {"requested": State.REQUESTED, "inflight": State.INFLIGHT, None: State.COMPLETED}
_ACTIONS = {a.value: a for a in Action}


def parse_instant(file_name: str) -> Instant | None:
    """Return the instant of a file name; None if the file is not part of the timeline."""
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
    """Return a wall-clock moment as the time of an instant: `yyyyMMddHHmmssSSS`."""
    return at.strftime("%Y%m%d%H%M%S") + f"{at.microsecond // 1000:03d}"


def parse_time(text: str) -> datetime:
    """Return the wall-clock moment, without a zone, of the time of an instant.

    Old releases of Hudi write 14 digits. Such a time is the end of its second, after all instants of that second.
    """
    digits = text if len(text) > 14 else text + "999"
    return datetime.strptime(digits[:14], "%Y%m%d%H%M%S") + timedelta(milliseconds=int(digits[14:17] or 0))


def next_time(last: str | None, now: str) -> str:
    """Return `now`; or the millisecond after `last`, if the clock is not past it."""
    if last is None or now > last:
        return now
    return format_time(parse_time(last[:TIME_LENGTH]) + timedelta(milliseconds=1))


def _is_time(text: str) -> bool:
    """Whether a text is the time of an instant, of this or an older release of Hudi."""
    if not re.fullmatch("[0-9]{17}|[0-9]{14}", text):
        return False
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def parse_query_time(text: str, option: str = "as.of.instant") -> str:
    """Return the time of an instant from a time as users write it; without milliseconds, the end of the second.

    Raises:
        OptionError: the text is not a time.
    """
    text = text.strip()
    return text if _is_time(text) else _wall_clock(text, option, "999")


def parse_bound_time(text: str, option: str) -> str:
    """Return one end of a range of instants. Digits are taken unchanged; a date with a time is the end of its second.

    So if one range ends and the next one begins at the same text, every instant is in exactly one of them.

    Raises:
        OptionError: the text is neither.
    """
    text = text.strip()
    return text if re.fullmatch("[0-9]+", text) else _wall_clock(text, option, "999")


def _wall_clock(text: str, option: str, milliseconds: str) -> str:
    """Return the time of an instant from a date with or without a time. Raise OptionError if the text is not one.

    Args:
        milliseconds: what to add to a time of whole seconds. A date is its midnight.
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
