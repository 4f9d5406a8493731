"""`penstock lock`: shows the holder of a lock, and breaks it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.commands.lock import commands
from penstock.cli.main import main
from penstock.commit.locks import hold_lock
from penstock.commit.table_lock import find_lock
from penstock.options import read_options
from penstock.table.state import open_table
from tests.kit.golden import golden_names, unpack_golden

LOCK = {"penstock.lock": "storage", "hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
ARGUMENTS = ["--option", "penstock.lock=storage"]


def test_a_free_lock_is_shown(tmp_path: Path) -> None:
    path = str(unpack_golden(golden_names()[0], tmp_path))
    ran = CliRunner().invoke(commands(), ["show", path, *ARGUMENTS])
    assert (ran.exit_code, ran.output) == (0, "free\n")


def test_an_error_keeps_its_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Rich takes `[name]` for a style and leaves it out."""
    monkeypatch.setattr("sys.argv", ["penstock", "lock", "show", str(tmp_path / "[trips]")])
    with pytest.raises(SystemExit):
        main()
    assert f"TableNotFound {tmp_path}/[trips] is not a Hudi table" in capsys.readouterr().err


def test_the_holder_of_a_lock_is_shown_and_loses_it_when_asked_twice(tmp_path: Path) -> None:
    path = str(unpack_golden(golden_names()[0], tmp_path))
    with hold_lock(find_lock(open_table(path, read_options(LOCK))), "20260101000000000") as held:
        ran = CliRunner().invoke(commands(), ["show", path, *ARGUMENTS])
        assert "for instant 20260101000000000" in ran.output
        ran = CliRunner().invoke(commands(), ["break", path, *ARGUMENTS], input="n\n")
        assert ran.exit_code != 0
        assert held.is_held()
        ran = CliRunner().invoke(commands(), ["break", path, *ARGUMENTS], input="y\n")
        assert "broken" in ran.output
        assert not held.is_held()
