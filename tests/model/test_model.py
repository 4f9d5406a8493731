"""The commit protocol in memory: processes in many orders of their storage calls, with deaths, and no row is lost.

`PENSTOCK_TEST_MODEL=1` plays every schedule with two switches between processes, as `make test-model` does; otherwise one in so many.
"""

from __future__ import annotations

import os
from dataclasses import replace
from unittest.mock import patch

import pytest

from penstock.errors import LockTimeout, WriteConflict
from penstock.services.rollback.failed_writes import failed_writes
from penstock.services.rollback.run import roll_back
from penstock.table.state import TableState
from tests.model import table as model
from tests.model.check import Scene, Violation, play_all, play_script, play_some
from tests.model.schedule import DIES
from tests.model.table import Write

LONG = os.environ.get("PENSTOCK_TEST_MODEL") == "1"
#: One in so many of the schedules with two switches.
EVERY = 1 if LONG else 40
#: Random schedules of three processes, for each scene.
SOME = 3000 if LONG else 12


def upsert(key: str, token: str) -> Write:
    return Write("upsert", key, token)


FILLED = (upsert("a", "a0"), upsert("b", "b0"))
UPDATED = (*FILLED, upsert("a", "a1"))
DELETE_PARTITION = Write("delete_partition", "", "d")
INSERT = Write("insert", "n", "x")
OVERWRITE = Write("overwrite", "z", "z")
LOGS = {"merge_on_read": True}
FEW = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}

PAIRS = (
    Scene("updates of one row", (upsert("a", "x"), upsert("a", "y")), FILLED),
    Scene("updates of one row, logs", (upsert("a", "x"), upsert("a", "y")), FILLED, **LOGS),
    Scene("updates of two rows", (upsert("a", "x"), upsert("b", "y")), FILLED),
    Scene("upserts of a new key", (upsert("n", "x"), upsert("n", "y")), FILLED),
    Scene("first writes", (upsert("n", "x"), upsert("n", "y"))),
    Scene("update and delete", (upsert("a", "x"), Write("delete", "a", "y")), FILLED),
    Scene("insert and overwrite", (INSERT, OVERWRITE), FILLED),
    Scene("update and overwrite", (upsert("a", "x"), OVERWRITE), FILLED),
    Scene("insert and delete_partition", (INSERT, DELETE_PARTITION), FILLED),
    Scene("update and delete_partition, logs", (upsert("a", "x"), DELETE_PARTITION), FILLED, **LOGS),
    Scene("overwrite and delete_partition", (OVERWRITE, DELETE_PARTITION), FILLED),
    Scene("update and compaction", (upsert("a", "x"), model.compact), UPDATED, **LOGS),
    Scene("delete_partition and compaction", (DELETE_PARTITION, model.compact), UPDATED, **LOGS),
    Scene("two compactions", (model.compact, model.compact), UPDATED, **LOGS),
    Scene("update and clustering", (upsert("a", "x"), model.cluster), FILLED),
    Scene("update and clustering, logs", (upsert("a", "x"), model.cluster), UPDATED, **LOGS),
    Scene("delete_partition and clustering", (DELETE_PARTITION, model.cluster), FILLED),
    Scene("update and clean", (upsert("a", "x"), model.run_clean), UPDATED),
    Scene("update and rollback", (upsert("a", "x"), model.roll_back_newest), UPDATED),
    Scene("update and rollback, logs", (upsert("a", "x"), model.roll_back_newest), UPDATED, **LOGS),
    Scene("overwrite and rollback", (OVERWRITE, model.roll_back_newest), UPDATED),
    Scene("compaction and rollback", (model.compact, model.roll_back_newest), UPDATED, **LOGS),
    Scene("clustering and rollback", (model.cluster, model.roll_back_newest), FILLED),
    Scene("clean and rollback", (model.run_clean, model.roll_back_newest), UPDATED),
    Scene("savepoint and rollback", (model.save_newest, model.roll_back_newest), UPDATED),
    Scene("update and savepoint", (upsert("a", "x"), model.save_newest), UPDATED),
    Scene("update and restore", (upsert("a", "x"), model.restore_saved), (*FILLED, model.save_newest, upsert("a", "a1"))),
    Scene("clustering and restore", (model.cluster, model.restore_saved), (*FILLED, model.save_newest, upsert("a", "a1"))),
    Scene(
        "a pending write that completes and is archived",
        (upsert("a", "x"), model.run_archive, (upsert("b", "y"), upsert("a", "z"))),
        FILLED,
        options=FEW,
    ),
)
DEATHS = (
    Scene("a writer dies", (upsert("a", "x"), upsert("a", "y")), FILLED, switches=0, deaths=1),
    Scene("a writer dies, logs", (upsert("a", "x"), upsert("a", "y")), FILLED, switches=0, deaths=1, **LOGS),
    Scene("a compaction dies", (model.compact, upsert("a", "y")), UPDATED, switches=0, deaths=1, **LOGS),
    Scene("a clustering dies", (model.cluster, upsert("a", "y")), FILLED, switches=0, deaths=1),
    Scene("a rollback dies", (model.roll_back_newest, upsert("a", "y")), UPDATED, switches=0, deaths=1),
    Scene("an overwrite and its rollback die", (OVERWRITE, model.run_clean, upsert("a", "y")), FILLED, switches=0, deaths=2),
    Scene("a writer and its rollback die, logs", (upsert("a", "x"), model.run_clean), FILLED, switches=0, deaths=2, **LOGS),
)
JOINED = (*UPDATED, upsert("a", "a2"))
THREE = (
    Scene("an update and two compactions", (upsert("a", "x"), model.compact, model.compact), UPDATED, **LOGS),
    Scene("two updates and a compaction", (upsert("a", "x"), upsert("a", "y"), model.compact), UPDATED, **LOGS),
    Scene("an update, a compaction and a run", (upsert("a", "x"), model.compact, model.run_compactions), UPDATED, **LOGS),
    Scene("an update, a compaction and a clustering", (upsert("a", "x"), model.compact, model.cluster), UPDATED, **LOGS),
    Scene("an update, a log compaction and a compaction", (upsert("a", "x"), model.join_logs, model.compact), JOINED, **LOGS),
    Scene("an update and two log compactions", (upsert("a", "x"), model.join_logs, model.join_logs), JOINED, **LOGS),
    Scene("an update, a rollback and a compaction", (upsert("a", "x"), model.roll_back_newest, model.compact), UPDATED, **LOGS),
    Scene("a delete_partition, an update and a clustering", (DELETE_PARTITION, upsert("b", "y"), model.cluster), UPDATED),
    Scene("an update and two cleans", (upsert("a", "x"), model.run_clean, model.run_clean), UPDATED),
    Scene("three inserts of a key", (upsert("n", "x"), upsert("n", "y"), upsert("n", "z")), FILLED),
)


