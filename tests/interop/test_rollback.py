"""A write that died is rolled back by the other engine, and both engines continue to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.formats.avro.container import read_container
from tests.crash.scenes import CHANGES, FIRST, LATER, PUBLISHING, Runner, Step, with_later
from tests.interop.sides import trips, trips_of
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.oracle import Oracle
from tests.kit.plain import orphans, pending, plain_rows
from tests.table.tables import OPERATION, TRIPS, base_files, timeline

pytestmark = pytest.mark.oracle

UPSERT = {**TRIPS, OPERATION: "upsert", "hoodie.metadata.enable": "false"}


@pytest.fixture(params=["hudi015", "hudi12"])
def oracle(request: pytest.FixtureRequest) -> Oracle:
    running: Oracle = request.getfixturevalue(request.param)
    return running


def fail(runner: Runner, path: str, step: Step, match: str, fault: Fault = Fault.BEFORE) -> str:
    """Let a write of Penstock die. Return its instant."""
    with injected(FaultPlan(f"{path}-plan-{len(timeline(path))}", fault=fault, match=match)), pytest.raises(Crash):
        runner.run(step, f"crash:{path}")
    return max(name.split(".")[0] for name in timeline(path) if "rollback" not in name)


@pytest.mark.parametrize(
    ("match", "fault"),
    [(PUBLISHING, Fault.BEFORE), (r"^write_new .*\.inflight$", Fault.BEFORE), (r"^create .*berlin.*\.parquet$", Fault.AFTER)],
    ids=["publishing", "with staged rows", "with half a file"],
)
def test_hudi_rolls_back_a_dead_write_of_ours(oracle: Oracle, runner: Runner, table_path: str, match: str, fault: Fault) -> None:
    runner.run(Step("insert", FIRST), table_path)
    failed = fail(runner, table_path, Step("upsert", CHANGES), match, fault)
    oracle.write(table_path, trips(*LATER), UPSERT)
    assert trips_of(oracle.read(table_path)) == plain_rows(table_path) == with_later(FIRST)
    assert [file for file in base_files(table_path) if failed in file.name] == []
    assert pending(table_path) == []
    runner.run(Step("upsert", CHANGES), table_path)
    assert orphans(table_path) == []
    assert trips_of(oracle.read(table_path)) == plain_rows(table_path)


def test_hudi_finishes_a_rollback_of_ours_that_died(oracle: Oracle, runner: Runner, table_path: str) -> None:
    runner.run(Step("insert", FIRST), table_path)
    failed = fail(runner, table_path, Step("upsert", CHANGES), PUBLISHING)
    fail(runner, table_path, Step("upsert", LATER), r"^write_new .*rollback\.requested$", Fault.AFTER)
    (ours,) = {name.split(".")[0] for name in timeline(table_path) if "rollback" in name}
    oracle.write(table_path, trips(*LATER), UPSERT)
    result = read_container(Path(table_path, ".hoodie", f"{ours}.rollback").read_bytes())
    assert result["commitsRollback"] == [failed]
    assert trips_of(oracle.read(table_path)) == plain_rows(table_path) == with_later(FIRST)
    assert [file for file in base_files(table_path) if failed in file.name] == []


def test_hudi_goes_on_after_a_rollback_of_ours(oracle: Oracle, runner: Runner, table_path: str) -> None:
    runner.run(Step("insert", FIRST), table_path)
    fail(runner, table_path, Step("upsert", CHANGES), PUBLISHING)
    runner.run(Step("upsert", LATER), table_path)
    seen = [(instant.action, instant.state) for instant in oracle.commits(table_path)]
    assert seen == [("commit", "COMPLETED"), ("rollback", "COMPLETED"), ("commit", "COMPLETED")]
    assert trips_of(oracle.read(table_path)) == plain_rows(table_path) == with_later(FIRST)
    oracle.write(table_path, trips(*CHANGES), UPSERT)
    assert trips_of(oracle.read(table_path)) == plain_rows(table_path)


def test_we_roll_back_a_dead_write_of_hudi(oracle: Oracle, runner: Runner, table_path: str) -> None:
    """Its completed file is taken away; markers are gone by then, so files are found by listing."""
    oracle.write(table_path, trips(*FIRST), {**UPSERT, OPERATION: "insert"})
    oracle.write(table_path, trips(*CHANGES), UPSERT)
    failed = max(name for name in timeline(table_path) if name.endswith(".commit"))
    Path(table_path, ".hoodie", failed).unlink()
    Path(table_path, ".hoodie", f".{failed}.crc").unlink(missing_ok=True)
    assert pending(table_path)
    runner.run(Step("upsert", LATER, options={"hoodie.rollback.using.markers": "false"}), table_path)
    assert trips_of(oracle.read(table_path)) == plain_rows(table_path) == with_later(FIRST)
    assert (orphans(table_path), pending(table_path)) == ([], [])
    oracle.write(table_path, trips(*CHANGES), UPSERT)
    assert trips_of(oracle.read(table_path)) == plain_rows(table_path)
