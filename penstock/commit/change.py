"""One change of the table, from its first file on the timeline to its last.

    requested → inflight → (data files, markers first) → completed

`with begin(...)` takes the instant. An error inside the block takes everything back; a crash (of this process, of the
machine, Ctrl-C) leaves the instant pending, and the next write rolls it back. Creating the completed file is the only step
that makes anything visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock import clock
from penstock import options as o
from penstock.commit.heartbeat import Heartbeat, check_alive, is_alive, is_lazy
from penstock.commit.overwrite import is_written_aside
from penstock.errors import AlreadyExists, CommitUnknown, CorruptFile, StorageError, WriteConflict
from penstock.filegroup import markers
from penstock.filegroup.names import parse_log_name
from penstock.filegroup.partitions import check_not_nested, withdraw_partition
from penstock.hooks import HookContext, PendingCommit, PublishedCommit, run_after_hooks, run_before_hooks
from penstock.merge.kernels.event_time import EventTimes
from penstock.options.operation import Operation
from penstock.storage import join
from penstock.table import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, load_timeline, read_metadata, request, require_pending, transition
from penstock.timeline.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What the extra metadata of a commit says of its rows' event times.
FRESHNESS_MS, LATENCY_MS = "penstock.freshness.ms", "penstock.latency.ms"


class Change:
    """A write under way, or the run of a table service's plan. Such a plan stays when the run is taken back.

    Args:
        sign: of a run, a file that is there as long as nobody rolled it back; others may run the plan again after that.
    """

    def __init__(
        self, table: TableState, instant: Instant, heartbeat: Heartbeat | None = None, *, sign: str | None = None
    ) -> None:
        self.table, self.instant = table, instant
        self._sign = sign
        self._heartbeat = heartbeat or Heartbeat(table)
        self._publishing = False

    @property
    def time(self) -> str:
        """The instant's time."""
        return self.instant.time

    def start(self, profile: CommitMetadata | None = None) -> None:
        """Go inflight; from here on data files may be written."""
        content = write_commit(profile, profile=True) if profile else b""
        transition(self.table.storage, self.table.base_path, self.instant, State.INFLIGHT, content)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Its heart beats meanwhile. An error takes back what was done; a crash leaves that to the next write or run."""
        storage, base_path = self.table.storage, self.table.base_path
        try:
            self._heartbeat.start()
            if self._sign is not None:
                storage.create(self._sign).close()
            style = markers.MarkerStyle(self.table.options[o.MARKERS_TYPE].upper())
            markers.open_write(storage, base_path, self.time, style)
            yield
        except Exception:
            with suppress(StorageError):  # what cannot be taken back now is rolled back by the next write or run
                self.abandon()
            raise
        finally:
            self._heartbeat.stop()

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
        published: Callable[[], object] | None = None,
    ) -> PublishedCommit:
        """Prepare the commit, then publish it: see `prepare` and `publish`."""
        commit = self.prepare(
            stats, operation=operation, schema=schema, extra=extra, replaced=replaced, compacted=compacted, spark=spark
        )
        return self.publish(commit, spark=spark, published=published)

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
    ) -> PendingCommit:
        """Make the commit's metadata and run the hooks before it. Whatever a hook raises is raised.

        Hooks may take minutes. So they run before the checks for conflicts, and before a lock is taken: what is checked right
        before publishing must still hold when the commit is published. A table service with a check of its own makes it
        between `prepare` and `publish`.

        Args:
            replaced: the file groups that the commit takes out of the table, by partition path.
            compacted: whether a compaction makes the commit.
            spark: the session, for hooks that need one.
        """
        metadata = CommitMetadata(
            stats=tuple(stats),
            operation=operation.stored,
            extra={**(extra or {}), **_ages(stats), "schema": schema},
            replaced=replaced,
            compacted=compacted,
        )
        commit = PendingCommit(self.time, self.instant.action.family, metadata)
        run_before_hooks(HookContext(self.table, spark), commit)
        return commit

    def publish(
        self, commit: PendingCommit, *, spark: SparkSession | None = None, published: Callable[[], object] | None = None
    ) -> PublishedCommit:
        """Make a prepared commit part of the table: check for conflicts, remove files of lost attempts, create the completed
        file, delete the markers, run the hooks after it.

        Args:
            spark: the session, for hooks that need one.
            published: is called when the commit is part of the table, while the files that tasks left next to their markers are
                still there.

        Raises:
            CommitUnknown: the storage failed while publishing, so the commit may or may not be there.
            WriteConflict: another writer took this one for dead and rolls it back, or file groups it changed out of the table.
        """
        storage, base_path = self.table.storage, self.table.base_path
        stats, replaced = commit.metadata.stats, commit.metadata.replaced
        check_alive(self.table, self.time)
        if self.table.config.partition_fields and not self.table.config.url_encode:
            check_not_nested(storage, base_path, {s.partition_path or "" for s in stats if s.prev_commit == "null"})
        self._check_still_ours()
        if not markers.seal(storage, base_path, self.time):
            raise WriteConflict(f"another writer took write {self.time} of {base_path} for dead and rolls it back. Run it again")
        self._check_still_ours()
        self._check_targets(stats, replaced or {})
        markers.reconcile(storage, base_path, self.time, [s.path for s in stats if s.path])
        self._publish(write_commit(commit.metadata))
        if published is not None:
            published()
        with suppress(StorageError):  # the commit stands; leftovers of it are cleaned up by a later write
            markers.delete_markers(storage, base_path, self.time)
            self._heartbeat.end()
        done = PublishedCommit(commit.instant, commit.action, commit.metadata)
        # A table that is written aside is not at its path yet. The door runs its hooks when it is.
        return done if is_written_aside(base_path) else run_after_hooks(HookContext(self.table, spark), done)

    @property
    def _is_still_ours(self) -> bool:
        """Whether the plan's run is this one. A write's instant is nobody else's."""
        return self._sign is None or self.table.storage.stat(self._sign) is not None

    def _check_still_ours(self) -> None:
        if not self._is_still_ours:
            raise WriteConflict(f"another process took the run of {self.instant.file_name} for dead and rolled it back")

    def _check_targets(self, stats: Sequence[WriteStat], replaced: Mapping[str, Sequence[str]]) -> None:
        """Refuse files of which nobody would see what is in them, because of what happened to their file groups meanwhile.

        The same goes for groups that this one takes out: rows that are somewhere else by now would be there twice, or still.
        """
        names = (parse_log_name(s.path.rpartition("/")[2]) for s in stats if s.path)
        bases = {name.base_instant for name in names if name} - {self.time}
        is_write = self._sign is None
        counted_on = {(s.partition_path or "", s.file_id) for s in stats if is_write and s.prev_commit not in ("null", self.time)}
        counted_on |= {(path, file_id) for path, ids in replaced.items() for file_id in ids}
        if bases or counted_on:
            timeline = load_timeline(self.table.storage, self.table.base_path)
            self._check_bases(timeline, bases)
            self._check_not_replaced(timeline, counted_on)

    def _check_bases(self, timeline: Timeline, bases: Set[str]) -> None:
        """Refuse log files on top of a compaction that was taken off the timeline."""
        known = {i.time for i in timeline.instants}
        gone = sorted(base for base in bases - known if timeline.start is None or base >= timeline.start)
        if gone:
            raise WriteConflict(f"compaction {gone[0]} of {self.table.base_path} was unscheduled during this write. Run it again")

    def _check_not_replaced(self, timeline: Timeline, groups: Set[tuple[str, str]]) -> None:
        """Refuse to count on file groups that a replace commit has taken, or that one which is under way says it will take.

        Partitions whose time is over are named in the inflight file of whoever takes them out, who then looks for writes, and a
        write looks for such files when it is done: one of the two sees the other. One that gives no sign of life any more is
        sealed, so that it cannot go on.
        """
        known = {*self.table.timeline.completed_times, self.time}
        for instant in timeline.of(Action.REPLACE_COMMIT):
            if instant.time in known:
                continue
            taken = {(path, file_id) for path, ids in self._taken_by(instant).items() for file_id in ids}
            if not taken & groups:
                continue
            if self._is_silent(instant):
                markers.seal(self.table.storage, self.table.base_path, instant.time)
                continue
            path, file_id = min(taken & groups)
            raise WriteConflict(
                f"{instant.file_name} of {self.table.base_path} takes file group {file_id} of partition {path!r} out of the "
                "table, which this write counts on. Run it again; if that file is of a writer that died, and failed writes "
                f"are never rolled back, run one with {o.FAILED_WRITES_POLICY.key}=EAGER first"
            )

    def _is_silent(self, instant: Instant) -> bool:
        return not instant.is_completed and is_lazy(self.table) and not is_alive(self.table, instant.time)

    def _taken_by(self, instant: Instant) -> Mapping[str, tuple[str, ...]]:
        """The file groups that a replace commit takes out, by partition, as far as it says so."""
        try:
            return read_metadata(self.table.storage, self.table.base_path, instant).replaced or {}
        except (CorruptFile, FileNotFoundError):
            if instant.is_completed:
                raise
            return {}

    def _publish(self, content: bytes) -> None:
        completed = self.instant.at(State.COMPLETED)
        storage, path = self.table.storage, instant_path(self.table.base_path, completed)
        require_pending(storage, self.table.base_path, self.instant)
        self._check_still_ours()
        self._publishing = True
        try:
            storage.write_new(path, content)
        except AlreadyExists:
            self._check_ours(path, content)
        except StorageError as e:
            raise self._unknown(path, e) from e

    def _check_ours(self, path: str, content: bytes) -> None:
        """The file may be ours, if the storage repeated a call whose answer was lost; nobody else writes the same."""
        try:
            found = self.table.storage.read(path)
        except (StorageError, FileNotFoundError) as e:
            raise self._unknown(path, e) from e
        if found != content:
            raise WriteConflict(f"{path} was published by somebody else; look at it before running the write again")

    @staticmethod
    def _unknown(path: str, error: Exception) -> CommitUnknown:
        return CommitUnknown(
            f"publishing the write failed ({error}). Look for the file {path}: if it is there the write is done, "
            "otherwise run it again"
        )

    def abandon(self) -> None:
        """Take everything back, as if the write had never begun; unless it may already have been published, or was undone."""
        if self._publishing or not self._is_still_ours:
            return
        storage, base_path = self.table.storage, self.table.base_path
        markers.seal(storage, base_path, self.time)
        announced = [marker.file_path for marker in markers.read_markers(storage, base_path, self.time)]
        for path in announced:
            storage.delete(join(base_path, path))
        if not is_lazy(self.table):
            for path in sorted({path.rpartition("/")[0] for path in announced}, reverse=True):
                withdraw_partition(storage, base_path, path, self.time)
        for state in (State.INFLIGHT,) if self._sign else (State.INFLIGHT, State.REQUESTED):
            storage.delete(instant_path(base_path, self.instant.at(state)))
        markers.delete_markers(storage, base_path, self.time)
        self._heartbeat.end()


