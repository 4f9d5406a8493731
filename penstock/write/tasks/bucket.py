"""Writes all incoming rows of one bucket of the bucket index to its file group, the only one that can hold their keys.

In a copy-on-write table the rows are merged into the base file, which is read once. In a merge-on-read table they are appended to
the log without reading the slice: readers of the slice merge them with the stored rows. All rows of a bucket go to its one file
group, however large it becomes.
"""

from __future__ import annotations

import numpy as np

from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.key_footer import read_key_range
from penstock.filegroup.model import BaseFile, FileSlice
from penstock.filegroup.task_output import TaskOutput
from penstock.merge.kernels.gather import Positions
from penstock.timeline.commit_file import WriteStat
from penstock.write.locate.key_lookup import WantedKeys, holds_any_key, look_up
from penstock.write.locate.live_rows import look_up_merged
from penstock.write.rows.staging import read_pieces
from penstock.write.tasks.base_file import FileMerge, add_to_base_file, merge_base_file
from penstock.write.tasks.insert import insert_pieces, insert_rows, split_key
from penstock.write.tasks.located_rows import NO_HITS, make_merge_hits
from penstock.write.tasks.log_file import LogAppend, append_changes
from penstock.write.tasks.task import BucketTask
from penstock.write.tasks.task_rows import TaskRows, load_task_rows


def write_bucket(output: TaskOutput, task: BucketTask) -> list[WriteStat]:
    """Write all incoming rows of one bucket to the bucket's file group, and return the write stats."""
    _check_number_of_buckets(task)
    rules = task.rules
    file_slice = task.file_slice
    if file_slice is None and rules.drops_unknown:
        return []
    goes_to_log = rules.logs is not None and (file_slice is not None or rules.logs_first)
    if rules.adds and not goes_to_log:
        return _add(output, task)
    incoming = load_task_rows(rules.loading, task.pieces)
    rows = _find_unknown_rows(task, incoming) if rules.drops_known else incoming.rows
    with_repeats = np.arange(incoming.rows_held) if rules.keeps_repeats else rows
    if goes_to_log:
        return _append(output, task, incoming, with_repeats)
    if task.base_file is None:
        writer = RollingWriter(output, task.partition_path, task.file_id)
        return insert_rows(writer, rules.merger, incoming, with_repeats)
    return _merge(output, task, task.base_file, incoming, rows)


def _check_number_of_buckets(task: BucketTask) -> None:
    """Raise OptionError if the table was written with another number of buckets than the options say.

    Checks whether the least and greatest key of a stored base file hash to the bucket of that file. The file is that of
    `task.witness`, a file slice of the same partition. With a wrong number of buckets, both keys pass only by chance.
    """
    buckets = task.rules.index.buckets
    witness = task.witness
    if buckets is None or witness is None or witness.base_file is None:
        return
    buckets.check_keys(witness, read_key_range(task.rules.settings.storage, witness.base_file) or ())


def _add(output: TaskOutput, task: BucketTask) -> list[WriteStat]:
    """Add the incoming rows to the base file of the bucket without comparing keys. A new bucket gets a new base file.

    Returns:
        The write stats.
    """
    rules = task.rules
    rows = (split_key(task.partition_path, piece) for piece in read_pieces(rules.loading.staging, task.pieces))
    if task.base_file is None:
        writer = RollingWriter(output, task.partition_path, task.file_id)
        return insert_pieces(writer, output, rules.merger, rows)
    return [add_to_base_file(output, task.partition_path, task.base_file, rules.merger, rows)]


def _merge(output: TaskOutput, task: BucketTask, base_file: BaseFile, incoming: TaskRows, rows: Positions) -> list[WriteStat]:
    """Rewrite the base file of the bucket, merged with the incoming rows. Return the write stats; empty if nothing changes.

    Args:
        rows: the numbers (in `incoming`) of the rows to write. If the write drops rows whose keys are in the table,
            the caller has already left these rows out.
    """
    rules = task.rules
    if rules.drops_known:
        merge = FileMerge(task.partition_path, base_file, rules.merger, NO_HITS)
        return [merge_base_file(output, merge, incoming, rows).stat] if len(rows) else []
    if rules.drops_unknown and not holds_any_key(
        rules.settings.storage, base_file, WantedKeys(incoming.keys), rules.index.pruning
    ):
        return []
    merge = FileMerge(task.partition_path, base_file, rules.merger)
    new_rows = 0 if rules.drops_unknown else len(rows)
    return [merge_base_file(output, merge, incoming, new_rows).stat]


def _append(output: TaskOutput, task: BucketTask, incoming: TaskRows, rows: Positions) -> list[WriteStat]:
    """Append incoming rows to the log of the bucket, whether their keys are stored or not. Return the write stats.

    A new bucket gets a file group that has only a log.

    Args:
        rows: the numbers (in `incoming`) of the rows to append.
    """
    rules = task.rules
    if rules.logs is None or not len(rows):
        return []
    target = task.file_slice or FileSlice(task.partition_path, task.file_id, rules.settings.instant)
    append = LogAppend(target, rules.logs, rules.merger, rules.ordering)
    if task.file_slice is None:
        return append_changes(output, append, incoming, NO_HITS, rows)
    # Rows of a bucket that exists count as updates, as Hudi counts them.
    return append_changes(output, append, incoming, make_merge_hits(np.full(len(rows), -1), rows))


def _find_unknown_rows(task: BucketTask, incoming: TaskRows) -> Positions:
    """Return the numbers of the incoming rows whose keys are not stored in the bucket."""
    file_slice = task.file_slice
    rules = task.rules
    storage = rules.settings.storage
    if file_slice is None:
        return incoming.rows
    if file_slice.log_files and rules.merging is not None:
        known = look_up_merged(storage, file_slice, rules.merging, incoming.keys, ()).key
    elif file_slice.base_file is not None:
        (found,) = look_up(storage, [file_slice.base_file], WantedKeys(incoming.keys), rules.index.pruning)
        known = found.key
    else:
        return incoming.rows
    return np.asarray(np.delete(incoming.rows, known))
