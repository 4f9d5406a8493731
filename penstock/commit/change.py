"""`Change`: one write or one run of a table service's plan, from its requested file to its completed file on the timeline.

    requested → inflight → (data files, markers first) → completed

`with begin(...)`, in `begin.py`, creates the requested file. An error inside the block, or Ctrl-C, undoes everything. A crash (of
this process, of the machine) leaves the instant pending, and the next write rolls it back. Only the completed file makes the new
data files visible to readers.

Every write and every table service that publishes a commit goes through `Change.prepare` and `Change.publish`, and with them
through the hooks of the table (`penstock/hooks`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock import clock
from penstock import options as o
from penstock.commit import markers
from penstock.commit.claims import Completed, is_marked_undone, run_transaction
from penstock.commit.conflicts import check_conflicts, check_log_files, check_not_restoring
from penstock.commit.early_conflicts import EarlyConflicts, detects_early
from penstock.commit.heartbeat import Heartbeat, check_alive
from penstock.commit.modes import is_lazy, is_optimistic
from penstock.commit.overlap import WRITER, ConcurrentCommit, check_overlap, check_schema
from penstock.commit.publish_alone import publish_alone
from penstock.commit.row_ages import measure_row_ages
from penstock.commit.run_hooks import run_after_hooks, run_before_hooks
from penstock.commit.seen_commits import Look, LookNeeded, SeenCommits
from penstock.commit.swap_tables import final_table_path
from penstock.commit.table_lock import check_still_held, locked
from penstock.commit.undone_commits import check_still_there
from penstock.errors import CommitUnknown, StorageError, WriteConflict
from penstock.filegroup.markers import MarkerStyle
from penstock.filegroup.partitions import check_not_nested, withdraw_partition
from penstock.hooks import HookContext, LockUse, PendingCommit, PublishedCommit, TableReader
from penstock.interrupt import check_interrupt, is_interrupted
from penstock.options.operation import Operation
from penstock.process import describe_user
from penstock.progress import Stages
from penstock.storage import has_whole_files
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from penstock.timeline.instant import Instant, State
from penstock.timeline.store import instant_path, keep_instant, load_timeline, require_pending, transition
from penstock.timeline.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A last check before a commit is published, called with the commits that completed since the change was planned.
CheckCommits = Callable[[Sequence[ConcurrentCommit]], None]

#: The key of the stages of a write, as JSON: their seconds, rows and bytes.
STAGES = "penstock.stages"
#: Stands for the seconds of the wait for the lock until they are known.
_LOCK_WAIT = "penstock: seconds of the wait for the lock"


class Change:
    """One write that is under way, or one run of a table service's plan. `with begin(...)` creates the `Change` of a write.

    `complete` publishes it, an error takes it back. A plan whose run was taken back stays on the timeline.

    Args:
        instant: the requested instant of the write, or the instant of the plan.
        heartbeat: the heartbeat that was already announced for the instant; None if none was announced.
        run_file: for the run of a plan, the path of a file that this run creates; while it exists, the plan belongs to this run.
            A process that considers the run dead deletes the file when it rolls the run back, and may then run the plan under the
            same instant. None for a write: no other process uses its instant.
    """

    def __init__(
        self, table: TableState, instant: Instant, heartbeat: Heartbeat | None = None, *, run_file: str | None = None
    ) -> None:
        self.table = table
        self.instant = instant
        self._run_file = run_file
        self._heartbeat = heartbeat or Heartbeat(table)
        self._is_publishing = False
        self._planned_on = table.timeline
        self._prepared_for: str | None = None
        self._profile: CommitMetadata | None = None

    @property
    def time(self) -> str:
        """The instant time of the write or plan."""
        return self.instant.time

    def start(self, profile: CommitMetadata | None = None) -> None:
        """Create the inflight file of this change. After that, tasks may write data files.

        Args:
            profile: the workload profile to store in the inflight file; None for an empty file.
        """
        self._profile = profile
        content = write_commit(profile, profile=True) if profile else b""
        transition(self.table.storage, self.table.base_path, self.instant, State.INFLIGHT, content)

    def expect_schema(self, schema: str | None) -> None:
        """Record the table's schema, as JSON, for which the rows of this write were prepared; None if the table had no schema.

        If several writers are allowed, `publish` raises TableChanged if the table has another schema by then.
        """
        self._prepared_for = schema

    def plan_on(self, timeline: Timeline) -> None:
        """Record the timeline on which the tasks are planned. `publish` looks for conflicts with commits that are not on it."""
        self._planned_on = timeline

    @contextmanager
    def stop_at_conflict(self, cancel_tasks: Callable[[], object]) -> Iterator[None]:
        """Run the tasks of this write in the `with` block. Stop them early if another writer changes the same file groups.

        If `hoodie.write.concurrency.early.conflict.detection.enable` is false, do not look for such a writer.

        Args:
            cancel_tasks: cancels the tasks. It is called on another thread.

        Raises:
            WriteConflict: a conflict was found.
        """
        if self._profile is None or not detects_early(self.table):
            yield
            return
        conflicts = EarlyConflicts(self.table, self.instant, self._profile, self._planned_on, cancel_tasks)
        with conflicts.stop_tasks():
            yield

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Run the `with` block with a heartbeat, and let tasks of this change create data files.

        If the block raises an error, the change is undone. If the process crashes, the next write or run rolls the change back.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C. Its message says what became of the change.
        """
        storage = self.table.storage
        base_path = self.table.base_path
        try:
            self._heartbeat.start()
            if self._run_file is not None:
                storage.create(self._run_file).close()
            style = MarkerStyle(self.table.options[o.MARKERS_TYPE].upper())
            markers.open_write(storage, base_path, self.time, style)
            yield
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._abandon_interrupted()) from None
        except Exception as e:
            if is_interrupted():  # the error of a Spark job that was cancelled
                raise KeyboardInterrupt(self._abandon_interrupted()) from None
            conflict = self._find_rollback(e)
            with suppress(StorageError):  # what cannot be taken back now is rolled back by the next write or run
                self.abandon()
            if conflict is not None:
                raise conflict from e
            raise
        finally:
            self._heartbeat.stop()

    def _abandon_interrupted(self) -> str:
        """Undo the change after Ctrl-C, unless it is published. Return a sentence for the user on what became of it."""
        if self._run_file is None:
            name = f"write {self.time} of {self.table.base_path} was interrupted"
            undone = "The table is as it was before"
            later = "the next write rolls it back"
        else:
            name = f"run of {self.instant.action.value} plan {self.time} of {self.table.base_path} was interrupted"
            undone = "The plan stays, and the next run of the service resumes it"
            later = "the next run of the service rolls it back and resumes the plan"
        try:
            self.abandon()
            if not self._is_publishing:
                return f"{name} and rolled back. {undone}"
            completed = instant_path(self.table.base_path, self.instant.in_state(State.COMPLETED))
            if self.table.storage.stat(completed) is not None:
                return f"{name} after its commit. The commit stands"
        except StorageError as e:
            return f"{name}. It is not committed, and {later} ({e})"
        return f"{name}. It is not committed, and {later}"

    def _find_rollback(self, error: Exception) -> WriteConflict | None:
        """Return a WriteConflict to raise in place of `error`, if another writer rolled this change back while it ran.

        Otherwise return None. After a rollback, tasks fail because their files are gone, and their errors do not say why.
        """
        if isinstance(error, WriteConflict | CommitUnknown) or self._is_publishing:
            return None
        try:
            require_pending(self.table.storage, self.table.base_path, self.instant)
        except WriteConflict as conflict:
            return conflict
        except StorageError:
            return None
        return None

    def complete(
        self,
        stats: Sequence[WriteStat],
        *,
        operation: Operation,
        schema: str,
        extra: Mapping[str, str] | None = None,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        compacted: bool = False,
        spark: SparkSession | None = None,
        stages: Stages | None = None,
        read_table: TableReader | None = None,
        published: Callable[[], object] | None = None,
        check: CheckCommits | None = None,
        look: Look | None = None,
        calls_hooks: bool = True,
    ) -> PublishedCommit:
        """Call `prepare`, then `publish`, whose docstrings describe the arguments. Return the published commit."""
        commit = self.prepare(
            stats,
            operation=operation,
            schema=schema,
            extra=extra,
            replaced=replaced,
            compacted=compacted,
            spark=spark,
            stages=stages,
            read_table=read_table,
        )
        return self.publish(
            commit, spark=spark, stages=stages, published=published, check=check, look=look, calls_hooks=calls_hooks
        )

    def prepare(
        self,
        stats: Sequence[WriteStat],
        *,
        operation: Operation,
        schema: str,
        extra: Mapping[str, str] | None = None,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        compacted: bool = False,
        spark: SparkSession | None = None,
        stages: Stages | None = None,
        read_table: TableReader | None = None,
    ) -> PendingCommit:
        """Build the commit metadata and run the before-commit hooks. Return the commit, which is not yet published.

        An error of a hook is raised. Hooks may take minutes. They run before the conflict checks, because the result of these
        checks must still hold when the commit is published. A table service makes its own checks between `prepare` and `publish`.

        Args:
            stats: the write stats of all data files that the change wrote.
            schema: the table's Avro schema, as JSON.
            extra: entries to add to the commit's extra metadata.
            replaced: file ids that the commit replaces, by partition path; None if it is not a replace commit.
            compacted: whether the change is the run of a compaction or log compaction.
            spark: the Spark session, for hooks that need one.
            stages: shows the hooks as stages of the operation; None: they are not shown.
            read_table: reads the table for hooks that check rows; None: the rows are not checked.
        """
        writer = {WRITER: describe_user()} if is_optimistic(self.table) else {}
        metadata = CommitMetadata(
            stats=tuple(stats),
            operation=operation.stored,
            extra={**(extra or {}), **writer, **measure_row_ages(stats), "schema": schema},
            replaced=replaced,
            compacted=compacted,
        )
        commit = PendingCommit(self.time, self.instant.action.family, metadata)
        context = HookContext(
            self.table, spark, final_path=final_table_path(self.table.base_path), stages=stages, read_table=read_table
        )
        run_before_hooks(context, commit)
        return commit

    def publish(
        self,
        commit: PendingCommit,
        *,
        spark: SparkSession | None = None,
        stages: Stages | None = None,
        published: Callable[[], object] | None = None,
        check: CheckCommits | None = None,
        look: Look | None = None,
        calls_hooks: bool = True,
    ) -> PublishedCommit:
        """Publish a prepared commit and return it with the outcomes of the after-commit hooks.

        The steps: seal the write (from then on its tasks may create no data files), check for conflicts, delete the data files of
        lost task attempts, create the completed file, delete the markers, run the after-commit hooks.

        Args:
            commit: the result of `prepare`.
            spark: the Spark session, for hooks that need one.
            stages: shows the hooks as stages of the operation; None: they are not shown.
            published: a function to call after the completed file was created and before the marker folder is deleted.
            check: a last check of the caller, called with the commits that completed since the change was planned. Under
                optimistic concurrency control it is called during the transaction; otherwise with no commits.
            look: an expensive check of commits that completed since the change was planned. It is made without the lock, and only
                under optimistic concurrency control.
            calls_hooks: whether to run the after-commit hooks. Not for a write, whose hooks run after the table services that
                follow it (`door/follow_ups.py`).

        Raises:
            CommitUnknown: the storage failed while the completed file was created, so the file may or may not exist.
            WriteConflict: another process considers this change dead and rolls it back, or has replaced file groups that this
                change wrote to.
        """
        storage = self.table.storage
        base_path = self.table.base_path
        stats = commit.metadata.stats
        check_interrupt()
        check_alive(self.table, self.time)
        self._check_partitions(stats)
        self._check_run()
        # Seal first: from here on no straggling task can announce a file that reconcile would not see. A rollback seals too,
        # before it deletes anything. So a seal that fails means that another process is taking this change back.
        if not markers.seal(storage, base_path, self.time):
            raise WriteConflict(f"another writer took write {self.time} of {base_path} for dead and rolls it back. Run it again")
        # The run may have been rolled back, and begun again, between the last check and the seal: then the seal is of the
        # other run's markers, and this run must not go on.
        self._check_run()
        # Reconcile before publishing: readers take every file whose name holds a completed instant, so the files of lost
        # attempts must be gone before the completed file is there.
        began_s = clock.monotonic_s()
        markers.reconcile(storage, base_path, self.time, [stat.path for stat in stats if stat.path])
        finalized_s = clock.monotonic_s() - began_s
        done = PublishedCommit(commit.instant, commit.action, commit.metadata)
        if is_optimistic(self.table):
            done = self._publish_in_turn(commit, check, SeenCommits(look), stages or Stages("", "off"))
        else:
            # As late as possible: what is found must still hold when the completed file is created.
            if self._run_file is not None:  # no other writer began before this one, but a service runs next to writers
                check_still_there(self.table, self._planned_on, load_timeline(storage, base_path))
            check_conflicts(self.table, self.time, stats, commit.metadata.replaced or {}, runs_a_plan=self._run_file is not None)
            if check is not None:
                check(())
            self._create_completed_file(write_commit(commit.metadata))
        completed = self.instant.in_state(State.COMPLETED)
        if has_whole_files(storage) and self.table.is_final(completed):
            keep_instant(storage, instant_path(base_path, completed), write_commit(done.metadata))
        done = replace(done, finalized_s=finalized_s)
        if published is not None:
            published()
        with suppress(StorageError):  # the commit stands; a later write deletes what is left of it
            markers.delete_markers(storage, base_path, self.time)
            self._heartbeat.end()
        if not calls_hooks:
            return done
        return run_after_hooks(HookContext(self.table, spark, stages=stages), done)

    def _publish_in_turn(
        self, commit: PendingCommit, check: CheckCommits | None, seen: SeenCommits, stages: Stages
    ) -> PublishedCommit:
        """Publish the commit in a transaction, so that no other commit comes between its checks and its completed file.

        If concurrent commits need the expensive check (`seen.look`), make it without the lock, and begin the transaction again.
        Return the commit, as it is stored. Raise WriteConflict if a concurrent commit, plan or rollback conflicts with this
        change.
        """
        while True:
            try:
                return self._take_turn(commit, check, seen, stages)
            except LookNeeded as needed:
                seen.look_at(needed.commits)

    def _take_turn(self, commit: PendingCommit, check: CheckCommits | None, seen: SeenCommits, stages: Stages) -> PublishedCommit:
        """Try to publish the commit in one transaction. Return it, as it is stored.

        Raise LookNeeded, before anything is published, if concurrent commits need the expensive check (`seen.look`).
        """
        # Encoded before the lock is acquired, because that takes time for a commit of many files.
        content = write_commit(_with_lock_wait(commit.metadata, _LOCK_WAIT))
        completed = Completed(self.instant.in_state(State.COMPLETED), content)

        def check_turn(timeline: Timeline) -> Completed:
            """Raise an error if a concurrent commit, plan or rollback conflicts; else return the completed file to create."""
            self._is_publishing = False
            check_interrupt()
            check_not_restoring(self.table, timeline)
            self._check_not_undone()
            check_still_there(self.table, self._planned_on, timeline)
            commits: Sequence[ConcurrentCommit] = ()
            if self._run_file is None:
                table_now = replace(self.table, timeline=timeline)
                check_schema(table_now, self.instant, self._prepared_for, commit.metadata)
                check_log_files(self.table, timeline, self.time, commit.metadata.stats)
                commits = check_overlap(self.table, self.instant, commit.metadata, self._planned_on, timeline, seen.parsed)
                seen.check(commits)
            if check is not None:
                check(commits)
            # The last look at the lock: from here to the completed file there are two calls of the storage.
            check_still_held(self.table, lock)
            # Set before the claim: if creating it fails, the claim may be there all the same, and nothing may be taken back.
            self._is_publishing = True
            return completed

        with ExitStack() as stack:
            with stages.run("lock", "waiting for the lock", starts_jobs=False):
                lock = stack.enter_context(locked(self.table, self.time))
            held_since_s = clock.monotonic_s()
            waited_s = lock.waited_s if lock is not None else 0.0
            completed = replace(completed, content=_fill_in_lock_wait(content, waited_s))
            run_transaction(self.table, check_turn)
        held_s = clock.monotonic_s() - held_since_s
        use = LockUse(waited_s, held_s, lock.attempts) if lock is not None else None
        return PublishedCommit(commit.instant, commit.action, _with_lock_wait(commit.metadata, round(waited_s, 3)), lock=use)

    def _check_not_undone(self) -> None:
        """Raise WriteConflict if another process rolls this change back, or has done so."""
        if is_marked_undone(self.table, self.time):
            raise WriteConflict(
                f"another writer took write {self.time} of {self.table.base_path} for dead and rolls it back. Run it again"
            )
        # After the mark: a rollback deletes its mark only when the requested file is gone.
        require_pending(self.table.storage, self.table.base_path, self.instant)
        self._check_run()

    def _check_partitions(self, stats: Sequence[WriteStat]) -> None:
        """Raise RecordKeyError if a partition with new file groups lies inside another partition, or another partition inside it.

        An example is `2026` and `2026/01`. Tables with URL-encoded partition values are not checked: an encoded value has no
        slash.
        """
        config = self.table.config
        if config.partition_fields and not config.url_encode:
            new_groups = [stat for stat in stats if stat.prev_commit == "null"]
            paths = {stat.partition_path or "" for stat in new_groups}
            check_not_nested(self.table.storage, self.table.base_path, paths)

    @property
    def _owns_run(self) -> bool:
        """Whether no other process has rolled back this run of a plan and deleted its run file. Always true for a write."""
        return self._run_file is None or self.table.storage.stat(self._run_file) is not None

    def _check_run(self) -> None:
        """Raise WriteConflict if another process has rolled back this run of a plan."""
        if not self._owns_run:
            raise WriteConflict(f"another process took the run of {self.instant.file_name} for dead and rolled it back")

    def _create_completed_file(self, content: bytes) -> None:
        """Create the completed file, with this content (JSON), of a change that expects no concurrent writers."""

        def begin_publishing() -> None:
            self._is_publishing = True

        publish_alone(self.table, self.instant, content, self._heartbeat, self._check_run, begin_publishing)

    def withdraw(self) -> None:
        """Delete the data files and the inflight file of this change. The requested file, staged rows and heartbeat stay.

        Called after a conflict if the write runs again: the staged rows are needed once more, and the instant in its requested
        state keeps them from being deleted as leftovers. Call `abandon` when the write is over.
        """
        storage = self.table.storage
        base_path = self.table.base_path
        markers.seal(storage, base_path, self.time)
        announced = [marker.file_path for marker in markers.read_markers(storage, base_path, self.time)]
        markers.delete_announced(storage, base_path, announced)
        storage.delete(instant_path(base_path, self.instant.in_state(State.INFLIGHT)))

    def abandon(self) -> None:
        """Undo the change: delete its data files, timeline files, markers and heartbeat. A plan's requested file is kept.

        Do nothing if the change may already be published, or if another process has rolled it back.
        """
        if self._is_publishing or not self._owns_run:
            return
        storage = self.table.storage
        base_path = self.table.base_path
        # Sealed before the markers are read: a task that is still running could otherwise announce one more file.
        markers.seal(storage, base_path, self.time)
        announced = [marker.file_path for marker in markers.read_markers(storage, base_path, self.time)]
        markers.delete_announced(storage, base_path, announced)
        if not is_lazy(self.table):  # under the lazy policy other writers may be about to put files there
            partition_paths = {path.rpartition("/")[0] for path in announced}
            for path in sorted(partition_paths, reverse=True):
                withdraw_partition(storage, base_path, path, self.time)
        # The instant goes last but for the markers: as long as it is there, a crash leaves it to the next rollback.
        states = [State.INFLIGHT]
        if self._run_file is None:
            states.append(State.REQUESTED)
        for state in states:
            storage.delete(instant_path(base_path, self.instant.in_state(state)))
        markers.delete_markers(storage, base_path, self.time)
        self._heartbeat.end()


def _with_lock_wait(metadata: CommitMetadata, seconds: float | str) -> CommitMetadata:
    """Return a copy of commit metadata whose stages have the wait for the lock: its seconds, or a placeholder for them."""
    if STAGES not in metadata.extra:
        return metadata
    stages = {**json.loads(metadata.extra[STAGES]), "lock": {"seconds": seconds, "rows": 0, "bytes": 0}}
    return replace(metadata, extra={**metadata.extra, STAGES: json.dumps(stages)})


def _fill_in_lock_wait(content: bytes, waited_s: float) -> bytes:
    """Return an encoded commit with the seconds of the wait for the lock in place of the placeholder."""
    placeholder = json.dumps(json.dumps(_LOCK_WAIT))[1:-1]  # the stages are JSON in a string of JSON
    return content.replace(placeholder.encode(), json.dumps(round(waited_s, 3)).encode(), 1)
