"""`Option`, one option of the catalogue; `Options`, the options of a read or write; and the parsers of option values.

An `Option` declares a key, a parser, a default, a description and how far Penstock supports the option. `Options` is a frozen,
picklable map from keys to the strings that a user set. `options[option]` returns the parsed value, or the default if not set.

The area modules of this package declare options; `catalogue.py` collects and checks them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

from penstock.errors import OptionError, Unsupported

T = TypeVar("T")

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

LONG_MAX: Final = 2**63 - 1

#: A number with a unit, such as 120MB or 10 s.
_HAS_UNIT: Final = re.compile(r"[0-9][0-9_.,]*\s*[A-Za-z]+")


class UnknownOptionWarning(UserWarning):
    """Warns about a key that is not in the catalogue, usually a typing error or an option of another format. It has no effect."""


class IgnoredOptionWarning(UserWarning):
    """Warns about an option of Hudi that Penstock accepts without effect. It says what happens instead, once per session."""


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option of the catalogue. Its declaration in an area module is all that a new option needs.

    How far Penstock supports an option:

    * none of the four fields is set: every value has the effect that `doc` describes;
    * `accepted`: the option tunes a part of the JVM engine that Penstock does not have; it has no effect on the rows;
    * `waits_for`: the option tunes a feature that Penstock does not have yet; it has no effect, because the option that turns the
      feature on is refused;
    * `supported`: only these values are supported, all others are refused. `()` refuses every value;
    * `supported` and `ignored`: the other values change no rows, and are accepted with an `IgnoredOptionWarning`;
    * `supported` and `refused_if`: the other values are refused if the feature that uses the option is on. Otherwise they are
      accepted with an `IgnoredOptionWarning`.

    Attributes:
        parse: converts the string that a user set to a value, and raises ValueError if the string has a wrong form.
        doc: the description in `docs/options.md`.
        aliases: other keys of the same option.
        alias_values: pairs of strings. If the option is set under an alias, the first string of a pair means the second.
        allowed: the values that Hudi allows, in the spelling of the catalogue. None: any value that parses.
        since: the version of Penstock that introduced the option.
        is_also_supported: whether a value that is not in `supported` is supported, such as a name that the user registered.
        instead: what a user should do instead of a refused value, as the end of a sentence. Empty: use a supported value.
        lacks: the feature that Penstock lacks, if the option has values that are refused. The README lists these features.
        used_if: key and value of another option. With that value this option has its effect, and `ignored` does not apply.
        refused_if: pairs of key and value of other options, each of which turns on a feature that uses this option. A value
            is refused at once only if one of these options has that value. Otherwise it is refused when a feature reads it.
            Empty: it is always refused at once.
        blank_is_unset: whether an empty string means that the option is not set, as in Hudi.
        ignored: what happens instead of the effect that unsupported values have in Hudi, as the end of a sentence.
        case_sensitive: whether values are compared by case.
        secret: whether the value must not appear in messages.
    """

    key: str
    parse: Callable[[str], T]
    default: T
    doc: str
    aliases: tuple[str, ...] = ()
    allowed: tuple[str, ...] | None = None
    since: str = "0.1"
    supported: tuple[str, ...] | None = None
    instead: str = ""
    lacks: str = ""
    ignored: str = ""
    used_if: tuple[str, str] | None = None
    refused_if: tuple[tuple[str, str], ...] = ()
    blank_is_unset: bool = False
    accepted: bool = False
    case_sensitive: bool = False
    waits_for: str = ""
    alias_values: tuple[tuple[str, str], ...] = ()
    secret: bool = False
    is_also_supported: Callable[[str], bool] | None = None

    def read(self, raw: str) -> T:
        """Parse the string that a user set.

        Raises:
            OptionError: the string is not an allowed value, or has a wrong form.
        """
        try:
            return self.parse(self.canonical(raw))
        except ValueError as cause:
            if isinstance(cause, OptionError):
                raise
            form = describe_form(self.parse)
            unit = ", without a unit" if "number" in form and _HAS_UNIT.fullmatch(raw.strip()) else ""
            raise OptionError(f"option '{self.key}' is {self.shown(raw)}; expected {form}{unit}") from None

    def canonical(self, raw: str) -> str:
        """Return the user's string in the catalogue's spelling; unchanged if the option has no list of allowed values.

        Raises:
            OptionError: the string is not an allowed value.
        """
        if self.allowed is None:
            return raw
        for value in self.allowed:
            if self._is_same(value, raw.strip()):
                return value
        working = [value for value in self.allowed if self.ignored or self.supports(value)]
        raise OptionError(f"option '{self.key}' is {self.shown(raw)}; allowed: {', '.join(working)}")

    def supports(self, raw: str) -> bool:
        """Whether Penstock supports the value that the string `raw` stands for."""
        if self.supported is None:
            return True
        value = to_raw(self.read(raw))
        if any(self._is_same(value, supported) for supported in self.supported):
            return True
        return self.is_also_supported is not None and self.is_also_supported(value)

    def require_support(self, raw: str) -> None:
        """Raise Unsupported if Penstock refuses the value `raw`. Nothing is raised for a value that is supported or ignored."""
        if self.ignored or self.supports(raw):
            return
        raise Unsupported(f"option '{self.key}' is {self.shown(raw)}, which Penstock does not support: {self.way_out}")

    def ignores(self, raw: str) -> bool:
        """Whether Penstock accepts the value `raw` although it does not support it: the value then has no effect."""
        return bool(self.ignored or self.refused_if) and not self.supports(raw)

    @property
    def no_effect_because(self) -> str:
        """Why an ignored value has no effect, as the end of a sentence."""
        if self.ignored:
            return self.ignored
        *others, last = [f"{key}={value}" for key, value in self.refused_if]
        return f"it is used only with {', '.join(others)} or {last}" if others else f"it is used only with {last}"

    @property
    def way_out(self) -> str:
        """What a user should do instead of a refused value, as the end of a sentence."""
        if self.instead:
            return self.instead
        *others, last = self.supported or ("",)
        return f"use {', '.join(others)} or {last}" if others else f"use {last}"

    @property
    def default_raw(self) -> str:
        """The default value as a string; empty if there is none."""
        return to_raw(self.default)

    def shown(self, raw: str) -> str:
        """Return the user's string for an error message: in quotes, or as '***' if the option is secret."""
        return "'***'" if self.secret else f"'{raw}'"

    def _is_same(self, first: str, second: str) -> bool:
        """Whether two values of the option are equal. Case is ignored unless the option is case-sensitive."""
        return first == second if self.case_sensitive else first.lower() == second.lower()


