"""Restore a table to a commit that has a savepoint. Everything written after that commit is deleted for good.

1. The plan is stored as `<r>.restore.requested`: the instants that are later than the commit. The plan is checked in a
transaction (`commit/claims.py`). Writers find the pending restore in their own transactions. Then the inflight file is created.
2. The completed files of the later instants are removed from the timeline, newest first. No reader sees a write whose data
files
   are deleted in step 3.
3. Their data files are deleted.
4. Their entries in the index are undone.
5. Their requested and inflight files, and later rollbacks, are removed from the timeline. Then `<r>.restore` is created.

Data files are chosen by name: every file of a slice whose base instant is later than the commit is deleted, whichever process
wrote the file. A log file of an earlier slice is deleted if all its blocks are of later writes. If the log file also holds
earlier blocks (Hudi may append to log files), a new log file with a rollback block cancels the later ones. A restore that crashed
is finished by running it again: no step depends on how far the crashed attempt came. No write can begin until the restore is
finished. Cleans are not undone: the savepoint has kept the files that the commit needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import clock
from penstock import options as o
from penstock.commit.claims import has_claims, run_transaction
from penstock.commit.heartbeat import delete_heartbeat, is_alive
from penstock.commit.markers import delete_markers, seal
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.commit.table_lock import check_store, locked
from penstock.errors import AlreadyExists, CorruptFile, OptionError, StorageError, WriteConflict
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.filegroup.partitions import read_creation_instant, withdraw_partition
from penstock.formats.log import BlockType, scan_blocks
from penstock.index import make_index
from penstock.index.consistent_hashing import drop_changed_rings
from penstock.progress import Stages
from penstock.services.rollback.run import add_rollback_block
from penstock.storage import Storage, join
from penstock.table.listing import walk_partitions
from penstock.table.pending import find_pending_clusterings
from penstock.table.savepoints import list_finished_restores, list_savepoint_times, read_savepoints
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.archive import is_archived, load_archive
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.restore_file import RestorePlan, RestoreResult, read_restore_plan, write_restore_plan, write_restore_result
from penstock.timeline.store import instant_path, request_instant, transition
from penstock.timeline.timeline import Timeline
from penstock.workers.driver_limit import fits_on_driver
from penstock.workers.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: From this many files on, starting Spark tasks for them is worth it.
_MANY_FILES = 1000


def restore(spark: SparkSession | None, table: TableState, to: str, stages: Stages) -> RestoreResult:
    """Restore the table to a commit that has a savepoint: delete everything written after the commit. No process may write.

    If an earlier restore to the same commit crashed, finish that restore.

    Args:
        to: the instant time of the commit.

    Raises:
        OptionError: the commit has no savepoint or is archived, a later commit has a savepoint or is archived, or the option
            `hoodie.archive.beyond.savepoint` is set.
        WriteConflict: another process writes, or a restore to another commit is pending.
        CorruptFile: a file that the savepoint holds is missing, or the plan of an inflight restore cannot be read.
    """
    table = reload_timeline(table)
    pending = _find_pending(table)
    if pending is None:
        _check(table, to)
        table = turn_off_metadata_table(table)
        instant, plan = _request(table, to)
    else:
        instant, plan = pending
        if plan.to != to:
            raise WriteConflict(
                f"restore {instant.time} of {table.base_path} to {plan.to} is not finished; finish it with restore({plan.to!r})"
            )
        unplanned = _find_unplanned(reload_timeline(table), plan)
        if unplanned:
            raise WriteConflict(
                f"restore {instant.time} of {table.base_path} does not know of the later write {unplanned[0].file_name}; remove "
                f"{instant.file_name} and its plan, then call restore() again"
            )
        table = turn_off_metadata_table(table)
        if instant.state is State.REQUESTED:
            _confirm(table, instant, plan)
    return _run(spark, table, instant, plan, stages)


def _find_pending(table: TableState) -> tuple[Instant, RestorePlan] | None:
    """Return the instant and the plan of the pending restore; None if no restore is pending.

    A requested restore whose plan cannot be read has not begun, and is deleted. If the plan of an inflight restore cannot be
    read, CorruptFile is raised.
    """
    for instant in table.timeline.filter(Action.RESTORE):
        if instant.is_completed:
            continue
        path = instant_path(table.base_path, instant.in_state(State.REQUESTED))
        try:
            return instant, read_restore_plan(table.storage.read(path), path)
        except (CorruptFile, FileNotFoundError) as e:
            if instant.state is not State.REQUESTED:
                raise CorruptFile(
                    f"restore {instant.file_name} of {table.base_path} has begun, but its plan cannot be read: {e}. Restore "
                    f"{path} from a copy; or remove {instant.file_name} and the plan, then call restore() again"
                ) from e
            table.storage.delete(path)
    return None


def _check(table: TableState, to: str) -> None:
    """Raise an error if a new restore to the commit at `to` is not possible.

    Raises:
        OptionError: a missing or later savepoint, an archived commit, or hoodie.archive.beyond.savepoint does not allow it.
        WriteConflict: another process writes.
        CorruptFile: a file that the savepoint holds is missing.
    """
    if table.options[o.ARCHIVE_BEYOND_SAVEPOINT]:
        raise OptionError(
            f"Restore is not supported when {o.ARCHIVE_BEYOND_SAVEPOINT.key} is enabled: commits after the savepoint may be "
            "archived. Leave the option out"
        )
    _check_savepoints(table, to)
    if to not in table.timeline.completed_times:
        raise OptionError(f"commit {to} of {table.base_path} is not on the timeline any more, only its savepoint is")
    _check_not_archived(table, to)
    _check_alone(table)
    _check_files(table, to)


def _check_savepoints(table: TableState, to: str) -> None:
    """Raise OptionError if the commit at `to` has no savepoint, or a later commit has one."""
    held = list_savepoint_times(table)
    if to not in held:
        if to in table.timeline.completed_times:
            fix = f"make one with savepoint({to!r})"
        else:
            fix = f"savepoints are there of {', '.join(held) or 'no commit'}"
        raise OptionError(f"No savepoint for instantTime {to} of {table.base_path}; {fix}")
    later = [time for time in held if time > to]
    if later:
        raise OptionError(
            f"Could not rollback a savepointed commit: savepoint {later[-1]} of {table.base_path} is later than {to}. Delete it "
            f"first with delete_savepoint({later[-1]!r})"
        )


def _check_not_archived(table: TableState, to: str) -> None:
    """Raise OptionError if a commit later than the one at `to` is archived, because a restore could not undo that commit.

    Commits are archived oldest first, except those with a savepoint. So if a commit that is older than `to` and has no savepoint
    is still on the timeline, no later commit is archived, and the archive is not read.
    """
    held = set(list_savepoint_times(table))
    if any(write.time < to and write.time not in held for write in table.timeline.writes):
        return
    folder = table.config.archive_folder
    if not is_archived(table.storage, table.base_path, folder):
        return
    actions = {action.value for action in WRITE_ACTIONS}
    entries = load_archive(table.storage, table.base_path, folder)
    archived = [entry["commitTime"] for entry in entries if entry["actionType"] in actions]
    newer = max((time for time in archived if time > to), default=None)
    if newer:
        raise OptionError(
            f"{table.base_path} cannot be restored to {to}: the later commit {newer} is archived, so that it cannot be taken "
            f"back. {o.ARCHIVE_BEYOND_SAVEPOINT.key}=false keeps commits after a savepoint on the timeline"
        )


def _check_alone(table: TableState) -> None:
    """Raise WriteConflict if a write is pending on the table and its writer is alive, by its heartbeat."""
    pending = [instant for instant in table.timeline.pending if instant.action in WRITE_ACTIONS]
    alive = [instant for instant in pending if is_alive(table, instant.time)]
    if alive:
        raise WriteConflict(f"write {alive[0].file_name} of {table.base_path} is under way; restore when it is finished")


def _check_files(table: TableState, to: str) -> None:
    """Raise CorruptFile if a file that the savepoint of the commit at `to` keeps is missing.

    Log files may be missing if the table was restored to the same commit before: a savepoint may name log files whose blocks are
    all of later writes, and the earlier restore deleted these log files.
    """
    savepoint = next(savepoint for savepoint in read_savepoints(table) if savepoint.instant == to)
    was_restored = _was_restored(table, to)
    for path, names in savepoint.files.items():
        present = {file.name for file in table.storage.list(join(table.base_path, path))} if names else set()
        needed = {name for name in names if not was_restored or parse_log_name(name) is None}
        missing = sorted(needed - present)
        if missing:
            raise CorruptFile(
                f"{table.base_path} cannot be restored to {to}: file {join(path, missing[0])}, which its savepoint holds, is "
                "missing. Put it back from a copy, or restore to another savepoint"
            )


def _was_restored(table: TableState, to: str) -> bool:
    """Whether an earlier restore to the commit at `to` has completed. Only a restore deletes files that a savepoint keeps."""
    return any(commit == to for commit, _ in list_finished_restores(table))


def _request(table: TableState, to: str) -> tuple[Instant, RestorePlan]:
    """Plan a restore and store the plan on the timeline; return the restore's instant and the plan.

    Args:
        to: the instant time of the commit to which the table is restored.

    Raises:
        WriteConflict: a write began or completed while the restore was planned. The plan is deleted again.
        OptionError: the savepoint was deleted, or a later one was made. The plan is deleted again.
    """
    check_store(table)
    plan = plan_restore(table, to)
    content = write_restore_plan(plan)
    utc = table.config.timeline_utc
    instant = request_instant(table.storage, table.base_path, Action.RESTORE, utc=utc, content=content, is_plan=True)
    _confirm(table, instant, plan)
    return instant, plan


def _confirm(table: TableState, instant: Instant, plan: RestorePlan) -> None:
    """Check in a transaction (`commit/claims.py`) that the plan of a requested restore names every instant that it has to undo.

    A write may have begun or completed since the timeline was loaded. The plan would not name it, so its files would be deleted
    and its instant would stay. After this check no write can begin or commit, because writers find the pending restore. If the
    check fails, the plan is deleted: nothing was removed yet, and a pending restore keeps every writer out.
    """
    storage = table.storage
    try:
        if has_claims(table):
            with locked(table):
                run_transaction(table, partial(_check_turn, table, plan))
        else:
            _check_turn(table, plan, reload_timeline(table).timeline)
    except BaseException:
        with suppress(StorageError):
            # Another process may have found the plan, and may already run it.
            if storage.stat(instant_path(table.base_path, instant.in_state(State.INFLIGHT))) is None:
                storage.delete(instant_path(table.base_path, instant))
        raise


def _check_turn(table: TableState, plan: RestorePlan, timeline: Timeline) -> None:
    """Check that the plan of a restore, which is now on the timeline, names every instant that the restore has to undo.

    Args:
        table: the table with the timeline on which the restore was planned.
        timeline: the timeline as the transaction of the restore (`commit/claims.py`) reads it.

    Raises:
        WriteConflict: a write began or completed since the restore was planned, or the writer of a pending write is alive by its
            heartbeat.
        OptionError: the savepoint of the commit `plan.to` was deleted, or a later one was made.
    """
    table_now = replace(table, timeline=timeline)
    new = _find_unplanned(table_now, plan) or [i for i in timeline.writes if i.time not in table.timeline.completed_times]
    if new:
        raise WriteConflict(f"write {new[0].file_name} of {table.base_path} began at the same time; restore when it is finished")
    _check_alone(table_now)
    _check_savepoints(table_now, plan.to)


def _find_unplanned(table: TableState, plan: RestorePlan) -> list[Instant]:
    """Return the writes, and plans of table services, that are later than `plan.to` and that the restore plan does not name."""
    planned = {(instant.time, instant.action.family) for instant in plan.instants}
    later = _later_writes(table, plan.to)
    return [instant for instant in later if (instant.time, instant.action.family) not in planned]


def plan_restore(table: TableState, to: str) -> RestorePlan:
    """Plan which instants a restore undoes: writes and table services' plans later than the commit at `to`, newest first.

    Pending clusterings come before all others, as in Hudi.
    """
    later = _later_writes(table, to)
    clusterings = set(find_pending_clusterings(table).values())
    first = [instant for instant in later if not instant.is_completed and instant.time in clusterings]
    rest = [instant for instant in later if instant not in first]
    return RestorePlan(to, (*first, *rest))


def _later_writes(table: TableState, to: str) -> list[Instant]:
    """Return the instants of writes and of table services' plans that are later than the commit at `to`, newest first."""
    later = [instant for instant in table.timeline.instants if instant.time > to]
    return [instant for instant in reversed(later) if instant.action.family in WRITE_ACTIONS]


