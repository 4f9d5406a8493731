"""Rollback on a merge-on-read table: rows of a failed write never count, in base files or in logs, whatever way it is rolled back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.formats.avro.container import read_container, write_container
from penstock.formats.log import scan_blocks
from penstock.options import read_options
from penstock.services.rollback.failed_writes import roll_back_failed
from penstock.services.rollback.requested import roll_back_to
from penstock.table.state import open_table
from tests.crash.scenes import CHANGED, CHANGES, FIRST, LATER, PUBLISHING, Runner, Step, with_later
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import orphans, pending, plain_rows
from tests.table.tables import Trip, base_files, timeline

MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
BY_LISTING = {"hoodie.rollback.using.markers": "false"}
BOTH = pytest.mark.parametrize("how", [{}, BY_LISTING], ids=["by markers", "by listing"])
#: Changes that all go to logs.
UPDATES: tuple[Trip, ...] = (("a", "berlin", 9, 9.5), ("c", "paris", 9, 9.5))
UPDATED: tuple[Trip, ...] = (*UPDATES, FIRST[1], FIRST[3])


@pytest.fixture
def path(runner: Runner, table_path: str) -> str:
    """A table with one delta commit."""
    runner.run(Step("insert", FIRST, options=MOR), table_path)
    return table_path


def fail(runner: Runner, path: str, rows: tuple[Trip, ...] = UPDATES, match: str = PUBLISHING, **how: Any) -> str:
    """Let an upsert die. Return its instant."""
    plan = FaultPlan(f"{path}-plan-{len(timeline(path))}", fault=how.pop("fault", Fault.BEFORE), match=match)
    with injected(plan), pytest.raises(Crash):
        runner.run(Step("upsert", rows, options=how), f"crash:{path}")
    return max(name.split(".")[0] for name in timeline(path) if "rollback" not in name)


def logs(path: str) -> list[Path]:
    return sorted(p for p in Path(path).rglob(".*.log.*") if ".hoodie" not in p.parts)


def rollback_blocks(path: str) -> list[tuple[str, str, str]]:
    """Return (file, instant, target) of every rollback block."""
    found = []
    for log in logs(path):
        blocks = scan_blocks(log.read_bytes(), file_name=log.name)
        found += [(f"{log.parent.name}/{log.name}", b.instant, b.target_instant) for b in blocks if b.is_rollback]
    return found


def content(path: str, name: str) -> dict[str, Any]:
    return read_container(Path(path, ".hoodie", name).read_bytes())


@BOTH
def test_log_blocks_of_a_dead_write_are_rolled_back_by_a_later_block(runner: Runner, path: str, how: dict[str, Any]) -> None:
    failed = fail(runner, path)
    left = logs(path)
    assert len(left) == 2
    runner.run(Step("upsert", LATER, options=how), path)
    rollback = max(name.split(".")[0] for name in timeline(path) if name.endswith(".rollback"))
    later = max(name.split(".")[0] for name in timeline(path))
    assert failed < rollback < later, "what is written next must come after the block, for readers that stop at later ones"
    behind = [f"{log.parent.name}/{log.name.split('.log.')[0]}.log.2_1-0-1" for log in left]
    assert rollback_blocks(path) == [(name, rollback, failed) for name in behind]
    assert plain_rows(path) == with_later(FIRST)
    assert (orphans(path), pending(path)) == ([], [])
    assert not any(name.startswith(failed) for name in timeline(path))


@BOTH
def test_the_plan_and_the_result_have_hudis_form(runner: Runner, path: str, how: dict[str, Any]) -> None:
    failed = fail(runner, path, CHANGES)
    (log,) = logs(path)
    base_instant = log.name.split("_")[1].split(".")[0]
    fresh = sorted(str(file) for file in base_files(path) if failed in file.name)
    assert [Path(file).parent.name for file in fresh] == ["paris", "tokyo"]
    roll_back_failed(open_table(path, read_options(how)))
    (time,) = {name.split(".")[0] for name in timeline(path) if name.endswith(".rollback")}
    plan = content(path, f"{time}.rollback.requested")
    assert plan["instantToRollback"] == {"commitTime": failed, "action": "deltacommit"}
    deleted = sorted(file for one in plan["RollbackRequests"] for file in one["filesToBeDeleted"])
    assert deleted == fresh
    (block,) = [one for one in plan["RollbackRequests"] if one["logBlocksToBeDeleted"]]
    assert (block["partitionPath"], block["latestBaseInstant"]) == ("berlin", base_instant)
    assert block["logBlocksToBeDeleted"] == {log.name: 1}
    result = content(path, f"{time}.rollback")
    assert (result["commitsRollback"], result["totalFilesDeleted"]) == ([failed], 2)
    berlin = result["partitionMetadata"]["berlin"]
    ((written, size),) = berlin["rollbackLogFiles"].items()
    assert (written, size) == (str(log.parent / f"{log.name.split('.log.')[0]}.log.2_1-0-1"), Path(written).stat().st_size)
    assert berlin["logFilesFromFailedCommit"] == {log.name: 1}
    assert plain_rows(path) == sorted(FIRST, key=repr)


def test_logs_that_a_dead_write_does_not_name_are_found_by_their_names(runner: Runner, path: str) -> None:
    """New rows that go to logs are not in its inflight file, file group by file group."""
    failed = fail(runner, path)
    (inflight,) = Path(path, ".hoodie").glob(f"{failed}.deltacommit.inflight")
    inflight.write_bytes(b"")
    roll_back_failed(open_table(path, read_options(BY_LISTING)))
    assert [target for _, _, target in rollback_blocks(path)] == [failed, failed]
    assert plain_rows(path) == sorted(FIRST, key=repr)


def test_a_write_that_died_before_its_log_was_created_needs_no_rollback_block(runner: Runner, path: str) -> None:
    fail(runner, path, match=r"^create .*\.log\.1_.*$")
    roll_back_failed(open_table(path))
    assert logs(path) == []
    assert plain_rows(path) == sorted(FIRST, key=repr)


def test_a_torn_block_of_a_dead_write_is_skipped(runner: Runner, path: str) -> None:
    failed = fail(runner, path)
    for log in logs(path):
        log.write_bytes(log.read_bytes()[:-20])
    runner.run(Step("upsert", LATER), path)
    assert [target for _, _, target in rollback_blocks(path)] == [failed, failed]
    assert plain_rows(path) == with_later(FIRST)


@pytest.mark.parametrize(
    "match",
    [
        r"^write_new .*rollback\.inflight$",
        r"^write_new .*\.log\.2_1-0-1$",
        r"^delete .*deltacommit\.requested$",
        r"^write_new .*\.rollback$",
    ],
)
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_rollback_that_died_is_finished(runner: Runner, path: str, match: str, fault: Fault) -> None:
    failed = fail(runner, path, CHANGES)
    fail(runner, path, LATER, match, fault=fault)
    runner.run(Step("upsert", LATER), path)
    assert plain_rows(path) == with_later(FIRST)
    assert {target for _, _, target in rollback_blocks(path)} == {failed}
    assert len([name for name in timeline(path) if name.endswith(".rollback")]) == 1
    assert pending(path) == []


def test_a_completed_write_is_rolled_back_too(runner: Runner, path: str) -> None:
    runner.run(Step("upsert", UPDATES), path)
    runner.run(Step("upsert", CHANGES[2:]), path)
    assert plain_rows(path) == sorted(CHANGED, key=repr)
    last = max(name.split(".")[0] for name in timeline(path))
    roll_back_to(open_table(path), last)
    assert plain_rows(path) == sorted(UPDATED, key=repr)
    before = max(name.split(".")[0] for name in timeline(path) if name.endswith(".deltacommit"))
    roll_back_to(open_table(path), before)
    assert plain_rows(path) == sorted(FIRST, key=repr)
    assert {target for _, _, target in rollback_blocks(path)} == {before}
    runner.run(Step("upsert", CHANGES), path)
    assert plain_rows(path) == sorted(CHANGED, key=repr)


def test_a_plan_of_hudi_names_its_log_files_in_full(runner: Runner, path: str) -> None:
    failed = fail(runner, path)
    rollback = f"{int(failed) + 1}"
    requests = [
        {
            "partitionPath": log.parent.name,
            "fileId": log.name[1:].split("_")[0],
            "latestBaseInstant": log.name.split("_")[1].split(".")[0],
            "filesToBeDeleted": [],
            "logBlocksToBeDeleted": {f"file:/elsewhere/{log.parent.name}/{log.name}": 1},
        }
        for log in logs(path)
    ]
    plan = {
        "instantToRollback": {"commitTime": failed, "action": "deltacommit"},
        "RollbackRequests": requests,
        "version": 1,
    }
    Path(path, ".hoodie", f"{rollback}.rollback.requested").write_bytes(write_container("HoodieRollbackPlan", plan))
    runner.run(Step("upsert", LATER), path)
    assert [(time, target) for _, time, target in rollback_blocks(path)] == [(rollback, failed)] * 2
    assert plain_rows(path) == with_later(FIRST)


def test_blocks_of_a_rolled_back_write_stay_invalid_after_its_instant_is_archived(runner: Runner, path: str) -> None:
    """What is older than the timeline counts as done, unless a block says otherwise."""
    fail(runner, path)
    runner.run(Step("upsert", LATER), path)
    runner.run(Step("upsert", NOTHING_NEW), path)
    times = sorted({name.split(".")[0] for name in timeline(path)})
    for name in timeline(path):
        if not name.startswith(times[-1]):
            Path(path, ".hoodie", name).unlink()
    assert plain_rows(path) == with_later(FIRST)


NOTHING_NEW: tuple[Trip, ...] = (("y", "berlin", 1, 0.5),)
