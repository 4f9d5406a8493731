"""Parses the time zone names in options as Hudi does, and returns names that Spark understands in the same way.

Hudi parses a name with Java's `TimeZone` and then with Joda-Time. Both know regions (`Europe/Berlin`), offsets (`GMT+8:00`) and
three-letter names. The meaning of a three-letter name is Joda's: `EST` is New York, with summer time. Java silently takes any
other name for GMT; Penstock raises OptionError. This module does not import pyspark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from zoneinfo import available_timezones

from penstock.errors import OptionError


@dataclass(frozen=True)
class Zone:
    """A time zone: the name by which Spark knows it, and its offset from UTC (None if it changes with the seasons)."""

    name: str
    offset_ms: int | None = None


UTC = Zone("UTC", 0)

#: Joda-Time's meaning of three-letter names.
_SHORT_NAMES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "CET",
    "EST": "America/New_York",
    "HST": "Pacific/Honolulu",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MET": "CET",
    "MIT": "Pacific/Apia",
    "MST": "America/Denver",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
#: Names that mean UTC, whose offset never changes.
_UTC_NAMES = frozenset({"UTC", "GMT", "UT", "Z", "Etc/UTC", "Etc/GMT", "Zulu", "UCT", "Universal", "Greenwich", "GMT0"})
_OFFSET = re.compile(r"GMT([+-])(\d{1,2})(?::?(\d{2}))?")


def parse_zone(text: str, *, option: str) -> Zone | None:
    """Return the time zone with this name; None for a blank name, which means "no zone".

    Args:
        option: the option that holds the name, for error messages.

    Raises:
        OptionError: there is no such zone.
    """
    name = text.strip()
    if not name:
        return None
    if name in _UTC_NAMES:
        return UTC
    if offset := _OFFSET.fullmatch(name):
        return _make_fixed_zone(offset, text=name, option=option)
    region = _SHORT_NAMES.get(name, name)
    if not _is_region(region):
        raise _unknown_zone(name, option)
    return Zone(region)


def _make_fixed_zone(match: re.Match[str], *, text: str, option: str) -> Zone:
    """Return the zone of an offset such as `GMT+8:00`. Raise OptionError if hours or minutes are out of range."""
    hours = int(match.group(2))
    minutes = int(match.group(3) or 0)
    if hours > 23 or minutes > 59:
        raise _unknown_zone(text, option)
    if hours == minutes == 0:
        return UTC
    sign = -1 if match.group(1) == "-" else 1
    return Zone(f"{match.group(1)}{hours:02}:{minutes:02}", sign * (hours * 60 + minutes) * 60_000)


def _is_region(name: str) -> bool:
    """Whether there is a time zone region of this name, such as `Europe/Berlin`."""
    known = available_timezones()
    if not known:  # Python has no time zone database on this machine: let the JVM decide
        return re.fullmatch(r"[A-Za-z]+(/[A-Za-z0-9_+-]+)*", name) is not None
    return name in known


def _unknown_zone(name: str, option: str) -> OptionError:
    """Return the error about a time zone that does not exist, with the nearest names."""
    near = get_close_matches(name, [*available_timezones(), *_SHORT_NAMES], n=2)
    hint = f" Nearest: {', '.join(near)}." if near else ""
    return OptionError(
        f"{option}={name}: no such time zone.{hint} Use a region such as Europe/Berlin, UTC, or an offset such as GMT+8:00."
    )
