"""Table services that work by a plan: compaction, log compaction and clustering.

    schedule   <t>.<action>.requested holds the plan: which files are rewritten
    run        → <t>.<action>.inflight → new files, markers first → the completed file of <t>
    resume     what a run that died has left is rolled back first; then the plan is run again

A service says when a plan is due, what it holds, which tasks it becomes and which kernel runs them (`PlannedService`). This
module does the rest, the same for all three. A plan outlives every run of it that fails: an error takes back the files of the
run, a crash leaves them to the next run.

A plan names files that exist. A write that began before the plan and is not finished may still add a file that the plan does not
name, so nothing is planned while a write is under way. A write may also begin while the plan is made; therefore the timeline is
read again after the plan was stored, and the plan is withdrawn if it missed a write. Writers in turn respect only the plans whose
instant is earlier than their own.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from penstock import clock
from penstock.catalog.pending import find_pending_clusterings
from penstock.commit.change import Change
from penstock.commit.heartbeat import Heartbeat, is_alive, is_lazy
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import CorruptFile, OptionError, WriteConflict
from penstock.filegroup.markers import read_markers, work_folder
from penstock.filegroup.model import FileSlice
from penstock.formats.avro.container import read_container
from penstock.hooks import PublishedCommit
from penstock.options.operation import Operation
from penstock.progress import Stages, TaskProgress
from penstock.services.rollback.run import roll_back, run_rollback
from penstock.services.table_service import TableService
from penstock.spread.driver import fits_on_driver
from penstock.spread.runner import Runner
from penstock.storage import join
from penstock.table import TableState, read_table_schema, reload_timeline
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import instant_path, load_timeline, request_instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How often a plan is made again because a write came in between.
_ATTEMPTS = 3


class PlannedTask(Protocol):
    """The description of one task, pickled to a worker."""

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        """The file slices that the task reads."""


PlanT = TypeVar("PlanT")
TaskT = TypeVar("TaskT", bound=PlannedTask)


@dataclass(frozen=True)
class PlanRun(Generic[PlanT]):
    """One run of a plan, as the driver sees it."""

    #: The session; None where everything runs on the driver.
    spark: Any
    #: The table after leftovers of an earlier run were rolled back.
    table: TableState
    #: The instant time of the plan, which is also that of every new file.
    time: str
    plan: PlanT
    #: The table's Avro schema.
    schema: str


class PlannedService(TableService, Generic[PlanT, TaskT]):
    """A table service that stores a plan on the timeline, and runs it at once or later, in this process or another."""

    #: Noun in messages: "compaction".
    noun: ClassVar[str]
    #: Action of the plan's instant.
    action: ClassVar[Action]
    #: Operation in the commit metadata.
    operation: ClassVar[Operation]
    #: Name of the stage whose time is kept in the commit, and what its progress line says before the number of file groups.
    stage: ClassVar[str]
    doing: ClassVar[str]
    #: Whether Hudi marks the commit as a compaction.
    is_compaction: ClassVar[bool] = False
    #: Whether plans are made, run and published only while no write is under way. Other services may run next to writers.
    runs_alone: ClassVar[bool] = False

    uses_spark: ClassVar[bool] = True
    raises_after_write: ClassVar[bool] = True

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Run pending plans, then plan and run what else is due."""
        return describe_runs(schedule_and_run(spark, table, self, stages))

    # Scheduling

    def check_table(self, table: TableState) -> None:
        """Raise Unsupported for a table that the service is not for."""

    def refresh(self, table: TableState) -> TableState:
        """Return the table with the timeline of this moment."""
        return reload_timeline(table)

    @abstractmethod
    def is_due(self, table: TableState) -> bool:
        """Whether the options ask for a new plan at this moment."""

    @abstractmethod
    def make_plan(self, table: TableState) -> PlanT | None:
        """Plan what is to be done at this moment, without writing anything; None if there is nothing to do."""

    @abstractmethod
    def encode_plan(self, table: TableState, plan: PlanT) -> bytes:
        """Return the content of the plan's requested file."""

    # Pending plans

    def list_pending(self, table: TableState) -> list[Instant]:
        """Return the instants of plans that are not completed, oldest first."""
        return pending_instants(table, self.action)

    @abstractmethod
    def read_plan(self, table: TableState, instant: Instant) -> PlanT | None:
        """Read the plan of a pending instant; None if it was taken off the timeline since the timeline was loaded."""

    # Running

    def check_plan(self, table: TableState, time: str, plan: PlanT) -> None:
        """Raise an error for a plan that this service cannot run."""

    @abstractmethod
    def make_tasks(self, run: PlanRun[PlanT]) -> Sequence[TaskT]:
        """Return the tasks of a plan. The run is not inflight yet, so an error leaves nothing to take back."""

    @abstractmethod
    def count_new_files(self, plan: PlanT) -> int:
        """Return how many files the plan is expected to write, for the progress display."""

    @abstractmethod
    def run_kernels(self, run: PlanRun[PlanT], tasks: Sequence[TaskT], runner: Runner) -> list[WriteStat]:
        """Run the tasks; return the write stats of all new files."""

    def before_commit(self, run: PlanRun[PlanT], stats: Sequence[WriteStat], runner: Runner) -> None:
        """Do what the new files require before their commit. An error takes the run back."""

    def check_conflicts(self, run: PlanRun[PlanT]) -> None:
        """Raise WriteConflict if the commit must not be published, because of a concurrent write. The last step before it is."""

    def after_commit(self, run: PlanRun[PlanT], stats: Sequence[WriteStat], runner: Runner) -> None:
        """Do what the new files require once they are part of the table. Must not raise."""

    def extra_metadata(self, plan: PlanT) -> Mapping[str, str]:
        """Return the extra metadata that the commit takes over from the plan."""
        return {}

    def replaced_groups(self, plan: PlanT) -> Mapping[str, tuple[str, ...]] | None:
        """Return the file ids that the commit takes out of the table, by partition path; None for a commit of another kind."""
        return None


