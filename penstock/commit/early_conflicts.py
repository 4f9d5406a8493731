"""Early conflict detection: a write stops while its tasks run, when it finds that another writer changes the same file groups.

Every writer announces its data files by markers, and names in its inflight file the file groups that it is about to change.
While the tasks of a write run, `EarlyConflicts` compares these with the pending writes of other living writers. Of two writes
that change one file group, the one with the later instant stops. So exactly one of them goes on, whichever of them looks first,
and writes that wait for others (`wait_for_writer`) never wait in a circle. The write that stops is sealed, so that its tasks
announce no more files, and its Spark jobs are cancelled. Early detection may miss a conflict: the check at the commit finds it.

The driver looks; no task pays for it. With `SimpleDirectMarkerBasedDetectionStrategy` it looks before the first task and then
every second; with `AsyncTimelineServerBasedDetectionStrategy` as often as the options of that strategy say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from penstock import clock
from penstock import options as o
from penstock.commit import markers
from penstock.commit.heartbeat import describe_writer, is_alive
from penstock.commit.modes import is_optimistic
from penstock.commit.overlap import BUCKET_DIGITS, check_overlap
from penstock.commit.pending_groups import find_announced_groups, find_groups_of_write, list_groups, list_living_writes
from penstock.errors import CorruptFile, StorageError, WriteConflict
from penstock.filegroup.markers import MarkerStyle
from penstock.filegroup.model import GroupId
from penstock.interrupt import check_interrupt
from penstock.options import Options
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata
from penstock.timeline.instant import WRITE_ACTIONS, Instant, State
from penstock.timeline.store import load_timeline
from penstock.timeline.timeline import Timeline

_ASYNC_STRATEGY = "AsyncTimelineServerBasedDetectionStrategy"
#: How often a write looks with a strategy for direct markers.
_DIRECT_PERIOD_S = 1.0
#: The first and the longest pause of a write that waits for the end of another one.
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


def detects_early(table: TableState) -> bool:
    """Whether early conflict detection is on: several writers are allowed, and the option for it is true."""
    return is_optimistic(table) and table.options[o.EARLY_CONFLICT_DETECTION]


@dataclass(frozen=True)
class _Looks:
    """When a write looks for conflicts: how long after the start of its tasks, and at which interval."""

    delay_s: float
    period_s: float

    @classmethod
    def of(cls, options: Options) -> _Looks:
        """Return when to look, by `hoodie.write.concurrency.early.conflict.detection.strategy`.

        If that option is not set, the kind of markers decides.
        """
        strategy = options[o.EARLY_CONFLICT_STRATEGY]
        is_async = options[o.MARKERS_TYPE].upper() == MarkerStyle.COLLECTED.value
        if strategy is not None:
            is_async = strategy.endswith(_ASYNC_STRATEGY)
        if not is_async:
            return cls(0.0, _DIRECT_PERIOD_S)
        return cls(options[o.CONFLICT_DETECTOR_DELAY_MS] / 1000, options[o.CONFLICT_DETECTOR_PERIOD_MS] / 1000)


class EarlyConflicts:
    """Looks for conflicts of one write while its tasks run.

    If it finds one, it seals the write (its tasks may create no more data files) and cancels the tasks.

    Args:
        profile: the workload profile of the write, which names the file groups that it is about to change.
        planned_on: the timeline on which the tasks were planned.
        cancel_tasks: cancels the tasks of the write. It is called on another thread.
    """

    def __init__(
        self,
        table: TableState,
        instant: Instant,
        profile: CommitMetadata,
        planned_on: Timeline,
        cancel_tasks: Callable[[], object],
    ) -> None:
        self._table = table
        self._instant = instant
        self._profile = profile
        self._planned_on = planned_on
        self._cancel_tasks = cancel_tasks
        self._conflict: WriteConflict | None = None
        self._over = threading.Event()

    @contextmanager
    def stop_tasks(self) -> Iterator[None]:
        """Run the tasks of the write in the `with` block. If a conflict is found, they are stopped.

        Raises:
            WriteConflict: a conflict was found. The write is sealed: its tasks may create no more data files.
        """
        looks = _Looks.of(self._table.options)
        if not looks.delay_s:
            self._look()  # before the first task: if the other writer was first, nothing is merged in vain
            self._raise_conflict(None)
        thread = threading.Thread(target=self._keep_looking, args=(looks,), daemon=True, name=f"conflicts-{self._instant.time}")
        thread.start()
        try:
            yield
        except Exception as e:
            self._end(thread)
            self._raise_conflict(e)  # else the error is what became of the cancelled tasks
            raise
        finally:
            self._end(thread)
        self._raise_conflict(None)

    def _end(self, thread: threading.Thread) -> None:
        """Make the thread that looks for conflicts end, and wait for its end."""
        self._over.set()
        thread.join()

    def _raise_conflict(self, cause: Exception | None) -> None:
        """Raise the conflict that was found, if any.

        Args:
            cause: the error of the tasks that were stopped; None: they raised none.
        """
        if self._conflict is not None:
            raise self._conflict from cause

    def _keep_looking(self, looks: _Looks) -> None:
        """Look for conflicts until one is found or the tasks have ended. Runs in a thread."""
        wait_s = looks.delay_s or looks.period_s
        while not self._over.wait(wait_s):
            wait_s = looks.period_s
            self._look()
            if self._conflict is not None:
                with suppress(Exception):  # a session that was stopped has no tasks
                    self._cancel_tasks()
                return

    def _look(self) -> None:
        """Look for a conflict once. If there is one, seal the write: its tasks may create no more data files."""
        # A look may fail, or meet a file that was just deleted or is not whole: the check at the commit decides.
        with suppress(StorageError, CorruptFile, FileNotFoundError):
            try:
                self._check()
            except WriteConflict as e:
                self._conflict = e
                markers.seal(self._table.storage, self._table.base_path, self._instant.time)

    def _check(self) -> None:
        """Raise WriteConflict if this write and an earlier pending write of a living writer change the same file group.

        With `hoodie.write.concurrency.early.conflict.check.commit.conflict`, also raise it if a commit that completed since the
        tasks were planned conflicts with this write.
        """
        table = self._table
        timeline = load_timeline(table.storage, table.base_path)
        if table.options[o.EARLY_CONFLICT_CHECK_COMMITS]:
            check_overlap(table, self._instant, self._profile, self._planned_on, timeline)
        earlier = Timeline(tuple(i for i in timeline.instants if i.time < self._instant.time and i.state is State.INFLIGHT))
        others = list_living_writes(table, earlier)
        if not others:
            return
        ours = list_groups(self._profile) | find_announced_groups(table, self._instant.time)
        for other in others:
            shared = _find_shared(table, ours, find_groups_of_write(table, other))
            if shared is not None:
                path, file_id = shared
                raise WriteConflict(
                    f"write {self._instant.time} of {table.base_path} stopped early: it changes file group {file_id} of "
                    f"partition {path!r}, as another writer does that began before it: {describe_writer(table, other)}. Run the "
                    f"write again when the other one is finished, or let it do so: set {o.CONFLICT_RETRIES.key}",
                    other_instant=other.time,
                )


def _find_shared(table: TableState, ours: Set[GroupId], theirs: Set[GroupId]) -> GroupId | None:
    """Return a file group of `ours` that another write changes too, or whose bucket it writes to; None if there is none.

    Args:
        ours: the file groups that this write changes.
        theirs: the file groups that the other write changes.
    """
    shared = ours & theirs
    if shared:
        return min(shared)
    if table.options[o.INDEX_TYPE].upper() != "BUCKET":
        return None
    buckets = {(path, file_id[:BUCKET_DIGITS]) for path, file_id in theirs}
    return min(((path, file_id) for path, file_id in ours if (path, file_id[:BUCKET_DIGITS]) in buckets), default=None)


def wait_for_writer(table: TableState, conflict: WriteConflict) -> None:
    """Wait until the write that this one lost to is over: committed, rolled back, withdrawn after a conflict of its own, or dead.

    If this write ran again while the other one is at work, it would lose again. Returns at once if the other one is committed.

    Args:
        conflict: the conflict that ended this write. It names the other write.
    """
    time = conflict.other_instant
    pause_s = _FIRST_PAUSE_S
    while time is not None:
        check_interrupt()
        timeline = load_timeline(table.storage, table.base_path)
        # A write that is withdrawn is in the state requested, and so is a plan that does not run: neither is worth a wait.
        # A write that runs again puts its log files on top of a compaction, whether that has ended or not.
        if all(i.time != time or i.state is not State.INFLIGHT for i in timeline.filter(*WRITE_ACTIONS)):
            return
        if not is_alive(table, time):
            return
        clock.sleep_s(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
