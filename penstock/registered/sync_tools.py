"""The registry of users' own sync tools: `@penstock.sync_tool`."""

from __future__ import annotations

from collections.abc import Callable

from penstock.registered.registry import F, Kind, Registry

SYNC_TOOLS = Registry(Kind.SYNC_TOOL)


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
    return SYNC_TOOLS.decorator(Kind.SYNC_TOOL, name)
