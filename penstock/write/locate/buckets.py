"""Stage 5 for the bucket index: one task per partition path and bucket. No keys are located.

Staged rows are cut by bucket, so a task has all rows of its bucket and the only file group that they can be in. In a
copy-on-write table the base file is read and merged once. In a merge-on-read table the rows are appended to the log without
reading the slice: whether a key was known is decided when the slice is read. A bucket has one file group of any size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.filegroup.model import FileSlice
from penstock.index.buckets import Buckets
from penstock.options.operation import Operation
from penstock.timeline.commit_file import CommitMetadata, make_workload_profile
from penstock.write.locate.task_plan import TaskPlan
from penstock.write.rows.staging import Piece
from penstock.write.tasks.task import BucketTask, UpsertRules


def plan_bucket_tasks(
    rules: UpsertRules,
    buckets: Buckets,
    pieces: Sequence[Piece],
    slices: Mapping[str, Sequence[FileSlice]],
    operation: Operation,
    *,
    checks_keys: bool,
) -> TaskPlan:
    """Plan a task for each bucket that rows belong to.

    Args:
        slices: the file slices of the partitions of the rows. Rows of a bucket without a slice go to a new file group.
        checks_keys: whether tasks compare the keys of a stored file with the number of buckets, if the table does not say it.
    """
    slice_by_number = {path: buckets.by_number(slices_of_path) for path, slices_of_path in slices.items()}
    pieces_by_bucket: dict[tuple[str, int], list[Piece]] = {}
    for piece in pieces:
        assert piece.bucket is not None
        pieces_by_bucket.setdefault((piece.path, piece.bucket), []).append(piece)
    tasks = []
    for (path, number), pieces_of_bucket in pieces_by_bucket.items():
        slices_of_path = slice_by_number.get(path, {})
        file_slice = slices_of_path.get(number)
        file_id = file_slice.file_id if file_slice else buckets.new_file_id(number, path)
        witness = None
        if checks_keys:
            # An empty bucket has no keys to compare. Another bucket of the partition is as good.
            witness = file_slice or next(iter(slices_of_path.values()), None)
        tasks.append(BucketTask(rules, path, tuple(pieces_of_bucket), file_slice, witness, file_id=file_id))
    profile = _make_profile(tasks, operation)
    tasks.sort(key=lambda task: task.size_bytes, reverse=True)  # the largest first
    figures = {"rows": sum(task.incoming_rows for task in tasks), "buckets": len(tasks)}
    return TaskPlan(tuple(tasks), profile, figures, rules.index.name)


def _make_profile(tasks: Sequence[BucketTask], operation: Operation) -> CommitMetadata:
    """Return the workload profile: rows of an empty bucket are inserts, all others are updates of its file group."""
    inserts = {task.partition_path: 0 for task in tasks}
    updates = []
    for task in tasks:
        if task.file_slice is None:
            inserts[task.partition_path] += task.incoming_rows
        else:
            updates.append((task.partition_path, task.file_id, task.file_slice.base_instant, task.incoming_rows))
    return make_workload_profile(operation, inserts, updates)
