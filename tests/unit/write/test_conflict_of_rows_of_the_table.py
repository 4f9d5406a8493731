"""A write that has read its rows from the table and loses a conflict: it waits for the winner, then has to read them again."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import clock
from penstock.commit.begin import begin
from penstock.commit.change import Change
from penstock.errors import TableChanged, WriteConflict
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.storage import MemoryStorage
from penstock.table.config import write_config
from penstock.table.state import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import load_timeline
from penstock.write.operations import _stage_and_store

OPTIONS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "penstock.lock": "storage",
    "hoodie.write.num.retries.on.conflict.failures": "1",
}


def test_the_loser_is_taken_back_and_waits_until_the_winner_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage(uuid.uuid4().hex)
    config = write_config(storage, "/t", {"hoodie.table.name": "t"}, new=True)
    table = TableState(storage, "/t", config, read_options(OPTIONS))
    # Of a write's context only what is known before its rows are staged. It has no DataFrame.
    write: Any = SimpleNamespace(table=table, options=table.options, stages=Stages("upsert t", "off"), reads_table=True)
    pending_at_wait: list[list[str]] = []

    with begin(table, Action.COMMIT) as winner:
        winner.start()

        def complete_the_winner(_: float) -> None:
            pending_at_wait.append([instant.file_name for instant in load_timeline(storage, "/t").pending])
            winner.complete([], operation=Operation.UPSERT, schema="{}")

        def lose(_: Any, change: Change, __: Any) -> Any:
            change.start()
            losers.append(change.time)
            monkeypatch.setattr(clock, "sleep_s", complete_the_winner)
            raise WriteConflict("another write changes its file groups", other_instant=winner.time)

        losers: list[str] = []
        with pytest.raises(TableChanged, match="another write changes its file groups"):
            _stage_and_store(write, lambda _: begin(table, Action.COMMIT), lambda _, __: write, lose)
    assert pending_at_wait == [[f"{winner.time}.inflight", f"{losers[0]}.commit.requested"]]
    timeline = load_timeline(storage, "/t")
    assert timeline.completed_times == {winner.time}
    assert timeline.pending == ()
