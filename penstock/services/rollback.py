"""Rollback: what a failed write left is removed, and the timeline says so.

    <r>.rollback.requested (the plan) → inflight → files removed → the failed instant's files removed → <r>.rollback

The plan is written before anything is touched, so a rollback that dies is taken up again under the same instant. What to
remove is known from the write's markers, or, for a completed write and where the option says so, by listing.

Base files are deleted. A log file that was added to an existing slice stays, as with Hudi, and a log file behind it says that
the failed write's blocks do not count; readers that come later, when the timeline no longer knows that write, need to be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.commit.heartbeat import is_alive, is_lazy, stop_heartbeat
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.commit.swap import OVERWRITE
from penstock.errors import AlreadyExists, CorruptFile, OptionError
from penstock.filegroup.markers import TEMP, WORK_PREFIX, Marker, MarkerType, delete_markers, read_markers, seal
from penstock.filegroup.names import (
    UNKNOWN_WRITE_TOKEN,
    BaseName,
    LogName,
    log_file_name,
    next_log_version,
    parse_base_name,
    parse_log_name,
)
from penstock.filegroup.partitions import withdraw_partition
from penstock.formats.avro import read_container, write_container
from penstock.formats.log_blocks import rollback_block
from penstock.index.rings import drop_changed
from penstock.metadata.listing import walk_partitions
from penstock.metadata.pending import clustering_of, pending_clusterings
from penstock.services.rollback_index import sync_index
from penstock.services.savepoint import lost_since
from penstock.storage import FileInfo, Storage, join
from penstock.table import TableState, reloaded
from penstock.timeline.contents import CommitMetadata, WriteStat, read_commit
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import FOLDER, instant_path, request, transition
from penstock.timeline.timeline import Timeline

#: After this long nobody is at work any more in a folder for temporary files that belongs to no instant.
_ABANDONED_MS = 24 * 60 * 60 * 1000
#: Actions whose plan outlives a run that failed.
_PLANNED = (Action.COMPACTION, Action.LOG_COMPACTION)


def roll_back_failed(table: TableState) -> TableState:
    """Undo every write that did not finish, as far as the policy for failed writes lets a new write do so.

    Returns:
        The table with its timeline as it is afterwards. The rollbacks' instants are earlier than any taken from then on.
    """
    temporary = table.storage.list(
        join(table.base_path, FOLDER, TEMP)
    )  # before the timeline: an instant is older than its folder
    table = reloaded(table)
    if any(not i.is_completed for i in table.timeline.of(Action.RESTORE)):
        return table  # what it takes back looks unfinished, and is the restore's own business; nobody writes before it is done
    is_eager = _policy(table) == "EAGER"
    if is_eager and table.timeline.pending:
        resume_rollbacks(table)
        for instant in reversed(failed_writes(reloaded(table))):
            roll_back(table, instant)
        table = reloaded(table)
    _clear(table.storage, [f for f in temporary if _is_leftover(f, table.timeline, alone=is_eager)])
    return table


def _is_leftover(entry: FileInfo, timeline: Timeline, *, alone: bool) -> bool:
    """Whether a temporary file or folder belongs to a write that is over, one way or the other."""
    time = entry.name.removeprefix(WORK_PREFIX)
    if time.isdecimal():
        return time not in timeline.pending_times
    if alone and entry.name.lstrip(".").startswith(OVERWRITE):
        return True
    return clock.now_ms() - entry.modified_ms > _ABANDONED_MS


def _clear(storage: Storage, leftovers: Iterable[FileInfo]) -> None:
    for entry in leftovers:
        if entry.is_dir:
            storage.delete_tree(entry.path)
        else:
            storage.delete(entry.path)


def roll_back_expired(table: TableState) -> None:
    """Under the lazy policy: undo writes whose writer has not given a sign of life for too long."""
    silent = [i for i in failed_writes(table) if not is_alive(table, i.time)]
    table = reloaded(table)  # after the look at heartbeats: a writer that has just finished has none any more either
    resume_rollbacks(table)
    pending = set(failed_writes(reloaded(table)))
    for instant in reversed(silent):
        if instant in pending:
            roll_back(table, instant)


def failed_writes(table: TableState) -> list[Instant]:
    """Pending commits, delta commits and replace commits; plans of table services wait for their own run."""
    return [i for i in table.timeline.pending if i.action in WRITE_ACTIONS and not _is_service(table, i)]


def _is_service(table: TableState, instant: Instant) -> bool:
    """Whether an instant carries out a plan of a table service: a compaction, or a clustering."""
    if instant.action is not Action.REPLACE_COMMIT:
        return instant.action not in WRITE_ACTIONS
    return clustering_of(table, instant) is not None


def roll_back(table: TableState, instant: Instant, *, keeps_plan: bool = False) -> str:
    """Undo one write, finished or not; gives the rollback's own instant.

    Args:
        keeps_plan: whether only the run of a clustering is undone, and its plan stays. That of a compaction always does.
    """
    seal(table.storage, table.base_path, instant.time)
    plan = plan_rollback(table, instant)
    content, utc = write_container("HoodieRollbackPlan", plan), table.config.timeline_utc
    rollback = request(table.storage, table.base_path, Action.ROLLBACK, utc=utc, content=content, is_plan=True)
    return run_rollback(table, rollback, plan, was_published=instant.is_completed, keeps_plan=keeps_plan)


def plan_rollback(table: TableState, instant: Instant) -> dict[str, Any]:
    """What undoing a write removes, and what it takes back in logs."""
    if instant.state is State.REQUESTED:
        requests: list[dict[str, Any]] = []
    elif instant.state is State.INFLIGHT and (table.options[o.ROLLBACK_USING_MARKERS] or instant.action is Action.LOG_COMPACTION):
        # a log compaction says nowhere else which logs it has added to
        requests = _announced(table, read_markers(table.storage, table.base_path, instant.time))
    else:
        requests = _listed(table, instant)
    return {
        "instantToRollback": {"commitTime": instant.time, "action": instant.action.value},
        "RollbackRequests": requests,
        "version": 1,
    }


def _announced(table: TableState, markers: Sequence[Marker]) -> list[dict[str, Any]]:
    """A request for each marker that names a data file."""
    requests = []
    for marker in sorted(markers, key=lambda m: m.file_path):
        path, _, file = marker.file_path.rpartition("/")
        if (log := parse_log_name(file)) is not None:
            requests.append(_taking_back(table, path, log.file_id, log.base_instant, {file: 1}))
        elif (base := parse_base_name(file)) is None:
            continue
        elif marker.kind is MarkerType.APPEND:  # as Hudi wrote it once: the name stands for the slice's log, whichever file
            requests.append(_taking_back(table, path, base.file_id, base.instant, {}))
        else:
            requests.append(_deleting(path, base.file_id, base.instant, join(table.base_path, path, file)))
    return requests


def _deleting(path: str, file_id: str, base_instant: str, file: str) -> dict[str, Any]:
    return _request(path, file_id, base_instant) | {"filesToBeDeleted": [file]}


def _taking_back(table: TableState, path: str, file_id: str, base_instant: str, logs: Mapping[str, int]) -> dict[str, Any]:
    """A request to add a rollback block to a slice's log. Where no log file is known it names the folder, as Hudi does."""
    unnamed = {join(table.base_path, path): 1}
    return _request(path, file_id, base_instant) | {"logBlocksToBeDeleted": dict(logs) or unnamed}


