"""Run a rollback: store its plan on the timeline, remove files, complete the rollback on the timeline.

    <r>.rollback.requested (the plan) → inflight → files removed → the failed instant's files removed → <r>.rollback

The plan is stored before anything is removed, so a rollback that crashed can be finished under the same instant.

Base files are deleted. A log file that was added to an existing slice is kept, as in Hudi. A new log file with a rollback block
after it cancels the blocks of the failed write. Without that block, readers would read the blocks of the failed write later: a
write that is older than the timeline and not on it counts as archived, and so as completed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from penstock import clock
from penstock.commit.claims import delete_undone_marks, has_claims, mark_undone, run_transaction
from penstock.commit.heartbeat import delete_heartbeat
from penstock.commit.markers import delete_markers, seal
from penstock.commit.modes import is_lazy
from penstock.commit.table_lock import locked
from penstock.errors import AlreadyExists, CommitUnknown, TableChanged
from penstock.filegroup.markers import work_folder
from penstock.filegroup.names import (
    UNKNOWN_WRITE_TOKEN,
    is_marked_token,
    log_file_name,
    next_log_version,
    parse_base_name,
    parse_log_name,
)
from penstock.filegroup.partitions import withdraw_partition
from penstock.formats.avro.container import write_container
from penstock.formats.log import encode_rollback_block
from penstock.hooks.metrics import report_service
from penstock.index import make_index
from penstock.index.consistent_hashing import drop_changed_rings
from penstock.services.rollback.completed import confirm_rollback
from penstock.services.rollback.plan import plan_rollback
from penstock.storage import Storage, abort_uploads, has_whole_files, join
from penstock.table.state import TableState
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.rollback_file import target_of
from penstock.timeline.store import instant_path, request_instant, transition
from penstock.timeline.timeline import Timeline

#: Actions whose plan is kept when a run is rolled back.
_PLANNED = (Action.COMPACTION, Action.LOG_COMPACTION)


def roll_back(table: TableState, instant: Instant, *, keeps_plan: bool = False) -> str:
    """Roll back one write or one run of a table service's plan, completed or pending: plan the rollback, then run it.

    Args:
        instant: the write or run, in its current state.
        keeps_plan: whether to keep the plan of a clustering and roll back only its run. The plan of a compaction is always kept.

    Returns:
        The instant time of the rollback.

    Raises:
        TableChanged: the pending write or run was completed just now.
        OptionError: the completed write cannot be rolled back any more, for example because of a later commit.
        WriteConflict: a writer without concurrency control is at work, or the table is being restored.
    """
    if not instant.is_completed:
        _take_turn(table, instant)
    # Sealed before the plan is made: no task can announce a file that the plan misses. A writer that is alive after all finds
    # its write sealed and does not publish it.
    seal(table.storage, table.base_path, instant.time)
    plan = plan_rollback(table, instant)
    content = write_container("HoodieRollbackPlan", plan)
    utc = table.config.timeline_utc
    # It need not be the latest instant. Its requested file is not deleted for the sake of the order, because another process may
    # have begun to run the plan.
    rollback = request_instant(
        table.storage, table.base_path, Action.ROLLBACK, utc=utc, content=content, is_plan=True, is_latest=False
    )
    if instant.is_completed:
        confirm_rollback(table, rollback, instant, is_own=True)
    return run_rollback(table, rollback, plan, was_published=instant.is_completed, keeps_plan=keeps_plan)


def _take_turn(table: TableState, instant: Instant) -> None:
    """Make sure that a pending write, which is about to be rolled back, is not published any more by its own writer.

    The write is marked as undone, in a transaction of the table (`commit/claims.py`). A table without claims, which are files
    that only writers with optimistic concurrency control create, has no transactions. On an object store, where a put may be
    late, look for the completed file after the mark (`commit/publish_alone.py`).

    Raises:
        TableChanged: the writer published the write just now.
    """
    if not has_claims(table):
        if has_whole_files(table.storage):
            _check_not_completed(table, instant, mark_undone(table, instant.time))
        return

    def check(timeline: Timeline) -> None:
        """Raise TableChanged if the write is completed now."""
        if instant.time in timeline.completed_times:
            raise TableChanged(f"write {instant.time} of {table.base_path} completed just now and is not rolled back")

    mark = mark_undone(table, instant.time)
    try:
        with locked(table):
            run_transaction(table, check)
    except CommitUnknown:
        raise
    except BaseException:
        table.storage.delete(mark)
        raise


def _check_not_completed(table: TableState, instant: Instant, mark: str) -> None:
    """Raise TableChanged if the write that is to be rolled back is completed now. Delete the mark of the rollback first.

    Args:
        instant: the pending write.
        mark: the path of the file that marks the write as undone.
    """
    if table.storage.stat(instant_path(table.base_path, instant.in_state(State.COMPLETED))) is not None:
        table.storage.delete(mark)
        raise TableChanged(f"write {instant.time} of {table.base_path} completed just now and is not rolled back")


def run_rollback(
    table: TableState, rollback: Instant, plan: Mapping[str, Any], *, was_published: bool = True, keeps_plan: bool = False
) -> str:
    """Run the plan of a rollback and complete the rollback on the timeline. Safe to repeat after a crash.

    Args:
        rollback: the requested or inflight instant of the rollback.
        was_published: whether the write that is rolled back may have had a completed file on the timeline.
        keeps_plan: whether to keep the plan of a clustering and roll back only its run. The plan of a compaction is always kept.

    Returns:
        The instant time of the rollback.
    """
    started = clock.monotonic_s()
    storage = table.storage
    base_path = table.base_path
    failed = target_of(plan)
    if rollback.state is State.REQUESTED:
        with suppress(AlreadyExists):  # another process resumes it at the same time
            transition(storage, base_path, rollback, State.INFLIGHT)
    # Delete the completed file first, so that no reader sees a part of the write.
    storage.delete(instant_path(base_path, failed))
    # Before files are deleted: an upload that a straggler completes in between leaves a file that is deleted then.
    abort_uploads(storage, base_path, partial(_is_file_of, base_path=base_path, time=failed.time))
    partitions = _remove_files(table, plan["RollbackRequests"] or [], rollback.time, failed.time)
    if not is_lazy(table):
        for path in sorted(partitions, reverse=True):
            withdraw_partition(storage, base_path, path, failed.time)
    groups = {(request["partitionPath"], request["fileId"]) for request in plan["RollbackRequests"] or []}
    make_index(table.options).after_rollback(table, failed.time, groups, was_published=was_published)
    if failed.action is Action.REPLACE_COMMIT:
        drop_changed_rings(table, failed.time)
    # The pending timeline files are deleted last: until then another process can roll the write back again after a crash.
    storage.delete(instant_path(base_path, failed.in_state(State.INFLIGHT)))
    if not keeps_plan and failed.action not in _PLANNED:
        storage.delete(instant_path(base_path, failed.in_state(State.REQUESTED)))
    if has_claims(table) or has_whole_files(storage):
        # A process that stopped after its claim, or whose put was late, may have created the completed file since. It deletes the
        # file itself if it finds the requested file gone.
        storage.delete(instant_path(base_path, failed))
    delete_markers(storage, base_path, failed.time)
    delete_heartbeat(storage, base_path, failed.time)
    delete_undone_marks(table, failed.time)
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
    duration_ms = int((clock.monotonic_s() - started) * 1000)
    files_deleted = sum(len(partition["successDeleteFiles"]) for partition in partitions.values())
    report_service(table, Action.ROLLBACK, duration_ms=duration_ms, files_deleted=files_deleted)
    return rollback.time


def _is_file_of(path: str, *, base_path: str, time: str) -> bool:
    """Whether a file belongs to a write: its name says so, or it is in the folder of the write's temporary files.

    Args:
        path: the full path of the file.
        time: the instant time of the write.
    """
    if path.startswith(work_folder(base_path, time) + "/"):
        return True
    file_name = path.rpartition("/")[2]
    base = parse_base_name(file_name)
    if base is not None:
        return base.instant == time
    log = parse_log_name(file_name)
    return log is not None and is_marked_token(log.write_token, time)


def _remove_files(table: TableState, requests: Iterable[Mapping[str, Any]], time: str, target: str) -> dict[str, dict[str, Any]]:
    """Delete files and add rollback blocks as a plan requests. Return what was done in each partition, by partition path.

    The values are Hudi's partition metadata of a rollback. A file that does not exist is no error: it was never created, or is
    already deleted. A plan holds full paths, with or without a scheme, and the table may have been moved since; therefore only
    the file names are used.

    Args:
        requests: the requests of the rollback plan.
        time: the instant time of the rollback.
        target: the instant time of the write that is rolled back.
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
    """Whether one of the log files that a request names exists. Also true if the request names only a folder.

    Args:
        path: the partition path.
        logs: the log file names, or the folder, in the request.
    """
    for text in logs:
        name = _log_file_name(text)
        if name is None or table.storage.stat(join(table.base_path, path, name)) is not None:
            return True
    return False


def _log_file_name(text: str) -> str | None:
    """Return the file name at the end of a path in a rollback plan; None if it is not the name of a log file."""
    name = text.rsplit("/", 1)[-1]
    return name if parse_log_name(name) else None


def add_rollback_block(
    storage: Storage, folder: str, file_id: str, base_instant: str, *, time: str, target: str
) -> tuple[str, int]:
    """Add a log file to a slice, with one rollback block that cancels the blocks of a write. Return the file's path and size.

    Args:
        folder: the full path of the partition's folder.
        file_id: the file id of the slice, and `base_instant` its base instant.
        time: the instant time of the rollback or restore.
        target: the instant time of the write whose blocks are cancelled.
    """
    block = encode_rollback_block(instant=time, target_instant=target)
    while True:
        names = [name for file in storage.list(folder) if (name := parse_log_name(file.name)) is not None]
        version = next_log_version(names, file_id, base_instant)
        path = join(folder, log_file_name(file_id, base_instant, version, UNKNOWN_WRITE_TOKEN))
        with suppress(AlreadyExists):  # another process rolls back too: two blocks that say the same do no harm
            storage.write_new(path, block)
            return path, len(block)
