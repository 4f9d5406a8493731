"""Time zone names as the options spell them."""

from __future__ import annotations

import pytest

from penstock.errors import OptionError
from penstock.keys.time_zone import UTC, Zone, parse_zone

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("UTC", UTC),
        ("GMT", UTC),
        ("GMT+0", UTC),
        ("GMT+8:00", Zone("+08:00", 8 * HOUR)),
        ("GMT+08:00", Zone("+08:00", 8 * HOUR)),
        ("GMT-3", Zone("-03:00", -3 * HOUR)),
        ("GMT+0530", Zone("+05:30", 5 * HOUR + HOUR // 2)),
        ("Europe/Berlin", Zone("Europe/Berlin")),
        (" Asia/Tokyo ", Zone("Asia/Tokyo")),
        ("EST", Zone("America/New_York")),
        ("IST", Zone("Asia/Kolkata")),
    ],
)
def test_a_zone_has_the_meaning_that_joda_gives_it(text: str, zone: Zone) -> None:
    assert parse_zone(text, option="o") == zone


def test_a_blank_zone_is_none() -> None:
    assert parse_zone("  ", option="o") is None


@pytest.mark.parametrize("text", ["Mars/Base", "UTC+8", "+08:00", "GMT+24", "GMT+8:60", "europe/berlin"])
def test_what_java_would_silently_take_for_gmt_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="my.option="):
        parse_zone(text, option="my.option")


def test_the_refusal_names_a_near_zone() -> None:
    with pytest.raises(OptionError, match="Europe/Berlin"):
        parse_zone("Europe/Berln", option="o")
