"""Files of many task descriptions are synced together, and only then their results are returned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import StorageError
from penstock.workers import run_kernels as spread
from penstock.workers.part_scope import Part, enter_part, shared_in_part, sync_files
from penstock.workers.results import decode_result


@dataclass(frozen=True)
class Log:
    """A storage that records what is synced."""

    calls: list[Any] = field(default_factory=list, compare=False)

    def sync(self, paths: list[str]) -> None:
        self.calls.append(sorted(paths))


LOG = Log()
#: Not empty: the check of the files fails.
CLOSED: list[bool] = []


def write_file(name: str) -> list[str]:
    sync_files(LOG, [name], check_name="open", check=check, undo=lambda: LOG.calls.append(f"undo {name}"))  # type: ignore[arg-type]
    return [name]


def check() -> None:
    LOG.calls.append("check")
    if CLOSED:
        raise StorageError("closed")


@pytest.fixture(autouse=True)
def calls() -> list[Any]:
    LOG.calls.clear()
    return LOG.calls


def run_part(kernel: Any, tasks: str) -> list[str]:
    numbers = pa.record_batch([pa.array([0])], names=["id"])
    (batch,) = spread._run_parts(kernel, spread._pickle_parts(tasks, 1), iter([numbers]))
    return [str(text) for text in batch[0].to_pylist()]


def test_outside_a_part_files_are_synced_at_once(calls: list[Any]) -> None:
    write_file("a")
    assert calls == [["a"], "check"]


def test_files_that_must_not_stay_are_undone_all_together(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.workers.test_part_scope.CLOSED", [True])
    *_, last = run_part(write_file, "ab")
    with pytest.raises(StorageError, match="closed"):
        decode_result(last, spread._Numbered)
    assert calls == [["a", "b"], "check", "undo a", "undo b"]


def test_an_undo_that_fails_keeps_neither_the_other_files_nor_the_error(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise StorageError("cannot delete")

    monkeypatch.setattr("tests.unit.workers.test_part_scope.CLOSED", [True])
    part = Part()
    with enter_part(part):
        sync_files(LOG, ["a"], check_name="open", check=check, undo=fail)  # type: ignore[arg-type]
        write_file("b")
    with pytest.raises(StorageError, match="closed"):
        part.sync()
    assert calls == [["a", "b"], "check", "undo b"]


def test_the_files_of_a_spark_task_are_synced_together_before_any_result_is_returned(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, synced_at_the_end = spread._as_batch, []

    def as_batch(texts: list[str]) -> pa.RecordBatch:
        synced_at_the_end.append(list(calls))
        return encode(texts)

    monkeypatch.setattr(spread, "_as_batch", as_batch)
    assert [decode_result(text, spread._Numbered).value for text in run_part(write_file, "abc")] == [["a"], ["b"], ["c"]]
    assert synced_at_the_end == [[["a", "b", "c"], "check"]]


def test_a_sync_that_fails_fails_the_spark_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Log, paths: list[str]) -> None:
        raise StorageError(28, "No space left on device", paths[0])

    monkeypatch.setattr(Log, "sync", fail)
    *_, last = run_part(write_file, "ab")
    with pytest.raises(StorageError, match="No space left"):
        decode_result(last, spread._Numbered)


@pytest.mark.parametrize(("tasks", "syncs"), [("ab", 2), ("abc", 1)])
def test_many_tasks_on_the_driver_are_synced_together(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch, tasks: str, syncs: int
) -> None:
    monkeypatch.setattr(spread, "_MOST_SYNCS_ON_DRIVER", 2)
    assert spread.run_on_driver(write_file, tasks) == [[name] for name in tasks]
    assert len([call for call in calls if isinstance(call, list)]) == syncs


def test_descriptions_of_a_part_share_values_which_end_with_it() -> None:
    with enter_part(Part(shared={})):
        shared_in_part("files")["a"] = 1
        assert shared_in_part("files") == {"a": 1}
        assert shared_in_part("others") == {}
    assert shared_in_part("files") == {}
    with enter_part(Part()):
        shared_in_part("files")["a"] = 1
        assert shared_in_part("files") == {}
