"""The kernel of a log compaction, which each task runs: merge the log blocks of one file slice and write one more log file.

Runs in workers or on the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.filegroup.log.fold import FoldedLog
from penstock.filegroup.log.scan import scan_log_files, scan_slice
from penstock.filegroup.log.write import BlockFormat, log_fields
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.model import FileSlice, LogFile
from penstock.filegroup.names import log_file_name, mark_token
from penstock.filegroup.slice_rows import MergeCounts, MergeRules, fold_slice_log
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.formats.log import encode_avro_block, encode_delete_block, encode_parquet_block
from penstock.formats.log.deletes import build_deletes
from penstock.merge.kernels.gather import Positions
from penstock.merge.kernels.tombstones import Tombstones
from penstock.storage import join
from penstock.storage.os_errors import convert_os_errors
from penstock.timeline.commit_file import WriteStat
from penstock.workers.run_kernels import this_task

#: Number of rows whose size is measured, to estimate how many rows fit in a block.
_SAMPLE_ROWS = 1000


@dataclass(frozen=True)
class JoinTask:
    """Task description: the file slice whose log blocks `join_slice` merges into a new log file. Pickled to a worker."""

    file_slice: FileSlice
    #: Log files of the slice that the plan does not name: written since the plan was made.
    later_logs: tuple[LogFile, ...]
    rules: MergeRules
    settings: FileSettings
    max_block_bytes: int
    block_format: BlockFormat = BlockFormat.AVRO

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        """The file slices that the task reads: a tuple with the only slice, the one whose log blocks are merged."""
        return (self.file_slice,)


def join_slice(task: JoinTask) -> list[WriteStat]:
    """Merge the log blocks of a slice into one new log file; return a list with the file's write stat.

    Write no file and return an empty list if a write has added log blocks to the slice since the plan was made, or if all blocks
    were rolled back.
    """
    storage = task.settings.storage
    file_slice = task.file_slice
    # A later log file with nothing but rollback blocks has no valid block and does not count as a change of the slice.
    if scan_log_files(storage, task.later_logs, task.rules.times).blocks:
        return []
    scan = scan_slice(storage, file_slice, task.rules.times)
    if not scan.blocks:
        return []
    counts = MergeCounts()
    log = fold_slice_log(storage, file_slice, task.rules, task.rules.arrow.names, scan, counts)
    replaced_instants = tuple(dict.fromkeys(block.instant for _, block in scan.blocks))
    header = {"instant": task.settings.instant, "schema": task.settings.avro_schema, "compacted_instants": replaced_instants}
    identity = this_task()
    output = TaskOutput(task.settings, identity.number, identity.write_token)
    files = (*file_slice.log_files, *task.later_logs)
    version = max(file.version for file in files) + 1
    token = mark_token(output.write_token, task.settings.instant)
    name = log_file_name(file_slice.file_id, file_slice.base_instant, version, token)
    path = join(file_slice.partition_path, name) if file_slice.partition_path else name
    size_bytes = 0
    with output.create(path, MarkerType.APPEND) as sink, convert_os_errors(path):
        for block in joined_blocks(log, task, header):
            sink.write(block)
            size_bytes += len(block)
    output.finish()
    rows = int((~log.empty).sum())
    stat = WriteStat(
        file_id=file_slice.file_id,
        partition_path=file_slice.partition_path,
        path=path,
        prev_commit=file_slice.base_instant,
        num_writes=rows,
        num_update_writes=rows,
        num_deletes=int(log.empty.sum()),
        total_write_bytes=size_bytes,
        file_size_in_bytes=size_bytes,
        total_log_records=counts.log_records,
        total_log_files_compacted=counts.scan.files,
        total_log_size_compacted=counts.scan.size_bytes,
        total_updated_records_compacted=len(log.keys),
        total_log_blocks=counts.scan.blocks,
        total_corrupt_log_block=counts.scan.corrupt_blocks,
        total_rollback_blocks=counts.scan.rollback_blocks,
        log=log_fields(
            version=version,
            base_file=file_slice.base_file.name if file_slice.base_file else "",
            log_files=[*(file.name for file in files), name],
        ),
    )
    return [stat]


def joined_blocks(log: FoldedLog, task: JoinTask, header: Mapping[str, Any]) -> Iterator[bytes]:
    """Encode the merged log records of a slice as log blocks: data blocks with rows, then a delete block.

    Keys that were deleted and then inserted again (`log.fresh`) are also in a delete block before the data blocks, so that
    readers do not merge the inserted row with the row in the base file. All blocks go to one file, however large it gets.

    Entries of the delete blocks have no ordering value: the records of earlier blocks are already merged into the new blocks, and
    records of later blocks replace the entries. But if the table compares deletes by ordering value (`log.tombstones`), entries
    may have one, and all delete blocks come before the data blocks.

    Args:
        log: the merged log records.
        header: the header of every block.
    """
    keys = pa.chunked_array([log.keys])
    if log.tombstones is not None:
        yield from _tombstone_blocks(log, log.tombstones, task, header)
    elif log.fresh is not None and log.fresh.any():
        yield _delete_block(keys, np.flatnonzero(log.fresh), task, header)
    names = task.rules.arrow.names
    make_block = encode_avro_block
    if task.block_format is BlockFormat.PARQUET:
        make_block = partial(encode_parquet_block, codec=task.settings.codec)
    # At most a quarter of the memory: the rows of a block and their encoded bytes exist next to the folded log.
    max_bytes = min(task.max_block_bytes, task.rules.memory_bytes // 4)
    for positions in _split_by_size(log, np.flatnonzero(~log.empty), max_bytes):
        yield make_block(log.take(positions).select(names), **header)
    if log.empty.any() and log.tombstones is None:
        yield _delete_block(keys, np.flatnonzero(log.empty), task, header)


def _tombstone_blocks(log: FoldedLog, tombstones: Tombstones, task: JoinTask, header: Mapping[str, Any]) -> Iterator[bytes]:
    """Encode the tombstones (deletes that are compared by ordering value) of merged log records as delete blocks.

    Yield a block of the tombstones without an ordering value, then one of those with an ordering value; no block if it is empty.

    Args:
        log: the merged log records, whose keys the tombstones belong to.
        header: the header of every block.
    """
    keys = pa.chunked_array([log.keys])
    if tombstones.always.any():
        yield _delete_block(keys, np.flatnonzero(tombstones.always), task, header)
    dated = np.flatnonzero(np.asarray(tombstones.ordering.is_valid()))
    if len(dated):
        yield _delete_block(keys, dated, task, header, tombstones.ordering)


def _delete_block(
    keys: pa.ChunkedArray,
    positions: Positions,
    task: JoinTask,
    header: Mapping[str, Any],
    ordering: pa.Array | None = None,
) -> bytes:
    """Encode a delete block with the record keys at `positions` of `keys`.

    Args:
        header: the header of the block.
        ordering: the ordering values of all `keys`; None: the entries of the block have no ordering value.
    """
    partitions = pa.repeat(task.file_slice.partition_path, len(positions))
    at = pa.array(positions)
    return encode_delete_block(
        build_deletes(keys.take(at), partitions, None if ordering is None else ordering.take(at)), **header
    )


def _split_by_size(log: FoldedLog, positions: Positions, max_bytes: int) -> Iterator[Positions]:
    """Cut `positions` into consecutive arrays whose rows have about `max_bytes` each, estimated from the first rows.

    Args:
        positions: positions of rows in `log`.
    """
    if not len(positions):
        return
    sample = positions[:_SAMPLE_ROWS]
    bytes_per_row = max(1.0, log.take(sample).nbytes / len(sample))
    rows = max(1, int(max_bytes / bytes_per_row))
    for start in range(0, len(positions), rows):
        yield positions[start : start + rows]