# Schedule


def schedule(table: TableState, service: PlannedService[Any, Any], *, due: bool = False) -> Instant | None:
    """Put a plan of the service on the timeline, if it is due and there is anything to do.

    Args:
        due: whether a plan is made even if the options do not ask for one.

    Returns:
        The plan's instant; None if nothing was planned. A warning says so if that was because of other writes.
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
    """Whether a new plan has to wait for writes that are under way."""
    if service.runs_alone:
        return bool(writes_under_way(table))  # no warning: concurrent writes are the normal reason to plan another time
    return waits_for_writes(table, service.noun)


def store_plan(table: TableState, action: Action, content: bytes) -> Instant | None:
    """Put a plan on the timeline; withdraw it and return None if a write came in between, whose files it does not name."""
    instant = request_instant(table.storage, table.base_path, action, utc=table.config.timeline_utc, content=content)
    known = {(i.time, i.action.family, i.state) for i in table.timeline.instants}
    # Read the timeline only now that the plan is visible: a write either is in this timeline, or began later than the plan and
    # takes it into account.
    for other in load_timeline(table.storage, table.base_path).instants:
        is_new = (other.time, other.action.family, other.state) not in known
        if is_new and other.time < instant.time and other.action.family in WRITE_ACTIONS:
            table.storage.delete(instant_path(table.base_path, instant))
            return None
    return instant


def waits_for_writes(table: TableState, noun: str, own: str | None = None, since: TableState | None = None) -> bool:
    """Whether a service has to wait for other writes; warns which write it waits for.

    Args:
        noun: what is planned, for the warning.
        own: the instant time of the service's own write, which does not count.
        since: the table at an earlier moment; writes that were completed after it count too.
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
    warnings.warn(f"no {noun} of {table.base_path} is planned now: {reason}", RuntimeWarning, stacklevel=4)


