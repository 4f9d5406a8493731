"""Compaction plans on the timeline: their file slices, when there is none, and how they are unscheduled."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.errors import CorruptFile, OptionError, StorageError, Unsupported, WriteConflict
from penstock.filegroup.names import PARTITION_METAFILE
from penstock.options import read_options
from penstock.services.compaction.plan import make_plan
from penstock.services.compaction.service import COMPACTION
from penstock.services.compaction.unschedule import repair, unschedule
from penstock.services.planned import schedule
from penstock.storage import MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.pending import list_compaction_plans
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, write_commit
from penstock.timeline.compaction_plan import CompactionPlan, read_compaction_plan, write_compaction_plan
from penstock.timeline.savepoint_file import Savepoint, write_savepoint
from penstock.timeline.store import load_timeline

BASE = "f-0_0-0-0_1.parquet"
FILES = [BASE, ".f-0_1.log.1_0-0-0", ".f-0_1.log.2_0-0-0"]
HOOKS: dict[str, Callable[[MemoryStorage, str], None]] = {}


class HookedStorage(MemoryStorage):
    """A storage that runs an action right before a call."""

    def write_new(self, path: str, data: bytes) -> None:
        if path.endswith(".compaction.requested") and (hook := HOOKS.pop("plan", None)):
            hook(self, path)
        super().write_new(path, data)

    def move_tree(self, path: str, to: str) -> None:
        if hook := HOOKS.get("move"):
            hook(self, path)
        super().move_tree(path, to)


@pytest.fixture(autouse=True)
def no_hooks() -> None:
    HOOKS.clear()


def table(files: list[str] = FILES, timeline: str = "1.deltacommit 2.deltacommit", kind: str = "MERGE_ON_READ") -> TableState:
    storage = HookedStorage(uuid.uuid4().hex)
    for name in [PARTITION_METAFILE, *files]:
        storage.write_new(f"/t/p/{name}", b"x" * 7)
    for name in timeline.split():
        add_instant(storage, name)
    config = TableConfig({"hoodie.table.name": "t", "hoodie.table.type": kind})
    return TableState(storage, "/t", config, read_options({}), load_timeline(storage, "/t"))


def add_instant(storage: MemoryStorage, name: str) -> None:
    storage.write_new(f"/t/.hoodie/{name}", write_commit(CommitMetadata(operation="UPSERT")))


def data_files(state: TableState) -> list[str]:
    return [f.name for f in state.storage.list("/t/p") if f.name != PARTITION_METAFILE]


def plans(state: TableState) -> list[str]:
    return [f.name for f in state.storage.list("/t/.hoodie") if ".compaction." in f.name]


def test_a_plan_names_the_newest_committed_slice_of_each_group_with_log_files() -> None:
    files = [
        *FILES,
        *["old-0_0-0-0_1.parquet", ".old-0_1.log.1_0-0-0", "old-0_0-0-0_2.parquet"],  # compacted before
        *["new-0_0-0-0_1.parquet", ".new-0_1.log.1_0-0-0", "new-0_0-0-0_9.parquet"],  # and not committed since
        *[".logs-0_2.log.2_0-0-0", ".logs-0_2.log.1_0-0-0", ".logs-0_2.log.10_0-0-0"],
        *["plain-0_0-0-0_1.parquet", ".dead-0_9.log.1_0-0-0"],
    ]
    found = {one.file_id: one for one in make_plan(table(files)).operations}
    assert set(found) == {"f-0", "new-0", "logs-0"}
    assert (found["f-0"].base_file, found["f-0"].base_instant) == (BASE, "1")
    assert found["f-0"].log_files == (".f-0_1.log.1_0-0-0", ".f-0_1.log.2_0-0-0")
    assert found["new-0"].base_file == "new-0_0-0-0_1.parquet"
    assert (found["logs-0"].base_file, found["logs-0"].base_instant) == (None, "2")
    assert found["logs-0"].log_files == (".logs-0_2.log.1_0-0-0", ".logs-0_2.log.2_0-0-0", ".logs-0_2.log.10_0-0-0")


def test_metrics_are_bytes_of_logs_and_whole_megabytes_of_reading_and_writing() -> None:
    state = table(["g-0_0-0-0_1.parquet", ".g-0_1.log.1_0-0-0", ".h-0_1.log.1_0-0-0"])
    with state.storage.create("/t/p/.g-0_1.log.2_0-0-0") as file:
        file.write(b"x" * (3 * 1024 * 1024 - 8))
    found = {one.file_id: one.metrics for one in make_plan(state).operations}
    assert found["g-0"] == {
        "TOTAL_LOG_FILES": 2.0,
        "TOTAL_LOG_FILES_SIZE": 3 * 1024 * 1024 - 1.0,
        "TOTAL_IO_READ_MB": 3.0,
        "TOTAL_IO_WRITE_MB": 0.0,
        "TOTAL_IO_MB": 3.0,
    }
    assert found["h-0"]["TOTAL_IO_WRITE_MB"] == 120.0


def test_a_plan_is_stored_as_requested_and_its_groups_are_not_planned_again() -> None:
    state = table()
    instant = schedule(state, COMPACTION, due=True)
    assert instant is not None
    assert plans(state) == [f"{instant.time}.compaction.requested"]
    stored = read_compaction_plan(state.storage.read(f"/t/.hoodie/{plans(state)[0]}"), "")
    assert [one.log_files for one in stored.operations] == [(".f-0_1.log.1_0-0-0", ".f-0_1.log.2_0-0-0")]
    state.storage.write_new(f"/t/p/.f-0_{instant.time}.log.1_0-0-0", b"")
    assert schedule(state, COMPACTION, due=True) is None


def test_without_a_reason_there_is_no_plan() -> None:
    assert schedule(table(), COMPACTION, due=False) is None  # two delta commits, five are asked for
    assert schedule(table([BASE]), COMPACTION, due=True) is None
    assert schedule(table([]), COMPACTION, due=True) is None


def test_the_trigger_of_the_options_makes_one_due() -> None:
    state = replace(table(), options=read_options({"hoodie.compact.inline.max.delta.commits": 2}))
    assert schedule(state, COMPACTION) is not None


@pytest.mark.parametrize("pending", ["20.deltacommit.requested", "20.deltacommit.inflight", "20.commit.requested"])
def test_there_is_no_plan_while_a_write_is_under_way(pending: str) -> None:
    state = table(timeline=f"1.deltacommit 2.deltacommit {pending}")
    with pytest.warns(RuntimeWarning, match=f"no compaction of /t is planned now: write {pending} is under way"):
        assert schedule(state, COMPACTION, due=True) is None
    assert plans(state) == []


def test_a_plan_that_missed_a_write_is_withdrawn() -> None:
    state = table()
    HOOKS["plan"] = lambda storage, path: add_instant(storage, "20.deltacommit.requested")
    with pytest.warns(RuntimeWarning, match="is under way"):
        assert schedule(state, COMPACTION, due=True) is None
    assert plans(state) == []


def test_a_plan_that_missed_a_commit_is_made_again() -> None:
    def another_writer_commits(storage: MemoryStorage, path: str) -> None:
        storage.write_new("/t/p/.f-0_1.log.3_0-0-0", b"")
        add_instant(storage, "20.deltacommit")

    state = table()
    HOOKS["plan"] = another_writer_commits
    assert schedule(state, COMPACTION, due=True) is not None
    (name,) = plans(state)
    assert len(read_compaction_plan(state.storage.read(f"/t/.hoodie/{name}"), "").operations[0].log_files) == 3


def test_a_copy_on_write_table_has_nothing_to_compact() -> None:
    with pytest.raises(Unsupported, match="Can only compact table of type MERGE_ON_READ and not COPY_ON_WRITE"):
        schedule(table(kind="COPY_ON_WRITE"), COMPACTION, due=True)


# Taking plans off


def planned(*later: str) -> tuple[TableState, str]:
    """A table with a plan, and log files on top of it."""
    state = table()
    instant = schedule(state, COMPACTION, due=True)
    assert instant is not None
    for name in later:
        state.storage.write_new(f"/t/p/.f-0_{instant.time}.log.{name}", name.encode())
    return state, instant.time


def test_log_files_on_top_of_a_plan_go_behind_those_of_the_slice_when_it_is_unscheduled() -> None:
    state, time = planned("1_0-0-0", "2_0-0-0", "10_0-0-0")
    unschedule(state, time)
    assert plans(state) == []
    logs = {f"/t/p/.f-0_1.log.{v}_0-0-0": text for v, text in ((3, b"1_0-0-0"), (4, b"2_0-0-0"), (5, b"10_0-0-0"))}
    assert {path: state.storage.read(path) for path in logs} == logs
    assert len(data_files(state)) == 6


@pytest.mark.parametrize("content", [b"", b"Obj\x01 torn"])
def test_a_torn_plan_stops_compactions_until_it_is_unscheduled(content: bytes) -> None:
    state, time = planned("1_0-0-0", "2_0-0-0")
    state.storage.replace(f"/t/.hoodie/{time}.compaction.requested", content)
    with pytest.raises(CorruptFile, match=r"is not a compaction plan.*or unschedule that compaction"):
        schedule(state, COMPACTION, due=True)
    unschedule(state, time)
    assert plans(state) == []
    logs = {f"/t/p/.f-0_1.log.{version}_0-0-0": text for version, text in ((3, b"1_0-0-0"), (4, b"2_0-0-0"))}
    assert {path: state.storage.read(path) for path in logs} == logs
    assert schedule(state, COMPACTION, due=True)


def test_a_plan_of_a_log_compaction_can_be_unscheduled_whether_torn_or_not() -> None:
    state = table()
    for content in (write_compaction_plan(CompactionPlan()), b"torn"):
        state.storage.write_new("/t/.hoodie/3.logcompaction.requested", content)
        unschedule(state, "3")
        assert [f.name for f in state.storage.list("/t/.hoodie") if "compaction" in f.name] == []
    assert data_files(state) == data_files(table())


@pytest.mark.parametrize("at", [1, 2])
def test_unscheduling_that_was_interrupted_is_finished_before_the_next_plan(at: int) -> None:
    state, time = planned("1_0-0-0", "2_0-0-0")
    calls = []

    def fail(storage: MemoryStorage, path: str) -> None:
        calls.append(path)
        if len(calls) == at:
            raise StorageError("gone")

    HOOKS["move"] = fail
    with pytest.raises(StorageError):
        unschedule(state, time)
    assert len(plans(state)) == 1
    del HOOKS["move"]
    instant = schedule(state, COMPACTION, due=True)
    assert instant is not None
    ((_, plan),) = list_compaction_plans(replace(state, timeline=load_timeline(state.storage, "/t")))
    assert instant.time >= time  # in memory all this may take less than a millisecond
    assert [state.storage.read(f"/t/p/{name}") for name in plan.operations[0].log_files[2:]] == [b"1_0-0-0", b"2_0-0-0"]


def test_a_compaction_that_runs_is_not_unscheduled() -> None:
    state, time = planned()
    state.storage.write_new(f"/t/.hoodie/{time}.compaction.inflight", b"")
    with pytest.raises(OptionError, match="has begun"):
        unschedule(state, time)


def test_unscheduling_an_unknown_plan_is_an_error() -> None:
    state, time = planned()
    with pytest.raises(OptionError, match=f"no pending compaction at 7 .* pending: {time}"):
        unschedule(state, "7")


def test_nothing_is_unscheduled_while_a_write_is_under_way() -> None:
    state, time = planned()
    add_instant(state.storage, "99990101000000000.deltacommit.requested")  # type: ignore[arg-type]
    with pytest.raises(WriteConflict, match="may count on compaction"):
        unschedule(state, time)
    assert len(plans(state)) == 1


def test_repair_puts_log_files_that_a_plan_does_not_name_on_top_of_it() -> None:
    state, time = planned("1_0-0-0")
    state.storage.write_new("/t/p/.f-0_1.log.3_0-0-0", b"moved by halves")
    assert repair(state, time) == [f".f-0_{time}.log.2_0-0-0"]
    assert repair(state, time) == []
    assert state.storage.read(f"/t/p/.f-0_{time}.log.2_0-0-0") == b"moved by halves"


def test_repair_says_which_file_of_a_plan_is_missing() -> None:
    state, time = planned()
    state.storage.delete("/t/p/.f-0_1.log.2_0-0-0")
    with pytest.raises(CorruptFile, match=r"/t/p/\.f-0_1\.log\.2_0-0-0 is missing, which a compaction plan names"):
        repair(state, time)


def test_a_plan_stays_as_long_as_a_savepoint_names_log_files_on_top_of_it() -> None:
    state = table()
    instant = schedule(state, COMPACTION, due=True)
    assert instant is not None
    log = f".f-0_{instant.time}.log.1_0-0-0"
    state.storage.write_new(f"/t/p/{log}", b"")
    state.storage.write_new("/t/.hoodie/3.savepoint", write_savepoint(Savepoint("3", {"p": (BASE, log)})))
    with pytest.raises(OptionError, match=r"savepoint 3 of /t holds log files.*delete_savepoint\('3'\)"):
        unschedule(state, instant.time)
    assert log in data_files(state)
    state.storage.delete("/t/.hoodie/3.savepoint")
    unschedule(state, instant.time)
    assert plans(state) == []