def _run(spark: SparkSession | None, table: TableState, instant: Instant, plan: RestorePlan, stages: Stages) -> RestoreResult:
    """Run the plan of a restore and complete the restore on the timeline.

    Args:
        instant: the requested or inflight instant of the restore.
    """
    began = clock.monotonic_s()
    storage = table.storage
    base_path = table.base_path
    if instant.state is State.REQUESTED:
        with suppress(AlreadyExists):
            transition(storage, base_path, instant, State.INFLIGHT)
    # All completed files are removed before the first data file is, so no reader sees a part of a write. `seal` comes first: it
    # keeps a writer that is still alive from publishing its write afterwards.
    for undone in plan.instants:
        seal(storage, base_path, undone.time)
        storage.delete(instant_path(base_path, undone.in_state(State.COMPLETED)))
    with stages.run("restore", f"deleting what was written after {plan.to}"):
        result = _delete_files(spark, table, instant.time, plan)
    make_index(table.options).after_restore(table, plan.instants)
    for undone in plan.instants:
        _remove_instant(table, undone)
        if has_claims(table):
            # A process that stopped after its claim may have created the completed file again. It deletes the file itself if it
            # finds the requested file gone.
            storage.delete(instant_path(base_path, undone.in_state(State.COMPLETED)))
    _remove_other_instants(table, instant, plan.to)
    result = replace(result, milliseconds=int((clock.monotonic_s() - began) * 1000))
    with suppress(AlreadyExists):
        transition(storage, base_path, instant, State.COMPLETED, write_restore_result(result))
    _check_done(table, plan.to)
    return result


