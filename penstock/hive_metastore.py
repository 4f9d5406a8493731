"""A client of the Hive metastore, over Thrift: databases, tables, partitions and locks.

`METASTORE_IDL` declares the part of the metastore's interface that Penstock uses. The numbers of fields are the contract: Hive
2.3 to 3.1 have the same ones. Catalog sync uses the calls of tables and partitions; a lock provider uses those of locks.

The client needs thriftpy2 (`penstock[hive]`). It speaks plain Thrift; a metastore that requires Kerberos is not supported.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Sequence
from functools import cache
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import CatalogError, OptionError

METASTORE_IDL = """
enum LockState { ACQUIRED = 1, WAITING = 2, ABORT = 3, NOT_ACQUIRED = 4 }
enum LockLevel { DB = 1, TABLE = 2, PARTITION = 3 }
enum LockType { SHARED_READ = 1, SHARED_WRITE = 2, EXCLUSIVE = 3 }
enum DataOperationType { SELECT = 1, INSERT = 2, UPDATE = 3, DELETE = 4, UNSET = 5, NO_TXN = 6 }

struct FieldSchema { 1: string name, 2: string type, 3: string comment }
struct Database { 1: string name, 2: string description, 3: string locationUri, 4: map<string, string> parameters }
struct SerDeInfo { 1: string name, 2: string serializationLib, 3: map<string, string> parameters }
struct Order { 1: string col, 2: i32 order }
struct StorageDescriptor {
  1: list<FieldSchema> cols, 2: string location, 3: string inputFormat, 4: string outputFormat, 5: bool compressed,
  6: i32 numBuckets, 7: SerDeInfo serdeInfo, 8: list<string> bucketCols, 9: list<Order> sortCols,
  10: map<string, string> parameters, 12: optional bool storedAsSubDirectories
}
struct Table {
  1: string tableName, 2: string dbName, 3: string owner, 4: i32 createTime, 5: i32 lastAccessTime, 6: i32 retention,
  7: StorageDescriptor sd, 8: list<FieldSchema> partitionKeys, 9: map<string, string> parameters,
  10: string viewOriginalText, 11: string viewExpandedText, 12: string tableType
}
struct Partition {
  1: list<string> values, 2: string dbName, 3: string tableName, 4: i32 createTime, 5: i32 lastAccessTime,
  6: StorageDescriptor sd, 7: map<string, string> parameters
}
struct EnvironmentContext { 1: map<string, string> properties }
struct AddPartitionsRequest {
  1: required string dbName, 2: required string tblName, 3: required list<Partition> parts, 4: required bool ifNotExists,
  5: optional bool needResult
}
struct AddPartitionsResult { 1: optional list<Partition> partitions }
struct RequestPartsSpec { 1: optional list<string> names }
struct DropPartitionsRequest {
  1: required string dbName, 2: required string tblName, 3: required RequestPartsSpec parts, 4: optional bool deleteData,
  5: optional bool ifExists, 8: optional bool needResult
}
struct DropPartitionsResult { 1: optional list<Partition> partitions }

struct LockComponent {
  1: required LockType type, 2: required LockLevel level, 3: required string dbname, 4: optional string tablename,
  5: optional string partitionname, 6: optional DataOperationType operationType
}
struct LockRequest {
  1: required list<LockComponent> component, 2: optional i64 txnid, 3: required string user, 4: required string hostname,
  5: optional string agentInfo
}
struct LockResponse { 1: required i64 lockid, 2: required LockState state }
struct CheckLockRequest { 1: required i64 lockid, 2: optional i64 txnid, 3: optional i64 elapsed_ms }
struct UnlockRequest { 1: required i64 lockid }
struct HeartbeatRequest { 1: optional i64 lockid, 2: optional i64 txnid }
struct ShowLocksRequest { 1: optional string dbname, 2: optional string tablename, 3: optional string partname }
struct ShowLocksResponseElement {
  1: required i64 lockid, 2: required string dbname, 3: optional string tablename, 4: optional string partname,
  5: required LockState state, 6: required LockType type, 7: optional i64 txnid, 8: required i64 lastheartbeat,
  9: optional i64 acquiredat, 10: required string user, 11: required string hostname, 13: optional string agentInfo
}
struct ShowLocksResponse { 1: list<ShowLocksResponseElement> locks }

exception MetaException { 1: string message }
exception AlreadyExistsException { 1: string message }
exception InvalidObjectException { 1: string message }
exception NoSuchObjectException { 1: string message }
exception InvalidOperationException { 1: string message }
exception NoSuchTxnException { 1: string message }
exception TxnAbortedException { 1: string message }
exception TxnOpenException { 1: string message }
exception NoSuchLockException { 1: string message }

