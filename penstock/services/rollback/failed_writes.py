"""Which writes have failed, and their rollback before a new write begins: at once, or when a writer gives no sign of life."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock import clock
from penstock import options as o
from penstock.catalog.pending import clustering_of
from penstock.commit.heartbeat import is_alive, is_recent
from penstock.commit.overwrite import OVERWRITE, REPLACED_SUFFIX
from penstock.errors import CorruptFile
from penstock.filegroup.markers import TEMP, WORK_PREFIX
from penstock.formats.avro.container import read_container
from penstock.services.rollback.run import roll_back, run_rollback, target_of
from penstock.storage import FileInfo, Storage, join
from penstock.table import TableState, reload_timeline
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import FOLDER, instant_path

#: After this long nobody is at work any more in a folder for temporary files that belongs to no instant.
_ABANDONED_MS = 24 * 60 * 60 * 1000


def roll_back_failed(table: TableState) -> TableState:
    """Undo every write that did not finish, as far as the policy for failed writes lets a new write do so.

    Returns:
        The table with its timeline as it is afterwards. The rollbacks' instants are earlier than any taken from then on.
    """
    temporary = table.storage.list(
        join(table.base_path, FOLDER, TEMP)
    )  # before the timeline: an instant is older than its folder
    table = reload_timeline(table)
    if any(not i.is_completed for i in table.timeline.of(Action.RESTORE)):
        return table  # what it takes back looks unfinished, and is the restore's own business; nobody writes before it is done
    if _policy(table) == "EAGER" and table.timeline.pending:
        resume_rollbacks(table)
        for instant in reversed(failed_writes(reload_timeline(table))):
            roll_back(table, instant)
        table = reload_timeline(table)
    _clear(table.storage, [f for f in temporary if _is_leftover(f, table)])
    return table


def _is_leftover(entry: FileInfo, table: TableState) -> bool:
    """Whether a temporary file or folder belongs to a write that is over, one way or the other."""
    time = entry.name.removeprefix(WORK_PREFIX)
    if time.isdecimal():
        return time not in table.timeline.pending_times
    if entry.name.endswith(REPLACED_SUFFIX):
        return True
    if entry.name.lstrip(".").startswith(OVERWRITE):  # a new table that is written aside, or the note which one is next
        aside = replace(table, base_path=entry.path)
        return not (is_alive(aside, OVERWRITE) if entry.is_dir else is_recent(table, entry))
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
    table = reload_timeline(table)  # after the look at heartbeats: a writer that has just finished has none any more either
    resume_rollbacks(table)
    pending = set(failed_writes(reload_timeline(table)))
    for instant in reversed(silent):
        if instant in pending:
            roll_back(table, instant)


def failed_writes(table: TableState) -> list[Instant]:
    """Pending commits, delta commits and replace commits; plans of table services wait for their own run."""
    return [i for i in table.timeline.pending if i.action in WRITE_ACTIONS and not is_service(table, i)]


def is_service(table: TableState, instant: Instant) -> bool:
    """Whether an instant carries out a plan of a table service: a compaction, or a clustering."""
    if instant.action is not Action.REPLACE_COMMIT:
        return instant.action not in WRITE_ACTIONS
    return clustering_of(table, instant) is not None


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
            failed = target_of(plan)
        except (CorruptFile, FileNotFoundError) as e:
            if rollback.state is not State.REQUESTED:
                raise CorruptFile(f"rollback {rollback.file_name} was begun, but its plan {path} cannot be read: {e}") from e
            table.storage.delete(path)
            continue
        is_done = failed.time in table.timeline.completed_times
        if is_service(table, failed) and not (is_done and rollback.state is State.INFLIGHT):
            if is_done:
                table.storage.delete(path)
            continue
        run_rollback(table, rollback, plan)


def _policy(table: TableState) -> str:
    return table.options[o.FAILED_WRITES_POLICY].upper()
