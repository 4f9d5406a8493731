"""Plays processes over a table of the model, and checks after every change of the table that it holds what its commits say."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, TypeAlias
from unittest.mock import patch

from penstock.commit import heartbeat
from penstock.errors import CommitUnknown, PenstockError
from penstock.filegroup.names import parse_base_name
from penstock.process import Process
from penstock.table.state import TableState, reload_timeline
from penstock.timeline import timeline
from penstock.timeline.commit_file import read_commit
from penstock.timeline.instant import WRITE_ACTIONS, parse_instant
from tests.model import table as model
from tests.model.schedule import Deviation, Died, Run, explore
from tests.model.store import ModelStorage
from tests.model.table import BASE, PARTITION, Rows, Write

NOON = datetime(2030, 1, 1, tzinfo=timezone.utc)
#: Errors with which a process may end: it has changed nothing, or says that it does not know.
ALLOWED = (PenstockError, FileNotFoundError, model.Slow, Died)
_TIMELINE = f"{BASE}/.hoodie/"
_DATA = f"{BASE}/{PARTITION}/"


#: What a process does: a write, a table service, or several of them.
Step: TypeAlias = "Write | Callable[[TableState], None] | tuple[Step, ...]"


class Violation(AssertionError):
    """The table does not hold what its commits say."""


@dataclass(frozen=True)
class Scene:
    """A table and what several processes do to it at once."""

    name: str
    processes: tuple[Step, ...]
    before: tuple[Step, ...] = ()
    merge_on_read: bool = False
    weak_put: bool = False
    switches: int = 2
    deaths: int = 0
    #: Options besides `model.OPTIONS`.
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Ledger:
    """What the completed files of a table say, in the order in which they appeared."""

    storage: ModelStorage
    table: TableState
    commits: dict[str, Write] = field(default_factory=dict)
    problem: str = ""
    #: What `check` has found, by the sum of all files and the commits.
    known: dict[tuple[object, ...], str] = field(default_factory=dict)

    def look(self, path: str) -> None:
        """Look at the table after a file at `path` was changed."""
        if path.startswith(_TIMELINE) and "/" not in path[len(_TIMELINE) :]:
            instant = parse_instant(path[len(_TIMELINE) :])
            if instant is None or not instant.is_completed or instant.action not in WRITE_ACTIONS:
                return
            if path not in self.storage.files:
                start = reload_timeline(self.table).timeline.start
                if start is None or instant.time >= start:  # otherwise it is archived
                    self.commits.pop(instant.time, None)
            else:
                content = self.storage.files[path][0]
                named = read_commit(content, path).extra.get("model")
                self.commits[instant.time] = Write(*json.loads(named)) if named else Write("service")
        elif not path.startswith(_DATA) or path.endswith("metadata"):
            return
        self.check(path)

    def check(self, after: str) -> None:
        """Compare the rows of the table with what its commits say. The first difference is kept: this runs inside of a process."""
        key = (self.storage.sums[0], *self.commits)
        if self.problem or key in self.known:
            self.problem = self.problem or self.known[key]
            return
        self._compare(after)
        self.known[key] = self.problem

    def _compare(self, after: str) -> None:
        """Read the table, and note a difference from its commits."""
        rows: Rows = {}
        for operation in self.commits.values():
            rows = operation.apply(rows)
        try:
            found = model.read_rows(self.table)
        except Exception as e:  # a reader that fails is a difference too
            self.problem = f"after {after}: a query fails: {e!r}"
            return
        if found != sorted(rows.items()):
            self.problem = f"after {after}: the table has {found}, its commits say {sorted(rows.items())}: {self.commits}"


@contextmanager
def still_world() -> Iterator[dict[str, Any]]:
    """Replace clock, ids, threads and locks, so that a run depends on its schedule only."""
    world: dict[str, Any] = {}
    me = Process("here", "here", 1, "1")

    def new_uuid() -> str:
        run = world["run"]
        number = run.number() if run is not None else None
        return f"{number}-{next(world['ids'][number])}"

    def run_in_order(kernel: Callable[[Any], Any], tasks: Sequence[Any], *, waits: bool = False) -> list[Any]:
        return [kernel(task) for task in tasks]

    with ExitStack() as patches:
        for name, value in (("utc_now", lambda: NOON), ("local_now", lambda: NOON), ("now_ms", lambda: 0)):
            patches.enter_context(patch(f"penstock.clock.{name}", value))
        patches.enter_context(patch("penstock.clock.monotonic_s", lambda: 0.0))
        patches.enter_context(patch("penstock.clock.sleep_s", lambda _: None))
        patches.enter_context(patch("penstock.clock.new_uuid", new_uuid))
        patches.enter_context(patch("penstock.commit.heartbeat.this_process", lambda: me))
        patches.enter_context(patch("penstock.commit.heartbeat.Heartbeat.start", lambda _: None))
        patches.enter_context(patch("penstock.workers.runner.run_on_driver", run_in_order))
        patches.enter_context(patch("penstock.services.archive.run.run_on_driver", run_in_order))
        # The same names are listed again and again.
        parse, build = lru_cache(None)(timeline.parse_instant), lru_cache(100_000)(timeline.Timeline.from_names)

        def from_names(names: list[str], folders: list[str]) -> timeline.Timeline:
            return build(tuple(names), tuple(folders))

        patches.enter_context(patch.object(timeline, "parse_instant", parse))
        patches.enter_context(patch.object(timeline.Timeline, "from_names", from_names))
        for module in (
            "commit.change",
            "services.archive.run",
            "services.stored_plans",
            "services.rollback.run",
            "services.rollback.completed",
            "services.savepoint",
            "services.restore",
        ):
            patches.enter_context(patch(f"penstock.{module}.locked", lambda *_: nullcontext()))
        yield world


class Stage:
    """A scene with its table made, ready to be played by many schedules."""

    def __init__(self, scene: Scene, world: dict[str, Any]) -> None:
        self.scene = scene
        self._world = world
        storage, ledger = self._make({})
        self._play(Run((), lambda: 0), storage, None, ())
        table = model.make_table(storage, merge_on_read=scene.merge_on_read, options=scene.options)
        ledger.table = replace(table, storage=ModelStorage(files=storage.files))
        for step in scene.before:
            _do(step, table)
        assert not ledger.problem, ledger.problem
        self._files = dict(storage.files)
        self._commits = dict(ledger.commits)
        self._table = table
        self._known: dict[tuple[object, ...], str] = {}
        self._judged: set[tuple[object, ...]] = set()

    def _make(self, files: dict[str, tuple[bytes, int]]) -> tuple[ModelStorage, Ledger]:
        storage = ModelStorage(weak_put=self.scene.weak_put, files=dict(files))
        ledger = Ledger(storage, None)  # type: ignore[arg-type]
        storage.watchers.append(ledger.look)
        return storage, ledger

    def _play(self, run: Run, storage: ModelStorage, table: TableState | None, steps: Sequence[Any]) -> None:
        heartbeat._BEATING.clear()
        self._world["run"] = run
        self._world["ids"] = {number: itertools.count() for number in (None, *range(len(steps)))}
        storage.runs[:] = [run]
        if table is not None:
            run.play([lambda step=step: _do(step, table) for step in steps])  # type: ignore[misc]

    def play(self, deviations: Sequence[Deviation]) -> Run:
        """Play a schedule. Raise Violation if the table is not what its commits say, at any time or after recovery."""
        storage, ledger = self._make(self._files)
        table = replace(self._table, storage=storage)
        ledger.table = replace(table, storage=ModelStorage(files=storage.files))
        ledger.commits.update(self._commits)
        ledger.known = self._known
        run = Run(deviations, lambda: storage.sums[0])
        self._play(run, storage, table, self.scene.processes)
        try:
            self._judge(run, ledger, table)
        except Violation as e:
            lines = [f"{step.process}: {step.call}" for step in run.steps]
            marked = dict(deviations)
            shown = [f"{'->' if at in marked else '  '} {at} {line}" for at, line in enumerate(lines)]
            raise Violation("\n".join([f"{self.scene.name} {list(deviations)}: {e}", f"{run.errors}", *shown])) from None
        return run

    def _judge(self, run: Run, ledger: Ledger, table: TableState) -> None:
        """Check the outcome of each process, then recover and check the table once more."""
        for number, error in run.errors.items():
            if not isinstance(error, ALLOWED):
                raise Violation(f"process {number} failed with {error!r}") from error
        if ledger.problem:
            raise Violation(ledger.problem)
        outcomes = tuple(type(run.errors.get(number)) for number in range(len(self.scene.processes)))
        end = (ledger.storage.sums[0], *ledger.commits, *outcomes)
        if end in self._judged:
            return
        self._judged.add(end)
        table.storage.runs.clear()  # type: ignore[attr-defined]
        heartbeat._BEATING.clear()
        self._world["run"] = None
        self._world["ids"] = {None: itertools.count(1000)}
        try:
            recover(table)
        except ALLOWED as e:
            raise Violation(f"recovery fails: {e!r}") from e
        ledger.check("recovery")
        if ledger.problem:
            raise Violation(ledger.problem)
        self._check_outcomes(run, ledger)
        _check_files(table, ledger)

    def _check_outcomes(self, run: Run, ledger: Ledger) -> None:
        """Check that each write that succeeded is committed once, and none that failed is."""
        undoes = any(step in (model.roll_back_newest, model.restore_saved) for step in self.scene.processes)
        counts = Counter(operation.token for operation in ledger.commits.values())
        for number, step in enumerate(self.scene.processes):
            last = step[-1] if isinstance(step, tuple) else step
            if not isinstance(last, Write):
                continue
            error = run.errors.get(number)
            count = counts[last.token]
            if error is None and count != 1 and not undoes:
                raise Violation(f"{last} succeeded and is committed {count} times")
            if error is not None and count and not isinstance(error, CommitUnknown | Died):
                raise Violation(f"{last} failed with {error!r} and is committed")


def _do(step: Step, table: TableState) -> None:
    """Run one process: an operation, several one after the other, or a table service."""
    if isinstance(step, tuple):
        for each in step:
            _do(each, table)
    elif isinstance(step, Write):
        model.write(table, step)
    else:
        step(reload_timeline(table))


def recover(table: TableState) -> None:
    """Do what a later writer does: complete the last claim, roll back dead writers, run pending plans."""
    model.write(table, Write("upsert", "late", "late"))
    model.run_clean(table)
    if table.is_merge_on_read:
        model.compact(table)
    model.cluster(table)


def _check_files(table: TableState, ledger: Ledger) -> None:
    """Check that each base file is of a commit, and that nothing is pending."""
    pending = reload_timeline(table).timeline.pending
    if pending:
        raise Violation(f"pending after recovery: {pending}")
    for file in table.storage.list(f"{BASE}/{PARTITION}"):
        base = parse_base_name(file.name)
        if base is not None and base.instant not in ledger.commits:
            raise Violation(f"no commit explains {file.name}")


def play_all(scene: Scene, *, every: int = 1, switches: int | None = None) -> int:
    """Play all schedules of a scene; return how many. Raise Violation at the first that breaks a promise."""
    with still_world() as world:
        stage = Stage(scene, world)
        count = 0
        for _ in explore(stage.play, switches=scene.switches if switches is None else switches, deaths=scene.deaths, every=every):
            count += 1
        return count
