"""A fault at every storage call of a retry, which keeps files of the first attempt, leaves the table as it was or with all rows.

The calls are those after the conflict. The next write finds the files of both attempts and leaves none of them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import penstock
from penstock.errors import PenstockError
from tests.crash.every_call import CRASHES
from tests.crash.scenes import FIRST, HEARTBEATS_EXPIRED, LATER, MERGE_ON_READ, Runner, Step, with_later
from tests.kit.faults import Crash, Fault, FaultPlan, calls_to_fail, injected
from tests.kit.plain import Row, orphans, pending, plain_rows
from tests.table.tables import Trip, commits

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

WINNER: tuple[Trip, ...] = (("a", "berlin", 5, 5.5), ("b", "berlin", 10, 10.5))
#: Berlin is written again; the files of paris and tokyo are kept.
CHANGES: tuple[Trip, ...] = (
    ("a", "berlin", 9, 9.5),
    ("c", "paris", 9, 9.5),
    ("d", "paris", 9, 9.5),
    ("f", "tokyo", 6, 6.5),
)
OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.num.retries.on.conflict.failures": "1",
    "penstock.lock": "in_process",
}


def after(*writes: tuple[Trip, ...]) -> list[Row]:
    """Return the sorted rows after writes, one after the other."""
    rows: dict[str | None, Trip] = {}
    for trips_of_write in writes:
        rows |= {row[0]: row for row in trips_of_write}
    return sorted(rows.values(), key=repr)


STATES = {"old": after(FIRST), "winner": after(FIRST, WINNER), "new": after(FIRST, WINNER, CHANGES)}


class Retry:
    """A write that loses to another one, ready to be played with faults after the conflict."""

    def __init__(self, runner: Runner, folder: Path, kind: dict[str, str]) -> None:
        self._runner, self._folder, self._kind = runner, folder, kind
        self._template, self.table = folder / "template", folder / "table"
        runner.run(Step("insert", FIRST, options=kind), str(self._template))
        #: How many calls the write made before the other one came between.
        self.calls_before = 0
        self.calls = self.play(None, Fault.BEFORE).calls
        assert (pending(self.table), orphans(self.table), self._lost_logs()) == ([], [], [])
        assert self.check("nothing went wrong") == "new"

    def play(self, at: int | None, fault: Fault) -> FaultPlan:
        """Run the write on a copy of the table, with a fault at one of its calls."""
        plan = FaultPlan(str(self._folder / "plan"), at, fault)
        for old in (self.table, plan.folder):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self._template, self.table)
        is_disturbed = False

        @penstock.validator("before_commit")
        def act(preview: object) -> None:
            nonlocal is_disturbed
            if not is_disturbed:
                is_disturbed = True
                self.calls_before = len(plan.calls)
                self._runner.run(Step("upsert", WINNER, options={**self._kind, **OPTIMISTIC}), str(self.table))

        options = {**self._kind, **OPTIMISTIC, "hoodie.precommit.validators": "before_commit"}
        with injected(plan):
            self._runner.run(Step("upsert", CHANGES, options=options), f"crash:{self.table}")
        return plan

    def check(self, what: str) -> str:
        """Check the table, and that the next write leaves nothing of the attempts. Return the name of the table's state."""
        rows = plain_rows(self.table)
        found = next((name for name, state in STATES.items() if rows == state), None)
        assert found, f"{what}: {rows}"
        if found == "new":
            kept = [commit["extraMetadata"]["penstock.index"] for commit in commits(self.table)]
            assert json.loads(kept[-1])["kept"] >= 2, what
        self._runner.run(Step("upsert", LATER, options={**self._kind, **HEARTBEATS_EXPIRED}), str(self.table))
        # A commit whose claim is there stands, and the next write creates its completed file.
        assert plain_rows(self.table) in (with_later(tuple(rows)), with_later(tuple(STATES["new"]))), what
        assert (pending(self.table), orphans(self.table)) == ([], []), what
        return found

    def _lost_logs(self) -> list[str]:
        """Return the log files that no commit names. A rollback leaves some, with a block that cancels them."""
        named = {
            stat["path"] for commit in commits(self.table) for its in commit["partitionToWriteStats"].values() for stat in its
        }
        logs = {str(path.relative_to(self.table)) for path in self.table.rglob(".*.log.*")}
        return sorted(logs - named)


@pytest.fixture(scope="module", params=[{}, MERGE_ON_READ], ids=["copy-on-write", "merge-on-read"])
def retry(request: pytest.FixtureRequest, runner: Runner, folder: Path) -> Iterator[Retry]:
    place = folder / f"retry-{len(request.param)}"
    with runner.in_this_process():
        yield Retry(runner, place, request.param)


@pytest.mark.parametrize("fault", [*CRASHES, Fault.FAILS, Fault.FAILS_AFTER])
def test_a_fault_at_any_call_of_a_retry_loses_no_row_and_leaves_no_file(retry: Retry, fault: Fault) -> None:
    found = set()
    calls = [at for at in calls_to_fail(retry.calls, fault) if at >= retry.calls_before]
    assert len(calls) >= 20
    for at in calls:
        with pytest.raises(Crash) if fault in CRASHES else suppress(PenstockError):
            retry.play(at, fault)
        found.add(retry.check(f"{fault.value} {retry.calls[at]}"))
    assert found == {"winner", "new"}
