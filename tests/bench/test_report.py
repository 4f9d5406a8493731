"""The benchmark's tables are made of the right samples."""

import json
from pathlib import Path
from typing import Any

from bench.report import collect, page, read_raw


def record(engine: str, step: str, started: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "engine": engine,
        "step": step,
        "started": started,
        "run": "r1",
        "status": "ok",
        "s": seconds,
        "cpu": seconds,
        "others_cpu": 0,
        **more,
    }


def raw(folder: Path, *records: dict[str, Any]) -> Path:
    (folder / "raw.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return folder


def test_a_step_that_was_measured_again_counts_as_it_was_measured_last_and_the_others_stay(tmp_path: Path) -> None:
    first = [record("limit", "W1", "monday", 1.0), record("limit", "W2", "monday", 2.0)]
    again = [record("limit", "W2", "tuesday", 5.0), record("limit", "W2", "tuesday", 7.0)]
    results = collect(read_raw(raw(tmp_path, *first, *again)))
    assert results["limit"]["W1"]["s"] == 1.0
    assert results["limit"]["W2"]["samples"] == [5.0, 7.0]
    assert results["limit"]["W2"]["s"] == 6.0


def test_a_wrong_answer_is_shown_as_wrong_and_never_as_a_time(tmp_path: Path) -> None:
    good, bad = (
        record("penstock", "W1", "monday", 3.25),
        record("penstock", "W1", "monday", 3.5, status="WRONG", detail="two rows"),
    )
    results = collect(read_raw(raw(tmp_path, record("limit", "W1", "monday", 1.0), good, bad)))
    text = page(results, {"cores": 2}, {})
    assert "WRONG two rows" in text
    assert "3.25" not in text


def test_a_goal_that_is_missed_is_said_so(tmp_path: Path) -> None:
    slow, fast = record("penstock", "W2", "monday", 2.0), record("penstock43", "W2", "monday", 1.25)
    results = collect(read_raw(raw(tmp_path, record("limit", "W2", "monday", 1.0), slow, fast)))
    assert "| 1.3 | 2.00 missed | **1.25** |" in page(results, {"cores": 2}, {})
