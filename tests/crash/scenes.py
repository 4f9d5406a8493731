"""The writes that the tests of this folder interrupt, and a runner that makes them fast: rows are evaluated once and kernels run in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from penstock.door import write as door
from penstock.services.rollback.requested import roll_back_to
from penstock.table.state import open_table
from penstock.workers import run_kernels as spread
from penstock.workers.results import decode_result, encode_results
from penstock.workers.run_kernels import TaskIdentity
from penstock.write.rows.schema import prepare_rows
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import Row, plain_rows
from tests.table.tables import OPERATION, TRIPS, Trip, trips

TASKS = 2
#: For a write that treats every heartbeat as expired.
HEARTBEATS_EXPIRED = {"hoodie.client.heartbeat.tolerable.misses": "0"}
#: The call that publishes a commit.
PUBLISHING = r"^write_new .*\.(?:delta|replace)?commit$"

#: Two partitions; then updates and new rows for both, and a third partition.
FIRST: tuple[Trip, ...] = (("a", "berlin", 1, 1.5), ("b", "berlin", 2, 2.5), ("c", "paris", 3, 3.5), ("d", "paris", 4, 4.5))
CHANGES: tuple[Trip, ...] = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5), ("e", "paris", 5, 5.5), ("f", "tokyo", 6, 6.5))
CHANGED: tuple[Trip, ...] = (*CHANGES, ("b", "berlin", 2, 2.5), ("d", "paris", 4, 4.5))
#: c goes from paris to berlin, d to a new partition; a is changed where it is.
MOVES: tuple[Trip, ...] = (("a", "berlin", 9, 9.5), ("c", "berlin", 9, 9.5), ("d", "tokyo", 9, 9.5))
NEW: tuple[Trip, ...] = (("g", "berlin", 7, 7.5), ("h", "tokyo", 8, 8.5))
LATER: tuple[Trip, ...] = (("y", "berlin", 1, 0.5), ("z", "paris", 1, 0.5), ("a", "berlin", 10, 10.5))


@dataclass(frozen=True)
class Step:
    """One write."""

    operation: str
    rows: tuple[Trip, ...]
    mode: str = "append"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """A table, the write that goes wrong, and the rows before and after it."""

    name: str
    before: tuple[Step, ...]
    write: Step | None
    old: tuple[Trip, ...]
    new: tuple[Trip, ...]
    #: The least number of calls of the write that change something.
    calls_min: int
    #: Whether the last write of `before` dies when it publishes.
    fails_before: bool = False


#: One file group in each partition; and two in each.
FILLED = (Step("insert", FIRST),)
SPREAD = (Step("bulk_insert", FIRST),)
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
#: Without a compaction after the write: its failure would be raised although the write completed.
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
LOGGED = (Step("insert", FIRST, options=MERGE_ON_READ),)
#: Changes of known rows alone: they all go to logs.
UPDATES: tuple[Trip, ...] = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5), ("d", "paris", 9, 9.5))
UPDATED: tuple[Trip, ...] = (*UPDATES, FIRST[1])
SCENES = (
    Scene("create", (), Step("upsert", FIRST), (), FIRST, 30),
    Scene("bulk_insert", FILLED, Step("bulk_insert", NEW), FIRST, (*FIRST, *NEW), 15),
    Scene("insert", SPREAD, Step("insert", NEW), FIRST, (*FIRST, *NEW), 20),
    Scene("upsert", FILLED, Step("upsert", CHANGES), FIRST, CHANGED, 20),
    Scene("upsert of several file groups", SPREAD, Step("upsert", CHANGES), FIRST, CHANGED, 25),
    Scene("moves", SPREAD, Step("upsert", MOVES, options=GLOBAL), FIRST, (*MOVES, FIRST[1]), 25),
    Scene("delete", SPREAD, Step("delete", FIRST[::2]), FIRST, FIRST[1::2], 15),
    Scene("overwrite", FILLED, Step("bulk_insert", NEW, "overwrite"), FIRST, NEW, 25),
    Scene("insert_overwrite", SPREAD, Step("insert_overwrite", NEW), FIRST, (*NEW, *FIRST[2:]), 20),
    Scene("insert_overwrite_table", LOGGED, Step("insert_overwrite_table", NEW, options=MERGE_ON_READ), FIRST, NEW, 20),
    Scene("delete_partition", SPREAD, Step("delete_partition", FIRST[:1]), FIRST, FIRST[2:], 8),
    Scene("rollback and upsert", (*FILLED, Step("upsert", NEW)), Step("upsert", CHANGES), FIRST, CHANGED, 35, fails_before=True),
    Scene("rollback of a commit", (*FILLED, Step("upsert", CHANGES)), None, CHANGED, FIRST, 10),
    Scene("logs", LOGGED, Step("upsert", UPDATES, options=MERGE_ON_READ), FIRST, UPDATED, 15),
    Scene("logs and base files", LOGGED, Step("upsert", CHANGES, options=MERGE_ON_READ), FIRST, CHANGED, 20),
    Scene("moves in logs", LOGGED, Step("upsert", MOVES, options=MERGE_ON_READ | GLOBAL), FIRST, (*MOVES, FIRST[1]), 20),
    Scene(
        "rollback of logs and upsert",
        (*LOGGED, Step("upsert", UPDATES, options=MERGE_ON_READ)),
        Step("upsert", CHANGES, options=MERGE_ON_READ),
        FIRST,
        CHANGED,
        25,
        fails_before=True,
    ),
    Scene("rollback of a delta commit", (*LOGGED, Step("upsert", UPDATES)), None, UPDATED, FIRST, 8),
)


class Runner:
    """Runs writes in Spark tasks, or within tens of milliseconds in this process, with everything that depends on the rows alone done once."""

    def __init__(self, spark: Any, *, in_tasks: bool = False) -> None:
        self._spark, self._in_tasks = spark, in_tasks
        self._frames: dict[tuple[Trip, ...], Any] = {}
        self._prepared: dict[Any, Any] = {}
        self._batches: dict[int, tuple[Any, list[pa.RecordBatch]]] = {}
        self._prepare = prepare_rows
        self._is_patched = False

    def run(self, step: Step | None, path: str) -> None:
        """Write, or roll back the newest write if `step` is None."""
        if step is None:
            table = open_table(path)
            assert table.timeline.last_write
            roll_back_to(table, table.timeline.last_write.time)
            return
        options = {**TRIPS, OPERATION: step.operation, **step.options}
        with nullcontext() if self._in_tasks or self._is_patched else self.in_this_process():
            door.write(self._spark, self._frame(step.rows), path, options, step.mode)

    def _frame(self, rows: tuple[Trip, ...]) -> Any:
        if rows not in self._frames:
            self._frames[rows] = trips(self._spark, *rows)
        return self._frames[rows]

    @contextmanager
    def in_this_process(self) -> Iterator[None]:
        """Run kernels in this process, one after the other, without Spark tasks, so that storage calls come in one order.

        For writers on several threads, enter it once around all of them.
        """
        with (
            patch.object(self, "_is_patched", True),
            patch("penstock.door.write.prepare_rows", self._prepare_once),
            patch("penstock.write.rows.input_files.run_over_rows", self._run_over_rows),
            patch("penstock.door.write.name_jobs", lambda spark, name: nullcontext()),  # no jobs to name
            patch("penstock.workers.run_kernels._DRIVER_THREADS", 1),
        ):
            yield

    def _prepare_once(self, incoming: Any, settings: Any, table_schema: Any) -> Any:
        key = (id(incoming), settings.operation, table_schema)
        if key not in self._prepared:
            self._prepared[key] = self._prepare(incoming, settings, table_schema)
        return self._prepared[key]

    def _run_over_rows(self, rows: Any, kernel: Callable[[Iterator[pa.RecordBatch]], Any], returns: Any) -> list[Any]:
        if id(rows) not in self._batches:
            self._batches[id(rows)] = (rows, rows.toArrow().to_batches(max_chunksize=1))
        batches = self._batches[id(rows)][1]
        results: list[Any] = []
        for number in range(TASKS):
            spread._local.identity = TaskIdentity(number, f"{number}-1-{number}")
            try:
                texts = encode_results(partial(kernel, iter(batches[number::TASKS])))
                results += [decode_result(text, returns) for text in texts]
            finally:
                spread._local.identity = None
        return results


class Stage:
    """A scene with its table written, ready to be played many times."""

    def __init__(self, scene: Scene, runner: Runner, folder: Path) -> None:
        self.scene, self.runner, self._folder, self._played = scene, runner, folder, 0
        self.template = folder / "template"
        folder.mkdir(parents=True)
        for number, step in enumerate(scene.before):
            fails = scene.fails_before and number == len(scene.before) - 1
            self._make(step, fails=fails)
        assert plain_rows(self.template) == sorted(scene.old, key=repr)

    def _make(self, step: Step, *, fails: bool) -> None:
        if not fails:
            self.runner.run(step, str(self.template))
            return
        with injected(FaultPlan(str(self._folder / "failed"), match=PUBLISHING)):
            try:
                self.runner.run(step, f"crash:{self.template}")
            except Crash:
                return
        raise AssertionError("the write that should have died did not")

    def play(
        self, at: int | None = None, fault: Fault = Fault.BEFORE, match: str | None = None, *, looks: bool = False
    ) -> tuple[Path, FaultPlan]:
        """Copy the table, and return the copy and a fault plan for the write on it."""
        self._played += 1
        folder = self._folder / f"{self._played}"
        folder.mkdir()
        table = folder / "table"
        if self.template.exists():
            shutil.copytree(self.template, table)
        return table, FaultPlan(str(folder / "plan"), at, fault, match, looks=looks)

    def run(self, table: Path, plan: FaultPlan) -> None:
        """Run the scene's write with the plan's fault."""
        with injected(plan):
            self.runner.run(self.scene.write, f"crash:{table}")

    def run_later(self, table: Path) -> None:
        """Run the next write, by a process that knows nothing of the failed one, after its heartbeat has expired."""
        self.runner.run(Step("upsert", LATER, options=HEARTBEATS_EXPIRED), str(table))


def with_later(rows: tuple[Row, ...]) -> list[Row]:
    """Return the rows after the next write."""
    later = {row[0] for row in LATER}
    return sorted([*(row for row in rows if row[0] not in later), *LATER], key=repr)
