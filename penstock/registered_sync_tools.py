"""The registry of users' own sync tools, by name. Options look names up in it, so its layer is below theirs.

A tool is registered in code, by `@penstock.sync_tool`, or by an installed package, as an entry point of the group
`penstock.sync_tools`. Any other name is unknown: no module is imported because an option names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from penstock.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")
_RESERVED = ("org.apache.hudi.", "penstock.")
_GROUP = "penstock.sync_tools"
_registered: dict[str, Callable[..., Any]] = {}


def sync_tool(name: str) -> Callable[[F], F]:
    """Register a function that returns the client of a catalog of your own. A sync plans the changes and calls the client.

    The function is called with the settings of the sync (`penstock.sync.SyncSettings`) and returns an object with the methods of
    `penstock.sync.CatalogClient`.

    Args:
        name: the value of `hoodie.meta.sync.client.tool.class` that chooses the tool.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> class Forgetful:  # a catalog that accepts everything and remembers nothing
        ...     def __getattr__(self, method):
        ...         return lambda *arguments, **named: None
        >>> @penstock.sync_tool("forgetful")
        ... def open_forgetful(settings):
        ...     return Forgetful()
        >>> [(entry.name, entry.added) for entry in table.sync({"hoodie.meta.sync.client.tool.class": "forgetful"})]
        [('trips', 2)]
    """
    if not _NAME.fullmatch(name) or name.startswith(_RESERVED):
        raise OptionError(
            f"{name!r} cannot name a sync tool: take letters, digits and _ . : -, and none of Hudi's and Penstock's own names "
            f"({', '.join(_RESERVED)})"
        )

    def register(function: F) -> F:
        _registered[name] = function  # may replace one: notebook cells are run again
        return function

    return register


def is_sync_tool(name: str) -> bool:
    """Whether a tool of this name is registered, in code or as an entry point. No package is imported to find out."""
    return name in _registered or name in _entry_points()


def find_sync_tool(name: str) -> Callable[..., Any] | None:
    """Return the tool of this name, registered in code or as an entry point of an installed package; None if unknown.

    Raises:
        OptionError: the package cannot be imported.
    """
    if name in _registered:
        return _registered[name]
    point = _entry_points().get(name)
    if point is None:
        return None
    try:
        found: Callable[..., Any] = point.load()
    except Exception as e:  # a package may raise anything when it is imported
        raise OptionError(
            f"sync tool {name!r} is declared as {point.value!r} by an installed package, which cannot be imported from there: "
            f"{type(e).__name__}: {e}"
        ) from e
    return found


@cache
def _entry_points() -> dict[str, EntryPoint]:
    """Return the entry points of sync tools, by name. Cached: a search through all packages takes some milliseconds."""
    return {point.name: point for point in entry_points(group=_GROUP)}
