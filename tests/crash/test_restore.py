"""Every storage call of savepoints and restores goes wrong: the rows are those of before or after, and a second run finishes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest

from penstock import spread
from penstock.errors import PenstockError
from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.compaction.run import compact
from penstock.services.restore import restore
from penstock.services.savepoint import create_savepoint, delete_savepoint
from penstock.table import TableState, open_table
from penstock.timeline.instant import Action
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import orphans, pending, plain_rows
from tests.table.tables import OPERATION, TRIPS, trips, write

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

OPTIONS = {**TRIPS, "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
FIRST = (("a", "berlin", 1, 1.5), ("c", "paris", 3, 3.5))
CHANGES = (("a", "berlin", 9, 9.5),)
MORE = (("a", "berlin", 10, 0.5), ("e", "tokyo", 1, 0.5))
SAVED = sorted([*CHANGES, FIRST[1]], key=repr)
ROWS = sorted([*MORE, FIRST[1]], key=repr)


def _time(table: TableState) -> str:
    return table.timeline.writes[1].time


def _restore(table: TableState) -> None:
    restore(None, table, _time(table), Stages("", "off"))


def _save(table: TableState) -> None:
    if not table.timeline.of(Action.SAVEPOINT) or not table.timeline.of(Action.SAVEPOINT)[0].is_completed:
        create_savepoint(table, _time(table))


def _let_go(table: TableState) -> None:
    if table.timeline.of(Action.SAVEPOINT):
        delete_savepoint(table, _time(table))


@dataclass(frozen=True)
class Scene:
    """What goes wrong, whether it begins with a savepoint, and what the table holds when it is done."""

    name: str
    run: Callable[[TableState], None]
    calls_min: int
    is_saved: bool
    ends_saved: bool
    rows: list[Any]


SCENES = (
    Scene("savepoint", _save, 2, False, True, ROWS),
    Scene("delete savepoint", _let_go, 2, True, False, ROWS),
    Scene("restore", _restore, 20, True, True, SAVED),
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    memory = "/dev/shm"
    with TemporaryDirectory(dir=memory if os.path.isdir(memory) else None) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def written(spark: Any, folder: Path) -> Iterator[tuple[Path, Path]]:
    """A table with a commit that may be restored to, and writes and a compaction after it; and the same with a savepoint."""
    plain, saved = folder / "plain", folder / "saved"
    for operation, rows in (("insert", FIRST), ("upsert", CHANGES), ("upsert", MORE)):
        write(trips(spark, *rows), str(plain), {**OPTIONS, OPERATION: operation})
    assert compact(spark, open_table(str(plain), read_options({})), Stages("", "off"), due=True)
    shutil.copytree(plain, saved)
    create_savepoint(open_table(str(saved)), _time(open_table(str(saved))))
    with patch.object(spread, "_DRIVER_THREADS", 1):  # so that calls come in one order
        yield plain, saved


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name.replace(" ", "_"))
def test_a_fault_at_any_call_leaves_what_a_second_run_finishes(scene: Scene, written: tuple[Path, Path], folder: Path) -> None:
    path = folder / "table"
    plan = FaultPlan(str(folder / "count"))
    play(scene, written, plan, path)
    check(scene, path, "nothing went wrong")
    calls = len(plan.calls)
    assert calls >= scene.calls_min
    for fault in (Fault.BEFORE, Fault.TORN, Fault.AFTER, Fault.FAILS, Fault.FAILS_AFTER, Fault.TWICE, Fault.INTERRUPTED):
        for at in range(calls):
            plan = FaultPlan(str(folder / "plan"), at, fault)
            with suppress(PenstockError, OSError, Crash, KeyboardInterrupt):
                play(scene, written, plan, path)
            what = f"{fault.value} {plan.calls[at]}"
            assert plain_rows(path) in (ROWS, SAVED), what
            scene.run(open_table(str(path), read_options({})))
            check(scene, path, what)


def play(scene: Scene, written: tuple[Path, Path], plan: FaultPlan, path: Path) -> None:
    """Run the scene on a fresh copy of its table."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(written[scene.is_saved], path)
    shutil.rmtree(plan.folder, ignore_errors=True)
    with injected(plan):
        scene.run(open_table(f"crash:{path}", read_options({})))


def check(scene: Scene, path: Path, what: str) -> None:
    """All is done, and nothing is left over."""
    assert plain_rows(path) == scene.rows, what
    table = open_table(str(path))
    assert [i.is_completed for i in table.timeline.of(Action.SAVEPOINT)] == [True] * scene.ends_saved, what
    assert pending(path) == [], what
    assert orphans(path) == [], what
