"""The ages of the rows of a commit by event time, which its extra metadata holds."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import clock
from penstock.merge.kernels.event_time import EventTimeSpan
from penstock.timeline.commit_file import WriteStat

#: Keys in the extra metadata of a commit: the age of the newest and of the oldest row that it changed, by event time.
FRESHNESS_MS = "penstock.freshness.ms"
LATENCY_MS = "penstock.latency.ms"


def measure_row_ages(stats: Sequence[WriteStat]) -> dict[str, str]:
    """Return entries for the extra metadata: the ages of the newest and the oldest changed row by event time, in milliseconds.

    Return an empty dict if the write stats have no event times.
    """
    times = EventTimeSpan()
    for stat in stats:
        times = times.extend(EventTimeSpan(stat.min_event_time, stat.max_event_time))
    now = clock.now_ms()
    ages = {FRESHNESS_MS: times.freshness_ms(now), LATENCY_MS: times.latency_ms(now)}
    return {key: str(age) for key, age in ages.items() if age is not None}
