"""What follows a commit: a service that fails is told, however it fails, and the others run."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.door import follow_ups as following
from penstock.door.follow_ups import follow_up
from penstock.errors import PenstockError
from tests.unit.services.histories import History

NOTHING: Any = None  # no session: the services here are none of Spark's


def _service(name: str, run: Any) -> Any:
    return following._Service(name, run, lambda table: True, raises=True)


def test_an_error_that_is_not_ours_does_not_hide_that_the_write_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def fail(spark: Any, table: Any) -> None:
        raise RuntimeError("Job aborted due to stage failure\n\tat a.b.C(C.scala:1)")

    services = (_service("the clustering after it", fail), _service("the next", lambda spark, table: ran.append("next")))
    monkeypatch.setattr(following, "SERVICES", services)
    history = History().commit(1, ["p/f"])
    with pytest.raises(
        PenstockError, match="^the write is done, do not run it again; but the clustering after it failed: Runtime"
    ):
        follow_up(NOTHING, history.table())
    with pytest.warns(RuntimeWarning, match="failed: RuntimeError: Job aborted due to stage failure$"):
        told = follow_up(NOTHING, history.table(fail_writes_on_inline_table_service_exception=False))
    assert told == ("the clustering after it: RuntimeError: Job aborted due to stage failure",)
    assert ran == ["next"]
