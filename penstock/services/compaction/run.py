"""Running a compaction: each file slice of the plan becomes a base file at the plan's instant.

    <t>.compaction.requested (the plan) → inflight → base files, markers first → <t>.commit

Every operation is a task. Rows keep their commit time and sequence number. What a run that died has left is rolled back
first; the plan stays whatever happens, and is run again. Writers may be at work meanwhile: what they append belongs to the
slice that the new base file begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock import clock
from penstock import options as o
from penstock.catalog.merge_rules import build_merge_rules, event_time_column
from penstock.catalog.pending import plan_of
from penstock.commit.change import Change
from penstock.commit.file_settings import base_file_settings
from penstock.commit.heartbeat import Heartbeat, is_alive, is_lazy
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import CorruptFile, WriteConflict
from penstock.filegroup.base_read import open_base_file
from penstock.filegroup.base_write import BaseFileWriter
from penstock.filegroup.markers import MarkerType, read_markers, work_folder
from penstock.filegroup.meta_columns import body_schema
from penstock.filegroup.model import FileSlice
from penstock.filegroup.slice_rows import MergeCounts, MergeRules, read_merged_rows
from penstock.filegroup.task_output import FileSettings, TaskOutput
from penstock.formats.avro.container import read_container
from penstock.formats.cast import fit_to_schema
from penstock.options.operation import Operation
from penstock.progress import Stages, TaskProgress
from penstock.schema import META_COLUMNS, avro_text, with_storage_types
from penstock.services.compaction.schedule import check_type, finish_unscheduling, pending_at, schedule
from penstock.services.compaction.slices import list_folders, still_there, whole_slice
from penstock.services.compaction.strategies import LOG_BYTES
from penstock.services.planned import writes_before
from penstock.services.rollback.run import roll_back, run_rollback
from penstock.spread.driver import fits_on_driver
from penstock.spread.run import this_task
from penstock.spread.runner import Runner
from penstock.storage import join
from penstock.table import TableState, reload_timeline, table_schema
from penstock.timeline.commit_file import CommitMetadata, WriteStat
from penstock.timeline.compaction_plan import CompactionPlan
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Compacted:
    """A compaction that is part of the table."""

    instant: str
    metadata: CommitMetadata


@dataclass(frozen=True)
class CompactTask:
    """One file slice that becomes a base file."""

    slice_: FileSlice
    rules: MergeRules
    settings: FileSettings
    log_bytes: int


def compact(spark: SparkSession, table: TableState, stages: Stages, *, due: bool = False) -> list[Compacted]:
    """Run all plans that wait, then plan and run what else there is to compact.

    Args:
        due: whether a new plan is made whatever the trigger of the options says. Otherwise this may be the end of a write, and
            plans that another process is running are left to it.
    """
    check_type(table)
    waiting = [i.time for i in waiting_plans(table) if due or not runs_elsewhere(table, i)]
    done = [run_plan(spark, table, time, stages) for time in waiting]
    instant = schedule(table, due=due)
    return done + ([run_plan(spark, table, instant.time, stages)] if instant else [])


def waiting_plans(table: TableState) -> list[Instant]:
    """Compactions that wait to be run, or whose run died, oldest first."""
    table = finish_unscheduling(reload_timeline(table))
    return [i for i in table.timeline.of(Action.COMPACTION) if not i.is_completed]


def run_plan(spark: SparkSession, table: TableState, time: str, stages: Stages) -> Compacted:
    """Run one plan to its end.

    Raises:
        OptionError: there is no such plan.
        CorruptFile: a file that the plan names is missing or damaged.
        WriteConflict: another process runs it, or a write that began before the plan is not finished.
    """
    check_type(table)
    table = turn_off_metadata_table(reload_timeline(table))
    instant = pending_at(table, time)
    if earlier := writes_before(table, time):
        raise WriteConflict(
            f"write {earlier[0].file_name} of {table.base_path} began before compaction {time} was planned and is not finished; "
            "run the compaction when it is"
        )
    plan = plan_of(table, instant)
    if plan is None:
        raise WriteConflict(f"compaction {time} of {table.base_path} was unscheduled just now")
    table = start_over(table, instant)
    with running(table, instant.at(State.REQUESTED)) as change:
        return _run(spark, table, change, plan, stages)


def _run(spark: SparkSession, table: TableState, change: Change, plan: CompactionPlan, stages: Stages) -> Compacted:
    schema = schema_of(table)
    tasks = make_tasks(table, change.time, plan, schema)
    begun = TaskProgress(len(tasks), lambda: len(read_markers(table.storage, table.base_path, change.time)))
    with stages.run("compact", f"compacting {len(tasks)} file groups", begun) as notes:
        runner = Runner(spark, on_driver=is_small(table, [task.slice_ for task in tasks]))
        stats = runner.collect(compact_slice, tasks, WriteStat)
        notes.rows, notes.size_bytes = sum(s.num_writes for s in stats), sum(s.total_write_bytes for s in stats)
    extra = {**plan.extra, "penstock.stages": stages.to_text()}
    commit = change.complete(stats, operation=Operation.COMPACT, schema=schema, extra=extra, compacted=True, spark=spark)
    return Compacted(change.time, commit.metadata)


def schema_of(table: TableState) -> str:
    """The table's Avro schema. Raises CorruptFile."""
    schema = table_schema(table)
    if schema is None:
        raise CorruptFile(f"no commit of {table.base_path} tells the table's schema, so its log files cannot be read")
    return schema


def is_small(table: TableState, slices: Sequence[FileSlice]) -> bool:
    """Whether starting Spark tasks would cost more than the work itself."""
    return fits_on_driver(table.options, size_bytes=sum(one.size_bytes for one in slices))


