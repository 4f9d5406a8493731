"""The progress of a write while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.table.tables import SIX, trips, write
from tests.table.upserts import IN_TASKS, UPSERT


@pytest.fixture
def tags(spark: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tags that are set on jobs, and `-` where one is removed."""
    if pyspark.__version__.startswith("3."):
        pytest.skip("PySpark 3.5 has job tags on Connect only")
    found: list[str] = []
    add, remove = type(spark).addTag, type(spark).removeTag
    monkeypatch.setattr(type(spark), "addTag", lambda self, tag: (found.append(tag), add(self, tag))[1])
    monkeypatch.setattr(type(spark), "removeTag", lambda self, tag: (found.append("-"), remove(self, tag))[1])
    return found


def test_the_jobs_of_each_stage_carry_its_name(spark: Any, tmp_path: Path, tags: list[str]) -> None:
    write(trips(spark, *SIX), str(tmp_path / "t"), {**UPSERT, **IN_TASKS})
    assert [tag for tag in tags if tag != "-"] == [
        "upsert trips: reading the incoming rows",
        "upsert trips: locating keys",
        "upsert trips: merging into 3 file groups",
    ]
    assert tags[1::2] == ["-"] * 3


def test_progress_is_shown_when_asked_for(spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(trips(spark, *SIX), str(tmp_path / "t"), {**UPSERT, **IN_TASKS, "penstock.progress": "on"})
    shown = capfd.readouterr().err
    assert "reading the incoming rows" in shown
    assert "merging into 3 file groups" in shown
    assert "6 rows" in shown
