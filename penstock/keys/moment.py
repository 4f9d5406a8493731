"""Spark expressions for times: convert UTC to the wall clock time of a zone, and print a time by a Joda-Time pattern.

A time is a number of milliseconds since 1970-01-01 00:00: in UTC (`utc`), or on the wall clock of a zone (`wall`). Fields are
computed from `wall` by arithmetic, so they depend neither on the session's time zone nor on its parser policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.keys.joda_pattern import DAYS, MONTHS, Token
from penstock.keys.partition_path import escape_path_value
from penstock.keys.partition_path_column import escape as escape_column
from penstock.keys.time_zone import Zone

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
#: Times up to this distance from 1970, some 270,000 years, can be printed.
MILLIS_MAX = 8_640_000_000_000_000


@dataclass(frozen=True, eq=False)
class Moment:
    """A point in time as three Spark expressions: its UTC time, its wall clock time in a zone, and the name of that zone.

    Both times are milliseconds since 1970-01-01 00:00.
    """

    utc: Column
    wall: Column
    zone: Column


# --- zones


def moment_in(zone: Zone | None, utc: Column) -> Moment:
    """Return the moment of a UTC time (milliseconds since 1970) in `zone`, or in the session's zone if `zone` is None."""
    if zone is None:
        zone_name = F.current_timezone()
        return Moment(utc, wall_in(zone_name, utc), zone_name)
    if zone.offset_ms is not None:
        return Moment(utc, utc + F.lit(zone.offset_ms), F.lit(zone.name))
    return Moment(utc, wall_in(F.lit(zone.name), utc), F.lit(zone.name))


def utc_of(zone: Zone | None, wall: Column) -> Column:
    """Return the UTC time of a wall clock time in `zone`, or in the session's zone if `zone` is None; both in milliseconds."""
    if zone is not None and zone.offset_ms is not None:
        return wall - F.lit(zone.offset_ms)
    return utc_at(F.current_timezone() if zone is None else F.lit(zone.name), wall)


def wall_in(zone: Column, utc: Column) -> Column:
    """Return the wall clock time of a UTC time in a zone, both in milliseconds. `zone` is a column with the name of the zone."""
    return _shift(F.from_utc_timestamp, utc, zone)


def utc_at(zone: Column, wall: Column) -> Column:
    """Return the UTC time of a wall clock time in a zone, both in milliseconds. `zone` is a column with the name of the zone."""
    return _shift(F.to_utc_timestamp, wall, zone)


def _shift(shift: Callable[[Column, Column], Column], millis: Column, zone: Column) -> Column:
    """Return a time in milliseconds, moved by the offset of a time zone.

    Args:
        shift: Spark's `from_utc_timestamp` or `to_utc_timestamp`.
        zone: a column with the name of the zone.
    """
    # Both functions move the number itself by the zone's offset, so the session's zone plays no part.
    return F.unix_millis(shift(F.timestamp_millis(millis), zone))


# --- printing


def print_moment(moment: Moment, tokens: Sequence[Token], *, escape: bool = False) -> Column:
    """Return an expression that prints the moment's wall clock time by the tokens of a pattern.

    Args:
        escape: whether to escape the text as a folder name.
    """
    return F.concat(*(_print_token(moment, token, escape=escape) for token in tokens))


