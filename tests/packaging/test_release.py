"""A release: what is in it, how large it is, and on which Pythons it can be installed."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"
#: The oldest and the newest Python: packages that drop the one or do not have the other yet are found.
PYTHONS = ("3.10", "3.14")
MOST_BYTES_IN_WHEEL = 2_500_000
#: A plain installation: Arrow, Avro, and the display of progress and tables. Each further package is a decision.
PACKAGES = {"fastavro", "markdown-it-py", "mdurl", "numpy", "pyarrow", "pygments", "rich"}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("release")
    command = [sys.executable, "scripts/release.py", "--no-tree-check", "--out", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # builds twice, and fails if the bytes differ
    yield folder


def only(folder: Path, pattern: str) -> Path:
    [path] = folder.glob(pattern)
    return path


def test_a_wheel_has_every_module_and_is_small(release: Path) -> None:
    wheel = only(release, "*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "penstock").rglob("*") if path.suffix in {".py", ".typed"}}
    in_package = {name for name in names if name.startswith("penstock/")}
    assert in_package == modules
    assert all(name.startswith((f"penstock-{penstock.__version__}.dist-info/", "penstock/")) for name in names)
    assert wheel.stat().st_size < MOST_BYTES_IN_WHEEL


def test_a_source_archive_has_the_package_its_tests_and_its_licence(release: Path) -> None:
    with tarfile.open(only(release, "*.tar.gz")) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "penstock/py.typed"} <= names
    assert any(name.startswith("tests/unit/") for name in names)
    assert not any(".venv" in name or ".cache" in name for name in names)


def test_an_sbom_lists_the_packages_of_a_plain_installation(release: Path) -> None:
    document = json.loads(only(release, "*.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["version"] == penstock.__version__
    assert {part["name"].lower() for part in document["components"]} == PACKAGES
    assert all(part["version"] and part["licenses"] for part in document["components"])


@pytest.mark.parametrize("python", PYTHONS)
def test_every_python_finds_wheels_of_all_extras(python: str) -> None:
    extras = distribution("penstock").metadata.get_all("Provides-Extra") or []
    wanted = [part for extra in sorted(set(extras) - {"dev", "test"}) for part in ("--extra", extra)]
    command = [str(UV), "pip", "compile", "--quiet", "--python-version", python, *wanted, "pyproject.toml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pyspark==" in done.stdout