@pytest.mark.parametrize("scene", PAIRS, ids=lambda scene: scene.name)
def test_no_order_of_calls_breaks_a_promise(scene: Scene) -> None:
    assert play_all(scene, every=EVERY) > 15


@pytest.mark.parametrize("scene", DEATHS, ids=lambda scene: scene.name)
def test_no_death_breaks_a_promise(scene: Scene) -> None:
    every = EVERY if scene.deaths > 1 else 1
    assert play_all(replace(scene, switches=1 if LONG else 0), every=every) > 15


@pytest.mark.parametrize("scene", THREE, ids=lambda scene: scene.name)
def test_no_order_of_three_processes_breaks_a_promise(scene: Scene) -> None:
    assert play_some(scene, count=SOME) == SOME
    assert play_some(replace(scene, deaths=1), count=SOME, seed=2) == SOME


@pytest.mark.parametrize("scene", [PAIRS[1], *THREE[:3], THREE[6], *THREE[8:]], ids=lambda scene: scene.name)
def test_no_call_that_fails_breaks_a_promise(scene: Scene) -> None:
    """Each schedule has two calls that fail, or whose answers are lost."""
    assert play_some(scene, count=SOME, failures=2) == SOME


def test_a_plan_that_is_run_before_it_is_confirmed_hides_no_row() -> None:
    """A write that loaded the timeline before the plan completes after another process has begun to run the plan."""
    scene = Scene("unconfirmed", (upsert("a", "x"), model.compact, model.run_compactions), UPDATED, **LOGS)
    run = play_script(
        scene,
        (0, "write_new .log.", 1),
        (1, "write_new compaction.requested", 0),
        (0, "write_new claims/", 1),
        (1, "list .hoodie", 0),
        (0, "write_new .deltacommit", 2),
    )
    assert isinstance(run.errors.get(2), WriteConflict)


