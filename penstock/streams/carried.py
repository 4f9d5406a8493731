"""Functions of the user that a stream takes along to a Connect server: payloads, callbacks, validators, locks and sync tools.

Over Spark Connect a process of the server writes the batches. Functions that the user registered in the program are not
registered there. Those that the options name are pickled with the stream, by value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import OptionError
from penstock.options import Options
from penstock.registered_functions import Kind, Registered, find_registered, merger, payload
from penstock.registered_locks import find_lock_provider, lock_provider
from penstock.registered_sync_tools import find_sync_tool, sync_tool
from penstock.user_hooks import HookKind, commit_callback, find_hook_function, validator

#: The decorators that register a function, by the name of its kind.
_DECORATORS: dict[str, Callable[[str], Callable[[Any], Any]]] = {
    Kind.PAYLOAD.value: payload,
    Kind.MERGER.value: merger,
    HookKind.CALLBACK.value: commit_callback,
    HookKind.VALIDATOR.value: validator,
    "lock_provider": lock_provider,
    "sync_tool": sync_tool,
}


@dataclass(frozen=True)
class CarriedFunctions:
    """Registered functions, each with the name of its kind. Pickled by value."""

    functions: tuple[tuple[str, Registered], ...] = ()

    def register(self) -> None:
        """Register the functions in this process."""
        for kind, carried in self.functions:
            _DECORATORS[kind](carried.name)(carried.function)


def collect_functions(options: Options) -> CarriedFunctions:
    """Return the registered functions that the options name."""
    found: list[tuple[str, Registered]] = []
    for value in options.raw.values():
        for name in value.split(","):
            found += _find_functions(name.strip())
    return CarriedFunctions(tuple(found))


def _find_functions(name: str) -> list[tuple[str, Registered]]:
    """Return the functions that are registered under a name, each with the name of its kind."""
    found: list[tuple[str, Registered]] = []
    merge_function = find_registered(name)
    if merge_function is not None:
        found.append((merge_function.kind.value, merge_function))
    for kind in HookKind:
        try:
            # `Registered` pickles any function by value, whatever kind it names.
            found.append((kind.value, Registered(name, Kind.PAYLOAD, find_hook_function(kind, name))))
        except OptionError:
            continue  # the name is not that of a function
    for word, function in (("lock_provider", find_lock_provider(name)), ("sync_tool", find_sync_tool(name))):
        if function is not None:
            found.append((word, Registered(name, Kind.PAYLOAD, function)))
    return found
