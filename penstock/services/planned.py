"""Table services that work by a plan: compaction, log compaction and clustering.

    schedule   write <t>.<action>.requested, which holds the plan: which files to rewrite
    run        write <t>.<action>.inflight → write markers and new files → write the completed file, for example <t>.commit
    resume     roll back the files that a crashed run left, then run the plan again

A subclass of `PlannedService` decides when a plan is due, what the plan holds, which tasks the plan is divided into and which
function runs the tasks. This module does the rest, in the same way for all three services. A plan outlives a failed run: if the
run raised an error, the run deletes its own files; if the process crashed, the next run deletes them.

The methods of a service are called in this order:

    schedule   check_table → refresh → is_due → make_plan → encode_plan
    run        check_table → read_plan → check_plan → make_tasks → run_kernels → before_commit → check_conflicts → after_commit

`stored_plans.py` stores plans on the timeline and finds them there. It says which writes a plan has to wait for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from penstock.commit.begin import begin_run
from penstock.commit.change import STAGES
from penstock.commit.markers import read_markers
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.commit.modes import is_optimistic
from penstock.errors import CorruptFile, WriteConflict
from penstock.filegroup.model import FileSlice, GroupId
from penstock.hooks import PublishedCommit
from penstock.hooks.metrics import report_plan
from penstock.options.operation import Operation
from penstock.progress import Stages, TaskProgress, format_count
from penstock.services.preferred_writers import find_preferred_write, find_write_without_groups
from penstock.services.stored_plans import (
    find_pending,
    finish_withdrawal,
    pending_instants,
    runs_elsewhere,
    start_over,
    store_plan,
    waits_for_writes,
    warn_not_planned,
    writes_under_way,
)
from penstock.services.table_service import TableService
from penstock.table.damaged_logs import warn_of_skipped_blocks
from penstock.table.state import TableState, read_table_schema, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import Action, Instant, State
from penstock.workers.driver_limit import fits_on_driver
from penstock.workers.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many times to make a plan, if each time a concurrent write invalidates the plan.
_ATTEMPTS = 3


class PlannedTask(Protocol):
    """A task description: the work of one task of a plan. Pickled to a worker."""

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        """The file slices that the task reads."""


PlanT = TypeVar("PlanT")
TaskT = TypeVar("TaskT", bound=PlannedTask)


@dataclass(frozen=True)
class PlanRun(Generic[PlanT]):
    """The values that all steps of one run of a plan share: the table, the plan and its instant time. Not sent to workers."""

    #: The Spark session; None if everything runs on the driver.
    spark: Any
    #: The table, with its timeline loaded after leftovers of an earlier run were rolled back.
    table: TableState
    #: The requested instant of the plan.
    instant: Instant
    plan: PlanT
    #: The table's Avro schema.
    schema: str

    @property
    def time(self) -> str:
        """The instant time of the plan. New files carry it in their names, and the commit completes under it."""
        return self.instant.time


class PlannedService(TableService, Generic[PlanT, TaskT]):
    """A table service that stores a plan on the timeline. The plan is run at once or later, in this process or in another one.

    Subclasses are compaction, log compaction and clustering.
    """

    #: What a plan is called in messages, for example "compaction".
    noun: ClassVar[str]
    #: Action of the plan's instant.
    action: ClassVar[Action]
    #: Operation in the commit metadata.
    operation: ClassVar[Operation]
    #: Name of the stage under which the run's duration is stored in the commit; and the words of its progress line before the
    #: number of file groups.
    stage: ClassVar[str]
    doing: ClassVar[str]
    #: Value of `compacted` in the commit metadata, by which Hudi marks compactions.
    is_compaction: ClassVar[bool] = False
    #: Whether plans are made, run and published only while no write is under way. Other services may run next to writers.
    runs_alone: ClassVar[bool] = False

    uses_spark: ClassVar[bool] = True
    raises_after_write: ClassVar[bool] = True

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Run pending plans; then, if another plan is due, make that plan and run it.

        Return a text for a report with the number of plans that were run; None if no plan was run.
        """
        return describe_runs(schedule_and_run(spark, table, self, stages))

    # Scheduling

    def check_table(self, table: TableState) -> None:
        """Raise Unsupported if the service does not work on this table. The default accepts every table."""

    def refresh(self, table: TableState) -> TableState:
        """Return a copy of the table with its timeline read from storage again.

        Called before plans are made, and before pending plans are listed.
        """
        return reload_timeline(table)

    @abstractmethod
    def is_due(self, table: TableState) -> bool:
        """Whether a new plan is due, by the options and the timeline of the table."""

    @abstractmethod
    def make_plan(self, table: TableState) -> PlanT | None:
        """Return a new plan without storing it; None if there is nothing to do."""

    @abstractmethod
    def encode_plan(self, table: TableState, plan: PlanT) -> bytes:
        """Return the content of the requested file that stores `plan`."""

    # Pending plans

    def list_pending(self, table: TableState) -> list[Instant]:
        """Return the instants of this service's pending plans, oldest first."""
        return pending_instants(table, self.action)

    @abstractmethod
    def read_plan(self, table: TableState, instant: Instant) -> PlanT | None:
        """Read the plan of a pending instant; return None if the plan was removed from storage after the timeline was loaded."""

    # Running

    def check_plan(self, table: TableState, time: str, plan: PlanT) -> None:
        """Raise Unsupported if this service cannot run a plan, for example because the plan names an unknown strategy.

        The default accepts every plan.

        Args:
            time: the instant time of the plan.
        """

    @abstractmethod
    def make_tasks(self, run: PlanRun[PlanT]) -> Sequence[TaskT]:
        """Return the tasks into which the plan is divided. Writes nothing.

        Called before the inflight file is written, so after an error there is nothing to roll back.
        """

    @abstractmethod
    def count_new_files(self, plan: PlanT) -> int:
        """Return how many files the plan is expected to write, for the progress display."""

    @abstractmethod
    def run_kernels(self, run: PlanRun[PlanT], tasks: Sequence[TaskT], runner: Runner) -> list[WriteStat]:
        """Run all tasks with `runner`; return the write stats of all new files."""

    def before_commit(self, run: PlanRun[PlanT], stats: Sequence[WriteStat], runner: Runner) -> None:
        """Do further work before the commit of the new files is published, for example update the index.

        The default does nothing. An error makes the run fail; the new files are then deleted.

        Args:
            stats: the write stats of the new files.
        """

    def check_conflicts(self, run: PlanRun[PlanT]) -> None:
        """Raise WriteConflict if a concurrent write conflicts with the run. Called right before the commit is published.

        The default does nothing.
        """

    def after_commit(self, run: PlanRun[PlanT], stats: Sequence[WriteStat], runner: Runner) -> None:
        """Do further work after the commit of the new files was published. Must not raise an error. The default does nothing.

        Args:
            stats: the write stats of the new files.
        """

    def extra_metadata(self, plan: PlanT) -> Mapping[str, str]:
        """Return the extra metadata that the commit gets from the plan. The default returns an empty mapping."""
        return {}

    def replaced_groups(self, plan: PlanT) -> Mapping[str, tuple[str, ...]] | None:
        """Return the file ids that the commit replaces, by partition path; None if the commit is not a replace commit.

        The default returns None.
        """
        return None