def _request(path: str, file_id: str, base_instant: str) -> dict[str, Any]:
    return {
        "partitionPath": path,
        "fileId": file_id,
        "latestBaseInstant": base_instant,
        "filesToBeDeleted": [],
        "logBlocksToBeDeleted": {},
    }


def _listed(table: TableState, instant: Instant) -> list[dict[str, Any]]:
    """Requests for what a listing shows of a write: files with its time as their base instant, and logs it has added to.

    Two attempts of a task may have made the same file group. A compaction did not write the logs that have its time.
    """
    is_delta = instant.action.family is Action.DELTA_COMMIT
    stats: dict[str, list[WriteStat]] = _written(table, instant).by_partition() if is_delta else {}
    requests: list[dict[str, Any]] = []
    for path, files in walk_partitions(table.storage, table.base_path):
        newest: dict[str, str] = {}
        for file in files:
            name: BaseName | LogName | None = parse_base_name(file.name) or parse_log_name(file.name)
            if name is None:
                continue
            base_instant = name.instant if isinstance(name, BaseName) else name.base_instant
            if base_instant == instant.time and (is_delta or isinstance(name, BaseName)):
                requests.append(_deleting(path, name.file_id, base_instant, join(table.base_path, path, file.name)))
            if base_instant <= instant.time:
                newest[name.file_id] = max(newest.get(name.file_id, ""), base_instant)
        requests += _added_to(table, path, stats.get(path, []), newest, instant.time)
    return requests


def _added_to(
    table: TableState, path: str, stats: Sequence[WriteStat], newest: Mapping[str, str], time: str
) -> list[dict[str, Any]]:
    """A request for each file group that the write may have added log files to; new ones went with their files."""
    logs: dict[str, dict[str, int]] = {}
    for stat in stats:
        if stat.prev_commit != "null" and newest.get(stat.file_id, time) < time:
            name = (stat.path or "").rpartition("/")[2]
            logs.setdefault(stat.file_id, {}).update({name: max(1, stat.total_write_bytes)} if parse_log_name(name) else {})
    return [_taking_back(table, path, file_id, newest[file_id], named) for file_id, named in sorted(logs.items())]