def _remove_instant(table: TableState, instant: Instant) -> None:
    """Remove what is left of an instant that a restore undoes: pending timeline files, new hash rings, markers, heartbeat.

    The restore plan names a completed compaction by the action under which it completed, `commit`. So the pending files of all
    actions that complete under that action are removed, for example `<t>.compaction.requested`. New hash rings are those that a
    clustering of a table with consistent hashing stored.
    """
    storage = table.storage
    base_path = table.base_path
    actions = [action for action in Action if action.family is instant.action.family]
    for action in actions:
        for state in (State.INFLIGHT, State.REQUESTED):
            storage.delete(instant_path(base_path, Instant(instant.time, action, state)))
    drop_changed_rings(table, instant.time)
    delete_markers(storage, base_path, instant.time)
    delete_heartbeat(storage, base_path, instant.time)


def _remove_other_instants(table: TableState, own: Instant, to: str) -> None:
    """Remove rollbacks, pending savepoints and other requested restores that are later than `to` from the timeline.

    Args:
        own: the instant of this restore, which is kept.
        to: the instant time of the commit to which the table is restored.
    """
    for instant in reversed(reload_timeline(table).timeline.instants):
        is_pending_savepoint = instant.action is Action.SAVEPOINT and not instant.is_completed
        is_other_restore = instant.action is Action.RESTORE and instant.state is State.REQUESTED and instant.time != own.time
        is_void = instant.action is Action.ROLLBACK or is_pending_savepoint or is_other_restore
        if instant.time > to and is_void:
            for state in reversed(State):
                table.storage.delete(instant_path(table.base_path, instant.in_state(state)))


