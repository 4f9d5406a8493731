"""Creates the completed file of a change whose writer expects no other writers.

Another process may take a slow writer for dead and roll its change back: when its last heartbeat has expired. The requests of an
object store may be repeated for as long. So the completed file must not appear after the rollback, and if it does, it is deleted:

1. The put of the completed file is repeated for a part of the time in which the heartbeat expires, and not longer.
2. If the last heartbeat is old when the put has succeeded, the writer looks for the mark of a rollback, then for its requested
   file. A rollback sets its mark, then looks for the completed file (`services/rollback/run.py`). So one of them finds the other.

A fast put is followed by no look: no other process can have taken the writer for dead.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock import options as o
from penstock.commit.claims import describe_gone, is_marked_undone
from penstock.commit.heartbeat import Heartbeat
from penstock.errors import AlreadyExists, CommitUnknown, StorageError, WriteConflict
from penstock.storage import write_new_within
from penstock.table.state import TableState
from penstock.timeline.instant import Instant, State
from penstock.timeline.store import instant_path, require_pending

#: The part of a heartbeat's life for which the put of a completed file is repeated.
_PUBLISH_PART = 0.25
#: The part of a heartbeat's life after which a rollback may have begun: another process may have another clock.
_LATE_PART = 0.75


def publish_alone(
    table: TableState,
    instant: Instant,
    content: bytes,
    heartbeat: Heartbeat,
    check_run: Callable[[], None],
    begin_publishing: Callable[[], None],
) -> None:
    """Create the completed file of a change, which makes the change visible to readers.

    Args:
        instant: the instant of the change.
        content: the commit metadata as JSON.
        heartbeat: the heartbeat of the change.
        check_run: raises WriteConflict if the change is the run of a plan and was rolled back.
        begin_publishing: called before the file is created. If creating it fails, it may be there all the same, and then nothing
            may be taken back.

    Raises:
        WriteConflict: another process takes this change back. There is no completed file.
        CommitUnknown: the storage failed, so the file may or may not exist; or the instant is gone, as after a rollback.
    """
    path = instant_path(table.base_path, instant.in_state(State.COMPLETED))
    life_ms = table.options[o.HEARTBEAT_INTERVAL_MS] * table.options[o.HEARTBEAT_TOLERABLE_MISSES]
    late_s = _LATE_PART * life_ms / 1000
    if heartbeat.age_s > late_s and is_marked_undone(table, instant.time):
        raise _describe_undone(table, instant)
    require_pending(table.storage, table.base_path, instant)
    check_run()
    begin_publishing()
    try:
        write_new_within(table.storage, path, content, int(_PUBLISH_PART * life_ms))
    except AlreadyExists:
        _check_own_content(table, path, content)
    except StorageError as e:
        raise _describe_unknown(path, e) from e
    if heartbeat.age_s > late_s:
        _take_back_if_undone(table, instant, path, check_run)


def _take_back_if_undone(table: TableState, instant: Instant, path: str, check_run: Callable[[], None]) -> None:
    """Delete the completed file at `path`, and raise an error, if another process rolls this change back or has done so.

    Raises:
        WriteConflict: a rollback is under way.
        CommitUnknown: the instant is gone; or the storage failed.
    """
    try:
        error: Exception | None = None
        if is_marked_undone(table, instant.time):
            error = _describe_undone(table, instant)
        else:
            # After the mark: a rollback deletes its mark only when the requested file, or the file of the run, is gone.
            try:
                require_pending(table.storage, table.base_path, instant)
                check_run()
            except WriteConflict:
                error = CommitUnknown(describe_gone(table, path.rpartition("/")[2]))
        if error is not None:
            table.storage.delete(path)
    except StorageError as e:
        raise _describe_unknown(path, e) from e
    if error is not None:
        raise error


def _describe_undone(table: TableState, instant: Instant) -> WriteConflict:
    """Return the error for a change that another process rolls back."""
    return WriteConflict(
        f"another writer took write {instant.time} of {table.base_path} for dead and rolls it back. Run it again"
    )


def _check_own_content(table: TableState, path: str, content: bytes) -> None:
    """Raise WriteConflict if the completed file at `path` has other content than `content`: another process created it.

    Called when the completed file already exists. If the content is the same, this change created the file: the storage
    repeated a call whose answer was lost. No other process writes the same file names and durations.
    """
    try:
        stored = table.storage.read(path)
    except (StorageError, FileNotFoundError) as e:
        raise _describe_unknown(path, e) from e
    if stored != content:
        raise WriteConflict(f"{path} was published by another process; look at it before running the write again")


def _describe_unknown(path: str, error: Exception) -> CommitUnknown:
    """Return the error for a completed file at `path` that may or may not exist, because the storage failed with `error`."""
    return CommitUnknown(
        f"publishing the write failed ({error}). Look for the file {path}: if it is there the write is done, "
        "otherwise run it again"
    )