def writes_under_way(table: TableState) -> list[Instant]:
    """Return the writes that have begun and are not finished. Pending plans of table services are not writes."""
    # A clustering has the action of a replacing write; only its plan tells them apart.
    clusterings = set(find_pending_clusterings(table).values())
    return [i for i in table.timeline.pending if i.action in WRITE_ACTIONS and i.time not in clusterings]


# Run


def schedule_and_run(
    spark: SparkSession, table: TableState, service: PlannedService[Any, Any], stages: Stages, *, due: bool = False
) -> list[PublishedCommit]:
    """Run all pending plans of a service, then plan and run what else there is to do.

    Args:
        due: whether a new plan is made even if the options do not ask for one, and a pending plan that another process is running
            is an error. Otherwise that plan is left to the other process.
    """
    done = run_pending(spark, table, service, stages, every=due)
    instant = schedule(table, service, due=due)
    if instant is not None:
        published = run(spark, table, instant.time, service, stages)
        if published is not None:
            done.append(published)
    return done


def run_pending(
    spark: SparkSession, table: TableState, service: PlannedService[Any, Any], stages: Stages, *, every: bool = False
) -> list[PublishedCommit]:
    """Run all plans that wait or whose run died, oldest first.

    Args:
        every: whether a plan that another process is running raises WriteConflict; otherwise it is left to that process.
    """
    service.check_table(table)
    done = []
    for instant in service.list_pending(service.refresh(table)):
        if not every and _runs_elsewhere(table, instant):
            continue
        published = run(spark, table, instant.time, service, stages)
        if published is not None:
            done.append(published)
    return done


def run(
    spark: SparkSession, table: TableState, time: str, service: PlannedService[Any, Any], stages: Stages
) -> PublishedCommit | None:
    """Run one plan to its commit.

    Returns:
        The commit; None if the service runs alone and there is a concurrent write, so that the plan stays for another time.

    Raises:
        OptionError: there is no plan at this time.
        CorruptFile: a file that the plan names is missing or damaged.
        Unsupported: the service is not for this table, or cannot run this plan.
        WriteConflict: another process runs the plan, it was unscheduled just now, or a write that began before the plan is not
            finished.
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
    else:
        _check_earlier_writes(table, time, service.noun)
    table = start_over(table, instant)
    plan_run = PlanRun(spark, table, time, plan, _required_schema(table))
    tasks = service.make_tasks(plan_run)
    with _inflight(table, instant.in_state(State.REQUESTED)) as change:
        return _run_and_publish(plan_run, change, tasks, service, stages)


def _run_and_publish(
    run: PlanRun[PlanT], change: Change, tasks: Sequence[TaskT], service: PlannedService[PlanT, TaskT], stages: Stages
) -> PublishedCommit | None:
    slices: list[FileSlice] = []
    for task in tasks:
        slices += task.slices
    runner = Runner(run.spark, on_driver=_is_small(run.table, slices))

    def count_begun() -> int:
        return len(read_markers(run.table.storage, run.table.base_path, run.time))

    progress = TaskProgress(service.count_new_files(run.plan), count_begun)
    with stages.run(service.stage, f"{service.doing} {len(slices)} file groups", progress) as notes:
        stats = service.run_kernels(run, tasks, runner)
        notes.rows = sum(stat.num_writes for stat in stats)
        notes.size_bytes = sum(stat.total_write_bytes for stat in stats)
    service.before_commit(run, stats, runner)
    commit = change.prepare(
        stats,
        operation=service.operation,
        schema=run.schema,
        extra={**service.extra_metadata(run.plan), "penstock.stages": stages.to_text()},
        replaced=service.replaced_groups(run.plan),
        compacted=service.is_compaction,
        spark=run.spark,
    )
    # Checked after `prepare`, whose hooks may take minutes: what is checked must still hold when the commit is published.
    if service.runs_alone and _is_written_to(run):
        change.abandon()
        return None
    service.check_conflicts(run)
    return change.publish(commit, spark=run.spark, published=partial(service.after_commit, run, stats, runner))


@contextmanager
def _inflight(table: TableState, instant: Instant) -> Iterator[Change]:
    """Run a plan inside the block. An error takes back its files, but not the plan; a crash leaves them to the next run."""
    heartbeat = Heartbeat(table)
    # Announced before the inflight file exists: a process that sees an inflight plan without a heartbeat takes it for dead.
    heartbeat.announce(instant.time)
    # Another process that takes this run for dead removes this file when it rolls the run back, and may then run the plan itself.
    run_file = join(work_folder(table.base_path, instant.time), f"run-{clock.new_uuid()}")
    change = Change(table, instant, heartbeat, run_file=run_file)
    change.start()  # raises if another process was first: then the run is that process's
    with change.at_work():
        yield change


def _is_small(table: TableState, slices: Sequence[FileSlice]) -> bool:
    """Whether starting Spark tasks would cost more than reading the slices on the driver."""
    size_bytes = sum(file_slice.size_bytes for file_slice in slices)
    return fits_on_driver(table.options, size_bytes=size_bytes)


def _required_schema(table: TableState) -> str:
    """Return the table's Avro schema. Raises CorruptFile if no commit holds one."""
    schema = read_table_schema(table)
    if schema is None:
        raise CorruptFile(f"no commit of {table.base_path} tells the table's schema, so its log files cannot be read")
    return schema


