"""The registry of users' lock providers, by name. Options and locks look names up in it, so its layer is below theirs.

A lock provider is registered in code, by `@penstock.lock_provider`. Any other name is unknown: no module is imported because an
option names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")
_RESERVED = ("org.apache.hudi.", "penstock.")
_registered: dict[str, Callable[..., Any]] = {}


def lock_provider(name: str) -> Callable[[F], F]:
    """Register a function that makes the lock of a table.

    The function is called with a `LockContext`: path, name and options of the table. It returns a `LockProvider` of
    `penstock.commit.locks`, or any object with `acquire(timeout=seconds)`, which returns whether the lock was acquired, and
    `release()`; for example a lock of a package for Redis or etcd.

    Args:
        name: the value of `penstock.lock` or `hoodie.write.lock.provider` that chooses the lock.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> import threading
        >>> one_lock = threading.Lock()
        >>> @penstock.lock_provider("one_lock")
        ... def make_one_lock(context):
        ...     return one_lock
    """
    if not _NAME.fullmatch(name) or name.startswith(_RESERVED):
        raise OptionError(
            f"{name!r} cannot name a lock provider: take letters, digits and _ . : -, and none of Hudi's and Penstock's own "
            f"names ({', '.join(_RESERVED)})"
        )

    def register(function: F) -> F:
        _registered[name] = function  # may replace one: notebook cells are run again
        return function

    return register


def find_lock_provider(name: str) -> Callable[..., Any] | None:
    """Return the function that was registered under this name; None if there is none."""
    return _registered.get(name)


def list_lock_providers() -> tuple[str, ...]:
    """Return the names of all registered lock providers, sorted."""
    return tuple(sorted(_registered))
