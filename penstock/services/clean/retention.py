"""What cleaning keeps: the policy of the options, and the earliest commit whose files all stay. Kernels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum

from penstock import options as o
from penstock.options import Options
from penstock.options.clean import cleaning_policy
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, format_time
from penstock.timeline.timeline import Timeline

#: Actions that may still need, while they are pending, the files that were there when they began.
_HOLDING_ACTIONS = WRITE_ACTIONS | {Action.COMPACTION}


class CleanPolicy(str, Enum):
    """What decides which versions of a file group stay, in Hudi's words."""

    COMMITS = "KEEP_LATEST_COMMITS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    HOURS = "KEEP_LATEST_BY_HOURS"


def clean_policy(options: Options) -> CleanPolicy:
    """Return the policy of the options."""
    return CleanPolicy(cleaning_policy(options))


def earliest_retained(timeline: Timeline, options: Options, now: datetime) -> Instant | None:
    """Return the earliest commit whose files all stay; None where the policy has none, or there are too few commits.

    Args:
        now: the wall clock in the zone of the timeline.
    """
    policy = clean_policy(options)
    if policy is CleanPolicy.COMMITS:
        return _earliest_of_newest(timeline, timeline.writes, options[o.CLEANER_COMMITS_RETAINED])
    if policy is CleanPolicy.HOURS:
        since = format_time(now - timedelta(hours=options[o.CLEANER_HOURS_RETAINED]))
        return next((write for write in timeline.writes if write.time >= since), None)
    return None


def _earliest_of_newest(timeline: Timeline, writes: Sequence[Instant], retained: int) -> Instant | None:
    """Return the earliest of so many newest commits, or the last commit before a pending write if that is earlier."""
    if not 0 < retained < len(writes):
        return None
    earliest = writes[len(writes) - retained]
    pending = next((instant.time for instant in timeline.pending if instant.action in _HOLDING_ACTIONS), None)
    if pending is None or earliest.time <= pending:
        return earliest
    return next((write for write in reversed(writes) if write.time < pending), None)