@dataclass(frozen=True)
class Family:
    """All option keys that begin with `prefix` and that the catalogue does not list one by one: one row of `docs/options.md`.

    `status` says what Penstock does with these options.
    """

    prefix: str
    doc: str
    status: str = "no effect"


class Options:
    """The options of one read or write: a frozen map from keys, in the catalogue's spelling, to the strings that were set.

    `catalogue.read_options` checks a user's options and returns them as `Options`. The strings are not checked again.
    `options[SMALL_FILE_LIMIT]` is the parsed value, or the default if the option was not set.
    """

    __slots__ = ("_raw",)
    _raw: Mapping[str, str]

    def __init__(self, raw: Mapping[str, str]) -> None:
        object.__setattr__(self, "_raw", MappingProxyType(dict(raw)))

    def __getitem__(self, option: Option[T]) -> T:
        """Return the parsed value of an option if it was set, otherwise its default.

        Raises:
            OptionError: the string that was set does not parse. This cannot happen if the options come from `read_options`.
            Unsupported: the value is refused, and `read_options` accepted it because the feature that uses it seemed to be off.
        """
        raw = self._raw.get(option.key)
        if raw is None:
            return option.default
        if option.refused_if:
            option.require_support(raw)
        return option.read(raw)

    def require_support(self, *options: Option[Any]) -> None:
        """Raise Unsupported if the value of one of these options is refused.

        Reading an option raises this error too. So this method is for options that a feature depends on, but does not read.
        """
        for option in options:
            if option.key in self._raw:
                option.require_support(self._raw[option.key])

    def is_set(self, option: Option[Any]) -> bool:
        """Whether the option was set, even if to its default."""
        return option.key in self._raw

    @property
    def raw(self) -> Mapping[str, str]:
        """Key → the string that was set. Read only."""
        return self._raw

    def replace(self, more: Mapping[str, str | None]) -> Options:
        """Return a copy of these options with the values of `more` set. A value of None removes the key."""
        merged: dict[str, str | None] = {**self._raw, **more}
        return Options({key: value for key, value in merged.items() if value is not None})

    def prefixed(self, prefix: str) -> dict[str, str]:
        """Return full key → string that was set, for all keys that begin with `prefix`."""
        return {key: value for key, value in self._raw.items() if key.startswith(prefix)}

    def __contains__(self, item: object) -> bool:
        return (item.key if isinstance(item, Option) else item) in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __eq__(self, other: object) -> bool:
        return dict(self._raw) == dict(other._raw) if isinstance(other, Options) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._raw.items()))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Options are frozen; use replace()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("Options are frozen; use replace()")

    def __reduce__(self) -> tuple[type[Options], tuple[dict[str, str]]]:
        return Options, (dict(self._raw),)

    def __repr__(self) -> str:
        shown = {key: "***" if looks_secret(key) else value for key, value in self._raw.items()}
        return f"Options({shown})"


