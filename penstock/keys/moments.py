"""Joda-Time's printing and reading of dates, as Spark expressions.

All times are milliseconds as numbers: since 1970 in UTC (`utc`), or the same count on the clock on the wall of some
zone (`wall`). Fields are made from `wall` by arithmetic, so neither the session's time zone nor its parser policy has
a say.

Reading a text:

1. the first pattern whose regular expression fits the whole text is taken;
2. its groups are checked for their ranges and added up to a wall clock time;
3. the zone in the text, else the given one, else the session's, places it in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.keys.joda import DAYS, MONTHS, Reading, Token
from penstock.keys.texts import fail
from penstock.keys.zones import Zone

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
MILLIS_MAX = 8_640_000_000_000_000
"""Times up to this distance from 1970, some 270,000 years, can be printed."""

_YEAR_MAX = 200_000
_GROUP_END = "\x1f"


@dataclass(frozen=True, eq=False)
class Moment:
    """A point in time together with what the wall clock shows, and the name of the zone of that clock."""

    utc: Column
    wall: Column
    zone: Column


# --- zones


def moment_in(zone: Zone | None, utc: Column) -> Moment:
    """Give the moment as seen in the zone; without one, in the session's."""
    if zone is None:
        return Moment(utc, _shifted(F.from_utc_timestamp, utc, F.current_timezone()), F.current_timezone())
    if zone.offset_ms is not None:
        return Moment(utc, utc + F.lit(zone.offset_ms), F.lit(zone.name))
    return Moment(utc, _shifted(F.from_utc_timestamp, utc, F.lit(zone.name)), F.lit(zone.name))


def utc_of(zone: Zone | None, wall: Column) -> Column:
    """Give the moment at which the clocks of the zone show this."""
    if zone is not None and zone.offset_ms is not None:
        return wall - F.lit(zone.offset_ms)
    return _shifted(F.to_utc_timestamp, wall, F.current_timezone() if zone is None else F.lit(zone.name))


def _shifted(shift: Callable[[Column, Column], Column], millis: Column, zone: Column) -> Column:
    # both functions move the number itself by the zone's offset, so the session's zone plays no part
    return F.unix_millis(shift(F.timestamp_millis(millis), zone))


# --- printing


def printed(moment: Moment, tokens: Sequence[Token]) -> Column:
    """Give the text of the moment's wall clock by the tokens of a pattern."""
    return F.concat(*(_printed_token(moment, token) for token in tokens))


def _printed_token(moment: Moment, token: Token) -> Column:
    if not token.letter:
        return F.lit(token.text)
    if token.letter in "yYxCG":
        return _printed_year(_date(moment), token)
    if token.letter in "MdDweE":
        return _printed_day(_date(moment), token)
    if token.letter == "Z":
        return _printed_zone(moment, token)
    return _printed_time(F.pmod(moment.wall, F.lit(DAY_MS)), token)


def _date(moment: Moment) -> Column:
    days = (moment.wall - F.pmod(moment.wall, F.lit(DAY_MS))) / F.lit(DAY_MS)
    return F.date_from_unix_date(days.cast("int"))


def _printed_year(date: Column, token: Token) -> Column:
    year = F.date_part(F.lit("YEAROFWEEK"), date) if token.letter == "x" else F.year(date)
    of_era = F.when(year > 0, year).otherwise(1 - year)
    if token.letter == "G":
        return F.when(year > 0, "AD").otherwise("BC")
    if token.letter == "C":
        return _padded(_whole(of_era, 100), token.width, digits=4)
    if token.is_two_digit_year:
        return _padded(F.abs(year) % 100, 2, digits=2)
    if token.letter == "Y":
        return _padded(of_era, token.width, digits=6)
    text = _padded(F.abs(year), token.width, digits=6)
    return F.when(year < 0, F.concat(F.lit("-"), text)).otherwise(text)


def _printed_day(date: Column, token: Token) -> Column:
    if token.letter == "M" and token.width >= 3:
        return _name_at(F.month(date), MONTHS, full=token.width >= 4)
    if token.letter == "E":
        return _name_at(F.weekday(date) + 1, DAYS, full=token.width >= 4)
    number: dict[str, Callable[[Column], Column]] = {
        "M": F.month,
        "d": F.dayofmonth,
        "D": F.dayofyear,
        "w": F.weekofyear,
        "e": lambda date: F.weekday(date) + 1,
    }
    return _padded(number[token.letter](date), token.width, digits=3)


def _printed_time(in_day: Column, token: Token) -> Column:
    hour = _whole(in_day, HOUR_MS)
    if token.letter == "a":
        return F.when(hour < 12, "AM").otherwise("PM")
    if token.letter == "S":
        millis = F.lpad((in_day % SECOND_MS).cast("string"), 3, "0")
        return F.rpad(millis, token.width, "0")  # cuts, too
    number = {
        "H": hour,
        "k": (hour + 23) % 24 + 1,
        "K": hour % 12,
        "h": (hour + 11) % 12 + 1,
        "m": _whole(in_day, MINUTE_MS) % 60,
        "s": _whole(in_day, SECOND_MS) % 60,
    }
    return _padded(number[token.letter], token.width, digits=2)


