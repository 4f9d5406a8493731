"""`LOG_COMPACTION`: the table service that merges the log blocks of a file slice into one more log file.

    <t>.logcompaction.requested (the plan) → inflight → a log file for each slice → <t>.deltacommit

The new log file has the highest version of its slice. Its blocks name the instants of the blocks that they replace. Readers that
support log compaction read the new blocks instead of the replaced ones. Hudi by default reads both (unless
`hoodie.optimized.log.blocks.scan.enable` is set). The result is the same, provided that no other log file lies between the
replaced blocks and the new one. Therefore a slice that was changed since the plan was made is skipped, and plans are made, run
and published only while no write is under way (`runs_alone`).
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock import options as o
from penstock.filegroup.log.scan import scan_log_files
from penstock.options.operation import Operation
from penstock.services.compaction.plan import plan_operation, slices_with_logs
from penstock.services.compaction.planned_slices import list_folders, named_slice, remaining_operations, unnamed_logs
from penstock.services.compaction.table_type import check_merge_on_read
from penstock.services.log_compaction.join_slice import JoinTask, join_slice
from penstock.services.planned import PlannedService, PlanRun
from penstock.table.damaged_logs import read_committed_times
from penstock.table.file_settings import log_block_format, merge_file_settings
from penstock.table.listing import list_groups, load_visibility
from penstock.table.pending import find_pending_groups, load_compaction_plan
from penstock.table.state import TableState
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from penstock.timeline.instant import Action, Instant
from penstock.workers.runner import Runner

#: The Java class that Hudi names in plans of log compactions.
_RUNNER = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"


class LogCompaction(PlannedService[CompactionPlan, JoinTask]):
    """The table service that merges the log blocks of file slices into new log files."""

    name = "join logs"
    title = "join logs of"
    failure_noun = "joining logs"
    noun = "log compaction"
    action = Action.LOG_COMPACTION
    operation = Operation.LOG_COMPACT
    stage = "join logs"
    doing = "joining the logs of"
    is_compaction = True
    runs_alone = True

    def follows_write(self, table: TableState) -> bool:
        """Whether log compaction runs after each write to the table.

        True if the table is merge-on-read, and its options ask for log compaction and allow table services.
        """
        return self.may_be_due(table) and table.options[o.TABLE_SERVICES_ENABLED]

    def may_be_due(self, table: TableState) -> bool:
        """Whether to call `run_due` outside a write: the table is merge-on-read, and its options ask for log compaction."""
        return table.is_merge_on_read and table.options[o.LOG_COMPACTION_INLINE]

    def check_table(self, table: TableState) -> None:
        """Raise Unsupported if the table is copy-on-write: it has no log files to compact."""
        check_merge_on_read(table)

    def is_due(self, table: TableState) -> bool:
        """Whether to call `make_plan`: always true. `make_plan` counts the log blocks and returns None if there are too few."""
        return True

    def make_plan(self, table: TableState) -> CompactionPlan | None:
        """Return a plan to merge the log blocks of the slices that have many of them; None if there is no such slice.

        The least number of blocks is `hoodie.log.compaction.blocks.threshold`.
        """
        busy = find_pending_groups(table).keys()
        times = read_committed_times(table)
        operations = []
        for file_slice in slices_with_logs(list_groups(table), load_visibility(table), busy):
            blocks = scan_log_files(table.storage, file_slice.log_files, times).blocks
            if len(blocks) >= table.options[o.LOG_COMPACTION_BLOCKS]:
                operations.append(plan_operation(file_slice, table.options[o.MAX_FILE_SIZE]))
        if not operations:
            return None
        return CompactionPlan(tuple(operations), runner=_RUNNER, preserves_meta=True)

    def encode_plan(self, table: TableState, plan: CompactionPlan) -> bytes:
        """Return the content of the requested file that stores `plan`."""
        return write_compaction_plan(plan)

    def read_plan(self, table: TableState, instant: Instant) -> CompactionPlan | None:
        """Read the plan of a pending log compaction; return None if the plan was unscheduled after the timeline was loaded."""
        return load_compaction_plan(table, instant)

    def make_tasks(self, run: PlanRun[CompactionPlan]) -> Sequence[JoinTask]:
        """Return one task for each operation of the plan whose file group still exists.

        Raises:
            CorruptFile: a file that the plan names is missing.
        """
        table = run.table
        rules, settings = merge_file_settings(table, run.time, run.schema)
        folders = list_folders(table, run.plan)
        tasks = []
        for operation in remaining_operations(table, run.time, run.plan, folders):
            files = folders[operation.partition_path]
            file_slice = named_slice(table.base_path, operation, files.sizes)
            task = JoinTask(
                file_slice=file_slice,
                later_logs=unnamed_logs(file_slice, files),
                rules=rules,
                settings=settings,
                max_block_bytes=table.options[o.LOG_BLOCK_MAX_SIZE],
                block_format=log_block_format(table.options),
            )
            tasks.append(task)
        return tasks

    def count_new_files(self, plan: CompactionPlan) -> int:
        """Return the number of operations of the plan: each writes at most one log file."""
        return len(plan.operations)

    def run_kernels(self, run: PlanRun[CompactionPlan], tasks: Sequence[JoinTask], runner: Runner) -> list[WriteStat]:
        """Write a new log file for each task, unless its slice changed since the plan was made; return the write stats."""
        return runner.collect(join_slice, tasks, WriteStat)


LOG_COMPACTION = LogCompaction()
