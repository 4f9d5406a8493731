"""A connection of a lock to the Hive metastore: shared by threads, and opened again after an error of the network."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from penstock.hive_metastore import metastore_types


class LockConnection:
    """A connection to one of several metastores that serve the same tables. Threads may share it: one call runs at a time."""

    def __init__(self, addresses: Sequence[tuple[str, int]], timeout_s: float) -> None:
        self._addresses = addresses
        self._timeout_ms = int(timeout_s * 1000)
        self._client: Any = None
        self._lock = threading.Lock()

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the metastore and return its answer. Connect first if there is no connection.

        An error of the network closes the connection, so that the next call connects again.

        Args:
            name: the function's name in Thrift, for example `check_lock`.
            arguments: the arguments of the function.

        Raises:
            OSError, thriftpy2.transport.TTransportException: no metastore answers.
        """
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            try:
                return getattr(self._client, name)(*arguments)
            except BaseException as e:
                if not _is_answer(e):
                    self._close()  # after an interrupted call the next one would read its answer
                raise

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
        self._client = None

    def _connect(self) -> Any:
        """Connect to the first metastore that answers, and return the connection.

        If none answers, raise the error of the last one.
        """
        from thriftpy2.rpc import make_client

        service = metastore_types().ThriftHiveMetastore
        *others, last = self._addresses
        for host, port in others:
            with suppress(Exception):  # the next one may answer
                return make_client(service, host, port, timeout=self._timeout_ms)
        return make_client(service, *last, timeout=self._timeout_ms)


def _is_answer(error: BaseException) -> bool:
    """Whether an error was sent by the metastore as its answer. Then the connection can be used again."""
    types = metastore_types()
    return isinstance(
        error,
        types.MetaException
        | types.NoSuchObjectException
        | types.NoSuchTxnException
        | types.TxnAbortedException
        | types.NoSuchLockException
        | types.TxnOpenException,
    )
