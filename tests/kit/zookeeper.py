"""A real ZooKeeper for tests, from the jars that PySpark contains; and a process that holds Curator's mutex, as Hudi does.

`python -m tests.kit.zookeeper` starts nothing and needs no download.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kit.servers import Server, ServerUnavailable, free_port, java_command, pyspark_jars

#: The shortest session is two ticks.
TICK_MS = 1000
SESSION_MS = 2 * TICK_MS
ANSWERS = ("ready", "yes", "no", "released")
CURATOR = Path(__file__).parent / "CuratorMutex.java"


@dataclass
class ZooKeeper:
    """A running ZooKeeper, alone in its ensemble."""

    port: int
    folder: Path
    server: Server

    @classmethod
    def start(cls, folder: Path, port: int | None = None) -> ZooKeeper:
        """Start a ZooKeeper that keeps its files in a folder.

        Raises:
            ServerUnavailable: the jars of PySpark are missing.
        """
        port = port or free_port()
        running = cls(port, folder, _start(folder, port))
        try:
            running.server.wait_until(running.answers)
        except BaseException:
            running.stop()
            raise
        return running

    def restart(self) -> None:
        """Start the server again, on the same port and with the same files, after `stop`."""
        self.server = _start(self.folder, self.port)
        self.server.wait_until(self.answers)

    def answers(self) -> bool:
        """Whether the server serves requests; it listens a moment earlier."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                return connection.recv(1000).startswith(b"Zookeeper version")
        except OSError:
            return False

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def options(self, base_path: str) -> dict[str, str]:
        """Return Hudi's options of the lock."""
        return {
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url": "127.0.0.1",
            "hoodie.write.lock.zookeeper.port": str(self.port),
            "hoodie.write.lock.zookeeper.base_path": base_path,
            "hoodie.write.lock.zookeeper.session_timeout_ms": str(SESSION_MS),
        }

    def stop(self) -> None:
        """End the server."""
        self.server.end()


class CuratorMutex:
    """A Java process with Curator's mutex. It takes and releases the mutex when it is asked to."""

    def __init__(self, address: str, path: str) -> None:
        if shutil.which("javac") is None and not Path(java_command()).with_name("javac").exists():
            raise ServerUnavailable("Curator's mutex is a Java program, and this machine has no Java compiler")
        command = [
            java_command(),
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{pyspark_jars()}/*",
            str(CURATOR),
            address,
            path,
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        self._read()

    def ask(self, word: str) -> str:
        """Send `acquire <milliseconds>` or `release`; return the answer: `yes`, `no` or `released`."""
        self.send(word)
        return self._read()

    def send(self, word: str) -> None:
        """Send a request without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() in ANSWERS:  # other lines are of Curator's log
                return line.strip()
        raise ServerUnavailable("the process with Curator's mutex has ended")

    def answer(self) -> str:
        """Wait for the answer to a request that was sent."""
        return self._read()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


@contextmanager
def running_zookeeper() -> Iterator[ZooKeeper]:
    """Run a ZooKeeper in a temporary folder until the block ends."""
    with tempfile.TemporaryDirectory(prefix="zookeeper-", ignore_cleanup_errors=True) as folder:
        zookeeper = ZooKeeper.start(Path(folder))
        try:
            yield zookeeper
        finally:
            zookeeper.stop()


def _start(folder: Path, port: int) -> Server:
    jars = pyspark_jars()
    if not list(jars.glob("zookeeper-[0-9]*.jar")):
        raise ServerUnavailable("PySpark has no jar of ZooKeeper")
    short_life = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dzookeeper.admin.enableServer=false"]
    program = ["org.apache.zookeeper.server.ZooKeeperServerMain", str(port), str(folder / "data"), str(TICK_MS)]
    return Server.start("zookeeper", folder, [*short_life, "-cp", f"{jars}/*", *program])
