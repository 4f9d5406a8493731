"""Two writers at the same time, in every order of their storage calls: at most one is at work, and no row is lost.

The first writer makes some calls, then the second makes some, then the first runs to its end, then the second. Each writer ends with its
commit or with a WriteConflict that left nothing. `PENSTOCK_TEST_SCHEDULES=1` plays every pair of numbers of calls, as
`make test-schedules` does; otherwise one pair in so many.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.commit.locks import LockHolder, LockProvider
from penstock.errors import WriteConflict
from tests.crash.scenes import FILLED, FIRST, LATER, LOGGED, MERGE_ON_READ, PUBLISHING, Runner, Step, with_later
from tests.kit.faults import Crash, FaultPlan, injected
from tests.kit.plain import orphans, pending, plain_rows
from tests.kit.turns import WRITERS, Turns, run_both
from tests.table.tables import Trip

EVERY = int(os.environ.get("PENSTOCK_TEST_SCHEDULES") or 37)

#: What each writer writes: all rows of the table again, and one of its own. So a lost write shows in every row.
ROWS: dict[str, tuple[Trip, ...]] = {
    "first": (*((key, city, 10, 10.5) for key, city, _, _ in FIRST), ("e", "paris", 10, 10.5)),
    "second": (*((key, city, 10, 20.5) for key, city, _, _ in FIRST), ("f", "berlin", 10, 20.5)),
}
LAZY = {"hoodie.cleaner.policy.failed.writes": "LAZY"}
OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.num.retries.on.conflict.failures": "3",
    "penstock.lock": "no_lock",
}


@penstock.lock_provider("no_lock")
class NoLock(LockProvider):
    """A lock that excludes no writer: claims alone must keep the commits in order, however calls are interleaved."""

    name = "no_lock"
    place = "nowhere"

    def acquire(self, timeout_s: float, instant: str = "") -> bool:
        return True

    def release(self) -> None:
        pass

    def is_held(self) -> bool:
        return True

    def holder(self) -> LockHolder | None:
        return None

    def break_lock(self) -> LockHolder | None:
        return None

    def _take(self, mine: LockHolder, deadline_s: float) -> bool:
        return True

    def _drop(self, mine: LockHolder) -> None:
        pass

    def _is_mine(self, mine: LockHolder) -> bool:
        return True


@dataclass(frozen=True)
class Race:
    """A table, and what both writers do to it."""

    name: str
    before: tuple[Step, ...]
    first: Step
    second: Step
    #: Whether a third writer died before them, when it published.
    leaves_dead_writer: bool = False
    #: Whether both writers must succeed in every order, because the loser of a conflict runs again.
    both_succeed: bool = False


def upsert(writer: str, **options: Any) -> Step:
    return Step("upsert", ROWS[writer], options=options)


RACES = (
    Race("upserts", FILLED, upsert("first"), upsert("second")),
    Race("upserts, lazy", FILLED, upsert("first", **LAZY), upsert("second", **LAZY)),
    Race("upserts of logs", LOGGED, upsert("first", **MERGE_ON_READ), upsert("second", **MERGE_ON_READ)),
    Race("creations", (), upsert("first"), upsert("second")),
    Race("insert_overwrite_table", FILLED, upsert("first"), Step("insert_overwrite_table", ROWS["second"])),
    Race("upserts, optimistic", FILLED, upsert("first", **OPTIMISTIC), upsert("second", **OPTIMISTIC), both_succeed=True),
    Race(
        "upserts of logs, optimistic",
        LOGGED,
        upsert("first", **MERGE_ON_READ, **OPTIMISTIC),
        upsert("second", **MERGE_ON_READ, **OPTIMISTIC),
        both_succeed=True,
    ),
    # When the first writer loses, it keeps its files of paris: a log, and a base file with a new row.
    Race(
        "upserts of logs of one shared partition, optimistic",
        LOGGED,
        upsert("first", **MERGE_ON_READ, **OPTIMISTIC),
        Step("upsert", (("a", "berlin", 10, 20.5), ("f", "berlin", 10, 20.5)), options={**MERGE_ON_READ, **OPTIMISTIC}),
        both_succeed=True,
    ),
    Race(
        "insert_overwrite_table, optimistic",
        FILLED,
        upsert("first", **OPTIMISTIC),
        Step("insert_overwrite_table", ROWS["second"], options=OPTIMISTIC),
        both_succeed=True,
    ),
    Race(
        "inserts of one new key, optimistic",
        FILLED,
        Step("upsert", (("new", "paris", 10, 1.5),), options=OPTIMISTIC),
        Step("upsert", (("new", "paris", 10, 2.5),), options=OPTIMISTIC),
        both_succeed=True,
    ),
    Race("after a dead writer", FILLED, upsert("first"), upsert("second"), leaves_dead_writer=True),
)


def merged(rows: dict[str, Trip], step: Step) -> dict[str, Trip]:
    """Return the rows by key after a write. Of two rows with equal ordering values, the later write's wins."""
    kept = {} if step.operation == "insert_overwrite_table" else rows
    return {**kept, **{row[0]: row for row in step.rows}}


