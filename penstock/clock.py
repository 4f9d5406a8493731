"""The one place that asks for the time, for random numbers and for ids.

Everything else takes them as values, so that kernels are repeatable and tests can fix them.
"""

from __future__ import annotations

import time
import uuid
from datetime import datetime, timezone


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds of a clock that only goes forward, for measuring durations."""
    return time.perf_counter()


def local_now() -> datetime:
    """The wall clock in the machine's own zone."""
    return datetime.now().astimezone()


def utc_now() -> datetime:
    """The wall clock in UTC."""
    return datetime.now(timezone.utc)


def sleep_s(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def new_uuid() -> str:
    """A fresh random id, as the first part of a new file group's id."""
    return str(uuid.uuid4())
