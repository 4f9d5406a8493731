"""`Registry`, a map from names to functions of users, and `Registered`, one function in it.

A function is registered in code, by a decorator such as `@penstock.payload`, or by an installed package, as an entry point of the
group of its kind, such as `penstock.payloads`. Any other name is unknown: no module is imported because an option or a table
names it.

Workers need no registry. A function is pickled to them by value, together with the modules of its own package, so the package
need not be installed there. Other packages that the function imports have to be.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from penstock.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")
_RESERVED_PREFIXES = ("org.apache.hudi.", "penstock.")


class Kind(str, Enum):
    """The kinds of functions that users register. A value is the name of the decorator."""

    #: Merges one pair of rows at a time, as dictionaries.
    PAYLOAD = "payload"
    #: Merges many pairs of rows at a time, as Arrow tables.
    MERGER = "merger"
    #: Makes the lock of a table.
    LOCK_PROVIDER = "lock_provider"
    #: Returns the client of a catalog.
    SYNC_TOOL = "sync_tool"
    #: Runs after a commit, with a notice of it.
    COMMIT_CALLBACK = "commit_callback"
    #: Runs before a commit, with the table as it would be after it.
    VALIDATOR = "validator"

    @property
    def noun(self) -> str:
        """The kind in words, for messages."""
        return self.value.replace("_", " ")

    @property
    def group(self) -> str:
        """The group of entry points in which installed packages declare functions of this kind."""
        return f"penstock.{self.value}s"


@dataclass(frozen=True)
class Registered:
    """A registered function with its name and kind.

    Its pickle holds the function's code, not the module to import it from.
    """

    name: str
    kind: Kind
    function: Callable[..., Any]

    def __reduce__(self) -> tuple[Callable[..., Registered], tuple[Any, ...]]:
        return _load, (self.name, self.kind.value, self.dump())

    def dump(self) -> bytes:
        """Return the pickled function. The bytes can be loaded where the function's package is not installed.

        Raises:
            OptionError: the function holds an object that cannot be pickled, such as a session, a lock or an open file.
        """
        cloudpickle = _cloudpickle()
        with _dump_lock:  # cloudpickle's list of packages is global
            package = _find_package(self.function)
            if package is not None and package.__name__ in cloudpickle.list_registry_pickle_by_value():
                package = None  # the user registered the package: leave it registered
            if package is not None:
                cloudpickle.register_pickle_by_value(package)
            try:
                pickled: bytes = cloudpickle.dumps(self.function)
            except Exception as e:  # an object that refuses to be pickled may raise anything
                raise OptionError(
                    f"{self.kind.noun} {self.name!r} cannot be sent to workers: {type(e).__name__}: {e}. A function must hold "
                    "no session, lock, connection or open file; open these inside of it"
                ) from e
            finally:
                if package is not None:
                    cloudpickle.unregister_pickle_by_value(package)
        return pickled


class Registry:
    """Functions that users have registered by name: those of one kind, such as locks, or of several kinds.

    A name stands for one function, whatever its kind.
    """

    def __init__(self, *kinds: Kind, taken: tuple[str, ...] = ()) -> None:
        """Make a registry without functions.

        Args:
            taken: names that a user cannot register, because they name parts of Penstock.
        """
        self._kinds = kinds
        self._taken = (*_RESERVED_PREFIXES, *taken)
        #: By name: the functions that were registered in code, and those of entry points that were imported.
        self.registered: dict[str, Registered] = {}

    def decorator(self, kind: Kind, name: str) -> Callable[[F], F]:
        """Return a decorator that registers a function under the name, and returns the function unchanged.

        Raises:
            OptionError: the name is not valid, or is reserved for Hudi or Penstock.
        """
        if not _NAME.fullmatch(name) or name.startswith(_RESERVED_PREFIXES) or name in self._taken:
            raise OptionError(
                f"{name!r} cannot name a {kind.noun}: take letters, digits and _ . : -, and none of Hudi's and Penstock's own "
                f"names ({', '.join(self._taken)})"
            )

        def register(function: F) -> F:
            self.registered[name] = Registered(name, kind, function)  # may replace one: notebook cells are run again
            return function

        return register

    def add(self, function: Registered) -> None:
        """Add a function that was registered in another process, unless it is of a kind that this registry does not hold."""
        if function.kind in self._kinds:
            self.registered[function.name] = function

    def find(self, name: str) -> Registered | None:
        """Return the function of this name, registered in code or as an entry point of an installed package; None if unknown.

        The package of an entry point is imported.

        Raises:
            OptionError: the package cannot be imported.
        """
        if name in self.registered:
            return self.registered[name]
        for kind in self._kinds:
            if name in list_entry_points(kind):
                function = _import_entry_point(name, kind)
                return self.registered.setdefault(name, Registered(name, kind, function))
        return None

    def has(self, name: str) -> bool:
        """Whether a function of this name is registered, in code or as an entry point. No package is imported to find out."""
        return name in self.registered or any(name in list_entry_points(kind) for kind in self._kinds)

    def find_registration(self, function: object) -> Registered | None:
        """Return the name and kind under which a function was registered in code; None if it was not."""
        return next((registered for registered in self.registered.values() if registered.function is function), None)

    def list_names(self) -> tuple[str, ...]:
        """Return the names of all functions, registered in code or as entry points, sorted."""
        names = set(self.registered)
        for kind in self._kinds:
            names.update(list_entry_points(kind))
        return tuple(sorted(names))


_dump_lock = threading.Lock()


@cache
def list_entry_points(kind: Kind) -> dict[str, EntryPoint]:
    """Return the entry points of a kind of function, by name. Cached: a search through all packages takes some milliseconds."""
    return {point.name: point for point in entry_points(group=kind.group)}


def _import_entry_point(name: str, kind: Kind) -> Callable[..., Any]:
    """Import the function that an installed package declares under this name.

    Raises:
        OptionError: the package cannot be imported.
    """
    point = list_entry_points(kind)[name]
    try:
        function: Callable[..., Any] = point.load()
    except Exception as e:  # a package may raise anything when it is imported
        raise OptionError(
            f"{kind.noun} {name!r} is declared as {point.value!r} by an installed package, which cannot be imported from there: "
            f"{type(e).__name__}: {e}"
        ) from e
    return function


def _load(name: str, kind: str, data: bytes) -> Registered:
    """Rebuild a registered function from its pickle, in a worker."""
    return Registered(name, Kind(kind), _cloudpickle().loads(data))


def _cloudpickle() -> Any:
    """Import and return pyspark's copy of cloudpickle, which workers have too."""
    from pyspark import cloudpickle

    return cloudpickle


def _find_package(function: Callable[..., Any]) -> Any:
    """Return the top-level package of a function's module, if cloudpickle has to be asked to pickle it by value.

    None for `__main__`, which cloudpickle pickles by value anyway, and for Penstock and the standard library, which workers have.
    """
    module = getattr(function, "__module__", None) or type(function).__module__
    top = module.partition(".")[0]
    if top in ("__main__", "penstock") or top in sys.stdlib_module_names:
        return None
    return sys.modules.get(top)
