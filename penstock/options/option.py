"""What an option is, and the bag of options a read or a write carries.

An `Option` is one line of the catalogue: its key, how its text becomes a value, its default, what it does and how far
Penstock goes along with it. `Options` is a frozen, picklable map of the raw texts that were given; indexing it with an
`Option` gives the parsed value or the default, typed. The parsers below turn text into values and know by name what
they expect, so that an error can say it.

The area files of this package declare options; `catalogue.py` collects and checks them. Nothing here knows Spark.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from penstock.errors import OptionError, Unsupported

T = TypeVar("T")

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

LONG_MAX: Final = 2**63 - 1


class UnknownOptionWarning(UserWarning):
    """A `hoodie.*` or `penstock.*` key that is not in the catalogue; usually a typing error. It has no effect."""


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option of the catalogue.

    How far it is implemented, from the most to the least:

    * neither of the fields below: every value does what `doc` says;
    * `accepted`: it tunes machinery of the JVM engine that Penstock does not have; any value gives the same rows;
    * `waits_for`: it belongs to a feature that is not there yet and whose own switch is refused; kept, idle;
    * `supported`: only these values do what they say; any other is refused. `()` refuses every value.
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
    accepted: bool = False
    case_sensitive: bool = False
    waits_for: str = ""
    alias_values: tuple[tuple[str, str], ...] = ()
    secret: bool = False
    #: Says which other values are supported, such as names that users registered.
    also: Callable[[str], bool] | None = None

    def read(self, raw: str) -> T:
        """The value that `raw` stands for.

        Raises:
            OptionError: `raw` is not one of the allowed values, or not of the expected form.
        """
        try:
            return self.parse(self.canonical(raw))
        except ValueError as cause:
            if isinstance(cause, OptionError):
                raise
            raise OptionError(f"option '{self.key}' is {self.shown(raw)}; expected {form_of(self.parse)}") from None

    def canonical(self, raw: str) -> str:
        """`raw` in the catalogue's spelling, where the option has a list of allowed values; otherwise unchanged."""
        if self.allowed is None:
            return raw
        for value in self.allowed:
            if self._same(value, raw.strip()):
                return value
        raise OptionError(f"option '{self.key}' is {self.shown(raw)}; allowed: {', '.join(self.allowed)}")

    def supports(self, raw: str) -> bool:
        """Whether Penstock does what this value asks for."""
        if self.supported is None:
            return True
        value = to_raw(self.read(raw))
        return any(self._same(value, one) for one in self.supported) or (self.also is not None and self.also(value))

    def require_support(self, raw: str) -> None:
        """Pass if Penstock does what this value asks for.

        Raises:
            Unsupported: it does not. The message says what to do instead.
        """
        if self.supports(raw):
            return
        done = [one or "(empty)" for one in self.supported or ()]
        choice = f"supported: {', '.join(done)}" if done else "leave it out"
        hint = f" {self.instead[0].upper()}{self.instead[1:]}." if self.instead else ""
        raise Unsupported(f"option '{self.key}' is {self.shown(raw)}, which Penstock does not do; {choice}.{hint}")

    @property
    def default_raw(self) -> str:
        """The default as text; empty when there is none."""
        return to_raw(self.default)

    def shown(self, raw: str) -> str:
        """`raw` as it may appear in a message: quoted, and hidden if it is a secret."""
        return "'***'" if self.secret else f"'{raw}'"

    def _same(self, one: str, other: str) -> bool:
        return one == other if self.case_sensitive else one.lower() == other.lower()


@dataclass(frozen=True)
class Family:
    """All keys below a prefix, known as a group: they tune one thing that Penstock lacks, so they do nothing here."""

    prefix: str
    doc: str


