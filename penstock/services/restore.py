"""Restore: the table goes back to a commit that has a savepoint; what was written later is deleted, for good.

    <r>.restore.requested (the plan) → inflight → later instants un-published, newest first → their files deleted
    → an index with entries is told → their instants gone from the timeline, and later rollbacks → <r>.restore

Files go by their names: those of slices that began later than the commit, whoever wrote them. A log file of an earlier slice
goes if all its blocks are of later writes; where others are in it too, as Hudi may append, a block behind them takes the later
ones back. Nothing depends on how far an earlier attempt came, so one that died is finished by running it again, and nobody
writes before it is. Cleans are not undone: the savepoint has kept what the commit needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock import clock
from penstock import options as o
from penstock.catalog.listing import walk_partitions
from penstock.catalog.pending import pending_clusterings
from penstock.catalog.savepoints import finished_restores, savepoint_times, savepoints
from penstock.commit.heartbeat import delete_heartbeat, is_alive, is_lazy
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import AlreadyExists, CorruptFile, OptionError, WriteConflict
from penstock.filegroup.markers import delete_markers, seal
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.filegroup.partitions import read_creation_instant, withdraw_partition
from penstock.formats.log import BlockType, scan_blocks
from penstock.index.consistent_hashing import drop_changed
from penstock.progress import Stages
from penstock.services.rollback.index_entries import sync_restored
from penstock.services.rollback.run import add_rollback_block
from penstock.spread.driver import fits_on_driver
from penstock.spread.runner import Runner
from penstock.storage import Storage, join
from penstock.table import TableState, reload_timeline
from penstock.timeline.archive import is_archived, load_archive
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.restore_file import RestorePlan, RestoreResult, read_restore_plan, write_restore_plan, write_restore_result
from penstock.timeline.store import instant_path, request, transition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: From so many files on, starting Spark tasks for them is worth it.
_MANY_FILES = 1000


def restore(spark: SparkSession | None, table: TableState, to: str, stages: Stages) -> RestoreResult:
    """Take the table back to a commit that has a savepoint. No other writer may be at work.

    A restore to the same commit that died is finished.

    Raises:
        OptionError: there is no savepoint of that commit, a later one holds what would go, or instants are archived.
        WriteConflict: a writer is at work, or a restore to another commit waits to be finished.
        CorruptFile: a file that the savepoint holds is missing, or the plan of a restore that has begun cannot be read.
    """
    table = reload_timeline(table)
    waiting = _waiting(table)
    if waiting is None:
        _check(table, to)
        table = turn_off_metadata_table(table)
        instant, plan = _request(table, to)
    else:
        instant, plan = waiting
        if plan.to != to:
            raise WriteConflict(
                f"restore {instant.time} of {table.base_path} to {plan.to} is not finished; finish it with restore({plan.to!r})"
            )
        if new := _unplanned(table, plan):
            raise WriteConflict(
                f"restore {instant.time} of {table.base_path} does not know of the later write {new[0].file_name}; remove "
                f"{instant.file_name} and its plan, then call restore() again"
            )
        table = turn_off_metadata_table(table)
    return _run(spark, table, instant, plan, stages)


def _waiting(table: TableState) -> tuple[Instant, RestorePlan] | None:
    """A restore that is not finished; one whose plan cannot be read was never begun, and goes."""
    for instant in table.timeline.of(Action.RESTORE):
        if instant.is_completed:
            continue
        path = instant_path(table.base_path, instant.at(State.REQUESTED))
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
    """Refuse what would not give the table as it was, before anything is touched."""
    if table.options[o.ARCHIVE_BEYOND_SAVEPOINT]:
        raise OptionError(
            f"Restore is not supported when {o.ARCHIVE_BEYOND_SAVEPOINT.key} is enabled: commits after the savepoint may be "
            "archived. Leave the option out"
        )
    held = savepoint_times(table)
    if to not in held:
        is_there = to in table.timeline.completed_times
        fix = f"make one with savepoint({to!r})" if is_there else f"savepoints are there of {', '.join(held) or 'no commit'}"
        raise OptionError(f"No savepoint for instantTime {to} of {table.base_path}; {fix}")
    if later := [time for time in held if time > to]:
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
    """Archiving goes from the oldest on. So only where nothing older is left something newer may have gone too."""
    held = set(savepoint_times(table))
    if any(i.time < to and i.time not in held for i in table.timeline.writes):
        return
    folder = table.config.archive_folder
    if not is_archived(table.storage, table.base_path, folder):
        return
    actions = {action.value for action in WRITE_ACTIONS}
    archived = (e["commitTime"] for e in load_archive(table.storage, table.base_path, folder) if e["actionType"] in actions)
    if newer := max((time for time in archived if time > to), default=None):
        raise OptionError(
            f"{table.base_path} cannot be restored to {to}: the later commit {newer} is archived, so that it cannot be taken "
            f"back. {o.ARCHIVE_BEYOND_SAVEPOINT.key}=false keeps commits after a savepoint on the timeline"
        )


def _check_alone(table: TableState) -> None:
    if not is_lazy(table):
        return
    alive = [i for i in table.timeline.pending if i.action in WRITE_ACTIONS and is_alive(table, i.time)]
    if alive:
        raise WriteConflict(f"write {alive[0].file_name} of {table.base_path} is under way; restore when it is finished")


def _check_files(table: TableState, to: str) -> None:
    """All that the savepoint holds has to be there; but for log files of later writes alone, which an earlier restore deleted."""
    held = next(one for one in savepoints(table) if one.instant == to)
    was_restored = _was_restored(table, to)
    for path, names in held.files.items():
        there = {file.name for file in table.storage.list(join(table.base_path, path))} if names else set()
        wanted = {name for name in names if not was_restored or parse_log_name(name) is None}
        if missing := sorted(wanted - there):
            raise CorruptFile(
                f"{table.base_path} cannot be restored to {to}: file {join(path, missing[0])}, which its savepoint holds, is "
                "missing. Put it back from a copy, or restore to another savepoint"
            )


def _was_restored(table: TableState, to: str) -> bool:
    """Whether an earlier restore to this commit was finished: cleaning spares a savepoint's files, so only it deleted any."""
    return any(commit == to for commit, _ in finished_restores(table))


