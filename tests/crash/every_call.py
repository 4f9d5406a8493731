"""Runs work on a table with a fault at every one of its storage calls, each time on a fresh copy of the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock.errors import PenstockError
from penstock.workers import run_kernels as spread
from tests.kit.faults import Crash, Fault, FaultPlan, calls_to_fail, injected

#: The process dies. AFTER is left out: dying after a call is dying before the next one, and a file
#: that was created and never written to looks like a torn one.
CRASHES = (Fault.BEFORE, Fault.TORN)
#: The storage reports an error or runs a call twice, or the user presses Ctrl-C.
ERRORS = (Fault.FAILS, Fault.FAILS_AFTER, Fault.TWICE, Fault.INTERRUPTED)


@contextmanager
def calls_in_one_order() -> Iterator[None]:
    """Let the driver run its tasks in one thread, so that storage calls come in one order."""
    with patch.object(spread, "_DRIVER_THREADS", 1):
        yield


@dataclass(frozen=True)
class Rehearsal:
    """Some work on a table, and a check of the table that must pass after every fault."""

    #: The table before the work.
    template: Path
    #: Folder for copies of the table.
    folder: Path
    #: Does the work on the table at a path with the scheme `crash:`.
    work: Callable[[str], None]
    #: Checks a table after the work. The text says what went wrong, for assertion messages.
    check: Callable[[Path, str], None]
    #: The least number of calls of the work that change something.
    calls_min: int

    def fail_at_every_call(self, fault: Fault) -> None:
        """Run the work once without a fault, and once with this fault at each of its calls. Check the table each time."""
        calls = self._play(None, fault).calls
        self.check(self._table, "nothing went wrong")
        assert len(calls) >= self.calls_min
        for at in calls_to_fail(calls, fault):
            with _ends_by(fault):
                self._play(at, fault)
            self.check(self._table, f"{fault.value} {self._plan(at, fault).calls[at]}")

    @property
    def _table(self) -> Path:
        return self.folder / "table"

    def _plan(self, at: int | None, fault: Fault) -> FaultPlan:
        return FaultPlan(str(self.folder / "plan"), at, fault)

    def _play(self, at: int | None, fault: Fault) -> FaultPlan:
        plan = self._plan(at, fault)
        for old in (self._table, plan.folder):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self.template, self._table)
        with injected(plan):
            self.work(f"crash:{self._table}")
        return plan


def _ends_by(fault: Fault) -> AbstractContextManager[Any]:
    """Expect a crash to end the work. An error may be raised or overcome."""
    return pytest.raises(Crash) if fault in CRASHES else suppress(PenstockError, KeyboardInterrupt)
