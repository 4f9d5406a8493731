"""Log compaction: the many blocks of a slice's log are joined, and base files left alone.

    <t>.logcompaction.requested (the plan) → inflight → a log file for each slice → <t>.deltacommit

The new log file lies behind the others; its blocks say which instants' blocks they stand for. Readers that know this read
them instead; Hudi reads both, unless `hoodie.optimized.log.blocks.scan.enable` is set, which comes to the same as long as
nothing was written in between. So a slice that got more changes since it was planned is left alone, and no run is
published beside another write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock import options as o
from penstock.catalog.listing import list_groups, visibility
from penstock.catalog.pending import pending_groups, plan_of
from penstock.commit.change import Change
from penstock.commit.file_settings import log_block_format
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.filegroup.log.fold import FoldedLog
from penstock.filegroup.log.scan import blocks_that_count, committed_times
from penstock.filegroup.log.write import BlockFormat, log_fields
from penstock.filegroup.markers import MarkerType
from penstock.filegroup.model import FileSlice, LogFile
from penstock.filegroup.names import log_file_name, log_token
from penstock.filegroup.slice_rows import MergeCounts, MergeRules, fold_slice_log
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.formats.log import encode_avro_block, encode_delete_block, encode_parquet_block
from penstock.formats.log.deletes import build_deletes
from penstock.merge.kernels.gather import Positions
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.services.compaction.plan import operation_of, slices_with_logs
from penstock.services.compaction.run import Compacted, is_small, rules_and_settings, running, schema_of, start_over
from penstock.services.compaction.schedule import check_type, pending_at
from penstock.services.compaction.slices import list_folders, slice_of, still_there, unnamed_logs
from penstock.services.planned import store_content, writes_under_way
from penstock.spread.run import this_task
from penstock.spread.runner import Runner
from penstock.storage import join
from penstock.storage.os_errors import convert_os_errors
from penstock.table import TableState, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.compaction_plan import CompactionPlan, write_plan
from penstock.timeline.instant import WRITE_ACTIONS, Action, State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUNNER = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"


@dataclass(frozen=True)
class JoinTask:
    """One file slice whose log is joined."""

    slice_: FileSlice
    #: Log files of the slice that the plan does not name.
    later: tuple[LogFile, ...]
    rules: MergeRules
    settings: FileSettings
    max_block_bytes: int
    block_format: BlockFormat = BlockFormat.AVRO


def join_logs(spark: SparkSession, table: TableState, stages: Stages) -> list[Compacted]:
    """Run log compactions that wait, then plan and run one where logs have enough blocks. Nothing happens beside a write."""
    check_type(table)
    table = reload_timeline(table)
    if writes_under_way(table):
        return []
    waiting = [i.time for i in table.timeline.of(Action.LOG_COMPACTION) if not i.is_completed]
    plan = plan_joins(table)
    new = store_content(table, write_plan(plan), Action.LOG_COMPACTION) if plan.operations else None
    done = [run_joins(spark, table, time, stages) for time in [*waiting, *([new.time] if new else [])]]
    return [one for one in done if one is not None]


def plan_joins(table: TableState) -> CompactionPlan:
    """Slices whose logs have so many blocks that count that joining them is worthwhile."""
    busy = pending_groups(table).keys()
    times, least = committed_times(table.timeline), table.options[o.LOG_COMPACTION_BLOCKS]
    chosen = [
        slice_
        for slice_ in slices_with_logs(list_groups(table), visibility(table), busy)
        if len(blocks_that_count(table.storage, slice_.log_files, times)) >= least
    ]
    operations = tuple(operation_of(slice_, table.options[o.MAX_FILE_SIZE]) for slice_ in chosen)
    return CompactionPlan(operations, runner=_RUNNER, preserves_meta=True)


def run_joins(spark: SparkSession, table: TableState, time: str, stages: Stages) -> Compacted | None:
    """Run one plan; None if another write came meanwhile, so that the plan waits on."""
    table = turn_off_metadata_table(reload_timeline(table))
    instant = pending_at(table, time, Action.LOG_COMPACTION)
    plan = plan_of(table, instant)
    if plan is None or writes_under_way(table):
        return None
    table = start_over(table, instant)
    with running(table, instant.at(State.REQUESTED)) as change:
        tasks = _tasks(table, time, plan)
        with stages.run("join logs", f"joining the logs of {len(tasks)} file groups") as notes:
            runner = Runner(spark, on_driver=is_small(table, [task.slice_ for task in tasks]))
            stats = runner.collect(join_slice, tasks, WriteStat)
            notes.rows, notes.size_bytes = sum(s.num_writes for s in stats), sum(s.total_write_bytes for s in stats)
        extra = {"penstock.stages": stages.to_text()}
        schema = schema_of(table)
        commit = change.prepare(stats, operation=Operation.LOG_COMPACT, schema=schema, extra=extra, compacted=True, spark=spark)
        if _others_wrote(table, change):
            change.abandon()
            return None
        published = change.publish(commit, spark=spark)
        return Compacted(time, published.metadata)


def _others_wrote(table: TableState, change: Change) -> bool:
    known = {i.time for i in table.timeline.instants} | {change.time}
    return any(i.action in WRITE_ACTIONS and i.time not in known for i in reload_timeline(table).timeline.instants)


def _tasks(table: TableState, time: str, plan: CompactionPlan) -> list[JoinTask]:
    rules, settings = rules_and_settings(table, time, schema_of(table))
    folders, tasks = list_folders(table, plan), []
    for operation in still_there(table, time, plan, folders):
        folder = folders[operation.partition_path]
        slice_ = slice_of(table.base_path, operation, folder.sizes)
        later = unnamed_logs(slice_, folder)
        tasks.append(
            JoinTask(slice_, later, rules, settings, table.options[o.LOG_BLOCK_MAX_SIZE], log_block_format(table.options))
        )
    return tasks


def join_slice(task: JoinTask) -> list[WriteStat]:
    """Write what a slice's log says about each key as one more log file; gives its write stat, or none if it is left alone."""
    storage, slice_, counts = task.settings.storage, task.slice_, MergeCounts()
    if blocks_that_count(storage, task.later, task.rules.times):
        return []
    blocks = blocks_that_count(storage, slice_.log_files, task.rules.times)
    if not blocks:
        return []
    log = fold_slice_log(storage, slice_, task.rules, task.rules.arrow.names, counts)
    header = {
        "instant": task.settings.instant,
        "schema": task.settings.avro_schema,
        "compacted_instants": tuple(dict.fromkeys(block.instant for _, block in blocks)),
    }
    identity = this_task()
    output = TaskOutput(task.settings, identity.number, identity.write_token)
    files = (*slice_.log_files, *task.later)
    version = max(file.version for file in files) + 1
    name = log_file_name(slice_.file_id, slice_.base_instant, version, log_token(output.write_token, task.settings.instant))
    path = join(slice_.partition_path, name) if slice_.partition_path else name
    size = 0
    with output.create(path, MarkerType.APPEND) as sink, convert_os_errors(path):
        for block in joined_blocks(log, task, header):
            sink.write(block)
            size += len(block)
    output.finish()
    stat = WriteStat(
        file_id=slice_.file_id,
        partition_path=slice_.partition_path,
        path=path,
        prev_commit=slice_.base_instant,
        num_writes=int((~log.empty).sum()),
        num_update_writes=int((~log.empty).sum()),
        num_deletes=int(log.empty.sum()),
        total_write_bytes=size,
        file_size_in_bytes=size,
        total_log_records=counts.scan.records,
        total_log_files_compacted=counts.scan.files,
        total_log_size_compacted=counts.scan.size_bytes,
        total_updated_records_compacted=len(log.keys),
        total_log_blocks=counts.scan.blocks,
        total_corrupt_log_block=counts.scan.corrupt_blocks,
        total_rollback_blocks=counts.scan.rollback_blocks,
        log=log_fields(
            version=version,
            base_file=slice_.base_file.name if slice_.base_file else "",
            log_files=[*(file.name for file in files), name],
        ),
    )
    return [stat]


