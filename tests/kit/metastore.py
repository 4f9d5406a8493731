"""A real Hive metastore for tests, from the jars that PySpark contains, with its tables in Derby.

The metastore creates its lock tables only under a property for Hive's own tests, which also makes locks fail. So it is started twice the first
time: with the property to create the tables, without it to serve. The folder of Derby is then kept in `.cache/servers` and
copied, so later starts take one start only. The housekeeping that removes locks without heartbeat is on, with a short timeout.
"""

from __future__ import annotations

import fcntl
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.hive_metastore import Metastore
from tests.kit.servers import Server, ServerUnavailable, free_port, pyspark_jars, servers_folder

#: Seconds without heartbeat after which the metastore removes a lock, give or take the interval of the housekeeping.
LOCK_TIMEOUT_S = 3
IDL = """
struct FieldSchema { 1: string name, 2: string type, 3: string comment }
struct SerDeInfo { 1: string name, 2: string serializationLib, 3: map<string, string> parameters }
struct StorageDescriptor {
  1: list<FieldSchema> cols, 2: string location, 3: string inputFormat, 4: string outputFormat, 5: bool compressed,
  6: i32 numBuckets, 7: SerDeInfo serdeInfo, 8: list<string> bucketCols, 9: list<string> sortCols, 10: map<string, string> parameters
}
struct Table {
  1: string tableName, 2: string dbName, 3: string owner, 7: StorageDescriptor sd, 8: list<FieldSchema> partitionKeys,
  9: map<string, string> parameters, 12: string tableType
}
exception MetaException { 1: string message }
exception AlreadyExistsException { 1: string message }
exception InvalidObjectException { 1: string message }
exception NoSuchObjectException { 1: string message }
service ThriftHiveMetastore {
  list<string> get_all_databases() throws (1: MetaException o1),
  void create_table(1: Table tbl)
    throws (1: AlreadyExistsException o1, 2: InvalidObjectException o2, 3: MetaException o3, 4: NoSuchObjectException o4)
}
"""