def _request(table: TableState, to: str) -> tuple[Instant, RestorePlan]:
    """Put the plan on the timeline. Raises WriteConflict if a write begins meanwhile."""
    plan = plan_restore(table, to)
    content = write_restore_plan(plan)
    utc = table.config.timeline_utc
    instant = request(table.storage, table.base_path, Action.RESTORE, utc=utc, content=content, is_plan=True)
    if new := _unplanned(table, plan):
        table.storage.delete(instant_path(table.base_path, instant))
        raise WriteConflict(f"write {new[0].file_name} of {table.base_path} began meanwhile; restore when it is finished")
    return instant, plan


def _unplanned(table: TableState, plan: RestorePlan) -> list[Instant]:
    """Later writes that a plan does not know of."""
    known = {(i.time, i.action.family) for i in plan.instants}
    return [i for i in _later_writes(reload_timeline(table), plan.to) if (i.time, i.action.family) not in known]


def plan_restore(table: TableState, to: str) -> RestorePlan:
    """All later writes and plans, newest first; clusterings that wait before all others, as with Hudi."""
    later = _later_writes(table, to)
    clusterings = set(pending_clusterings(table).values())
    first = [i for i in later if not i.is_completed and i.time in clusterings]
    return RestorePlan(to, (*first, *(i for i in later if i not in first)))


def _later_writes(table: TableState, to: str) -> list[Instant]:
    return [i for i in reversed(table.timeline.instants) if i.time > to and i.action.family in WRITE_ACTIONS]


def _run(spark: SparkSession | None, table: TableState, instant: Instant, plan: RestorePlan, stages: Stages) -> RestoreResult:
    began = clock.monotonic_s()
    storage = table.storage
    base_path = table.base_path
    if instant.state is State.REQUESTED:
        with suppress(AlreadyExists):
            transition(storage, base_path, instant, State.INFLIGHT)
    for one in plan.instants:
        seal(storage, base_path, one.time)
        storage.delete(instant_path(base_path, one.at(State.COMPLETED)))
    with stages.run("restore", f"deleting what was written after {plan.to}"):
        result = _delete_files(spark, table, instant.time, plan)
    sync_restored(table, plan.instants)
    for one in plan.instants:
        _forget(table, one)
    _forget_others(table, instant, plan.to)
    result = replace(result, milliseconds=int((clock.monotonic_s() - began) * 1000))
    with suppress(AlreadyExists):
        transition(storage, base_path, instant, State.COMPLETED, write_restore_result(result))
    _check_done(table, plan.to)
    return result


def _forget(table: TableState, instant: Instant) -> None:
    """Take what is left of an instant off the timeline; a compaction that was done stands in the plan as the commit it became."""
    storage = table.storage
    base_path = table.base_path
    for action in (a for a in Action if a.family is instant.action.family):
        for state in (State.INFLIGHT, State.REQUESTED):
            storage.delete(instant_path(base_path, Instant(instant.time, action, state)))
    drop_changed(table, instant.time)
    delete_markers(storage, base_path, instant.time)
    delete_heartbeat(storage, base_path, instant.time)


