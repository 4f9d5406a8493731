"""The type information of the package, as programs of users see it: by mypy and by pyright."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parent / "clients"
BIN = Path(sys.executable).parent
CHECKERS = {
    "mypy": [str(BIN / "mypy"), "--strict", "--no-incremental", "--config-file="],
    "pyright": [str(BIN / "pyright"), "--pythonpath", sys.executable],
}
_ERROR = re.compile(r"^.*?(\w+)\.py:(\d+)(?::\d+)?\s*[:-] error:?", re.MULTILINE)


def lines_with_mistakes() -> set[tuple[str, int]]:
    lines = (CLIENTS / "wrong.py").read_text().splitlines()
    return {("wrong", number) for number, line in enumerate(lines, start=1) if line.endswith("# error")}


@pytest.mark.parametrize("checker", sorted(CHECKERS))
def test_a_checker_finds_every_mistake_of_a_client_and_nothing_else(checker: str, tmp_path: Path) -> None:
    for client in CLIENTS.glob("*.py"):  # outside of the checkout, so that its configuration does not count
        (tmp_path / client.name).write_text(client.read_text())
    command = [*CHECKERS[checker], "right.py", "wrong.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    found = {(name, int(line)) for name, line in _ERROR.findall(said)}
    assert found == lines_with_mistakes(), said
