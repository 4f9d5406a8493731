"""`run_task`: writes the files of one task of an upsert, and returns their write stats. Runs on a worker or on the driver.

The work depends on the class of the task description:

| task description | what is known before the task | what the task does |
| --- | --- | --- |
| `PartitionTask` | the partition has at most one file group | finds keys, merges and inserts, in one read of the base file |
| `GroupTask` | which rows are changed and which are new | merges or appends exactly those |
| `BucketTask` | no other file group can hold the keys | merges or appends all rows (`bucket.py`) |

Each merges into the base file of a copy-on-write table (`base_file.py`) or appends to the log of a merge-on-read table
(`log_file.py`). Rows that fit in no existing file open new file groups (`insert.py`).
"""

from __future__ import annotations

import numpy as np

from penstock.filegroup.model import BaseFile, FileSlice
from penstock.filegroup.task_output import TaskOutput
from penstock.merge.kernels.gather import Positions
from penstock.merge.row_choice import Fate
from penstock.timeline.commit_file import WriteStat
from penstock.write.locate.key_lookup import WantedKeys, holds_any_key, look_up
from penstock.write.tasks.base_file import FileMerge, merge_base_file
from penstock.write.tasks.bucket import write_bucket
from penstock.write.tasks.insert import insert_into_new_groups
from penstock.write.tasks.located_rows import NO_HITS, NO_ROWS, Hits, make_merge_hits, read_hits, read_new_rows
from penstock.write.tasks.log_file import LogAppend, append_changes
from penstock.write.tasks.task import BucketTask, GroupTask, PartitionTask, UpsertRules, UpsertTask, open_task_output
from penstock.write.tasks.task_rows import TaskRows, choose_task_rows, find_repeats, load_task_rows


def run_task(task: UpsertTask) -> list[WriteStat]:
    """Write the files of one task of an upsert, a delete or a write into buckets, and return their write stats.

    Runs in a task, on a worker or on the driver.
    """
    output = open_task_output(task.rules.settings)
    if isinstance(task, PartitionTask):
        stats = _write_partition(output, task)
    elif isinstance(task, GroupTask):
        stats = _write_group(output, task)
    else:
        assert isinstance(task, BucketTask)
        stats = write_bucket(output, task)
    output.finish()  # write stats must only name files that are durable
    return stats


def _write_partition(output: TaskOutput, task: PartitionTask) -> list[WriteStat]:
    """Find the stored rows of a partition's incoming keys, write the changed rows, and insert the new rows.

    Returns:
        The write stats.
    """
    rules = task.rules
    incoming = load_task_rows(rules.loading, task.pieces)
    stats: list[WriteStat] = []
    unwritten = incoming.rows
    if task.file_slice is not None and rules.logs is not None:
        stats, unwritten = _append_to_slice(output, task, task.file_slice, incoming)
    elif task.file_slice is not None and task.base_file is not None:
        stats, unwritten = _merge_into_slice(output, task.file_slice, task.base_file, rules, incoming)
    if len(unwritten) and not rules.drops_unknown:
        unwritten = _with_repeats(task, unwritten)
        stats += _insert(output, task, incoming, unwritten)
    return stats


def _merge_into_slice(
    output: TaskOutput, file_slice: FileSlice, base_file: BaseFile, rules: UpsertRules, incoming: TaskRows
) -> tuple[list[WriteStat], Positions]:
    """Rewrite the only base file of a partition, merged with the incoming rows. If the file is small, add the new rows that fit.

    Returns:
        The write stats; and the numbers of the new rows that did not fit, which the caller writes to new file groups.
    """
    rows_that_fit = _count_rows_that_fit(file_slice, rules)
    # A file that takes no new rows and holds none of the keys need not be written again.
    if not rows_that_fit and not holds_any_key(rules.settings.storage, base_file, WantedKeys(incoming.keys), rules.index.pruning):
        return [], incoming.rows
    merge = FileMerge(file_slice.partition_path, base_file, rules.merger)
    merged = merge_base_file(output, merge, incoming, rows_that_fit)
    new_rows = np.setdiff1d(incoming.rows, merged.matched, assume_unique=True)
    return [merged.stat], new_rows[rows_that_fit:]


def _append_to_slice(
    output: TaskOutput, task: PartitionTask, file_slice: FileSlice, incoming: TaskRows
) -> tuple[list[WriteStat], Positions]:
    """Append changes to the log of the only file slice of a partition.

    If there are new rows and the base file has room for some, the base file is rewritten instead, with all changes and with the
    new rows that fit.

    Returns:
        The write stats; and the numbers of the new rows that are not written yet, which the caller writes to new file groups.
    """
    rules = task.rules
    hits = _find_in_base_file(file_slice, rules, incoming)
    new_rows = np.setdiff1d(incoming.rows, hits.new)
    rows_that_fit = _count_rows_that_fit(file_slice, rules) if len(new_rows) else 0
    if file_slice.base_file is None or not rows_that_fit:
        return _append(output, file_slice, rules, incoming, _repeat_hits(task, hits)), new_rows
    merge = FileMerge(file_slice.partition_path, file_slice.base_file, rules.merger, hits)
    return [merge_base_file(output, merge, incoming, new_rows[:rows_that_fit]).stat], new_rows[rows_that_fit:]


