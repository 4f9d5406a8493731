"""The only module that reads the time and makes random ids.

All other modules call these functions or receive the values as arguments, so that kernels are repeatable and tests can replace
time and ids in one place.
"""

from __future__ import annotations

import time
import uuid
from datetime import datetime, timezone


def now_ms() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Return the seconds of a clock that never goes back, for measuring durations."""
    return time.perf_counter()


def local_now() -> datetime:
    """Return the current time in the machine's own time zone."""
    return datetime.now().astimezone()


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(timezone.utc)


def sleep_s(seconds: float) -> None:
    """Wait for a number of seconds."""
    time.sleep(seconds)


def new_uuid() -> str:
    """Return a new random id: the first part of a new file group's id, or a part of a temporary name."""
    return str(uuid.uuid4())
