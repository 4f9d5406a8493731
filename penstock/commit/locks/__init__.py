"""Locks: one writer at a time holds the lock of a table while it publishes.

`LockProvider` in `lock.py` is the base class. Each lock has a module of its own. `LOCKS` (`options/lock_names.py`) lists them by
the value of `penstock.lock`, and maps Hudi's class names to them. `hold_lock` in `acquire.py` waits, retries and releases.

The module of a lock is imported only when a lock is made.
"""

from __future__ import annotations

from penstock import options as o
from penstock.commit.locks.acquire import HeldLock, hold_lock
from penstock.commit.locks.lock import LockContext, LockHolder, LockProvider
from penstock.commit.locks.user_lock import make_user_lock
from penstock.errors import OptionError
from penstock.load_part import load_part
from penstock.options import Options
from penstock.options.lock_names import HUDI_LOCKS, LOCKS
from penstock.registered.locks import LOCK_PROVIDERS

__all__ = ["LOCKS", "HeldLock", "LockContext", "LockHolder", "LockProvider", "choose_lock", "hold_lock", "make_lock"]


def choose_lock(options: Options) -> str | None:
    """Return the short or registered name of the lock that `penstock.lock` or `hoodie.write.lock.provider` names.

    None if neither option is set.

    Raises:
        OptionError: the two options name different locks, or one names a lock that does not exist.
    """
    chosen: dict[str, str] = {}
    for option in (o.LOCK, o.LOCK_PROVIDER):
        value = options[option]
        if value:
            chosen[f"{option.key}={value}"] = _resolve(option.key, value)
    if len(set(chosen.values())) > 1:
        raise OptionError(f"{' and '.join(chosen)} name different locks; leave one out")
    return next(iter(chosen.values()), None)


def make_lock(context: LockContext) -> LockProvider:
    """Return the lock that the options of the context name. No server is reached: `LockProvider.check` does that.

    Raises:
        OptionError: the options name no lock, or one that does not exist, or lack an option or a package that the lock needs.
    """
    name = choose_lock(context.options)
    if name is None:
        raise OptionError(
            f"no lock is set: set {o.LOCK.key} to {', '.join(LOCKS)} (storage needs no server), "
            f"or {o.LOCK_PROVIDER.key} to a class of Hudi"
        )
    if name not in LOCKS:
        return make_user_lock(name, context)
    found: type[LockProvider] = load_part(LOCKS[name])
    return found(context)


def _resolve(key: str, value: str) -> str:
    """Return the short or registered name of the lock that `value`, the value of the option `key`, names.

    Raise OptionError if there is no lock of this name.
    """
    if value in HUDI_LOCKS:
        return HUDI_LOCKS[value]
    if value in LOCKS or LOCK_PROVIDERS.has(value):
        return value
    names = [*LOCKS, *LOCK_PROVIDERS.list_names()]
    classes = sorted({name.rpartition(".")[2] for name in HUDI_LOCKS})
    raise OptionError(
        f"option '{key}' is '{value}', which is no lock provider; use {', '.join(names)}, a class of Hudi ({', '.join(classes)}, "
        f"with its package), or register a function first: @penstock.lock_provider({value!r}); no class is loaded because an "
        "option names it"
    )