@contextmanager
def begin(table: TableState, action: Action, content: bytes = b"") -> Iterator[Change]:
    """Take an instant for a change of the table.

    Raises:
        WriteConflict: the table is being restored.
    """
    _check_not_restoring(table)
    heartbeat, utc = Heartbeat(table), table.config.timeline_utc
    instant = request(table.storage, table.base_path, action, utc=utc, content=content, announce=heartbeat.announce)
    change = Change(table, instant, heartbeat)
    with change.at_work():
        yield change


def _ages(stats: Sequence[WriteStat]) -> dict[str, str]:
    """How old the newest and the oldest row are that a commit changes, by their event times; nothing where none has one."""
    times = EventTimes()
    for stat in stats:
        times = times.with_more(EventTimes(stat.min_event_time, stat.max_event_time))
    now = clock.now_ms()
    ages = {FRESHNESS_MS: times.freshness_ms(now), LATENCY_MS: times.latency_ms(now)}
    return {key: str(age) for key, age in ages.items() if age is not None}


def _check_not_restoring(table: TableState) -> None:
    pending = [i for i in table.timeline.of(Action.RESTORE) if not i.is_completed]
    if pending:
        raise WriteConflict(
            f"Found pending restore in active timeline of {table.base_path}: {pending[0].file_name}. Finish the restore "
            "with Table.restore, then run the write again"
        )
