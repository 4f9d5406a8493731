"""Merge functions of the user's own, by name. Below everything else, so that options and mergers can ask for them.

A function is registered in code, by `@penstock.payload` and `@penstock.merger`, or by an installed package, as an entry point
of the groups `penstock.payloads` and `penstock.mergers`. A name that neither has is not known: nothing is imported because an
option or a table says so.

Workers need no registry. A function travels to them by value, together with what its own package holds, so that the package
need not be installed there; whatever else it imports has to be.
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
    """How a function takes its rows."""

    #: One pair of rows at a time, as dictionaries.
    PAYLOAD = "payload"
    #: Many pairs at a time, as Arrow tables.
    MERGER = "merger"

    @property
    def group(self) -> str:
        """The entry points that name such functions."""
        return f"penstock.{self.value}s"


@dataclass(frozen=True)
class Registered:
    """A function under its name. Pickled, it holds the function itself, not where to import it from."""

    name: str
    kind: Kind
    function: Callable[..., Any]

    def __reduce__(self) -> tuple[Callable[..., Registered], tuple[Any, ...]]:
        return _unpacked, (self.name, self.kind.value, self.packed())

    def packed(self) -> bytes:
        """The function as bytes that need none of its own package to be read.

        Raises:
            OptionError: it holds something that cannot travel, such as a session, a lock or an open file.
        """
        cloudpickle = _cloudpickle()
        with _packing:
            package = _package_of(self.function)
            if package is not None and package.__name__ in cloudpickle.list_registry_pickle_by_value():
                package = None
            if package is not None:
                cloudpickle.register_pickle_by_value(package)
            try:
                found: bytes = cloudpickle.dumps(self.function)
            except Exception as e:  # whatever an object raises that does not want to be pickled
                raise OptionError(
                    f"{self.kind.value} {self.name!r} cannot be sent to workers: {type(e).__name__}: {e}. A function must hold "
                    "no session, lock, connection or open file; open these inside of it"
                ) from e
            finally:
                if package is not None:
                    cloudpickle.unregister_pickle_by_value(package)
        return found


_packing = threading.Lock()
_registered: dict[str, Registered] = {}


def payload(name: str) -> Callable[[F], F]:
    """Register a function of two rows: what becomes of a stored row and an incoming one of the same key.

    The function gets both as dictionaries, by column, and gives the merged row, or None: the key is gone. `old` is None where
    the table has no such key. Rows of a batch, and of a log, are merged with one another in the same way, so that the function
    has to be associative; `penstock.testing.check_merger` looks for rows that show it is not. Deletes never reach it.

    Args:
        name: what `hoodie.datasource.write.payload.class` says to choose it; the name goes into merge-on-read tables.

    Raises:
        OptionError: the name is not one, or is taken by Hudi or Penstock.

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
    """Register a function of two Arrow tables: row i of both has one key, and so has row i of the table that it gives back.

    It gets the table's columns, without Hudi's meta columns, and gives the same ones. A boolean column `_hoodie_is_deleted`,
    which may come in addition, says which keys are gone. Otherwise as `penstock.payload`; rows without a stored one are stored
    as they come.

    Args:
        name: what `hoodie.datasource.write.payload.class` says to choose it; or, with `hoodie.record.merge.mode=CUSTOM`,
            `hoodie.write.record.merge.custom.implementation.classes`.

    Raises:
        OptionError: the name is not one, or is taken by Hudi or Penstock.

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


def registered(name: str) -> Registered | None:
    """The function of this name: registered in code, or an entry point that an installed package declares."""
    return _registered.get(name) or next((found for kind in Kind if (found := _of_entry_point(name, kind))), None)


def is_registered(name: str) -> bool:
    """Whether there is a function of this name. None is imported to answer."""
    return name in _registered or any(name in _declared(kind) for kind in Kind)


def registered_as(function: object) -> Registered | None:
    """How a function was registered, if it was."""
    return next((one for one in _registered.values() if one.function is function), None)


def to_register(name: str) -> str:
    """What to do about a name that is not known."""
    return (
        f"register a function under this name first, @penstock.payload({name!r}) or @penstock.merger({name!r}), in this program "
        "or as an entry point of an installed package; no class is loaded because a table or an option names it"
    )


def _decorator(name: str, kind: Kind) -> Callable[[F], F]:
    if not _NAME.fullmatch(name) or name.startswith(_RESERVED):
        raise OptionError(
            f"{name!r} cannot name a {kind.value}: take letters, digits and _ . : -, and none of Hudi's and Penstock's own "
            f"names ({', '.join(_RESERVED)})"
        )

    def register(function: F) -> F:
        _registered[name] = Registered(name, kind, function)  # again, in a notebook whose cell is run again
        return function

    return register


def _of_entry_point(name: str, kind: Kind) -> Registered | None:
    point = _declared(kind).get(name)
    if point is None:
        return None
    try:
        function = point.load()
    except Exception as e:  # whatever the package does when it is imported
        raise OptionError(
            f"{kind.value} {name!r} is declared as {point.value!r} by an installed package, which cannot be imported from there: "
            f"{type(e).__name__}: {e}"
        ) from e
    return _registered.setdefault(name, Registered(name, kind, function))


@cache
def _declared(kind: Kind) -> dict[str, EntryPoint]:
    """Entry points by name; looking through all installed packages takes some milliseconds."""
    return {point.name: point for point in entry_points(group=kind.group)}


def _unpacked(name: str, kind: str, data: bytes) -> Registered:
    return Registered(name, Kind(kind), _cloudpickle().loads(data))


def _cloudpickle() -> Any:
    from pyspark import cloudpickle

    return cloudpickle


def _package_of(function: Callable[..., Any]) -> Any:
    """The package that a function is defined in; None where workers have it anyway, or it travels by value as it is."""
    module = getattr(function, "__module__", None) or type(function).__module__
    top = module.partition(".")[0]
    if top in ("__main__", "penstock") or top in sys.stdlib_module_names:
        return None
    return sys.modules.get(top)