class Options:
    """The options of one read or write: a frozen map from canonical keys to the texts that were given.

    The texts are trusted to be valid; `catalogue.read_options` is the door that checks them.
    `options[SMALL_FILE_LIMIT]` is the parsed value, or the default when the option was not given.
    """

    __slots__ = ("_raw",)
    _raw: Mapping[str, str]

    def __init__(self, raw: Mapping[str, str]) -> None:
        object.__setattr__(self, "_raw", MappingProxyType(dict(raw)))

    def __getitem__(self, option: Option[T]) -> T:
        """The value of `option`, or its default.

        Raises:
            OptionError: the text does not parse, which only happens to options that did not pass the door.
        """
        raw = self._raw.get(option.key)
        return option.default if raw is None else option.read(raw)

    def is_set(self, option: Option[Any]) -> bool:
        """Whether the option was given, be it with its default value."""
        return option.key in self._raw

    @property
    def raw(self) -> Mapping[str, str]:
        """The texts by key; read only."""
        return self._raw

    def replace(self, more: Mapping[str, str | None]) -> Options:
        """The same options with `more` laid over them; a value of None takes the key away."""
        merged: dict[str, str | None] = {**self._raw, **more}
        return Options({key: value for key, value in merged.items() if value is not None})

    def prefixed(self, prefix: str) -> dict[str, str]:
        """The texts whose keys start with `prefix`, under their full keys."""
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


def looks_secret(key: str) -> bool:
    """Whether the value of this key should stay out of messages and logs."""
    return re.search(r"password|secret|token|api\.key|credential|custom\.headers|access[._-]?key", key, re.I) is not None


def to_raw(value: object) -> str:
    """A parsed value as the text that parses to it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(to_raw(one) for one in value)
    return str(value)


# -- parsers: text to value. Each raises ValueError; `FORMS` says what it expected. ----------------------------------


def text(raw: str) -> str:
    """The text as it is."""
    return raw


def word(raw: str) -> str:
    """The text without blanks around it."""
    return raw.strip()


def filled(raw: str) -> str:
    """The text without blanks around it; not empty."""
    if not raw.strip():
        raise ValueError(raw)
    return raw.strip()


def words(raw: str) -> tuple[str, ...]:
    """The parts between commas, without blanks around them; empty parts vanish."""
    return tuple(part.strip() for part in raw.split(",") if part.strip())


def comma_list(raw: str) -> str:
    """A comma-separated list as one text, for those who split it themselves; `words` splits it."""
    return raw.strip()


def equalities(raw: str) -> tuple[tuple[str, object], ...]:
    """Columns and their values, from a JSON object of plain values; an empty text names none."""
    given = json.loads(raw) if raw.strip() else {}
    if not isinstance(given, dict) or any(isinstance(value, dict | list) for value in given.values()):
        raise ValueError(raw)
    return tuple(given.items())


def boolean(raw: str) -> bool:
    """`true` or `false`, in any case."""
    try:
        return {"true": True, "false": False}[raw.strip().lower()]
    except KeyError:
        raise ValueError(raw) from None


def whole(raw: str) -> int:
    """A whole number that fits into 64 bits."""
    number = int(raw) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", raw) else None
    if number is None or not -LONG_MAX - 1 <= number <= LONG_MAX:
        raise ValueError(raw)
    return number


def count(raw: str) -> int:
    """A whole number, zero or more."""
    return _at_least(whole(raw), 0)


def positive(raw: str) -> int:
    """A whole number, one or more."""
    return _at_least(whole(raw), 1)


def heartbeat_ms(raw: str) -> int:
    """Milliseconds between two heartbeats, 1000 or more."""
    return _at_least(whole(raw), 1000)


def number(raw: str) -> float:
    """A finite number."""
    if not re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", raw):
        raise ValueError(raw)
    value = float(raw)
    if not math.isfinite(value):
        raise ValueError(raw)
    return value


def amount(raw: str) -> float:
    """A finite number, zero or more."""
    return _at_least(number(raw), 0.0)


def fraction(raw: str) -> float:
    """A number from 0 to 1."""
    value = number(raw)
    if not 0 <= value <= 1:
        raise ValueError(raw)
    return value


def probability(raw: str) -> float:
    """A number between 0 and 1, neither of them included."""
    value = number(raw)
    if not 0 < value < 1:
        raise ValueError(raw)
    return value


N = TypeVar("N", int, float)


def _at_least(value: N, least: N) -> N:
    if value < least:
        raise ValueError(value)
    return value


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
    int: "a whole number",
    float: "a number",
    str: "text",
}


def form_of(parse: Callable[[str], Any]) -> str:
    """What a parser expects, in words. The parsers that area files add read class names."""
    return FORMS.get(parse, "a class name")
