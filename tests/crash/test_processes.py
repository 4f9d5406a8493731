"""Processes that are killed: drivers and Spark's workers; and tasks that run twice or after the end of their write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock.errors import StorageError
from penstock.workers import run_kernels as spread
from penstock.workers.run_kernels import TaskIdentity
from tests.crash.scenes import (
    CHANGED,
    CHANGES,
    FILLED,
    FIRST,
    NEW,
    PUBLISHING,
    SCENES,
    SPREAD,
    Runner,
    Scene,
    Stage,
    Step,
    with_later,
)
from tests.kit.faults import Fault
from tests.kit.plain import orphans, pending, plain_rows

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 480

#: Writes whose driver is killed at every call, besides the upsert.
KILLED = ("insert", "delete", "rollback of a commit")
UPSERT = Scene("upsert", SPREAD, Step("upsert", CHANGES), FIRST, CHANGED, 25)


@pytest.fixture
def stage(spark: Any, tmp_path: Path) -> Stage:
    return Stage(UPSERT, Runner(spark), tmp_path / "stage")


def check_clean(table: Path) -> None:
    assert (orphans(table), pending(table)) == ([], [])


@pytest.mark.parametrize("scene", [UPSERT, *(s for s in SCENES if s.name in KILLED)], ids=lambda s: s.name.replace(" ", "_"))
def test_a_driver_killed_at_any_call_leaves_a_table_that_the_next_process_can_write(
    spark: Any, tmp_path: Path, scene: Scene
) -> None:
    """The driver is a fork of this process that kills itself; nothing that Python does at an exit runs."""
    stage = Stage(scene, Runner(spark), tmp_path / "stage")
    table, plan = stage.play()
    stage.run(table, plan)  # from here on nothing is asked of the JVM, which a fork could not do
    stage.run_later(table)
    assert len(plan.calls) >= scene.calls_min
    states = {"old": sorted(scene.old, key=repr), "new": sorted(scene.new, key=repr)}
    found = set()
    for at in range(len(plan.calls)):
        table, plan = stage.play(at, Fault.KILLED)
        assert _killed(lambda table=table, plan=plan: stage.run(table, plan)), plan.calls[-1]
        rows = plain_rows(table)
        assert rows in states.values(), plan.calls[-1]
        found |= {name for name, state in states.items() if state == rows}
        stage.run_later(table)
        # a rollback that was begun is finished by the next write
        after = [rows] if scene.write else states.values()
        assert plain_rows(table) in [with_later(tuple(each)) for each in after], plan.calls[-1]
        check_clean(table)
    assert found == set(states)


def _killed(work: Callable[[], None]) -> bool:
    """Return whether a fork that does some work is killed while it does it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)  # whatever happened: a fork must not go on with the tests
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the fork hangs")


def test_a_killed_driver_with_a_session_of_its_own_leaves_the_old_table(stage: Stage) -> None:
    """Once, when all is ready to be published; forks are killed at every call."""
    table, plan = stage.play()
    log = table.parent / "log"
    assert _run_victim(log, "driver", PUBLISHING, plan.folder, str(table)) == -signal.SIGKILL, log.read_text()[-4000:]
    assert plain_rows(table) == sorted(FIRST, key=repr)
    stage.run_later(table)
    assert plain_rows(table) == with_later(FIRST)
    check_clean(table)


@pytest.mark.parametrize(("kind", "points"), [("workers", range(0, 24, 4)), ("executors", (2, 16))], ids=["worker", "executor"])
def test_a_worker_or_executor_killed_at_a_task_is_replaced_and_its_files_are_removed(
    stage: Stage, kind: str, points: Sequence[int]
) -> None:
    """While rows are staged, keys located, files announced, created and closed."""
    played = [stage.play() for _ in points]
    asked = [part for at, (table, plan) in zip(points, played, strict=True) for part in (str(at), plan.folder, str(table))]
    log = played[0][0].parent / "log"
    assert _run_victim(log, kind, *asked) == 0, log.read_text()[-4000:]
    for at, (table, plan) in zip(points, played, strict=True):
        assert len(plan.calls) > at + 1, "no process was killed"
        assert plain_rows(table) == sorted(CHANGED, key=repr), plan.calls
        check_clean(table)


