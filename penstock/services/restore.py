"""Restore: the table goes back to a commit that has a savepoint. Everything written later is deleted for good.

    <r>.restore.requested (the plan) → inflight → completed files of later instants removed, newest first → their data files
    deleted → the entries of an index undone → the rest of the later instants removed, and later rollbacks → <r>.restore

Data files are deleted by their names: those of slices that began later than the commit, whichever process wrote them. A log file
of an earlier slice is deleted if all its blocks are of later writes. Where it holds earlier blocks too, as Hudi may append, a
rollback block behind them takes the later ones back. Nothing depends on how far an earlier attempt came, so a restore that died
is finished by running it again, and no write begins before it is. Cleans are not undone: the savepoint has kept the files that
the commit needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock import clock
from penstock import options as o
from penstock.catalog.listing import walk_partitions
from penstock.catalog.pending import find_pending_clusterings
from penstock.catalog.savepoints import list_finished_restores, list_savepoint_times, read_savepoints
from penstock.commit.heartbeat import delete_heartbeat, is_alive, is_lazy
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import AlreadyExists, CorruptFile, OptionError, WriteConflict
from penstock.filegroup.markers import delete_markers, seal
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.filegroup.partitions import read_creation_instant, withdraw_partition
from penstock.formats.log import BlockType, scan_blocks
from penstock.index import make_index
from penstock.index.consistent_hashing import drop_changed_rings
from penstock.progress import Stages
from penstock.services.rollback.run import add_rollback_block
from penstock.spread.driver import fits_on_driver
from penstock.spread.runner import Runner
from penstock.storage import Storage, join
from penstock.table import TableState, reload_timeline
from penstock.timeline.archive import is_archived, load_archive
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.restore_file import RestorePlan, RestoreResult, read_restore_plan, write_restore_plan, write_restore_result
from penstock.timeline.store import instant_path, request_instant, transition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: From this many files on, starting Spark tasks for them is worth it.
_MANY_FILES = 1000


def restore(spark: SparkSession | None, table: TableState, to: str, stages: Stages) -> RestoreResult:
    """Take the table back to a commit that has a savepoint. No other process may write at the same time.

    A restore to the same commit that died is finished.

    Raises:
        OptionError: there is no savepoint of that commit, a later savepoint holds files that would be deleted, or later
            instants are archived.
        WriteConflict: a write is under way, or a restore to another commit is pending.
        CorruptFile: a file that the savepoint holds is missing, or the plan of a restore that has begun cannot be read.
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
        unplanned = _load_unplanned(table, plan)
        if unplanned:
            raise WriteConflict(
                f"restore {instant.time} of {table.base_path} does not know of the later write {unplanned[0].file_name}; remove "
                f"{instant.file_name} and its plan, then call restore() again"
            )
        table = turn_off_metadata_table(table)
    return _run(spark, table, instant, plan, stages)


def _find_pending(table: TableState) -> tuple[Instant, RestorePlan] | None:
    """Return the pending restore with its plan. A requested one whose plan cannot be read was never begun, and is deleted."""
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
    """Raise an error if the table would not be what it was at the commit. Nothing is changed."""
    if table.options[o.ARCHIVE_BEYOND_SAVEPOINT]:
        raise OptionError(
            f"Restore is not supported when {o.ARCHIVE_BEYOND_SAVEPOINT.key} is enabled: commits after the savepoint may be "
            "archived. Leave the option out"
        )
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
    if to not in table.timeline.completed_times:
        raise OptionError(f"commit {to} of {table.base_path} is not on the timeline any more, only its savepoint is")
    _check_not_archived(table, to)
    _check_alone(table)
    _check_files(table, to)


def _check_not_archived(table: TableState, to: str) -> None:
    """Raise OptionError if a later commit is archived.

    Commits are archived from the oldest on, except those with a savepoint. So while an older commit without one is on the
    timeline, no later commit is archived, and the archive need not be read.
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
    """Raise WriteConflict if another writer is alive. Only under the lazy policy are there heartbeats to tell."""
    if not is_lazy(table):
        return
    pending = [instant for instant in table.timeline.pending if instant.action in WRITE_ACTIONS]
    alive = [instant for instant in pending if is_alive(table, instant.time)]
    if alive:
        raise WriteConflict(f"write {alive[0].file_name} of {table.base_path} is under way; restore when it is finished")


def _check_files(table: TableState, to: str) -> None:
    """Raise CorruptFile if a file that the savepoint holds is missing.

    Log files may be missing after an earlier restore to the same commit: a savepoint may name log files that hold blocks of later
    writes alone, and that restore deleted them.
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
    """Whether an earlier restore to this commit was completed. Nothing else deletes files that a savepoint holds."""
    return any(commit == to for commit, _ in list_finished_restores(table))


def _request(table: TableState, to: str) -> tuple[Instant, RestorePlan]:
    """Put the plan on the timeline. Raise WriteConflict if a write began concurrently."""
    plan = plan_restore(table, to)
    content = write_restore_plan(plan)
    utc = table.config.timeline_utc
    instant = request_instant(table.storage, table.base_path, Action.RESTORE, utc=utc, content=content, is_plan=True)
    # A write may have begun since the timeline was loaded. The plan does not name it, so its files would be deleted and its
    # instant would stay. From here on writes see the pending restore and do not begin.
    unplanned = _load_unplanned(table, plan)
    if unplanned:
        table.storage.delete(instant_path(table.base_path, instant))
        raise WriteConflict(
            f"write {unplanned[0].file_name} of {table.base_path} began at the same time; restore when it is finished"
        )
    return instant, plan


