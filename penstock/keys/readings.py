"""Texts as moments: Joda-Time's reading of dates, as Spark expressions.

1. The first pattern that fits the whole text is taken. Most patterns are of fixed width, and most texts fill it: these are
   cut by position, which is fast. All others are taken apart by a regular expression that is as lenient as Joda.
2. The numbers are checked for their ranges and added up to a wall clock time.
3. The zone in the text, else the given one, else the session's, places it in UTC.

A text that no pattern fits, or whose numbers make no date, raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.keys.joda import MONTHS, Reading, Token
from penstock.keys.moments import DAY_MS, MINUTE_MS, SECOND_MS, Moment, moment_in, utc_at, utc_of, whole
from penstock.keys.texts import fail
from penstock.keys.zones import Zone

_YEAR_MAX = 200_000
_GROUP_END = "\x1f"


@dataclass(frozen=True, eq=False)
class TextReader:
    """Reads a text column by the first pattern that fits."""

    text: Column
    readings: Sequence[Reading]
    zone: Zone | None
    """Of texts that name none; without it, the session's."""
    failure: str
    """Message for a text that cannot be read, which it shows in place of `{}`."""

    def moment(self, shown_in: Zone | None) -> Moment:
        """Give the moment on the clock of `shown_in`; without it on that of the text, of its own or the given zone."""
        shown_in = shown_in or self.zone
        if shown_in is not None:
            return moment_in(shown_in, self._read(lambda parts, wall: _placed(parts, wall, self.zone).utc))
        return Moment(
            utc=self._read(lambda parts, wall: _placed(parts, wall, None).utc),
            wall=self._read(lambda parts, wall: wall),
            zone=self._read(lambda parts, wall: _placed(parts, wall, None).zone),
        )

    def _read(self, result: Callable[[Parts, Column], Column]) -> Column:
        """Give what `result` makes of the parts of the text and the wall clock time in it."""
        cases = [case for reading in self.readings for case in self._cases(reading, result)]
        # otherwise() closes a chain of when(), so it is built from its end
        return reduce(lambda rest, case: F.when(case[0], case[1]).otherwise(rest), reversed(cases), self._refusal)

    def _cases(self, reading: Reading, result: Callable[[Parts, Column], Column]) -> list[tuple[Column, Column]]:
        cases = [(self.text.rlike(reading.regex), self._by_groups(reading, result))]
        if reading.fixed_regex is not None:
            cut = _Cut(reading, self.text)
            valid, wall = _wall_clock(cut)
            cases.insert(0, (self.text.rlike(reading.fixed_regex) & valid, result(cut, wall)))
        return cases

    def _by_groups(self, reading: Reading, result: Callable[[Parts, Column], Column]) -> Column:
        joined = "".join(f"${index + 1}{_GROUP_END}" for index in range(len(reading.groups)))
        groups = F.split(F.regexp_replace(self.text, reading.regex, joined), _GROUP_END)

        def from_groups(bound: Column) -> Column:
            parts = _Groups(reading, bound)
            valid, wall = _wall_clock(parts)
            return F.when(valid, _bind(wall, lambda value: result(parts, value))).otherwise(self._refusal)

        return _bind(groups, from_groups)

    @property
    def _refusal(self) -> Column:
        return fail(self.failure, self.text)


class Parts(Protocol):
    """The parts of a text, by the letters of its pattern."""

    def token(self, letters: str) -> Token | None:
        """Give the last token of one of the letters, if the pattern has one."""
        ...

    def text(self, letters: str) -> Column:
        """Give what the text has for it; the pattern must have it."""
        ...


@dataclass(frozen=True, eq=False)
class _Groups:
    """What the groups of a regular expression matched."""

    reading: Reading
    groups: Column

    def token(self, letters: str) -> Token | None:
        position = self.reading.position(letters)
        return None if position is None else self.reading.groups[position]

    def text(self, letters: str) -> Column:
        return self.groups[self.reading.position(letters)]


@dataclass(frozen=True, eq=False)
class _Cut:
    """What stands at the positions of a pattern of fixed width."""

    reading: Reading
    whole_text: Column

    def token(self, letters: str) -> Token | None:
        position = self.reading.position(letters)
        return None if position is None else self.reading.groups[position]

    def text(self, letters: str) -> Column:
        position = self.reading.position(letters)
        assert position is not None
        token = self.reading.groups[position]
        length = token.width if token.letter != "Z" else len("+hh:mm:ss")
        return F.substring(self.whole_text, self.reading.starts[position] + 1, length)


def _bind(value: Column, body: Callable[[Column], Column]) -> Column:
    """Evaluate `value` once per row, however often `body` uses it."""
    return F.transform(F.array(value), body)[0]


def _number(parts: Parts, letters: str, default: int) -> Column:
    return F.lit(default) if parts.token(letters) is None else parts.text(letters).cast("int")


# --- wall clock


def _wall_clock(parts: Parts) -> tuple[Column, Column]:
    """Give whether the numbers are in their ranges, and, if so, what the wall clock shows."""
    date_valid, days = _week_date(parts) if parts.token("x") else _calendar_date(parts)
    time_valid, in_day = _time_of_day(parts)
    return date_valid & time_valid, days.cast("long") * F.lit(DAY_MS) + in_day


