"""A standalone Spark cluster whose workers share nothing with the driver: own folders, own addresses, and a Python without Penstock.

    with running_cluster(folder) as cluster:
        cluster.add_worker()
        with cluster.session({"spark.speculation": "true"}) as spark:
            cluster.kill_executors()

Each worker has a folder of its own for everything that it and its executors write, which is also their temporary folder. Its address
is one of 127.0.0.*, because Spark starts no duplicate of a task on the machine that runs it already.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from penstock.spark.java import use_java
from tests.kit.pythons import python_without_penstock
from tests.kit.servers import Server, free_port
from tests.kit.sessions import SHORT_LIFE, base_settings, spark_home, workers_alive

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass
class Cluster:
    """A running master, and its workers."""

    folder: Path
    port: int
    page: int
    python: str
    servers: ExitStack
    workers: list[Server] = field(default_factory=list)

    @property
    def master(self) -> str:
        """The address of the master."""
        return f"spark://127.0.0.1:{self.port}"

    def add_worker(self, cores: int = 2) -> None:
        """Start one more worker, and wait until the master knows it."""
        number = len(self.workers) + 1
        home, host = self.folder / f"worker-{number}", f"127.0.0.{number + 1}"
        (home / "tmp").mkdir(parents=True)
        room = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(home / "work")]
        arguments = ["--host", host, "--webui-port", "0", *room, self.master]
        places = {
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(home / "local"),
            "TMPDIR": str(home / "tmp"),
            "SPARK_DAEMON_JAVA_OPTS": f"{SHORT_LIFE} -Djava.io.tmpdir={home}/tmp",
        }
        worker = _start(self.servers, home, "worker.Worker", arguments, places)
        self.workers.append(worker)
        worker.wait_until(lambda: workers_alive(self.page) == len(self.workers))

    @contextmanager
    def session(self, conf: Mapping[str, str]) -> Iterator[Any]:
        """Run a session on the cluster until the block ends."""
        from pyspark.sql import SparkSession

        settings = {
            **base_settings(self.folder / "driver"),
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": SHORT_LIFE,
            **conf,
        }
        builder = SparkSession.builder.master(self.master).appName("penstock tests")
        for key, value in settings.items():
            builder = builder.config(key, value)
        # The driver sends its own PYTHONPATH to no executor; this is for the Python that the executors start.
        with patch.dict(os.environ, {"PYSPARK_PYTHON": self.python, "PYSPARK_DRIVER_PYTHON": sys.executable}):
            spark = builder.getOrCreate()
            try:
                yield spark
            finally:
                spark.stop()

    def executors(self) -> list[psutil.Process]:
        """Return the processes of the executors that are alive."""
        found = []
        for worker in self.workers:
            for process in psutil.Process(worker.process.pid).children(recursive=True):
                if _EXECUTOR in _command(process):
                    found.append(process)
        return found

    def kill_executors(self, count: int | None = None) -> int:
        """Kill executors, all or some of them, with their Python workers, and with no time to clean up. Return how many."""
        killed = self.executors()[:count]
        for executor in killed:
            for process in [*executor.children(recursive=True), executor]:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
        return len(killed)


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run a master without workers until the block ends."""
    use_java()
    with ExitStack() as servers:
        port, page = free_port(), free_port()
        home = folder / "master"
        home.mkdir(parents=True)
        arguments = ["--host", "127.0.0.1", "--webui-port", str(page), "--port", str(port)]
        master = _start(
            servers, home, "master.Master", arguments, {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": SHORT_LIFE}
        )
        master.wait_until(lambda: workers_alive(page) is not None)
        yield Cluster(folder, port, page, python_without_penstock(folder), servers)


def _start(servers: ExitStack, folder: Path, name: str, arguments: list[str], variables: Mapping[str, str]) -> Server:
    """Start one of Spark's daemons, in a folder of its own, without the Python path of this process."""
    home = spark_home()
    environment = {**variables, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    with patch.dict(os.environ):
        for name_of_variable in ("PYTHONPATH", "SPARK_REMOTE", "PYSPARK_PYTHON"):
            os.environ.pop(name_of_variable, None)
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        server = Server.run(name, folder, command, environment)
    servers.callback(server.end)
    return server


def _command(process: psutil.Process) -> list[str]:
    """Return the command line of a process; nothing if it has ended."""
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []
