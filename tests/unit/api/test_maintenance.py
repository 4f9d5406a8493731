"""The maintenance methods of a table, concurrently with a writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.api.maintenance import MaintenanceMethods
from penstock.table.config import write_config
from penstock.table.state import TableState
from tests.unit.services.histories import History, at


class Tended(MaintenanceMethods):
    """A table in memory that needs no session."""

    def __init__(self, state: TableState) -> None:
        self._table = state

    def _state(self, options: Mapping[str, object] | None = None) -> TableState:
        return self._table

    def _reader(self) -> Any:
        raise AssertionError("nothing here asks for Spark")


def test_a_commit_that_is_archived_concurrently_ends_neither_the_round_nor_the_program() -> None:
    history = History().commits(range(1, 9), "p/f")
    write_config(history.storage, "/t", dict(history.table().config.raw) | {"hoodie.table.version": "6"}, new=True)

    class Archived(type(history.storage)):  # type: ignore[misc]
        """A storage that lists the oldest commits and does not find them when they are read."""

        def read(self, path: str) -> bytes:
            if path.endswith(".commit"):
                raise FileNotFoundError(path)
            return bytes(super().read(path))

    history.storage = Archived(history.storage.name)
    runs = list(Tended(history.table(cleaner_commits_retained=2)).run_due())
    assert [(run.service, run.done) for run in runs] == [("clean", None), ("archive", None)]
    assert [".commit" in (run.error or "") for run in runs] == [True, False]


def test_partitions_do_not_expire_during_a_write_and_the_timeline_stays_unchanged() -> None:
    history = History().commit(1, ["old/g-0"])
    write_config(history.storage, "/t", dict(history.table().config.raw) | {"hoodie.table.version": "6"}, new=True)
    history.storage.write_new(f"/t/.hoodie/{at(41)}.commit.requested", b"")
    history.storage.write_new(f"/t/.hoodie/{at(41)}.commit.inflight", b"")

    class Quiet(Tended):
        """A table without progress output, on any session."""

        def _reader(self) -> Any:
            return None

    before = history.table().timeline.instants
    with pytest.warns(RuntimeWarning, match="is under way"):
        assert Quiet(history.table(partition_ttl_strategy_days_retain=10)).expire_partitions() is None
    assert history.table().timeline.instants == before