def _forget_others(table: TableState, own: Instant, to: str) -> None:
    """Rollbacks after the commit concern what is gone; so do savepoints that were never made, and restores never begun."""
    for one in reversed(reload_timeline(table).timeline.instants):
        is_unmade = one.action is Action.SAVEPOINT and not one.is_completed
        is_twin = one.action is Action.RESTORE and one.state is State.REQUESTED and one.time != own.time
        if one.time > to and (one.action is Action.ROLLBACK or is_unmade or is_twin):
            for state in reversed(State):
                table.storage.delete(instant_path(table.base_path, one.at(state)))


def _check_done(table: TableState, to: str) -> None:
    newest = reload_timeline(table).timeline.last_write
    if newest is None or newest.time != to:
        found = newest.time if newest else "none"
        raise WriteConflict(
            f"{to} is not the last commit of {table.base_path} after restoring to it, {found} is: somebody else wrote meanwhile. "
            "Restore again while nobody writes"
        )


@dataclass(frozen=True)
class PartitionTask:
    """The files of one partition that are looked at."""

    storage: Storage
    base_path: str
    path: str
    names: tuple[str, ...]
    #: The commit that stays, and the restore's own time.
    to: str
    instant: str


def _delete_files(spark: SparkSession | None, table: TableState, time: str, plan: RestorePlan) -> RestoreResult:
    tasks = [
        PartitionTask(table.storage, table.base_path, path, names, plan.to, time)
        for path, files in walk_partitions(table.storage, table.base_path)
        if (names := tuple(file.name for file in files))
    ]
    is_small = sum(len(task.names) for task in tasks) < _MANY_FILES and fits_on_driver(table.options)
    done = Runner(spark, on_driver=is_small).run(restore_partition, tasks, list[list[Any]])
    deleted: dict[str, dict[str, list[str]]] = {}
    added: dict[str, dict[str, dict[str, int]]] = {}
    for task, (gone, blocks) in zip(tasks, done, strict=True):
        for name, by in gone:
            deleted.setdefault(by, {}).setdefault(task.path, []).append(join(table.base_path, task.path, name))
        for file, size, by in blocks:
            added.setdefault(by, {}).setdefault(task.path, {})[file] = size
        _withdraw(table, task.path, plan)
    return RestoreResult(time, plan, deleted, added)


def _withdraw(table: TableState, path: str, plan: RestorePlan) -> None:
    """Take a partition that a later write made out of the table, if nothing is in it any more."""
    made = read_creation_instant(table.storage, table.base_path, path)
    if path and made is not None and made > plan.to:
        withdraw_partition(table.storage, table.base_path, path, made)


def restore_partition(task: PartitionTask) -> list[list[Any]]:
    """Delete what is later than the commit: names with the time they go by; and log files added, with size and time."""
    gone: list[tuple[str, str]] = []
    added: list[tuple[str, int, str]] = []
    for name in task.names:
        times, is_mixed = _later_times(task, name)
        if not times:
            continue
        if is_mixed:
            added += _taken_back(task, name, times)
        elif task.storage.delete(join(task.base_path, task.path, name)):
            gone.append((name, max(times)))
    return [gone, added]


def _later_times(task: PartitionTask, name: str) -> tuple[set[str], bool]:
    """The times after the commit that a file has content of; and whether it has other content too."""
    if base := parse_base_name(name):
        return ({base.instant} if base.instant > task.to else set()), False
    log = parse_log_name(name)
    if log is None:
        return set(), False
    if log.base_instant > task.to:
        return {log.base_instant}, False
    times = list(_block_times(task, name))
    later = {time for time in times if time > task.to}
    return later, any(time <= task.to for time in times)


def _block_times(task: PartitionTask, name: str) -> Iterator[str]:
    """Whose content each block is, or takes back; a torn block is nobody's."""
    path = join(task.base_path, task.path, name)
    for block in scan_blocks(task.storage.open(path), file_name=path):
        if block.is_rollback:
            yield block.target_instant
        elif block.type is not BlockType.CORRUPT:
            yield block.instant


def _taken_back(task: PartitionTask, name: str, times: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    log = parse_log_name(name)
    assert log is not None
    for time in sorted(times, reverse=True):
        file, size = add_rollback_block(
            task.storage, join(task.base_path, task.path), log.file_id, log.base_instant, time=task.instant, target=time
        )
        yield file, size, time
