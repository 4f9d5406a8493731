"""Builds `.venv-bench`: single-node peers, PySpark 3.5 for Penstock, the meter and the plots, pinned by `bench/constraints.txt`.

Run by `make bench` when it is missing; standard library only. `python -m bench.environment pin` writes the pins again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

from scripts.environment import NEWEST, ROOT, Environment, create_venv, find_python, provide_java, run, say

BENCH = Environment(".venv-bench", "bench/constraints.txt", "", (3, 12), "peers, PySpark 3.5, meter and plots of the benchmark")
REQUIREMENTS = "bench/requirements.txt"
_PLAIN = ("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links")


def build() -> None:
    """Make the environment complete."""
    base = find_python(BENCH)
    if base is None:
        sys.exit("the benchmark needs Python 3.10 to 3.12, and none was found (set PYTHON=...)")
    create_venv(BENCH, base)
    say(BENCH, f"installing {BENCH.about}")
    command = [_uv(), "pip", "install", "--quiet", "--python", str(BENCH.python), "-c", BENCH.constraints, "-r", REQUIREMENTS]
    run(command, hint="is PyPI reachable?")
    provide_java(BENCH)
    BENCH.stamp.touch()


def pin() -> None:
    """Write the constraints file: newest versions that go together, on every Python; Arrow as the newest PySpark has it."""
    command = [_uv(), "pip", "compile", "--quiet", "--universal", "--python-version", "3.10", "--upgrade", *_PLAIN]
    with NamedTemporaryFile("w", suffix=".txt") as others:
        lines = Path(ROOT, NEWEST.constraints).read_text().splitlines(keepends=True)
        others.writelines(line for line in lines if not line.startswith(("pyspark==", "py4j==")))
        others.flush()
        run([*command, "-c", others.name, "-o", BENCH.constraints, REQUIREMENTS], hint="is PyPI reachable?")


def _uv() -> str:
    for environment in (BENCH, NEWEST):
        found = environment.python.parent / "uv"
        if found.exists():
            return str(found)
    sys.exit(f"no uv in {ROOT / NEWEST.folder}; run make setup first")


if __name__ == "__main__":
    pin() if sys.argv[1:] == ["pin"] else build()
