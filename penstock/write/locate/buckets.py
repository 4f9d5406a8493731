"""How a write goes into buckets: one task per partition path and bucket, and no tagging at all.

Staged rows are cut by bucket already, so a task has all rows of its bucket and the only file group they can be in. In a
copy-on-write table the base file is merged in one read. In a merge-on-read table the rows are appended to the log without a look
at what is there: whether a key was known is decided when the slice is read. A bucket has one file group, however large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.filegroup.model import FileSlice
from penstock.index.buckets import Buckets
from penstock.options.operation import Operation
from penstock.timeline.commit_file import make_workload_profile
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
    """A task for every bucket that rows come to."""
    held = {path: buckets.by_number(its) for path, its in slices.items()}
    shares: dict[tuple[str, int], list[Piece]] = {}
    for piece in pieces:
        assert piece.bucket is not None
        shares.setdefault((piece.path, piece.bucket), []).append(piece)
    tasks = []
    for (path, number), its in shares.items():
        there = held.get(path, {}).get(number)
        file_id = there.file_id if there else buckets.new_file_id(number, path)
        witness = (there or next(iter(held.get(path, {}).values()), None)) if checks_keys else None
        tasks.append(BucketTask(rules, path, tuple(its), there, witness, file_id=file_id))
    inserts = dict.fromkeys((task.partition_path for task in tasks), 0)
    updates = []
    for task in tasks:
        if task.file_slice is None:
            inserts[task.partition_path] += task.incoming_rows
        else:
            updates.append((task.partition_path, task.file_id, task.file_slice.base_instant, task.incoming_rows))
    tasks.sort(key=lambda task: task.size_bytes, reverse=True)
    figures = {"rows": sum(task.incoming_rows for task in tasks), "buckets": len(tasks)}
    return TaskPlan(tuple(tasks), make_workload_profile(operation, inserts, updates), figures, rules.index.name)
