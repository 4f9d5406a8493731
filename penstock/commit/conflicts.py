"""Checks that no concurrent process has replaced file groups of a change, unscheduled a compaction it relies on, or restores.

`Change.publish` calls `check_conflicts` after the change was sealed (its tasks may create no more data files) and before its
completed file is created. The check loads the timeline again, but only if the change writes to, or replaces, a file group that
existed before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from penstock import options as o
from penstock.commit import markers
from penstock.commit.claims import is_marked_undone
from penstock.commit.heartbeat import is_alive
from penstock.commit.modes import is_lazy
from penstock.errors import CorruptFile, WriteConflict
from penstock.filegroup.model import GroupId
from penstock.filegroup.names import parse_log_name
from penstock.table.state import TableState
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, load_timeline, read_metadata
from penstock.timeline.timeline import Timeline

#: Replaced file groups: file ids by partition path.
Replaced = Mapping[str, Sequence[str]]


def check_conflicts(
    table: TableState, time: str, stats: Sequence[WriteStat], replaced: Replaced, *, runs_a_plan: bool = False
) -> None:
    """Raise WriteConflict if other processes have done something, since the change began, that hides or duplicates its rows.

    Readers would never see a new file if its file group was replaced. The same holds for a log file whose base instant is a
    compaction that was unscheduled. And if another commit has replaced a file group that this change replaces too, the rows of
    that group are in other files now: they would be in the table twice, or survive a delete. A pending replace commit counts as
    well, if its inflight file names the file group and its writer does not count as dead.

    Args:
        table: the table with the timeline as it was when the change began.
        time: the instant time of the change.
        stats: the write stats of the change.
        replaced: the file groups that the change replaces: file ids by partition path.
        runs_a_plan: whether the change is the run of a table service's plan. Then, of the file groups, only those that the run
            replaces are checked, because writers keep away from the file groups of a plan.
    """
    base_instants = base_instants_of_logs(stats) - {time}
    groups = _groups_in(replaced)
    if not runs_a_plan:
        changed = [stat for stat in stats if stat.prev_commit not in ("null", time)]
        groups |= {(stat.partition_path or "", stat.file_id) for stat in changed}
    if base_instants or groups:
        timeline = load_timeline(table.storage, table.base_path)
        _check_compactions_are_planned(table, timeline, base_instants)
        _check_not_replaced(table, time, timeline, groups)


def check_log_files(table: TableState, timeline: Timeline, time: str, stats: Sequence[WriteStat]) -> None:
    """Raise WriteConflict if the base instant of a log file of this write is a compaction that was, or is being, withdrawn.

    Args:
        timeline: the timeline, loaded for this check.
        time: the instant time of the write.
        stats: the write stats of the write.
    """
    base_instants = base_instants_of_logs(stats) - {time}
    _check_compactions_are_planned(table, timeline, base_instants)
    for base_instant in sorted(base_instants & timeline.pending_times):
        plan = Instant(base_instant, Action.COMPACTION, State.REQUESTED)
        # After the mark: who withdraws a plan deletes its mark only when the requested file is gone.
        if is_marked_undone(table, base_instant) or table.storage.stat(instant_path(table.base_path, plan)) is None:
            raise WriteConflict(f"compaction {base_instant} of {table.base_path} is being withdrawn. Run the write again")


def base_instants_of_logs(stats: Sequence[WriteStat]) -> set[str]:
    """Return the base instants in the names of the log files among these write stats."""
    base_instants = set()
    for stat in stats:
        log = parse_log_name(stat.path.rpartition("/")[2]) if stat.path else None
        if log is not None:
            base_instants.add(log.base_instant)
    return base_instants


def _groups_in(replaced: Replaced) -> set[GroupId]:
    """Convert file ids by partition path to a set of (partition path, file id)."""
    groups: set[GroupId] = set()
    for path, file_ids in replaced.items():
        groups.update((path, file_id) for file_id in file_ids)
    return groups


def _check_compactions_are_planned(table: TableState, timeline: Timeline, base_instants: Set[str]) -> None:
    """Raise WriteConflict if the base instant of a new log file is a compaction that is no longer on the timeline.

    A base instant before the start of the timeline is no conflict: that instant is archived, and its slice exists.

    Args:
        timeline: the timeline, loaded for this check.
        base_instants: the base instants of the log files that the change wrote.
    """
    known = {instant.time for instant in timeline.instants}
    gone = sorted(time for time in base_instants - known if timeline.start is None or time >= timeline.start)
    if gone:
        raise WriteConflict(f"compaction {gone[0]} of {table.base_path} was unscheduled during this write. Run it again")


def _check_not_replaced(table: TableState, time: str, timeline: Timeline, groups: Set[GroupId]) -> None:
    """Raise WriteConflict if a replace commit has replaced one of the file groups since the change began, or is about to.

    Under the lazy policy for failed writes, a pending replace commit of a dead writer is no conflict. It is sealed instead, so
    that it can no longer be published.

    The service that deletes expired partitions names their file groups in its inflight file and then reads the timeline for
    concurrent writes. A write reads the timeline for inflight replace commits before it publishes. So at least one of the two
    finds the other.

    Args:
        table: the table with the timeline as it was when the change began.
        time: the instant time of the change.
        timeline: the timeline, loaded for this check.
        groups: the file groups that the change writes to or replaces.
    """
    known = {*table.timeline.completed_times, time}
    for instant in timeline.filter(Action.REPLACE_COMMIT):
        if instant.time in known:
            continue
        taken = _groups_in(_replaced_by(table, instant))
        if not taken & groups:
            continue
        if _is_dead(table, instant):
            # Its writer may only be slow. Once sealed it cannot publish, so the groups stay.
            markers.seal(table.storage, table.base_path, instant.time)
            continue
        path, file_id = min(taken & groups)
        raise WriteConflict(
            f"{instant.file_name} of {table.base_path} takes file group {file_id} of partition {path!r} out of the "
            "table, which this write counts on. Run it again; if that file is of a writer that died, and failed writes "
            f"are never rolled back, run one with {o.FAILED_WRITES_POLICY.key}=EAGER first"
        )


def _is_dead(table: TableState, instant: Instant) -> bool:
    """Whether the writer of a pending instant counts as dead: its heartbeat is missing or too old.

    Always false if the instant is completed, or if the policy for failed writes is not lazy.
    """
    return not instant.is_completed and is_lazy(table) and not is_alive(table, instant.time)


def _replaced_by(table: TableState, instant: Instant) -> Replaced:
    """Return the file groups that a replace commit replaces: file ids by partition path.

    Return an empty dict for a pending replace commit whose inflight file names no file group.
    """
    try:
        return read_metadata(table.storage, table.base_path, instant).replaced or {}
    except (CorruptFile, FileNotFoundError):
        if instant.is_completed:
            raise
        return {}  # the inflight file of most replace commits is empty


def check_not_restoring(table: TableState, timeline: Timeline) -> None:
    """Raise WriteConflict if a restore is pending on `timeline`."""
    restore = timeline.pending_restore
    if restore is not None:
        raise WriteConflict(
            f"Found pending restore in active timeline of {table.base_path}: {restore.file_name}. Finish the restore "
            "with Table.restore, then run the write again"
        )
