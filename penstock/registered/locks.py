"""The registry of users' lock providers: `@penstock.lock_provider`."""

from __future__ import annotations

from collections.abc import Callable

from penstock.registered.registry import F, Kind, Registry

LOCK_PROVIDERS = Registry(Kind.LOCK_PROVIDER)


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
    return LOCK_PROVIDERS.decorator(Kind.LOCK_PROVIDER, name)
