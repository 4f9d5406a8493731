"""Plays processes over a table of the model, and checks after every change of the table that it holds what its commits say."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, TypeAlias
from unittest.mock import patch

from penstock.commit import heartbeat
from penstock.commit.claims import has_requested_file
from penstock.errors import CommitUnknown, PenstockError, StorageError, WriteConflict
from penstock.filegroup.names import parse_base_name
from penstock.process import Process
from penstock.table.state import TableState, reload_timeline
from penstock.timeline import timeline
from penstock.timeline.commit_file import read_commit
from penstock.timeline.instant import WRITE_ACTIONS, parse_instant
from tests.model import table as model
from tests.model.schedule import Deviation, Died, Run, explore, play_at_random
from tests.model.store import ModelStorage
from tests.model.table import BASE, PARTITION, Rows, Write

NOON = datetime(2030, 1, 1, tzinfo=timezone.utc)
#: Errors with which a process may end: it has changed nothing, or says that it does not know.
ALLOWED = (PenstockError, StorageError, FileNotFoundError, model.Slow, Died)
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
    #: How many seconds the clock of each process is ahead.
    ahead_s: tuple[int, ...] = ()


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

    def now() -> datetime:
        time = NOON + timedelta(milliseconds=now_ms())
        return time + timedelta(milliseconds=next(world["ticks"])) if "ticks" in world else time

    def now_ms() -> int:
        """Return the clock of the process that asks. That of the storage stands at 0."""
        run = world["run"]
        number = run.number() if run is not None else None
        ahead_s = world.get("ahead_s", ())
        return 1000 * ahead_s[number] if number is not None and number < len(ahead_s) else world.get("late_ms", 0)

    def run_in_order(kernel: Callable[[Any], Any], tasks: Sequence[Any], *, waits: bool = False) -> list[Any]:
        return [kernel(task) for task in tasks]

    with ExitStack() as patches:
        for name, value in (("utc_now", now), ("local_now", now), ("now_ms", now_ms)):
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
            "services.clean.schedule",
            "services.rollback.run",
            "services.rollback.completed",
            "services.savepoint",
            "services.restore",
        ):
            patches.enter_context(patch(f"penstock.{module}.locked", lambda *_: nullcontext()))
        yield world


class Stage:
    """A scene with its table made, ready to be played by many schedules.

    Args:
        ticks: whether the clock goes on, so that no two processes take the same instant. Otherwise more schedules reach the same state.
    """

    def __init__(self, scene: Scene, world: dict[str, Any], *, ticks: bool = False) -> None:
        self.scene = scene
        self._world = world
        self._ticks = ticks
        self._world["ahead_s"] = scene.ahead_s
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
        self._world["late_ms"] = 0
        self._world["ids"] = {number: itertools.count() for number in (None, *range(len(steps)))}
        if self._ticks:
            self._world["ticks"] = itertools.count(1000 * (1 + bool(steps)))
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
        table.storage.clock_ms[0] = self._world["late_ms"] = 3_637_000  # type: ignore[attr-defined]
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
        model.run_log_compactions(table)
        with suppress(WriteConflict):  # a clustering was planned first, and owns a file group of the compaction
            model.compact(table)
    model.cluster(table)
    if table.is_merge_on_read:
        model.compact(table)


def _check_files(table: TableState, ledger: Ledger) -> None:
    """Check that each base file is of a commit, and that nothing is pending."""
    now = reload_timeline(table).timeline
    if now.pending:
        raise Violation(f"pending after recovery: {now.pending}")
    for write in now.writes:
        if not has_requested_file(table, write.file_name):
            raise Violation(f"{write.file_name} has no requested file")
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


def play_some(scene: Scene, *, count: int, failures: int = 0, seed: int = 1) -> int:
    """Play random schedules of a scene, with up to eight switches; return how many. Raise Violation at the first bad one."""
    with still_world() as world:
        stage = Stage(scene, world, ticks=True)
        runs = play_at_random(stage.play, count=count, switches=8, deaths=scene.deaths, failures=failures, seed=seed)
        return sum(1 for _ in runs)


def play_script(scene: Scene, *script: tuple[int, str, int]) -> Run:
    """Play a scene by a script. Raise Violation if it breaks a promise.

    Args:
        script: (process, words, next): when the process is about to make the next call with these words, the next process goes on.
    """
    with still_world() as world:
        stage = Stage(scene, world)
        run = stage.play(())
        deviations: list[Deviation] = []
        for process, words, then in script:
            first = deviations[-1][0] + 1 if deviations else 0
            at = next(
                number
                for number, step in enumerate(run.steps[first:], first)
                if step.process == process and all(word in step.call for word in words.split())
            )
            deviations.append((at, then))
            run = stage.play(deviations)
        return run
