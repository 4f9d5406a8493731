"""Cleaning and archiving on a thread of the writer, while its rows are written."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.services.archive.service import ARCHIVE
from penstock.services.clean.service import CLEAN
from penstock.timeline.timeline import Timeline
from tests.table.tables import SIX, TRIPS, snapshot, timeline, trips, write

ASYNC = {
    **TRIPS,
    "hoodie.clean.async": "true",
    "hoodie.archive.async": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
SEVERAL = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control", "penstock.lock": "storage"}


@pytest.fixture
def threads_of(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Return the names of the threads in which services run, by the name of the service."""
    threads: dict[str, list[str]] = {"clean": [], "archive": []}
    for service in (CLEAN, ARCHIVE):
        real = service.run_due

        def run(spark: Any, table: Any, stages: Any, name: str = service.name, real: Any = real) -> str | None:
            threads[name].append(threading.current_thread().name)
            result: str | None = real(spark, table, stages)
            return result

        monkeypatch.setattr(type(service), "run_due", staticmethod(run))
    return threads


@pytest.mark.parametrize("mode", [{}, SEVERAL], ids=["single-writer", "several-writers"])
@pytest.mark.parametrize("alias", ["hoodie.clean.async", "hoodie.clean.async.enabled"])
def test_services_run_beside_the_write_and_are_awaited(
    spark: Any, table_path: str, threads_of: dict[str, list[str]], mode: dict[str, str], alias: str
) -> None:
    options = {**ASYNC, **mode, alias: "true"}
    write(trips(spark, *SIX), table_path, {**TRIPS, **mode})
    threads_of["clean"].clear()
    threads_of["archive"].clear()
    table = penstock.Table.open(table_path, spark)
    for number in range(7):
        commit = table.upsert(trips(spark, ("a", "berlin", 10 + number, float(number))), options)
    assert threads_of == {"clean": ["async services"] * 7, "archive": ["async services"] * 7}
    assert [(step.name, step.error) for step in commit.follow_ups] == [("clean", None), ("archive", None)]
    names = timeline(table_path)
    assert any(name.endswith(".clean") for name in names)
    assert len([name for name in names if name.endswith(".commit")]) < 8
    assert not Timeline.from_names(names).pending
    assert not [thread for thread in threading.enumerate() if thread.name == "async services"]
    assert {row[0]: row[3] for row in snapshot(spark, table_path)}["a"] == 6.0


def test_the_write_waits_for_a_service_that_takes_longer(spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(trips(spark, *SIX), table_path)
    ended = []

    def count_commits() -> int:
        return len([name for name in timeline(table_path) if name.endswith(".commit")])

    def clean_slowly(spark: Any, table: Any, stages: Any) -> str:
        deadline = time.monotonic() + 60
        while count_commits() < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert count_commits() == 2  # the commit does not wait for the clean
        ended.append("clean")
        return "done"

    monkeypatch.setattr(type(CLEAN), "run_due", staticmethod(clean_slowly))
    commit = penstock.Table.open(table_path, spark).upsert(trips(spark, ("a", "berlin", 9, 9.5)), ASYNC)
    assert ended == ["clean"]
    assert [(step.name, step.result) for step in commit.follow_ups if step.name == "clean"] == [("clean", "done")]


@pytest.mark.parametrize("raises", [True, False])
def test_a_failure_is_reported_when_the_rows_are_committed(
    spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    write(trips(spark, *SIX), table_path)

    def fail(spark: Any, table: Any, stages: Any) -> None:
        raise OSError("no permission")

    monkeypatch.setattr(type(CLEAN), "run_due", staticmethod(fail))
    table = penstock.Table.open(table_path, spark)
    text = "the write is done, do not run it again; but cleaning failed: OSError: no permission"
    rows = trips(spark, ("a", "berlin", 9, 9.5))
    if raises:
        with pytest.raises(PenstockError, match=text):
            table.upsert(rows, {**ASYNC, "hoodie.fail.writes.on.inline.table.service.exception": "true"})
    else:
        with pytest.warns(RuntimeWarning, match=text):
            commit = table.upsert(rows, ASYNC)
        assert commit.failed_services == ("cleaning: OSError: no permission",)
    assert {row[0]: row[3] for row in snapshot(spark, table_path)}["a"] == 9.5


def test_a_write_that_fails_ends_its_services_and_says_nothing_of_them(
    spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    write(trips(spark, *SIX), table_path)
    began = threading.Event()
    over = threading.Event()

    @penstock.validator("refuse")
    def refuse(preview: Any) -> None:
        assert began.wait(60)
        over.set()
        raise ValueError("refused")

    def fail_late(spark: Any, table: Any, stages: Any) -> None:
        began.set()
        assert over.wait(60)
        raise OSError("no permission")

    monkeypatch.setattr(type(CLEAN), "run_due", staticmethod(fail_late))
    with pytest.raises(penstock.errors.ValidationFailed, match="refused"):
        write(trips(spark, ("a", "berlin", 9, 9.5)), table_path, {**ASYNC, "hoodie.precommit.validators": "refuse"})
    assert not [warning for warning in recwarn if "cleaning" in str(warning.message)]
    assert not [thread for thread in threading.enumerate() if thread.name == "async services"]
    assert len(list(Path(table_path, ".hoodie").glob("*.commit"))) == 1
