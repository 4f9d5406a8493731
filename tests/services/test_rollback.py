"""Rollback removes the files of a failed write and no others, and writes the timeline files that Hudi writes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from penstock.commit import markers
from penstock.commit.heartbeat import Owner, heartbeat_path
from penstock.errors import CorruptFile, OptionError, WriteConflict
from penstock.formats.avro.container import read_container, write_container
from penstock.options import read_options
from penstock.process import this_process
from penstock.services.rollback.failed_writes import roll_back_expired, roll_back_failed
from penstock.services.rollback.requested import roll_back_to
from penstock.table.config import read_config, write_config
from penstock.table.state import TableState, open_table
from penstock.timeline.commit_file import CommitMetadata, write_commit
from tests.crash.scenes import CHANGED, CHANGES, FIRST, LATER, PUBLISHING, Runner, Step, with_later
from tests.kit.faults import Crash, Fault, FaultPlan, injected
from tests.kit.plain import orphans, pending, plain_rows, rows_of_columns
from tests.kit.readers import hudi_rs_rows
from tests.table.tables import base_files, timeline

LAZY = {"hoodie.cleaner.policy.failed.writes": "LAZY"}
NEVER = {"hoodie.cleaner.policy.failed.writes": "NEVER"}
BY_LISTING = {"hoodie.rollback.using.markers": "false"}
LATE = "20991231235959999"


@pytest.fixture
def path(runner: Runner, table_path: str) -> str:
    """A table with one commit."""
    runner.run(Step("insert", FIRST), table_path)
    return table_path


DIRECT = {"hoodie.write.markers.type": "DIRECT"}


def fail(runner: Runner, path: str, match: str = PUBLISHING, fault: Fault = Fault.BEFORE, **options: Any) -> str:
    """Run an upsert that dies, and return its instant."""
    with injected(FaultPlan(f"{path}-plan-{len(timeline(path))}", fault=fault, match=match)), pytest.raises(Crash):
        runner.run(Step("upsert", CHANGES, options=options), f"crash:{path}")
    return max(name.split(".")[0] for name in timeline(path) if "rollback" not in name)


def write_later(runner: Runner, path: str, **options: Any) -> str:
    """Run the next write, and return its instant."""
    runner.run(Step("upsert", LATER, options=options), path)
    return max(name.split(".")[0] for name in timeline(path))


def rollbacks(path: str) -> list[str]:
    return sorted(name.split(".")[0] for name in timeline(path) if name.endswith(".rollback"))


def content(path: str, name: str) -> dict[str, Any]:
    return read_container(Path(path, ".hoodie", name).read_bytes())


def files_of(path: str, time: str) -> list[str]:
    return [f"{file.parent.name}/{file.name}" for file in base_files(path) if time in file.name]


def state(path: str, **options: Any) -> TableState:
    return open_table(path, read_options(options))


def put(path: str, name: str, data: bytes = b"") -> None:
    file = Path(path, ".hoodie", name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


# --- failed writes, at the next write ---


@pytest.mark.parametrize("options", [{}, BY_LISTING], ids=["by markers", "by listing"])
def test_a_failed_write_is_rolled_back_by_the_next_one(runner: Runner, path: str, options: dict[str, str]) -> None:
    failed = fail(runner, path)
    left = files_of(path, failed)
    assert {name.split("/")[0] for name in left} == {"berlin", "paris", "tokyo"}
    later = write_later(runner, path, **options)
    (rollback,) = rollbacks(path)

    assert failed < rollback < later, "the rollback takes its instant before the write takes its own"
    assert [name for name in timeline(path) if name.startswith(rollback)] == [
        f"{rollback}.rollback",
        f"{rollback}.rollback.inflight",
        f"{rollback}.rollback.requested",
    ]
    assert Path(path, ".hoodie", f"{rollback}.rollback.inflight").read_bytes() == b""
    assert [name for name in timeline(path) if name.startswith(failed)] == []
    assert files_of(path, failed) == []
    assert not Path(path, "tokyo").exists(), "a partition that only the failed write knew"
    assert plain_rows(path) == with_later(FIRST)
    assert (orphans(path), pending(path)) == ([], [])


def test_the_plan_and_the_result_are_written_as_hudi_writes_them(runner: Runner, path: str) -> None:
    failed = fail(runner, path)
    left = files_of(path, failed)
    write_later(runner, path)
    (rollback,) = rollbacks(path)
    plan, result = content(path, f"{rollback}.rollback.requested"), content(path, f"{rollback}.rollback")

    target = {"commitTime": failed, "action": "commit"}
    assert (plan["instantToRollback"], plan["version"]) == (target, 1)
    assert [
        (r["partitionPath"], r["fileId"], r["latestBaseInstant"], r["filesToBeDeleted"], r["logBlocksToBeDeleted"])
        for r in plan["RollbackRequests"]
    ] == [(file.split("/")[0], file.split("/")[1].split("_")[0], failed, [f"{path}/{file}"], {}) for file in sorted(left)]

    assert result["startRollbackTime"] == rollback
    assert result["timeTakenInMillis"] >= 0
    assert result["totalFilesDeleted"] == len(left)
    assert result["commitsRollback"] == [failed]
    assert (result["instantsRollback"], result["version"]) == ([target], 1)
    assert sorted(result["partitionMetadata"]) == ["berlin", "paris", "tokyo"]
    assert sorted(f for p in result["partitionMetadata"].values() for f in p["successDeleteFiles"]) == [
        f"{path}/{file}" for file in sorted(left)
    ]
    assert all(p["failedDeleteFiles"] == [] for p in result["partitionMetadata"].values())


def test_both_files_of_two_attempts_are_found_by_listing(runner: Runner, path: str) -> None:
    """They have one file id and one instant, and differ in the write token alone."""
    failed = fail(runner, path)
    for file in base_files(path):
        if failed in file.name:
            file_id, _, rest = file.name.split("_")
            file.with_name(f"{file_id}_9-9-9_{rest}").write_bytes(b"")
    assert len(files_of(path, failed)) == 6
    write_later(runner, path, **BY_LISTING)
    assert files_of(path, failed) == []


def test_the_rollback_of_a_requested_write_removes_its_instant_and_lists_no_files(runner: Runner, path: str) -> None:
    failed = fail(runner, path, match=r"write_new .*\.requested$", fault=Fault.AFTER)
    assert [name for name in timeline(path) if name.startswith(failed)] == [f"{failed}.commit.requested"]
    write_later(runner, path)
    (rollback,) = rollbacks(path)
    assert content(path, f"{rollback}.rollback.requested")["RollbackRequests"] == []
    assert content(path, f"{rollback}.rollback")["totalFilesDeleted"] == 0
    assert (orphans(path), pending(path)) == ([], [])


def test_a_marker_without_its_file_does_not_fail_the_rollback(runner: Runner, path: str) -> None:
    fail(runner, path, match=r"close .*berlin.*\.marker\.MERGE$", fault=Fault.AFTER, **DIRECT)
    write_later(runner, path)
    (rollback,) = rollbacks(path)
    assert "berlin" in [r["partitionPath"] for r in content(path, f"{rollback}.rollback.requested")["RollbackRequests"]]
    assert content(path, f"{rollback}.rollback")["partitionMetadata"]["berlin"]["failedDeleteFiles"] == []


def test_the_newest_failed_write_is_rolled_back_first(runner: Runner, path: str) -> None:
    first = fail(runner, path, **NEVER)
    second = fail(runner, path, **NEVER)
    write_later(runner, path)
    assert [content(path, f"{r}.rollback")["commitsRollback"] for r in rollbacks(path)] == [[second], [first]]
    assert (orphans(path), pending(path)) == ([], [])


@pytest.mark.parametrize("style", ["DIRECT", "TIMELINE_SERVER_BASED"])
def test_files_are_found_by_markers_of_either_kind(runner: Runner, path: str, style: str) -> None:
    failed = fail(runner, path, **{"hoodie.write.markers.type": style})
    folder = Path(markers.markers_folder(path, failed))
    assert bool(list(folder.rglob("*.marker.*"))) is (style == "DIRECT")
    assert bool(list(folder.glob("MARKERS*"))) is (style != "DIRECT")
    write_later(runner, path)
    assert files_of(path, failed) == []
    assert (orphans(path), pending(path)) == ([], [])


def test_files_are_found_by_markers_of_a_timeline_server(runner: Runner, path: str) -> None:
    failed = fail(runner, path, **DIRECT)
    folder = Path(markers.markers_folder(path, failed))
    names = [str(file.relative_to(folder)) for file in folder.rglob("*.marker.*")]
    for name in names:
        (folder / name).unlink()
    put(path, f".temp/{failed}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    put(path, f".temp/{failed}/MARKERS0", f"{names[0]}\n".encode())
    put(path, f".temp/{failed}/MARKERS3", "\n".join(names[1:]).encode())
    write_later(runner, path)
    assert files_of(path, failed) == []
    assert (orphans(path), pending(path)) == ([], [])


def test_hudi_rs_reads_what_we_read_after_a_rollback(runner: Runner, path: str) -> None:
    fail(runner, path)
    write_later(runner, path)
    assert sorted(rows_of_columns([hudi_rs_rows(path).select(["id", "city", "ts", "fare"])]), key=repr) == plain_rows(path)


def test_the_policy_never_leaves_failed_writes_in_place(runner: Runner, path: str) -> None:
    failed = fail(runner, path)
    left = files_of(path, failed)
    write_later(runner, path, **NEVER)
    assert (rollbacks(path), files_of(path, failed)) == ([], left)
    assert [i.split(".")[0] for i in pending(path)] == [failed]
    assert plain_rows(path) == with_later(FIRST)


def test_the_next_write_removes_temporary_folders_of_completed_writes(runner: Runner, path: str) -> None:
    (done,) = {name.split(".")[0] for name in timeline(path)}
    put(path, f".temp/{done}/berlin/x.parquet.marker.CREATE")
    put(path, f".temp/penstock-{done}/staged/rows.arrow")
    put(path, ".temp/20200101000000000/y.parquet.marker.CREATE")
    write_later(runner, path)
    assert orphans(path) == []


def test_temporary_folders_of_other_work_stay_while_they_may_be_in_use(runner: Runner, path: str) -> None:
    put(path, ".temp/explain-1/rows.arrow")
    put(path, ".temp/explain-2/rows.arrow")
    os.utime(Path(path, ".hoodie/.temp/explain-2"), (0, 0))
    write_later(runner, path)
    assert orphans(path) == [".hoodie/.temp/explain-1", ".hoodie/.temp/explain-1/rows.arrow"]


def test_a_table_that_is_being_restored_is_not_written_to(runner: Runner, path: str) -> None:
    put(path, f"{LATE}.restore.requested")
    with pytest.raises(WriteConflict, match="Found pending restore in active timeline"):
        write_later(runner, path)
    assert pending(path) == [f"{LATE}.restore.requested"]


# --- plans of table services ---

CLUSTERING = write_container("HoodieRequestedReplaceMetadata", {"operationType": "CLUSTER", "version": 1})
NO_CLUSTERING = write_container(
    "HoodieRequestedReplaceMetadata", {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": None}
)


def test_plans_of_table_services_are_not_rolled_back(runner: Runner, path: str) -> None:
    put(path, "20200101000000001.compaction.requested", b"plan")
    put(path, "20200101000000002.replacecommit.requested", CLUSTERING)
    put(path, "20200101000000003.replacecommit.requested", CLUSTERING)
    put(path, "20200101000000003.replacecommit.inflight")
    put(path, ".temp/20200101000000003/p/f.parquet.marker.CREATE")
    before = pending(path)
    write_later(runner, path)
    assert (pending(path), rollbacks(path)) == (before, [])
    assert Path(path, ".hoodie/.temp/20200101000000003/p/f.parquet.marker.CREATE").exists()


def test_a_replace_commit_that_is_no_clustering_is_rolled_back(runner: Runner, path: str) -> None:
    put(path, "20200101000000002.replacecommit.requested", NO_CLUSTERING)
    put(path, "20200101000000002.replacecommit.inflight", b"{}")
    put(path, "20200101000000003.replacecommit.requested")
    write_later(runner, path)
    assert pending(path) == []
    assert [content(path, f"{r}.rollback")["instantsRollback"] for r in rollbacks(path)] == [
        [{"commitTime": "20200101000000003", "action": "replacecommit"}],
        [{"commitTime": "20200101000000002", "action": "replacecommit"}],
    ]


def test_a_rollback_of_a_clustering_is_left_to_the_clustering(runner: Runner, path: str) -> None:
    put(path, "20200101000000003.replacecommit.requested", CLUSTERING)
    put(path, "20200101000000003.replacecommit.inflight")
    target = {"commitTime": "20200101000000003", "action": "replacecommit"}
    put(path, "20200101000000004.rollback.requested", plan_of(target))
    before = pending(path)
    write_later(runner, path)
    assert pending(path) == before


def test_a_rollback_of_a_completed_clustering_is_removed_or_finished_if_it_was_begun(runner: Runner, path: str) -> None:
    target = {"commitTime": "20200101000000003", "action": "replacecommit"}
    done = write_commit(CommitMetadata(operation="CLUSTER", replaced={}))
    for name, content in ((".requested", CLUSTERING), (".inflight", b""), ("", done)):
        put(path, f"20200101000000003.replacecommit{name}", content)
    put(path, "20200101000000004.rollback.requested", plan_of(target))
    write_later(runner, path)
    assert (pending(path), rollbacks(path)) == ([], [])
    assert Path(path, ".hoodie", "20200101000000003.replacecommit").exists()
    put(path, "20200101000000005.rollback.requested", plan_of(target))
    put(path, "20200101000000005.rollback.inflight")
    write_later(runner, path)
    assert (pending(path), rollbacks(path)) == ([], ["20200101000000005"])
    assert not list(Path(path, ".hoodie").glob("20200101000000003*"))


# --- rollbacks that die ---


def plan_of(target: dict[str, str] | None, *requests: dict[str, Any]) -> bytes:
    plan = {"instantToRollback": target, "RollbackRequests": list(requests), "version": 1}
    return write_container("HoodieRollbackPlan", plan)


@pytest.mark.parametrize(
    "match", [r"rollback\.requested$", r"rollback\.inflight$", r"^delete .*berlin.*parquet$", r"^delete .*\.inflight$"]
)
def test_a_rollback_that_died_is_finished_under_its_own_instant(runner: Runner, path: str, match: str) -> None:
    failed = fail(runner, path)
    with injected(FaultPlan(f"{path}-dies", fault=Fault.AFTER, match=match)), pytest.raises(Crash):
        runner.run(Step("upsert", LATER), f"crash:{path}")
    (dead,) = {name.split(".")[0] for name in timeline(path) if ".rollback." in name}
    assert rollbacks(path) == []
    write_later(runner, path)
    assert rollbacks(path) == [dead]
    assert content(path, f"{dead}.rollback")["commitsRollback"] == [failed]
    assert plain_rows(path) == with_later(FIRST)
    assert (orphans(path), pending(path)) == ([], [])


def test_a_rollback_of_hudi_that_died_is_finished_wherever_its_plan_says_the_files_are(runner: Runner, path: str) -> None:
    """Hudi names files in full, with a scheme, and the table may have been moved since."""
    failed = fail(runner, path)
    requests = [
        {
            "partitionPath": name.split("/")[0],
            "fileId": "",
            "latestBaseInstant": "",
            "filesToBeDeleted": [f"file:/elsewhere/{name}"],
            "logBlocksToBeDeleted": {},
        }
        for name in files_of(path, failed)
    ]
    assert requests
    put(path, f"{LATE}.rollback.requested", plan_of({"commitTime": failed, "action": "commit"}, *requests))
    put(path, f"{LATE}.rollback.inflight")
    roll_back_failed(state(path))
    assert files_of(path, failed) == []
    assert content(path, f"{LATE}.rollback")["totalFilesDeleted"] == len(requests)
    assert pending(path) == []


@pytest.mark.parametrize("plan", [b"", b"garbage", plan_of(None)], ids=["empty", "garbage", "of nothing"])
def test_a_requested_rollback_whose_plan_cannot_be_read_is_removed(runner: Runner, path: str, plan: bytes) -> None:
    failed = fail(runner, path)
    put(path, "20200101000000004.rollback.requested", plan)
    write_later(runner, path)
    (rollback,) = rollbacks(path)
    assert content(path, f"{rollback}.rollback")["commitsRollback"] == [failed]
    assert pending(path) == []


def test_an_inflight_rollback_whose_plan_cannot_be_read_is_an_error(runner: Runner, path: str) -> None:
    put(path, "20200101000000004.rollback.requested", b"garbage")
    put(path, "20200101000000004.rollback.inflight")
    with pytest.raises(CorruptFile, match=r"20200101000000004\.rollback\.inflight .* cannot be read"):
        write_later(runner, path)
    assert plain_rows(path) == sorted(FIRST, key=repr)


# --- the lazy policy ---


def beat_elsewhere(path: str, instant: str) -> None:
    """Make the heartbeat of a write that failed look like that of a living writer of real Hudi, which does not name itself."""
    Path(heartbeat_path(path, instant)).write_bytes(b"")


def heartbeats(path: str) -> list[str]:
    folder = Path(path, ".hoodie", ".heartbeat")
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def test_a_lazy_writer_has_a_heartbeat_from_before_its_instant_until_it_completes(runner: Runner, path: str) -> None:
    plan = FaultPlan(f"{path}-plan")
    seen: list[list[str]] = []
    reconcile = markers.reconcile

    def look(*args: Any) -> list[str]:
        seen.append(heartbeats(path))
        return reconcile(*args)

    with injected(plan), patch("penstock.commit.markers.reconcile", look):
        runner.run(Step("upsert", LATER, options=LAZY), f"crash:{path}")
    later = max(name.split(".")[0] for name in timeline(path))
    assert seen == [[later]]
    beat, requested = f"write_new {heartbeat_path(path, later)}", f"write_new {path}/.hoodie/{later}.commit.requested"
    assert plan.calls.index(beat) < plan.calls.index(requested)
    assert heartbeats(path) == []


def test_an_eager_writer_has_a_heartbeat_too(runner: Runner, path: str) -> None:
    plan = FaultPlan(f"{path}-plan")
    with injected(plan):
        runner.run(Step("upsert", LATER), f"crash:{path}")
    calls = [call.split()[0] for call in plan.calls if "heartbeat" in call]
    assert calls == ["write_new", "delete"]


@pytest.mark.parametrize("policy", ["EAGER", "LAZY", "NEVER"])
def test_a_writer_that_is_alive_is_not_rolled_back_by_another(runner: Runner, path: str, policy: str) -> None:
    """Hudi rolls it back under the eager policy, and a long job loses its work."""
    options = {"hoodie.cleaner.policy.failed.writes": policy}
    living = fail(runner, path, **options)
    beat_elsewhere(path, living)
    with pytest.raises(WriteConflict, match=rf"has another writer: .* since {living} .*last heartbeat \d+ s ago") as refused:
        write_later(runner, path, **options)
    assert "hoodie.write.concurrency.mode=optimistic_concurrency_control and penstock.lock" in str(refused.value)
    assert (len(files_of(path, living)), heartbeats(path), rollbacks(path)) == (3, [living], [])
    os.utime(heartbeat_path(path, living), (1, 1))
    write_later(runner, path, **options)
    assert plain_rows(path) == with_later(FIRST)


def test_a_writer_whose_process_has_ended_is_dead_at_once(runner: Runner, path: str) -> None:
    """Its heartbeat is recent, but names a process of this machine that does not exist any more."""
    failed = fail(runner, path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    owner = Owner(replace(this_process(), pid=ended.pid), "x")
    Path(heartbeat_path(path, failed)).write_bytes(owner.encode())
    write_later(runner, path)
    assert (pending(path), heartbeats(path)) == ([], [])


def test_a_process_number_that_is_used_again_is_not_the_writer(runner: Runner, path: str) -> None:
    failed = fail(runner, path)
    owner = Owner(replace(this_process(), pid=os.getppid(), started="1"), "x")
    Path(heartbeat_path(path, failed)).write_bytes(owner.encode())
    write_later(runner, path)
    assert pending(path) == []


@pytest.mark.parametrize("change", [{"machine": "another"}, {"host": "another", "machine": "another/boot/pid"}])
def test_a_writer_on_another_machine_is_alive_while_its_heartbeat_is_recent(runner: Runner, path: str, change: Any) -> None:
    failed = fail(runner, path)
    Path(heartbeat_path(path, failed)).write_bytes(Owner(replace(this_process(), pid=1 << 30, **change), "x").encode())
    with pytest.raises(WriteConflict, match=f"process {1 << 30} on {change.get('host', this_process().host)}"):
        write_later(runner, path)


def test_a_lazy_writer_that_fails_deletes_its_heartbeat(runner: Runner, path: str) -> None:
    with patch("penstock.commit.markers.reconcile", side_effect=OptionError("no")), pytest.raises(OptionError):
        write_later(runner, path, **LAZY)
    assert (heartbeats(path), pending(path), orphans(path)) == ([], [], [])


def test_a_clean_rolls_back_dead_writers_and_not_a_live_one(runner: Runner, path: str) -> None:
    dead = fail(runner, path, **LAZY)
    silent = fail(runner, path, **LAZY)
    living = fail(runner, path, **LAZY)
    os.utime(heartbeat_path(path, dead), (1, 1))
    Path(heartbeat_path(path, silent)).unlink()
    beat_elsewhere(path, living)
    roll_back_expired(state(path, **LAZY))

    undone = [content(path, f"{r}.rollback")["commitsRollback"] for r in rollbacks(path)]
    assert undone == [[silent], [dead]]
    assert min(rollbacks(path)) > living
    assert [i.split(".")[0] for i in pending(path)] == [living]
    assert heartbeats(path) == [living]
    assert len(files_of(path, living)) == 3
    assert plain_rows(path) == sorted(FIRST, key=repr)


def test_the_next_lazy_write_does_not_roll_back_before_its_own_commit(runner: Runner, path: str) -> None:
    dead = fail(runner, path)
    assert roll_back_failed(state(path, **LAZY)).timeline.pending_times == {dead}


def test_a_heartbeat_is_dead_after_the_interval_times_the_misses(runner: Runner, path: str) -> None:
    failed = fail(runner, path, **LAZY)
    beat_elsewhere(path, failed)
    beat = Path(heartbeat_path(path, failed)).stat().st_mtime
    options = {**LAZY, "hoodie.client.heartbeat.interval_in_ms": "600000", "hoodie.client.heartbeat.tolerable.misses": "3"}
    for after_s, left in ((1200, 1), (1801, 0)):
        os.utime(heartbeat_path(path, failed), (beat - after_s, beat - after_s))
        roll_back_expired(state(path, **options))
        assert len(pending(path)) == left


def test_a_writer_that_has_just_finished_is_not_taken_for_dead(runner: Runner, path: str) -> None:
    """It is pending when the timeline is read and has no heartbeat any more when that is looked for."""
    failed = fail(runner, path, **LAZY)
    stale = state(path, **LAZY)
    Path(heartbeat_path(path, failed)).unlink()
    put(path, f"{failed}.commit", b'{"partitionToWriteStats": {}}')
    roll_back_expired(stale)
    assert rollbacks(path) == []
    assert Path(path, ".hoodie", f"{failed}.commit").exists()


def test_a_writer_whose_heartbeat_is_too_old_does_not_publish(runner: Runner, path: str) -> None:
    def stop_the_heart(*args: Any) -> None:
        for name in heartbeats(path):
            os.utime(heartbeat_path(path, name), (1, 1))

    with (
        patch("penstock.commit.change.Change.start", stop_the_heart),
        pytest.raises(WriteConflict, match=r"Heartbeat for instant \d+ has expired"),
    ):
        write_later(runner, path, **LAZY)
    assert plain_rows(path) == sorted(FIRST, key=repr)
    assert (heartbeats(path), pending(path), orphans(path)) == ([], [], [])


def test_a_heartbeat_is_renewed_while_the_writer_runs(runner: Runner, path: str) -> None:
    options = {**LAZY, "hoodie.client.heartbeat.interval_in_ms": "1000", "hoodie.client.heartbeat.tolerable.misses": "2"}
    beats = FaultPlan(f"{path}-plan")
    reconcile = markers.reconcile

    def wait(*args: Any) -> list[str]:
        for _ in range(600):
            if len([c for c in beats.calls if c.startswith("replace") and ".heartbeat" in c]) >= 2:
                break
            time.sleep(0.01)
        return reconcile(*args)

    with injected(beats), patch("penstock.commit.markers.reconcile", wait):
        runner.run(Step("upsert", LATER, options=options), f"crash:{path}")
    assert len([c for c in beats.calls if c.startswith("replace") and ".heartbeat" in c]) >= 2
    assert heartbeats(path) == []


def test_a_rollback_after_the_commit_that_fails_is_a_warning(runner: Runner, path: str) -> None:
    put(path, "20200101000000004.rollback.requested", b"garbage")
    put(path, "20200101000000004.rollback.inflight")
    with pytest.warns(RuntimeWarning, match="the write is done"):
        write_later(runner, path, **LAZY)
    assert plain_rows(path) == with_later(FIRST)


# --- on demand ---


@pytest.fixture
def twice_written(runner: Runner, path: str) -> str:
    runner.run(Step("upsert", CHANGES), path)
    return path


def newest(path: str) -> str:
    return max(name.split(".")[0] for name in timeline(path))


def test_the_newest_commit_can_be_rolled_back(twice_written: str) -> None:
    path, instant = twice_written, newest(twice_written)
    assert plain_rows(path) == sorted(CHANGED, key=repr)
    rollback = roll_back_to(state(path), instant)
    assert plain_rows(path) == sorted(FIRST, key=repr)
    assert rollbacks(path) == [rollback]
    assert rollback > instant
    assert content(path, f"{rollback}.rollback")["commitsRollback"] == [instant]
    assert not Path(path, "tokyo").exists()
    assert sorted(rows_of_columns([hudi_rs_rows(path).select(["id", "city", "ts", "fare"])]), key=repr) == plain_rows(path)
    assert (orphans(path), pending(path)) == ([], [])


def test_a_table_can_be_written_to_after_its_only_commit_was_rolled_back(runner: Runner, path: str) -> None:
    roll_back_to(state(path), newest(path))
    assert plain_rows(path) == []
    write_later(runner, path)
    assert plain_rows(path) == sorted(LATER, key=repr)
    assert (orphans(path), pending(path)) == ([], [])


def test_commits_are_rolled_back_one_after_the_other(runner: Runner, twice_written: str) -> None:
    path = twice_written
    first, second = sorted({name.split(".")[0] for name in timeline(path)})
    with pytest.raises(OptionError, match=f"Found commits after time :{first}, please rollback greater commits first: {second}"):
        roll_back_to(state(path), first)
    assert plain_rows(path) == sorted(CHANGED, key=repr)
    roll_back_to(state(path), second)
    roll_back_to(state(path), first)
    assert plain_rows(path) == []


def test_an_unknown_instant_cannot_be_rolled_back(path: str) -> None:
    with pytest.raises(OptionError, match="there is no write at 20200101000000000"):
        roll_back_to(state(path), "20200101000000000")


def test_a_rollback_cannot_be_rolled_back(twice_written: str) -> None:
    rollback = roll_back_to(state(twice_written), newest(twice_written))
    with pytest.raises(OptionError, match="there is no write"):
        roll_back_to(state(twice_written), rollback)


def test_a_savepointed_commit_cannot_be_rolled_back(twice_written: str) -> None:
    path, instant = twice_written, newest(twice_written)
    put(path, f"{instant}.savepoint.inflight")
    put(path, f"{instant}.savepoint", b"x")
    with pytest.raises(OptionError, match=f"Could not rollback a savepointed commit. Delete savepoint {instant} first"):
        roll_back_to(state(path), instant)
    assert plain_rows(path) == sorted(CHANGED, key=repr)


def test_a_plan_of_a_service_cannot_be_rolled_back(path: str) -> None:
    put(path, f"{LATE}.compaction.requested", b"plan")
    with pytest.raises(OptionError, match="table service"):
        roll_back_to(state(path), LATE)
    assert pending(path) == [f"{LATE}.compaction.requested"]


def test_a_later_failed_write_is_rolled_back_first(runner: Runner, twice_written: str) -> None:
    path, instant = twice_written, newest(twice_written)
    failed = fail(runner, path)
    roll_back_to(state(path), instant)
    assert [content(path, f"{r}.rollback")["commitsRollback"] for r in rollbacks(path)] == [[failed], [instant]]
    assert plain_rows(path) == sorted(FIRST, key=repr)
    assert orphans(path) == []


def test_a_commit_is_not_rolled_back_while_a_later_one_is_being_written(runner: Runner, twice_written: str) -> None:
    path, instant = twice_written, newest(twice_written)
    fail(runner, path, **LAZY)
    with pytest.raises(OptionError, match="Found in-flight commits after time"):
        roll_back_to(state(path, **LAZY), instant)
    assert plain_rows(path) == sorted(CHANGED, key=repr)


def test_a_pending_write_can_be_rolled_back_by_its_instant(runner: Runner, path: str) -> None:
    failed = fail(runner, path, **LAZY)
    roll_back_to(state(path, **LAZY), failed)
    assert (pending(path), heartbeats(path), files_of(path, failed)) == ([], [], [])


def test_a_rollback_turns_off_the_metadata_table(twice_written: str) -> None:
    path, instant = twice_written, newest(twice_written)
    config = read_config(state(path).storage, path)
    write_config(state(path).storage, path, {**config.raw, "hoodie.table.metadata.partitions": "files"})
    put(path, "metadata/files/x")
    roll_back_to(state(path), instant)
    assert read_config(state(path).storage, path).metadata_partitions == ()
    assert not Path(path, ".hoodie/metadata").exists()


def test_a_rollback_reports_how_long_it_took_and_the_files_that_it_deleted(
    runner: Runner, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = fail(runner, path)
    files = files_of(path, dead)
    assert files
    console = {
        "hoodie.metrics.on": "true",
        "hoodie.metrics.reporter.type": "CONSOLE",
        "hoodie.metrics.reporter.metricsname.prefix": "t",
    }
    roll_back_failed(state(path, **console))
    found = dict(line.split(" = ") for line in capsys.readouterr().out.splitlines() if line.startswith("t.rollback."))
    assert found.keys() == {"t.rollback.duration", "t.rollback.numFilesDeleted"}
    assert int(found["t.rollback.numFilesDeleted"]) == len(files)