_SECRET_KEY: Final = re.compile(
    r"password|secret|token|api\.key|credential|custom\.headers|acc(?:ess|ount)[._-]?key|[._]sas\b|callback\.http\.url"
    r"|openlineage\.url|jaas|key\.pem|jdbcurl",
    re.IGNORECASE,
)


def looks_secret(key: str) -> bool:
    """Whether an option's key looks like that of a secret, such as a password, which must not appear in messages and logs."""
    return _SECRET_KEY.search(key) is not None


def to_raw(value: object) -> str:
    """Return a parsed value as a string that parses to the same value; "" for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(to_raw(item) for item in value)
    return str(value)


# -- parsers: each converts a string to a value, or raises ValueError. `FORMS` describes what each expects. ----------------


def text(raw: str) -> str:
    """Parse an option's string as text: unchanged."""
    return raw


def word(raw: str) -> str:
    """Parse an option's string as text without blanks at its ends."""
    return raw.strip()


def filled(raw: str) -> str:
    """Parse an option's string as text without blanks at its ends. Raises ValueError if nothing is left."""
    if not raw.strip():
        raise ValueError(raw)
    return raw.strip()


def words(raw: str) -> tuple[str, ...]:
    """Parse a comma-separated list into its parts, without blanks at their ends and without empty parts."""
    return tuple(part.strip() for part in raw.split(",") if part.strip())


def comma_list(raw: str) -> str:
    """Parse a comma-separated list as one string, without blanks at its ends. Unlike `words`, this does not split the list."""
    return raw.strip()


def equalities(raw: str) -> tuple[tuple[str, object], ...]:
    """Parse a JSON object of plain values into (column, value) pairs. An empty string counts as an empty object."""
    parsed = json.loads(raw) if raw.strip() else {}
    if not isinstance(parsed, dict) or any(isinstance(value, dict | list) for value in parsed.values()):
        raise ValueError(raw)
    return tuple(parsed.items())


def boolean(raw: str) -> bool:
    """Parse `true` or `false`, in any case. Raises ValueError for any other string."""
    try:
        return {"true": True, "false": False}[raw.strip().lower()]
    except KeyError:
        raise ValueError(raw) from None


