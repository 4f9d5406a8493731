"""Spark expressions that parse date strings as Joda-Time does, for the time-based key generator.

1. The first pattern that matches the whole date string is used. In most patterns each part has a fixed width (`yyyy-MM-dd`). A
   date string of that width is cut by position. Other date strings are split by a regular expression that is as lenient as Joda.
   If the output pattern needs the same parts and no time zone shifts the clock, the parts are copied in their new order, and
   steps 2 and 3 are left out.
2. The numbers are checked for their ranges and added up to a wall clock time.
3. That time is converted to UTC: from the zone in the date string if it names one, otherwise from the input zone if set,
   otherwise from the session's zone.

A date string that no pattern matches, or whose numbers are no valid date, raises an error when Spark evaluates the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.keys.joda_pattern import MONTHS, Reading, Token
from penstock.keys.moment import DAY_MS, MINUTE_MS, SECOND_MS, Moment, bind, moment_in, print_moment, utc_at, utc_of, whole
from penstock.keys.partition_path import escape_path_value
from penstock.keys.time_zone import Zone
from penstock.keys.value_text import fail

_YEAR_MAX = 200_000
_GROUP_END = "\x1f"
Result = Callable[["Parts", Column], Column]


@dataclass(frozen=True, eq=False)
class TextReader:
    """Parses date strings by the first of several patterns that matches, and prints their time by another pattern.

    `zone` is the time zone of date strings that name none; None: the session's. `failure` is the message about a date string that
    cannot be parsed: the string is put in place of `{}`.
    """

    readings: Sequence[Reading]
    #: The zone of text that names none; None: the session's.
    zone: Zone | None
    #: The message about text that cannot be read; the text is put in place of `{}`.
    failure: str

    def print_as(self, tokens: Sequence[Token], text: Column, *, shown_in: Zone | None, escape: bool) -> Column:
        """Return an expression that parses a date string and prints its time by another pattern.

        The time is printed in the zone `shown_in` if set, otherwise in the input zone if set, otherwise as in the date string.

        Args:
            tokens: the pattern to print by.
            text: the column of date strings.
            escape: whether to escape the result as a folder name.
        """
        shown_in = shown_in or self.zone
        cases = []
        fits_earlier_pattern = F.lit(False)
        for reading in self.readings:
            copied = self._copy_parts(reading, tokens, text, shown_in=shown_in, escape=escape)
            if copied is not None:
                cases.append((_fits_width(reading, text) & ~fits_earlier_pattern, copied))
            fits_earlier_pattern = fits_earlier_pattern | text.rlike(reading.regex)
        return _take_first(cases, self._print_any(tokens, text, shown_in=shown_in, escape=escape))

    def _copy_parts(
        self, reading: Reading, tokens: Sequence[Token], text: Column, *, shown_in: Zone | None, escape: bool
    ) -> Column | None:
        """Return an expression that copies the parts of a date string in their new order, which is much faster than parsing them.

        Return None if copying is not enough, because a part must be converted or a time zone shifts the clock.

        Args:
            reading: the pattern of the date string.
            tokens: the pattern to print by.
            text: the column of date strings.
            shown_in: the zone in which the time is printed; None: the zone of the date string.
            escape: whether to escape literal text of the pattern as a folder name.
        """
        cut = _Cut(reading, text)
        same_clock = shown_in is None or (shown_in == self.zone and shown_in.offset_ms is not None)
        moves = shown_in is not None and cut.token("Z") is not None
        if reading.fixed_regex is None or not same_clock or moves or not all(cut.has(token) for token in tokens):
            return None
        parts = []
        for token in tokens:
            if token.letter:
                parts.append(cut.text(token.letter))
            else:
                parts.append(F.lit(escape_path_value(token.text) if escape else token.text))
        return F.concat(*parts)

    def _print_any(self, tokens: Sequence[Token], text: Column, *, shown_in: Zone | None, escape: bool) -> Column:
        """Return an expression that parses a date string by any of the patterns and prints its time by the pattern `tokens`.

        Works for every pair of patterns and zones. The expression raises the message `failure` for a date string that cannot be
        parsed.

        Args:
            tokens: the pattern to print by.
            text: the column of date strings.
            shown_in: the zone in which the time is printed; None: the zone of the date string.
            escape: whether to escape the result as a folder name.
        """
        # Without `bind` Spark would parse the text again for every token that is printed.
        if any(token.letter == "Z" for token in tokens):
            moment = bind(text, lambda bound: _as_struct(self._moment(bound, shown_in)))
            return bind(moment, lambda bound: print_moment(_from_struct(bound), tokens, escape=escape))
        wall = bind(text, lambda bound: self._wall(bound, shown_in))
        return bind(wall, lambda bound: print_moment(Moment(bound, bound, F.lit("")), tokens, escape=escape))

    def _moment(self, text: Column, shown_in: Zone | None) -> Moment:
        """Return the moment (UTC time, wall clock time, zone) of a date string, in the zone `shown_in`.

        If `shown_in` is None, the wall clock time and the zone are those of the date string.
        """
        utc = self._read(text, lambda parts, wall: _place(parts, wall, self.zone).utc)
        if shown_in is not None:
            return moment_in(shown_in, utc)
        zone = self._read(text, lambda parts, wall: _place(parts, wall, self.zone).zone)
        return Moment(utc, self._wall(text, None), zone)

    def _wall(self, text: Column, shown_in: Zone | None) -> Column:
        """Return the wall clock time of a date string in the zone `shown_in`; if that is None, the time as in the date string."""
        return self._read(text, lambda parts, wall: wall) if shown_in is None else self._moment(text, shown_in).wall

    def _read(self, text: Column, result: Result) -> Column:
        """Return an expression that parses a date string and computes a value from it.

        The expression raises the message `failure` for a date string that cannot be parsed.

        Args:
            result: is called with the parts of the date string and its wall clock time, and returns the expression of the value.
        """
        cases = []
        for reading in self.readings:
            cases.extend(self._make_cases(reading, text, result))
        return _take_first(cases, fail(self.failure, text))

    def _make_cases(self, reading: Reading, text: Column, result: Result) -> list[tuple[Column, Column]]:
        """Return (condition, value) pairs of expressions: whether a date string fits the pattern, and its value if it does.

        If the pattern has a fixed width, there are two pairs. The first is fast and cuts the date string by position. The last
        pair uses the regular expression, which also accepts other widths.

        Args:
            reading: the pattern.
            text: the column of date strings.
            result: called with the parts of the date string and its wall clock time; returns the expression of the value.
        """
        cases = [(text.rlike(reading.regex), self._by_groups(reading, text, result))]
        if reading.fixed_regex is not None:
            cut = _Cut(reading, text)
            by_position = bind(_wall_clock(cut)[1], lambda wall: result(cut, wall))
            cases.insert(0, (_fits_width(reading, text), by_position))
        return cases

    def _by_groups(self, reading: Reading, text: Column, result: Result) -> Column:
        """Return an expression that splits a date string by the pattern's regular expression and computes a value from its parts.

        The expression raises the message `failure` if a part of the date string is out of range, such as month 13.

        Args:
            reading: the pattern.
            text: the column of date strings.
            result: called with the parts of the date string and its wall clock time; returns the expression of the value.
        """
        # One match returns all groups: they are joined by a separator and split again.
        joined_groups = "".join(f"${index + 1}{_GROUP_END}" for index in range(len(reading.groups)))
        groups = F.split(F.regexp_replace(text, reading.regex, joined_groups), _GROUP_END)

        def from_groups(bound: Column) -> Column:
            parts = _Groups(reading, bound)
            valid, wall = _wall_clock(parts)
            read = bind(wall, lambda value: result(parts, value))
            return F.when(valid, read).otherwise(fail(self.failure, text))

        return bind(groups, from_groups)


class Parts(Protocol):
    """The parts of a date string, such as year and month, looked up by the letters of its pattern (`y`, `M`)."""

    def token(self, letters: str) -> Token | None:
        """Return the pattern's token whose letter is in `letters`, the last one if there are several; None if there is none."""
        ...

    def text(self, letters: str) -> Column:
        """Return an expression for the part of the date string that `token(letters)` matched.

        The pattern must have that token.
        """
        ...


