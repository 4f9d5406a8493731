"""Locks of the user: `UserLock` wraps the object that a function registered by `@penstock.lock_provider` returns."""

from __future__ import annotations

from typing import Any

from penstock import clock
from penstock import options as o
from penstock.commit.locks.lock import LockContext, LockHolder, LockProvider
from penstock.errors import OptionError, PenstockError
from penstock.registered.locks import LOCK_PROVIDERS


class UserLock(LockProvider):
    """A lock of another package, with `acquire(timeout=seconds)` and `release()`. Holders in other processes are unknown."""

    name = "user"

    def __init__(self, context: LockContext, name: str, lock: Any) -> None:
        super().__init__(context)
        self._name = name
        self._lock = lock
        self._has: LockHolder | None = None

    @property
    def place(self) -> str:
        """The registered name of the lock, for messages."""
        return f"lock provider {self._name!r}"

    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        timeout_s = max(0.0, deadline_s - clock.elapsed_s())
        try:
            is_mine = bool(self._lock.acquire(timeout=timeout_s))
        except TimeoutError:  # the way of some packages to say no
            return False
        self._has = mine if is_mine else None
        return is_mine

    def _drop(self, mine: LockHolder) -> None:
        if self._has is mine:
            self._has = None
            self._lock.release()

    def _is_mine(self, mine: LockHolder) -> bool:
        return self._has is mine

    def holder(self) -> LockHolder | None:
        """Return this process if it holds the lock; otherwise None, because holders in other processes are not known."""
        return self._has

    def break_lock(self) -> LockHolder | None:
        """Raise OptionError: only the package that the lock comes from knows how to break it."""
        raise OptionError(f"{self.place} cannot be broken from here: use the package that it comes from")


def make_user_lock(name: str, context: LockContext) -> LockProvider:
    """Call the registered function of this name with `context`, and return the lock that it makes.

    A lock that is no `LockProvider` is wrapped in a `UserLock`.

    Raises:
        OptionError: no function is registered under the name, or it failed, or did not return a lock.
    """
    registered = LOCK_PROVIDERS.find(name)
    if registered is None:
        raise OptionError(f"{o.LOCK.key}={name} is not registered: @penstock.lock_provider({name!r})")
    try:
        lock = registered.function(context)
    except PenstockError:
        raise
    except Exception as e:  # a function of the user may raise anything
        raise OptionError(f"lock provider {name!r} failed: {type(e).__name__}: {e}") from e
    if isinstance(lock, LockProvider):
        return lock
    if not callable(getattr(lock, "acquire", None)) or not callable(getattr(lock, "release", None)):
        raise OptionError(
            f"lock provider {name!r} returned a {type(lock).__name__}; return a LockProvider, or an object with "
            "acquire(timeout=seconds) and release()"
        )
    return UserLock(context, name, lock)
