"""When a compaction is due: every trigger over every kind of timeline."""

from __future__ import annotations

import pytest

from penstock.options import read_options
from penstock.services.compaction.triggers import TRIGGERS, is_due, since_last
from penstock.timeline.timeline import Timeline

TRIGGER = "hoodie.compact.inline.trigger.strategy"
COMMITS = "hoodie.compact.inline.max.delta.commits"
SECONDS = "hoodie.compact.inline.max.delta.seconds"

NAMES = tuple(TRIGGERS)
TWO = "20260101000000000.deltacommit 20260101000100000.deltacommit"
SOON, LATE = "20260101000110000", "20260101010000000"


def due(timeline: str, now: str, trigger: str, commits: int = 2, seconds: int = 3600) -> bool:
    options = read_options({TRIGGER: trigger, COMMITS: commits, SECONDS: seconds})
    return is_due(Timeline.from_names(timeline.split()), options, now)


@pytest.mark.parametrize(
    ("commits", "now", "expected"),
    [
        (2, LATE, {"NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"}),
        (2, SOON, {"NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "NUM_OR_TIME"}),
        (3, LATE, {"TIME_ELAPSED", "NUM_OR_TIME"}),
        (3, SOON, set()),
    ],
    ids=["both", "number only", "time only", "neither"],
)
def test_each_trigger_asks_for_what_its_name_says(commits: int, now: str, expected: set[str]) -> None:
    assert {name for name in NAMES if due(TWO, now, name, commits)} == expected


def test_delta_commits_before_the_last_compaction_do_not_count() -> None:
    compacted = f"{TWO} 20260101000105000.compaction.requested 20260101000105000.commit"
    assert not due(compacted, SOON, "NUM_COMMITS", 1)
    assert due(f"{compacted} 20260101000107000.deltacommit", SOON, "NUM_COMMITS", 1)


def test_time_runs_from_the_last_compaction() -> None:
    compacted = f"{TWO} 20260101000105000.commit"
    assert not due(compacted, SOON, "TIME_ELAPSED", seconds=6)
    assert due(compacted, SOON, "TIME_ELAPSED", seconds=5)


def test_after_the_last_request_only_later_delta_commits_count_while_a_plan_waits() -> None:
    waiting = f"{TWO} 20260101000105000.compaction.requested"
    assert due(waiting, SOON, "NUM_COMMITS", 2)
    assert not due(waiting, SOON, "NUM_COMMITS_AFTER_LAST_REQUEST", 1)
    assert due(f"{waiting} 20260101000107000.deltacommit", SOON, "NUM_COMMITS_AFTER_LAST_REQUEST", 1)


def test_delta_commits_that_are_not_finished_count_and_replacing_ones_do_not() -> None:
    timeline = Timeline.from_names(["1.deltacommit", "2.deltacommit.inflight", "3.deltacommit.requested", "4.replacecommit"])
    since = since_last(timeline, "5")
    assert since is not None
    assert since.commits == 3


@pytest.mark.parametrize("trigger", NAMES)
def test_nothing_is_due_without_delta_commits(trigger: str) -> None:
    assert not due("20260101000000000.replacecommit", LATE, trigger, 1, 1)


def test_the_initial_instant_of_a_table_is_always_old_enough() -> None:
    assert due("00000000000000.deltacommit", SOON, "TIME_ELAPSED", seconds=2**31 - 1)


def test_elapsed_time_ignores_milliseconds() -> None:
    assert due("20260101000000999.deltacommit", "20260101000001000", "TIME_ELAPSED", seconds=1)