def _printed_zone(moment: Moment, token: Token) -> Column:
    if token.width >= 3:
        return moment.zone
    offset = moment.wall - moment.utc
    minutes = _whole(F.abs(offset), MINUTE_MS)
    return F.concat(
        F.when(offset < 0, "-").otherwise("+"),
        _padded(_whole(minutes, 60), 2, digits=2),
        F.lit(":" if token.width == 2 else ""),
        _padded(minutes % 60, 2, digits=2),
    )


def _padded(number: Column, width: int, *, digits: int) -> Column:
    """Give the number, which is not negative and has so many digits at most, with zeros up to the width."""
    text = number.cast("string")
    if width <= 1:
        return text
    padded = F.lpad(text, width, "0")
    return padded if width >= digits else F.when(F.length(text) < width, padded).otherwise(text)


def _name_at(number: Column, names: Sequence[str], *, full: bool) -> Column:
    return F.elt(number, *(F.lit(name if full else name[:3]) for name in names))


def _whole(number: Column, divisor: int) -> Column:
    return F.floor(number / F.lit(divisor))


# --- reading


def read_moment(text: Column, readings: Sequence[Reading], *, zone: Zone | None, shown_in: Zone | None, failure: str) -> Column:
    """Give the moment as a struct of `utc`, `wall` and `zone`, seen on the clock of `shown_in`.

    Without `shown_in` the clock is that of the text: of its own zone if it names one, else of `zone`. A text that no
    pattern fits, or whose numbers make no date, raises `failure`, which shows the text in place of `{}`.
    """
    # otherwise() closes the chain, so it is built from its last case
    cases = reversed([(reading.regex, _read_by(text, reading, zone, shown_in, failure)) for reading in readings])
    return reduce(lambda rest, case: F.when(text.rlike(case[0]), case[1]).otherwise(rest), cases, fail(failure, text))


def moment_of(struct: Column) -> Moment:
    """Give the parts of what `read_moment` made."""
    return Moment(struct["utc"], struct["wall"], struct["zone"])


def bind(value: Column, body: Callable[[Column], Column]) -> Column:
    """Evaluate `value` once per row, however often `body` uses it."""
    return F.transform(F.array(value), body)[0]


def _read_by(text: Column, reading: Reading, zone: Zone | None, shown_in: Zone | None, failure: str) -> Column:
    joined = "".join(f"${index + 1}{_GROUP_END}" for index in range(len(reading.groups)))
    groups = F.split(F.regexp_replace(text, reading.regex, joined), _GROUP_END)

    def from_groups(parts: Column) -> Column:
        fields = _Groups(reading, parts)
        valid, wall = _wall_clock(fields)
        moment = bind(wall, lambda bound: _as_struct(_placed(fields, bound, zone, shown_in)))
        return F.when(valid, moment).otherwise(fail(failure, text))

    return bind(groups, from_groups)


@dataclass(frozen=True, eq=False)
class _Groups:
    """The texts that the groups of a regular expression matched."""

    reading: Reading
    parts: Column

    def token(self, letters: str) -> Token | None:
        position = self.reading.position(letters)
        return None if position is None else self.reading.groups[position]

    def text(self, letters: str) -> Column | None:
        position = self.reading.position(letters)
        return None if position is None else self.parts[position]

    def number(self, letters: str, default: int) -> Column:
        text = self.text(letters)
        return F.lit(default) if text is None else text.cast("int")


def _wall_clock(groups: _Groups) -> tuple[Column, Column]:
    """Give whether the numbers are in their ranges, and, if so, what the wall clock shows."""
    days_valid, days = _week_date(groups) if groups.token("x") else _calendar_date(groups)
    time_valid, in_day = _time_of_day(groups)
    return days_valid & time_valid, days.cast("long") * F.lit(DAY_MS) + in_day


def _calendar_date(groups: _Groups) -> tuple[Column, Column]:
    # like Joda: a date without a year is one of 2000, a time without a date one of 1970
    year = _year(groups, "yY", default=2000 if groups.token("MdD") else 1970)
    month, month_valid = _month(groups)
    first = F.when(month_valid, F.unix_date(F.make_date(year, month, F.lit(1))))
    day, last = groups.number("d", 1), F.dayofmonth(F.last_day(F.date_from_unix_date(first)))
    if groups.token("D") and not groups.token("Md"):
        next_year = F.unix_date(F.make_date(year + 1, F.lit(1), F.lit(1)))
        day, last = groups.number("D", 1), next_year - first
    return _year_valid(year, groups) & month_valid & day.between(F.lit(1), last), first + day - 1


def _week_date(groups: _Groups) -> tuple[Column, Column]:
    year, week, day = _year(groups, "x", default=1970), groups.number("w", 1), groups.number("e", 1)
    first, following = _first_monday(year), _first_monday(year + 1)
    days = first + (week - 1) * 7 + day - 1
    valid = _year_valid(year, groups) & week.between(1, 53) & day.between(1, 7) & (first + (week - 1) * 7 < following)
    return valid, days


