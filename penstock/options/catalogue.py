"""The catalogue of all options, and `read_options`, which checks the options of a user.

`read_options` is called once, where options enter Penstock. The options that it returns have keys in the catalogue's spelling,
and values that parse and are supported. No other code checks them again.

To add an option, declare it in an area module. To add an area, write a module, and add a line to `AREAS` and a line to
`__init__.py`, which re-exports the constants for type checkers. A test fails if a line is missing.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
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
    lineage,
    memory,
    metadata_table,
    metrics,
    penstock,
    read,
    sql,
    storage,
    streaming,
    sync,
    table,
    timeline,
    ttl,
    write,
)
from penstock.options.option import Family, IgnoredOptionWarning, Option, Options, UnknownOptionWarning
from penstock.user_warning import warn_user

#: Options of other table formats, in lower case, each with the option of the same purpose.
_NAMES_ELSEWHERE: Final = {
    "timestampasof": read.AS_OF_INSTANT.key,
    "versionasof": read.AS_OF_INSTANT.key,
    "as-of-timestamp": read.AS_OF_INSTANT.key,
    "snapshot-id": read.AS_OF_INSTANT.key,
    "startingtimestamp": read.BEGIN_INSTANT.key,
    "startingversion": read.BEGIN_INSTANT.key,
    "start-snapshot-id": read.BEGIN_INSTANT.key,
    "endingtimestamp": read.END_INSTANT.key,
    "endingversion": read.END_INSTANT.key,
    "end-snapshot-id": read.END_INSTANT.key,
    "readchangefeed": read.QUERY_TYPE.key,
    "partitionoverwritemode": write.OPERATION.key,
    "replacewhere": write.OPERATION.key,
}


@dataclass(frozen=True)
class Area:
    """A section of `docs/options.md`: its heading, and the options that one module of this folder declares."""

    title: str
    options: tuple[Option[Any], ...]
    families: tuple[Family, ...]


def _area(title: str, module: ModuleType) -> Area:
    """Return the section of `docs/options.md` with all options that a module declares, in the order of their declarations.

    Args:
        title: the heading of the section.
    """
    values = vars(module).values()
    options = tuple(value for value in values if isinstance(value, Option))
    families = tuple(value for value in values if isinstance(value, Family))
    return Area(title, options, families)


#: All areas, in the order of the page.
AREAS: Final = (
    _area("Writing", write),
    _area("Keys and partition paths", keys),
    _area("Table properties", table),
    _area("Data files", layout),
    _area("Index", index),
    _area("Memory", memory),
    _area("Reading", read),
    _area("Timeline: markers, rollback, archiving", timeline),
    _area("Cleaning", clean),
    _area("Partition lifetime", ttl),
    _area("Compaction", compaction),
    _area("Clustering", clustering),
    _area("Concurrency", concurrency),
    _area("Metadata table", metadata_table),
    _area("Catalog sync", sync),
    _area("Object stores and HDFS", storage),
    _area("Commit callbacks", callback),
    _area("Metrics", metrics),
    _area("Lineage", lineage),
    _area("Streaming", streaming),
    _area("SQL", sql),
    _area("JVM engine", engine),
    _area("Penstock", penstock),
)


def _by_key() -> dict[str, Option[Any]]:
    """Return a map from each key to its option, for the options of all areas."""
    options = {}
    for area in AREAS:
        for option in area.options:
            options[option.key] = option
    return options


#: All options by key.
CATALOGUE: Final[Mapping[str, Option[Any]]] = MappingProxyType(_by_key())


def _by_name() -> dict[str, Option[Any]]:
    """Return a map from each key and alias, in lower case, to its option."""
    options = {}
    for option in CATALOGUE.values():
        for name in (option.key, *option.aliases):
            options[name.lower()] = option
    return options


#: All options by key and by alias, in lower case.
_BY_NAME: Final[Mapping[str, Option[Any]]] = _by_name()


def lookup(key: str) -> Option[Any] | None:
    """Return the option with this key or alias, in any case; None if the catalogue has none."""
    return _BY_NAME.get(key.lower())


def read_options(raw: Mapping[str, object]) -> Options:
    """Check the options that a user set; return them as `Options`.

    Numbers and booleans become strings as in Spark. A value of None means that the option is not set. Known keys and aliases may
    have any case. Keys that are not in the catalogue are kept, with a warning that names the nearest key of the catalogue. There
    is no warning for keys that the write stores in its commit, see `hoodie.datasource.write.commitmeta.key.prefix`.

    Raises:
        OptionError: a value is not allowed or does not parse, or one option is set twice to different values.
        Unsupported: Penstock does not support the option or value. Nothing was read or written.
    """
    texts: dict[str, str] = {}
    names: dict[str, str] = {}  # by key: the name that the user wrote
    for name, value in raw.items():
        text = _to_text(name, value)
        if text is None:
            continue
        option = lookup(name)
        key = option.key if option else name
        if option and option.blank_is_unset and not text.strip():
            continue
        if option:
            text = _check_value(option, name, text)
        if key in texts and texts[key] != text:
            raise _set_twice(option, (names[key], texts[key]), (name, text))
        texts[key] = text
        names[key] = name
    options = Options(texts)
    _refuse_unsupported(options)
    _warn_unknown(options)
    _warn_ignored(options)
    return options


def _to_text(name: str, value: object) -> str | None:
    """Return an option's value as a string, converted as Spark's `option` method does; None if the value is None.

    Raises:
        OptionError: the value is not a string, number or boolean.
    """
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


def _check_value(option: Option[Any], name: str, text: str) -> str:
    """Check the value that a user set for an option; return it in the catalogue's spelling.

    Args:
        name: the key or alias that the user wrote.

    Raises:
        OptionError: the value is not allowed or does not parse.
        Unsupported: Penstock refuses the value, whatever values other options have.
    """
    is_alias = name.lower() != option.key.lower()
    if is_alias:
        text = dict(option.alias_values).get(text.strip().lower(), text)
    text = option.canonical(text)
    if isinstance(option.read(text), bool):
        text = text.strip().lower()  # equal values must have equal texts
    if not option.refused_if:
        option.require_support(text)
    return text


def _refuse_unsupported(options: Options) -> None:
    """Raise Unsupported if an option has a value that Penstock refuses only while a feature is on, and the feature is on.

    Other options turn the feature on: those of `Option.refused_if`.
    """
    for key, text in options.raw.items():
        option = CATALOGUE.get(key)
        if option is not None and any(_has_value(options, *condition) for condition in option.refused_if):
            option.require_support(text)


def _set_twice(option: Option[Any] | None, first: tuple[str, str], second: tuple[str, str]) -> OptionError:
    """Build the error for an option that is set twice to different values.

    Args:
        option: the option; None: the key is not in the catalogue.
        first: the name that the user wrote, and its value.
        second: the other name, and its value.
    """
    shown = [f"{name}={option.shown(text) if option else repr(text)}" for name, text in (first, second)]
    return OptionError(f"one option is given twice with different values: {shown[0]} and {shown[1]}; leave one out")


def _is_in_family(name: str) -> bool:
    """Whether the name of an option begins with the prefix of a `Family`, which stands for all options with this prefix."""
    for area in AREAS:
        for family in area.families:
            if name.lower().startswith(family.prefix):
                return True
    return False


def _warn_unknown(options: Options) -> None:
    """Warn about each key that is not in the catalogue, and name the nearest key or alias."""
    stored_in_commit = options[write.COMMIT_METADATA_KEY_PREFIX]
    for name in options:
        is_stored = stored_in_commit and name.startswith(stored_in_commit)
        if lookup(name) is not None or is_stored or _is_in_family(name):
            continue
        nearest = _find_nearest(name.lower())
        hint = f"; did you mean '{nearest}'?" if nearest else ""
        warn_user(f"unknown option '{name}' has no effect{hint}", UnknownOptionWarning)


#: Keys of options whose `IgnoredOptionWarning` was shown in this session.
_SHOWN: Final[set[str]] = set()


def forget_shown_warnings() -> None:
    """Forget which warnings about ignored options were shown, so that they are shown again. Called when a session begins."""
    _SHOWN.clear()


def _warn_ignored(options: Options) -> None:
    """Warn about options that have an effect in Hudi and none in Penstock, once per session and option.

    Options with the same reason are named by one warning.
    """
    keys_by_reason: dict[str, list[str]] = {}
    for key, text in options.raw.items():
        option = CATALOGUE.get(key)
        if option is not None and option.ignores(text) and not _is_used(option, options) and key not in _SHOWN:
            keys_by_reason.setdefault(option.no_effect_because, []).append(key)
            _SHOWN.add(key)
    for reason, ignored in keys_by_reason.items():
        verb = "has" if len(ignored) == 1 else "have"
        warn_user(f"{', '.join(ignored)} {verb} no effect: {reason}", IgnoredOptionWarning)


def _is_used(option: Option[Any], options: Options) -> bool:
    """Whether an option that is usually ignored has an effect, because another option has the value in `option.used_if`.

    False if `option.used_if` is not set.
    """
    return option.used_if is not None and _has_value(options, *option.used_if)


def _has_value(options: Options, key: str, value: str) -> bool:
    """Whether the option `key` has this value, in any case, as it was set or by default."""
    return options.raw.get(key, CATALOGUE[key].default_raw).strip().lower() == value.lower()


def _find_nearest(lower: str) -> str | None:
    """Return the key or alias that a user may have meant by an unknown key, given in lower case; None if none is similar.

    The first of these that exists: the option with the purpose that the key has in another table format, a key that ends with the
    unknown key (the user left out its beginning), or the most similar key.
    """
    if lower in _NAMES_ELSEWHERE:
        return _NAMES_ELSEWHERE[lower]
    longer = [name for name in _BY_NAME if "." in lower and name.endswith(f".{lower}")]
    if longer:
        return _spelling(min(longer, key=len))
    similar = difflib.get_close_matches(lower, _BY_NAME, n=1, cutoff=0.75)
    return _spelling(similar[0]) if similar else None


def _spelling(lower: str) -> str:
    """Return a key or alias in the catalogue's spelling, given in lower case."""
    option = _BY_NAME[lower]
    return next(name for name in (option.key, *option.aliases) if name.lower() == lower)
