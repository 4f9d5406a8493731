"""Every storage call of compactions goes wrong, in every way: no row is lost, and the next run finishes what is left.

The calls are those of a whole round: a plan, the run that it gets, logs joined, a plan taken back.
"""

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
from penstock.services.compaction.join_logs import join_logs
from penstock.services.compaction.run import compact
from penstock.services.compaction.schedule import schedule, unschedule
from penstock.table import TableState, open_table
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import orphans, pending, plain_rows
from tests.table.tables import OPERATION, TRIPS, trips, write

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

OPTIONS = {**TRIPS, "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
FIRST = (("a", "berlin", 1, 1.5), ("b", "berlin", 2, 2.5), ("c", "paris", 3, 3.5), ("d", "paris", 4, 4.5))
CHANGES = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5))
GONE = (("d", "paris", 4, 4.5),)
ROWS = sorted([*CHANGES, FIRST[1]], key=repr)
NOTHING: Any = None  # no Spark: what there is to do is little, and done here
BLOCKS = {"hoodie.log.compaction.blocks.threshold": "2"}


def _compact(table: TableState) -> None:
    compact(NOTHING, table, Stages("", "off"), due=True)


def _join(table: TableState) -> None:
    join_logs(NOTHING, table, Stages("", "off"))


def _unschedule(table: TableState) -> None:
    unschedule(table, table.timeline.pending[0].time)


@dataclass(frozen=True)
class Scene:
    """What goes wrong, and what the table is given before it."""

    name: str
    run: Callable[[TableState], None]
    calls_min: int
    is_planned: bool = False


SCENES = (
    Scene("compact", _compact, 15),
    Scene("compact what waits", _compact, 15, is_planned=True),
    Scene("join logs", _join, 8),
    Scene("unschedule", _unschedule, 3, is_planned=True),
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    memory = "/dev/shm"
    with TemporaryDirectory(dir=memory if os.path.isdir(memory) else None) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def written(spark: Any, folder: Path) -> Iterator[tuple[Path, Path]]:
    """A table with updates and a delete in logs; and the same with a plan, and the delete on top of it."""
    plain, planned = folder / "plain", folder / "planned"
    for path in (plain, planned):
        for operation, rows in (("insert", FIRST), ("upsert", CHANGES), ("delete", GONE)):
            if path is planned and operation == "delete":
                assert schedule(open_table(str(path), read_options({})), due=True) is not None
            write(trips(spark, *rows), str(path), {**OPTIONS, OPERATION: operation})
    with patch.object(spread, "_DRIVER_THREADS", 1):  # so that calls come in one order
        yield plain, planned


@pytest.fixture(params=SCENES, ids=lambda scene: scene.name.replace(" ", "_"))
def scene(request: pytest.FixtureRequest) -> Scene:
    found: Scene = request.param
    return found


def play(scene: Scene, written: tuple[Path, Path], plan: FaultPlan, path: Path) -> None:
    """Run the scene on a fresh copy of its table."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(written[scene.is_planned], path)
    shutil.rmtree(plan.folder, ignore_errors=True)
    with injected(plan):
        scene.run(open_table(f"crash:{path}", read_options(BLOCKS)))


def check(path: Path, what: str) -> None:
    """All rows are there, before and after the next compaction, which leaves nothing to do."""
    assert plain_rows(path) == ROWS, what
    table = open_table(str(path), read_options(BLOCKS))
    _join(table)
    assert plain_rows(path) == ROWS, what
    _compact(table)
    assert plain_rows(path) == ROWS, what
    assert pending(path) == [], what
    assert [file for file in orphans(path) if file.endswith(".parquet")] == [], what


def count(scene: Scene, written: tuple[Path, Path], folder: Path) -> int:
    plan = FaultPlan(str(folder / "count"))
    play(scene, written, plan, folder / "table")
    check(folder / "table", "nothing went wrong")
    assert len(plan.calls) >= scene.calls_min
    return len(plan.calls)


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.TORN, Fault.AFTER])
def test_a_crash_at_any_call_loses_no_row(scene: Scene, written: tuple[Path, Path], folder: Path, fault: Fault) -> None:
    for at in range(count(scene, written, folder)):
        plan, path = FaultPlan(str(folder / "plan"), at, fault), folder / "table"
        with pytest.raises(Crash):
            play(scene, written, plan, path)
        check(path, f"{fault.value} {plan.calls[at]}")


@pytest.mark.parametrize("fault", [Fault.FAILS, Fault.FAILS_AFTER, Fault.TWICE, Fault.INTERRUPTED])
def test_an_error_at_any_call_loses_no_row(scene: Scene, written: tuple[Path, Path], folder: Path, fault: Fault) -> None:
    for at in range(count(scene, written, folder)):
        plan, path = FaultPlan(str(folder / "plan"), at, fault), folder / "table"
        with suppress(PenstockError, OSError, KeyboardInterrupt):
            play(scene, written, plan, path)
        check(path, f"{fault.value} {plan.calls[at]}")
