"""Find failed writes and roll them back.

Under the eager policy for failed writes, a new write rolls back every pending write before it begins. Under the lazy policy a
clean rolls them back. A writer that is alive, by its heartbeat, is never rolled back: a new write raises WriteConflict instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from penstock import options as o
from penstock.commit.heartbeat import (
    HEARTBEATS,
    describe_writer,
    has_recent_heartbeat,
    is_alive,
    is_recent,
    is_single_writer,
    list_heartbeats,
)
from penstock.commit.modes import failed_writes_policy, is_optimistic
from penstock.commit.swap_tables import REPLACED_SUFFIX
from penstock.commit.undone_commits import check_no_commit_is_undone
from penstock.errors import CorruptFile, OptionError, TableChanged, WriteConflict
from penstock.filegroup.markers import TEMP, WORK_PREFIX
from penstock.formats.avro.container import read_container
from penstock.services.rollback.completed import confirm_rollback
from penstock.services.rollback.run import roll_back, run_rollback
from penstock.services.stored_plans import finish_withdrawal
from penstock.storage import FileInfo, Storage, has_whole_files, is_older, join
from penstock.table.pending import load_clustering_plan
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.overwrite_note import OVERWRITE, OVERWRITES, give_up, is_given_up, list_notes
from penstock.timeline.rollback_file import target_of
from penstock.timeline.store import FOLDER, instant_path
from penstock.user_warning import warn_user

#: A temporary file or folder that belongs to no instant may be deleted when it was not modified for this long.
_ABANDONED_MS = 24 * 60 * 60 * 1000


def roll_back_failed(table: TableState) -> TableState:
    """Roll back every pending write if the policy for failed writes is eager. Delete temporary files of writes that are over.

    Called before a write begins. If a restore is pending, only load the timeline.

    Returns:
        A copy of the table with its timeline loaded afterwards. The write that is about to begin takes a later instant than the
            rollbacks.

    Raises:
        TableChanged: another process rolls back the same write at the same time, or another write began and died just now.
        WriteConflict: another writer is at work; with several writers, only if that one has no concurrency control.
    """
    # Listed before the timeline is loaded. An instant is on the timeline before its temporary folder is made, so a folder that
    # is listed here and whose instant is not pending below belongs to a write that is over.
    temporary_files: list[FileInfo] = []
    if table.timeline.may_have_folder(TEMP):
        temporary_files = table.storage.list(join(table.base_path, FOLDER, TEMP))
    heartbeats = list_heartbeats(table) if table.timeline.may_have_folder(HEARTBEATS) else []
    table = reload_timeline(table)
    if table.timeline.pending_restore is not None:
        return table  # instants that a restore undoes look pending, and only the restore may remove them
    if is_optimistic(table):
        dead = []
        _refuse_single_writers(table)
        table = _finish_withdrawals(_finish_rollbacks(table))
    else:
        dead = _find_dead_writes(table)
    if failed_writes_policy(table) == "EAGER" and table.timeline.pending:
        with _beside_others(table):
            resume_rollbacks(table)
        # Reload after the heartbeats were read: a writer that has just completed has deleted its heartbeat too, and is not dead.
        pending = set(failed_writes(reload_timeline(table)))
        for instant in reversed(dead):
            if instant in pending:
                with _beside_others(table):
                    roll_back(table, instant)
        table = reload_timeline(table)
        # The returned timeline is the one that the write is based on. No write on it may be under way.
        if _find_dead_writes(table):
            raise TableChanged(f"another write to {table.base_path} began and died just now. Run the write again")
    leftovers = [entry for entry in temporary_files if _is_leftover(entry, table)]
    _give_up_overwrites(table, leftovers)
    # A heartbeat is older than its instant, so one whose instant is not pending may be that of a writer that is about to begin.
    leftovers += [file for file in heartbeats if file.name not in table.timeline.pending_times and not is_alive(table, file.name)]
    _delete_all(table.storage, leftovers)
    return table


@contextmanager
def _beside_others(table: TableState) -> Iterator[None]:
    """Raise TableChanged if the `with` block fails because another process rolls back the same write.

    A missing file or a WriteConflict in the block counts as this failure.
    """
    try:
        yield
    except (FileNotFoundError, WriteConflict) as e:
        raise TableChanged(f"another process rolls back the same failed write of {table.base_path}. Run the write again") from e


def _find_dead_writes(table: TableState) -> list[Instant]:
    """Return the instants of pending writes whose writers are dead, oldest first. Raise WriteConflict if a writer is alive."""
    pending = failed_writes(table)
    for instant in pending:
        if is_alive(table, instant.time):
            raise WriteConflict(
                f"{table.base_path} has another writer: {describe_writer(table, instant)}. Only one writer may work at a time. "
                "Run this write when the other one is finished; if it died, run it when its heartbeat has expired "
                f"({o.HEARTBEAT_INTERVAL_MS.key} times {o.HEARTBEAT_TOLERABLE_MISSES.key}). For several writers at once set "
                f"{o.CONCURRENCY_MODE.key}=optimistic_concurrency_control and {o.LOCK.key} in all of them"
            )
    return pending


def _finish_rollbacks(table: TableState) -> TableState:
    """Finish pending rollbacks if one of them undoes a completed write. Return the table with its timeline loaded afterwards.

    No write can begin before the rollback of a completed write is finished. Another process may be running the same rollback:
    two processes may run it at the same time.
    """
    try:
        check_no_commit_is_undone(table, table.timeline)
        return table
    except WriteConflict:
        with _beside_others(table):
            resume_rollbacks(table)
    return reload_timeline(table)


def _finish_withdrawals(table: TableState) -> TableState:
    """Delete compaction plans that another process has begun to withdraw. Return the table, with its timeline loaded afterwards.

    A new write must not add log files on top of such a plan. A plan stays if log files lie on top of it already.
    """
    plans = [i for i in table.timeline.pending if i.action is Action.COMPACTION and i.state is State.REQUESTED]
    gone = [plan for plan in plans if not finish_withdrawal(table, plan)]
    return reload_timeline(table) if gone else table


def _refuse_single_writers(table: TableState) -> None:
    """Raise WriteConflict if a writer without concurrency control is at work: it would not notice a concurrent commit."""
    for instant in failed_writes(table):
        if is_single_writer(table, instant.time):
            raise WriteConflict(
                f"{table.base_path} has a writer without {o.CONCURRENCY_MODE.key}=OPTIMISTIC_CONCURRENCY_CONTROL: "
                f"{describe_writer(table, instant)}. Run this write when the other one is finished, or set the option there too"
            )


def _is_leftover(entry: FileInfo, table: TableState) -> bool:
    """Whether a file or folder in `.hoodie/.temp` may be deleted, because its write is completed, rolled back or dead.

    A file or folder that belongs to no write may be deleted if it was not modified for a day.

    Args:
        entry: the file or folder.
    """
    time = entry.name.removeprefix(WORK_PREFIX)
    if time.isdecimal():
        return time not in table.timeline.pending_times
    if entry.name.endswith(REPLACED_SUFFIX):
        return True
    if entry.name.lstrip(".").startswith(OVERWRITE):
        # A folder is the new table of an overwrite, which has a heartbeat. A file is the note that names the new table.
        new_table = replace(table, base_path=entry.path)
        return not (has_recent_heartbeat(new_table, OVERWRITE) if entry.is_dir else is_recent(table, entry))
    return _is_abandoned(table, entry)


def _give_up_overwrites(table: TableState, leftovers: list[FileInfo]) -> None:
    """Keep writers that are only slow from completing overwrites whose new tables this process is about to delete.

    Does nothing if the storage can rename folders: an overwrite then needs no note. On other storages a note says that the
    overwrite was given up. Such notes are deleted after a day.

    Args:
        leftovers: the files and folders in `.hoodie/.temp` that are about to be deleted.

    Raises:
        TableChanged: one of the overwrites has just completed.
    """
    if not has_whole_files(table.storage):
        return
    folder = join(table.base_path, FOLDER)
    for entry in leftovers:
        if entry.is_dir and entry.name.startswith(OVERWRITE) and not give_up(table.storage, folder, entry.name):
            raise TableChanged(f"mode('overwrite') has just replaced {table.base_path}. Run the write again")
    if table.timeline.may_have_folder(OVERWRITES):
        notes = list_notes(table.storage, folder)
        table.storage.delete_files([note.path for note in notes if is_given_up(note) and _is_abandoned(table, note)])


def _is_abandoned(table: TableState, entry: FileInfo) -> bool:
    """Whether a file or folder was last modified more than a day ago."""
    return is_older(table.storage, entry, _ABANDONED_MS, join(table.base_path, FOLDER, TEMP))


def _delete_all(storage: Storage, leftovers: Iterable[FileInfo]) -> None:
    """Delete the entries of `leftovers`: files, and folders with everything in them."""
    for entry in leftovers:
        if entry.is_dir:
            storage.delete_tree(entry.path)
        else:
            storage.delete(entry.path)


def roll_back_expired(table: TableState) -> None:
    """Roll back the pending writes whose heartbeat has expired. Called only under the lazy policy for failed writes."""
    dead = [write for write in failed_writes(table) if not is_alive(table, write.time)]
    # Reload after the heartbeats were read: a writer that has just completed has deleted its heartbeat too, and is not dead.
    table = reload_timeline(table)
    resume_rollbacks(table)
    pending = set(failed_writes(reload_timeline(table)))
    for instant in reversed(dead):
        if instant in pending:
            with suppress(TableChanged):  # its writer was only slow, and has just committed
                roll_back(table, instant)


def failed_writes(table: TableState) -> list[Instant]:
    """Return the instants of all pending writes, failed or still under way. Pending plans of table services are not writes."""
    return [instant for instant in table.timeline.pending if instant.action in WRITE_ACTIONS and not runs_a_plan(table, instant)]


def runs_a_plan(table: TableState, instant: Instant) -> bool:
    """Whether an instant belongs to the plan of a table service: a compaction, log compaction or clustering."""
    if instant.action is not Action.REPLACE_COMMIT:
        return instant.action not in WRITE_ACTIONS
    return load_clustering_plan(table, instant) is not None


def resume_rollbacks(table: TableState) -> None:
    """Finish the pending rollbacks that a crashed process left.

    A requested rollback whose plan cannot be read has not begun, and is deleted. A requested rollback of a completed write is
    withdrawn, with a warning, if the write cannot be rolled back any more, for example because of later commits.

    The rollback of a table service's run is left to the service, which finishes it before it runs its plan again. But if the plan
    was run successfully since, the service does not run it again. In that case a requested rollback is deleted, because it was
    meant for an earlier run. An inflight rollback is finished, because it has begun to delete files of the completed instant.

    Raises:
        CorruptFile: the plan of an inflight rollback cannot be read.
    """
    for rollback in table.timeline.filter(Action.ROLLBACK):
        if rollback.is_completed:
            continue
        path = instant_path(table.base_path, rollback.in_state(State.REQUESTED))
        try:
            plan = read_container(table.storage.read(path))
            failed = target_of(plan)
        except FileNotFoundError:
            # The process that made the plan took it back, because its time was in use, when another had begun to run it. The
            # failed write is still pending, or gone.
            table.storage.delete(instant_path(table.base_path, rollback.in_state(State.INFLIGHT)))
            continue
        except CorruptFile as e:
            if rollback.state is not State.REQUESTED:
                raise CorruptFile(f"rollback {rollback.file_name} was begun, but its plan {path} cannot be read: {e}") from e
            table.storage.delete(path)
            continue
        if not runs_a_plan(table, failed):
            if rollback.state is State.REQUESTED and failed.time in table.timeline.completed_times:
                try:
                    confirm_rollback(table, rollback, failed)
                except (OptionError, WriteConflict) as e:
                    warn_user(f"rollback {rollback.time} of {table.base_path}, which had not begun, is withdrawn: {e}")
                    continue
            run_rollback(table, rollback, plan)
        elif failed.time in table.timeline.completed_times:
            if rollback.state is State.INFLIGHT:
                run_rollback(table, rollback, plan)
            else:
                table.storage.delete(path)
