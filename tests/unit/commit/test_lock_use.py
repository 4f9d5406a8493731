"""What a commit says about the lock that it was published under."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from penstock.commit import change as change_module
from penstock.commit.begin import begin
from penstock.commit.change import STAGES
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.progress import CONFLICTS, Stages
from penstock.storage import MemoryStorage
from penstock.table.config import write_config
from penstock.table.state import TableState
from penstock.timeline.instant import Action

OPTIONS = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control", "penstock.lock": "storage"}


def make_table(options: dict[str, str]) -> TableState:
    storage = MemoryStorage(uuid.uuid4().hex)
    return TableState(storage, "/t", write_config(storage, "/t", {"hoodie.table.name": "t"}, new=True), read_options(options))


@pytest.mark.parametrize("several", [True, False])
def test_the_completed_file_and_the_returned_commit_say_how_long_the_lock_was_awaited(several: bool) -> None:
    table = make_table(OPTIONS if several else {})
    stages = Stages("upsert t", "off")
    with stages.run("store", "writing"):
        pass
    if several:
        stages.conflicts.append("lost to upsert 1")
    with begin(table, Action.COMMIT) as change:
        change.start()
        commit = change.complete([], operation=Operation.UPSERT, schema="{}", extra={STAGES: stages.to_text()}, stages=stages)
    stored = json.loads(table.storage.read(f"/t/.hoodie/{change.time}.commit"))["extraMetadata"][STAGES]
    assert stored == commit.metadata.extra[STAGES]
    found = json.loads(stored)
    if not several:
        assert (list(found), commit.lock) == (["store"], None)
        return
    assert list(found) == ["store", CONFLICTS, "lock"]
    assert found[CONFLICTS] == ["lost to upsert 1"]
    assert commit.lock is not None
    assert found["lock"]["seconds"] == round(commit.lock.waited_s, 3)
    assert commit.lock.held_s > 0
    assert commit.lock.attempts == 1
    assert [stage.name for stage in stages.done] == ["store", "lock"]


def test_a_commit_is_encoded_before_the_lock_is_acquired(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(OPTIONS)
    steps: list[str] = []

    def note(name: str) -> None:
        """Note the calls of a function of the module."""
        real = getattr(change_module, name)

        def call(*args: Any, **more: Any) -> Any:
            steps.append(name)
            return real(*args, **more)

        monkeypatch.setattr(change_module, name, call)

    with begin(table, Action.COMMIT) as change:
        change.start()
        for name in ("write_commit", "locked", "run_transaction"):
            note(name)
        change.complete([], operation=Operation.UPSERT, schema="{}")
    assert steps == ["write_commit", "locked", "run_transaction"]
