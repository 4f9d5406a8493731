"""A fault at every storage call of every kind of write leaves the old table or the new one.

After each fault the next write, which knows nothing of it, succeeds, returns the right rows and leaves nothing behind.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest

from penstock.commit import markers
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import CommitUnknown, PenstockError, WriteConflict
from penstock.options import read_options
from penstock.services.rollback.failed_writes import roll_back_failed
from penstock.storage import LocalStorage
from penstock.table.config import read_config, write_config
from penstock.table.state import open_table
from tests.crash.every_call import CRASHES
from tests.crash.scenes import (
    CHANGED,
    CHANGES,
    FIRST,
    HEARTBEATS_EXPIRED,
    NEW,
    PUBLISHING,
    SCENES,
    SPREAD,
    Runner,
    Scene,
    Stage,
    Step,
    with_later,
)
from tests.kit.faults import Crash, Fault, FaultPlan, FaultyStorage, calls_to_fail, injected
from tests.kit.plain import Row, damaged_metafiles, orphans, pending, plain_rows, rows_of_columns
from tests.kit.readers import hudi_rs_rows
from tests.table.tables import OPERATION, TRIPS, Trip, state_of, trips, write

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module", params=SCENES, ids=lambda scene: scene.name.replace(" ", "_"))
def stage(request: pytest.FixtureRequest, runner: Runner, folder: Path) -> Iterator[Stage]:
    with TemporaryDirectory(dir=folder) as made:
        yield Stage(request.param, runner, Path(made, "stage"))


@pytest.fixture(scope="module")
def calls(stage: Stage) -> list[str]:
    """The calls of the write when nothing goes wrong."""
    table, plan = stage.play()
    stage.run(table, plan)
    found = plan.calls
    assert _check(stage, table, "nothing went wrong") == "new"
    return found


def test_the_storage_calls_of_a_write_are_all_counted(stage: Stage, calls: list[str]) -> None:
    assert len(calls) >= stage.scene.calls_min
    assert any(call.startswith("write_new") and call.endswith("commit" if stage.scene.write else "rollback") for call in calls)


@pytest.mark.parametrize("fault", CRASHES)
def test_a_crash_at_any_call_leaves_the_old_table_or_the_new_one(stage: Stage, calls: list[str], fault: Fault) -> None:
    met = set()
    for at in calls_to_fail(calls, fault):
        table, plan = stage.play(at, fault)
        with pytest.raises(Crash):
            stage.run(table, plan)
        met.add(_check(stage, table, f"{fault.value} {plan.calls[at]}", ask_others=at % 6 == 5))
    assert met == {"old", "new"} or fault is Fault.TORN


@pytest.mark.parametrize("fault", [Fault.FAILS, Fault.FAILS_AFTER, Fault.TWICE])
def test_after_an_error_at_any_call_the_table_is_new_if_the_write_returned_and_old_if_it_raised(
    stage: Stage, calls: list[str], fault: Fault
) -> None:
    for at in range(len(calls)):
        _run_with_an_error(stage, at, fault)


def test_after_any_failed_read_the_table_is_new_if_the_write_returned_and_old_if_it_raised(stage: Stage) -> None:
    table, plan = stage.play(looks=True)
    stage.run(table, plan)
    looks = plan.calls
    assert len(looks) >= 5
    for at in range(len(looks)):
        _run_with_an_error(stage, at, Fault.FAILS, looks=True)


def _run_with_an_error(stage: Stage, at: int, fault: Fault, *, looks: bool = False) -> None:
    """Run the write with an error. Check that the table is the new one if the write returned and the old one if it raised."""
    table, plan = stage.play(at, fault, looks=looks)
    error: PenstockError | None = None
    try:
        stage.run(table, plan)
    except PenstockError as e:
        error = e
    found = _check(stage, table, f"{fault.value} {plan.calls[at]}: {error!r}")
    if not isinstance(error, CommitUnknown) and stage.scene.write:
        assert found == ("new" if error is None else "old"), f"{plan.calls[at]}: {error!r}"


def _check(stage: Stage, table: Path, what: str, *, ask_others: bool = False) -> str:
    """Check the table after a fault and after the next write. Return whether the table had the old or the new rows."""
    scene, rows = stage.scene, plain_rows(table)
    states = {"old": sorted(scene.old, key=repr), "new": sorted(scene.new, key=repr)}
    found = next((name for name, state in states.items() if rows == state), None)
    assert found, f"{what}: {rows}"
    if ask_others and rows:
        assert _rows_by_hudi_rs(table) == rows, what
    stage.run_later(table)
    if scene.write is None:  # a rollback that was begun is finished by the next write
        assert plain_rows(table) in (with_later(scene.old), with_later(scene.new)), what
    else:
        assert plain_rows(table) == with_later(scene.old if found == "old" else scene.new), what
    if ask_others:
        assert _rows_by_hudi_rs(table) == plain_rows(table), what
    assert orphans(table) == [], what
    assert pending(table) == [], what
    assert damaged_metafiles(table) == [], what
    shutil.rmtree(table.parent)
    return found


def _rows_by_hudi_rs(table: Path) -> list[Row]:
    return sorted(rows_of_columns([hudi_rs_rows(table).select(["id", "city", "ts", "fare"])]), key=repr)


@pytest.fixture(scope="module")
def in_tasks(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """An upsert that runs in Spark's tasks."""
    step = Step("upsert", CHANGES, options={"penstock.small.batch.rows": 0})
    folder = tmp_path_factory.mktemp("in_tasks")
    return Stage(Scene("upsert", SPREAD, step, FIRST, CHANGED, 20), Runner(spark, in_tasks=True), folder / "stage")


