"""Functions of the user that a stream takes along to a Connect server: payloads, callbacks, validators, locks and sync tools.

Over Spark Connect a process of the server writes the batches. Functions that the user registered in the program are not
registered in that process. So the functions that the options name are pickled with the stream, by value.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.options import Options
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.registered.hooks import COMMIT_CALLBACKS, VALIDATORS
from penstock.registered.locks import LOCK_PROVIDERS
from penstock.registered.registry import Registered
from penstock.registered.sync_tools import SYNC_TOOLS

_REGISTRIES = (MERGE_FUNCTIONS, COMMIT_CALLBACKS, VALIDATORS, LOCK_PROVIDERS, SYNC_TOOLS)


@dataclass(frozen=True)
class CarriedFunctions:
    """Functions that the user registered in the program. Pickled by value to the process that writes the batches."""

    functions: tuple[Registered, ...] = ()

    def register(self) -> None:
        """Register the functions in this process, the one that writes the batches."""
        for registry in _REGISTRIES:
            for function in self.functions:
                registry.add(function)


def collect_functions(options: Options) -> CarriedFunctions:
    """Return the registered functions that the options name. One option may name several, with commas between the names."""
    found: list[Registered] = []
    for value in options.raw.values():
        for name in value.split(","):
            found += _find_functions(name.strip())
    return CarriedFunctions(tuple(found))


def _find_functions(name: str) -> list[Registered]:
    """Return the functions that are registered under a name. Functions of different kinds may share a name."""
    found = [registry.find(name) for registry in _REGISTRIES]
    return [function for function in found if function is not None]
