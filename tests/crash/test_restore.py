"""A fault at any storage call of savepoints and restores leaves the rows of before or after, and a second run finishes the work."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.compaction.service import COMPACTION
from penstock.services.planned import schedule_and_run
from penstock.services.restore import restore
from penstock.services.savepoint import create_savepoint, delete_savepoint
from penstock.table.state import TableState, open_table
from penstock.timeline.instant import Action
from tests.crash.every_call import CRASHES, ERRORS, Rehearsal, calls_in_one_order
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
    if not table.timeline.filter(Action.SAVEPOINT) or not table.timeline.filter(Action.SAVEPOINT)[0].is_completed:
        create_savepoint(table, _time(table))


def _let_go(table: TableState) -> None:
    if table.timeline.filter(Action.SAVEPOINT):
        delete_savepoint(table, _time(table))


@dataclass(frozen=True)
class Scene:
    """The work that fails, whether it begins with a savepoint, and the rows of the table when it is done."""

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
def written(spark: Any, folder: Path) -> Iterator[tuple[Path, Path]]:
    """A table with a commit to restore to, and writes and a compaction after it; and the same table with a savepoint."""
    plain, saved = folder / "plain", folder / "saved"
    for operation, rows in (("insert", FIRST), ("upsert", CHANGES), ("upsert", MORE)):
        write(trips(spark, *rows), str(plain), {**OPTIONS, OPERATION: operation})
    assert schedule_and_run(spark, open_table(str(plain), read_options({})), COMPACTION, Stages("", "off"), due=True)
    shutil.copytree(plain, saved)
    create_savepoint(open_table(str(saved)), _time(open_table(str(saved))))
    with calls_in_one_order():
        yield plain, saved


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name.replace(" ", "_"))
def test_a_fault_at_any_call_leaves_what_a_second_run_finishes(scene: Scene, written: tuple[Path, Path], folder: Path) -> None:
    def run(path: str) -> None:
        scene.run(open_table(path, read_options({})))

    def run_again(path: Path, what: str) -> None:
        assert plain_rows(path) in (ROWS, SAVED), what
        run(str(path))
        check(scene, path, what)

    rehearsal = Rehearsal(written[scene.is_saved], folder, run, run_again, scene.calls_min)
    for fault in (*CRASHES, *ERRORS):
        rehearsal.fail_at_every_call(fault)


def check(scene: Scene, path: Path, what: str) -> None:
    """Check that the work is completed and leaves nothing behind."""
    assert plain_rows(path) == scene.rows, what
    table = open_table(str(path))
    assert [i.is_completed for i in table.timeline.filter(Action.SAVEPOINT)] == [True] * scene.ends_saved, what
    assert pending(path) == [], what
    assert orphans(path) == [], what