def bind(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return the expression `body(value)`, in which `value` is evaluated once per row, however often `body` uses it.

    Spark would copy an expression into every place that uses it. It evaluates the argument of a lambda only once.
    """
    return F.transform(F.array(value), body)[0]


def _print_token(moment: Moment, token: Token, *, escape: bool) -> Column:
    """Return an expression for the text that one token of a pattern prints."""
    if not token.letter:
        return F.lit(escape_path_value(token.text) if escape else token.text)
    if token.letter in "yYxCG":
        return _print_year(_date(moment), token)
    if token.letter in "MdDweE":
        return _print_day(_date(moment), token)
    if token.letter == "Z":
        text = _print_zone(moment, token)
        return escape_column(text) if escape else text
    return _print_time(F.pmod(moment.wall, F.lit(DAY_MS)), token)


def _date(moment: Moment) -> Column:
    """Return a Spark expression: the date of a moment in the moment's own time zone."""
    days = (moment.wall - F.pmod(moment.wall, F.lit(DAY_MS))) / F.lit(DAY_MS)
    return F.date_from_unix_date(days.cast("int"))


def _print_year(date: Column, token: Token) -> Column:
    """Return an expression for the text of a year, century or era of a date: the letters `y`, `Y`, `x`, `C` and `G`."""
    year = F.date_part(F.lit("YEAROFWEEK"), date) if token.letter == "x" else F.year(date)
    of_era = F.when(year > 0, year).otherwise(1 - year)
    if token.letter == "G":
        return F.when(year > 0, "AD").otherwise("BC")
    if token.letter == "C":
        return _pad(whole(of_era, 100), token.width, digits=4)
    if token.is_two_digit_year:
        return _pad(F.abs(year) % 100, 2, digits=2)
    if token.letter == "Y":
        return _pad(of_era, token.width, digits=6)
    text = _pad(F.abs(year), token.width, digits=6)
    return F.when(year < 0, F.concat(F.lit("-"), text)).otherwise(text)


def _print_day(date: Column, token: Token) -> Column:
    """Return an expression for the text of a month, week or day of a date: the letters `M`, `d`, `D`, `w`, `e` and `E`."""
    if token.letter == "M" and token.width >= 3:
        return _pick_name(F.month(date), MONTHS, full=token.width >= 4)
    if token.letter == "E":
        return _pick_name(F.weekday(date) + 1, DAYS, full=token.width >= 4)
    number: dict[str, Callable[[Column], Column]] = {
        "M": F.month,
        "d": F.dayofmonth,
        "D": F.dayofyear,
        "w": F.weekofyear,
        "e": lambda date: F.weekday(date) + 1,
    }
    return _pad(number[token.letter](date), token.width, digits=3)


def _print_time(in_day: Column, token: Token) -> Column:
    """Return an expression for the text of a part of the time of day: the letters `H`, `k`, `K`, `h`, `m`, `s`, `S` and `a`.

    Args:
        in_day: the milliseconds since midnight.
    """
    hour = whole(in_day, HOUR_MS)
    if token.letter == "a":
        return F.when(hour < 12, "AM").otherwise("PM")
    if token.letter == "S":
        millis = F.lpad((in_day % SECOND_MS).cast("string"), 3, "0")
        return F.rpad(millis, token.width, "0")  # also cuts text that is longer
    number = {
        "H": hour,
        "k": (hour + 23) % 24 + 1,
        "K": hour % 12,
        "h": (hour + 11) % 12 + 1,
        "m": whole(in_day, MINUTE_MS) % 60,
        "s": whole(in_day, SECOND_MS) % 60,
    }
    return _pad(number[token.letter], token.width, digits=2)


def _print_zone(moment: Moment, token: Token) -> Column:
    """Return an expression for a moment's zone: as `+0530` for width 1, `+05:30` for width 2, otherwise the zone's name."""
    if token.width >= 3:
        return moment.zone
    offset = moment.wall - moment.utc
    minutes = whole(F.abs(offset), MINUTE_MS)
    return F.concat(
        F.when(offset < 0, "-").otherwise("+"),
        _pad(whole(minutes, 60), 2, digits=2),
        F.lit(":" if token.width == 2 else ""),
        _pad(minutes % 60, 2, digits=2),
    )


def _pad(number: Column, width: int, *, digits: int) -> Column:
    """Return an expression that prints a number, padded with zeros to `width`.

    Args:
        number: a number that is not negative.
        digits: the most digits that the number can have.
    """
    text = number.cast("string")
    if width <= 1:
        return text
    padded = F.lpad(text, width, "0")
    return padded if width >= digits else F.when(F.length(text) < width, padded).otherwise(text)


def _pick_name(number: Column, names: Sequence[str], *, full: bool) -> Column:
    """Return an expression for the name with this number, counted from 1: in full, or its first three letters."""
    return F.elt(number, *(F.lit(name if full else name[:3]) for name in names))


def whole(number: Column, divisor: int) -> Column:
    """Return an expression for the number divided by the divisor, rounded down.

    The number must be small enough for a double to hold exactly.
    """
    return F.floor(number / F.lit(divisor))
