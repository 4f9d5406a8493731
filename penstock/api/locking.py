"""`Table.lock` and `Table.break_lock`: show who holds the table's lock, and take the lock away from a dead writer."""

from __future__ import annotations

from collections.abc import Mapping

from penstock import options as o
from penstock.api.handle import TableHandle
from penstock.commit.locks import LockHolder, LockProvider
from penstock.commit.table_lock import find_lock


class LockMethods(TableHandle):
    """The methods of `Table` that show and break the lock which concurrent writers of the table take."""

    def _find_lock(self, options: Mapping[str, object] | None) -> LockProvider:
        """Return the lock that the options of this object and of the call name."""
        several_writers = {o.CONCURRENCY_MODE.key: "OPTIMISTIC_CONCURRENCY_CONTROL"}
        return find_lock(self._state({**several_writers, **(options or {})}))

    def lock(self, options: Mapping[str, object] | None = None) -> LockHolder | None:
        """Return who holds the lock of the table, since when, from which host and for which instant; None if it is free.

        Args:
            options: the options that name the lock, as a write has them, by their keys.

        Raises:
            OptionError: the options name no lock, or lack an option that the lock needs.
            StorageError: the server of the lock does not answer.

        Example:
            >>> print(table.lock({"penstock.lock": "storage"}))
            None
        """
        return self._find_lock(options).holder()

    def break_lock(self, options: Mapping[str, object] | None = None) -> LockHolder | None:
        """Take the lock away from its holder; return that holder, or None if the lock was free.

        Only for a holder that is dead. A holder that is alive notices before it publishes, and its write ends in a WriteConflict.

        Args:
            options: the options that name the lock, as a write has them, by their keys.

        Raises:
            OptionError: the options name no lock, or lack an option that the lock needs.
            StorageError: the server of the lock does not answer.

        Example:
            >>> print(table.break_lock({"penstock.lock": "storage"}))
            None
        """
        return self._find_lock(options).break_lock()