# Schedule


def schedule(table: TableState, service: PlannedService[Any, Any], *, due: bool = False) -> Instant | None:
    """Make a plan and store it on the timeline, if a plan is due and there is anything to do.

    Args:
        due: True to make a plan even if `service.is_due` would return False.

    Returns:
        The plan's instant; None if no plan was stored. If writes are the reason, the user is warned. But there is no warning if
            the service runs only while no write is under way (`runs_alone`) and a write is pending.
    """
    service.check_table(table)
    for _ in range(_ATTEMPTS):
        table = service.refresh(table)
        if not due and not service.is_due(table):
            return None
        if _waits(table, service):
            return None
        plan = service.make_plan(table)
        if plan is None:
            return None
        instant = store_plan(table, service.action, service.encode_plan(table, plan))
        if instant is not None:
            report_plan(table, service.action)
            return instant
    warn_not_planned(table, service.noun, "other writes came between again and again")
    return None


def _waits(table: TableState, service: PlannedService[Any, Any]) -> bool:
    """Return whether a new plan has to wait because writes are under way, and warn if so.

    With a single writer, a plan waits while any write is under way. With several writers, a plan does not wait, with two
    exceptions. A service that runs only while no write is under way (`runs_alone`, as log compaction) waits, without a warning.
    If the options prefer writers to table services, a plan waits while it is not known which file groups a pending write changes.
    """
    unknown = find_write_without_groups(table)
    if unknown is not None:
        warn_not_planned(table, service.noun, f"write {unknown.file_name} goes first, and has not located its rows yet")
        return True
    if is_optimistic(table) and not service.runs_alone:
        return False  # a write that changes file groups of the new plan conflicts with it, and runs again
    if service.runs_alone:
        return bool(writes_under_way(table))  # no warning: concurrent writes are the normal reason to plan another time
    return waits_for_writes(table, service.noun)


