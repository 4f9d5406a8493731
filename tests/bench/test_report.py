"""The benchmark's tables are made of the right samples."""

import json
from pathlib import Path
from typing import Any

from bench.engines import ENGINES
from bench.report import bytes_ratio, collect, left_out, measured, page, peak_ratio, read_raw


def record(engine: str, step: str, started: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "engine": engine,
        "step": step,
        "started": started,
        "run": "r1",
        "round": 1,
        "status": "ok",
        "s": seconds,
        "cpu": seconds,
        "others_cpu": 0,
        **more,
    }


def raw(folder: Path, *records: dict[str, Any]) -> Path:
    (folder / "raw.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return folder


def test_a_step_that_was_measured_again_replaces_its_older_figures_and_no_others(tmp_path: Path) -> None:
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


def test_a_missed_goal_is_shown_as_missed(tmp_path: Path) -> None:
    slow, fast = record("penstock", "W2", "monday", 2.0), record("penstock43", "W2", "monday", 1.25)
    results = collect(read_raw(raw(tmp_path, record("limit", "W2", "monday", 1.0), slow, fast)))
    assert "| 1.3 | 2.00 missed | **1.25** |" in page(results, {"cores": 2}, {})


def test_the_report_names_skipped_engines_and_when_the_others_ran(tmp_path: Path) -> None:
    skipped = record("pyiceberg", "none", "monday", 0.0, run="none", status="skipped", detail="too slow above 200,000 rows")
    rounds = [record("limit", "W1", "tuesday", 1.0), record("limit", "W1", "tuesday", 2.0, run="r2", round=2)]
    records = read_raw(raw(tmp_path, skipped, *rounds, record("penstock", "W1", "monday", 1.0)))
    assert left_out(records) == ["pyiceberg: skipped, too slow above 200,000 rows"]
    assert measured(records) == {"limit": "2 rounds from tuesday", "penstock": "1 round from monday"}
    text = page(collect(records), {"cores": 2}, {}, {"measured": measured(records), "left_out": left_out(records)})
    assert "- pyiceberg: skipped, too slow above 200,000 rows" in text


def test_memory_is_the_greatest_peak_of_steps_that_both_ran_and_bytes_are_those_after_the_last_write(tmp_path: Path) -> None:
    figures = {"penstock": ((100, 10), (400, 30), (900, 50)), "hudi015": ((1_000, 20), (500, 40), None)}
    records = [
        record(engine, step, "monday", 1.0, rss_mb=one[0], disk_mb=one[1])
        for engine, its in figures.items()
        for step, one in zip(("W1", "W2", "W6"), its, strict=True)
        if one
    ]
    results = collect(read_raw(raw(tmp_path, *records)))
    assert peak_ratio(results, "penstock") == 0.4
    assert bytes_ratio(results, "penstock") == 0.75


def test_every_engine_has_a_colour_of_its_own() -> None:
    assert len({spec.colour for spec in ENGINES.values()}) == len(ENGINES)
