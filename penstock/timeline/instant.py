"""Instants: one action on the table at one time, in one state; and the names their files have.

A file under `.hoodie` is `<time>.<action>`, `<time>.<action>.requested` or `<time>.<action>.inflight`, except that the
inflight file of a commit is just `<time>.inflight`. Whatever does not look like that is somebody else's file.
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
        """The name of this state's file under `.hoodie`."""
        if self.state is State.COMPLETED:
            return f"{self.time}.{self.action.family.value}"
        if self.state is State.INFLIGHT and self.action is Action.COMMIT:
            return f"{self.time}.inflight"
        return f"{self.time}.{self.action.value}.{self.state.name.lower()}"

    @property
    def is_completed(self) -> bool:
        """Whether what it did is part of the table."""
        return self.state is State.COMPLETED

    def in_state(self, state: State) -> Instant:
        """The same instant in another state."""
        return Instant(self.time, self.action, state)


_NAME = re.compile(r"([0-9]+)\.(\w+)(?:\.(requested|inflight))?")
_STATES = {"requested": State.REQUESTED, "inflight": State.INFLIGHT, None: State.COMPLETED}
_ACTIONS = {a.value: a for a in Action}


def parse_instant(file_name: str) -> Instant | None:
    """The instant that a file name stands for, or None if it is not one."""
    match = _NAME.fullmatch(file_name)
    if not match:
        return None
    time, word, state = match.groups()
    if word == "inflight" and state is None:
        return Instant(time, Action.COMMIT, State.INFLIGHT)
    action = _ACTIONS.get(word)
    return Instant(time, action, _STATES[state]) if action else None


TIME_LENGTH = 17


def format_time(at: datetime) -> str:
    """A wall-clock moment as an instant's time: `yyyyMMddHHmmssSSS`."""
    return at.strftime("%Y%m%d%H%M%S") + f"{at.microsecond // 1000:03d}"


def parse_time(text: str) -> datetime:
    """The wall-clock moment (no zone) of an instant's time; 14-digit times are at the end of their second."""
    digits = text if len(text) > 14 else text + "999"
    return datetime.strptime(digits[:14], "%Y%m%d%H%M%S") + timedelta(milliseconds=int(digits[14:17] or 0))


def next_time(last: str | None, now: str) -> str:
    """`now`, or the millisecond after `last` if the clock has not passed it."""
    if last is None or now > last:
        return now
    return format_time(parse_time(last[:TIME_LENGTH]) + timedelta(milliseconds=1))


def _is_time(text: str) -> bool:
    """Whether a text is an instant's time, of this or an older Hudi."""
    if not re.fullmatch("[0-9]{17}|[0-9]{14}", text):
        return False
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def parse_query_time(text: str, option: str = "as.of.instant") -> str:
    """A time as users write it, as an instant's time; without milliseconds the end of the second.

    Raises:
        OptionError: the text is no time.
    """
    text = text.strip()
    return text if _is_time(text) else _wall_clock(text, option, "999")


def parse_bound_time(text: str, option: str) -> str:
    """A bound of a range of instants. Digits are compared as they are; a time in words is the end of its second.

    So where one range ends and the next begins with the same words, every instant is in one of them.

    Raises:
        OptionError: the text is neither.
    """
    text = text.strip()
    return text if re.fullmatch("[0-9]+", text) else _wall_clock(text, option, "999")


def _wall_clock(text: str, option: str, milliseconds: str) -> str:
    for pattern, suffix in (("%Y-%m-%d %H:%M:%S.%f", None), ("%Y-%m-%d %H:%M:%S", milliseconds), ("%Y-%m-%d", "000")):
        try:
            at = datetime.strptime(text, pattern)
        except ValueError:
            continue
        return format_time(at)[:14] + suffix if suffix else format_time(at)
    raise OptionError(
        f"{option}={text!r} is not a time: write yyyyMMddHHmmssSSS, yyyyMMddHHmmss, 'yyyy-MM-dd HH:mm:ss[.SSS]' or 'yyyy-MM-dd'"
    )
