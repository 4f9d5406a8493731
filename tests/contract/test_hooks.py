"""The contract of hooks: what every commit of a write or table service does with the hooks of its table.

A toy hook that records its calls is registered by a line in `HOOKS`, and by nothing else. A real hook joins the contract with a
test that runs `check_hook_may_run_twice` over it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import options as o
from penstock.commit.run_hooks import run_after_hooks
from penstock.door.expire import expire_partitions
from penstock.door.write import write as write_rows
from penstock.errors import OptionError, PenstockError
from penstock.hooks import HOOKS, Hook, HookContext, HookOutcome, PendingCommit, PublishedCommit
from penstock.progress import Stages
from penstock.timeline.commit_file import CommitMetadata, read_commit
from penstock.timeline.instant import Action
from penstock.timeline.store import read_metadata
from tests.kit.templates import Templates
from tests.table.tables import BULK, OPERATION, SIX, TRIPS, snapshot, state_of, timeline, trips, write
from tests.unit.services.histories import History

QUIET = {"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}


class Refused(PenstockError):
    """What the toy hook raises."""


@dataclass
class Recorder:
    """The calls of a toy hook, and what the hook is to raise."""

    before: list[tuple[HookContext, PendingCommit]] = field(default_factory=list)
    after: list[tuple[HookContext, PublishedCommit]] = field(default_factory=list)
    #: Of every call, before or after, the timeline's files at that moment.
    timelines: list[list[str]] = field(default_factory=list)
    refuses: bool = False
    fails: bool = False

    def make_hook(self, context: HookContext) -> Hook:
        """Return the hook of a table. This is the registered factory."""
        return RecordingHook(self, context)


@dataclass
class RecordingHook(Hook):
    """A hook that records its calls."""

    recorder: Recorder
    context: HookContext

    def before_commit(self, commit: PendingCommit) -> None:
        """Record the call, then raise if the recorder says so."""
        self.recorder.before.append((self.context, commit))
        self.recorder.timelines.append(_timeline_files(self.context))
        if self.recorder.refuses:
            raise Refused("the rows are not good enough")

    def after_commit(self, commit: PublishedCommit) -> None:
        """Record the call, then raise if the recorder says so."""
        self.recorder.after.append((self.context, commit))
        self.recorder.timelines.append(_timeline_files(self.context))
        if self.recorder.fails:
            raise RuntimeError("the endpoint does not answer\nat a line of a stack")


def _timeline_files(context: HookContext) -> list[str]:
    table = context.table
    return [file.name for file in table.storage.list(f"{table.base_path}/.hoodie") if file.name[0].isdigit()]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """A registered toy hook that no other code knows."""
    recorder = Recorder()
    monkeypatch.setitem(HOOKS, "recorder", recorder.make_hook)
    yield recorder


@dataclass(frozen=True)
class Scene:
    """A commit of one kind, on a table that is ready for it."""

    name: str
    run: Callable[[penstock.Table, Any], object]
    operation: str
    action: Action
    options: dict[str, str] = field(default_factory=dict)
    #: What has to happen to the table first.
    prepare: Callable[[penstock.Table, Any], object] | None = None


def _newer(spark: Any) -> Any:
    return trips(spark, ("a", "berlin", 9, 9.5), ("n", "oslo", 1, 0.5))


def _upsert(table: penstock.Table, spark: Any) -> object:
    return table.upsert(_newer(spark))


def _insert(table: penstock.Table, spark: Any) -> object:
    return table.insert(_newer(spark))


def _bulk_insert(table: penstock.Table, spark: Any) -> object:
    return table.bulk_insert(_newer(spark))


def _delete(table: penstock.Table, spark: Any) -> object:
    return table.delete(trips(spark, SIX[0]))


def _insert_overwrite(table: penstock.Table, spark: Any) -> object:
    return table.insert_overwrite(_newer(spark))


def _delete_partition(table: penstock.Table, spark: Any) -> object:
    return table.delete_partitions("paris")


def _overwrite(table: penstock.Table, spark: Any) -> object:
    return write(_newer(spark), table.path, BULK | QUIET, mode="overwrite")


def _compact(table: penstock.Table, spark: Any) -> object:
    return table.compact()


def _compact_logs(table: penstock.Table, spark: Any) -> object:
    return table.compact_logs({"hoodie.log.compaction.blocks.threshold": 1})


def _cluster(table: penstock.Table, spark: Any) -> object:
    return table.cluster()


SCENES = (
    Scene("upsert", _upsert, "UPSERT", Action.COMMIT),
    Scene("insert", _insert, "INSERT", Action.COMMIT),
    Scene("bulk insert", _bulk_insert, "BULK_INSERT", Action.COMMIT),
    Scene("delete", _delete, "DELETE", Action.COMMIT),
    Scene("insert overwrite", _insert_overwrite, "INSERT_OVERWRITE", Action.REPLACE_COMMIT),
    Scene("delete partition", _delete_partition, "DELETE_PARTITION", Action.REPLACE_COMMIT),
    Scene("overwrite", _overwrite, "BULK_INSERT", Action.COMMIT),
    Scene("clustering", _cluster, "CLUSTER", Action.REPLACE_COMMIT),
    Scene("merge-on-read upsert", _upsert, "UPSERT", Action.DELTA_COMMIT, MERGE_ON_READ),
    Scene("compaction", _compact, "COMPACT", Action.COMMIT, MERGE_ON_READ, prepare=_upsert),
    Scene("log compaction", _compact_logs, "LOG_COMPACT", Action.DELTA_COMMIT, MERGE_ON_READ, prepare=_upsert),
)
each_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name.replace(" ", "-"))
#: Run a plan of their own. The plan outlives a run that a hook refused.
SERVICES = ("clustering", "compaction", "log compaction")


@pytest.fixture
def table(spark: Any, table_path: str, templates: Templates, scene: Scene) -> penstock.Table:
    """Three partitions of two rows each, ready for the commit of the scene, written with hooks off."""
    options = QUIET | scene.options

    def make(path: str) -> None:
        write(trips(spark, *SIX).coalesce(1), path, BULK | options)
        if scene.prepare is not None:
            scene.prepare(penstock.Table.open(path, spark, options), spark)

    # The recorder of a test may be on while the template is written: take it off for that.
    name = f"hooks-{'merge-on-read' if scene.options else 'copy-on-write'}-{scene.prepare is not None}"
    hooks_before = dict(HOOKS)
    HOOKS.clear()
    try:
        templates.copy(name, make, table_path)
    finally:
        HOOKS.update(hooks_before)
    return penstock.Table.open(table_path, spark, options)


def completed_file(path: str, instant: str, action: Action) -> CommitMetadata:
    file = Path(path, ".hoodie", f"{instant}.{action.value}")
    return read_commit(file.read_bytes(), file.name)


@each_scene
def test_a_hook_sees_the_commit_before_and_after_it_is_published(
    spark: Any, table: penstock.Table, scene: Scene, recorder: Recorder
) -> None:
    scene.run(table, spark)
    ((before_context, pending),) = recorder.before
    ((after_context, published),) = recorder.after
    assert (pending.operation, pending.action) == (scene.operation, scene.action)
    assert (published.instant, published.action, published.operation) == (pending.instant, scene.action, scene.operation)
    completed = f"{pending.instant}.{scene.action.value}"
    timeline_before, timeline_after = recorder.timelines
    assert (completed in timeline_before, completed in timeline_after) == (False, True)
    assert pending.metadata is published.metadata
    on_disk = completed_file(table.path, pending.instant, scene.action)
    assert on_disk.stats == pending.metadata.stats
    assert on_disk.extra == pending.metadata.extra
    assert (on_disk.replaced or {}) == (pending.metadata.replaced or {})
    assert (on_disk.operation, on_disk.compacted) == (pending.metadata.operation, pending.metadata.compacted)
    assert after_context.table.base_path == table.path
    assert before_context.spark is after_context.spark is spark


@each_scene
def test_the_new_files_exist_before_the_commit(spark: Any, table: penstock.Table, scene: Scene, monkeypatch: Any) -> None:
    missing: list[str] = []

    class Reader(Hook):
        def __init__(self, context: HookContext) -> None:
            self.table = context.table

        def before_commit(self, commit: PendingCommit) -> None:
            paths = [stat.path for stat in commit.metadata.stats if stat.path]
            missing.extend(path for path in paths if self.table.storage.stat(f"{self.table.base_path}/{path}") is None)

    monkeypatch.setitem(HOOKS, "reader", Reader)
    scene.run(table, spark)
    assert missing == []


@each_scene
def test_an_error_before_the_commit_leaves_the_old_table(
    spark: Any, table: penstock.Table, scene: Scene, recorder: Recorder
) -> None:
    rows, files = snapshot(spark, table.path), state_of(table.path)
    recorder.refuses = True
    with pytest.raises(Refused, match="not good enough"):
        scene.run(table, spark)
    assert len(recorder.before) == 1
    assert recorder.after == []
    assert snapshot(spark, table.path) == rows
    new_files = state_of(table.path).keys() - files.keys()
    if scene.name in SERVICES:  # the plan stays, for a run that no hook refuses
        assert [name.rpartition(".")[2] for name in new_files] == ["requested"]
    else:
        assert state_of(table.path) == files
    recorder.refuses = False
    scene.run(table, spark)
    assert {commit.operation for _, commit in recorder.after} == {scene.operation}
    if scene.name in SERVICES:  # the plan was run again, so the hook sees its instant a second time
        assert recorder.before[1][1].instant == recorder.before[0][1].instant


@each_scene
def test_an_error_after_the_commit_leaves_the_new_table_and_is_reported(
    spark: Any, table: penstock.Table, scene: Scene, recorder: Recorder
) -> None:
    recorder.fails = True
    with pytest.warns(
        RuntimeWarning, match="is done, do not run it again; but hook 'recorder' failed after it: RuntimeError: the"
    ):
        scene.run(table, spark)
    ((_, published),) = recorder.after
    assert f"{published.instant}.{scene.action.value}" in timeline(table.path)
    pending = [name for name in timeline(table.path) if name.startswith(published.instant) and name.endswith("inflight")]
    assert len(pending) == 1  # only the completed instant's own
    penstock.Table.open(table.path, spark).read().collect()


def test_a_table_whose_first_commit_a_hook_refuses_is_not_created(spark: Any, table_path: str, recorder: Recorder) -> None:
    recorder.refuses = True
    with pytest.raises(Refused):
        write(trips(spark, *SIX), table_path, BULK | QUIET)
    assert not Path(table_path).exists()


def test_hooks_run_in_the_order_of_the_table_and_all_after_hooks_run(
    spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    class Named(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        def before_commit(self, commit: PendingCommit) -> None:
            calls.append(f"{self.name} before")

        def after_commit(self, commit: PublishedCommit) -> None:
            calls.append(f"{self.name} after")
            if self.name == "first":
                raise ValueError("no answer")

    monkeypatch.setitem(HOOKS, "first", lambda context: Named("first"))
    monkeypatch.setitem(HOOKS, "off", lambda context: None)
    monkeypatch.setitem(HOOKS, "second", lambda context: Named("second"))
    with pytest.warns(RuntimeWarning, match="'first' failed"):
        commit = write_rows(spark, trips(spark, *SIX), table_path, BULK | QUIET, "append")
    assert calls == ["first before", "second before", "first after", "second after"]
    assert commit is not None
    assert commit.outcomes == (HookOutcome("first", "ValueError: no answer"), HookOutcome("second"))


def test_a_hook_that_cannot_be_created_after_the_commit_does_not_fail_the_write(
    spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[HookContext] = []

    def make_once(context: HookContext) -> Hook:
        made.append(context)
        if len(made) > 2:  # made before the write begins, and before the commit
            raise RuntimeError("no connection")
        return Hook()

    monkeypatch.setitem(HOOKS, "once", make_once)
    with pytest.warns(RuntimeWarning, match="no connection"):
        write(trips(spark, *SIX), table_path, BULK | QUIET)
    assert snapshot(spark, table_path) == sorted(SIX, key=repr)


def test_a_hook_whose_options_are_wrong_is_found_before_anything_is_written(
    spark: Any, table_path: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(context: HookContext) -> Hook:
        raise OptionError("the address is missing")

    monkeypatch.setitem(HOOKS, "wrong", refuse)
    with pytest.raises(OptionError, match="the address is missing"):
        write(trips(spark, *SIX), table_path, BULK | QUIET)
    assert recorder.before == []
    assert not Path(table_path).exists()


def test_a_factory_may_return_several_hooks_by_name(spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOOKS, "several", lambda context: {"one": Hook(), "two": Hook()})
    commit = write_rows(spark, trips(spark, *SIX), table_path, BULK | QUIET, "append")
    assert commit is not None
    assert commit.outcomes == (HookOutcome("one"), HookOutcome("two"))


def test_a_hook_is_chosen_by_the_options_of_the_table(spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()

    def make_if_asked(context: HookContext) -> Hook | None:
        return recorder.make_hook(context) if context.table.options[o.OPERATION] == "upsert" else None

    monkeypatch.setitem(HOOKS, "callback", make_if_asked)
    write(trips(spark, *SIX), table_path, BULK | QUIET)
    assert recorder.before == []
    write(trips(spark, SIX[0]), table_path, {**TRIPS, **QUIET, OPERATION: "upsert"})
    assert [commit.operation for _, commit in recorder.before] == ["UPSERT"]


def test_a_write_that_publishes_nothing_calls_no_hook(spark: Any, table_path: str, recorder: Recorder) -> None:
    write(trips(spark, *SIX), table_path, BULK | QUIET)
    recorder.before.clear()
    nothing = {**TRIPS, **QUIET, OPERATION: "upsert", "hoodie.allow.empty.commit": "false"}
    write(trips(spark), table_path, nothing)
    assert recorder.before == []


def test_a_service_without_a_session_calls_hooks_too(recorder: Recorder) -> None:
    history = History().commit(1, ["old/g-0"])
    table = history.table(partition_ttl_strategy_days_retain=10)
    commit = expire_partitions(table, Stages("", "off"))
    assert commit is not None
    assert commit.outcomes == (HookOutcome("recorder"),)
    ((context, pending),) = recorder.before
    assert (context.spark, pending.operation, pending.action) == (None, "DELETE_PARTITION", Action.REPLACE_COMMIT)
    newest = history.table().timeline.writes[-1]
    assert read_metadata(history.storage, "/t", newest).replaced == pending.metadata.replaced == {"old": ("g-0",)}


def check_hook_may_run_twice(hook: Hook, context: HookContext, commit: PublishedCommit, effect: Callable[[], object]) -> None:
    """Check that a second call for one commit, as after a crash, has the effect of one.

    Args:
        effect: returns what the hook has changed elsewhere.
    """
    HOOKS["checked"] = lambda _: hook
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run_after_hooks(context, commit)
            once = effect()
            run_after_hooks(context, commit)
        assert effect() == once
    finally:
        del HOOKS["checked"]


def test_a_hook_that_remembers_the_instant_may_run_twice() -> None:
    announced: dict[str, str] = {}

    class Announcer(Hook):
        def after_commit(self, commit: PublishedCommit) -> None:
            announced[commit.instant] = commit.operation

    context = HookContext(History().commit(1, ["p/g-0"]).table())
    commit = PublishedCommit("20240101000000001", Action.COMMIT, CommitMetadata(operation="UPSERT"))
    check_hook_may_run_twice(Announcer(), context, commit, lambda: dict(announced))
    assert announced == {"20240101000000001": "UPSERT"}
