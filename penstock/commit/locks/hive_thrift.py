"""A client of the Hive metastore: the few calls that locks need, in Thrift's interface language.

Field numbers and names are the contract of the protocol; calls and fields that are not used are left out.
"""

from __future__ import annotations

import io
import threading
from contextlib import suppress
from functools import cache
from typing import Any

from penstock.errors import OptionError

_IDL = """
enum LockState { ACQUIRED = 1, WAITING = 2, ABORT = 3, NOT_ACQUIRED = 4 }
enum LockLevel { DB = 1, TABLE = 2, PARTITION = 3 }
enum LockType { SHARED_READ = 1, SHARED_WRITE = 2, EXCLUSIVE = 3 }
enum DataOperationType { SELECT = 1, INSERT = 2, UPDATE = 3, DELETE = 4, UNSET = 5, NO_TXN = 6 }

struct LockComponent {
  1: required LockType type, 2: required LockLevel level, 3: required string dbname, 4: optional string tablename,
  6: optional DataOperationType operationType
}
struct LockRequest {
  1: required list<LockComponent> component, 3: required string user, 4: required string hostname, 5: optional string agentInfo
}
struct LockResponse { 1: required i64 lockid, 2: required LockState state }
struct CheckLockRequest { 1: required i64 lockid }
struct UnlockRequest { 1: required i64 lockid }
struct HeartbeatRequest { 1: optional i64 lockid }
struct ShowLocksRequest { 1: optional string dbname, 2: optional string tablename }
struct ShowLocksResponseElement {
  1: required i64 lockid, 2: required string dbname, 3: optional string tablename, 5: required LockState state,
  6: required LockType type, 9: optional i64 acquiredat, 10: required string user, 11: required string hostname,
  13: optional string agentInfo
}
struct ShowLocksResponse { 1: list<ShowLocksResponseElement> locks }
struct Table { 1: string tableName, 2: string dbName }

exception MetaException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception NoSuchTxnException { 1: string message }
exception TxnAbortedException { 1: string message }
exception NoSuchLockException { 1: string message }
exception TxnOpenException { 1: string message }

service ThriftHiveMetastore {
  Table get_table(1: string dbname, 2: string tbl_name) throws (1: MetaException o1, 2: NoSuchObjectException o2),
  LockResponse lock(1: LockRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2),
  LockResponse check_lock(1: CheckLockRequest rqst)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: NoSuchLockException o3),
  void unlock(1: UnlockRequest rqst) throws (1: NoSuchLockException o1, 2: TxnOpenException o2),
  void heartbeat(1: HeartbeatRequest ids) throws (1: NoSuchLockException o1, 2: NoSuchTxnException o2, 3: TxnAbortedException o3),
  ShowLocksResponse show_locks(1: ShowLocksRequest rqst)
}
"""
_MODULE = "penstock_hive_metastore_thrift"
_PORT = 9083


@cache
def load_types() -> Any:
    """Return the types of the protocol, as a module of thriftpy2. Raise OptionError if thriftpy2 is not installed."""
    try:
        import thriftpy2.parser
    except ImportError:
        raise OptionError("the lock of the Hive metastore needs the package thriftpy2: pip install 'penstock[hive]'") from None
    return thriftpy2.parser.load_fp(io.StringIO(_IDL), _MODULE)


def parse_uris(text: str) -> list[tuple[str, int]]:
    """Return host and port of each address in a list such as `thrift://a:9083,thrift://b:9083`.

    Raises:
        ValueError: an address has another form.
    """
    addresses = []
    for uri in text.split(","):
        if not uri.strip():
            continue
        scheme, separator, rest = uri.strip().partition("://")
        host, _, port = (rest if separator else scheme).rstrip("/").partition(":")
        if not host or (separator and scheme != "thrift") or not (port or str(_PORT)).isdigit():
            raise ValueError(uri)
        addresses.append((host, int(port or _PORT)))
    return addresses


class Metastore:
    """A connection to one of several metastores that serve the same tables. Calls of several threads take turns."""

    def __init__(self, addresses: list[tuple[str, int]], timeout_s: float) -> None:
        self._addresses = addresses
        self._timeout_ms = int(timeout_s * 1000)
        self._client: Any = None
        self._lock = threading.Lock()

    def call(self, name: str, *arguments: Any) -> Any:
        """Call the metastore; the connection is opened if there is none, and closed by any error of the network.

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
        """Connect to the first metastore that answers. Raise the error of the last one if none does."""
        from thriftpy2.rpc import make_client

        service = load_types().ThriftHiveMetastore
        *others, last = self._addresses
        for host, port in others:
            with suppress(Exception):  # the next one may answer
                return make_client(service, host, port, timeout=self._timeout_ms)
        return make_client(service, *last, timeout=self._timeout_ms)


def _is_answer(error: BaseException) -> bool:
    """Whether an error is an answer of the metastore, after which the connection can be used again."""
    types = load_types()
    return isinstance(
        error,
        types.MetaException
        | types.NoSuchObjectException
        | types.NoSuchTxnException
        | types.TxnAbortedException
        | types.NoSuchLockException
        | types.TxnOpenException,
    )
