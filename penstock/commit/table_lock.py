"""The lock of a table: held while a writer with optimistic concurrency control checks and publishes its commit.

Between writers of Penstock, claims (`claims.py`) decide by themselves. The lock keeps writers of real Hudi away, spares retries,
and serialises what Hudi serialises: the scheduling of table services, archiving and rollbacks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.commit.locks import HeldLock, LockContext, LockProvider, hold_lock, make_lock
from penstock.commit.modes import is_optimistic
from penstock.errors import WriteConflict
from penstock.storage import check_conditional_put, join
from penstock.table.state import TableState
from penstock.timeline.store import FOLDER

#: The locks of this process, by base path and the options that name a lock. Making one may open a connection, which is kept.
_LOCKS: dict[tuple[str, tuple[tuple[str, str], ...]], LockProvider] = {}
_GUARD = threading.Lock()
#: The tables whose lock a thread holds, so that a locked section inside another one does not wait for itself.
_HELD = threading.local()


def find_lock(table: TableState) -> LockProvider:
    """Return the lock that the options of the table name. The first call for a table makes it.

    Raises:
        OptionError: the options name no lock, or lack an option or a package that the lock needs.
    """
    settings = sorted((key, str(value)) for key, value in table.options.raw.items() if _names_lock(key))
    key = (table.storage.uri(table.base_path), tuple(settings))
    with _GUARD:
        if key not in _LOCKS:
            context = LockContext(
                table.base_path,
                table.config.name,
                table.options,
                table.storage,
                database=table.config.raw.get("hoodie.database.name"),
            )
            _LOCKS[key] = make_lock(context)
        return _LOCKS[key]


def _names_lock(key: str) -> bool:
    """Whether the option with this key may be a setting of the table's lock."""
    return key.startswith(("hoodie.write.lock.", "penstock.lock", "hoodie.datasource.hive_sync.", "hoodie.meta.sync."))


def check_lock(table: TableState) -> None:
    """Raise an error if several writers are allowed and their lock cannot work. Called before a write writes anything.

    Raises:
        OptionError: no lock is set, or an option of the lock is wrong or missing.
        StorageError: the server of the lock does not answer.
    """
    if is_optimistic(table):
        find_lock(table).check()


def check_store(table: TableState) -> None:
    """Raise Unsupported if two processes could publish the same commit, because a store ignores conditional puts.

    With a single writer, the store of the table is checked. If several writers are allowed, the store of the lock file is
    checked; a lock on a server always passes. Called before a write or table service takes an instant. The answer of a store is
    remembered, so later calls send no request.
    """
    if is_optimistic(table):
        find_lock(table).check_store()
    else:
        check_conditional_put(table.storage, join(table.base_path, FOLDER))


@contextmanager
def locked(table: TableState, instant: str = "") -> Iterator[HeldLock | None]:
    """Hold the table's lock while the `with` block runs, and yield the held lock.

    With a single writer, or inside another locked section of this thread, do nothing and yield None.

    Args:
        instant: the instant that is published, which `LockProvider.holder` shows.

    Raises:
        LockTimeout: another writer holds the lock.
    """
    held: set[str] = _HELD.__dict__.setdefault("tables", set())
    uri = table.storage.uri(table.base_path)
    if not is_optimistic(table) or uri in held:
        yield None
        return
    with hold_lock(find_lock(table), instant) as lock:
        held.add(uri)
        try:
            yield lock
        finally:
            held.discard(uri)


def check_still_held(table: TableState, lock: HeldLock | None) -> None:
    """Raise WriteConflict if the lock was lost: its lease or session expired while this process was stopped.

    A writer of real Hudi may have the lock now. So nothing may be published.
    """
    if lock is not None and not lock.is_held():
        raise WriteConflict(
            f"the lock of {table.base_path} was lost before the commit was published: this process was stopped for longer than "
            "the lock lives. Run the write again"
        )
