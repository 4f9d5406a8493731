"""The package as a zip: complete, the same bytes every time, and importable."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import penstock
from penstock.errors import OptionError
from tests.docs.pages import ROOT


def test_the_bundle_has_every_module_and_nothing_else(tmp_path: Path) -> None:
    names = zipfile.ZipFile(penstock.bundle(tmp_path / "penstock.zip")).namelist()
    modules = [str(path.relative_to(ROOT)) for path in (ROOT / "penstock").rglob("*.py")]
    assert sorted(names) == sorted([*modules, "penstock/py.typed", f"penstock-{penstock.__version__}.dist-info/METADATA"])


def test_bundling_the_same_package_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    first, second = (Path(penstock.bundle(tmp_path / name)) for name in ("one.zip", "two.zip"))
    assert first.read_bytes() == second.read_bytes()
    penstock.bundle(first)
    assert first.read_bytes() == second.read_bytes()


def test_the_bundle_can_be_imported_from_its_path(tmp_path: Path) -> None:
    path = penstock.bundle(tmp_path / "penstock.zip")
    program = f"import sys; sys.path.insert(0, {path!r}); import penstock; print(penstock.__file__, penstock.__version__)"
    said = subprocess.check_output([sys.executable, "-I", "-c", program], cwd=tmp_path, text=True).split()
    assert said == [f"{path}/penstock/__init__.py", penstock.__version__]


def test_the_command_line_writes_a_bundle_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock.bundle"]
    done = subprocess.run([*command, str(tmp_path / "x.zip")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(tmp_path / "x.zip"), "")
    assert (tmp_path / "x.zip").read_bytes() == Path(penstock.bundle(tmp_path / "y.zip")).read_bytes()
    wrong = [subprocess.run([*command, *args], cwd=ROOT, capture_output=True, text=True, check=False) for args in ([], ["x.egg"])]
    assert [w.returncode for w in wrong] == [2, 1]
    assert ".zip" in wrong[1].stderr


def test_a_name_that_spark_would_not_take_for_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\.zip"):
        penstock.bundle(tmp_path / "penstock.tar")
    assert list(tmp_path.iterdir()) == []


def test_bundle_is_a_function_even_after_its_module_was_imported(tmp_path: Path) -> None:
    program = f"import penstock.bundle; print(penstock.bundle({str(tmp_path / 'a.zip')!r}))"
    assert subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True).strip() == str(tmp_path / "a.zip")
