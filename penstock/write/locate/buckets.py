"""Stage 5 of a write (plan the tasks) for the bucket index: one task per partition path and bucket. No keys are looked up.

A bucket is the file group that the hash of a key selects. The incoming rows were split by bucket when they were staged. So a task
has all incoming rows of its bucket, and the only file group that can hold their keys. In a copy-on-write table the task merges
the rows into the base file. In a merge-on-read table it appends them to a log file without reading the slice, because readers
merge the log with the base file by key. A bucket always has one file group, however large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.filegroup.model import FileSlice
from penstock.index.bucket_hash import Buckets
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
    """Plan one task for each bucket (file group that the hash of a key selects) that has incoming rows.

    Args:
        rules: the settings that all tasks share.
        buckets: finds the bucket of each file slice, and names new file groups.
        pieces: where the staged rows are. A piece is consecutive rows of a staged file, here all of one bucket.
        slices: the file slices of each partition path. Rows of a bucket without a slice go to a new file group.
        checks_keys: whether tasks check that the keys of a stored base file belong to the file's bucket. Needed if the table's
            properties do not say how many buckets it has, because the number in the options may be wrong.
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
            # The task hashes keys of this slice and compares the result with the slice's bucket. An empty bucket has no stored
            # keys, so another bucket of the partition is checked instead.
            witness = file_slice or next(iter(slices_of_path.values()), None)
        tasks.append(BucketTask(rules, path, tuple(pieces_of_bucket), file_slice, witness, file_id=file_id))
    profile = _make_profile(tasks, operation)
    tasks.sort(key=lambda task: task.size_bytes, reverse=True)  # the largest first
    figures = {"rows": sum(task.incoming_rows for task in tasks), "buckets": len(tasks)}
    return TaskPlan(tuple(tasks), profile, figures, rules.index.name, slices=slices)


def _make_profile(tasks: Sequence[BucketTask], operation: Operation) -> CommitMetadata:
    """Return the workload profile of these tasks (how many rows go to which file group), for the inflight file.

    Incoming rows of a bucket without a file slice count as inserts. Rows of an existing bucket count as updates, because it
    is not known which of their keys are stored.
    """
    inserts = {task.partition_path: 0 for task in tasks}
    updates = []
    for task in tasks:
        if task.file_slice is None:
            inserts[task.partition_path] += task.incoming_rows
        else:
            updates.append((task.partition_path, task.file_id, task.file_slice.base_instant, task.incoming_rows))
    return make_workload_profile(operation, inserts, updates)