def _check_done(table: TableState, to: str) -> None:
    """Raise WriteConflict if the last commit after the restore is not the one at `to`: another process wrote concurrently."""
    newest = reload_timeline(table).timeline.last_write
    if newest is None or newest.time != to:
        last = newest.time if newest else "none"
        raise WriteConflict(
            f"{to} is not the last commit of {table.base_path} after restoring to it, {last} is: another process wrote at the "
            "same time. Restore again while no other process writes"
        )


@dataclass(frozen=True)
class PartitionTask:
    """Task description: the files of one partition that `restore_partition` checks and perhaps deletes. Pickled to a worker."""

    storage: Storage
    base_path: str
    path: str
    names: tuple[str, ...]
    #: Instant time of the commit that the table is restored to.
    to: str
    #: Instant time of the restore.
    instant: str


def _delete_files(spark: SparkSession | None, table: TableState, time: str, plan: RestorePlan) -> RestoreResult:
    """Delete the data files that were written after the commit `plan.to`, in all partitions. Return the result of the restore.

    The result names the deleted files, and the log files that were added.

    Args:
        time: the instant time of the restore.
    """
    tasks = []
    for path, files in walk_partitions(table.storage, table.base_path):
        names = tuple(file.name for file in files)
        if names:
            tasks.append(PartitionTask(table.storage, table.base_path, path, names, plan.to, time))
    is_small = sum(len(task.names) for task in tasks) < _MANY_FILES and fits_on_driver(table.options)
    results = Runner(spark, on_driver=is_small).run(restore_partition, tasks, list[list[Any]])
    # Keys of both: the instant that wrote the file or block, then the partition path.
    deleted: dict[str, dict[str, list[str]]] = {}
    added: dict[str, dict[str, dict[str, int]]] = {}
    for task, (deleted_files, added_logs) in zip(tasks, results, strict=True):
        for name, written_at in deleted_files:
            paths = deleted.setdefault(written_at, {}).setdefault(task.path, [])
            paths.append(join(table.base_path, task.path, name))
        for file, size, written_at in added_logs:
            added.setdefault(written_at, {}).setdefault(task.path, {})[file] = size
        _withdraw_new_partition(table, task.path, plan)
    return RestoreResult(time, plan, deleted, added)


