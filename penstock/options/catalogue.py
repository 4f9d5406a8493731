"""The catalogue: every known option, the door that options come in by, and the page that documents them.

`read_options` is that door. What passes it has canonical keys, parses, and asks for nothing that Penstock does not do;
so the code behind it never validates again. An area file of this package becomes part of the catalogue by its line in
`AREAS`.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType, ModuleType
from typing import Any, Final

from penstock.errors import OptionError
from penstock.options import (
    callback,
    clean,
    clustering,
    compaction,
    concurrency,
    engine,
    index,
    keys,
    layout,
    memory,
    metadata_table,
    penstock,
    read,
    sql,
    streaming,
    sync,
    table,
    timeline,
    ttl,
    write,
)
from penstock.options.option import GIB, KIB, MIB, Family, Option, Options, UnknownOptionWarning, form_of

PREFIXES: Final = ("hoodie.", "penstock.")


@dataclass(frozen=True)
class Area:
    """One file of options: a table of the page."""

    title: str
    options: tuple[Option[Any], ...]
    families: tuple[Family, ...]


def _area(title: str, module: ModuleType) -> Area:
    """The options declared in `module`, in order of declaration."""
    declared = vars(module).values()
    options = tuple(one for one in declared if isinstance(one, Option))
    return Area(title, options, tuple(one for one in declared if isinstance(one, Family)))


AREAS: Final = (
    _area("Writing", write),
    _area("Keys and partition paths", keys),
    _area("Table properties", table),
    _area("Files", layout),
    _area("Index", index),
    _area("Memory", memory),
    _area("Reading", read),
    _area("Timeline: markers, rollback, archiving", timeline),
    _area("Cleaning", clean),
    _area("Lifetime of partitions", ttl),
    _area("Compaction", compaction),
    _area("Clustering", clustering),
    _area("Concurrency", concurrency),
    _area("Metadata table", metadata_table),
    _area("Catalog sync", sync),
    _area("Commit callbacks", callback),
    _area("Streaming", streaming),
    _area("SQL", sql),
    _area("Engine", engine),
    _area("Penstock", penstock),
)
CATALOGUE: Final[Mapping[str, Option[Any]]] = MappingProxyType({option.key: option for area in AREAS for option in area.options})
FAMILIES: Final = tuple(family for area in AREAS for family in area.families)

_BY_ANY_NAME: Final[Mapping[str, Option[Any]]] = {
    name.lower(): option for option in CATALOGUE.values() for name in (option.key, *option.aliases)
}


def lookup(key: str) -> Option[Any] | None:
    """The option known by this key or alias, in any case; None if there is none."""
    return _BY_ANY_NAME.get(key.lower())


def read_options(raw: Mapping[str, object]) -> Options:
    """The options as given by a user, checked.

    Numbers and booleans become text as Spark makes it; None means not given. Known keys may be in any case and under
    an alias. Keys outside `hoodie.` and `penstock.` that are not in the catalogue pass through as they are.

    Raises:
        OptionError: a value is not allowed or does not parse, or one option is given twice with different values.
        Unsupported: Hudi knows the option or value, Penstock does not do it. Nothing has been read or written.
    """
    given: dict[str, str] = {}
    named: dict[str, str] = {}
    for name, value in raw.items():
        text = _spark_text(name, value)
        if text is None:
            continue
        option = lookup(name)
        key = option.key if option else name
        if option:
            text = _checked(option, name, text)
        elif name.lower().startswith(PREFIXES) and not _in_family(name):
            _warn_unknown(name)
        if key in given and given[key] != text:
            raise _given_twice(option, (named[key], given[key]), (name, text))
        given[key], named[key] = text, name
    return Options(given)


def _spark_text(name: str, value: object) -> str | None:
    """A value as the text that Spark's `option` makes of it."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    kind = type(value).__name__
    raise OptionError(f"option '{name}' is of type {kind}; give a string, a number or a boolean")