def test_a_plan_on_which_a_write_has_put_its_log_stays() -> None:
    """The plan is not the latest instant when its process looks: a later write has completed on top of it."""
    scene = Scene("on top", (model.compact, upsert("a", "x"), model.run_clean), UPDATED, **LOGS)
    run = play_script(scene, (0, "write_new compaction.requested", 0), (0, "list .hoodie", 1))
    assert not run.errors


def test_a_writer_finds_a_plan_that_is_withdrawn_between_its_two_looks() -> None:
    scene = Scene("withdrawn", (upsert("a", "x"), upsert("b", "y"), model.compact), UPDATED, **LOGS)
    play_script(
        scene,
        (0, "write_new .heartbeat", 1),
        (1, "write_new claims/", 2),
        (2, "write_new compaction.requested", 1),
        (1, "replace claims/", 2),
        (2, "delete compaction.requested", 0),
        (0, "/undone/", 2),
        (2, "list .hoodie", 0),
    )


def test_a_withdrawal_that_dies_blocks_no_later_compaction() -> None:
    scene = Scene("withdrawal dies", (upsert("b", "y"), model.compact, upsert("a", "x")), UPDATED, **LOGS)
    play_script(
        scene,
        (0, "write_new claims/", 1),
        (1, "write_new compaction.requested", 0),
        (0, "replace claims/", 1),
        (1, "delete compaction.requested", DIES),
    )


def roll_back_pending(table: TableState) -> None:
    """Do what a clean does when a heartbeat has expired."""
    for instant in failed_writes(table):
        roll_back(table, instant)


def roll_back_without_lock(table: TableState) -> None:
    """Do the same while the server of the lock does not answer."""
    with patch("penstock.services.rollback.run.locked", side_effect=LockTimeout("the lock server does not answer")):
        roll_back_pending(table)


def test_a_rollback_that_fails_leaves_the_mark_of_another_rollback() -> None:
    scene = Scene("two rollbacks", (upsert("a", "x"), roll_back_pending, roll_back_without_lock), FILLED)
    run = play_script(scene, (0, "/undone/", 1), (1, "write_new rollback.requested", 2))
    assert isinstance(run.errors[2], LockTimeout)


def test_a_clean_that_another_process_has_begun_keeps_its_plan() -> None:
    scene = Scene("two cleans", (model.run_clean, model.run_clean), UPDATED)
    run = play_script(scene, (0, "write_new clean.requested", 0), (0, "list .hoodie", 1), (1, "delete .parquet", 0))
    assert not run.errors


@pytest.mark.parametrize("ahead_s", [(600, 0, 0), (0, 600, 0), (-600, 0, 0), (0, 0, -4000), (600, -600, 90000)], ids=str)
def test_a_clock_that_is_wrong_does_no_harm(ahead_s: tuple[int, ...]) -> None:
    scene = Scene("clocks", (upsert("a", "x"), model.run_clean, upsert("b", "y")), FILLED, ahead_s=ahead_s)
    run = play_script(scene, (0, "write_new claims/", 1))
    assert not run.errors
    assert play_some(scene, count=SOME) == SOME


def test_a_store_whose_conditional_put_does_not_hold_is_found() -> None:
    scene = Scene("weak put", (upsert("a", "x"), upsert("a", "y")), FILLED, weak_put=True)
    with pytest.raises(Violation, match="its commits say"):
        play_all(scene, switches=1)


def test_hudis_rule_for_delete_partition_is_found() -> None:
    """Hudi compares file groups: an insert makes a new one, so that the row survives a delete_partition that commits later."""
    scene = Scene("insert and delete_partition", (INSERT, DELETE_PARTITION), FILLED)
    with patch("penstock.commit.overlap._REPLACES_PARTITIONS", ()), pytest.raises(Violation, match="its commits say"):
        play_all(scene)
