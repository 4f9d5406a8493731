"""`COMPACTION`: each file slice of a plan becomes a base file at the plan's instant.

    <t>.compaction.requested (the plan) → inflight → base files, markers first → <t>.commit

Every operation of the plan is a task. Writers may run at the same time: while the plan is pending they append to log files whose
base instant is the plan's, and these belong to the slice that the new base file begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.catalog.pending import list_compaction_plans, load_compaction_plan
from penstock.commit.file_settings import merge_file_settings
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.services.compaction.compact_slice import CompactTask, compact_slice
from penstock.services.compaction.plan import make_plan
from penstock.services.compaction.planned_slices import list_folders, remaining_operations, whole_slice
from penstock.services.compaction.triggers import is_due
from penstock.services.compaction.unschedule import check_merge_on_read, finish_unscheduling
from penstock.services.plan_metrics import LOG_BYTES
from penstock.services.planned import PlannedService, PlanRun, schedule
from penstock.spread.runner import Runner
from penstock.table import TableState, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from penstock.timeline.instant import Action, Instant, format_time


class Compaction(PlannedService[CompactionPlan, CompactTask]):
    """Log files become base files."""

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
        """Whether the table may have log files and its options allow table services."""
        return table.is_merge_on_read and table.options[o.TABLE_SERVICES_ENABLED]

    def may_be_due(self, table: TableState) -> bool:
        """Whether the table may have log files."""
        return table.is_merge_on_read

    def run_after_write(self, spark: Any, table: TableState, stages: Stages) -> None:
        """Run pending plans and one that is due; or only plan it, for another process to run."""
        if compacts_inline(table.options):
            self.run_due(spark, table, stages)
        elif table.options[o.COMPACT_SCHEDULE_INLINE] and not list_compaction_plans(reload_timeline(table)):
            schedule(table, self)

    def check_table(self, table: TableState) -> None:
        """Raise Unsupported for a copy-on-write table."""
        check_merge_on_read(table)

    def refresh(self, table: TableState) -> TableState:
        """Return the table with the timeline of this moment, after finishing interrupted unscheduling."""
        return finish_unscheduling(reload_timeline(table))

    def is_due(self, table: TableState) -> bool:
        """Whether the trigger of the options asks for a compaction."""
        now = clock.utc_now() if table.config.timeline_utc else clock.local_now()
        return is_due(table.timeline, table.options, format_time(now))

    def make_plan(self, table: TableState) -> CompactionPlan | None:
        """Plan the file slices that the strategy of the options chooses."""
        plan = make_plan(table)
        return plan if plan.operations else None

    def encode_plan(self, table: TableState, plan: CompactionPlan) -> bytes:
        """Return the content of the plan's requested file."""
        return write_compaction_plan(plan)

    def read_plan(self, table: TableState, instant: Instant) -> CompactionPlan | None:
        """Read the plan of a pending compaction."""
        return load_compaction_plan(table, instant)

    def make_tasks(self, run: PlanRun[CompactionPlan]) -> Sequence[CompactTask]:
        """Return a task for each operation of the plan, the most bytes first. Raises CorruptFile if a file is missing."""
        rules, settings = merge_file_settings(run.table, run.time, run.schema)
        folders = list_folders(run.table, run.plan)
        tasks = []
        for operation in remaining_operations(run.table, run.time, run.plan, folders):
            file_slice = whole_slice(run.table.base_path, operation, folders[operation.partition_path])
            log_bytes = int(operation.metrics.get(LOG_BYTES, 0))
            tasks.append(CompactTask(file_slice, rules, settings, log_bytes))
        return sorted(tasks, key=lambda task: task.file_slice.size_bytes, reverse=True)

    def count_new_files(self, plan: CompactionPlan) -> int:
        """Return how many file groups the plan names: each gets one base file."""
        return len(plan.operations)

    def run_kernels(self, run: PlanRun[CompactionPlan], tasks: Sequence[CompactTask], runner: Runner) -> list[WriteStat]:
        """Write a base file for each task."""
        return runner.collect(compact_slice, tasks, WriteStat)

    def extra_metadata(self, plan: CompactionPlan) -> Mapping[str, str]:
        """Return the extra metadata of the plan."""
        return plan.extra


def compacts_inline(options: Options) -> bool:
    """Whether a write to a merge-on-read table compacts: by default it does, unless the options leave it to another process."""
    if options.is_set(o.COMPACT_INLINE):
        return options[o.COMPACT_INLINE]
    compacts_elsewhere = options.is_set(o.COMPACTION_ASYNC) and options[o.COMPACTION_ASYNC]
    return not compacts_elsewhere and not options[o.COMPACT_SCHEDULE_INLINE]


COMPACTION = Compaction()
