"""Pythons for Spark's workers: programs that stand for one, and one that has no Penstock."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa


def make_python(file: Path, command: str) -> str:
    """Make a program that stands for a Python, and return its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{command}\n")
    file.chmod(0o755)
    return str(file)


def python_without_penstock(folder: Path) -> str:
    """Return a Python that has all packages of this one but Penstock."""
    packages = folder / "packages"
    packages.mkdir()
    for package in Path(pa.__file__).parents[1].iterdir():
        if "penstock" not in package.name and package.suffix != ".pth":
            (packages / package.name).symlink_to(package)
    return make_python(folder / "bare" / "python", f'PYTHONPATH={packages} exec {sys.executable} -S "$@"')
