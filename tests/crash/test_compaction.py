"""A fault at any storage call of a compaction loses no row, and the next run finishes the work.

The calls are those of a whole round: scheduling a plan, running it, compacting logs, unscheduling a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.compaction.service import COMPACTION
from penstock.services.compaction.unschedule import unschedule
from penstock.services.log_compaction.service import LOG_COMPACTION
from penstock.services.planned import schedule, schedule_and_run
from penstock.table.state import TableState, open_table
from tests.crash.every_call import CRASHES, ERRORS, Rehearsal, calls_in_one_order
from tests.kit.faults import Fault
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
    schedule_and_run(NOTHING, table, COMPACTION, Stages("", "off"), due=True)


def _join(table: TableState) -> None:
    schedule_and_run(NOTHING, table, LOG_COMPACTION, Stages("", "off"))


def _unschedule(table: TableState) -> None:
    unschedule(table, table.timeline.pending[0].time)


@dataclass(frozen=True)
class Scene:
    """The work that fails, and the state of the table before it."""

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
def written(spark: Any, folder: Path) -> Iterator[tuple[Path, Path]]:
    """A table with updates and a delete in logs; and the same table with a plan, and the delete on top of it."""
    plain, planned = folder / "plain", folder / "planned"
    for path in (plain, planned):
        for operation, rows in (("insert", FIRST), ("upsert", CHANGES), ("delete", GONE)):
            if path is planned and operation == "delete":
                assert schedule(open_table(str(path), read_options({})), COMPACTION, due=True) is not None
            write(trips(spark, *rows), str(path), {**OPTIONS, OPERATION: operation})
    with calls_in_one_order():
        yield plain, planned


@pytest.fixture(params=SCENES, ids=lambda scene: scene.name.replace(" ", "_"))
def rehearsal(request: pytest.FixtureRequest, written: tuple[Path, Path], folder: Path) -> Rehearsal:
    scene: Scene = request.param

    def work(path: str) -> None:
        scene.run(open_table(path, read_options(BLOCKS)))

    return Rehearsal(written[scene.is_planned], folder, work, check, scene.calls_min)


def check(path: Path, what: str) -> None:
    """Check that all rows are there before and after the next compaction, which leaves nothing to do."""
    assert plain_rows(path) == ROWS, what
    table = open_table(str(path), read_options(BLOCKS))
    _join(table)
    assert plain_rows(path) == ROWS, what
    _compact(table)
    assert plain_rows(path) == ROWS, what
    assert pending(path) == [], what
    assert [file for file in orphans(path) if file.endswith(".parquet")] == [], what


@pytest.mark.parametrize("fault", CRASHES)
def test_a_crash_at_any_call_loses_no_row(rehearsal: Rehearsal, fault: Fault) -> None:
    rehearsal.fail_at_every_call(fault)


@pytest.mark.parametrize("fault", ERRORS)
def test_an_error_at_any_call_loses_no_row(rehearsal: Rehearsal, fault: Fault) -> None:
    rehearsal.fail_at_every_call(fault)
