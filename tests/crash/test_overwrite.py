"""Save mode `overwrite`, cut off: the old table or the new one, whoever looks; and nothing of the old one comes back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock.commit.swap import recover
from penstock.errors import CommitUnknown, StorageError
from penstock.storage import LocalStorage
from tests.crash.scenes import FIRST, LATER, NEW, PUBLISHING, Runner, Step
from tests.kit.faults import Crash, Fault, FaultPlan, FaultyStorage, injected
from tests.kit.plain import orphans, plain_rows
from tests.table.tables import snapshot

OVERWRITE = Step("insert", NEW, "overwrite")
OLD, NEW_ROWS = sorted(FIRST, key=repr), sorted(NEW, key=repr)


@pytest.fixture
def path(runner: Runner, table_path: str) -> str:
    """A table with rows."""
    runner.run(Step("insert", FIRST), table_path)
    return table_path


def overwrite(runner: Runner, path: str, fault: Fault, match: str) -> None:
    with injected(FaultPlan(f"{path}-plan", fault=fault, match=match)):
        runner.run(OVERWRITE, f"crash:{path}")


def test_a_commit_that_may_not_be_there_is_no_commit_before_the_new_table_has_its_place(runner: Runner, path: str) -> None:
    with pytest.raises(StorageError, match="the old table is as it was"):
        overwrite(runner, path, Fault.FAILS_AFTER, PUBLISHING)
    assert (plain_rows(path), orphans(path)) == (OLD, [])


def test_an_overwrite_that_cannot_take_its_place_gives_the_old_table_back(runner: Runner, path: str) -> None:
    with pytest.raises(StorageError, match="the storage failed"):
        overwrite(runner, path, Fault.FAILS, r"^move_tree .*/overwrite-[^/]*$")
    assert plain_rows(path) == OLD
    runner.run(Step("insert", LATER), path)
    assert orphans(path) == []


def test_an_overwrite_that_can_neither_go_on_nor_back_says_who_finishes_it(runner: Runner, path: str) -> None:
    with pytest.raises(CommitUnknown, match="takes its place when the path is next opened"):
        overwrite(runner, path, Fault.FAILS, r"^move_tree .*penstock-old")
    assert not Path(path).exists()
    assert plain_rows(path) == NEW_ROWS


def test_an_overwrite_cut_off_between_its_renames_is_finished_by_the_next_reader(runner: Runner, spark: Any, path: str) -> None:
    with pytest.raises(Crash):
        overwrite(runner, path, Fault.AFTER, "^move_tree ")
    assert not Path(path).exists()
    assert snapshot(spark, path) == NEW_ROWS
    assert orphans(path) == []


def test_a_reader_that_finishes_an_overwrite_while_it_runs_does_no_harm(runner: Runner, path: str) -> None:
    move_tree = FaultyStorage.move_tree

    def somebody_reads(storage: FaultyStorage, source: str, to: str) -> None:
        move_tree(storage, source, to)
        recover(LocalStorage(), path)

    with patch.object(FaultyStorage, "move_tree", somebody_reads):
        overwrite(runner, path, Fault.FAILS, "never")
    assert (plain_rows(path), orphans(path)) == (NEW_ROWS, [])


def test_a_table_deleted_after_an_overwrite_does_not_come_back_from_what_the_overwrite_left(runner: Runner, path: str) -> None:
    """A crash while the old table was being deleted leaves a part of it."""
    deleting = FaultyStorage.delete_tree

    def dies_halfway(storage: FaultyStorage, folder: str) -> None:
        if Path(folder, ".hoodie").exists() and folder.endswith("penstock-old"):
            shutil.rmtree(f"{folder}/berlin")
            raise storage.plan.die()
        deleting(storage, folder)

    with patch.object(FaultyStorage, "delete_tree", dies_halfway), pytest.raises(Crash):
        overwrite(runner, path, Fault.FAILS, "never")
    assert plain_rows(path) == NEW_ROWS
    shutil.rmtree(path)
    assert plain_rows(path) == []
    runner.run(Step("insert", LATER), path)
    assert plain_rows(path) == sorted(LATER, key=repr)
    assert orphans(path) == []