@dataclass(frozen=True)
class RunningMetastore:
    """A running Hive metastore."""

    port: int
    folder: Path
    server: Server

    @classmethod
    def start(cls, folder: Path) -> RunningMetastore:
        """Start a metastore that keeps its files in a folder.

        Raises:
            ServerUnavailable: the client or the jars are missing.
        """
        try:
            import thriftpy2  # noqa: F401
        except ImportError:
            raise ServerUnavailable("the metastore needs the package thriftpy2 (make setup)") from None
        shutil.copytree(_template(), folder / "derby")
        return cls._boot(folder, in_test=False)

    @classmethod
    def _boot(cls, folder: Path, *, in_test: bool, port: int | None = None) -> RunningMetastore:
        """Start the server on the Derby folder below `folder`, and wait until it answers."""
        jars = pyspark_jars()
        port = port or free_port()
        conf = folder / f"conf-{in_test}"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "hive-site.xml").write_text(_site(folder, in_test=in_test))
        short_life = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dderby.stream.error.file={folder}/derby.log"]
        program = ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
        server = Server.start("metastore", folder, [*short_life, "-cp", f"{conf}:{jars}/*", *program])
        running = cls(port, folder, server)
        try:
            server.wait_until(running.answers)
        except BaseException:
            server.end()
            raise
        return running

    def restart(self) -> RunningMetastore:
        """Start the server again, on the same port and with the same files, after `stop`."""
        return self._boot(self.folder, in_test=False, port=self.port)

    @property
    def uri(self) -> str:
        """The address, as options have it."""
        return f"thrift://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        """Whether the server answers calls."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            with self.client() as client:
                return "default" in client.get_all_databases()
        except Exception:
            return False

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Open a connection for a test."""
        from thriftpy2.rpc import client_context

        with client_context(
            types().ThriftHiveMetastore, "127.0.0.1", self.port, connect_timeout=5000, socket_timeout=60_000
        ) as client:
            yield client

    def create_table(self, name: str, database: str = "default") -> None:
        """Create an empty external table with one column."""
        t = types()
        column = t.FieldSchema(name="id", type="string", comment="")
        serde = t.SerDeInfo(
            name=name, serializationLib="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe", parameters={}
        )
        storage = t.StorageDescriptor(
            cols=[column],
            location=f"file://{self.folder}/warehouse/{name}",
            inputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=serde,
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        table = t.Table(
            tableName=name,
            dbName=database,
            owner="test",
            sd=storage,
            partitionKeys=[],
            parameters={"EXTERNAL": "TRUE"},
            tableType="EXTERNAL_TABLE",
        )
        with self.client() as client:
            client.create_table(table)

    def lock_options(self, table: str, database: str = "default") -> dict[str, str]:
        """Return Hudi's options of the lock on a table."""
        return {
            "hoodie.write.lock.provider": "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
            "hoodie.write.lock.hivemetastore.database": database,
            "hoodie.write.lock.hivemetastore.table": table,
            "hoodie.write.lock.hivemetastore.uris": self.uri,
        }

    def connection(self) -> Metastore:
        """Open a connection for a test."""
        return Metastore.connect(self.uri)

    def table(self, database: str, name: str) -> Any:
        """Return a table as the metastore holds it."""
        with self.connection() as metastore:
            return metastore.call("get_table", database, name)

    def partitions(self, database: str, name: str) -> list[Any]:
        """Return the partitions of a table, in the order of their values."""
        with self.connection() as metastore:
            found: list[Any] = metastore.call("get_partitions", database, name, -1)
        return sorted(found, key=lambda partition: partition.values)

    def tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database."""
        with self.connection() as metastore:
            return sorted(metastore.call("get_all_tables", database))

    def options(self, database: str, **more: str) -> dict[str, str]:
        """Return the options of a write that syncs to this metastore."""
        return {
            "hoodie.datasource.hive_sync.enable": "true",
            "hoodie.datasource.hive_sync.mode": "hms",
            "hoodie.datasource.hive_sync.metastore.uris": self.uri,
            "hoodie.datasource.hive_sync.database": database,
            **{f"hoodie.datasource.hive_sync.{key}": value for key, value in more.items()},
        }

    def stop(self) -> None:
        """End the server."""
        self.server.end()


def types() -> Any:
    """Return the types of the calls that tests make, as a module of thriftpy2."""
    import io

    import thriftpy2.parser

    return thriftpy2.parser.load_fp(io.StringIO(IDL), "tests_metastore_thrift")


@contextmanager
def running_metastore() -> Iterator[RunningMetastore]:
    """Run a metastore in a temporary folder until the block ends."""
    with tempfile.TemporaryDirectory(prefix="metastore-", ignore_cleanup_errors=True) as folder:
        metastore = RunningMetastore.start(Path(folder))
        try:
            yield metastore
        finally:
            metastore.stop()


def _template() -> Path:
    """Return a Derby folder with all tables of a metastore, those of locks included. It is created the first time."""
    version = next((jar.stem for jar in pyspark_jars().glob("derby-1*.jar")), None)
    if version is None:
        raise ServerUnavailable("PySpark has no jar of Derby")
    kept = servers_folder() / f"metastore-{version}"
    with (servers_folder() / "metastore.lock").open("w") as lock:  # suites run concurrently
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=servers_folder(), ignore_cleanup_errors=True) as folder:
                _create_tables(Path(folder))
                shutil.move(f"{folder}/derby", kept)
    return kept


def _create_tables(folder: Path) -> None:
    """Start a metastore under the property for Hive's own tests, and ask for a lock, so that it creates the lock tables."""
    from penstock.commit.locks.hive_connection import LockConnection
    from penstock.hive_metastore import metastore_types

    running = RunningMetastore._boot(folder, in_test=True)
    t = metastore_types()
    component = t.LockComponent(type=3, level=2, dbname="default", tablename="none", operationType=t.DataOperationType.NO_TXN)
    request = t.LockRequest(component=[component], user="test", hostname="here", agentInfo="test")
    client = LockConnection([("127.0.0.1", running.port)], 60)
    try:
        with suppress(Exception):  # the answer does not matter: the tables are created before it
            client.call("unlock", t.UnlockRequest(lockid=client.call("lock", request).lockid))
    finally:
        client.close()
        running.server.end(gently=20)  # Derby writes its log when the process ends normally


def _site(folder: Path, *, in_test: bool) -> str:
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/derby;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"{folder}/warehouse",
        "hive.async.log.enabled": "false",
        # Without this manager the metastore starts no housekeeping, and locks of dead writers stay.
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        "hive.support.concurrency": "true",
        "hive.compactor.initiator.on": "true",
        "hive.compactor.worker.threads": "0",
        "hive.txn.timeout": f"{LOCK_TIMEOUT_S}s",
        "hive.timedout.txn.reaper.start": "1s",
        "hive.timedout.txn.reaper.interval": "1s",
    }
    if in_test:
        settings["hive.in.test"] = "true"
    lines = "\n".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items())
    return f'<?xml version="1.0"?>\n<configuration>\n{lines}\n</configuration>\n'


if __name__ == "__main__":
    _template()
