"""Scripts in the manner of public tutorials, guides and blog posts run unchanged, or end in the one error that they should.

A script is run with the path of its table as argument. A line `# Ends in: text` says which error it ends in: the error's class or message
matches the text, and no table is left behind by the failed write.
"""

from __future__ import annotations

import re
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PenstockError

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


def test_there_are_enough_scripts() -> None:
    assert len(SCRIPTS) >= 40