# Run


def schedule_and_run(
    spark: SparkSession, table: TableState, service: PlannedService[Any, Any], stages: Stages, *, due: bool = False
) -> list[PublishedCommit]:
    """Run all pending plans of a service; then make a new plan, if one is due, and run it. Return the commits of all runs.

    Args:
        due: True to make a new plan even if `service.is_due` would return False, and to raise WriteConflict if another process is
            running a pending plan. If false, a plan that another process is running is skipped.
    """
    done = run_pending(spark, table, service, stages, every=due)
    instant = schedule(table, service, due=due)
    if instant is not None:
        published = run_plan(spark, table, instant.time, service, stages)
        if published is not None:
            done.append(published)
    return done


def run_pending(
    spark: SparkSession, table: TableState, service: PlannedService[Any, Any], stages: Stages, *, every: bool = False
) -> list[PublishedCommit]:
    """Run all pending plans of a service, oldest first, also plans whose earlier run crashed. Return the commits of the runs.

    Args:
        every: True to raise WriteConflict for a plan that another process is running. If false, skip that plan.
    """
    service.check_table(table)
    done = []
    for instant in service.list_pending(service.refresh(table)):
        if not every and runs_elsewhere(table, instant):
            continue
        published = run_plan(spark, table, instant.time, service, stages)
        if published is not None:
            done.append(published)
    return done


def run_plan(
    spark: SparkSession, table: TableState, time: str, service: PlannedService[Any, Any], stages: Stages
) -> PublishedCommit | None:
    """Run the pending plan with the instant time `time` and publish its commit.

    Returns:
        The commit; None if the plan stays pending because of a write under way. A service that runs only while no write is under
            way (`runs_alone`) yields to any write. If the options prefer writers (`preferred_writers.py`), the other services
            yield to a write that changes a file group of the plan.

    Raises:
        OptionError: the service has no pending plan at this instant time.
        CorruptFile: a file that the plan names is missing or damaged.
        Unsupported: the service cannot work on this table, or cannot run this plan.
        WriteConflict: another process is running the plan, the plan was unscheduled concurrently, a write that began before the
            plan is still under way, or a concurrent write has changed a file group of the plan.
    """
    run = _open_plan(spark, table, time, service)
    if run is None:
        return None
    tasks = service.make_tasks(run)
    runner = Runner(spark, on_driver=_is_small(run.table, tasks))
    with begin_run(run.table, run.instant) as change:
        _check_same_plan(run, service)
        stats = _run_tasks(run, tasks, runner, service, stages)
        service.before_commit(run, stats, runner)
        commit = change.prepare(
            stats,
            operation=service.operation,
            schema=run.schema,
            extra={**service.extra_metadata(run.plan), STAGES: stages.to_text()},
            replaced=service.replaced_groups(run.plan),
            compacted=service.is_compaction,
            spark=spark,
            stages=stages,
        )
        # Checked after `prepare`, because its hooks may take minutes and a write may begin while they run.
        if service.runs_alone and _is_written_to(run):
            change.abandon()
            stages.give_up("because another process writes; the plan stays")
            return None
        groups = {(each.partition_path, each.file_id) for each in _list_slices(tasks)}
        write = find_preferred_write(run.table, run.instant, groups)
        if write is not None:
            change.abandon()
            stages.give_up(f"because write {write.time} changes the same file groups and goes first; the plan stays")
            return None
        return change.publish(
            commit,
            spark=spark,
            stages=stages,
            published=partial(service.after_commit, run, stats, runner),
            check=lambda _: _check_run(run, service, groups),
        )


def _check_run(run: PlanRun[PlanT], service: PlannedService[PlanT, TaskT], groups: Set[GroupId]) -> None:
    """Raise WriteConflict if a run must not be published because of a concurrent write. Called right before it is published.

    This is so if the write conflicts with the run, or if the options prefer writers and the write changes a file group of the
    plan.

    Args:
        groups: the file groups of the plan.
    """
    service.check_conflicts(run)
    write = find_preferred_write(run.table, run.instant, groups)
    if write is not None:
        raise WriteConflict(
            f"{service.noun} {run.time} of {run.table.base_path} yields to write {write.time}, which changes the same file "
            "groups. The plan stays: run it again later",
            other_instant=write.time,
        )