def _withdraw_new_partition(table: TableState, path: str, plan: RestorePlan) -> None:
    """Remove a partition from the table, if it was created by a write after the commit `plan.to` and has no data file left."""
    created = read_creation_instant(table.storage, table.base_path, path)
    if path and created is not None and created > plan.to:
        withdraw_partition(table.storage, table.base_path, path, created)


def restore_partition(task: PartitionTask) -> list[list[Any]]:
    """Undo in one partition what was written after the commit `task.to`: delete files, or cancel blocks of log files.

    Returns:
        Two lists: (name, instant that wrote the file) of each deleted file; and (path, size, instant whose blocks are cancelled)
            of each log file with a rollback block that was added.
    """
    deleted: list[tuple[str, str]] = []
    added: list[tuple[str, int, str]] = []
    for name in task.names:
        later, has_earlier = _times_in(task, name)
        if not later:
            continue
        if has_earlier:
            added += _take_back_blocks(task, name, later)
        elif task.storage.delete(join(task.base_path, task.path, name)):
            deleted.append((name, max(later)))
    return [deleted, added]


def _times_in(task: PartitionTask, name: str) -> tuple[set[str], bool]:
    """Return the instants later than `task.to` that wrote to a file, and whether the file also has blocks of earlier instants.

    The set of instants is empty if only earlier instants wrote to the file.

    Args:
        name: the name of the file.
    """
    base = parse_base_name(name)
    if base is not None:
        return {base.instant} if base.instant > task.to else set(), False
    log = parse_log_name(name)
    if log is None:
        return set(), False
    if log.base_instant > task.to:
        return {log.base_instant}, False
    times = list(_block_times(task, name))
    later = {time for time in times if time > task.to}
    return later, any(time <= task.to for time in times)


def _block_times(task: PartitionTask, name: str) -> Iterator[str]:
    """Yield the instant time of each block of a log file; for a rollback block, the instant time whose blocks it cancels.

    Corrupt blocks are skipped.

    Args:
        name: the name of the log file.
    """
    path = join(task.base_path, task.path, name)
    for block in scan_blocks(task.storage.open(path), file_name=path):
        if block.is_rollback:
            yield block.target_instant
        elif block.type is not BlockType.CORRUPT:
            yield block.instant


def _take_back_blocks(task: PartitionTask, name: str, times: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Cancel the blocks that the instants `times` wrote to a log file: add one log file with a rollback block per instant.

    Yield (path, size, cancelled instant) of each added log file.

    Args:
        name: the name of the log file.
    """
    log = parse_log_name(name)
    assert log is not None  # `_times_in` finds earlier and later blocks together only in log files
    folder = join(task.base_path, task.path)
    for time in sorted(times, reverse=True):
        file, size = add_rollback_block(task.storage, folder, log.file_id, log.base_instant, time=task.instant, target=time)
        yield file, size, time
