"""Every kind of part can be added by one file and one line: the examples of docs/extending.md, added to a copy of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks_of

PAGE = ROOT / "docs" / "extending.md"


def python_blocks(kind: str) -> list[Block]:
    """Return the Python blocks of the page of one kind: `file` or `run`."""
    return [block for block in blocks_of(PAGE) if block.language == "python" and block.words[:1] == (kind,)]


def line_blocks() -> list[Block]:
    """Return the blocks of the page that are a line in a table of names."""
    return [block for block in blocks_of(PAGE) if block.language == "line"]


def add_line(package: Path, block: Block) -> None:
    """Add an entry at the end of a table of names, and the import that it needs at the end of the imports."""
    module, table = block.words
    path = package / module
    source = path.read_text()
    imports = "".join(line + "\n" for line in block.text.splitlines() if line.startswith("from "))
    entry = "".join(line + "\n" for line in block.text.splitlines() if not line.startswith("from "))
    opening = re.search(rf"^{table}\b[^\n]*[{{(]\n?", source, re.MULTILINE)
    assert opening is not None, f"{module} has no table {table}"
    at = opening.end()
    source = source[:at] + ("" if source[at - 1] == "\n" else "\n") + entry + source[at:]
    if imports:
        first_import = source.index("\nfrom penstock") + 1
        source = source[:first_import] + imports + source[first_import:]
    path.write_text(source)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with every example of the page in it."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "penstock", folder / "penstock", ignore=shutil.ignore_patterns("__pycache__"))
    for block in python_blocks("file"):
        target = folder / block.words[1]
        assert not target.exists(), f"{target} is a module of Penstock"
        target.write_text(block.text)
    for block in line_blocks():
        add_line(folder, block)
    return folder


def test_a_line_in_a_table_is_one_entry_and_its_import() -> None:
    for block in line_blocks():
        lines = block.text.splitlines()
        entries = [line for line in lines if not line.startswith("from ")]
        assert len(entries) == 1
        assert len(lines) <= 2


def test_each_kind_of_part_has_a_file_and_a_line() -> None:
    kinds = [Path(block.words[1]).parts[1] for block in python_blocks("file")]
    assert kinds == ["merge", "index", "keys", "storage", "hooks", "hooks", "services", "commit"]
    assert len(line_blocks()) == len(kinds)


def test_the_parts_of_the_page_work_together(extended: Path, tmp_path: Path) -> None:
    (program,) = python_blocks("run")
    name = f"penstock-{tmp_path.name}-{os.getpid()}"
    script = tmp_path / "extended.py"
    script.write_text(f"folder = {name!r}\n{program.text}")
    environment = {**os.environ, "PYTHONPATH": str(extended)}
    try:
        done = subprocess.run(
            [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
    finally:
        shutil.rmtree(f"/dev/shm/penstock-scratch/{name}", ignore_errors=True)
    assert done.returncode == 0, done.stderr[-3000:]
