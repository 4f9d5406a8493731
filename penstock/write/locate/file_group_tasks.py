"""Plans the tasks of an upsert without buckets: one task per partition (`PartitionTask`) or per file group (`GroupTask`).

A partition with at most one file group and at most 256 MB of incoming rows is one task. The task finds the keys, merges and
inserts, and opens the base file once. For a partition with several file groups, and for all partitions with a global index, the
keys are located first (`locate_keys.py`) and new rows are assigned to file groups (`assign.py`). Then every file group that
changes is one task. All tasks read their incoming rows from the staged files; no row is sent from the JVM to Python a second
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.filegroup.model import FileSlice
from penstock.options.operation import Operation
from penstock.timeline.commit_file import CommitMetadata, make_workload_profile
from penstock.workers.runner import Runner
from penstock.write.locate.assign import assign_new_rows
from penstock.write.locate.entries import EntryAnswers
from penstock.write.locate.locate_keys import LocatedPieces, locate_keys
from penstock.write.locate.task_plan import TaskPlan
from penstock.write.rows.staging import Piece
from penstock.write.tasks.task import GroupTask, PartitionTask, UpsertRules, UpsertTask

#: The keys of a partition with more incoming bytes are located first, so that its new rows can be spread over several tasks.
_INCOMING_BYTES_PER_TASK = 256 * 1024 * 1024


@dataclass
class _Profile:
    """The workload profile of a write, for its inflight file: how many rows the tasks are expected to insert and update."""

    #: The number of new rows of each partition path with incoming rows.
    new_rows: dict[str, int] = field(default_factory=dict)
    #: (partition path, file id, base instant, number of updated rows) of each existing file group that changes.
    updates: list[tuple[str, str, str, int]] = field(default_factory=list)

    def add_new_rows(self, partition_path: str, rows: int) -> None:
        """Increase the profile's count of new rows in a partition path by `rows`."""
        self.new_rows[partition_path] = self.new_rows.get(partition_path, 0) + rows

    def add_update(self, file_slice: FileSlice, rows: int) -> None:
        """Record in the profile that the write updates rows of an existing file group.

        Args:
            file_slice: the latest slice of the file group.
            rows: how many rows of the file group are updated.
        """
        base_file = file_slice.base_file
        instant = base_file.instant if base_file else file_slice.base_instant
        self.updates.append((file_slice.partition_path, file_slice.file_id, instant, rows))
        self.new_rows.setdefault(file_slice.partition_path, 0)  # the profile lists every partition with rows

    def to_metadata(self, operation: Operation) -> CommitMetadata:
        """Return the workload profile as commit metadata, the form in which the inflight file stores it."""
        return make_workload_profile(operation, self.new_rows, self.updates)


def plan_file_group_tasks(
    rules: UpsertRules,
    pieces: Sequence[Piece],
    slices: Mapping[str, Sequence[FileSlice]],
    operation: Operation,
    runner: Runner,
    *,
    locates_all: bool = False,
    answers: EntryAnswers | None = None,
) -> TaskPlan:
    """Plan the tasks of an upsert without buckets: one per partition, or one per file group that changes.

    A partition with few incoming bytes and at most one file group is one task, which finds the keys itself. The keys of all other
    partitions are located now, by the jobs of `locate_keys`, before any task runs.

    Args:
        pieces: where the staged rows are. A piece is consecutive rows of a staged file.
        slices: the file slices that may hold the incoming keys, by partition path.
        runner: runs the jobs that locate keys.
        locates_all: whether to locate the keys of all partitions, so that all counts are known before any task runs.
        answers: which file group the index entry of each incoming key names, for an index that keeps entries in a store. None:
            keys are read from base files.
    """
    profile = _Profile()
    tasks: list[UpsertTask] = []
    located_first: list[tuple[Piece, ...]] = []
    for path, pieces_of_path in _group_by_path(pieces).items():
        slices_of_path = slices.get(path, ())
        if not locates_all and _is_one_task(rules, pieces_of_path, slices_of_path):
            task = PartitionTask(rules, path, pieces_of_path, slices_of_path[0] if slices_of_path else None)
            tasks.append(task)
            _add_partition(profile, task)
        else:
            located_first.append(pieces_of_path)
    partition_tasks = len(tasks)
    if rules.index.is_global and pieces:
        located_first = [tuple(pieces)]  # keys of all partitions are looked for together
    located = locate_keys(rules, located_first, slices, runner, answers)
    _add_located(profile, located.sets, drops_known=rules.drops_known)
    for piece_set in located.sets:
        tasks += _plan_group_tasks(rules, piece_set, slices)
    tasks.sort(key=lambda task: task.size_bytes, reverse=True)  # the largest first
    index_counts = {**located.index_counts, "read_once": partition_tasks}
    return TaskPlan(tuple(tasks), profile.to_metadata(operation), index_counts, rules.index.name, slices=slices)