@dataclass(frozen=True, eq=False)
class _Groups:
    """The parts of a date string, as matched by the groups of a regular expression."""

    reading: Reading
    groups: Column

    def token(self, letters: str) -> Token | None:
        position = self.reading.position(letters)
        return None if position is None else self.reading.groups[position]

    def text(self, letters: str) -> Column:
        return self.groups[self.reading.position(letters)]


@dataclass(frozen=True, eq=False)
class _Cut:
    """The parts of a date string, cut out by position, for a pattern in which every part has a fixed width."""

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

    def has(self, wanted: Token) -> bool:
        """Whether the date string already contains the text that the token `wanted` prints. True for literal text."""
        return not wanted.letter or (wanted.letter in "yMdHms" and self.token(wanted.letter) == wanted)


def _take_first(cases: Sequence[tuple[Column, Column]], otherwise: Column) -> Column:
    """Return an expression for the value of the first case whose condition is true; `otherwise` if none is.

    Args:
        cases: (condition, value) pairs.
    """
    value = otherwise
    for condition, result in reversed(cases):
        value = F.when(condition, result).otherwise(value)
    return value


def _number(parts: Parts, letters: str, default: int) -> Column:
    """Return an expression for one number in a date string, such as the day (`letters` is `d`).

    The number is `default` if the pattern has none of the letters.
    """
    return F.lit(default) if parts.token(letters) is None else parts.text(letters).cast("int")