def joined_blocks(log: FoldedLog, task: JoinTask, header: Mapping[str, Any]) -> Iterator[bytes]:
    """A folded log as blocks: rows, then deleted keys. In front those that were deleted before their row came.

    All go to one file, however large. A delete needs no ordering value here: what comes later replaces it, and what came before
    is in these blocks.
    """
    keys = pa.chunked_array([log.keys])
    if log.fresh is not None and log.fresh.any():
        yield _delete_block(keys, np.flatnonzero(log.fresh), task, header)
    names = task.rules.arrow.names
    is_parquet = task.block_format is BlockFormat.PARQUET
    make = partial(encode_parquet_block, codec=task.settings.codec) if is_parquet else encode_avro_block
    for numbers in _parts(log, np.flatnonzero(~log.empty), min(task.max_block_bytes, task.rules.memory_bytes // 4)):
        yield make(log.take(numbers).select(names), **header)
    if log.empty.any():
        yield _delete_block(keys, np.flatnonzero(log.empty), task, header)


def _delete_block(keys: pa.ChunkedArray, numbers: Positions, task: JoinTask, header: Mapping[str, Any]) -> bytes:
    partitions = pa.repeat(task.slice_.partition_path, len(numbers))
    return encode_delete_block(build_deletes(keys.take(pa.array(numbers)), partitions), **header)


def _parts(log: FoldedLog, numbers: Positions, most_bytes: int) -> Iterator[Positions]:
    """Rows in parts of about the size of a block, by what the first ones take."""
    if not len(numbers):
        return
    sample = numbers[:1000]
    per_row = max(1.0, log.take(sample).nbytes / len(sample))
    rows = max(1, int(most_bytes / per_row))
    for start in range(0, len(numbers), rows):
        yield numbers[start : start + rows]
