"""Rollback: what a failed write left is removed, and the timeline says so.

    <r>.rollback.requested (the plan) → inflight → files removed → the failed instant's files removed → <r>.rollback

The plan is written before anything is touched, so a rollback that dies is taken up again under the same instant. What to
remove is known from the write's markers, or, for a completed write and where the option says so, by listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.commit.heartbeat import is_alive, stop_heartbeat
from penstock.errors import CorruptFile, OptionError, Unsupported
from penstock.filegroup.markers import TEMP, Marker, MarkerType, delete_markers, read_markers, seal
from penstock.filegroup.names import parse_base_name
from penstock.formats.avro import read_container, write_container
from penstock.metadata.listing import list_groups
from penstock.storage import Storage, join
from penstock.table import TableState
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import FOLDER, instant_path, load_timeline, request, transition


def roll_back_failed(table: TableState) -> TableState:
    """Undo every write that did not finish, as far as the policy for failed writes lets a new write do so.

    Returns:
        The table with its timeline as it is afterwards. The rollbacks' instants are earlier than any taken from then on.
    """
    leftovers = table.storage.list(join(table.base_path, FOLDER, TEMP))
    resume_rollbacks(table)
    table = replace(table, timeline=load_timeline(table.storage, table.base_path))
    pending = table.timeline.pending_times
    for folder in leftovers:  # of writes that are over, one way or the other
        if folder.is_dir and folder.name not in pending:
            table.storage.delete_tree(folder.path)
    if table.options[o.FAILED_WRITES_POLICY].upper() != "EAGER":
        return table
    for instant in reversed(failed_writes(table)):
        roll_back(table, instant)
    return replace(table, timeline=load_timeline(table.storage, table.base_path))


def roll_back_expired(table: TableState) -> None:
    """Under the lazy policy: undo writes whose writer has not given a sign of life for too long."""
    for instant in reversed(failed_writes(table)):
        if not is_alive(table, instant.time):
            roll_back(table, instant)


def failed_writes(table: TableState) -> list[Instant]:
    """Pending commits, delta commits and replace commits; plans of table services wait for their own run."""
    return [i for i in table.timeline.pending if i.action in WRITE_ACTIONS and not _is_clustering(table, i)]


def _is_clustering(table: TableState, instant: Instant) -> bool:
    if instant.action is not Action.REPLACE_COMMIT:
        return False
    try:
        content = table.storage.read(instant_path(table.base_path, instant.at(State.REQUESTED)))
    except FileNotFoundError:
        return False
    return bool(content) and read_container(content).get("operationType") == "CLUSTER"


def roll_back(table: TableState, instant: Instant) -> str:
    """Undo one write, finished or not; gives the rollback's own instant."""
    if table.is_merge_on_read and instant.action is Action.DELTA_COMMIT:
        raise Unsupported(f"{instant.file_name} of {table.base_path}: rolling back a delta commit is not supported yet")
    seal(table.storage, table.base_path, instant.time)
    plan = plan_rollback(table, instant)
    utc = table.config.timeline_utc
    rollback = request(
        table.storage, table.base_path, Action.ROLLBACK, utc=utc, content=write_container("HoodieRollbackPlan", plan)
    )
    return run_rollback(table, rollback, plan)


def plan_rollback(table: TableState, instant: Instant) -> dict[str, Any]:
    """What undoing a write removes."""
    if instant.state is State.REQUESTED:
        files: Iterable[tuple[str, str]] = []
    elif instant.state is State.INFLIGHT and table.options[o.ROLLBACK_USING_MARKERS]:
        files = _announced(read_markers(table.storage, table.base_path, instant.time))
    else:
        files = _listed(table, instant.time)
    requests = [
        {
            "partitionPath": path,
            "fileId": name.file_id,
            "latestBaseInstant": name.instant,
            "filesToBeDeleted": [join(table.base_path, path, file)],
            "logBlocksToBeDeleted": {},
        }
        for path, file in sorted(files)
        if (name := parse_base_name(file)) is not None
    ]
    return {
        "instantToRollback": {"commitTime": instant.time, "action": instant.action.family.value},
        "RollbackRequests": requests,
        "version": 1,
    }


