"""Instants: names of their files, times, and times as users write them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import OptionError
from penstock.timeline.instant import Action, Instant, State, format_time, next_time, parse_instant, parse_query_time, parse_time

TIMES = st.one_of(st.from_regex(r"[0-9]{14}", fullmatch=True), st.from_regex(r"[0-9]{17}", fullmatch=True))
MOMENTS = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2999, 1, 1)).map(
    lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
)


@given(TIMES, st.sampled_from(Action), st.sampled_from(State))
def test_an_instant_is_parsed_from_its_file_name(time: str, action: Action, state: State) -> None:
    found = parse_instant(Instant(time, action, state).file_name)
    expected = action.family if state is State.COMPLETED else action
    assert found == Instant(time, expected, state)


@pytest.mark.parametrize(
    ("action", "state", "name"),
    [
        (Action.COMMIT, State.REQUESTED, "7.commit.requested"),
        (Action.COMMIT, State.INFLIGHT, "7.inflight"),
        (Action.COMMIT, State.COMPLETED, "7.commit"),
        (Action.DELTA_COMMIT, State.INFLIGHT, "7.deltacommit.inflight"),
        (Action.REPLACE_COMMIT, State.REQUESTED, "7.replacecommit.requested"),
        (Action.COMPACTION, State.REQUESTED, "7.compaction.requested"),
        (Action.COMPACTION, State.COMPLETED, "7.commit"),
        (Action.LOG_COMPACTION, State.COMPLETED, "7.deltacommit"),
        (Action.CLEAN, State.INFLIGHT, "7.clean.inflight"),
        (Action.SAVEPOINT, State.INFLIGHT, "7.savepoint.inflight"),
        (Action.ROLLBACK, State.COMPLETED, "7.rollback"),
    ],
)
def test_names_are_those_of_hudi(action: Action, state: State, name: str) -> None:
    assert Instant("7", action, state).file_name == name


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "20240101000000000",
        "20240101000000000.commit.done",
        "20240101000000000.schemacommit",
        "20240101000000000.commit.3f0c1eab",
        ".20240101000000000.commit.crc",
        ".20240101000000000.commit.3f0c1eab.tmp",
        "20240101000000000.commit\n",
        "٢٠٢٤.commit",
        "x.commit",
        "20240101000000000.inflight.requested",
        "20240101000000000.requested",
        "",
    ],
)
def test_a_file_name_of_another_form_is_not_an_instant(name: str) -> None:
    assert parse_instant(name) is None


@given(MOMENTS)
def test_a_moment_is_parsed_from_its_time(at: datetime) -> None:
    text = format_time(at)
    assert len(text) == 17
    assert parse_time(text) == at


def test_a_time_of_14_digits_is_at_the_end_of_its_second() -> None:
    assert parse_time("20240229235959") == datetime(2024, 2, 29, 23, 59, 59, 999000)


@given(st.one_of(st.none(), MOMENTS), MOMENTS)
def test_the_next_time_is_greater_than_the_last_and_not_before_now(last: datetime | None, now: datetime) -> None:
    known = None if last is None else format_time(last)
    taken = next_time(known, format_time(now))
    assert taken >= format_time(now)
    assert known is None or taken > known
    assert len(taken) == 17


def test_times_grow_although_the_clock_goes_back_an_hour() -> None:
    before = datetime(2024, 10, 27, 2, 59, 59, 999000)
    after_the_change = before - timedelta(minutes=59)
    assert next_time(format_time(before), format_time(after_the_change)) == "20241027030000000"


def test_the_next_time_after_14_digits_is_later_than_all_of_that_second() -> None:
    assert next_time("20240101000000", "20230101000000000") == "20240101000001000"


def test_a_clock_past_the_last_time_is_the_next_time() -> None:
    assert next_time("20240101000000000", "20240101000000001") == "20240101000000001"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("20240229010203456", "20240229010203456"),
        ("20240229010203", "20240229010203"),
        ("2024-02-29 01:02:03.456", "20240229010203456"),
        ("2024-02-29 01:02:03", "20240229010203999"),
        ("2024-02-29", "20240229000000000"),
        (" 2024-02-29 ", "20240229000000000"),
    ],
)
def test_a_query_time_is_taken_in_every_form_of_hudi(text: str, time: str) -> None:
    assert parse_query_time(text) == time


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2024", "20240229", "2024-02-30", "20241301000000", "20240229010203456789", "2024/02/29"]
)
def test_a_query_time_in_another_form_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(OptionError, match=r"as\.of\.instant.*yyyyMMddHHmmssSSS"):
        parse_query_time(text)