@pytest.mark.parametrize("at", [3, 8, 12, 18, 22])
def test_a_crash_in_a_task_of_spark_leaves_the_old_table(in_tasks: Stage, at: int) -> None:
    table, plan = in_tasks.play(at, Fault.AFTER)
    with pytest.raises(Crash):
        in_tasks.run(table, plan)
    assert _check(in_tasks, table, plan.calls[at], ask_others=True) == "old"


def test_calls_of_tasks_are_counted_with_those_of_the_driver(in_tasks: Stage) -> None:
    table, plan = in_tasks.play()
    in_tasks.run(table, plan)
    assert plain_rows(table) == sorted(CHANGED, key=repr)
    assert len(plan.calls) >= in_tasks.scene.calls_min
    kinds = {call.split()[0] for call in plan.calls}
    # A heartbeat is replaced only if the write lasts longer than the interval of heartbeats.
    assert kinds - {"replace"} == {"create", "close", "write_new", "delete", "delete_tree"}


@pytest.fixture
def upserting(runner: Runner, tmp_path: Path) -> Stage:
    return Stage(next(scene for scene in SCENES if scene.name == "upsert"), runner, tmp_path / "stage")


def test_a_commit_whose_response_was_lost_counts_as_completed(upserting: Stage) -> None:
    table, plan = upserting.play(fault=Fault.TWICE, match=PUBLISHING)
    upserting.run(table, plan)
    assert plain_rows(table) == sorted(CHANGED, key=repr)
    assert (orphans(table), pending(table)) == ([], [])


@pytest.mark.parametrize(("fault", "rows"), [(Fault.FAILS, FIRST), (Fault.FAILS_AFTER, CHANGED)])
def test_an_unknown_outcome_of_a_commit_is_an_error_that_names_the_file_to_look_for(
    upserting: Stage, fault: Fault, rows: tuple[Trip, ...]
) -> None:
    """Nothing is taken back: if the commit is there its files have to be there too."""
    table, plan = upserting.play(fault=fault, match=PUBLISHING)
    with pytest.raises(CommitUnknown, match="Look for the file") as caught:
        upserting.run(table, plan)
    file = Path(re.findall(r"/\S+\.commit(?=:)", str(caught.value))[-1])
    assert file.exists() == (fault is Fault.FAILS_AFTER)
    assert plain_rows(table) == sorted(rows, key=repr)