def _announced(markers: Sequence[Marker]) -> list[tuple[str, str]]:
    found = []
    for marker in markers:
        if marker.kind is MarkerType.APPEND:
            raise Unsupported(f"marker of log file {marker.file_path}: rolling back log files is not supported yet")
        path, _, file = marker.file_path.rpartition("/")
        found.append((path, file))
    return found


def _listed(table: TableState, time: str) -> list[tuple[str, str]]:
    groups = list_groups(table)
    return [
        (s.partition_path, s.base_file.name)
        for group in groups
        for s in group.slices
        if s.base_file is not None and s.base_instant == time
    ]


def run_rollback(table: TableState, rollback: Instant, plan: Mapping[str, Any]) -> str:
    """Carry out a rollback plan, from wherever an earlier attempt stopped."""
    started = clock.monotonic_s()
    storage, base_path = table.storage, table.base_path
    target = plan["instantToRollback"]
    failed = Instant(target["commitTime"], Action(target["action"]), State.COMPLETED)
    if rollback.state is State.REQUESTED:
        rollback = transition(storage, base_path, rollback, State.INFLIGHT)
    storage.delete(instant_path(base_path, failed))  # un-published first: nobody may see half of it
    partitions = _remove_files(storage, plan["RollbackRequests"] or [])
    for state in (State.INFLIGHT, State.REQUESTED):
        storage.delete(instant_path(base_path, failed.at(state)))
    delete_markers(storage, base_path, failed.time)
    stop_heartbeat(storage, base_path, failed.time)
    metadata = {
        "startRollbackTime": rollback.time,
        "timeTakenInMillis": int((clock.monotonic_s() - started) * 1000),
        "totalFilesDeleted": sum(len(p["successDeleteFiles"]) for p in partitions.values()),
        "commitsRollback": [failed.time],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [dict(target)],
    }
    transition(storage, base_path, rollback, State.COMPLETED, write_container("HoodieRollbackMetadata", metadata))
    return rollback.time


def _remove_files(storage: Storage, requests: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Delete what the plan names; a file that is not there was never made, or is already gone."""
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
            if storage.delete(file):
                partition["successDeleteFiles"].append(file)
    return found


def resume_rollbacks(table: TableState) -> None:
    """Finish rollbacks that died; a plan that cannot be read was never begun and goes."""
    for rollback in table.timeline.of(Action.ROLLBACK):
        if rollback.is_completed:
            continue
        path = instant_path(table.base_path, rollback.at(State.REQUESTED))
        try:
            plan = read_container(table.storage.read(path))
        except (CorruptFile, FileNotFoundError):
            if rollback.state is not State.REQUESTED:
                raise
            table.storage.delete(path)
            continue
        run_rollback(table, rollback, plan)


def roll_back_to(table: TableState, time: str) -> str:
    """Undo the write at a time, which must be the newest one.

    Raises:
        OptionError: there is no such write, a later one exists, or a savepoint holds it.
    """
    instant = next((i for i in table.timeline.instants if i.time == time and i.action.family in WRITE_ACTIONS), None)
    if instant is None:
        raise OptionError(f"there is no write at {time} on the timeline of {table.base_path}; see history()")
    if any(i.time == time for i in table.timeline.of(Action.SAVEPOINT)):
        raise OptionError(f"Could not rollback a savepointed commit. Delete savepoint {time} first")
    later = [i.time for i in table.timeline.writes if i.time > time]
    if later:
        raise OptionError(f"Found commits after time :{time}, please rollback greater commits first: {', '.join(later)}")
    return roll_back(table, instant)
