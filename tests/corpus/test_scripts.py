"""Scripts in the manner of public tutorials, guides and blog posts run unchanged, or end in the one error that they should.

A script is run with the path of its table as argument. A line `# Ends in: text` says which error it ends in: the error's class or message
matches the text, and no table is left behind by the failed write. With the line `# Writes a table first.` the table has no unfinished write.
No option of a script is unknown.

Most scripts share the session of the tests, which has the settings that their builders ask for only in part. Some also run as programs of their own.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.options import UnknownOptionWarning

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.py"))


def expected_error(script: Path) -> str | None:
    """Return the pattern of the error that a script ends in; None if it runs to its end."""
    found = re.search(r"^# Ends in: (.+)$", script.read_text(), re.MULTILINE)
    return found[1] if found else None


@pytest.mark.everywhere
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs_or_ends_in_its_error(script: Path, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "table")])
    expected = expected_error(script)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", UnknownOptionWarning)
        if expected is None:
            runpy.run_path(str(script), run_name="__main__")
            return
        with pytest.raises(PenstockError) as caught:
            runpy.run_path(str(script), run_name="__main__")
    message = f"{type(caught.value).__name__}: {caught.value}"
    assert re.search(expected.replace("Unsupported: ", ""), message), message
    if expected.startswith("Unsupported: "):
        assert message.startswith("Unsupported: "), message
    assert len(message) < 600, f"too long to be one error: {message}"
    timeline = tmp_path / "table" / ".hoodie"
    if "# Writes a table first." in script.read_text():
        assert [file.name for file in timeline.glob("*.commit")]
        assert len(list(timeline.glob("*.commit.requested"))) == len(list(timeline.glob("*.commit")))
    else:
        assert not timeline.exists(), "the failed write left a table"


@pytest.mark.parametrize("name", ["quickstart_insert", "emr_studio_all_options", "glue_sync_configured_and_off"])
def test_a_script_runs_as_a_program_with_the_settings_of_its_builder(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", str(SCRIPTS[0].with_name(f"{name}.py")), str(tmp_path / "table")]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert (tmp_path / "table" / ".hoodie" / "hoodie.properties").exists()


def test_there_are_enough_scripts() -> None:
    assert len(SCRIPTS) >= 60