def _checked(option: Option[Any], name: str, text: str) -> str:
    """`text` in canonical spelling, if it parses and Penstock does it."""
    if name.lower() != option.key.lower():
        text = next((new for old, new in option.alias_values if old == text.strip().lower()), text)
    text = option.canonical(text)
    if isinstance(option.read(text), bool):
        text = text.strip().lower()
    option.require_support(text)
    return text


def _given_twice(option: Option[Any] | None, first: tuple[str, str], second: tuple[str, str]) -> OptionError:
    shown = [f"{name}={option.shown(text) if option else repr(text)}" for name, text in (first, second)]
    return OptionError(f"one option is given twice with different values: {shown[0]} and {shown[1]}; leave one out")


def _in_family(name: str) -> bool:
    return any(name.lower().startswith(family.prefix) for family in FAMILIES)


def _warn_unknown(name: str) -> None:
    near = difflib.get_close_matches(name.lower(), _BY_ANY_NAME, n=1, cutoff=0.75)
    hint = f"; did you mean '{_spelled(near[0])}'?" if near else ""
    warnings.warn(f"unknown option '{name}' has no effect{hint}", UnknownOptionWarning, stacklevel=3)


def _spelled(lower: str) -> str:
    option = _BY_ANY_NAME[lower]
    return next(name for name in (option.key, *option.aliases) if name.lower() == lower)


# -- the page --------------------------------------------------------------------------------------------------------

_INTRODUCTION: Final = """\
# Options

This page is generated from the catalogue in `penstock/options`; `python scripts/render_options.py` writes it.

Options go to `df.write.option(...)` and `spark.read.option(...)`. Keys may be in any case. A value that does not parse
is an error that says what was expected. A `hoodie.` or `penstock.` key that is not on this page gives an
`UnknownOptionWarning` with the nearest known key. Defaults are those of Hudi 0.15; where Hudi
infers a value, the default is none and the text says what decides.

| status | meaning |
| --- | --- |
| yes | every value does what it says |
| only … | these values do what they say; any other is refused with `Unsupported`, before anything is read or written |
| refused | Penstock does not do it; giving the option is an error that says what to do instead |
| idle | tunes a feature that Penstock does not have yet and whose own switch is refused; kept, without effect |
| no effect | tunes machinery of the JVM engine; any value gives the same rows |
"""


def render_markdown() -> str:
    """The page `docs/options.md`: one table per area."""
    return "\n".join([_INTRODUCTION, *(_render_area(area) for area in AREAS)])


def _render_area(area: Area) -> str:
    lines = [f"## {area.title}", ""]
    lines += ["| option | default | values | what it does | status |", "| --- | --- | --- | --- | --- |"]
    lines += [_render_row(_cells(option)) for option in area.options]
    lines += [_render_row((f"`{one.prefix}*`", "", "", one.doc, "no effect")) for one in area.families]
    return "\n".join(lines) + "\n"


def _render_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cells(option: Option[Any]) -> tuple[str, ...]:
    also = "".join(f"<br>also `{alias}`" for alias in option.aliases)
    values = ", ".join(f"`{value}`" for value in option.allowed) if option.allowed else form_of(option.parse)
    return f"`{option.key}`{also}", _shown_default(option), values, option.doc, status(option)


def _shown_default(option: Option[Any]) -> str:
    if option.default is None or option.default == ():
        return "none"
    if option.default == "":
        return "empty"
    size = _size(option.default) if option.allowed is None else ""
    return f"`{option.default_raw}`{size}"


def _size(value: object) -> str:
    """A number of bytes in units people read, for defaults that are one."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if isinstance(value, int) and not isinstance(value, bool) and value >= 64 * KIB and value % unit == 0:
            return f" ({value // unit} {name})"
    return ""


def status(option: Option[Any]) -> str:
    """How far Penstock goes along with the option, as the page says it."""
    if option.accepted:
        return "no effect"
    if option.waits_for:
        return f"idle: {option.waits_for}"
    if option.supported is None:
        return "yes"
    if not any(option.supported):
        return "refused"
    return "only " + ", ".join(f"`{value}`" for value in option.supported)
