"""A fault at any storage call of a clustering loses and doubles no row, and the next run finishes the work."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock.options import read_options
from penstock.progress import Stages
from penstock.services.clustering import tasks
from penstock.services.clustering.service import CLUSTERING
from penstock.services.clustering.unschedule import unschedule_clustering
from penstock.services.planned import schedule_and_run
from penstock.table.state import TableState, open_table
from tests.crash.every_call import Rehearsal, calls_in_one_order
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import orphans, pending, plain_rows
from tests.table.handmade import HandMade

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FIRST = [("a", "berlin", 5, 1.5), ("b", "berlin", 3, 2.5)]
SECOND = [("c", "berlin", 4, 3.5), ("d", "berlin", 2, 4.5)]
OTHER = [("e", "paris", 2, 5.5)]
CHANGED = ("a", "berlin", 9, 9.5)
ROWS = sorted([CHANGED, *SECOND, *OTHER], key=repr)
NOTHING: Any = None  # no Spark: what there is to do is little, and done here
OPTIONS = {"hoodie.clustering.plan.strategy.sort.columns": "ts"}


def _cluster(table: TableState) -> None:
    schedule_and_run(NOTHING, table, CLUSTERING, Stages("", "off"), due=True)


def _in_parts(table: TableState) -> None:
    with patch.object(tasks, "_LEAST_BYTES", 1), patch.object(tasks, "_MOST_BYTES", 1000):
        _cluster(table)


def _unschedule(table: TableState) -> None:
    unschedule_clustering(table, table.timeline.pending[0].time)


@dataclass(frozen=True)
class Scene:
    """The work that fails, and whether an earlier run of the plan died."""

    name: str
    run: Callable[[TableState], None]
    calls_min: int
    is_dead: bool = False


#: One group is rewritten in several tasks, the other in one.
CLUSTER = Scene("cluster", _in_parts, 19)
AGAIN = Scene("cluster after a crash", _cluster, 20, is_dead=True)
UNSCHEDULE = Scene("unschedule after a crash", _unschedule, 8, is_dead=True)
#: After a call is before the next one. What undoes a run that died meets torn calls in other tests.
CRASHES = ((CLUSTER, Fault.BEFORE), (CLUSTER, Fault.TORN), (AGAIN, Fault.BEFORE), (UNSCHEDULE, Fault.BEFORE))
ERRORS = (
    (CLUSTER, Fault.FAILS),
    (CLUSTER, Fault.FAILS_AFTER),
    (CLUSTER, Fault.TWICE),
    (CLUSTER, Fault.INTERRUPTED),
    (AGAIN, Fault.FAILS),
    (AGAIN, Fault.TWICE),
    (UNSCHEDULE, Fault.FAILS),
)


@pytest.fixture(scope="module")
def written(folder: Path) -> Iterator[tuple[Path, Path]]:
    """A table with two file groups in a partition, one of them with a log; and the same table with a run that died at its end."""
    table = HandMade(folder / "plain")
    table.base(1, "berlin", *FIRST, group="one").base(1, "berlin", *SECOND, group="two").base(1, "paris", *OTHER).instant(1)
    table.log(1, "berlin", 1, table.rows(2, "berlin", CHANGED), table.deletes(2, "berlin", "b"), group="one").instant(2)
    shutil.copytree(table.path, folder / "dead")
    with calls_in_one_order():
        plan = FaultPlan(str(folder / "killer"), fault=Fault.BEFORE, match=r"^write_new .*\.replacecommit$")
        with injected(plan), pytest.raises(Crash):
            _cluster(open_table(f"crash:{folder / 'dead'}", read_options(OPTIONS)))
        yield table.path, folder / "dead"


def _said(one: object) -> str:
    return (one.name if isinstance(one, Scene) else str(one.value) if isinstance(one, Fault) else "").replace(" ", "_")


def check(path: Path, what: str) -> None:
    """Check that all rows are there before and after the next clustering, which leaves nothing to do."""
    assert plain_rows(path) == ROWS, what
    _cluster(open_table(str(path), read_options(OPTIONS)))
    assert plain_rows(path) == ROWS, what
    assert pending(path) == [], what
    old = ("one-0_", "two-0_", "paris-0_")  # which no commit names in a table made by hand
    left = [file for file in orphans(path) if file.endswith(".parquet") and not file.rpartition("/")[2].startswith(old)]
    assert left == [], what


@pytest.mark.parametrize(("scene", "fault"), [*CRASHES, *ERRORS], ids=_said)
def test_a_fault_at_any_call_loses_no_row(scene: Scene, written: tuple[Path, Path], folder: Path, fault: Fault) -> None:
    def work(path: str) -> None:
        scene.run(open_table(path, read_options(OPTIONS)))

    Rehearsal(written[scene.is_dead], folder, work, check, scene.calls_min).fail_at_every_call(fault)
