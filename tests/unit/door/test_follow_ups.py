"""Services after a commit: the failure of one is reported, whatever its error, and the others run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.door.follow_ups import follow_up
from penstock.errors import CorruptFile, LockTimeout, PenstockError, TableChanged, WriteConflict
from penstock.hooks import ServiceOutcome
from penstock.progress import Stages
from penstock.services.table_service import TableService
from penstock.table.state import TableState
from tests.unit.services.histories import History

NOTHING: Any = None  # no session: the services here are none of Spark's


def service_that(run: Callable[[], object], noun: str) -> TableService:
    """Return a service that is always due after a write, and raises by default if it fails."""

    class Service(TableService):
        name = title = failure_noun = noun
        raises_after_write = True

        def follows_write(self, table: TableState) -> bool:
            return True

        def may_be_due(self, table: TableState) -> bool:
            return True

        def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
            run()
            return None

    return Service()


def test_an_error_of_another_library_does_not_hide_that_the_write_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def fail() -> None:
        raise RuntimeError("Job aborted due to stage failure\n\tat a.b.C(C.scala:1)")

    services = (service_that(fail, "the clustering after it"), service_that(lambda: ran.append("next"), "the next"))
    monkeypatch.setattr("penstock.door.services.SERVICES", services)
    history = History().commit(1, ["p/f"])
    with pytest.raises(
        PenstockError, match="^the write is done, do not run it again; but the clustering after it failed: Runtime"
    ):
        follow_up(NOTHING, history.table())
    with pytest.warns(RuntimeWarning, match="failed: RuntimeError: Job aborted due to stage failure$"):
        outcomes = follow_up(NOTHING, history.table(fail_writes_on_inline_table_service_exception=False))
    noun = "the clustering after it"
    error = "RuntimeError: Job aborted due to stage failure"
    assert outcomes == (ServiceOutcome(noun, noun, error=error), ServiceOutcome("the next", "the next"))
    assert ran == ["next"]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (CorruptFile("torn"), CorruptFile),
        (WriteConflict("a clustering took its file groups"), PenstockError),
        (TableChanged("a write came between"), PenstockError),
        (LockTimeout("another writer holds the lock"), PenstockError),
    ],
)
def test_a_service_raises_no_error_after_which_callers_repeat_the_write(
    error: PenstockError, raised: type[PenstockError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("penstock.door.services.SERVICES", (service_that(fail, "the clustering after it"),))
    with pytest.raises(PenstockError, match="^the write is done, do not run it again; but the clustering after it") as caught:
        follow_up(NOTHING, History().commit(1, ["p/f"]).table())
    assert type(caught.value) is raised
