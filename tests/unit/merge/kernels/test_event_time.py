"""Event times: seconds and milliseconds are understood, anything else is passed over."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from penstock.merge.kernels.event_time import EventTimeSpan, find_event_times


@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        ([1_600_000_000, 1_700_000_000], 1_600_000_000_000, 1_700_000_000_000),
        ([1_600_000_000_123], 1_600_000_000_123, 1_600_000_000_123),
        ([1_700_000_000, 1_600_000_000_123, None], 1_600_000_000_123, 1_700_000_000_000),
        (["1600000000", "1600000000123", "soon", ""], 1_600_000_000_000, 1_600_000_000_123),
        ([5, 16_000_000_001], None, None),
        ([1_600_000_000_000_000], None, None),
        ([-600_000_000], None, None),
        ([None, None], None, None),
        ([datetime(2024, 1, 1, tzinfo=timezone.utc)], None, None),
        ([{"x": 1}], None, None),
        ([], None, None),
    ],
)
def test_the_span_is_that_of_the_values_that_are_understood(values: list[Any], least: int | None, greatest: int | None) -> None:
    assert find_event_times(pa.table({"t": pa.array(values)}), "t") == EventTimeSpan(least, greatest)


def test_the_column_may_lie_inside_a_struct_or_be_missing() -> None:
    rows = pa.table({"s": pa.array([{"t": 1_600_000_000}, None])})
    assert find_event_times(rows, "s.t") == EventTimeSpan(1_600_000_000_000, 1_600_000_000_000)
    assert find_event_times(rows, "u") == EventTimeSpan()


def test_spans_are_extended_and_have_a_freshness() -> None:
    both = EventTimeSpan(10, 20).extend(EventTimeSpan(5, 15))
    assert both == EventTimeSpan(5, 20)
    assert EventTimeSpan().extend(both) == both
    assert (both.freshness_ms(100), both.latency_ms(100)) == (80, 95)
    assert EventTimeSpan().freshness_ms(100) is EventTimeSpan().latency_ms(100) is None