# --- wall clock


def _wall_clock(parts: Parts) -> tuple[Column, Column]:
    """Return two expressions for a date string: whether all its numbers are in range, and its wall clock time in milliseconds.

    The time is meaningful only where the first expression is true.
    """
    date_valid, days = _week_date(parts) if parts.token("x") else _calendar_date(parts)
    time_valid, in_day = _time_of_day(parts)
    return date_valid & time_valid, days.cast("long") * F.lit(DAY_MS) + in_day


def _calendar_date(parts: Parts) -> tuple[Column, Column]:
    """Return two expressions for year, month and day: whether they are in range, and the date in days since 1970."""
    # Like Joda: a date without a year is one of 2000, a time without a date one of 1970.
    year_valid, year = _year(parts, "yY", default=2000 if parts.token("MdD") else 1970)
    month_valid, month = _month(parts)
    first = F.make_date(year, month, F.lit(1))
    if parts.token("D") and not parts.token("Md"):
        day = _number(parts, "D", 1)
        last = F.dayofyear(F.make_date(year, F.lit(12), F.lit(31)))
    else:
        day = _number(parts, "d", 1)
        last = F.dayofmonth(F.last_day(first))
    day_valid = day.between(F.lit(1), last)
    return year_valid & month_valid & day_valid, F.unix_date(first) + day - 1


def _fits_width(reading: Reading, text: Column) -> Column:
    """Return an expression that is true if the date string fills the pattern's fixed width and is a valid date."""
    fits = text.rlike(reading.fixed_regex or "")
    # Spark may evaluate both sides of an `and`, and in ANSI mode a cast of text that is no number would raise.
    cut = _Cut(reading, F.when(fits, text))
    if not cut.token("d"):
        return fits
    # The regular expression has checked all ranges but the length of the month.
    _, year = _year(cut, "yY", default=2000)
    _, month = _month(cut)
    day = _number(cut, "d", 1)
    first = F.make_date(year, month, F.lit(1))
    return fits & ((day < 29) | (day <= F.dayofmonth(F.last_day(first))))


def _week_date(parts: Parts) -> tuple[Column, Column]:
    """Return two expressions for an ISO week date: whether it is in range, and the date in days since 1970."""
    year_valid, year = _year(parts, "x", default=1970)
    week = _number(parts, "w", 1)
    day = _number(parts, "e", 1)
    monday = _first_monday(year) + (week - 1) * 7
    valid = year_valid & (week > 0) & (monday < _first_monday(year + 1)) & day.between(1, 7)
    return valid, monday + day - 1


