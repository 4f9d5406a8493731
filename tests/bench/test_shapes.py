"""The steps with very many columns and partitions run at a small scale, and their answers are right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.data import generate, read_truth
from bench.meter import Meter
from bench.on_arrow import Limit
from bench.on_spark import Penstock
from bench.report import publish_page
from bench.workload import IDS, Engine, run, sections_of

STEPS = [step for step in IDS if step.startswith(("W22", "W23"))]
ROWS = 2_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("shapes")
    generate(folder, ROWS, sections_of(STEPS))
    return str(folder)


class _OnTestSession(Penstock):
    """Penstock on the session of the tests."""

    def __init__(self, spark: Any, root: str) -> None:
        Engine.__init__(self, "penstock43", root, "snappy")
        self.spark, self.schemas, self._caps = spark, {}, {}


@pytest.fixture(params=["limit", "penstock43"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, session_kind: str) -> Iterator[Engine]:
    if session_kind != "classic":
        pytest.skip("the benchmark runs on a classic session")
    if request.param == "limit":
        found: Engine = Limit("limit", str(tmp_path), "snappy")
        yield found
        found.close()
    else:
        yield _OnTestSession(request.getfixturevalue("spark"), str(tmp_path))


def test_every_step_is_done_and_right(engine: Engine, data: str) -> None:
    engine.run = "r1"
    records: list[dict[str, Any]] = []
    run(engine, data, read_truth(data), STEPS, Meter(), records.append)
    assert [(r["step"], r["status"], r.get("detail")) for r in records if r["status"] != "ok"] == []
    assert list(dict.fromkeys(r["step"] for r in records)) == STEPS


def test_a_page_of_some_steps_is_written_next_to_the_main_page_and_linked_once(tmp_path: Path) -> None:
    record = {"engine": "limit", "step": "W22a", "started": "monday", "run": "r1", "round": 1, "status": "ok"}
    record |= {"s": 1.5, "cpu": 1.0, "others_cpu": 0}
    start = {**record, "step": "start", "run": "start", "versions": {}}
    (tmp_path / "raw.jsonl").write_text(f"{json.dumps(start)}\n{json.dumps(record)}\n")
    (tmp_path / "conditions.json").write_text(json.dumps({"cores": 2, "note": "other work ran beside it"}))
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "README.md").write_text("# Benchmark\n")
    for _ in range(2):
        publish_page(str(tmp_path), str(folder), "shapes")
    assert (folder / "README.md").read_text().count("(shapes.md)") == 1
    text = (folder / "shapes.md").read_text()
    assert text.startswith("# Tables of 1,000 columns")
    assert "other work ran beside it" in text
    assert "1.50" in text
