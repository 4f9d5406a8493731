"""What a start of the program `penstock` and an import of the package load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_an_import_of_the_package_imports_no_other_module_of_it() -> None:
    """Spark's workers import it, and need only their kernels."""
    program = f"import sys, penstock; print([name for name in sys.modules if name.startswith(('penstock.', *{SLOW!r}))])"
    assert subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True) == "[]\n"