@contextmanager
def running(table: TableState, instant: Instant) -> Iterator[Change]:
    """The run of a plan. An error takes back what it did, but not the plan; a crash leaves that to the next run."""
    heartbeat = Heartbeat(table)
    heartbeat.announce(instant.time)
    run_file = join(work_folder(table.base_path, instant.time), f"run-{clock.new_uuid()}")
    change = Change(table, instant, heartbeat, run_file=run_file)
    change.start()  # fails if somebody else has begun, whose run this is then
    with change.at_work():
        yield change


def start_over(table: TableState, instant: Instant) -> TableState:
    """Roll back what an earlier run of the plan left, if there was one; gives the table as it is then."""
    for rollback in table.timeline.of(Action.ROLLBACK):
        if not rollback.is_completed and (plan := _rollback_of(table, rollback, instant)) is not None:
            run_rollback(table, rollback, plan, keeps_plan=True)
    table = reload_timeline(table)
    now = pending_at(table, instant.time, instant.action)
    if now.state is State.REQUESTED:
        return table
    if runs_elsewhere(table, now):
        raise WriteConflict(f"{instant.action.value} {instant.time} of {table.base_path} is being run by another process")
    roll_back(table, now, keeps_plan=True)
    return reload_timeline(table)


def runs_elsewhere(table: TableState, instant: Instant) -> bool:
    """Whether another process is at a plan; nobody knows under EAGER, where there is one writer, and it is not at it."""
    return instant.state is not State.REQUESTED and is_lazy(table) and is_alive(table, instant.time)


def _rollback_of(table: TableState, rollback: Instant, instant: Instant) -> Mapping[str, Any] | None:
    """The plan of a rollback that died, if it undoes the run of a plan."""
    try:
        plan = read_container(table.storage.read(instant_path(table.base_path, rollback.at(State.REQUESTED))))
    except (FileNotFoundError, CorruptFile):
        return None  # the next write removes it, or says what is wrong with it
    target = plan.get("instantToRollback") or {}
    return plan if (target.get("commitTime"), target.get("action")) == (instant.time, instant.action.value) else None


# Tasks


def make_tasks(table: TableState, time: str, plan: CompactionPlan, schema: str) -> list[CompactTask]:
    """The plan's operations as tasks, the most work first. Raises CorruptFile if a file is missing."""
    rules, settings = rules_and_settings(table, time, schema)
    folders = list_folders(table, plan)
    tasks = [
        CompactTask(
            slice_=whole_slice(table.base_path, operation, folders[operation.partition_path]),
            rules=rules,
            settings=settings,
            log_bytes=int(operation.metrics.get(LOG_BYTES, 0)),
        )
        for operation in still_there(table, time, plan, folders)
    ]
    return sorted(tasks, key=lambda task: task.slice_.size_bytes, reverse=True)


def rules_and_settings(table: TableState, time: str, schema: str) -> tuple[MergeRules, FileSettings]:
    """How slices are merged, and how files are written at an instant."""
    rules = build_merge_rules(table, schema, memory_bytes=table.options[o.COMPACTION_MAX_BYTES])
    stored = with_storage_types(pa.schema([f for f in rules.arrow if f.name not in META_COLUMNS]))
    settings = base_file_settings(table, time, stored, schema)
    return rules, replace(settings, avro_schema=avro_text(rules.schema), event_time=event_time_column(table))


def compact_slice(task: CompactTask) -> list[WriteStat]:
    """Write the base file that a slice becomes; gives its write stat.

    A log of which nothing counts becomes a file without rows: the next plan then finds nothing to do, and log files that came
    since have their base file.
    """
    began, slice_, counts = clock.monotonic_s(), task.slice_, MergeCounts(event_time=task.settings.event_time)
    body = body_schema(task.settings.schema)
    parts = read_merged_rows(task.settings.storage, slice_, task.rules, body.names, counts)
    first = next(parts, None)
    identity = this_task()
    output = TaskOutput(task.settings, identity.number, identity.write_token)
    writer = _writer(output, slice_)
    for rows in chain([first] if first is not None else [], parts):
        writer.keep(fit_to_schema(rows, body), new=counts.inserts > 0)  # rows that only the log has come last
        del rows
        if writer.waiting_bytes > task.rules.memory_bytes // 2:
            writer.flush()
    stat = writer.stat(
        writer.close(),
        prev_commit=slice_.base_instant if slice_.base_file else "null",
        num_update_writes=counts.updates,
        num_deletes=counts.deletes,
        num_inserts=counts.inserts,
        total_log_records=counts.scan.records,
        total_log_files_compacted=counts.scan.files,
        total_log_size_compacted=task.log_bytes,
        total_updated_records_compacted=counts.keys,
        total_log_blocks=counts.scan.blocks,
        total_corrupt_log_block=counts.scan.corrupt_blocks,
        total_rollback_blocks=counts.scan.rollback_blocks,
    )
    output.finish()
    took = {"totalScanTime": 0, "totalUpsertTime": int((clock.monotonic_s() - began) * 1000), "totalCreateTime": 0}
    times = counts.times
    return [replace(stat, runtime_stats=took, min_event_time=times.least_ms, max_event_time=times.greatest_ms)]


def _writer(output: TaskOutput, slice_: FileSlice) -> BaseFileWriter:
    """The new base file; where there is an old one, its key filter is gone on with."""
    if slice_.base_file is None:
        return BaseFileWriter(output, slice_.partition_path, slice_.file_id, MarkerType.CREATE)
    old = open_base_file(output.settings.storage, slice_.base_file.path)
    return BaseFileWriter(output, slice_.partition_path, slice_.file_id, MarkerType.MERGE, old=old)
