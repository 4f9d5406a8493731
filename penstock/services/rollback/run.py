"""Runs a rollback: the plan goes onto the timeline, files go, the timeline says so.

    <r>.rollback.requested (the plan) → inflight → files removed → the failed instant's files removed → <r>.rollback

The plan is written before anything is touched, so a rollback that dies is taken up again under the same instant. What to
remove is known from the write's markers, or, for a completed write and where the option says so, by listing.

Base files are deleted. A log file that was added to an existing slice stays, as with Hudi, and a log file behind it says that
the failed write's blocks do not count; readers that come later, when the timeline no longer knows that write, need to be told.
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
from penstock.index.consistent_hashing import drop_changed
from penstock.services.rollback.index_entries import sync_index
from penstock.services.rollback.plan import plan_rollback
from penstock.storage import Storage, join
from penstock.table import TableState
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, request, transition

#: Actions whose plan outlives a run that failed.
_PLANNED = (Action.COMPACTION, Action.LOG_COMPACTION)


def roll_back(table: TableState, instant: Instant, *, keeps_plan: bool = False) -> str:
    """Undo one write, finished or not; gives the rollback's own instant.

    Args:
        keeps_plan: whether only the run of a clustering is undone, and its plan stays. That of a compaction always does.
    """
    seal(table.storage, table.base_path, instant.time)
    plan = plan_rollback(table, instant)
    content = write_container("HoodieRollbackPlan", plan)
    utc = table.config.timeline_utc
    rollback = request(table.storage, table.base_path, Action.ROLLBACK, utc=utc, content=content, is_plan=True)
    return run_rollback(table, rollback, plan, was_published=instant.is_completed, keeps_plan=keeps_plan)


def run_rollback(
    table: TableState, rollback: Instant, plan: Mapping[str, Any], *, was_published: bool = True, keeps_plan: bool = False
) -> str:
    """Carry out a rollback plan, from wherever an earlier attempt stopped.

    Args:
        was_published: whether what is undone may have been a part of the table.
        keeps_plan: whether the plan of what is undone stays, to be run again.
    """
    started = clock.monotonic_s()
    storage = table.storage
    base_path = table.base_path
    failed = target_of(plan)
    if rollback.state is State.REQUESTED:
        with suppress(AlreadyExists):  # somebody else takes it up at the same time
            transition(storage, base_path, rollback, State.INFLIGHT)
    storage.delete(instant_path(base_path, failed))  # un-published first: nobody may see half of it
    partitions = _remove_files(table, plan["RollbackRequests"] or [], rollback.time, failed.time)
    if not is_lazy(table):
        for path in sorted(partitions, reverse=True):
            withdraw_partition(storage, base_path, path, failed.time)
    sync_index(table, failed.time, plan["RollbackRequests"] or [], was_published=was_published)
    if failed.action is Action.REPLACE_COMMIT:
        drop_changed(table, failed.time)
    for state in (State.INFLIGHT,) if keeps_plan or failed.action in _PLANNED else (State.INFLIGHT, State.REQUESTED):
        storage.delete(instant_path(base_path, failed.at(state)))
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
    """The write that a plan undoes, as if it had been completed. Raises CorruptFile."""
    try:
        target = plan["instantToRollback"]
        return Instant(target["commitTime"], Action(target["action"]), State.COMPLETED)
    except (KeyError, TypeError, ValueError) as e:
        raise CorruptFile(f"a rollback plan does not say what it rolls back: {plan.get('instantToRollback')}") from e


def _remove_files(table: TableState, requests: Iterable[Mapping[str, Any]], time: str, target: str) -> dict[str, dict[str, Any]]:
    """Delete what the plan names, or add rollback blocks; a file that is not there was never made, or is already gone.

    Plans name files in full, with or without a scheme, and the table may have been moved: the last part counts.
    """
    found: dict[str, dict[str, Any]] = {}
    for one in requests:
        path = one["partitionPath"]
        partition = found.setdefault(
            path,
            {
                "partitionPath": path,
                "successDeleteFiles": [],
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            },
        )
        for file in one["filesToBeDeleted"]:
            here = join(table.base_path, path, file.rsplit("/", 1)[-1])
            if table.storage.delete(here):
                partition["successDeleteFiles"].append(here)
        logs = one["logBlocksToBeDeleted"]
        if logs and not one["filesToBeDeleted"] and _may_be_there(table, path, logs):
            folder = join(table.base_path, path)
            slice_ = (one["fileId"], one["latestBaseInstant"])
            added, size = add_rollback_block(table.storage, folder, *slice_, time=time, target=target)
            partition["rollbackLogFiles"][added] = size
            partition["logFilesFromFailedCommit"] |= {name: n for name, n in logs.items() if _log_named(name)}
    return found


def _may_be_there(table: TableState, path: str, logs: Iterable[str]) -> bool:
    """Whether a log file that a plan names was made; where it names none, there may be one."""
    names = [_log_named(text) for text in logs]
    return any(name is None or table.storage.stat(join(table.base_path, path, name)) is not None for name in names)


def _log_named(text: str) -> str | None:
    """The log file that a plan names, in full or not."""
    name = text.rsplit("/", 1)[-1]
    return name if parse_log_name(name) else None


def add_rollback_block(
    storage: Storage, folder: str, file_id: str, base_instant: str, *, time: str, target: str
) -> tuple[str, int]:
    """A log file behind the others of a slice, which takes back what a write put into them; gives its path and size."""
    block = encode_rollback_block(instant=time, target_instant=target)
    while True:
        names = [name for file in storage.list(folder) if (name := parse_log_name(file.name)) is not None]
        version = next_log_version(names, file_id, base_instant)
        path = join(folder, log_file_name(file_id, base_instant, version, UNKNOWN_WRITE_TOKEN))
        with suppress(AlreadyExists):  # somebody else rolls back as well: two blocks that say the same do no harm
            storage.write_new(path, block)
            return path, len(block)