service ThriftHiveMetastore {
  Database get_database(1: string name) throws (1: NoSuchObjectException o1, 2: MetaException o2),
  void create_database(1: Database database)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3),
  list<string> get_all_tables(1: string db_name) throws (1: MetaException o1),
  Table get_table(1: string dbname, 2: string tbl_name) throws (1: MetaException o1, 2: NoSuchObjectException o2),
  void create_table(1: Table tbl)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3, 4: NoSuchObjectException o4),
  void drop_table(1: string dbname, 2: string name, 3: bool deleteData)
    throws (1: NoSuchObjectException o1, 2: MetaException o3),
  void alter_table_with_environment_context(
    1: string dbname, 2: string tbl_name, 3: Table new_tbl, 4: EnvironmentContext environment_context)
    throws (1: InvalidOperationException o1, 2: MetaException o2),
  list<Partition> get_partitions(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
    throws (1: NoSuchObjectException o1, 2: MetaException o2),
  list<string> get_partition_names(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
    throws (1: NoSuchObjectException o1, 2: MetaException o2),
  list<Partition> get_partitions_by_names(1: string db_name, 2: string tbl_name, 3: list<string> names)
    throws (1: MetaException o1, 2: NoSuchObjectException o2),
  AddPartitionsResult add_partitions_req(1: AddPartitionsRequest request)
    throws (1: InvalidObjectException o1, 2: AlreadyExistsException o2, 3: MetaException o3),
  void alter_partitions(1: string db_name, 2: string tbl_name, 3: list<Partition> new_parts)
    throws (1: InvalidOperationException o1, 2: MetaException o2),
  DropPartitionsResult drop_partitions_req(1: DropPartitionsRequest req)
    throws (1: NoSuchObjectException o1, 2: MetaException o2),

  LockResponse lock(1: LockRequest rqst) throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2),
  LockResponse check_lock(1: CheckLockRequest rqst)
    throws (1: NoSuchTxnException o1, 2: TxnAbortedException o2, 3: NoSuchLockException o3),
  void unlock(1: UnlockRequest rqst) throws (1: NoSuchLockException o1, 2: TxnOpenException o2),
  void heartbeat(1: HeartbeatRequest ids)
    throws (1: NoSuchLockException o1, 2: NoSuchTxnException o2, 3: TxnAbortedException o3),
  ShowLocksResponse show_locks(1: ShowLocksRequest rqst)
}
"""
_DEFAULT_PORT = 9083
_CONNECT_S = 20
#: How long to wait for an answer. As Hive's own clients: a metastore may need minutes to alter a table with many partitions.
ANSWER_S = 600


@cache
def metastore_types() -> Any:
    """Return the module with the structs, enums and exceptions of `METASTORE_IDL`.

    Raises:
        OptionError: thriftpy2 is not installed.
    """
    try:
        import thriftpy2
    except ImportError:
        raise OptionError("the Hive metastore needs the package thriftpy2: pip install 'penstock[hive]'") from None
    return thriftpy2.load_fp(io.StringIO(METASTORE_IDL), "penstock_metastore_thrift")


class Metastore:
    """A connection to a Hive metastore. `call` calls a function of `METASTORE_IDL`. Close it after use, or use `with`.

    Only one thread may use a connection.
    """

    def __init__(self, address: str, client: Any) -> None:
        self.address = address
        self._client = client

    @classmethod
    def connect(cls, uris: str, option: str = "the address", answer_s: float = ANSWER_S) -> Metastore:
        """Connect to the first metastore of a comma-separated list that answers.

        Args:
            uris: addresses such as `thrift://host:9083`.
            option: the option that holds the addresses, for errors.
            answer_s: how many seconds to wait for each answer.

        Raises:
            OptionError: an address has a wrong form, or thriftpy2 is not installed.
            CatalogError: no metastore answers.
        """
        types = metastore_types()
        problems = []
        for host, port in parse_uris(uris, option):
            address = f"thrift://{host}:{port}"
            try:
                return cls(address, _open(types, host, port, answer_s))
            except Exception as e:  # thriftpy2 raises errors of its own, and those of sockets
                problems.append(f"{address} ({describe_thrift_error(e)})")
        raise CatalogError(f"no Hive metastore answers at {', '.join(problems)}; start it, or correct {option}")

    def call(self, function: str, *arguments: object) -> Any:
        """Call a function of the metastore and return its result.

        Raises the exceptions that `METASTORE_IDL` declares, and the errors of Thrift and of the connection.
        """
        return getattr(self._client, function)(*arguments)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Metastore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def parse_uris(uris: str, option: str = "the address") -> Sequence[tuple[str, int]]:
    """Return host and port of each address in a list such as `thrift://a:9083,thrift://b:9083`.

    Args:
        option: the option that holds the list, for the error.

    Raises:
        OptionError: the list is empty, or an address is not of the form `thrift://host:port`.
    """
    found = []
    for uri in uris.rstrip(", ").split(","):
        try:
            parts = urlsplit(uri.strip())
            port = parts.port
        except ValueError:
            parts = urlsplit("")
            port = None
        if parts.scheme != "thrift" or not parts.hostname:
            raise OptionError(f"{option} is {uris!r}; expected thrift://host:9083, several with commas")
        found.append((parts.hostname, port or _DEFAULT_PORT))
    return found


def describe_thrift_error(error: BaseException) -> str:
    """Return the message of an error that thriftpy2 raised; the error's class if there is no message."""
    message = str(getattr(error, "message", "") or error).strip()
    return message.partition("\n")[0] or type(error).__name__


def _open(types: Any, host: str, port: int, answer_s: float) -> Any:
    """Open a connection to a Hive metastore and return thriftpy2's client.

    Args:
        types: the module with the structs and exceptions of `METASTORE_IDL`.
        answer_s: how many seconds to wait for each answer.
    """
    from thriftpy2.protocol import TCyBinaryProtocolFactory
    from thriftpy2.thrift import TClient
    from thriftpy2.transport import TCyBufferedTransportFactory, TSocket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    times = {"socket_timeout": int(answer_s * 1000), "connect_timeout": _CONNECT_S * 1000}
    connection = TSocket(host, port, socket_family=family, **times)
    transport = TCyBufferedTransportFactory().get_transport(connection)
    transport.open()
    return TClient(types.ThriftHiveMetastore, TCyBinaryProtocolFactory().get_protocol(transport))
