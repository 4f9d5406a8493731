"""The examples of a page, pasted into one file, run with `python page.py` in an environment that is not activated.

CI runs two pages; `make test-pages` runs all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import blocks_of
from tests.docs.test_pages import WITH_CODE

IN_CI = {"operations.md", "payloads.md"}
UNSET = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH")


def pages_to_run() -> list[Path]:
    """Return the pages to run: all if `PENSTOCK_TEST_PAGES` is set, otherwise those of CI."""
    is_whole = bool(os.environ.get("PENSTOCK_TEST_PAGES"))
    return [page for page in WITH_CODE if is_whole or page.name in IN_CI]


@pytest.mark.parametrize("page", pages_to_run(), ids=lambda page: page.name)
def test_a_page_runs_as_a_program(page: Path, tmp_path: Path) -> None:
    """On a classic session, with the blocks for any session."""
    examples = [block for block in blocks_of(page) if block.language == "python"]
    blocks = [block.text for block in examples if not block.words or "classic" in block.words]
    (tmp_path / "page.py").write_text("\n".join([*blocks, "print('the end')"]))
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    command = [sys.executable, "-W", "ignore", "page.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.splitlines()[-1:] == ["the end"], done.stderr[-4000:]
    assert done.returncode == 0
