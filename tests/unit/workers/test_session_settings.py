"""What the settings of a Spark session say."""

from __future__ import annotations

import os

import pytest

from penstock.workers.session_settings import count_cores


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local-cluster[2, 3, 1024]"}, 6),
        ({"spark.master": "local[3]", "spark.default.parallelism": "7"}, 7),
        ({"spark.master": "local[*]"}, os.cpu_count()),
        ({"spark.master": "yarn"}, None),
        ({}, None),
    ],
)
def test_cores_are_what_the_settings_say(settings: dict[str, str], expected: int | None) -> None:
    assert count_cores(settings) == expected
