"""Spark sessions of every kind that Penstock promises to work on.

`classic` controls a JVM from this process, `connect` talks to a Connect server of its own and has no JVM,
`local-cluster` has executors in processes of their own, `standalone` a real master with two workers. Classic and
Connect do not share a process, so a test run has one kind, named by `PENSTOCK_TEST_SESSION`, and one session.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.spark.java import use_java

KINDS = ("classic", "connect", "local-cluster", "standalone")
START_SECONDS_MAX = 120
# Processes that run for minutes: the optimising compiler costs more than it saves (half of all CPU time was measured).
# Without it Java reserves a fifth of the usual memory for compiled code, which a suite fills; and many classes are loaded at once.
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=200m"
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class SessionUnavailable(Exception):
    """This kind of session does not work with the installed PySpark. The message is the reason to skip a test with."""


@contextmanager
def make_session(
    kind: str, folder: Path, conf: Mapping[str, str] | None = None, *, worker_python: str = sys.executable
) -> Iterator[Any]:
    """Open a session of a kind, which keeps its files in `folder`. Stop it and its servers afterwards."""
    if kind not in KINDS:
        raise ValueError(f"PENSTOCK_TEST_SESSION={kind!r} is none of {', '.join(KINDS)}")
    use_java()
    os.environ["PYSPARK_PYTHON"] = worker_python  # what a classic driver and a Connect server start workers with
    wanted = {**base_settings(folder), "spark.pyspark.python": worker_python, **(conf or {})}
    with ExitStack() as servers:
        spark = _OPENERS[kind](servers, folder, wanted)
        try:
            yield spark
        finally:
            spark.stop()


def base_settings(folder: Path) -> dict[str, str]:
    """Return the settings of every session of a test run."""
    return {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": SHORT_LIFE,
        "spark.executor.extraJavaOptions": SHORT_LIFE,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "WARN",
        # Tests run similar queries: code that was generated for one test serves the next. By default 100 classes are kept.
        "spark.sql.codegen.cache.maxEntries": "5000",
        # Six more calls of the JVM for each function of a column, to name its line in an error.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _open_classic(servers: ExitStack, folder: Path, conf: Mapping[str, str]) -> Any:
    return _build("local[2]", conf)


def _open_local_cluster(servers: ExitStack, folder: Path, conf: Mapping[str, str]) -> Any:
    return _build("local-cluster[2,1,1024]", conf)


def _open_standalone(servers: ExitStack, folder: Path, conf: Mapping[str, str]) -> Any:
    """Start a master and two workers as an administrator would, and a driver on them."""
    port, page = _free_port(), _free_port()
    master = f"spark://127.0.0.1:{port}"
    at_home = ["--host", "127.0.0.1", "--webui-port"]
    _start_daemon(servers, folder, "master.Master", [*at_home, str(page), "--port", str(port)]).wait_until(
        lambda: workers_alive(page) is not None
    )
    for i in range(2):
        room = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{i}")]
        worker = _start_daemon(servers, folder, "worker.Worker", [*at_home, "0", *room, master])
    worker.wait_until(lambda: workers_alive(page) == 2)
    return _build(master, {"spark.executor.memory": "768m", "spark.executor.cores": "1", **conf})


def _open_connect(servers: ExitStack, folder: Path, conf: Mapping[str, str]) -> Any:
    """Start a Connect server on a port of its own (a local remote would take the one well-known port)."""
    if not list((spark_home() / "jars").glob("spark-connect_*.jar")):
        raise SessionUnavailable("the installed PySpark brings no Connect server (4.0 and newer do)")
    from pyspark.sql import SparkSession

    port = _free_port()
    settings = {**conf, "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    command = ["spark-submit", "--master", "local[2]", "--class", CONNECT_SERVER]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    _start(servers, folder, "connect", [*command, "spark-internal"]).wait_until(lambda: _answers(port))
    return SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()


_OPENERS: dict[str, Callable[[ExitStack, Path, Mapping[str, str]], Any]] = {
    "classic": _open_classic,
    "connect": _open_connect,
    "local-cluster": _open_local_cluster,
    "standalone": _open_standalone,
}


def _build(master: str, conf: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("penstock tests")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@dataclass(frozen=True)
class Server:
    """A process that was started for a session, in a process group of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Return once the server is ready. Raise RuntimeError with the end of its log when it died or takes too long."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
                raise RuntimeError(f"{self.name} did not start; its log ends:\n{tail}")
            time.sleep(0.2)

    def end(self) -> None:
        """End the server and the processes it started: executors are in its process group."""
        for how, seconds in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
            try:
                os.killpg(self.process.pid, how)
                self.process.wait(timeout=seconds)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


def _start_daemon(servers: ExitStack, folder: Path, name: str, arguments: list[str]) -> Server:
    command = ["spark-class", f"org.apache.spark.deploy.{name}", *arguments]
    return _start(servers, folder, name, command, SPARK_DAEMON_MEMORY="256m", SPARK_DAEMON_JAVA_OPTS=SHORT_LIFE)


def _start(servers: ExitStack, folder: Path, name: str, command: list[str], **environment: str) -> Server:
    """Start one of Spark's own scripts, which ends with `servers`."""
    home = spark_home()
    variables = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", **environment}
    variables.pop("SPARK_REMOTE", None)
    log = folder / f"{name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [str(home / "bin" / command[0]), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
    server = Server(name, process, log)
    servers.callback(server.end)
    return server


def workers_alive(page: int) -> int | None:
    """Return the number of workers that a master knows; None if it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError, KeyError):
        return None


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def spark_home() -> Path:
    """Return the folder of the installed Spark."""
    import pyspark

    return Path(pyspark.__file__).parent
