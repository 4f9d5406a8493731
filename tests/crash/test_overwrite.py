"""An interrupted write with the save mode `overwrite`: every process finds the old table or the new one, and old rows never come back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock.commit import swap_tables as overwrite_module
from penstock.commit.swap_tables import finish_overwrite
from penstock.door import write as door
from penstock.errors import CommitUnknown, StorageError, WriteConflict
from penstock.services.rollback.failed_writes import roll_back_failed
from penstock.storage import LocalStorage
from penstock.table.state import open_table
from tests.crash.scenes import FIRST, HEARTBEATS_EXPIRED, LATER, NEW, PUBLISHING, Runner, Step, with_later
from tests.kit.faults import Crash, Fault, FaultPlan, FaultyStorage, injected
from tests.kit.plain import leftovers, orphans, plain_rows
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


def test_an_overwrite_with_an_unknown_commit_keeps_the_old_table(runner: Runner, path: str) -> None:
    with pytest.raises(StorageError, match="the old table is as it was"):
        overwrite(runner, path, Fault.FAILS_AFTER, PUBLISHING)
    assert (plain_rows(path), orphans(path)) == (OLD, [])


def test_an_overwrite_that_cannot_be_moved_into_place_restores_the_old_table(runner: Runner, path: str) -> None:
    with pytest.raises(StorageError, match="the storage failed"):
        overwrite(runner, path, Fault.FAILS, r"^move_tree .*/overwrite-[^/]*$")
    assert plain_rows(path) == OLD
    runner.run(Step("insert", LATER), path)
    assert orphans(path) == []


def test_an_overwrite_that_can_neither_finish_nor_restore_says_that_the_next_reader_finishes_it(
    runner: Runner, path: str
) -> None:
    with pytest.raises(CommitUnknown, match="takes its place when the path is next opened"):
        overwrite(runner, path, Fault.FAILS, r"^move_tree .*penstock-old")
    assert not Path(path).exists()
    assert plain_rows(path) == NEW_ROWS


def test_an_overwrite_that_dies_between_its_renames_is_finished_by_the_next_reader(runner: Runner, spark: Any, path: str) -> None:
    with pytest.raises(Crash):
        overwrite(runner, path, Fault.AFTER, "^move_tree ")
    assert not Path(path).exists()
    assert snapshot(spark, path) == NEW_ROWS
    assert orphans(path) == []


def test_a_reader_may_finish_an_overwrite_while_it_runs(runner: Runner, path: str) -> None:
    move_tree = FaultyStorage.move_tree

    def another_process_reads(storage: FaultyStorage, source: str, to: str) -> None:
        move_tree(storage, source, to)
        finish_overwrite(LocalStorage(), path)

    with patch.object(FaultyStorage, "move_tree", another_process_reads):
        overwrite(runner, path, Fault.FAILS, "never")
    assert (plain_rows(path), orphans(path)) == (NEW_ROWS, [])


def test_a_table_deleted_after_an_overwrite_is_not_restored_from_leftovers_of_the_overwrite(runner: Runner, path: str) -> None:
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


#: Parts of a new table.
PARTS = (".hoodie/hoodie.properties", ".hoodie/*.commit", "berlin/*.parquet", "tokyo", "")


@pytest.mark.parametrize("part", PARTS)
def test_an_overwrite_whose_new_table_is_deleted_restores_the_old_table(runner: Runner, path: str, part: str) -> None:
    """Whatever is missing of the new table when the old one has just been renamed."""
    move_tree = FaultyStorage.move_tree

    def another_process_deletes(storage: FaultyStorage, source: str, to: str) -> None:
        move_tree(storage, source, to)
        for fresh in Path(to, ".hoodie", ".temp").glob("overwrite-*"):
            delete(*(fresh.glob(part) if part else [fresh]))

    with (
        patch.object(FaultyStorage, "move_tree", another_process_deletes),
        pytest.raises(WriteConflict, match=r"old table .* Run the"),
    ):
        overwrite(runner, path, Fault.FAILS, "never")
    assert (plain_rows(path), orphans(path)) == (OLD, [])
    runner.run(Step("upsert", LATER), path)
    assert (plain_rows(path), orphans(path)) == (with_later(FIRST), [])


@pytest.mark.parametrize("part", PARTS)
def test_a_new_table_that_is_not_whole_does_not_take_the_place_of_the_old_one(runner: Runner, path: str, part: str) -> None:
    """The overwrite was cut off, and something of the new table was deleted before that."""
    with pytest.raises(Crash):
        overwrite(runner, path, Fault.AFTER, "^move_tree ")
    (fresh,) = Path(path).parent.glob(".*.penstock-old/.hoodie/.temp/overwrite-*")
    delete(*(fresh.glob(part) if part else [fresh]))
    assert plain_rows(path) == OLD
    runner.run(Step("upsert", LATER, options=HEARTBEATS_EXPIRED), path)
    assert (plain_rows(path), orphans(path)) == (with_later(FIRST), [])


def test_a_reader_that_restores_the_old_table_is_not_taken_for_one_that_finishes_the_overwrite(runner: Runner, path: str) -> None:
    move_tree = FaultyStorage.move_tree

    def another_process_deletes_and_reads(storage: FaultyStorage, source: str, to: str) -> None:
        move_tree(storage, source, to)
        delete(*Path(to, ".hoodie", ".temp").glob("overwrite-*"))
        finish_overwrite(LocalStorage(), path)

    with patch.object(FaultyStorage, "move_tree", another_process_deletes_and_reads), pytest.raises(WriteConflict):
        overwrite(runner, path, Fault.FAILS, "never")
    assert (plain_rows(path), orphans(path)) == (OLD, [])


def delete(*found: Path) -> None:
    assert len(found) <= 1
    for one in found:
        shutil.rmtree(one) if one.is_dir() else one.unlink()


@pytest.mark.parametrize("policy", ["EAGER", "LAZY"])
def test_another_writer_does_not_touch_an_overwrite_that_is_under_way(runner: Runner, path: str, policy: str) -> None:
    take_place = door.swap_tables

    def another_process_writes(*args: Any) -> None:
        runner.run(Step("upsert", LATER, options={"hoodie.cleaner.policy.failed.writes": policy}), path)
        assert [name for name in leftovers(path) if name.endswith("hoodie.properties")]
        take_place(*args)

    with patch.object(door, "swap_tables", another_process_writes):
        overwrite(runner, path, Fault.FAILS, "never")
    assert (plain_rows(path), orphans(path)) == (NEW_ROWS, [])


def test_a_dead_overwrite_is_removed_once_its_heartbeat_is_old(runner: Runner, path: str) -> None:
    with pytest.raises(Crash):
        overwrite(runner, path, Fault.BEFORE, "^move_tree ")
    roll_back_failed(open_table(path))
    assert leftovers(path)
    for file in Path(path).rglob("*"):
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 200))
    roll_back_failed(open_table(path))
    assert (leftovers(path), plain_rows(path)) == ([], OLD)


def test_a_table_that_the_next_overwrite_has_just_moved_is_not_deleted_as_an_old_one(runner: Runner, path: str) -> None:
    """Between the look and the delete of one who tidies up after an overwrite, others do so, and the next one begins."""
    with pytest.raises(Crash):
        overwrite(runner, path, Fault.BEFORE, r"^move_tree .*penstock-old$")
    (old,) = Path(path).parent.glob(".*.penstock-old")
    exists = overwrite_module.table_exists

    def next_one_begins(*args: Any) -> bool:
        found = exists(*args)
        if Path(path).exists():
            shutil.rmtree(old)
            Path(path).rename(old)
        return found

    with patch.object(overwrite_module, "table_exists", next_one_begins):
        finish_overwrite(LocalStorage(), path)
    assert old.exists()
    assert plain_rows(path) == NEW_ROWS


def test_two_overwrites_at_once_leave_the_table_of_one_of_them(runner: Runner, path: str) -> None:
    take_place = door.swap_tables

    def another_overwrites(*args: Any) -> None:
        with patch.object(door, "swap_tables", take_place):
            runner.run(Step("insert", LATER, "overwrite"), path)
        take_place(*args)

    with patch.object(door, "swap_tables", another_overwrites), pytest.raises(WriteConflict):
        overwrite(runner, path, Fault.FAILS, "never")
    assert (plain_rows(path), orphans(path)) == (sorted(LATER, key=repr), [])