class Arena:
    """A race with its table made, ready to be run in many orders."""

    def __init__(self, race: Race, runner: Runner, folder: Path) -> None:
        self.race, self._runner, self._folder = race, runner, folder
        self._template = folder / "template"
        for step in race.before:
            runner.run(step, str(self._template))
        if race.leaves_dead_writer:
            with injected(FaultPlan(str(folder / "dead"), match=PUBLISHING)), pytest.raises(Crash):
                runner.run(Step("upsert", FIRST), f"crash:{self._template}")
        for step in (race.first, race.second):  # Spark evaluates the rows once, before the turns
            runner.run(Step("upsert", step.rows), str(folder / "warm"))

    def run(self, calls_of_first: int | str, calls_of_second: int) -> Turns:
        """Run both writers in an order of turns and check the table afterwards."""
        table = self._folder / "table"
        shutil.rmtree(table, ignore_errors=True)
        if self._template.exists():
            shutil.copytree(self._template, table)
        old = {row[0]: row for row in plain_rows(table)}
        turns = Turns(calls_of_first, calls_of_second)
        steps = {"first": self.race.first, "second": self.race.second}
        runs = [partial(self._runner.run, steps[writer], f"{writer}:{table}") for writer in WRITERS]
        with self._runner.in_this_process():
            errors = run_both(turns, *runs)
        for writer, error in errors.items():
            if error is not None and not isinstance(error, WriteConflict):
                raise AssertionError(f"{writer} failed after {turns.calls[writer][-3:]}") from error
        self._check_rows(table, old, steps, errors)
        return turns

    def _check_rows(self, table: Path, old: dict[str, Trip], steps: dict[str, Step], errors: dict[str, Any]) -> None:
        """Check that the table has the rows of the writes that succeeded, one after the other, and nothing is left of the others."""
        done = [writer for writer, error in errors.items() if error is None]
        assert done, f"both writers failed: {errors}"
        if self.race.both_succeed:
            assert len(done) == len(WRITERS), f"a writer failed: {errors}"
        orders = [done, done[::-1]]
        expected = []
        for order in orders:
            rows = old
            for writer in order:
                rows = merged(rows, steps[writer])
            expected.append(sorted(rows.values(), key=repr))
        rows_now = plain_rows(table)
        assert rows_now in expected
        if pending(table):
            # A writer that was refused in the middle of rolling back the dead one left the rollback to the next write.
            assert self.race.leaves_dead_writer
            assert all(".rollback." in name for name in pending(table))
            self._runner.run(Step("upsert", LATER), str(table))
            assert plain_rows(table) == with_later(tuple(rows_now))
        assert (pending(table), orphans(table)) == ([], [])


@pytest.fixture(params=RACES, ids=[race.name for race in RACES])
def arena(request: pytest.FixtureRequest, runner: Runner, tmp_path: Path) -> Iterator[Arena]:
    yield Arena(request.param, runner, tmp_path)


def test_no_order_of_calls_loses_a_row(arena: Arena) -> None:
    alone = arena.run(10_000, 0)  # the first writer is through before the second begins
    every = EVERY * 3 if arena.race.both_succeed and EVERY > 1 else EVERY  # these take twice as many calls
    schedules = [(a, b) for a in range(len(alone.calls["first"]) + 1) for b in range(1, len(alone.calls["second"]) + 1)]
    assert len(schedules) > 500
    for number, (calls_of_first, calls_of_second) in enumerate(schedules):
        if number % every == 0:
            try:
                arena.run(calls_of_first, calls_of_second)
            except BaseException as e:
                raise AssertionError(f"after {calls_of_first} calls of the first and {calls_of_second} of the second") from e


def test_the_second_writer_is_told_who_is_at_work(runner: Runner, tmp_path: Path) -> None:
    arena = Arena(RACES[0], runner, tmp_path)
    errors: dict[str, Any] = {}
    check: Callable[..., None] = arena._check_rows
    arena._check_rows = lambda table, old, steps, found: (errors.update(found), check(table, old, steps, found))  # type: ignore[method-assign]
    arena.run(".commit.requested", 10_000)
    assert errors["first"] is None
    assert isinstance(errors["second"], WriteConflict)
    message = str(errors["second"])
    assert f"process {os.getpid()} on " in message
    (instant,) = re.findall(r" has been writing to it since ([0-9]{17}) \(\1\.", message)
    assert (tmp_path / "table" / ".hoodie" / f"{instant}.commit").exists(), "the instant of the writer that went on"
    assert "last heartbeat" in message
    assert "hoodie.client.heartbeat.interval_in_ms" in message