def _first_monday(year: Column) -> Column:
    """Return an expression for the Monday of ISO week 1 of a year, in days since 1970. Week 1 is the week of 4 January."""
    fourth = F.make_date(year, F.lit(1), F.lit(4))
    return F.unix_date(fourth) - F.weekday(fourth)


def _year(parts: Parts, letters: str, *, default: int) -> tuple[Column, Column]:
    """Return two expressions: whether the year is in range, and the year; `default` if the pattern has none of the letters.

    A year of two digits is one of the hundred years that begin 80 years before this year.
    """
    token = parts.token(letters)
    number = _number(parts, letters, default)
    if token is None:
        return F.lit(True), number
    valid = number.between(1 if token.letter == "Y" else -_YEAR_MAX, _YEAR_MAX)
    if not token.is_two_digit_year:
        return valid, number
    # Two digits mean one of the hundred years that begin 80 years before this year.
    earliest = F.year(F.current_date()) - 80
    placed = earliest + F.pmod(number - earliest, F.lit(100))
    return valid, F.when(parts.text(letters).rlike(r"\A\d\d\z"), placed).otherwise(number)


def _month(parts: Parts) -> tuple[Column, Column]:
    """Return two expressions: whether the month is in range, and its number; 1 if the pattern has no month."""
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
    """Return two expressions: whether hour, minute and second are in range, and the milliseconds since midnight."""
    hour_valid, hour = _hour(parts)
    minute = _number(parts, "m", 0)
    second = _number(parts, "s", 0)
    millis = F.lit(0)
    if parts.token("S"):
        millis = F.rpad(F.substring(parts.text("S"), 1, 3), 3, "0").cast("int")
    valid = hour_valid & minute.between(0, 59) & second.between(0, 59)
    return valid, (hour * 60 + minute) * MINUTE_MS + second * SECOND_MS + millis


def _hour(parts: Parts) -> tuple[Column, Column]:
    """Return two expressions: whether the hour is in range, and the hour from 0 to 23.

    A pattern without an hour means 0, or 12 with PM.
    """
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


def _place(parts: Parts, wall: Column, zone: Zone | None) -> Moment:
    """Return the moment (UTC time, wall clock time, zone) of a wall clock time that was parsed from a date string.

    The zone is the one that the date string names, otherwise `zone`, otherwise (`zone` is None) the session's zone.
    """
    token = parts.token("Z")
    if token is None:
        return Moment(utc_of(zone, wall), wall, F.current_timezone() if zone is None else F.lit(zone.name))
    text = parts.text("Z")
    if token.width >= 3:
        return Moment(utc_at(text, wall), wall, text)
    digits = F.rpad(F.translate(text, "+-:Zz", ""), 6, "0")
    return Moment(wall - _offset_ms(text, digits), wall, _offset_name(text, digits))


def _offset_ms(text: Column, digits: Column) -> Column:
    """Return an expression for an offset from UTC, in milliseconds.

    Args:
        text: the offset as in the date string, such as `+05:30` or `Z`.
        digits: the six digits of the offset, hhmmss.
    """
    hours, minutes, seconds = (F.substring(digits, start, 2).cast("long") for start in (1, 3, 5))
    offset = (hours * 60 + minutes) * MINUTE_MS + seconds * SECOND_MS
    return F.when(text.startswith("-"), -offset).otherwise(offset)


def _offset_name(text: Column, digits: Column) -> Column:
    """Return an expression for the name of a zone with a fixed offset: `UTC`, or for example `+05:30`.

    Args:
        text: the offset as in the date string, such as `+0530` or `Z`.
        digits: the six digits of the offset, hhmmss.
    """
    name = F.concat(F.substring(text, 1, 1), F.substring(digits, 1, 2), F.lit(":"), F.substring(digits, 3, 2))
    return F.when(digits == "000000", "UTC").otherwise(name)


def _as_struct(moment: Moment) -> Column:
    """Return the three expressions of a moment as one struct column, so that `bind` can evaluate them once."""
    return F.struct(moment.utc.alias("utc"), moment.wall.alias("wall"), moment.zone.alias("zone"))


def _from_struct(struct: Column) -> Moment:
    """Return the moment in a struct column that `_as_struct` made."""
    return Moment(struct["utc"], struct["wall"], struct["zone"])
