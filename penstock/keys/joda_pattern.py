"""Joda-Time date patterns: the language of Hudi's time-based key generator.

This module does not import pyspark. A pattern is parsed into tokens; `moment.py` (printing) and `joda_parsing.py` (reading) turn
these into Spark expressions. Java's and Spark's own patterns are not used: some of their letters have another meaning (`Y`, `e`,
`K`, `Z`, `x`), and a session setting changes it.

The table shows for each letter what is printed, and what is accepted when a date string is read. A number in the last column is
the most digits that are read. Reading is greedy: it takes as many digits as it can.

| letter | printed | read |
| --- | --- | --- |
| `y` | year, signed, padded to the width; `yy` two digits | 9, or the width if a number follows; `yy` around today |
| `Y` | year of era, otherwise as `y` | as `y`, without a sign |
| `x` `w` `e` | ISO week year, week, day of week 1 to 7 | week dates: `x` with `w` and `e` |
| `C` `G` | century of era, `AD` or `BC` | refused |
| `M` | month: number, `MMM` Jan, `MMMM` January | 2, or either name |
| `d` `D` | day of month, day of year | 2, 3 |
| `E` | Mon, `EEEE` Monday | a name, which is not checked against the date |
| `H` `k` `K` `h` | hour 0-23, 1-24, 0-11, 1-12 | 2 |
| `a` | AM or PM | the same |
| `m` `s` | minute, second | 2 |
| `S` | first digits of the fraction, zeros after milliseconds | as many as the width |
| `Z` `ZZ` `ZZZ` | offset +0530, offset +05:30, zone name | `Z` or either offset; `ZZZ` a zone name |
| `z` | refused: names such as CEST depend on the machine | refused |

`'text'` is literal, `''` a quote, and every character that is not a letter is literal. Names are English. Any other letter raises
OptionError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.errors import OptionError

MONTHS = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()  # noqa: SIM905

_PRINTABLE = frozenset("GCyYxweEMdDHkKhamsSZ")
_READABLE = _PRINTABLE - frozenset("GC")
_DIGITS_MAX = {"M": 2, "d": 2, "D": 3, "w": 2, "e": 1, "H": 2, "k": 2, "K": 2, "h": 2, "m": 2, "s": 2}
#: The width at which a number is read by position, and the expression for its digits.
_FIXED = {
    "y": (4, r"\d{4}"),
    "M": (2, r"(?:0[1-9]|1[0-2])"),
    "d": (2, r"(?:0[1-9]|[12]\d|3[01])"),
    "H": (2, r"(?:[01]\d|2[0-3])"),
    "m": (2, r"[0-5]\d"),
    "s": (2, r"[0-5]\d"),
}
_YEARS = frozenset("yYx")
_YEAR_DIGITS_MAX = 9

_OFFSET = r"(Z|[+-](?:[01]\d|2[0-3])(?::[0-5]\d(?::[0-5]\d)?|[0-5]\d(?:[0-5]\d)?)?)"
_ZONE_NAME = r"([A-Z][A-Z0-9_+/-]*+)"


@dataclass(frozen=True)
class Token:
    """One part of a date pattern: a letter with its width (`yyyy` is `y` of width 4), or literal text and an empty letter."""

    letter: str = ""
    width: int = 0
    text: str = ""

    @property
    def is_number(self) -> bool:
        """Whether the token is printed in digits, for example `yyyy` or `MM`, but not `MMM`."""
        if self.letter == "M":
            return self.width <= 2
        return self.letter != "" and self.letter in "CyYxweDdHkKhmsS"

    @property
    def is_two_digit_year(self) -> bool:
        """Whether the token is a year of two digits, which means one of the hundred years around today."""
        return self.letter in _YEARS and self.width == 2


@dataclass(frozen=True)
class Reading:
    """A parsed input pattern: a regular expression for whole date strings (Java's dialect), and the token of each regex group.

    If every part of the pattern has a fixed width, `fixed_regex` matches the date strings with exactly these widths, and `starts`
    has the position at which each group begins in them. Otherwise `fixed_regex` is None.
    """

    pattern: str
    regex: str
    groups: tuple[Token, ...]
    #: Matches text that fills a pattern whose parts all have a fixed width; None: some part has not.
    fixed_regex: str | None = None
    #: Where the groups start in text that `fixed_regex` matches.
    starts: tuple[int, ...] = ()

    def position(self, letters: str) -> int | None:
        """Return the index in `groups` of the last token whose letter is one of `letters`; None if there is none."""
        matching = [index for index, token in enumerate(self.groups) if token.letter in letters]
        return matching[-1] if matching else None


def parse_print_pattern(pattern: str, *, option: str) -> tuple[Token, ...]:
    """Parse a pattern for printing times into tokens.

    Args:
        option: the option that holds the pattern, for error messages.

    Raises:
        OptionError: a letter has no meaning, or its text would depend on the machine.
    """
    return _parse_tokens(pattern, _PRINTABLE, option=option)


def parse_read_pattern(pattern: str, *, option: str) -> Reading:
    """Parse a pattern for reading date strings.

    Args:
        option: the option that holds the pattern, for error messages.

    Raises:
        OptionError: a letter has no meaning or cannot be read, or the letters do not determine a date.
    """
    tokens = _parse_tokens(pattern, _READABLE, option=option)
    letters = {token.letter for token in tokens}
    if "w" in letters and "x" not in letters:
        raise OptionError(f"{option}={pattern}: a week (w) needs its week year (x) next to it.")
    if "x" in letters and letters & set("yYMdD"):
        raise OptionError(f"{option}={pattern}: use week dates (x, w, e) or calendar dates (y, M, d, D), not both.")
    regexes = []
    groups = []
    for token, following in zip(tokens, (*tokens[1:], Token()), strict=True):
        regexes.append(_make_regex(token, before_number=following.is_number))
        if token.letter not in ("", "E"):
            groups.append(token)
    reading = Reading(pattern, rf"(?i)\A{''.join(regexes)}\z", tuple(groups))
    return _add_fixed_width(reading, tokens)


def _parse_tokens(pattern: str, letters: frozenset[str], *, option: str) -> tuple[Token, ...]:
    """Split a pattern into tokens. Raise OptionError if it is empty or has a letter that is not in `letters`."""
    if not pattern.strip():
        raise OptionError(f"{option} is empty: give a date pattern, for example yyyy/MM/dd.")
    tokens = tuple(_split_pattern(pattern))
    for token in tokens:
        if token.letter and token.letter not in letters:
            raise OptionError(
                f"{option}={pattern}: the pattern letter {token.letter!r} cannot be used here. "
                f"Use {' '.join(sorted(letters))}; put literal text into single quotes, for example 'T'."
            )
    return tokens


def _add_fixed_width(reading: Reading, tokens: tuple[Token, ...]) -> Reading:
    """Return a copy of the reading with `fixed_regex` and `starts` set, if every part of the pattern has a fixed width.

    These patterns have only padded numbers and literal text, and perhaps an offset at the end. For any other pattern the reading
    is returned unchanged.
    """
    regexes = []
    starts = []
    at = 0
    for token in tokens:
        if token.letter:
            starts.append(at)
        if not token.letter:
            regexes.append(_quote_regex(token.text))
            at += len(token.text)
        elif token.letter == "S" or (token.letter in _FIXED and token.width == _FIXED[token.letter][0]):
            regexes.append(rf"\d{{{token.width}}}" if token.letter == "S" else _FIXED[token.letter][1])
            at += token.width
        elif token.letter == "Z" and token.width <= 2 and token is tokens[-1]:
            regexes.append(_OFFSET)
        else:
            return reading
    return replace(reading, fixed_regex=rf"(?i)\A{''.join(regexes)}\z", starts=tuple(starts))


def _quote_regex(text: str) -> str:
    """Return a regular expression that matches this text literally."""
    return "".join(c if c.isalnum() or not c.isascii() else f"\\{c}" for c in text)


def _split_pattern(pattern: str) -> Iterator[Token]:
    """Yield the tokens of a pattern: each repeated letter such as `yyyy`, and each literal text."""
    for match in re.finditer(r"(([A-Za-z])\2*)|((?:[^A-Za-z']|'(?:[^']|'')*(?:'|\Z))+)", pattern):
        if match.group(1):
            yield Token(letter=match.group(2), width=len(match.group(1)))
        else:
            yield Token(text=_unquote(match.group(3)))


def _unquote(literal: str) -> str:
    """Return literal text of a pattern without its quotes. `''` is a quote, inside and outside of quoted text."""
    return literal.replace("''", "\0").replace("'", "").replace("\0", "'")


def _make_regex(token: Token, *, before_number: bool) -> str:
    """Return the regular expression that reads one token.

    A number is matched possessively: as in Joda, a digit that it has taken is never left to the next token.

    Args:
        before_number: whether a number follows without a separator.
    """
    if not token.letter:
        return _quote_regex(token.text)
    if token.letter in _YEARS:
        return _make_year_regex(token, before_number=before_number)
    if token.letter == "M" and token.width >= 3:
        return f"({_match_names(MONTHS)})"
    if token.letter == "E":
        return f"(?:{_match_names(DAYS)})"
    if token.letter == "a":
        return "(AM|PM)"
    if token.letter == "Z":
        return _OFFSET if token.width <= 2 else _ZONE_NAME
    return rf"(\d{{1,{max(token.width, _DIGITS_MAX.get(token.letter, 1))}}}+)"


def _make_year_regex(token: Token, *, before_number: bool) -> str:
    """Return the regular expression that reads a year.

    Args:
        before_number: whether a number follows without a separator. The year then has as many digits as the token is wide.
    """
    if token.is_two_digit_year:
        return r"(\d{2})" if before_number else rf"([+-]?\d{{1,{_YEAR_DIGITS_MAX}}}+)"
    digits = token.width if before_number else max(_YEAR_DIGITS_MAX, token.width)
    sign = "" if token.letter == "Y" else "[+-]?"
    return rf"({sign}\d{{1,{digits}}}+)"


def _match_names(names: list[str]) -> str:
    """Return a regular expression that matches each name, in full or by its first three letters."""
    return "|".join([*names, *(name[:3] for name in names)])
