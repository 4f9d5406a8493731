"""How a write goes into buckets: one task per partition path and bucket, and no tagging at all.

Staged rows are cut by bucket already, so a task has all rows of its bucket and the only file group they can be in. In a
copy-on-write table the base file is merged in one read. In a merge-on-read table the rows are appended to the log without a look
at what is there: whether a key was known is decided when the slice is read. A bucket has one file group, however large.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import WriteConflict
from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.model import BaseFile, FileSlice
from penstock.filegroup.task_output import TaskOutput
from penstock.index.bucket import Buckets
from penstock.index.consistent_hashing import HashRings
from penstock.index.lookup import Keys, key_range, look_up, may_hold
from penstock.merge.choice import Fate
from penstock.merge.kernels.gather import Positions
from penstock.options.operation import Operation
from penstock.timeline.commit_file import WriteStat, workload_profile
from penstock.write.locate.live_rows import look_up_merged
from penstock.write.locate.upsert import TaskPlan, UpsertRules, write_new_rows
from penstock.write.rows.staging import Piece, read_pieces
from penstock.write.rows.task_rows import TaskRows, load_task_rows
from penstock.write.tasks.base_file import NO_HITS, FileMerge, Hits, merge_file
from penstock.write.tasks.insert import append_rows, open_output, unstaged, write_new
from penstock.write.tasks.log_file import Append, append_hits


@dataclass(frozen=True)
class BucketTask:
    """All incoming rows of one bucket, and what it holds already."""

    rules: UpsertRules
    path: str
    number: int
    pieces: tuple[Piece, ...]
    file_id: str
    #: None: the bucket is empty so far.
    slice_: FileSlice | None = None
    #: A file slice of the partition to look whether its keys belong to its bucket: nothing else says how many there are.
    witness: FileSlice | None = None

    @property
    def base(self) -> BaseFile | None:
        """The base file, if there is one."""
        return self.slice_.base_file if self.slice_ else None

    @property
    def log(self) -> FileSlice | None:
        """The slice that the bucket is, if it is not empty."""
        return self.slice_

    @property
    def rows(self) -> int:
        """Incoming rows."""
        return sum(p.rows for p in self.pieces)


def plan_buckets(
    rules: UpsertRules,
    pieces: Sequence[Piece],
    slices: Mapping[str, Sequence[FileSlice]],
    operation: Operation,
    *,
    checks_keys: bool,
) -> TaskPlan:
    """A task for every bucket that rows come to."""
    buckets = rules.index.buckets
    assert buckets is not None
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
        tasks.append(BucketTask(rules, path, number, tuple(its), file_id, there, witness))
    inserts = dict.fromkeys((task.path for task in tasks), 0)
    for task in tasks:
        inserts[task.path] += 0 if task.slice_ else task.rows
    updates = [(t.path, t.file_id, t.slice_.base_instant, t.rows) for t in tasks if t.slice_]
    tasks.sort(key=_weight, reverse=True)
    figures = {"rows": sum(task.rows for task in tasks), "buckets": len(tasks)}
    return TaskPlan(tuple(tasks), workload_profile(operation, inserts, updates), figures, rules.index.name)


def check_rings_stand(staged: Buckets | HashRings | None, now: Buckets | HashRings | None, partitions: Collection[str]) -> None:
    """Raises WriteConflict if buckets were split or joined since rows were cut by them."""
    if not isinstance(staged, HashRings) or not isinstance(now, HashRings):
        return
    for path in sorted(partitions):
        if staged.ring(path) != now.ring(path):
            raise WriteConflict(f"the buckets of partition {path!r} were split or joined during this write. Run it again")


def _weight(task: BucketTask) -> int:
    return (task.base.size_bytes if task.base else 0) + sum(p.size_bytes for p in task.pieces)


def run_bucket(task: BucketTask) -> list[WriteStat]:
    """Kernel: write what comes to one bucket; gives its write stats."""
    output = open_output(task.rules.settings)
    _check_keys(task)
    stats = _run(output, task)
    output.finish()
    return stats


def _check_keys(task: BucketTask) -> None:
    """Least and greatest key of a base file are looked at: few files pass by chance if the number of buckets is another."""
    buckets, witness = task.rules.index.buckets, task.witness
    if buckets is None or witness is None or witness.base_file is None:
        return
    buckets.check_keys(witness, key_range(task.rules.settings.storage, witness.base_file) or ())


def _run(output: TaskOutput, task: BucketTask) -> list[WriteStat]:
    rules, slice_ = task.rules, task.slice_
    if slice_ is None and rules.drops_unknown:
        return []
    if rules.adds and (rules.logs is None or (slice_ is None and not rules.logs_first)):
        return _add(output, task)
    incoming = load_task_rows(rules.loading, task.pieces)
    rows = _unknown(task, incoming) if rules.drops_known else incoming.rows
    if rules.logs is not None and (slice_ is not None or rules.logs_first):
        return _append(output, task, incoming, rows)
    if slice_ is None or slice_.base_file is None:
        return write_new_rows(RollingWriter(output, task.path, task.file_id), rules.merger, incoming, rows)
    return _merge(output, task, slice_.base_file, incoming, rows)


def _add(output: TaskOutput, task: BucketTask) -> list[WriteStat]:
    """Rows as they come, whether their keys are known or not: an insert into a base file."""
    rules = task.rules
    rows = (unstaged(task.path, table) for table in read_pieces(rules.loading.staging, task.pieces))
    if task.base is None:
        return write_new(RollingWriter(output, task.path, task.file_id), output, rules.merger, rows)
    return [append_rows(output, task.path, task.base, rules.merger, rows)]


def _merge(output: TaskOutput, task: BucketTask, base: BaseFile, incoming: TaskRows, rows: Positions) -> list[WriteStat]:
    rules = task.rules
    if rules.drops_known:
        merge = FileMerge(task.path, base, rules.merger, NO_HITS)
        return [merge_file(output, merge, incoming, rows).stat] if len(rows) else []
    if rules.drops_unknown and not may_hold(rules.settings.storage, base, Keys(incoming.keys), rules.index.pruning):
        return []
    return [merge_file(output, FileMerge(task.path, base, rules.merger), incoming, 0 if rules.drops_unknown else len(rows)).stat]


def _append(output: TaskOutput, task: BucketTask, incoming: TaskRows, rows: Positions) -> list[WriteStat]:
    """Everything to the log, known or not; an empty bucket's log begins with this write."""
    rules = task.rules
    if rules.logs is None or not len(rows):
        return []
    target = task.slice_ or FileSlice(task.path, task.file_id, rules.settings.instant)
    append = Append(target, rules.logs, rules.merger, rules.ordering)
    if task.slice_ is None:
        return append_hits(output, append, incoming, NO_HITS, rows)
    return append_hits(output, append, incoming, Hits(np.full(len(rows), -1), rows, np.full(len(rows), Fate.MERGE, np.int8)))


def _unknown(task: BucketTask, incoming: TaskRows) -> Positions:
    """The rows whose keys the bucket does not hold."""
    slice_, rules, storage = task.slice_, task.rules, task.rules.settings.storage
    if slice_ is None:
        return incoming.rows
    if slice_.log_files and rules.merging is not None:
        known = look_up_merged(storage, slice_, rules.merging, incoming.keys, ()).key
    else:
        bases = [slice_.base_file] if slice_.base_file else []
        found = look_up(storage, bases, Keys(incoming.keys), rules.index.pruning)
        known = found[0].key if found else np.empty(0, np.int64)
    return np.asarray(np.delete(incoming.rows, known))
