"""The registry of users' merge functions, by name. Options and mergers look names up in it, so its layer is below theirs.

A function is registered in code, by `@penstock.payload` and `@penstock.merger`, or by an installed package, as an entry point of
the groups `penstock.payloads` and `penstock.mergers`. Any other name is unknown: no module is imported because an option or a
table names it.

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
_RESERVED = ("org.apache.hudi.", "penstock.")


class Kind(str, Enum):
    """The two kinds of merge functions: called with one pair of rows, or with many pairs at once."""

    #: One pair of rows at a time, as dictionaries.
    PAYLOAD = "payload"
    #: Many pairs at a time, as Arrow tables.
    MERGER = "merger"

    @property
    def group(self) -> str:
        """The group of entry points in which installed packages declare functions of this kind."""
        return f"penstock.{self.value}s"


@dataclass(frozen=True)
class Registered:
    """A registered merge function with its name and kind.

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
                    f"{self.kind.value} {self.name!r} cannot be sent to workers: {type(e).__name__}: {e}. A function must hold "
                    "no session, lock, connection or open file; open these inside of it"
                ) from e
            finally:
                if package is not None:
                    cloudpickle.unregister_pickle_by_value(package)
        return pickled


_dump_lock = threading.Lock()
_registered: dict[str, Registered] = {}


def payload(name: str) -> Callable[[F], F]:
    """Register a merge function that is called with one pair of rows: an old and a new row of the same key.

    The function is called as `function(old, new)` with dictionaries, column → value. It returns the merged row, or None to delete
    the key. `old` is None if the table has no row of the key. Rows of a batch, and of a log, are merged with one another in the
    same way, so the function has to be associative; `penstock.testing.check_merger` searches for rows that show that it is not.
    Deletes never reach the function.

    Args:
        name: the value of `hoodie.datasource.write.payload.class` that chooses the function. Merge-on-read tables store it.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> @penstock.payload("longest_trip")
        ... def longest_trip(old, new):
        ...     return new if old is None or new["fare"] >= old["fare"] else {**old, "ts": new["ts"]}
        >>> _ = table.upsert(trips.selectExpr("id", "city", "ts + 1 as ts", "2.0D as fare"),
        ...                  {"hoodie.datasource.write.payload.class": "longest_trip"})
        >>> table.read(columns=["id", "ts", "fare"]).orderBy("id").collect()
        [Row(id='a', ts=2, fare=2.0), Row(id='b', ts=3, fare=2.5), Row(id='c', ts=4, fare=3.5)]
    """
    return _decorator(name, Kind.PAYLOAD)


def merger(name: str) -> Callable[[F], F]:
    """Register a merge function that is called with many pairs of rows at once: a table of old and a table of new rows.

    Row i of both Arrow tables, and of the table that the function returns, has the same key.

    The function is called with the table's columns, without Hudi's meta columns, and returns the same columns. It may add a
    boolean column `_hoodie_is_deleted`, which is true for keys to delete. The rules of `penstock.payload` hold, but rows of new
    keys are stored without a call of the function.

    Args:
        name: the value of `hoodie.datasource.write.payload.class` that chooses the function; or, with
            `hoodie.record.merge.mode=CUSTOM`, of `hoodie.write.record.merge.custom.implementation.classes`.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> import pyarrow.compute as pc
        >>> @penstock.merger("sum_of_fares")
        ... def sum_of_fares(old, new):
        ...     total = pc.add(old["fare"], new["fare"])
        ...     return new.set_column(new.column_names.index("fare"), "fare", total)
        >>> _ = table.upsert(trips, {"hoodie.datasource.write.payload.class": "sum_of_fares"})
        >>> table.read(columns=["id", "fare"]).orderBy("id").collect()
        [Row(id='a', fare=3.0), Row(id='b', fare=5.0), Row(id='c', fare=7.0)]
    """
    return _decorator(name, Kind.MERGER)


def find_registered(name: str) -> Registered | None:
    """Return the merge function of this name, registered in code or as an entry point of an installed package; None if unknown.

    The package of an entry point is imported.

    Raises:
        OptionError: the package cannot be imported.
    """
    if name in _registered:
        return _registered[name]
    for kind in Kind:
        function = _load_entry_point(name, kind)
        if function is not None:
            return function
    return None


def is_registered(name: str) -> bool:
    """Whether a merge function of this name is registered, in code or as an entry point. No package is imported to find out."""
    return name in _registered or any(name in _list_entry_points(kind) for kind in Kind)


def find_registration(function: object) -> Registered | None:
    """Return the name and kind under which a function was registered in code; None if it was not."""
    return next((registered for registered in _registered.values() if registered.function is function), None)


def explain_registration(name: str) -> str:
    """Return the part of an error message about an unknown function name that says how to register it."""
    return (
        f"register a function under this name first, @penstock.payload({name!r}) or @penstock.merger({name!r}), in this program "
        "or as an entry point of an installed package; no class is loaded because a table or an option names it"
    )


def _decorator(name: str, kind: Kind) -> Callable[[F], F]:
    """Return a decorator that registers a function under this name. Raise OptionError if the name is not valid or is reserved."""
    if not _NAME.fullmatch(name) or name.startswith(_RESERVED):
        raise OptionError(
            f"{name!r} cannot name a {kind.value}: take letters, digits and _ . : -, and none of Hudi's and Penstock's own "
            f"names ({', '.join(_RESERVED)})"
        )

    def register(function: F) -> F:
        _registered[name] = Registered(name, kind, function)  # may replace one: notebook cells are run again
        return function

    return register


def _load_entry_point(name: str, kind: Kind) -> Registered | None:
    """Import and register the function that an installed package declares under this name; None if no package does.

    Raises:
        OptionError: the package cannot be imported.
    """
    point = _list_entry_points(kind).get(name)
    if point is None:
        return None
    try:
        function = point.load()
    except Exception as e:  # a package may raise anything when it is imported
        raise OptionError(
            f"{kind.value} {name!r} is declared as {point.value!r} by an installed package, which cannot be imported from there: "
            f"{type(e).__name__}: {e}"
        ) from e
    return _registered.setdefault(name, Registered(name, kind, function))


@cache
def _list_entry_points(kind: Kind) -> dict[str, EntryPoint]:
    """Return the entry points of a kind of function, by name. Cached: a search through all packages takes some milliseconds."""
    return {point.name: point for point in entry_points(group=kind.group)}


def _load(name: str, kind: str, data: bytes) -> Registered:
    """Rebuild a registered function from its pickle, in a worker."""
    return Registered(name, Kind(kind), _cloudpickle().loads(data))


def _cloudpickle() -> Any:
    """Import and return pyspark's copy of cloudpickle, which workers have too."""
    from pyspark import cloudpickle

    return cloudpickle


def _find_package(function: Callable[..., Any]) -> Any:
    """Return the top-level package of a function, if it has to be registered with cloudpickle for pickling by value; or None.

    It is None for `__main__`, which cloudpickle pickles by value anyway, and for Penstock and the standard library, which workers
    have.
    """
    module = getattr(function, "__module__", None) or type(function).__module__
    top = module.partition(".")[0]
    if top in ("__main__", "penstock") or top in sys.stdlib_module_names:
        return None
    return sys.modules.get(top)
