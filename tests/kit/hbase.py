"""A real HBase for tests: one process with master, region server and ZooKeeper, and one with the Thrift gateway.

Everything is below one folder and on free ports of this machine. `HBase.start` returns when the gateway answers.
`python -m tests.kit.hbase` fetches what it needs, and starts nothing.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.servers import Server, ServerUnavailable, free_port, jars_of

VERSION = "2.6.1"
#: Rows move to the partition that they come with.
MOVES = {"hoodie.hbase.index.update.partition.path": "true"}
#: As an administrator would make the family of an index: misses are common, so blooms pay; old cells serve rollback sync.
FAMILY = {"max_versions": 3, "bloom_filter_type": "ROW", "block_cache_enabled": True}
LOGGING = """\
log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c: %m%n
"""


@dataclass(frozen=True)
class HBase:
    """A running HBase."""

    zookeeper_port: int
    thrift_port: int
    master: Server
    gateway: Server

    @classmethod
    def start(cls, folder: Path) -> HBase:
        """Start an HBase that keeps its files in a folder.

        Raises:
            ServerUnavailable: the jars or the client are missing and cannot be fetched.
        """
        try:
            import happybase  # noqa: F401
        except ImportError:
            raise ServerUnavailable("HBase needs the package happybase (make setup)") from None
        jars = fetch()
        zookeeper, thrift = free_port(), free_port()
        conf = folder / "conf"
        conf.mkdir(parents=True)
        (conf / "hbase-site.xml").write_text(_site(folder, zookeeper))
        (conf / "log4j.properties").write_text(LOGGING)
        short_life = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{conf}:{jars}"]
        with contextlib.ExitStack() as undo:
            master = Server.start("master", folder, ["-Xmx512m", *short_life, "org.apache.hadoop.hbase.master.HMaster", "start"])
            undo.callback(master.end)
            program = ["org.apache.hadoop.hbase.thrift.ThriftServer", "start", "-p", str(thrift), "-b", "127.0.0.1"]
            gateway = Server.start("gateway", folder, ["-Xmx192m", *short_life, *program])
            undo.callback(gateway.end)
            found = cls(zookeeper, thrift, master, gateway)
            gateway.wait_until(found.answers)
            undo.pop_all()
        return found

    def answers(self) -> bool:
        """Whether the gateway answers."""
        try:
            with self.connection(timeout=5000) as connection:
                connection.tables()
            return True
        except Exception:
            return False

    @contextmanager
    def connection(self, timeout: int = 60_000) -> Iterator[Any]:
        """Open a connection for a test."""
        import happybase

        connection = happybase.Connection("127.0.0.1", self.thrift_port, timeout=timeout)
        try:
            yield connection
        finally:
            connection.close()

    def create(self, table: str, family: str = "_s") -> None:
        """Create an empty table for an index."""
        with self.connection() as connection:
            connection.create_table(table, {family: FAMILY})

    def entries(self, table: str) -> dict[str, dict[str, str]]:
        """Return all entries of a table by row key; columns without their family."""
        with self.connection() as connection:
            return {
                key.decode(): {name.decode().partition(":")[2]: cell.decode() for name, cell in cells.items()}
                for key, cells in connection.table(table).scan()
            }

    def put(self, table: str, key: str, cells: Mapping[str, str]) -> None:
        """Write cells of the family `_s` directly, without an index."""
        with self.connection() as connection:
            connection.table(table).put(key.encode(), {f"_s:{name}".encode(): text.encode() for name, text in cells.items()})

    def options(self, table: str) -> dict[str, str]:
        """Return Hudi's options for a write with this index. Real Hudi needs no others."""
        return {
            "hoodie.index.type": "HBASE",
            "hoodie.index.hbase.zkquorum": "127.0.0.1",
            "hoodie.index.hbase.zkport": str(self.zookeeper_port),
            "hoodie.index.hbase.zknode.path": "/hbase",
            "hoodie.index.hbase.table": table,
        }

    def our_options(self, table: str) -> dict[str, str]:
        """Return the options of a write of Penstock: Hudi's, and the address of the gateway."""
        gateway = {"penstock.hbase.thrift.host": "127.0.0.1", "penstock.hbase.thrift.port": str(self.thrift_port)}
        return {**self.options(table), **gateway}

    def stop(self) -> None:
        """End both processes."""
        self.gateway.end()
        self.master.end()


def fetch() -> str:
    """Return the class path of the server, fetched the first time.

    Raises:
        ServerUnavailable: Maven Central cannot be reached.
    """
    return jars_of("org.apache.hbase", "hbase-thrift", VERSION)


@contextmanager
def running_hbase() -> Iterator[HBase]:
    """Run an HBase in a temporary folder until the block ends."""
    with tempfile.TemporaryDirectory(prefix="hbase-", ignore_cleanup_errors=True) as folder:
        hbase = HBase.start(Path(folder))
        try:
            yield hbase
        finally:
            hbase.stop()


def _site(folder: Path, zookeeper_port: int) -> str:
    settings = {
        "hbase.cluster.distributed": "false",
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.rootdir": f"file://{folder}/root",
        "hbase.tmp.dir": f"{folder}/tmp",
        "hbase.zookeeper.quorum": "127.0.0.1",
        "hbase.zookeeper.property.clientPort": zookeeper_port,
        "hbase.zookeeper.property.dataDir": f"{folder}/zk",
        "hbase.master.ipc.address": "127.0.0.1",
        "hbase.regionserver.ipc.address": "127.0.0.1",
        "hbase.master.hostname": "localhost",
        "hbase.regionserver.hostname": "localhost",
        "hbase.master.port": 0,
        "hbase.regionserver.port": 0,
        "hbase.master.info.port": -1,
        "hbase.regionserver.info.port": -1,
        "hbase.thrift.info.port": -1,
    }
    lines = "\n".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items())
    return f'<?xml version="1.0"?>\n<configuration>\n{lines}\n</configuration>\n'


if __name__ == "__main__":
    fetch()
