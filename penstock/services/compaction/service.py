"""`COMPACTION`: the table service that merges each file slice of a plan into a new base file at the plan's instant.

    <t>.compaction.requested (the plan) → inflight → markers and base files → <t>.commit

Every operation of the plan is one task. Concurrent writes are allowed: while the plan is pending, they write log files whose base
instant is the plan's. These log files belong to the slice of the new base file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.commit.modes import is_optimistic
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.services.compaction.compact_slice import CompactTask, compact_slice
from penstock.services.compaction.plan import make_plan
from penstock.services.compaction.planned_slices import check_slices, list_folders, remaining_operations, whole_slice
from penstock.services.compaction.table_type import check_merge_on_read
from penstock.services.compaction.triggers import is_due
from penstock.services.compaction.unschedule import finish_unscheduling
from penstock.services.plan_metrics import LOG_BYTES
from penstock.services.planned import PlannedService, PlanRun, schedule
from penstock.table.file_settings import merge_file_settings
from penstock.table.pending import list_compaction_plans, load_compaction_plan
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from penstock.timeline.instant import Action, Instant, format_time
from penstock.workers.runner import Runner


class Compaction(PlannedService[CompactionPlan, CompactTask]):
    """The table service that merges log files into base files."""

    name = "compact"
    title = "compact"
    failure_noun = "the compaction after it"
    noun = "compaction"
    action = Action.COMPACTION
    operation = Operation.COMPACT
    stage = "compact"
    doing = "compacting"
    is_compaction = True

    def follows_write(self, table: TableState) -> bool:
        """Whether to call `run_after_write` after each write: the table is merge-on-read and its options allow table services.

        `run_after_write` then decides whether to run or schedule a compaction.
        """
        return table.is_merge_on_read and table.options[o.TABLE_SERVICES_ENABLED]

    def may_be_due(self, table: TableState) -> bool:
        """Whether to call `run_due` outside a write: the table is merge-on-read."""
        return table.is_merge_on_read

    def run_after_write(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Run pending plans; then, if another plan is due, make that plan and run it.

        If the options do not turn inline compaction on, run nothing. With `hoodie.compact.schedule.inline=true` then only store a
        plan, if one is due and none is pending. Return what was done, in words; None if nothing was done.
        """
        if compacts_inline(table.options):
            return self.run_due(spark, table, stages)
        if not table.options[o.COMPACT_SCHEDULE_INLINE] or list_compaction_plans(reload_timeline(table)):
            return None
        return "1 plan scheduled" if schedule(table, self) else None

    def check_table(self, table: TableState) -> None:
        """Raise Unsupported if the table is copy-on-write: it has no log files to compact."""
        check_merge_on_read(table)

    def refresh(self, table: TableState) -> TableState:
        """Finish unscheduling that was interrupted, and read the timeline again.

        Return a copy of the table with the new timeline.
        """
        return finish_unscheduling(reload_timeline(table))

    def is_due(self, table: TableState) -> bool:
        """Whether a compaction is due, by the trigger that `hoodie.compact.inline.trigger.strategy` names."""
        now = clock.utc_now() if table.config.timeline_utc else clock.local_now()
        return is_due(table.timeline, table.options, format_time(now))

    def make_plan(self, table: TableState) -> CompactionPlan | None:
        """Return a plan for the file slices that the compaction strategy in the options chooses; None if it chooses none."""
        plan = make_plan(table)
        return plan if plan.operations else None

    def encode_plan(self, table: TableState, plan: CompactionPlan) -> bytes:
        """Return the content of the requested file that stores `plan`."""
        return write_compaction_plan(plan)

    def read_plan(self, table: TableState, instant: Instant) -> CompactionPlan | None:
        """Read the plan of a pending compaction; return None if the plan was unscheduled after the timeline was loaded."""
        return load_compaction_plan(table, instant)

    def make_tasks(self, run: PlanRun[CompactionPlan]) -> Sequence[CompactTask]:
        """Return one task for each operation of the plan whose file group still exists.

        The task of the largest slice comes first.

        Raises:
            CorruptFile: a file that the plan names is missing.
        """
        folders = list_folders(run.table, run.plan)
        operations = remaining_operations(run.table, run.time, run.plan, folders)
        rules, settings = merge_file_settings(run.table, run.time, run.schema)
        tasks = []
        for operation in operations:
            file_slice = whole_slice(run.table.base_path, operation, folders[operation.partition_path])
            log_bytes = int(operation.metrics.get(LOG_BYTES, 0))
            tasks.append(CompactTask(file_slice, rules, settings, log_bytes))
        return sorted(tasks, key=lambda task: task.file_slice.size_bytes, reverse=True)

    def count_new_files(self, plan: CompactionPlan) -> int:
        """Return the number of operations of the plan: each writes one base file."""
        return len(plan.operations)

    def run_kernels(self, run: PlanRun[CompactionPlan], tasks: Sequence[CompactTask], runner: Runner) -> list[WriteStat]:
        """Compact the slice of each task to a new base file; return the write stats of the new files."""
        return runner.collect(compact_slice, tasks, WriteStat)

    def check_conflicts(self, run: PlanRun[CompactionPlan]) -> None:
        """Raise WriteConflict if a write that did not find the plan has changed a file group of the plan since the run began."""
        if is_optimistic(run.table):
            check_slices(run.table, run.time, run.plan)

    def extra_metadata(self, plan: CompactionPlan) -> Mapping[str, str]:
        """Return the plan's extra metadata, which the commit gets too."""
        return plan.extra


def compacts_inline(options: Options) -> bool:
    """Whether a write to a merge-on-read table also compacts: the value of `hoodie.compact.inline` if that is set.

    If it is not set: true, unless another process compacts: then the options turn on async compaction or inline scheduling.
    """
    if options.is_set(o.COMPACT_INLINE):
        return options[o.COMPACT_INLINE]
    compacts_elsewhere = options.is_set(o.COMPACTION_ASYNC) and options[o.COMPACTION_ASYNC]
    return not compacts_elsewhere and not options[o.COMPACT_SCHEDULE_INLINE]


COMPACTION = Compaction()