def whole(raw: str) -> int:
    """Parse a whole number. Raises ValueError if it does not fit 64 bits.

    Underscores and digits of other scripts, which Python's `int` accepts but Java does not, raise ValueError too.
    """
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", raw):
        raise ValueError(raw)
    value = int(raw)
    if not -LONG_MAX - 1 <= value <= LONG_MAX:
        raise ValueError(raw)
    return value


def count(raw: str) -> int:
    """Parse a whole number. Raises ValueError if it is less than 0."""
    return _at_least(whole(raw), 0)


def positive(raw: str) -> int:
    """Parse a whole number. Raises ValueError if it is less than 1."""
    return _at_least(whole(raw), 1)


def heartbeat_ms(raw: str) -> int:
    """Parse the milliseconds between two heartbeats. Raises ValueError if they are less than 1000, Hudi's minimum."""
    return _at_least(whole(raw), 1000)


def number(raw: str) -> float:
    """Parse a finite number."""
    if not re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", raw):
        raise ValueError(raw)
    value = float(raw)
    if not math.isfinite(value):
        raise ValueError(raw)
    return value


def amount(raw: str) -> float:
    """Parse a finite number. Raises ValueError if it is less than 0."""
    return _at_least(number(raw), 0.0)


def fraction(raw: str) -> float:
    """Parse a number from 0 to 1, both included. Raises ValueError for other numbers."""
    value = number(raw)
    if not 0 <= value <= 1:
        raise ValueError(raw)
    return value


def probability(raw: str) -> float:
    """Parse a number between 0 and 1, both excluded. Raises ValueError for other numbers."""
    value = number(raw)
    if not 0 < value < 1:
        raise ValueError(raw)
    return value


def http_address(raw: str) -> str:
    """Parse the address of an HTTP server. Raises ValueError without the scheme http or https, or without a host."""
    address = raw.strip()
    parts = urlsplit(address)  # raises ValueError itself, as `port` does
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or re.search(r"[\s\x00-\x1f]", address):
        raise ValueError(raw)
    return address


#: The characters that a header's name may have, by RFC 9110; and its value: a line break would begin another header.
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def headers(raw: str) -> tuple[tuple[str, str], ...]:
    """Parse headers of an HTTP request, `Name1:Value1;Name2:Value2`, into (name, value) pairs. A value may contain colons.

    Raises ValueError if an entry has no colon, or characters that headers cannot have.
    """
    parsed = []
    for entry in raw.split(";"):
        if not entry.strip():
            continue
        name, colon, value = entry.partition(":")
        if not colon or not _HEADER_NAME.fullmatch(name.strip()) or not _HEADER_VALUE.fullmatch(value.strip()):
            raise ValueError(raw)
        parsed.append((name.strip(), value.strip()))
    return tuple(parsed)


N = TypeVar("N", int, float)


def _at_least(value: N, least: N) -> N:
    """Return `value`. Raises ValueError if it is less than `least`."""
    if value < least:
        raise ValueError(value)
    return value


#: What each parser expects, for error messages and for `docs/options.md`.
FORMS: Final[Mapping[Callable[[str], Any], str]] = {
    text: "text",
    word: "text",
    filled: "text that is not empty",
    words: "a comma-separated list",
    comma_list: "a comma-separated list",
    equalities: 'columns and their values as JSON, such as {"id": "a"}',
    boolean: "true or false",
    whole: "a whole number",
    count: "a whole number, 0 or more",
    positive: "a whole number, 1 or more",
    heartbeat_ms: "a whole number of milliseconds, 1000 or more",
    number: "a number",
    amount: "a number, 0 or more",
    fraction: "a number from 0 to 1",
    probability: "a number between 0 and 1, both excluded",
    http_address: "an address such as http://host:8080/path or https://host/path",
    headers: "headers such as Name1:Value1;Name2:Value2",
    int: "a whole number",
    float: "a number",
    str: "text",
}


def describe_form(parse: Callable[[str], Any]) -> str:
    """Return what a parser expects, such as "a whole number", for error messages; "a class name" if it is not in `FORMS`."""
    return FORMS.get(parse, "a class name")