def test_a_commit_of_another_process_under_our_instant_is_a_write_conflict(upserting: Stage) -> None:
    table, plan = upserting.play()
    write_new = FaultyStorage.write_new

    def other_first(storage: FaultyStorage, path: str, data: bytes) -> None:
        if path.endswith(".commit"):
            Path(path).write_bytes(b"{}")
        write_new(storage, path, data)

    with (
        patch.object(FaultyStorage, "write_new", other_first),
        pytest.raises(WriteConflict, match="published by another process"),
    ):
        upserting.run(table, plan)


def test_a_write_that_another_writer_rolled_back_is_not_published(upserting: Stage) -> None:
    """Its files are gone: a commit that names them would break the table."""
    table, plan = upserting.play()
    reconcile = markers.reconcile

    def while_another_rolls_back(*args: Any) -> list[str]:
        removed = reconcile(*args)
        roll_back_failed(open_table(str(table), read_options(HEARTBEATS_EXPIRED)))
        return removed

    with patch("penstock.commit.markers.reconcile", while_another_rolls_back), pytest.raises(WriteConflict, match="for dead"):
        upserting.run(table, plan)
    assert _check(upserting, table, "rolled back by another writer") == "old"


def test_a_write_that_another_writer_begins_to_roll_back_is_not_published(upserting: Stage) -> None:
    table, plan = upserting.play()
    check = "penstock.commit.change.check_alive"
    with (
        patch(check, lambda state, time: markers.seal(state.storage, state.base_path, time)),
        pytest.raises(WriteConflict, match="for dead"),
    ):
        upserting.run(table, plan)
    assert _check(upserting, table, "sealed by another writer") == "old"


def test_an_error_of_spark_leaves_the_table_as_it_was(spark: Any, table_path: str) -> None:
    write(trips(spark, *FIRST), table_path)
    before = state_of(table_path)
    bad = trips(spark, *NEW).selectExpr("id", "city", "ts", "if(id = 'h', raise_error('no fare'), fare) as fare")
    with pytest.raises(Exception, match="no fare"):
        write(bad, table_path, {**TRIPS, OPERATION: "upsert"})
    assert state_of(table_path) == before


def test_an_error_of_spark_in_the_first_write_leaves_no_table(spark: Any, table_path: str) -> None:
    bad = trips(spark, *NEW).selectExpr("id", "city", "ts", "cast(raise_error('no fare') as double) as fare")
    with pytest.raises(Exception, match="no fare"):
        write(bad, table_path, {**TRIPS, OPERATION: "upsert"}, "errorifexists")
    assert not Path(table_path).exists()


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.TORN, Fault.AFTER])
def test_the_properties_never_name_a_metadata_table_that_is_partly_deleted(tmp_path: Path, fault: Fault) -> None:
    """The properties name it, or the folder is not whole; never both."""
    calls: list[str] = []
    for at in (None, *range(20)):
        if at is not None and at >= len(calls):
            break
        base = tmp_path / f"{at}"
        storage = LocalStorage()
        raw = {"hoodie.table.name": "t", "hoodie.table.version": "6", "hoodie.table.metadata.partitions": "files"}
        write_config(storage, str(base), raw, new=True)
        for name in ("a", "b", "files/c"):
            storage.write_new(f"{base}/.hoodie/metadata/{name}", b"")
        plan = FaultPlan(str(tmp_path / f"plan-{at}"), at, fault)
        with injected(plan), nullcontext() if at is None else pytest.raises(Crash):
            turn_off_metadata_table(open_table(f"crash:{base}"))
        calls = calls or plan.calls
        whole = sorted(p.name for p in (base / ".hoodie" / "metadata").rglob("*")) == ["a", "b", "c", "files"]
        assert whole or not read_config(storage, str(base)).metadata_partitions
        turn_off_metadata_table(open_table(str(base)))
        assert not (base / ".hoodie" / "metadata").exists()
    assert len(calls) >= 2
