"""Stages of an operation: what is shown, and what a commit stores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import progress
from penstock.progress import Stages, TaskProgress, format_bytes, format_count


def test_a_commit_keeps_seconds_rows_and_bytes_of_every_stage_in_order() -> None:
    stages = Stages("upsert trips", "off")
    with stages.run("stage", "reading") as notes:
        notes.rows = 3
        notes.size_bytes = 120
    with stages.run("store", "writing"):
        pass
    stored = json.loads(stages.to_text())
    assert list(stored) == ["stage", "store"]
    assert stored["stage"]["rows"] == 3
    assert stored["stage"]["bytes"] == 120
    assert stored["stage"]["seconds"] >= 0


def test_a_stage_that_fails_is_recorded_too() -> None:
    stages = Stages("upsert trips", "off")
    with pytest.raises(ValueError, match="boom"), stages.run("store", "writing"):
        raise ValueError("boom")
    assert [stage.name for stage in stages.done] == ["store"]


def test_nothing_is_shown_outside_of_terminals_and_notebooks(capfd: pytest.CaptureFixture[str]) -> None:
    with Stages("upsert trips", "auto").run("stage", "reading the rows"):
        pass
    assert capfd.readouterr().err == ""


def test_progress_is_shown_if_the_option_is_on(capfd: pytest.CaptureFixture[str]) -> None:
    with Stages("upsert trips", "on").run("stage", "reading the rows") as notes:
        notes.rows = 1200
    shown = capfd.readouterr().err
    assert "reading the rows" in shown
    assert "1,200 rows" in shown


def test_tasks_that_have_begun_are_counted_while_a_stage_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REFRESH_EVERY_S", 0.01)
    counted_twice = threading.Event()
    shown: list[str] = []

    def begun() -> int:
        if len(shown) >= 2:
            counted_twice.set()
        return 3 + len(shown)

    stages = Stages("upsert trips", "on")
    assert stages._display is not None
    monkeypatch.setattr("rich.status.Status.update", lambda self, text: shown.append(text))
    with stages.run("store", "merging", TaskProgress(4, begun)):
        assert counted_twice.wait(10)
    assert [text[-6:] for text in shown[:2]] == ["3 of 4", "4 of 4"]


def test_a_failure_to_count_tasks_does_not_disturb_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REFRESH_EVERY_S", 0.01)
    called = threading.Event()

    def begun() -> int:
        called.set()
        raise OSError("gone")

    with Stages("upsert trips", "on").run("store", "merging", TaskProgress(4, begun)):
        assert called.wait(10)


def test_the_context_manager_is_entered_around_a_stage() -> None:
    seen = []

    @contextmanager
    def around(doing: str) -> Iterator[None]:
        seen.append(doing)
        yield
        seen.append("over")

    with Stages("upsert trips", "off", around).run("store", "merging"):
        seen.append("work")
    assert seen == ["upsert trips: merging", "work", "over"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (72_000_000, "72.0 MB"), (5e15, "5000 TB")]
)
def test_bytes_are_shown_with_a_unit(count: float, text: str) -> None:
    assert format_bytes(count) == text


def test_a_count_has_its_noun_in_the_right_number() -> None:
    assert [format_count(count, "file group") for count in (0, 1, 2, 1200)] == [
        "0 file groups",
        "1 file group",
        "2 file groups",
        "1,200 file groups",
    ]


def test_a_batch_program_that_imports_ipykernel_shows_nothing(tmp_path: Path) -> None:
    """PySpark 4 imports ipykernel if it is installed. Its presence is no sign of a notebook."""
    (tmp_path / "ipykernel.py").write_text("")
    program = (
        "import ipykernel\nfrom penstock.progress import Stages\nwith Stages('upsert trips').run('stage', 'reading'):\n    pass\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