def _first_monday(year: Column) -> Column:
    """Give the Monday of ISO week 1, the week of 4 January, in days since 1970."""
    fourth = F.make_date(year, F.lit(1), F.lit(4))
    return F.unix_date(fourth) - F.weekday(fourth)


def _year(groups: _Groups, letters: str, *, default: int) -> Column:
    token, number = groups.token(letters), groups.number(letters, default)
    if token is None:
        return number
    if token.is_two_digit_year:
        number = _two_digit_year(groups, letters, number)
    # out of range is found by _year_valid; until then no date may overflow
    return F.when(number.between(-_YEAR_MAX, _YEAR_MAX), number).otherwise(F.lit(default))


def _two_digit_year(groups: _Groups, letters: str, number: Column) -> Column:
    """Place two digits into the hundred years that begin 80 years before this one; other numbers stay as they are."""
    text = groups.text(letters)
    assert text is not None
    earliest = F.year(F.current_date()) - 80
    placed = earliest + F.pmod(number - earliest, F.lit(100))
    return F.when(text.rlike(r"\A\d\d\z"), placed).otherwise(number)


def _year_valid(year: Column, groups: _Groups) -> Column:
    letters = "yYx"
    token = groups.token(letters)
    if token is None or token.is_two_digit_year:
        return F.lit(True)
    valid = groups.number(letters, 0).between(-_YEAR_MAX, _YEAR_MAX)
    return valid & (year > 0) if token.letter == "Y" else valid


def _month(groups: _Groups) -> tuple[Column, Column]:
    token, text = groups.token("M"), groups.text("M")
    if token is None or text is None:
        return F.lit(1), F.lit(True)
    if token.width < 3:
        number = text.cast("int")
        return number, number.between(1, 12)
    starts = F.lit("".join(name[:3].lower() for name in MONTHS))
    place = F.position(F.lower(F.substring(text, 1, 3)), starts)
    return _whole(place + 2, 3).cast("int"), F.lit(True)


def _time_of_day(groups: _Groups) -> tuple[Column, Column]:
    hour, hour_valid = _hour(groups)
    minute, second = groups.number("m", 0), groups.number("s", 0)
    fraction = groups.text("S")
    millis = F.lit(0) if fraction is None else F.rpad(F.substring(fraction, 1, 3), 3, "0").cast("int")
    valid = hour_valid & minute.between(0, 59) & second.between(0, 59)
    return valid, (hour * 60 + minute) * MINUTE_MS + second * SECOND_MS + millis


def _hour(groups: _Groups) -> tuple[Column, Column]:
    if groups.token("H"):
        hour = groups.number("H", 0)
        return hour, hour.between(0, 23)
    if groups.token("k"):
        hour = groups.number("k", 24)
        return hour % 24, hour.between(1, 24)
    half = groups.text("a")
    afternoon = F.lit(0) if half is None else F.when(F.lower(half) == "pm", 12).otherwise(0)
    if groups.token("K"):
        hour = groups.number("K", 0)
        return hour + afternoon, hour.between(0, 11)
    hour = groups.number("h", 12)
    return hour % 12 + afternoon, hour.between(1, 12)


def _placed(groups: _Groups, wall: Column, zone: Zone | None, shown_in: Zone | None) -> Moment:
    """Give the moment that the text names, on the clock it is to be shown on."""
    token, text = groups.token("Z"), groups.text("Z")
    if token is None or text is None:
        name = F.current_timezone() if zone is None else F.lit(zone.name)
        written = Moment(utc_of(zone, wall), wall, name)
    elif token.width >= 3:
        written = Moment(_shifted(F.to_utc_timestamp, wall, text), wall, text)
    else:
        offset = _offset_ms(text)
        written = Moment(wall - offset, wall, _offset_name(text))
    shown_in = shown_in or zone
    return written if shown_in is None else moment_in(shown_in, written.utc)


def _offset_ms(text: Column) -> Column:
    digits = F.rpad(F.regexp_replace(text, r"\D", ""), 6, "0")
    seconds = reduce(
        lambda total, start: total * 60 + F.substring(digits, start, 2).cast("long"), (1, 3, 5), F.lit(0).cast("long")
    )
    return F.when(text.startswith("-"), -seconds).otherwise(seconds) * SECOND_MS


def _offset_name(text: Column) -> Column:
    digits = F.rpad(F.regexp_replace(text, r"\D", ""), 4, "0")
    name = F.concat(F.substring(text, 1, 1), F.substring(digits, 1, 2), F.lit(":"), F.substring(digits, 3, 2))
    return F.when(digits == "0000", "UTC").otherwise(name)


def _as_struct(moment: Moment) -> Column:
    return F.struct(moment.utc.alias("utc"), moment.wall.alias("wall"), moment.zone.alias("zone"))
