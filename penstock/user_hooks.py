"""The registry of users' commit callbacks and validators, by name.

A callback is registered in code, by `@penstock.commit_callback`, or by an installed package, as an entry point of the group
`penstock.commit_callbacks`. Validators are registered by `@penstock.validator` and in the group `penstock.validators`. Any other
name is unknown: no module is imported because an option names it. Both run on the driver only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from penstock.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")
_RESERVED_PREFIXES = ("org.apache.hudi.", "penstock.")
#: Callbacks of Penstock, as `penstock.commit.callbacks` names them.
HTTP = "http"
KAFKA = "kafka"


class HookKind(str, Enum):
    """The two kinds of functions that run around a commit."""

    #: Runs after the commit, with a notice of it.
    CALLBACK = "commit_callback"
    #: Runs before the commit, with the table as it would be after it.
    VALIDATOR = "validator"

    @property
    def group(self) -> str:
        """The group of entry points in which installed packages declare functions of this kind."""
        return f"penstock.{self.value}s"


_registered: dict[tuple[HookKind, str], Callable[..., Any]] = {}


def commit_callback(name: str) -> Callable[[F], F]:
    """Register a function, or a class whose objects are functions, that is called after each commit of a write.

    The function is called with a `penstock.CommitNotice`, on the driver. An object of a class is made for each commit, without
    arguments. The commit stays published, whatever the function raises: an error is a warning and a line in `Commit.follow_ups`.

    Args:
        name: the name by which `penstock.commit.callbacks` or `hoodie.write.commit.callback.class` chooses the function.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> @penstock.commit_callback("remember")
        ... def remember(notice):
        ...     seen.append((notice.table_name, notice.operation, notice.rows_updated))
        >>> seen = []
        >>> commit = table.upsert(trips, {"penstock.commit.callbacks": "remember"})
        >>> seen
        [('trips', 'upsert', 3)]
    """
    return _make_decorator(HookKind.CALLBACK, name)


def validator(name: str) -> Callable[[F], F]:
    """Register a function, or a class whose objects are functions, that may refuse a commit before it is published.

    The function is called with a `penstock.TablePreview`: the table before and after the commit, as DataFrames. It returns None
    or True to accept the commit; False, or a text that says why, refuses it, and so does an error. A write that is refused is
    undone, and raises `ValidationFailed`.

    Args:
        name: the name by which `hoodie.precommit.validators` chooses the function.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> @penstock.validator("no_free_trips")
        ... def no_free_trips(preview):
        ...     free = preview.after.where("fare <= 0").count()
        ...     return f"{free} trips would be free" if free else None
        >>> table.upsert(trips, {"hoodie.precommit.validators": "no_free_trips"}).rows_updated
        3
    """
    return _make_decorator(HookKind.VALIDATOR, name)


def is_registered_hook(kind: HookKind, name: str) -> bool:
    """Whether a function of this kind is registered under the name, in code or as an entry point. No package is imported."""
    return (kind, name) in _registered or name in _list_entry_points(kind)


def find_hook_function(kind: HookKind, name: str) -> Callable[..., Any]:
    """Return the function of this kind that is registered under the name. If it is a class, return a new object of the class.

    Raises:
        OptionError: no function is registered under the name, its package cannot be imported, its class needs arguments, or the
            object cannot be called.
    """
    function = _registered.get((kind, name)) or _load_entry_point(kind, name)
    if function is None:
        raise OptionError(
            f"no {kind.value} is registered as {name!r}: register a function with @penstock.{kind.value}({name!r}), in this "
            "program or as an entry point of an installed package; no class is loaded because an option names it"
        )
    if isinstance(function, type):
        function = _make_object(kind, name, function)
    if not callable(function):
        raise OptionError(f"{kind.value} {name!r} is a {type(function).__name__}, which cannot be called: define __call__")
    return function


def _make_decorator(kind: HookKind, name: str) -> Callable[[F], F]:
    """Return a decorator that registers a function. Raise OptionError if the name is not valid or is reserved."""
    is_reserved = name.startswith(_RESERVED_PREFIXES) or name in (HTTP, KAFKA)
    if not _NAME.fullmatch(name) or is_reserved:
        raise OptionError(
            f"{name!r} cannot name a {kind.value}: take letters, digits and _ . : -, and none of Hudi's and Penstock's own "
            f"names ({', '.join((*_RESERVED_PREFIXES, HTTP, KAFKA))})"
        )

    def register(function: F) -> F:
        _registered[kind, name] = function  # may replace one: notebook cells are run again
        return function

    return register


def _make_object(kind: HookKind, name: str, cls: type) -> Any:
    """Return a new object of a registered class. Raise OptionError if its constructor fails."""
    try:
        return cls()
    except Exception as e:  # code of the user may raise anything
        raise OptionError(f"{kind.value} {name!r}: {cls.__name__}() failed with {type(e).__name__}: {e}") from e


def _load_entry_point(kind: HookKind, name: str) -> Callable[..., Any] | None:
    """Import the function that an installed package declares under the name; return None if no package does.

    Raises:
        OptionError: the package cannot be imported.
    """
    point = _list_entry_points(kind).get(name)
    if point is None:
        return None
    try:
        return _registered.setdefault((kind, name), point.load())
    except Exception as e:  # a package may raise anything when it is imported
        raise OptionError(
            f"{kind.value} {name!r} is declared as {point.value!r} by an installed package, which cannot be imported from there: "
            f"{type(e).__name__}: {e}"
        ) from e


@cache
def _list_entry_points(kind: HookKind) -> dict[str, EntryPoint]:
    """Return the entry points of a kind of function, by name. Cached: a search through all packages takes some milliseconds."""
    return {point.name: point for point in entry_points(group=kind.group)}
