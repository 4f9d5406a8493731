"""Begins a write, or the run of a table service's plan: takes the instant, with a heartbeat, and yields its `Change`.

Unless several writers are allowed, a write begins only if no other write came between since its table was loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from penstock import clock
from penstock.commit.change import Change
from penstock.commit.claims import has_claims, run_transaction
from penstock.commit.conflicts import check_not_restoring
from penstock.commit.heartbeat import Heartbeat, is_single_writer
from penstock.commit.modes import is_optimistic
from penstock.commit.table_lock import check_store
from penstock.commit.undone_commits import check_no_commit_is_undone
from penstock.errors import StorageError, TableChanged
from penstock.filegroup.markers import work_folder
from penstock.storage import join
from penstock.table.state import TableState, has_properties
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant
from penstock.timeline.store import request_instant
from penstock.timeline.timeline import Timeline


@contextmanager
def begin(table: TableState, action: Action, content: bytes = b"") -> Iterator[Change]:
    """Create a requested instant and yield its `Change`. The `with` block writes the data files and publishes the commit.

    If the block raises an error, the change is undone.

    Unless several writers are allowed, two writers that begin at the same moment cannot both go on. Each lists the timeline
    again after its requested file was created. The writer with the later instant always finds the file of the earlier one, and
    raises TableChanged.

    Args:
        table: the table with the timeline that the write is based on.
        content: the content of the requested file.

    Raises:
        TableChanged: another write began or completed since the timeline was loaded; not if several writers are allowed.
        WriteConflict: the table is being restored.
        Unsupported: the store ignores conditional puts.
    """
    check_store(table)
    check_not_restoring(table, table.timeline)
    if is_optimistic(table) and not has_claims(table):
        # A process that sees the instant of this write must see that transactions of the table have claims.
        run_transaction(table, lambda timeline: None)
    heartbeat = Heartbeat(table)
    try:
        # The heartbeat is announced before the instant is taken, so that no other process sees the instant without one.
        instant = request_instant(
            table.storage,
            table.base_path,
            action,
            utc=table.config.timeline_utc,
            content=content,
            announce=heartbeat.announce,
            check=partial(_check_unchanged, table),
            known=table.timeline,
        )
    except Exception:
        with suppress(StorageError):
            heartbeat.end()
        raise
    except BaseException:
        heartbeat.stop()
        raise
    change = Change(table, instant, heartbeat)
    with change.at_work():
        yield change


@contextmanager
def begin_run(table: TableState, instant: Instant) -> Iterator[Change]:
    """Create the inflight file of a plan and yield its `Change`. The `with` block runs the plan and publishes the commit.

    If the block raises an error, the files of the run are deleted and the plan stays pending. If the process crashes, the next
    run of the plan deletes the files.

    Args:
        instant: the requested instant of the plan.

    Raises:
        Unsupported: the store ignores conditional puts.
    """
    check_store(table)
    heartbeat = Heartbeat(table)
    # Announced before the inflight file exists: a process that sees an inflight plan without a heartbeat takes the run for dead.
    heartbeat.announce_run(instant.time)
    # Another process that takes this run for dead removes this file when it rolls the run back, and may then run the plan itself.
    run_file = join(work_folder(table.base_path, instant.time), f"run-{clock.new_uuid()}")
    change = Change(table, instant, heartbeat, run_file=run_file)
    try:
        change.start()  # raises if another process has made the plan inflight first
    except BaseException:
        heartbeat.stop()  # its file stays: it is that of the other process
        raise
    with change.at_work():
        heartbeat.beat()  # from here on the file names this process: the plan is this run's
        yield change


def _check_unchanged(table: TableState, instant: Instant, timeline: Timeline) -> None:
    """Raise an error if another process has changed the table since its timeline was loaded, so that this write cannot go on.

    Args:
        instant: the instant of this write.
        timeline: the timeline as it is now, with the instant.

    Raises:
        TableChanged: another write began or completed, or the table was new and its creator has deleted it. If several writers
            are allowed, another write counts only if it runs as the only writer.
        WriteConflict: a restore, or the rollback of a completed write, is pending.
    """
    check_not_restoring(table, timeline)
    check_no_commit_is_undone(table, timeline)
    _check_not_withdrawn(table)
    known = {*table.timeline.instants, instant}
    if is_optimistic(table):
        # Other writers are expected; conflicts are found when the commit is published. But a single writer would find none.
        for other in timeline.pending:
            if other.action in WRITE_ACTIONS and other not in known and is_single_writer(table, other.time):
                raise TableChanged(f"write {other.file_name} of {table.base_path} expects no other writers. Run the write again")
        return
    for other in timeline.instants:
        if other.action in WRITE_ACTIONS and other not in known:
            raise TableChanged(f"write {other.file_name} of {table.base_path} came between. Run the write again")


def _check_not_withdrawn(table: TableState) -> None:
    """Raise TableChanged if the table is new and its creator has taken it back, because the first write failed.

    The creator removes `hoodie.properties`, then looks for instants (`write/create_table.py`). A write creates its instant, then
    looks for `hoodie.properties`. So at least one of the two finds the other.
    """
    has_commits = any(instant.is_completed for instant in table.timeline.instants)
    if not has_commits and not has_properties(table.storage, table.base_path):
        raise TableChanged(f"the process that created {table.base_path} has just taken it back. Run the write again")