def _run_victim(log: Path, *arguments: str) -> int:
    """Run a process with a session of its own and return its exit code. Its JVM, which may outlive it, is ended too."""
    for folder in arguments[2::3]:
        Path(folder).mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        victim = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.killed_process", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            return victim.wait(timeout=SECONDS_MAX)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(victim.pid, signal.SIGKILL)


def twice(run: Callable[[], Any], number: int) -> Any:
    """Run a task and a speculative copy of it. Both finish; return the result of the second."""
    for attempt in range(2):
        spread._local.identity = TaskIdentity(number, f"{number}-7-{2 * number + attempt}")
        try:
            answer = run()
        finally:
            spread._local.identity = None
    return answer


def twice_over_tasks(kernel: Callable[[Any], Any], tasks: Sequence[Any], *, waits: bool = False) -> list[Any]:
    return [twice(lambda task=task: kernel(task), number) for number, task in enumerate(tasks)]


class Speculating(Runner):
    """A runner that runs every task over rows twice."""

    def _run_over_rows(self, rows: Any, kernel: Any, returns: Any) -> list[Any]:
        batches = rows.toArrow().to_batches(max_chunksize=2)
        results: list[Any] = []
        for number, batch in enumerate(batches):
            results += twice(lambda batch=batch: list(kernel(iter([batch]))), number)
        return results


@pytest.mark.parametrize(
    "scene",
    [
        Scene("create", (), Step("bulk_insert", FIRST), (), FIRST, 0),
        Scene("insert", FILLED, Step("insert", NEW), FIRST, (*FIRST, *NEW), 0),
        Scene("upsert", FILLED, Step("upsert", CHANGES), FIRST, CHANGED, 0),
        UPSERT,
        Scene("delete", SPREAD, Step("delete", FIRST[::2]), FIRST, FIRST[1::2], 0),
    ],
    ids=["bulk_insert", "insert", "upsert", "upsert_of_several_file_groups", "delete"],
)
def test_two_finished_attempts_of_every_task_leave_one_set_of_rows(spark: Any, tmp_path: Path, scene: Scene) -> None:
    stage = Stage(scene, Runner(spark), tmp_path / "stage")
    table, plan = stage.play()
    stage.runner = Speculating(spark)
    with patch("penstock.workers.runner.run_on_driver", twice_over_tasks):
        stage.run(table, plan)
    assert any(call.startswith("delete ") and call.endswith(".parquet") for call in plan.calls), "nothing ran twice"
    assert plain_rows(table) == sorted(scene.new, key=repr)
    check_clean(table)


@pytest.fixture
def late_tasks() -> Iterator[list[Callable[[], Any]]]:
    """The tasks of the write that runs during the test, to be run once more later."""
    found: list[Callable[[], Any]] = []
    on_driver = spread.run_on_driver

    def remember(kernel: Callable[[Any], Any], tasks: Sequence[Any], *, waits: bool = False) -> list[Any]:
        found.extend(lambda task=task, i=i: twice(lambda: kernel(task), 100 + i) for i, task in enumerate(tasks))
        return on_driver(kernel, tasks, waits=waits)

    with patch("penstock.workers.runner.run_on_driver", remember):
        yield found


def test_a_task_that_runs_again_after_the_commit_adds_nothing(stage: Stage, late_tasks: list[Callable[[], Any]]) -> None:
    table, plan = stage.play()
    stage.run(table, plan)
    files = {p for p in table.rglob("*.parquet") if ".hoodie" not in p.parts}
    for task in late_tasks:
        with pytest.raises((StorageError, FileNotFoundError)):
            task()
    assert {p for p in table.rglob("*.parquet") if ".hoodie" not in p.parts} == files
    assert plain_rows(table) == sorted(CHANGED, key=repr)


def test_a_late_task_of_a_rolled_back_write_adds_nothing_to_the_next_write(
    stage: Stage, late_tasks: list[Callable[[], Any]]
) -> None:
    """The folder of the write is deleted by then, but the seal of its markers must still exist."""
    table, plan = stage.play()
    with patch("penstock.commit.markers.reconcile", side_effect=StorageError("full")), pytest.raises(StorageError):
        stage.run(table, plan)
    tasks = list(late_tasks)
    stage.run_later(table)
    files = {p for p in table.rglob("*.parquet") if ".hoodie" not in p.parts}
    for task in tasks:
        with pytest.raises((StorageError, FileNotFoundError)):
            task()
    assert {p for p in table.rglob("*.parquet") if ".hoodie" not in p.parts} == files
    assert plain_rows(table) == with_later(FIRST)
