"""Decides which commits cleaning keeps readable, from the timeline and the options alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum

from penstock import options as o
from penstock.options import Options
from penstock.options.clean import cleaning_policy
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, format_time
from penstock.timeline.timeline import Timeline

#: Actions that, while pending, may still need files that existed when they began.
_HOLDING_ACTIONS = WRITE_ACTIONS | {Action.COMPACTION}


class CleanPolicy(str, Enum):
    """The cleaning policy: keep the newest commits, the last hours or the newest file versions.

    The values are those of `hoodie.cleaner.policy`.
    """

    COMMITS = "KEEP_LATEST_COMMITS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    HOURS = "KEEP_LATEST_BY_HOURS"


def clean_policy(options: Options) -> CleanPolicy:
    """Return the cleaning policy that `hoodie.cleaner.policy` names."""
    return CleanPolicy(cleaning_policy(options))


def earliest_retained(timeline: Timeline, options: Options, now: datetime) -> Instant | None:
    """Return the oldest commit that stays readable: a clean keeps all files that a query as of this commit reads.

    Return None if the policy counts file versions, or if there are too few commits to clean.

    Args:
        now: the current time in the timeline's time zone.
    """
    policy = clean_policy(options)
    if policy is CleanPolicy.COMMITS:
        return _earliest_of_newest(timeline, timeline.writes, options[o.CLEANER_COMMITS_RETAINED])
    if policy is CleanPolicy.HOURS:
        since = format_time(now - timedelta(hours=options[o.CLEANER_HOURS_RETAINED]))
        return next((write for write in timeline.writes if write.time >= since), None)
    return None


def _earliest_of_newest(timeline: Timeline, writes: Sequence[Instant], retained: int) -> Instant | None:
    """Return the oldest of the newest `retained` commits.

    A pending write or compaction may still need files that existed when it began. So if one began before that commit, return
    the last commit before it began instead. Return None if there are not more than `retained` commits, or if no commit is
    before the pending instant.

    Args:
        writes: the completed commits, oldest first.
        retained: how many commits the options ask to keep readable.
    """
    if not 0 < retained < len(writes):
        return None
    earliest = writes[len(writes) - retained]
    pending = next((instant.time for instant in timeline.pending if instant.action in _HOLDING_ACTIONS), None)
    if pending is None or earliest.time <= pending:
        return earliest
    return next((write for write in reversed(writes) if write.time < pending), None)