def _written(table: TableState, instant: Instant) -> CommitMetadata:
    """What a write says it did, or was about to do; nothing where it says nothing."""
    try:
        content = table.storage.read(instant_path(table.base_path, instant))
    except FileNotFoundError:
        content = b""
    return read_commit(content, instant.file_name) if content else CommitMetadata()


def run_rollback(
    table: TableState, rollback: Instant, plan: Mapping[str, Any], *, was_published: bool = True, keeps_plan: bool = False
) -> str:
    """Carry out a rollback plan, from wherever an earlier attempt stopped.

    Args:
        was_published: whether what is undone may have been a part of the table.
        keeps_plan: whether the plan of what is undone stays, to be run again.
    """
    started = clock.monotonic_s()
    storage, base_path = table.storage, table.base_path
    failed = _target_of(plan)
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
    stop_heartbeat(storage, base_path, failed.time)
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


def _target_of(plan: Mapping[str, Any]) -> Instant:
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
            folder, slice_ = join(table.base_path, path), (one["fileId"], one["latestBaseInstant"])
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
    block = rollback_block(instant=time, target_instant=target)
    while True:
        names = [name for file in storage.list(folder) if (name := parse_log_name(file.name)) is not None]
        version = next_log_version(names, file_id, base_instant)
        path = join(folder, log_file_name(file_id, base_instant, version, UNKNOWN_WRITE_TOKEN))
        with suppress(AlreadyExists):  # somebody else rolls back as well: two blocks that say the same do no harm
            storage.write_new(path, block)
            return path, len(block)


def resume_rollbacks(table: TableState) -> None:
    """Finish rollbacks that died; a plan that cannot be read was never begun and goes.

    Those of table services' plans are left to the services, which wait for them. Once the service is done, one that was not
    begun goes: it was for a run before. One that was begun undoes what was done.
    """
    for rollback in table.timeline.of(Action.ROLLBACK):
        if rollback.is_completed:
            continue
        path = instant_path(table.base_path, rollback.at(State.REQUESTED))
        try:
            plan = read_container(table.storage.read(path))
            failed = _target_of(plan)
        except (CorruptFile, FileNotFoundError) as e:
            if rollback.state is not State.REQUESTED:
                raise CorruptFile(f"rollback {rollback.file_name} was begun, but its plan {path} cannot be read: {e}") from e
            table.storage.delete(path)
            continue
        is_done = failed.time in table.timeline.completed_times
        if _is_service(table, failed) and not (is_done and rollback.state is State.INFLIGHT):
            if is_done:
                table.storage.delete(path)
            continue
        run_rollback(table, rollback, plan)


def roll_back_to(table: TableState, time: str) -> str:
    """Undo the write at a time, which must be the newest one; gives the rollback's own instant.

    Raises:
        OptionError: there is no such write, a later one exists, a savepoint holds it, a clustering that waits is to read what
            it wrote, or the rows before it were cleaned.
    """
    table = reloaded(table)
    instant = next((i for i in table.timeline.instants if i.time == time and i.action.family in WRITE_ACTIONS), None)
    if instant is None:
        raise OptionError(f"there is no write at {time} on the timeline of {table.base_path}; see history()")
    if not instant.is_completed and _is_service(table, instant):
        raise OptionError(f"{instant.file_name} is the plan of a table service, not a write; there is nothing to roll back")
    if any(i.time == time for i in table.timeline.of(Action.SAVEPOINT)):
        raise OptionError(f"Could not rollback a savepointed commit. Delete savepoint {time} first")
    later = [i.time for i in table.timeline.writes if i.time > time]
    if later:
        raise OptionError(f"Found commits after time :{time}, please rollback greater commits first: {', '.join(later)}")
    if instant.is_completed and (clustering := _clustering_on_top(table, instant)):
        raise OptionError(
            f"clustering {clustering} of {table.base_path} waits to read what write {time} has written. Run it, or unschedule "
            "it first"
        )
    before = [i.time for i in table.timeline.writes if i.time < time]
    if instant.is_completed and before and (lost := lost_since(table, before[-1])):
        raise OptionError(f"write {time} of {table.base_path} cannot be rolled back: {lost}, which held the rows before it")
    table = turn_off_metadata_table(table)
    if instant.is_completed:
        table = roll_back_failed(table)
    waiting = [i.time for i in failed_writes(table) if i.time > time]
    if waiting:
        raise OptionError(
            f"Found in-flight commits after time :{time}, please rollback greater commits first: {', '.join(waiting)}"
        )
    return roll_back(table, instant)


def _clustering_on_top(table: TableState, instant: Instant) -> str | None:
    """The clustering that is planned for what a write wrote. (A compaction takes slices as they are when it runs.)"""
    written = {(stat.partition_path or "", stat.file_id) for stat in _written(table, instant).stats}
    plans = pending_clusterings(table).items()
    return next((time for group, time in plans if group in written and time > instant.time), None)


def _policy(table: TableState) -> str:
    return table.options[o.FAILED_WRITES_POLICY].upper()