def _open_plan(spark: SparkSession, table: TableState, time: str, service: PlannedService[PlanT, TaskT]) -> PlanRun[PlanT] | None:
    """Read a pending plan, check that it can run now, and roll back what a crashed run of the plan left.

    Return None if a write is under way and the service runs only while none is (`runs_alone`), or if the process that made the
    plan has begun to withdraw it.

    Args:
        time: the instant time of the plan.

    Raises:
        OptionError: the service has no pending plan at this instant time.
        CorruptFile: the plan is damaged.
        Unsupported: the service cannot work on this table, or cannot run this plan.
        WriteConflict: another process is running the plan, the plan was unscheduled concurrently, or a write that began before
            the plan is still under way.
    """
    service.check_table(table)
    table = turn_off_metadata_table(reload_timeline(table))
    instant = find_pending(table, service.list_pending(table), time, service.noun)
    plan = service.read_plan(table, instant)
    if plan is None:
        raise WriteConflict(f"{service.noun} {time} of {table.base_path} was unscheduled just now")
    service.check_plan(table, time, plan)
    if service.runs_alone:
        if writes_under_way(table):
            return None
    elif not is_optimistic(table):
        _check_earlier_writes(table, time, service.noun)
    table = start_over(table, instant)
    if not finish_withdrawal(table, instant.in_state(State.REQUESTED)):
        return None
    return PlanRun(spark, table, instant.in_state(State.REQUESTED), plan, _required_schema(table))


def _check_same_plan(run: PlanRun[PlanT], service: PlannedService[PlanT, TaskT]) -> None:
    """Raise WriteConflict if the plan was withdrawn, and perhaps another one stored at its instant, before the run began."""
    if service.read_plan(run.table, run.instant) != run.plan:
        raise WriteConflict(f"{service.noun} {run.time} of {run.table.base_path} was withdrawn just now")


def _run_tasks(
    run: PlanRun[PlanT], tasks: Sequence[TaskT], runner: Runner, service: PlannedService[PlanT, TaskT], stages: Stages
) -> list[WriteStat]:
    """Run the tasks of a plan under a progress line. Return the write stats of the new files."""
    slices = _list_slices(tasks)
    warn_of_skipped_blocks(run.table, slices)

    def count_begun() -> int:
        """Return how many files the tasks of this plan have begun to write: the number of markers on storage.

        The progress display calls it.
        """
        return len(read_markers(run.table.storage, run.table.base_path, run.time))

    progress = TaskProgress(service.count_new_files(run.plan), count_begun)
    with stages.run(service.stage, f"{service.doing} {format_count(len(slices), 'file group')}", progress) as notes:
        stats = service.run_kernels(run, tasks, runner)
        notes.rows = sum(stat.num_writes for stat in stats)
        notes.size_bytes = sum(stat.total_write_bytes for stat in stats)
    return stats


def _is_small(table: TableState, tasks: Sequence[PlannedTask]) -> bool:
    """Whether the slices of the tasks are so small that processing them on the driver is faster than starting Spark tasks."""
    size_bytes = sum(file_slice.size_bytes for file_slice in _list_slices(tasks))
    return fits_on_driver(table.options, size_bytes=size_bytes)


def _list_slices(tasks: Sequence[PlannedTask]) -> list[FileSlice]:
    """Return the file slices that the tasks read."""
    slices: list[FileSlice] = []
    for task in tasks:
        slices += task.slices
    return slices


def _required_schema(table: TableState) -> str:
    """Return the table's Avro schema as JSON. Raise CorruptFile if the table has no schema."""
    schema = read_table_schema(table)
    if schema is None:
        raise CorruptFile(f"no commit of {table.base_path} tells the table's schema, so its log files cannot be read")
    return schema


def _check_earlier_writes(table: TableState, time: str, noun: str) -> None:
    """Raise WriteConflict if a write that began before the plan at `time` is still under way.

    That write may add files which the plan does not name.

    Args:
        noun: the kind of plan, for the message, for example "compaction".
    """
    for instant in writes_under_way(table):
        if instant.time < time:
            raise WriteConflict(
                f"write {instant.file_name} of {table.base_path} began before {noun} {time} was planned and is not finished; "
                f"run the {noun} when it is"
            )


def _is_written_to(run: PlanRun[Any]) -> bool:
    """Whether a write is under way, or has completed since `run.table.timeline` was loaded. Reads the timeline again."""
    now = reload_timeline(run.table)
    known = run.table.timeline.completed_times | {run.time}
    return bool(writes_under_way(now)) or any(write.time not in known for write in now.timeline.writes)


def describe_runs(done: Sequence[PublishedCommit]) -> str | None:
    """Return a text for a report with the number of plans that were run, such as "2 plans run"; None if none was run.

    Args:
        done: the commits of the runs.
    """
    return f"{len(done):,} plans run" if done else None
