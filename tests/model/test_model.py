"""The commit protocol in memory: processes in many orders of their storage calls, with deaths, and no row is lost.

`PENSTOCK_TEST_MODEL=1` plays every schedule with two switches between processes, as `make test-model` does; otherwise one in so many.
"""

from __future__ import annotations

import os
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.model import table as model
from tests.model.check import Scene, Violation, play_all
from tests.model.table import Write

LONG = os.environ.get("PENSTOCK_TEST_MODEL") == "1"
#: One in so many of the schedules with two switches.
EVERY = 1 if LONG else 40


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


@pytest.mark.parametrize("scene", PAIRS, ids=lambda scene: scene.name)
def test_no_order_of_calls_breaks_a_promise(scene: Scene) -> None:
    assert play_all(scene, every=EVERY) > 15


@pytest.mark.parametrize("scene", DEATHS, ids=lambda scene: scene.name)
def test_no_death_breaks_a_promise(scene: Scene) -> None:
    every = EVERY if scene.deaths > 1 else 1
    assert play_all(replace(scene, switches=1 if LONG else 0), every=every) > 15


def test_a_store_whose_conditional_put_does_not_hold_is_found() -> None:
    scene = Scene("weak put", (upsert("a", "x"), upsert("a", "y")), FILLED, weak_put=True)
    with pytest.raises(Violation, match="its commits say"):
        play_all(scene, switches=1)


def test_hudis_rule_for_delete_partition_is_found() -> None:
    """Hudi compares file groups: an insert makes a new one, so that the row survives a delete_partition that commits later."""
    scene = Scene("insert and delete_partition", (INSERT, DELETE_PARTITION), FILLED)
    with patch("penstock.commit.overlap._REPLACES_PARTITIONS", ()), pytest.raises(Violation, match="its commits say"):
        play_all(scene)
