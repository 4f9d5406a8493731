"""How work is spread: on how many Spark tasks, and under which numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.workers import run_kernels as spread
from penstock.workers.results import decode_result
from penstock.workers.run_kernels import TaskIdentity, run_on_driver, this_task
from penstock.workers.runner import Runner


def identity_of_task(_: str) -> list[Any]:
    identity = this_task()
    return [identity.number, identity.write_token]


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_every_task_runs_once_under_its_own_number_whatever_runs_it(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    results: list[spread._Numbered] = []
    for part in range(parts):
        monkeypatch.setattr(spread._local, "identity", TaskIdentity(part, f"{part}-7-{40 + part}"), raising=False)
        numbers = pa.record_batch([pa.array([part])], names=["id"])
        for batch in spread._run_parts(identity_of_task, spread._pickle_parts("abcde", parts), iter([numbers])):
            results += [decode_result(text, spread._Numbered) for text in batch[0].to_pylist()]
    found = sorted((result.number, result.value) for result in results)
    assert found == [(n, [n, f"{n}-7-{40 + n % parts}"]) for n in range(5)]


def test_tasks_on_the_driver_have_the_same_numbers() -> None:
    expected = [[0, "0-0-0"], [1, "1-0-0"], [2, "2-0-0"]]
    assert run_on_driver(identity_of_task, list("abc")) == expected
    assert Runner(None).run(identity_of_task, list("abc"), list[Any]) == expected


def test_the_lists_that_a_kernel_returns_are_collected_in_the_order_of_the_tasks() -> None:
    assert Runner(None).collect(list, ["ab", "", "c"], str) == ["a", "b", "c"]


def test_without_tasks_nothing_is_run() -> None:
    assert Runner(None).run(identity_of_task, [], list[Any]) == []