def _load_unplanned(table: TableState, plan: RestorePlan) -> list[Instant]:
    """Return the later writes on the timeline that a plan does not name."""
    planned = {(instant.time, instant.action.family) for instant in plan.instants}
    later = _later_writes(reload_timeline(table), plan.to)
    return [instant for instant in later if (instant.time, instant.action.family) not in planned]


def plan_restore(table: TableState, to: str) -> RestorePlan:
    """Plan to take back all later writes and plans, newest first; pending clusterings before all others, as Hudi does."""
    later = _later_writes(table, to)
    clusterings = set(find_pending_clusterings(table).values())
    first = [instant for instant in later if not instant.is_completed and instant.time in clusterings]
    rest = [instant for instant in later if instant not in first]
    return RestorePlan(to, (*first, *rest))


def _later_writes(table: TableState, to: str) -> list[Instant]:
    """Return the writes and plans after a commit, newest first."""
    later = [instant for instant in table.timeline.instants if instant.time > to]
    return [instant for instant in reversed(later) if instant.action.family in WRITE_ACTIONS]


def _run(spark: SparkSession | None, table: TableState, instant: Instant, plan: RestorePlan, stages: Stages) -> RestoreResult:
    began = clock.monotonic_s()
    storage = table.storage
    base_path = table.base_path
    if instant.state is State.REQUESTED:
        with suppress(AlreadyExists):
            transition(storage, base_path, instant, State.INFLIGHT)
    # All completed files are removed before the first data file is: no reader sees a part of a write. Sealed first, so that a
    # writer that is still alive does not publish its write afterwards.
    for undone in plan.instants:
        seal(storage, base_path, undone.time)
        storage.delete(instant_path(base_path, undone.in_state(State.COMPLETED)))
    with stages.run("restore", f"deleting what was written after {plan.to}"):
        result = _delete_files(spark, table, instant.time, plan)
    make_index(table.options).after_restore(table, plan.instants)
    for undone in plan.instants:
        _remove_instant(table, undone)
    _remove_other_instants(table, instant, plan.to)
    result = replace(result, milliseconds=int((clock.monotonic_s() - began) * 1000))
    with suppress(AlreadyExists):
        transition(storage, base_path, instant, State.COMPLETED, write_restore_result(result))
    _check_done(table, plan.to)
    return result


def _remove_instant(table: TableState, instant: Instant) -> None:
    """Remove what is left of an instant. A completed compaction is in the plan under the action it completed as."""
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
    """Remove later rollbacks, whose writes are gone, pending savepoints, and requested restores of other processes."""
    for instant in reversed(reload_timeline(table).timeline.instants):
        is_pending_savepoint = instant.action is Action.SAVEPOINT and not instant.is_completed
        is_other_restore = instant.action is Action.RESTORE and instant.state is State.REQUESTED and instant.time != own.time
        is_void = instant.action is Action.ROLLBACK or is_pending_savepoint or is_other_restore
        if instant.time > to and is_void:
            for state in reversed(State):
                table.storage.delete(instant_path(table.base_path, instant.in_state(state)))


def _check_done(table: TableState, to: str) -> None:
    newest = reload_timeline(table).timeline.last_write
    if newest is None or newest.time != to:
        last = newest.time if newest else "none"
        raise WriteConflict(
            f"{to} is not the last commit of {table.base_path} after restoring to it, {last} is: another process wrote at the "
            "same time. Restore again while no other process writes"
        )


@dataclass(frozen=True)
class PartitionTask:
    """The files of one partition. Pickled to the workers."""

    storage: Storage
    base_path: str
    path: str
    names: tuple[str, ...]
    #: The commit that the table is restored to.
    to: str
    #: The restore's own time.
    instant: str


def _delete_files(spark: SparkSession | None, table: TableState, time: str, plan: RestorePlan) -> RestoreResult:
    tasks = []
    for path, files in walk_partitions(table.storage, table.base_path):
        names = tuple(file.name for file in files)
        if names:
            tasks.append(PartitionTask(table.storage, table.base_path, path, names, plan.to, time))
    is_small = sum(len(task.names) for task in tasks) < _MANY_FILES and fits_on_driver(table.options)
    results = Runner(spark, on_driver=is_small).run(restore_partition, tasks, list[list[Any]])
    # Both by the instant that wrote the file or block, then by partition path.
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
    """Take a partition that a later write made out of the table, if it holds no data file any more."""
    created = read_creation_instant(table.storage, table.base_path, path)
    if path and created is not None and created > plan.to:
        withdraw_partition(table.storage, table.base_path, path, created)


def restore_partition(task: PartitionTask) -> list[list[Any]]:
    """Delete what was written after the commit to one partition.

    Returns:
        Names of deleted files, each with the instant that wrote it; and log files that were added, each with its size and the
        instant whose blocks it takes back.
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
    """Return the instants after the commit that a file has content of, and whether it has earlier content too."""
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
    """Yield the instant of each block of a log file: of its rows, or of the rows that it takes back. Torn blocks have none."""
    path = join(task.base_path, task.path, name)
    for block in scan_blocks(task.storage.open(path), file_name=path):
        if block.is_rollback:
            yield block.target_instant
        elif block.type is not BlockType.CORRUPT:
            yield block.instant


def _take_back_blocks(task: PartitionTask, name: str, times: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Add a rollback block for each instant to the slice of a log file. Yield path, size and instant."""
    log = parse_log_name(name)
    assert log is not None  # `_times_in` finds mixed content in log files alone
    folder = join(task.base_path, task.path)
    for time in sorted(times, reverse=True):
        file, size = add_rollback_block(task.storage, folder, log.file_id, log.base_instant, time=task.instant, target=time)
        yield file, size, time