def _find_in_base_file(file_slice: FileSlice, rules: UpsertRules, incoming: TaskRows) -> Hits:
    """Return the hits of a file slice: pairs of a row of its base file and an incoming row with the same key."""
    if file_slice.base_file is None:
        return NO_HITS
    (found,) = look_up(rules.settings.storage, [file_slice.base_file], WantedKeys(incoming.keys), rules.index.pruning)
    return make_merge_hits(found.old, incoming.rows[found.key])


def _count_rows_that_fit(file_slice: FileSlice, rules: UpsertRules) -> int:
    """Return how many new rows fit in the file slice; 0 if the slice is not small, or if the write drops new rows (delete)."""
    if rules.drops_unknown or not rules.sizing.find_small_slices([file_slice]):
        return 0
    return rules.sizing.count_rows_that_fit(file_slice)


def _write_group(output: TaskOutput, task: GroupTask) -> list[WriteStat]:
    """Write the changed rows and the new rows of one file group, and return the write stats.

    The stored row of each key was looked up before. The numbers of the rows are read from files of the staging folder.
    """
    rules = task.rules
    storage = rules.loading.staging.storage
    new_rows = read_new_rows(storage, task.new_rows) if task.new_rows else NO_ROWS
    hits = read_hits(storage, task.hits, task.elsewhere_file) if task.hits else NO_HITS
    goes_to_log = task.file_slice is not None and task.appends
    if goes_to_log:
        hits = _repeat_hits(task, hits)
    if goes_to_log or task.file_slice is None:
        new_rows = _with_repeats(task, new_rows)
    # The pieces hold the rows of all groups that were located together: only this group's rows are copied.
    incoming = choose_task_rows(rules.loading, task.pieces, np.concatenate([hits.new, new_rows]))
    if task.file_slice is not None and task.appends:
        return _append(output, task.file_slice, rules, incoming, hits, new_rows)
    if task.base_file is None:
        return _insert(output, task, incoming, new_rows)
    merge = FileMerge(task.partition_path, task.base_file, rules.merger, hits)
    return [merge_base_file(output, merge, incoming, new_rows).stat]


def _append(
    output: TaskOutput,
    file_slice: FileSlice,
    rules: UpsertRules,
    incoming: TaskRows,
    hits: Hits,
    new_rows: Positions = NO_ROWS,
) -> list[WriteStat]:
    """Append changes and new rows to the log of a file slice.

    Args:
        hits: the pairs of a stored row of the slice and an incoming row with the same key.
        new_rows: the numbers (in `incoming`) of the rows whose keys are new to the slice.

    Returns:
        The write stats; an empty list if there is nothing to append.
    """
    if rules.logs is None or not (len(hits.new) or len(new_rows)):
        return []
    append = LogAppend(file_slice, rules.logs, rules.merger, rules.ordering)
    return append_changes(output, append, incoming, hits, new_rows)


def _with_repeats(task: UpsertTask, new_rows: Positions) -> Positions:
    """Return the numbers of the new rows to write to a log or to new file groups.

    If the write combines the rows of a key, these are `new_rows`. If it keeps all of them (`UpsertRules.keeps_repeats`), the
    other incoming rows of the same keys are added.

    Args:
        new_rows: the numbers of the new rows, one per key.
    """
    rules = task.rules
    if not rules.keeps_repeats:
        return new_rows
    return np.unique(find_repeats(rules.loading.staging, task.pieces, new_rows)[1])


def _repeat_hits(task: PartitionTask | GroupTask, hits: Hits) -> Hits:
    """Return the hits (pairs of a stored and an incoming row with the same key) whose incoming rows are appended to a log.

    If the write combines the incoming rows of a key, these are `hits`. If it keeps all of them (`UpsertRules.keeps_repeats`),
    each stored row is paired with every incoming row of its key, and readers of the log combine the rows. A merge into a base
    file always takes the last row of a key.

    Args:
        hits: pairs of a stored row and the last incoming row of its key.
    """
    rules = task.rules
    if not rules.keeps_repeats:
        return hits
    repeated, numbers = find_repeats(rules.loading.staging, task.pieces, hits.new)
    # A row that moves to another partition needs one delete entry in the old one, however many incoming rows have its key.
    kept = (hits.fates[repeated] == Fate.MERGE) | (numbers == hits.new[repeated])
    return Hits(hits.old[repeated[kept]], numbers[kept], hits.fates[repeated[kept]])


def _insert(output: TaskOutput, task: UpsertTask, incoming: TaskRows, new_rows: Positions) -> list[WriteStat]:
    """Write incoming rows to new file groups of the task's partition, and return the write stats.

    Args:
        new_rows: the numbers (in `incoming`) of the rows to write.
    """
    rules = task.rules
    rows_per_group = rules.sizing.rows_per_group
    return insert_into_new_groups(output, task.partition_path, rules.logs, rules.merger, incoming, new_rows, rows_per_group)
