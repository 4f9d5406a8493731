"""The demo runs and prints what it should."""

from __future__ import annotations

import io
import runpy
from pathlib import Path
from typing import Any

from rich.console import Console

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"


def test_the_demo_shows_before_and_after(spark: Any, tmp_path: Path) -> None:
    said = io.StringIO()
    runpy.run_path(str(DEMO))["tell"](spark, tmp_path, Console(file=said, width=80))
    story = said.getvalue()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in story.splitlines() if line.startswith("│ t")]
    assert ["t2", "berlin", "Bo", "27.70 → 25.00", "101 → 200", "updated"] in rows
    assert ["t7", "paris", "Gil", "12.30", "202", "inserted"] in rows
    assert ["t4", "paris", "Dora", "93.50", "103", "deleted"] in rows
    assert "6 trips as of" in story
    history = [line.split()[1] for line in story.splitlines() if line.startswith("20")]
    assert history == ["delete", "upsert", "bulk_insert"]
