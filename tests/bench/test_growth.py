"""The page of growth curves marks where a curve bends upwards, and reports a slow sample that a median hides."""

from __future__ import annotations

from typing import Any

from bench.growth import collect, growth_table, slow_ones


def records(*samples: tuple[int, float], engine: str = "penstock43", axis: str = "commits") -> list[dict[str, Any]]:
    return [{"engine": engine, "axis": axis, "size": size, "s": s} for size, s in samples]


def test_a_curve_that_bends_upwards_is_marked() -> None:
    found = collect(records((10, 1.0), (10, 1.1), (10, 1.0), (100, 10.0), (1_000, 1_000.0)))
    table = growth_table(found["commits"])
    assert table.splitlines()[-1] == "| penstock43 | 1.00 | 10.00 (^1.00) | 1000.00 (^2.00 bends) |"


def test_a_sample_that_is_far_from_the_median_is_reported() -> None:
    found = records((10, 0.1), (10, 0.11), (5_000, 6.0), (5_000, 0.1), (5_000, 0.12), *[(10, 0.1)])
    assert slow_ones("commits", found) == [
        "Points whose slowest sample took more than twice the median:",
        "- penstock43 at 5,000: 6.00 / 0.10 / 0.12 s",
    ]
    assert slow_ones("batch", found) == []
