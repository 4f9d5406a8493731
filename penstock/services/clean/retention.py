"""What cleaning keeps: the policy in force, and the earliest commit whose files all stay. Kernels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum

from penstock import options as o
from penstock.options import Options
from penstock.options.clean import cleaning_policy
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, format_time
from penstock.timeline.timeline import Timeline

#: What a pending one of holds back: it may still need what was there when it began.
_HOLDING = WRITE_ACTIONS | {Action.COMPACTION}


class Policy(str, Enum):
    """What decides which versions stay, in Hudi's words."""

    COMMITS = "KEEP_LATEST_COMMITS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    HOURS = "KEEP_LATEST_BY_HOURS"


def policy_of(options: Options) -> Policy:
    """The policy in force."""
    return Policy(cleaning_policy(options))


def earliest_retained(timeline: Timeline, options: Options, now: datetime) -> Instant | None:
    """The earliest commit whose files all stay; None where the policy, or how few commits there are, gives none.

    Args:
        now: the wall clock in the zone of the timeline.
    """
    policy = policy_of(options)
    writes = timeline.writes
    if policy is Policy.COMMITS:
        return _before_pending(timeline, writes, options[o.CLEANER_COMMITS_RETAINED])
    if policy is Policy.HOURS:
        since = format_time(now - timedelta(hours=options[o.CLEANER_HOURS_RETAINED]))
        return next((i for i in writes if i.time >= since), None)
    return None


def _before_pending(timeline: Timeline, writes: Sequence[Instant], retained: int) -> Instant | None:
    """The earliest of the newest commits; a write that is not finished holds it at the commit before."""
    if not 0 < retained < len(writes):
        return None
    chosen = writes[len(writes) - retained]
    pending = next((i.time for i in timeline.pending if i.action in _HOLDING), None)
    if pending is None or chosen.time <= pending:
        return chosen
    return next((i for i in reversed(writes) if i.time < pending), None)