def _check_earlier_writes(table: TableState, time: str, noun: str) -> None:
    """Raise WriteConflict if a write that began before a plan is not finished: it may add files that the plan does not name."""
    for instant in writes_under_way(table):
        if instant.time < time:
            raise WriteConflict(
                f"write {instant.file_name} of {table.base_path} began before {noun} {time} was planned and is not finished; "
                f"run the {noun} when it is"
            )


def _is_written_to(run: PlanRun[Any]) -> bool:
    """Whether a write has begun since the run began."""
    known = {instant.time for instant in run.table.timeline.instants} | {run.time}
    return any(i.action in WRITE_ACTIONS and i.time not in known for i in reload_timeline(run.table).timeline.instants)


def describe_runs(done: Sequence[PublishedCommit]) -> str | None:
    """Return in a few words how many plans were run; None for none."""
    return f"{len(done):,} plans run" if done else None


# Resume


def start_over(table: TableState, instant: Instant) -> TableState:
    """Roll back what an earlier run of a plan left, if there was one; return the table with its timeline afterwards.

    Raises:
        OptionError: the plan is not pending any more.
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
    """Read the plan of a rollback that died; None if it does not undo a run of this instant."""
    try:
        plan = read_container(table.storage.read(instant_path(table.base_path, rollback.in_state(State.REQUESTED))))
    except (FileNotFoundError, CorruptFile):
        return None  # the next write removes this rollback, or reports what is wrong with it
    target = plan.get("instantToRollback") or {}
    undoes_instant = target.get("commitTime") == instant.time and target.get("action") == instant.action.value
    return plan if undoes_instant else None


def _runs_elsewhere(table: TableState, instant: Instant) -> bool:
    """Whether another process is running a plan.

    Under the EAGER policy for failed writes there are no heartbeats. The table then has a single writer, which is this process.
    """
    return instant.state is not State.REQUESTED and is_lazy(table) and is_alive(table, instant.time)


def pending_instants(table: TableState, action: Action) -> list[Instant]:
    """Return the instants of an action that are not completed, oldest first."""
    return [instant for instant in table.timeline.filter(action) if not instant.is_completed]


def find_pending(table: TableState, pending: Sequence[Instant], time: str, noun: str) -> Instant:
    """Return the instant of a time from a list of pending ones. Raises OptionError, which names those that are pending."""
    for instant in pending:
        if instant.time == time:
            return instant
    known = ", ".join(instant.time for instant in pending) or "none"
    raise OptionError(f"there is no pending {noun} at {time} on the timeline of {table.base_path}; pending: {known}")
