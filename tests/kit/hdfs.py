"""A real HDFS for tests: a name node and a data node in one process, MiniDFSCluster of Hadoop.

`python -m tests.kit.hdfs` fetches what it needs, and starts nothing.
"""

from __future__ import annotations

import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.storage import Storage, open_storage
from tests.kit.servers import Server, ServerUnavailable, free_port, jars_of, java_command

VERSION = "3.4.2"


@dataclass(frozen=True)
class Hdfs:
    """A running HDFS."""

    port: int
    server: Server

    @property
    def url(self) -> str:
        """The address of the name node."""
        return f"hdfs://127.0.0.1:{self.port}"

    def path(self) -> str:
        """Return a new path."""
        return f"{self.url}/{uuid.uuid4().hex}"

    def open(self) -> tuple[Storage, str]:
        """Open a new path."""
        return open_storage(self.path(), {"spark.hadoop.dfs.replication": "1"})

    def administer(self, *words: str) -> None:
        """Run a command of `hdfs dfsadmin`."""
        program = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", fetch(), "org.apache.hadoop.hdfs.tools.DFSAdmin"]
        command = [java_command(), *program, "-fs", self.url, *words]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def fetch() -> str:
    """Return the class path of the server, fetched the first time.

    Raises:
        ServerUnavailable: Maven Central cannot be reached.
    """
    return jars_of("org.apache.hadoop", "hadoop-client-minicluster", VERSION)


@contextmanager
def running_hdfs() -> Iterator[Hdfs]:
    """Run a HDFS in a temporary folder until the block ends."""
    try:
        import hdfs_native  # noqa: F401
    except ImportError:
        raise ServerUnavailable("HDFS needs the package hdfs-native (make setup)") from None
    jars = fetch()
    with tempfile.TemporaryDirectory(prefix="hdfs-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        details = Path(folder, "details.json")
        short_life = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        places = [f"-Dtest.build.data={folder}", f"-Dhadoop.tmp.dir={folder}/tmp", "-cp", jars]
        flags = ["-format", "-nnport", str(port), "-httpport", str(free_port()), "-datanodes", "1", "-writeDetails", str(details)]
        settings = ["-D", "dfs.permissions.enabled=false", "-D", "dfs.replication=1", "-D", "dfs.namenode.safemode.extension=0"]
        program = "org.apache.hadoop.test.MiniDFSClusterManager"
        server = Server.start("hdfs", Path(folder), [*short_life, *places, program, *flags, *settings])
        try:
            server.wait_until(lambda: details.exists() and details.stat().st_size > 0)
            yield Hdfs(port, server)
        finally:
            server.end()


if __name__ == "__main__":
    fetch()
