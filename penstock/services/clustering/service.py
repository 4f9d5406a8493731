"""`CLUSTERING`: the table service that rewrites the file groups of a plan to new file groups, which replace the old ones.

    <t>.replacecommit.requested (the plan) → inflight → base files, markers first → <t>.replacecommit

Concurrent writes to other file groups are allowed. From the moment a plan is stored, a write to one of its file groups is
refused. If the options of the write allow it, the write goes ahead and invalidates the plan: the run of the plan then raises
WriteConflict, because its new files would not contain the rows of that write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock import options as o
from penstock.errors import Unsupported
from penstock.index import make_index
from penstock.index.consistent_hashing import Ring, save_changed_rings
from penstock.index.index import WrittenFiles
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.services.clustering.after_write import clusters_after_write
from penstock.services.clustering.bucket_check import check_no_buckets
from penstock.services.clustering.plan import make_plan
from penstock.services.clustering.planned_slices import check_untouched
from penstock.services.clustering.resize_buckets import ResizeTask, is_resize, resize
from penstock.services.clustering.rewrite_group import RewriteTask, rewrite
from penstock.services.clustering.rewrite_large import LargeGroup, rewrite_large
from penstock.services.clustering.tasks import SINGLE_FILE, SORT_AND_SIZE, ClusteringTask, make_tasks
from penstock.services.clustering.triggers import asks_for_clustering, is_due
from penstock.services.planned import PlannedService, PlanRun, describe_runs, run_pending, schedule, schedule_and_run
from penstock.services.stored_plans import pending_instants
from penstock.table.pending import list_clustering_plans, load_clustering_plan
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.clustering_plan import ClusteringPlan, write_clustering_plan
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import Action, Instant
from penstock.workers.runner import Runner


class Clustering(PlannedService[ClusteringPlan, ClusteringTask]):
    """The table service that rewrites the rows of small file groups into larger, sorted file groups."""

    name = "cluster"
    title = "cluster"
    failure_noun = "the clustering after it"
    noun = "clustering"
    action = Action.REPLACE_COMMIT
    operation = Operation.CLUSTER
    stage = "cluster"
    doing = "clustering"

    def follows_write(self, table: TableState) -> bool:
        """Whether to run or plan a clustering after each write.

        True if `hoodie.clustering.inline` or `hoodie.clustering.schedule.inline` is true, and table services are enabled.
        """
        return clusters_after_write(table)

    def may_be_due(self, table: TableState) -> bool:
        """Whether to call `run_due` outside a write: the options turn inline or async clustering on, or a plan may be pending."""
        # A pending replace commit may also be a write. Only its file would tell, and this method must not read files.
        return asks_for_clustering(table.options) or bool(pending_instants(table, self.action))

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Run pending plans; then, if the options turn clustering on and a plan is due, make a plan and run it.

        Return a text for a report with the number of plans that were run; None if no plan was run.
        """
        if asks_for_clustering(table.options):
            return describe_runs(schedule_and_run(spark, table, self, stages))
        return describe_runs(run_pending(spark, table, self, stages))

    def run_after_write(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Run pending plans; then, if another plan is due, make that plan and run it.

        If `hoodie.clustering.inline` is false, run nothing: only store a plan, if one is due and none is pending. Return what was
        done, in words; None if nothing was due.
        """
        if table.options[o.CLUSTERING_INLINE]:
            return describe_runs(schedule_and_run(spark, table, self, stages))
        if list_clustering_plans(reload_timeline(table)):
            return None
        return "1 plan scheduled" if schedule(table, self) else None

    def is_due(self, table: TableState) -> bool:
        """Whether there were enough commits since the last clustering to plan the next one.

        The number is `hoodie.clustering.inline.max.commits`, or with async clustering `hoodie.clustering.async.max.commits`. True
        if neither is turned on.
        """
        return is_due(table)

    def make_plan(self, table: TableState) -> ClusteringPlan | None:
        """Return a plan for the file groups that the plan strategy and partition filter choose; None if they choose none."""
        plan = make_plan(table)
        return plan if plan.groups else None

    def encode_plan(self, table: TableState, plan: ClusteringPlan) -> bytes:
        """Return the content of the requested file that stores `plan`."""
        return write_clustering_plan(plan, table.base_path)

    def list_pending(self, table: TableState) -> list[Instant]:
        """Return the instants of pending clusterings, oldest first. Pending replace commits of writes are left out."""
        return [instant for instant, _ in list_clustering_plans(table)]

    def read_plan(self, table: TableState, instant: Instant) -> ClusteringPlan | None:
        """Read the plan of a pending clustering; return None if the plan was removed after the timeline was loaded."""
        return load_clustering_plan(table, instant)

    def check_plan(self, table: TableState, time: str, plan: ClusteringPlan) -> None:
        """Raise Unsupported if the plan names an execution strategy that Penstock does not know, or the table has buckets.

        A plan that splits and joins buckets of consistent hashing always passes.
        """
        if is_resize(plan):
            return
        if plan.runner and not plan.runner.endswith((SORT_AND_SIZE, SINGLE_FILE)):
            # Another execution strategy may form file groups differently, and the process that made the plan may rely on that.
            raise Unsupported(
                f"clustering {time} of {table.base_path} is to be run by {plan.runner}, which Penstock does not know; run it "
                f"with Hudi, or give it up with unschedule_clustering({time!r})"
            )
        check_no_buckets(table, (each.file_id for each in plan.slices))

    def make_tasks(self, run: PlanRun[ClusteringPlan]) -> Sequence[ClusteringTask]:
        """Return the tasks that run the plan: `RewriteTask`, `LargeGroup` or `ResizeTask`.

        Raises:
            CorruptFile: a file that the plan names is missing.
            SchemaError: rows cannot be sorted by the columns that the plan names.
            WriteConflict: a write has changed a file group of the plan since the plan was made.
        """
        return make_tasks(run)

    def count_new_files(self, plan: ClusteringPlan) -> int:
        """Return how many file groups the plan is expected to write."""
        return sum(group.outputs for group in plan.groups)

    def run_kernels(self, run: PlanRun[ClusteringPlan], tasks: Sequence[ClusteringTask], runner: Runner) -> list[WriteStat]:
        """Rewrite all groups of the plan; return the write stats of the new files.

        Small groups are rewritten concurrently, one task each; then large groups, one after the other; then resized buckets. The
        new hash rings of resized buckets are stored at the end.
        """
        rewrite_tasks = [task for task in tasks if isinstance(task, RewriteTask)]
        stats = runner.collect(rewrite, rewrite_tasks, WriteStat)
        for task in tasks:
            if isinstance(task, LargeGroup):
                stats += rewrite_large(task, runner)
        resize_tasks = [task for task in tasks if isinstance(task, ResizeTask)]
        stats += runner.collect(resize, resize_tasks, WriteStat)
        # Stored before the commit, under its instant: readers use these rings from the moment the commit completes.
        save_changed_rings(run.table, run.time, _changed_rings(resize_tasks))
        return stats

    def before_commit(self, run: PlanRun[ClusteringPlan], stats: Sequence[WriteStat], runner: Runner) -> None:
        """Call the index with the new files before the commit is published (`Index.before_publish`).

        An index with an entry store (HBASE) puts entries for the moved rows.
        """
        make_index(run.table.options).before_publish(_written_files(run, stats, runner))

    def check_conflicts(self, run: PlanRun[ClusteringPlan]) -> None:
        """Raise WriteConflict if a write has changed a file group of the plan since the run began."""
        check_untouched(run.table, run.time, run.plan)

    def after_commit(self, run: PlanRun[ClusteringPlan], stats: Sequence[WriteStat], runner: Runner) -> None:
        """Call the index with the new files after the commit was published (`Index.after_publish`).

        The in-memory index records the file groups of the new files.
        """
        make_index(run.table.options).after_publish(_written_files(run, stats, runner))

    def replaced_groups(self, plan: ClusteringPlan) -> Mapping[str, tuple[str, ...]]:
        """Return the file groups that the plan rewrites, which the commit replaces: file ids by partition path."""
        replaced: dict[str, tuple[str, ...]] = {}
        for each in plan.slices:
            replaced[each.partition_path] = (*replaced.get(each.partition_path, ()), each.file_id)
        return replaced


def _written_files(run: PlanRun[ClusteringPlan], stats: Sequence[WriteStat], runner: Runner) -> WrittenFiles:
    """Return the description of the new files for the calls of the index in `before_commit` and `after_commit`."""
    tasks_at_once = max(1, len(stats))
    return WrittenFiles(run.table, run.time, stats, runner, tasks_at_once, is_clustering=True)


def _changed_rings(tasks: Sequence[ResizeTask]) -> dict[str, Ring]:
    """Return the new hash rings of the partitions whose buckets are resized, by partition path."""
    rings: dict[str, Ring] = {}
    for task in tasks:
        rings.update(task.rings.stored)
    return rings


CLUSTERING = Clustering()
