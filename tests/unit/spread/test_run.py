"""How work is spread: on how many Spark tasks, and under which numbers."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest

from penstock.spread import run as spread
from penstock.spread.run import TaskIdentity, cores, run_tasks, this_task


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local-cluster[2, 3, 1024]"}, 6),
        ({"spark.master": "local[3]", "spark.default.parallelism": "7"}, 7),
        ({"spark.master": "local[*]"}, os.cpu_count()),
        ({"spark.master": "yarn"}, None),
        ({}, None),
    ],
)
def test_cores_are_what_the_settings_say(settings: dict[str, str], expected: int | None) -> None:
    assert cores(settings) == expected


def identities(_: str) -> Any:
    identity = this_task()
    return [identity.number, identity.write_token]


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_every_task_runs_once_under_its_own_number_whatever_runs_it(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    monkeypatch.setattr(spread._local, "identity", TaskIdentity(0, "0-7-42"), raising=False)
    tasks, answers = list("abcde"), []
    for part in range(parts):
        monkeypatch.setattr(spread._local, "identity", TaskIdentity(part, f"{part}-7-{40 + part}"), raising=False)
        batch = pa.record_batch([pa.array([part])], names=["id"])
        answers += [
            text for found in spread._over_tasks(identities, tasks, parts, iter([batch])) for text in found[0].to_pylist()
        ]
    found = sorted(spread.json.loads(text)["ok"] for text in answers)
    assert found == [[n, [n, f"{n}-7-{40 + n % parts}"]] for n in range(5)]


def test_work_here_has_the_same_numbers() -> None:
    assert run_tasks(None, identities, list("abc"), here=True) == [[0, "0-0-0"], [1, "1-0-0"], [2, "2-0-0"]]  # type: ignore[arg-type]
