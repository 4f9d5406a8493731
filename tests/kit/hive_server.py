"""A server of HiveServer2's protocol for tests: Spark's Thrift Server, from PySpark's jars, on a Hive metastore."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.metastore import RunningMetastore
from tests.kit.servers import Server, ServerUnavailable, free_port, pyspark_jars

#: Packages that Spark needs access to on Java 17.
OPENED = ("java.lang", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util", "java.util.concurrent",
          "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar")  # fmt: skip


@dataclass(frozen=True)
class RunningHiveServer:
    """A running Thrift Server."""

    port: int
    server: Server

    @property
    def url(self) -> str:
        """The JDBC URL."""
        return f"jdbc:hive2://127.0.0.1:{self.port}/default"

    @classmethod
    def start(cls, folder: Path, metastore: RunningMetastore) -> RunningHiveServer:
        """Start a server on a metastore.

        Raises:
            ServerUnavailable: the client is missing.
        """
        try:
            import impala.dbapi  # noqa: F401
        except ImportError:
            raise ServerUnavailable("HiveServer2 needs the package impyla (make setup)") from None
        port = free_port()
        settings = {
            "spark.master": "local[1]",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.hadoop.hive.metastore.uris": metastore.uri,
            "spark.hadoop.hive.server2.thrift.port": str(port),
            "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
        }
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        short_life = ["-Xmx700m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        configured = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        program = ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal"]
        arguments = ["-cp", f"{pyspark_jars()}/*", "org.apache.spark.deploy.SparkSubmit", *configured, *program]
        server = Server.start("hive_server", folder, [*short_life, *opened, *arguments])
        found = cls(port, server)
        try:
            server.wait_until(found.answers)
        except BaseException:
            server.end()
            raise
        return found

    def answers(self) -> bool:
        """Whether the server runs statements."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                pass  # without a listener, the client would log every attempt
            connection = self.connection(timeout=10)
            connection.cursor().execute("SHOW DATABASES")
            connection.close()
            return True
        except Exception:
            return False

    def connection(self, timeout: int = 120) -> Any:
        """Open a connection for a test."""
        from impala.dbapi import connect

        return connect("127.0.0.1", self.port, user="hive", password="hive", auth_mechanism="PLAIN", timeout=timeout)

    def stop(self) -> None:
        """End the process."""
        self.server.end()


@contextmanager
def running_hive_server(metastore: RunningMetastore) -> Iterator[RunningHiveServer]:
    """Run a server in a temporary folder until the block ends."""
    with tempfile.TemporaryDirectory(prefix="hive-server-", ignore_cleanup_errors=True) as folder:
        server = RunningHiveServer.start(Path(folder), metastore)
        try:
            yield server
        finally:
            server.stop()