def _calendar_date(parts: Parts) -> tuple[Column, Column]:
    # like Joda: a date without a year is one of 2000, a time without a date one of 1970
    year_valid, year = _year(parts, "yY", default=2000 if parts.token("MdD") else 1970)
    month_valid, month = _month(parts)
    first = F.make_date(year, month, F.lit(1))
    day, last = _number(parts, "d", 1), F.dayofmonth(F.last_day(first))
    day_valid = day.between(1, 28) | day.between(F.lit(29), last)
    if parts.token("D") and not parts.token("Md"):
        day, last = _number(parts, "D", 1), F.dayofyear(F.make_date(year, F.lit(12), F.lit(31)))
        day_valid = day.between(F.lit(1), last)
    return year_valid & month_valid & day_valid, F.unix_date(first) + day - 1


def _week_date(parts: Parts) -> tuple[Column, Column]:
    year_valid, year = _year(parts, "x", default=1970)
    week, day = _number(parts, "w", 1), _number(parts, "e", 1)
    monday = _first_monday(year) + (week - 1) * 7
    valid = year_valid & (week > 0) & (monday < _first_monday(year + 1)) & day.between(1, 7)
    return valid, monday + day - 1


def _first_monday(year: Column) -> Column:
    """Give the Monday of ISO week 1, the week of 4 January, in days since 1970."""
    fourth = F.make_date(year, F.lit(1), F.lit(4))
    return F.unix_date(fourth) - F.weekday(fourth)


def _year(parts: Parts, letters: str, *, default: int) -> tuple[Column, Column]:
    token, number = parts.token(letters), _number(parts, letters, default)
    if token is None:
        return F.lit(True), number
    valid = number.between(1 if token.letter == "Y" else -_YEAR_MAX, _YEAR_MAX)
    if not token.is_two_digit_year:
        return valid, number
    # two digits stand for the hundred years that begin 80 years before this one
    earliest = F.year(F.current_date()) - 80
    placed = earliest + F.pmod(number - earliest, F.lit(100))
    return valid, F.when(parts.text(letters).rlike(r"\A\d\d\z"), placed).otherwise(number)


def _month(parts: Parts) -> tuple[Column, Column]:
    token = parts.token("M")
    if token is None:
        return F.lit(True), F.lit(1)
    if token.width < 3:
        number = parts.text("M").cast("int")
        return number.between(1, 12), number
    starts = F.lit("".join(name[:3].lower() for name in MONTHS))
    place = F.position(F.lower(F.substring(parts.text("M"), 1, 3)), starts)
    return F.lit(True), whole(place + 2, 3).cast("int")


def _time_of_day(parts: Parts) -> tuple[Column, Column]:
    hour_valid, hour = _hour(parts)
    minute, second, millis = _number(parts, "m", 0), _number(parts, "s", 0), F.lit(0)
    if parts.token("S"):
        millis = F.rpad(F.substring(parts.text("S"), 1, 3), 3, "0").cast("int")
    valid = hour_valid & minute.between(0, 59) & second.between(0, 59)
    return valid, (hour * 60 + minute) * MINUTE_MS + second * SECOND_MS + millis


def _hour(parts: Parts) -> tuple[Column, Column]:
    if parts.token("H"):
        hour = _number(parts, "H", 0)
        return hour.between(0, 23), hour
    if parts.token("k"):
        hour = _number(parts, "k", 24)
        return hour.between(1, 24), hour % 24
    afternoon = F.when(F.lower(parts.text("a")) == "pm", 12).otherwise(0) if parts.token("a") else F.lit(0)
    if parts.token("K"):
        hour = _number(parts, "K", 0)
        return hour.between(0, 11), hour + afternoon
    hour = _number(parts, "h", 12)
    return hour.between(1, 12), hour % 12 + afternoon


# --- zone


def _placed(parts: Parts, wall: Column, zone: Zone | None) -> Moment:
    """Give the moment at which the clocks show this in the zone that the text names, or else in the given one."""
    token = parts.token("Z")
    if token is None:
        return Moment(utc_of(zone, wall), wall, F.current_timezone() if zone is None else F.lit(zone.name))
    text = parts.text("Z")
    if token.width >= 3:
        return Moment(utc_at(text, wall), wall, text)
    digits = F.rpad(F.translate(text, "+-:Zz", ""), 6, "0")
    return Moment(wall - _offset_ms(text, digits), wall, _offset_name(text, digits))


def _offset_ms(text: Column, digits: Column) -> Column:
    hours, minutes, seconds = (F.substring(digits, start, 2).cast("long") for start in (1, 3, 5))
    offset = (hours * 60 + minutes) * MINUTE_MS + seconds * SECOND_MS
    return F.when(text.startswith("-"), -offset).otherwise(offset)


def _offset_name(text: Column, digits: Column) -> Column:
    name = F.concat(F.substring(text, 1, 1), F.substring(digits, 1, 2), F.lit(":"), F.substring(digits, 3, 2))
    return F.when(digits == "000000", "UTC").otherwise(name)
