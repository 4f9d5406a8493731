"""Table services that work by a plan: compaction, log compaction and clustering.

    schedule   write <t>.<action>.requested, which holds the plan: which files to rewrite
    run        write <t>.<action>.inflight → write markers and new files → write the completed file, for example <t>.commit
    resume     roll back the files that a crashed run left, then run the plan again

A subclass of `PlannedService` decides when a plan is due, what the plan holds, which tasks the plan is divided into and which
function runs the tasks. This module does the rest, in the same way for all three services. A plan outlives a failed run: if the
run raised an error, the run deletes its own files; if the process crashed, the next run deletes them.

A plan names files that exist when it is made. A write that began earlier and is still under way may later add a file that the
plan does not name, so no plan is made while a write is under way. A write may also begin while the plan is being made. Therefore
the timeline is read again after the plan was stored, and the plan is deleted if a write had begun before its instant. Writers
rely on this: a write takes into account only the plans whose instant is earlier than its own.

With several writers (optimistic concurrency control) a plan is made while writes are pending, and stays. It leaves out the log
files of pending writes. A write conflicts with a plan of its file groups when it commits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from penstock.commit.change import begin_run
from penstock.commit.claims import delete_undone_mark, mark_undone, run_transaction
from penstock.commit.heartbeat import is_alive
from penstock.commit.markers import read_markers
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.commit.modes import is_optimistic
from penstock.commit.table_lock import locked
from penstock.errors import CorruptFile, OptionError, TableChanged, WriteConflict
from penstock.filegroup.model import FileSlice
from penstock.formats.avro.container import read_container
from penstock.hooks import PublishedCommit
from penstock.options.operation import Operation
from penstock.progress import Stages, TaskProgress, format_count
from penstock.services.rollback.run import roll_back, run_rollback
from penstock.services.table_service import TableService
from penstock.table.damaged_logs import warn_of_skipped_blocks
from penstock.table.pending import find_pending_clusterings
from penstock.table.state import TableState, read_table_schema, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import instant_path, load_timeline, request_instant
from penstock.timeline.timeline import Timeline
from penstock.user_warning import warn_user
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
    """A table service that stores a plan on the timeline. The plan is run at once or later, in this or another process.

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
        """Raise Unsupported if the service does not work on this table, for example a compaction of a copy-on-write table."""

    def refresh(self, table: TableState) -> TableState:
        """Return a copy of the table with its timeline read from storage again."""
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
        """Raise an error if this service cannot run the plan at the instant time `time`."""

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
        """Raise WriteConflict if a concurrent write forbids this commit. Called right before the commit is published.

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
        The plan's instant; None if no plan was stored. If concurrent writes are the reason, a warning says so, except for a
            service that runs only while no write is under way (`runs_alone`).
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
            return instant
    _warn_not_planned(table, service.noun, "other writes came between again and again")
    return None


def _waits(table: TableState, service: PlannedService[Any, Any]) -> bool:
    """Return whether a new plan has to wait because writes are under way, and warn if so.

    There is no warning for a service that runs only while no write is under way (`runs_alone`): for that service it is normal to
    wait.
    """
    if is_optimistic(table) and not service.runs_alone:
        return False  # a write that changes file groups of the new plan conflicts with it, and runs again
    if service.runs_alone:
        return bool(writes_under_way(table))  # no warning: concurrent writes are the normal reason to plan another time
    return waits_for_writes(table, service.noun)


def store_plan(table: TableState, action: Action, content: bytes) -> Instant | None:
    """Store a plan on the timeline and return its instant.

    If a write began or completed after `table.timeline` was loaded and before the plan's instant, delete the plan again and
    return None: the plan does not name the files of that write.

    Args:
        action: the action of the plan's instant.
        content: the content of the requested file.
    """
    instant = request_instant(table.storage, table.base_path, action, utc=table.config.timeline_utc, content=content)
    if is_optimistic(table):
        return instant if _confirm_plan(table, instant) else None
    known = {(i.time, i.action.family, i.state) for i in table.timeline.instants}
    # Read the timeline only now that the plan is visible: a write either is in this timeline, or began later than the plan and
    # takes it into account.
    for other in load_timeline(table.storage, table.base_path).instants:
        is_new = (other.time, other.action.family, other.state) not in known
        if is_new and other.time < instant.time and other.action.family in WRITE_ACTIONS:
            table.storage.delete(instant_path(table.base_path, instant))
            return None
    return instant


def _confirm_plan(table: TableState, instant: Instant) -> bool:
    """Keep a new plan if no write completed since `table.timeline` was loaded; otherwise delete it. Return whether it is kept.

    The plan is visible before its transaction. So a write that completes later finds the plan, and conflicts with it if both
    change the same file group.
    """

    def check(timeline: Timeline) -> None:
        """Raise TableChanged if an earlier write completed, or an earlier plan was stored, since this plan was made."""
        known = {i.time for i in table.timeline.instants}
        for other in timeline.instants:
            is_plan = not other.is_completed and other.action not in (Action.CLEAN, Action.ROLLBACK, Action.SAVEPOINT)
            is_write = other.is_completed and other.action.family in WRITE_ACTIONS
            is_new = other.time not in known or (is_write and other.time not in table.timeline.completed_times)
            # A write or plan with a later instant has seen this plan.
            if is_new and other.time < instant.time and (is_write or (is_plan and other.action not in WRITE_ACTIONS)):
                raise TableChanged(f"{other.file_name} of {table.base_path} came between")

    try:
        with locked(table, instant.time):
            run_transaction(table, check)
    except BaseException as e:
        is_kept = _withdraw_plan(table, instant)
        if isinstance(e, TableChanged):
            return is_kept
        raise
    return True


def _withdraw_plan(table: TableState, instant: Instant) -> bool:
    """Delete a plan that is not confirmed, unless a write has already put log files on top of it. Return whether it is kept.

    The plan is marked first, then withdrawn in a transaction. So a write that relies on the plan finds the mark, or is found.
    """
    mark_undone(table, instant.time)
    is_used = False

    def check(timeline: Timeline) -> None:
        """Note whether a write completed since the plan was visible."""
        nonlocal is_used
        is_used = any(time > instant.time for time in timeline.completed_times)

    try:
        run_transaction(table, check)
        if not is_used:
            table.storage.delete(instant_path(table.base_path, instant))
    finally:
        delete_undone_mark(table, instant.time)
    return is_used


def waits_for_writes(table: TableState, noun: str, own: str | None = None, since: TableState | None = None) -> bool:
    """Return whether a plan cannot be made now because of other writes. If so, warn and name the first of these writes.

    Args:
        noun: what cannot be planned, for the warning, for example "compaction".
        own: the instant time of the caller's own write, which is ignored; None if the caller does not write.
        since: the table as loaded earlier. If given, writes that completed after it was loaded count too. None: only writes that
            are under way count.
    """
    under_way = [instant for instant in writes_under_way(table) if instant.time != own]
    if under_way:
        name = under_way[0].file_name
        _warn_not_planned(table, noun, f"write {name} is under way, or died and waits for the next write to undo it")
        return True
    if since is None:
        return False
    completed = sorted(table.timeline.completed_times - since.timeline.completed_times)
    if completed:
        _warn_not_planned(table, noun, f"write {completed[0]} came between")
    return bool(completed)


def _warn_not_planned(table: TableState, noun: str, reason: str) -> None:
    """Warn that no plan is made now.

    Args:
        noun: the kind of plan, for example "compaction".
        reason: why no plan is made, in words.
    """
    warn_user(f"no {noun} of {table.base_path} is planned now: {reason}")


def writes_under_way(table: TableState) -> list[Instant]:
    """Return the instants of pending writes. Pending plans of table services are not writes."""
    # A clustering has the same action as a write that replaces file groups; only the plan in its file tells them apart.
    clusterings = set(find_pending_clusterings(table).values())
    return [i for i in table.timeline.pending if i.action in WRITE_ACTIONS and i.time not in clusterings]


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
        if not every and _runs_elsewhere(table, instant):
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
        The commit; None if a write is under way and the service runs only without one (`runs_alone`). Then the plan stays
            pending.

    Raises:
        OptionError: the service has no pending plan at this instant time.
        CorruptFile: a file that the plan names is missing or damaged.
        Unsupported: the service cannot work on this table, or cannot run this plan.
        WriteConflict: another process is running the plan, the plan was unscheduled concurrently, or a write that began before
            the plan is still under way.
    """
    run = _open_plan(spark, table, time, service)
    if run is None:
        return None
    tasks = service.make_tasks(run)
    runner = Runner(spark, on_driver=_is_small(run.table, tasks))
    with begin_run(run.table, run.instant) as change:
        stats = _run_tasks(run, tasks, runner, service, stages)
        service.before_commit(run, stats, runner)
        commit = change.prepare(
            stats,
            operation=service.operation,
            schema=run.schema,
            extra={**service.extra_metadata(run.plan), "penstock.stages": stages.to_text()},
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
        return change.publish(
            commit,
            spark=spark,
            stages=stages,
            published=partial(service.after_commit, run, stats, runner),
            check=lambda _: service.check_conflicts(run),
        )


def _open_plan(spark: SparkSession, table: TableState, time: str, service: PlannedService[PlanT, TaskT]) -> PlanRun[PlanT] | None:
    """Read a pending plan, check that it can run now, and roll back what a crashed run of it left. The errors are `run_plan`'s.

    Return None if a write is under way and the service runs only without one (`runs_alone`).

    Args:
        time: the instant time of the plan.
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
    return PlanRun(spark, table, instant.in_state(State.REQUESTED), plan, _required_schema(table))


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
    """Whether a write has begun since `run.table.timeline` was loaded. Reads the timeline again."""
    known = {instant.time for instant in run.table.timeline.instants} | {run.time}
    return any(i.action in WRITE_ACTIONS and i.time not in known for i in reload_timeline(run.table).timeline.instants)


def describe_runs(done: Sequence[PublishedCommit]) -> str | None:
    """Return a text for a report with the number of plans that were run, such as "2 plans run"; None if none was run.

    Args:
        done: the commits of the runs.
    """
    return f"{len(done):,} plans run" if done else None


# Resume


def start_over(table: TableState, instant: Instant) -> TableState:
    """Roll back the files that a crashed run of a plan left, if there was one.

    Return a copy of the table with its timeline loaded again.

    Args:
        instant: the instant of the plan.

    Raises:
        OptionError: the plan is no longer pending.
        WriteConflict: another process is running the plan.
    """
    for rollback in pending_instants(table, Action.ROLLBACK):
        rollback_plan = _read_rollback_of(table, rollback, instant)
        if rollback_plan is not None:
            run_rollback(table, rollback, rollback_plan, keeps_plan=True)
    table = reload_timeline(table)
    current = find_pending(table, pending_instants(table, instant.action), instant.time, instant.action.value)
    if current.state is State.REQUESTED:
        return table
    if _runs_elsewhere(table, current):
        raise WriteConflict(f"{instant.action.value} {instant.time} of {table.base_path} is being run by another process")
    roll_back(table, current, keeps_plan=True)
    return reload_timeline(table)


def _read_rollback_of(table: TableState, rollback: Instant, instant: Instant) -> Mapping[str, Any] | None:
    """Read the plan of a pending rollback; return None if it does not roll back `instant`, or cannot be read.

    Args:
        rollback: the instant of the rollback.
    """
    try:
        plan = read_container(table.storage.read(instant_path(table.base_path, rollback.in_state(State.REQUESTED))))
    except (FileNotFoundError, CorruptFile):
        return None  # the next write removes this rollback, or reports what is wrong with it
    target = plan.get("instantToRollback") or {}
    undoes_instant = target.get("commitTime") == instant.time and target.get("action") == instant.action.value
    return plan if undoes_instant else None


def _runs_elsewhere(table: TableState, instant: Instant) -> bool:
    """Whether another process is running the plan at `instant`: its inflight file exists and its heartbeat is recent."""
    return instant.state is not State.REQUESTED and is_alive(table, instant.time)


def pending_instants(table: TableState, action: Action) -> list[Instant]:
    """Return the requested and inflight instants of an action, oldest first."""
    return [instant for instant in table.timeline.filter(action) if not instant.is_completed]


def find_pending(table: TableState, pending: Sequence[Instant], time: str, noun: str) -> Instant:
    """Return the instant in `pending` that has the instant time `time`.

    Args:
        noun: the kind of plan, for the message, for example "compaction".

    Raises:
        OptionError: there is no such instant. The message lists the times of all pending instants.
    """
    for instant in pending:
        if instant.time == time:
            return instant
    known = ", ".join(instant.time for instant in pending) or "none"
    raise OptionError(f"there is no pending {noun} at {time} on the timeline of {table.base_path}; pending: {known}")