def _group_by_path(pieces: Sequence[Piece]) -> dict[str, tuple[Piece, ...]]:
    """Return a dict of partition path → pieces of this path. A piece is consecutive rows of a staged file."""
    by_path: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_path.setdefault(piece.path, []).append(piece)
    return {path: tuple(pieces_of_path) for path, pieces_of_path in by_path.items()}


def _is_one_task(rules: UpsertRules, pieces: Sequence[Piece], slices: Sequence[FileSlice]) -> bool:
    """Whether one `PartitionTask` can write all incoming rows of a partition and find their keys itself.

    It can if the partition has at most one file group and at most 256 MB of incoming rows. There are four exceptions, in which
    keys are located before the task:

    - The index is global: all partitions must be searched.
    - The write drops rows whose keys are stored: a `PartitionTask` would merge them.
    - The index finds keys in log files, and the partition has a file group: a `PartitionTask` searches the base file only.
    - A clustering of the file group is pending: whether the write changes the group must be known before anything is written.

    Args:
        pieces: where the staged rows of the partition are. A piece is consecutive rows of a staged file.
        slices: the file slices of the partition.
    """
    if rules.index.is_global:
        return False
    if slices and (rules.drops_known or rules.index.finds_rows_in_logs):
        return False  # a partition task looks for keys in the base file, and merges what it finds
    for file_slice in slices:
        if (file_slice.partition_path, file_slice.file_id) in rules.sizing.busy:
            return False  # a clustering is pending: whether the write changes the group must be known before anything is written
    return len(slices) <= 1 and sum(piece.size_bytes for piece in pieces) <= _INCOMING_BYTES_PER_TASK


def _add_partition(profile: _Profile, task: PartitionTask) -> None:
    """Add the rows of a partition task to the workload profile, as an estimate: only the task finds out which rows are new.

    All rows count as updates if the partition has a base file, and as new rows if it has no file group. Rows of a file group with
    only log files are not counted.
    """
    if task.file_slice is None:
        profile.add_new_rows(task.partition_path, task.incoming_rows)
    elif task.base_file is not None:
        profile.add_update(task.file_slice, task.incoming_rows)
    else:
        profile.add_new_rows(task.partition_path, 0)


def _add_located(profile: _Profile, located: Sequence[LocatedPieces], *, drops_known: bool) -> None:
    """Add located rows to the profile: an incoming row whose key is stored counts as an update, any other as a new row.

    Args:
        located: the located keys, one item per set of incoming rows. A set is the rows of one partition; with a global index, all
            rows.
        drops_known: whether the write drops rows whose keys are stored. Then there are no updates.
    """
    if not drops_known:
        for piece_set in located:
            for hits in piece_set.hits:
                profile.add_update(hits.file_slice, hits.rows)
    for piece_set in located:
        if piece_set.new_rows is None:
            continue
        for path, rows in piece_set.new_rows.rows_by_path:
            if rows:
                profile.add_new_rows(path, rows)


def _plan_group_tasks(rules: UpsertRules, located: LocatedPieces, slices: Mapping[str, Sequence[FileSlice]]) -> list[GroupTask]:
    """Plan the tasks of located rows: one for each existing file group that changes, and one for each new file group.

    Args:
        located: the located keys of one set of incoming rows: of one partition; with a global index, of all rows.
        slices: the file slices of the table, by partition path. Small ones take new rows.
    """
    tasks: dict[tuple[str, str], GroupTask] = {}
    new_rows = located.new_rows
    elsewhere_file = new_rows.file if new_rows and new_rows.lists_elsewhere else None
    for hits in () if rules.drops_known else located.hits:
        file_slice = hits.file_slice
        tasks[file_slice.partition_path, file_slice.file_id] = GroupTask(
            rules=rules,
            partition_path=file_slice.partition_path,
            pieces=located.pieces,
            file_slice=file_slice,
            hits=hits.batch,
            appends=rules.logs is not None,
            elsewhere_file=elsewhere_file,
        )
    if new_rows is None:
        return list(tasks.values())
    inserts_into_logs = rules.sizing.log_ratio is not None
    for number, insert in enumerate(assign_new_rows(new_rows, slices, rules.sizing)):
        group = (insert.partition_path, insert.target.file_id if insert.target else f"new-{number}")
        task = tasks.get(group)
        if task is None:
            task = GroupTask(rules, insert.partition_path, located.pieces, insert.target)
        # A base file that takes new rows is rewritten, and the changes of its group go into the new version, not into the log.
        tasks[group] = replace(task, new_rows=insert.rows, appends=insert.target is not None and inserts_into_logs)
    return list(tasks.values())
