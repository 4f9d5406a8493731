"""Work on a table that goes wrong at every one of its storage calls, in every way, each time on a fresh copy of the table."""

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
from penstock.spread import run as spread
from tests.kit.faults import Crash, Fault, FaultPlan, calls_to_fail, injected

#: The process dies. After a call is before the next one, and what is created and not written to is as if it was torn.
CRASHES = (Fault.BEFORE, Fault.TORN)
#: The storage reports an error, or does things twice; or somebody interrupts.
ERRORS = (Fault.FAILS, Fault.FAILS_AFTER, Fault.TWICE, Fault.INTERRUPTED)


@contextmanager
def calls_in_one_order() -> Iterator[None]:
    """What is done in the driver is done by one thread."""
    with patch.object(spread, "_DRIVER_THREADS", 1):
        yield


@dataclass(frozen=True)
class Rehearsal:
    """Some work, and what must be true of the table whatever went wrong with it."""

    #: The table before it.
    template: Path
    #: Where copies are made.
    folder: Path
    #: Does the work on a table, by its path with a scheme.
    work: Callable[[str], None]
    #: Looks at a table afterwards; the text says what happened.
    check: Callable[[Path, str], None]
    #: Calls of the work that change something: at least so many.
    calls_min: int

    def fail_at_every_call(self, fault: Fault) -> None:
        """The work once without trouble, and once with this fault at each of its calls."""
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
    """A crash ends the work; an error may be told, or be overcome."""
    return pytest.raises(Crash) if fault in CRASHES else suppress(PenstockError, KeyboardInterrupt)
