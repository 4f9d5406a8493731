"""What a start of the program `penstock` and an import of the package load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.arguments import parse_options
from penstock.cli.commands import doctor
from penstock.errors import OptionError, PenstockError

ROOT = Path(__file__).resolve().parents[3]
#: Libraries that take most of the time of a start. A command imports them when it runs.
SLOW = ("pyarrow", "pyspark", "numpy", "fastavro", "pandas")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_the_program_imports_no_slow_library_to_say_what_it_is(argument: str) -> None:
    program = (
        f"import sys; sys.argv = ['penstock', {argument!r}]\n"
        "from penstock.cli.main import main\n"
        "try:\n    main()\n"
        f"finally:\n    print([name for name in {SLOW!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (0, ["[]"]), done.stderr


def test_a_traceback_shows_no_values_of_options() -> None:
    program = (
        "import sys; sys.argv = ['penstock', 'doctor', '/x', '--option', 'penstock.storage.key=CANARY']\n"
        "import penstock.cli.commands.doctor as doctor\n"
        "doctor._report = None\n"  # a defect of the program
        "from penstock.cli.main import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "TypeError" in done.stderr
    assert "CANARY" not in done.stdout + done.stderr


def test_an_argument_that_may_be_a_secret_is_not_in_the_error() -> None:
    with pytest.raises(OptionError, match="is not key=value") as error:
        parse_options(["penstock.storage.key=", "CANARY"])
    assert "CANARY" not in str(error.value)


def test_a_java_that_does_not_answer_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_JAVA_SECONDS_MAX", 0.001)
    with pytest.raises(PenstockError, match="no answer"):
        doctor._find_java()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(PenstockError, match="/no/such/python"):
        doctor._find_java()


def test_an_import_of_the_package_imports_no_other_module_of_it() -> None:
    """Spark's workers import it, and need only their kernels."""
    program = f"import sys, penstock; print([name for name in sys.modules if name.startswith(('penstock.', *{SLOW!r}))])"
    assert subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True) == "[]\n"
