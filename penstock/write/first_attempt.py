"""`FirstAttempt`: what the first attempt of a write has read and written, so that a retry after a conflict keeps its files.

The attempts of a write have the same incoming rows. A task writes the same rows again if it reads the same file slices. A retry
lists the slices of all partitions, plans only those that differ, and copies the files of the others from the first attempt, with
its own instant in them (`tasks/kept_files.py`). What the other commits did need not be known.

The first attempt stays as it was when it lost: sealed, inflight, with a heartbeat and with markers of all its files. Readers do
not see its files, and if the process dies they are rolled back like those of any write. They are deleted when the write is over.
As long as they are there, this process waits for no other writer, because another writer may be waiting for the first attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.commit import markers
from penstock.commit.change import Change
from penstock.commit.early_conflicts import detects_early
from penstock.commit.heartbeat import is_alive
from penstock.errors import WriteConflict
from penstock.filegroup.model import FileSlice, GroupId
from penstock.filegroup.task_output import FileSettings
from penstock.storage import join
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import WRITE_ACTIONS, State
from penstock.timeline.store import read_metadata
from penstock.timeline.timeline import Timeline
from penstock.write.context import WriteContext
from penstock.write.locate.file_slices import list_write_slices
from penstock.write.locate.task_plan import TaskPlan
from penstock.write.rows.staging import Piece
from penstock.write.tasks.kept_files import KeepTask
from penstock.write.tasks.task import UpsertRules


@dataclass(frozen=True)
class KeptFiles:
    """What a retry of a write keeps from the first attempt: the partitions whose files it copies instead of writing them again.

    Empty in the first attempt itself.
    """

    #: The partitions of which no file group is planned again.
    partitions: frozenset[str] = frozenset()
    #: The instant of the first attempt.
    instant: str = ""
    #: The write stats of the files.
    stats: tuple[WriteStat, ...] = ()
    #: What the workload profile of the first attempt says about these partitions.
    profile: tuple[WriteStat, ...] = ()
    #: The existing file groups of these partitions that the first attempt may have changed.
    touched: frozenset[GroupId] = frozenset()
    #: The number for the first task of the retry, so that sequence numbers in its files differ from those in kept files.
    first_task: int = 0

    def select_pieces(self, pieces: Iterable[Piece]) -> tuple[Piece, ...]:
        """Return the pieces (consecutive rows of a staged file) whose rows are planned again."""
        return tuple(piece for piece in pieces if piece.path not in self.partitions)

    def select_kept(self, pieces: Iterable[Piece]) -> tuple[Piece, ...]:
        """Return the pieces (consecutive rows of a staged file) whose rows are in kept files."""
        return tuple(piece for piece in pieces if piece.path in self.partitions)

    def add_to(self, task_plan: TaskPlan) -> TaskPlan:
        """Return a task plan that also covers the kept files: with their workload profile, and their number as the count `kept`.

        In a first attempt the plan is returned unchanged.

        Args:
            task_plan: the plan of the partitions that are written again.
        """
        if not self.instant:
            return task_plan
        profile = replace(task_plan.profile, stats=(*task_plan.profile.stats, *self.profile))
        return replace(task_plan, profile=profile, index_counts={**task_plan.index_counts, "kept": len(self.stats)})

    def make_tasks(self, settings: FileSettings) -> list[KeepTask]:
        """Return the tasks that copy the kept files, one per file group, the largest first.

        Args:
            settings: the settings of the copies.
        """
        by_group: dict[GroupId, list[WriteStat]] = {}
        for stat in self.stats:
            by_group.setdefault((stat.partition_path or "", stat.file_id), []).append(stat)
        tasks = [KeepTask(settings, self.instant, tuple(stats)) for stats in by_group.values()]
        return sorted(tasks, key=lambda task: task.size_bytes, reverse=True)


@dataclass(frozen=True)
class _Finished:
    """An attempt of a write whose tasks have all ended: what it read, and which files it wrote."""

    time: str
    #: The timeline on which its tasks were planned.
    timeline: Timeline
    #: The file slices that it found, by partition path: of all partitions of incoming rows.
    slices: Mapping[str, tuple[FileSlice, ...]]
    #: The file groups of pending clusterings that it found.
    busy: frozenset[GroupId]
    kept: KeptFiles


class FirstAttempt:
    """Remembers what the first attempt of a write read and wrote, so that a retry after a conflict can keep some of its files.

    Some writes cannot keep files, for example those with a global index. Of these nothing is remembered, and a retry writes all
    files again.
    """

    def __init__(self) -> None:
        self._finished: _Finished | None = None
        #: Whether the first attempt has lost. Later attempts are not remembered: their files are deleted when they lose.
        self._has_lost = False

    def remember(self, write: WriteContext, rules: UpsertRules, task_plan: TaskPlan, stats: Sequence[WriteStat]) -> None:
        """Remember what the tasks of the first attempt read and wrote.

        Do nothing in a later attempt, or if a retry of this write cannot keep files.

        Args:
            write: the context with the timeline on which the tasks were planned.
            task_plan: the tasks of the attempt, which have all ended.
            stats: the write stats of all files.
        """
        if self._has_lost or not _can_keep(write, rules):
            return
        kept = KeptFiles(
            instant=rules.settings.instant,
            stats=tuple(stats),
            profile=task_plan.profile.stats,
            touched=frozenset(task_plan.touched),
            first_task=len(task_plan.tasks),
        )
        slices = {path: tuple(of_path) for path, of_path in task_plan.slices.items()}
        for task in task_plan.tasks:
            slices.setdefault(task.partition_path, ())
        self._finished = _Finished(rules.settings.instant, write.table.timeline, slices, rules.sizing.busy, kept)

    def release(self, write: WriteContext, first: Change, conflict: WriteConflict) -> None:
        """Seal the first attempt after a conflict, so that its tasks create no more files, and keep or delete its files.

        They are kept if the next attempt may use them. They are deleted in three cases: the write cannot keep files, this process
        may have to wait for another writer before the next attempt, or the heartbeat of the first attempt has expired.

        Args:
            first: the change of the first attempt.
            conflict: the conflict that ended the last attempt.
        """
        self._has_lost = True
        if self._finished is not None and not _may_wait(write.table, conflict) and is_alive(write.table, first.time):
            markers.seal(write.table.storage, write.table.base_path, first.time)
            return
        self._finished = None
        first.withdraw()

    def find_kept(self, write: WriteContext, rules: UpsertRules, paths: Iterable[str]) -> KeptFiles:
        """Return which files a retry keeps: those in partitions for which it would write the same files again.

        The other files of the first attempt are deleted. The result is empty if the first attempt was not remembered.

        Args:
            write: the context with the timeline on which the retry plans its tasks.
            paths: the partition paths of all incoming rows.
        """
        finished = self._finished
        if finished is None or not _can_keep(write, rules):
            return KeptFiles()
        table = write.table
        changed = _find_changed_partitions(table, finished)
        own_files = {join(table.base_path, stat.path) for stat in finished.kept.stats if stat.path}
        candidates = sorted(path for path in paths if path in finished.slices)
        listed = list_write_slices(table, candidates, instant=rules.settings.instant, logs_alone=True)
        unchanged = set()
        for path in candidates:
            slices_now = tuple(_without_logs(listed.get(path, ()), own_files))
            has_same_plans = _select(finished.busy, {path}) == _select(rules.sizing.busy, {path})
            if changed is not None and path not in changed and slices_now == finished.slices[path] and has_same_plans:
                unchanged.add(path)
        kept = _restrict(finished.kept, unchanged)
        self._finished = replace(finished, slices={path: finished.slices[path] for path in unchanged}, kept=kept)
        # Log files of the first attempt must not be among those of the slices that are planned again.
        _delete_files_elsewhere(table, finished.time, unchanged)
        return kept


def _can_keep(write: WriteContext, rules: UpsertRules) -> bool:
    """Whether a retry of this write can keep files. False if the files of a partition depend on other partitions.

    That is so with a global index, and with an index that keeps entries in a store. Also false if record keys are generated,
    because a generated key holds the instant of the write.
    """
    index = rules.index
    return not (index.is_global or index.store is not None or rules.settings.key_changes_folder or write.settings.auto_keys)


def _may_wait(table: TableState, conflict: WriteConflict) -> bool:
    """Whether the write may have to wait for another write before its next attempt.

    True if the write to which it lost is still inflight. Also true with early conflict detection, because the next attempt may
    lose to one more pending write.

    Args:
        conflict: the conflict that ended the last attempt. It names the write that won.
    """
    if detects_early(table):
        return True
    inflight = reload_timeline(table).timeline.filter(*WRITE_ACTIONS, state=State.INFLIGHT)
    return any(instant.time == conflict.other_instant for instant in inflight)


def _find_changed_partitions(table: TableState, finished: _Finished) -> set[str] | None:
    """Return the partitions that commits wrote to since the first attempt was planned; None if they are not known.

    They are not known if a commit has left the timeline since. A comparison of file slices is not enough: a log file that was
    listed before may belong to a write that has committed since.

    Args:
        finished: the first attempt.
    """
    now = table.timeline
    if finished.timeline.completed_times - now.completed_times:
        return None
    changed: set[str] = set()
    for instant in now.writes:
        if instant.time not in finished.timeline.completed_times:
            metadata = read_metadata(table.storage, table.base_path, instant)
            changed |= {*metadata.by_partition(), *(metadata.replaced or {})}
    return changed


def _without_logs(slices: Sequence[FileSlice], paths: set[str]) -> list[FileSlice]:
    """Return file slices without the log files at these paths. A slice that has no other file is left out."""
    others = []
    for file_slice in slices:
        logs = tuple(log for log in file_slice.log_files if log.path not in paths)
        if logs or file_slice.base_file is not None:
            others.append(replace(file_slice, log_files=logs))
    return others


def _select(groups: Iterable[GroupId], partitions: set[str]) -> frozenset[GroupId]:
    """Return the file groups of these partitions."""
    return frozenset(group for group in groups if group[0] in partitions)


def _restrict(kept: KeptFiles, partitions: set[str]) -> KeptFiles:
    """Return a copy of `kept` that keeps only the files of these partitions."""
    return replace(
        kept,
        partitions=frozenset(partitions),
        stats=tuple(stat for stat in kept.stats if (stat.partition_path or "") in partitions),
        profile=tuple(stat for stat in kept.profile if (stat.partition_path or "") in partitions),
        touched=_select(kept.touched, partitions),
    )


def _delete_files_elsewhere(table: TableState, instant: str, partitions: set[str]) -> None:
    """Delete the data files of a write that are not in these partitions.

    Args:
        instant: the instant time of the write, which is sealed: its tasks may create no more files.
    """
    announced = [marker.file_path for marker in markers.read_markers(table.storage, table.base_path, instant)]
    elsewhere = [path for path in announced if path.rpartition("/")[0] not in partitions]
    markers.delete_announced(table.storage, table.base_path, elsewhere)
