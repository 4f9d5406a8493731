"""Running a rollback: put its plan on the timeline, remove files, record it on the timeline.

    <r>.rollback.requested (the plan) → inflight → files removed → the failed instant's files removed → <r>.rollback

The plan is written before anything is removed, so a rollback that died is resumed under the same instant.

Base files are deleted. A log file that was added to an existing slice stays, as with Hudi, and a log file behind it says that
the blocks of the failed write do not count. Later readers need that, when the timeline no longer knows the write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from penstock import clock
from penstock.commit.heartbeat import delete_heartbeat, is_lazy
from penstock.errors import AlreadyExists, CorruptFile
from penstock.filegroup.markers import delete_markers, seal
from penstock.filegroup.names import UNKNOWN_WRITE_TOKEN, log_file_name, next_log_version, parse_log_name
from penstock.filegroup.partitions import withdraw_partition
from penstock.formats.avro.container import write_container
from penstock.formats.log import encode_rollback_block
from penstock.index import make_index
from penstock.index.consistent_hashing import drop_changed_rings
from penstock.services.rollback.plan import plan_rollback
from penstock.storage import Storage, join
from penstock.table import TableState
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, request_instant, transition

#: Actions whose plan outlives a run that failed.
_PLANNED = (Action.COMPACTION, Action.LOG_COMPACTION)


def roll_back(table: TableState, instant: Instant, *, keeps_plan: bool = False) -> str:
    """Roll back one write, completed or pending.

    Args:
        keeps_plan: whether only the run of a clustering is rolled back, and its plan stays. The plan of a compaction always
            stays.

    Returns:
        The instant of the rollback.
    """
    # Sealed before the plan is made: no task can announce a file that the plan misses. A writer that is alive after all finds
    # its write sealed and does not publish it.
    seal(table.storage, table.base_path, instant.time)
    plan = plan_rollback(table, instant)
    content = write_container("HoodieRollbackPlan", plan)
    utc = table.config.timeline_utc
    rollback = request_instant(table.storage, table.base_path, Action.ROLLBACK, utc=utc, content=content, is_plan=True)
    return run_rollback(table, rollback, plan, was_published=instant.is_completed, keeps_plan=keeps_plan)


def run_rollback(
    table: TableState, rollback: Instant, plan: Mapping[str, Any], *, was_published: bool = True, keeps_plan: bool = False
) -> str:
    """Carry out a rollback plan, from wherever an earlier attempt stopped.

    Args:
        was_published: whether the failed write may have been part of the table.
        keeps_plan: whether the plan of the failed run stays, to be run again.

    Returns:
        The instant of the rollback.
    """
    started = clock.monotonic_s()
    storage = table.storage
    base_path = table.base_path
    failed = target_of(plan)
    if rollback.state is State.REQUESTED:
        with suppress(AlreadyExists):  # another process resumes it at the same time
            transition(storage, base_path, rollback, State.INFLIGHT)
    # The completed file goes first, so that no reader sees a part of the write.
    storage.delete(instant_path(base_path, failed))
    partitions = _remove_files(table, plan["RollbackRequests"] or [], rollback.time, failed.time)
    if not is_lazy(table):
        for path in sorted(partitions, reverse=True):
            withdraw_partition(storage, base_path, path, failed.time)
    groups = {(request["partitionPath"], request["fileId"]) for request in plan["RollbackRequests"] or []}
    make_index(table.options).after_rollback(table, failed.time, groups, was_published=was_published)
    if failed.action is Action.REPLACE_COMMIT:
        drop_changed_rings(table, failed.time)
    # Only when nothing of the write is left, its pending files go: until then another process can roll it back again.
    storage.delete(instant_path(base_path, failed.in_state(State.INFLIGHT)))
    if not keeps_plan and failed.action not in _PLANNED:
        storage.delete(instant_path(base_path, failed.in_state(State.REQUESTED)))
    delete_markers(storage, base_path, failed.time)
    delete_heartbeat(storage, base_path, failed.time)
    metadata = {
        "startRollbackTime": rollback.time,
        "timeTakenInMillis": int((clock.monotonic_s() - started) * 1000),
        "totalFilesDeleted": sum(len(p["successDeleteFiles"]) for p in partitions.values()),
        "commitsRollback": [failed.time],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": failed.time, "action": failed.action.value}],
    }
    with suppress(AlreadyExists):
        transition(storage, base_path, rollback, State.COMPLETED, write_container("HoodieRollbackMetadata", metadata))
    return rollback.time


def target_of(plan: Mapping[str, Any]) -> Instant:
    """Return the write that a plan rolls back, in the completed state. Raises CorruptFile."""
    try:
        target = plan["instantToRollback"]
        return Instant(target["commitTime"], Action(target["action"]), State.COMPLETED)
    except (KeyError, TypeError, ValueError) as e:
        raise CorruptFile(f"a rollback plan does not say what it rolls back: {plan.get('instantToRollback')}") from e


def _remove_files(table: TableState, requests: Iterable[Mapping[str, Any]], time: str, target: str) -> dict[str, dict[str, Any]]:
    """Delete the files that a plan names, or add rollback blocks. Return what was done, by partition path.

    A file that is not there was never made, or is deleted already. Plans name files in full, with or without a scheme, and the
    table may have been moved since: the last part of the name counts.
    """
    partitions: dict[str, dict[str, Any]] = {}
    for rollback_request in requests:
        path = rollback_request["partitionPath"]
        partition = partitions.setdefault(
            path,
            {
                "partitionPath": path,
                "successDeleteFiles": [],
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            },
        )
        folder = join(table.base_path, path)
        for planned_path in rollback_request["filesToBeDeleted"]:
            file = join(folder, planned_path.rsplit("/", 1)[-1])
            if table.storage.delete(file):
                partition["successDeleteFiles"].append(file)
        logs = rollback_request["logBlocksToBeDeleted"]
        if logs and not rollback_request["filesToBeDeleted"] and _may_exist(table, path, logs):
            added, size = add_rollback_block(
                table.storage, folder, rollback_request["fileId"], rollback_request["latestBaseInstant"], time=time, target=target
            )
            partition["rollbackLogFiles"][added] = size
            partition["logFilesFromFailedCommit"] |= {name: size for name, size in logs.items() if _log_file_name(name)}
    return partitions


def _may_exist(table: TableState, path: str, logs: Iterable[str]) -> bool:
    """Whether one of the log files that a plan names exists. A plan that names a folder does not know its log file."""
    for text in logs:
        name = _log_file_name(text)
        if name is None or table.storage.stat(join(table.base_path, path, name)) is not None:
            return True
    return False


def _log_file_name(text: str) -> str | None:
    """Return the name of the log file that a plan names, in full or not; None if the text is not a log file."""
    name = text.rsplit("/", 1)[-1]
    return name if parse_log_name(name) else None


def add_rollback_block(
    storage: Storage, folder: str, file_id: str, base_instant: str, *, time: str, target: str
) -> tuple[str, int]:
    """Add a log file to a slice whose only block takes back the blocks of a write. Return its path and size."""
    block = encode_rollback_block(instant=time, target_instant=target)
    while True:
        names = [name for file in storage.list(folder) if (name := parse_log_name(file.name)) is not None]
        version = next_log_version(names, file_id, base_instant)
        path = join(folder, log_file_name(file_id, base_instant, version, UNKNOWN_WRITE_TOKEN))
        with suppress(AlreadyExists):  # another process rolls back too: two blocks that say the same do no harm
            storage.write_new(path, block)
            return path, len(block)
