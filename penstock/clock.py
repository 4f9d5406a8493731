"""The only module that reads the clock and makes random ids.

All other modules call these functions or receive the values as arguments, so that kernels are repeatable and tests can replace
time and ids in one place.
"""

from __future__ import annotations

import random
import time
import uuid
from datetime import datetime, timezone

#: Linux has a clock of its own that counts a suspended laptop; the monotonic clock of other systems counts it too.
_SUSPEND_AWARE = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Return the seconds of a clock that never goes back. Only differences mean something: durations."""
    return time.perf_counter()


def elapsed_s() -> float:
    """Return the seconds of a clock that never goes back and also counts while the machine is suspended, for leases."""
    return time.clock_gettime(_SUSPEND_AWARE)


def local_now() -> datetime:
    """Return the current time, in the machine's own time zone."""
    return datetime.now().astimezone()


def utc_now() -> datetime:
    """Return the current time, in UTC."""
    return datetime.now(timezone.utc)


def sleep_s(seconds: float) -> None:
    """Pause the thread for a number of seconds."""
    time.sleep(seconds)


def new_uuid() -> str:
    """Return a new random UUID as text, for file ids and temporary names."""
    return str(uuid.uuid4())


def derive_uuid(seed: str, name: str) -> str:
    """Return the UUID that belongs to a name: the same seed and name always have the same UUID.

    Args:
        seed: a UUID, as text.
    """
    return str(uuid.uuid5(uuid.UUID(seed), name))


def random_fraction() -> float:
    """Return a random number from 0 to 1, for waits that must differ between processes."""
    return random.random()
