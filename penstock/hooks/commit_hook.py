"""The interface of hooks: code that is called with each commit before and after the commit is published.

Hooks run for every write, and for every table service that publishes a commit, delta commit or replace commit: compaction, log
compaction, clustering, the deletion of expired partitions. All of them go through `Change` in `commit/change.py`.

After a write, `after_commit` runs when the table services that follow the write have run, as in Hudi.

Hooks do not run for clean, rollback, restore, savepoint and archive. These publish no commit metadata, so there is no commit to
call a hook with. Clean and archive remove what no query reads any more, a savepoint changes no row, and a rollback or
restore must never be stopped by a hook, because the next write waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.progress import Stages
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata
from penstock.timeline.instant import Action

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: Reads a table with a session: as it would be after a commit that is not published yet; with None, as it is now.
TableReader: TypeAlias = Callable[["SparkSession", TableState, "PendingCommit | None"], "DataFrame"]


@dataclass(frozen=True)
class HookContext:
    """The table and the Spark session of one commit. A hook is created with a context and may keep it."""

    #: The table with the options of the write or service. Its timeline was loaded before the commit.
    table: TableState
    #: The Spark session of the write or service; None for a service that runs without one.
    spark: SparkSession | None = None
    #: The path of the table after the commit, if the table is written elsewhere before: with save mode `overwrite`. Like the path
    #: of `table`, it is a path for the methods of the storage, without scheme and bucket.
    final_path: str | None = None
    #: The stages of the write or service, with their times; None for a service that measures none.
    stages: Stages | None = None
    #: Reads the table as it is now, or as it would be after a pending commit. None for a table service that changes no rows.
    read_table: TableReader | None = None

    @property
    def final_table(self) -> TableState:
        """The table with the path that it will have after the commit: `final_path` if it is set, otherwise its own."""
        return replace(self.table, base_path=self.final_path or self.table.base_path)

    @property
    def path(self) -> str:
        """The path at which the table will be after the commit, as users write it: with scheme and bucket if it is remote."""
        return self.final_table.uri


@dataclass(frozen=True)
class PendingCommit:
    """A commit that is about to be published. Its data files are on storage; no query reads them yet."""

    instant: str
    #: The action of the completed instant: a compaction is a COMMIT, a log compaction a DELTA_COMMIT.
    action: Action
    #: Exactly what the completed file will hold: write stats with the paths of the new files, schema, extra metadata.
    metadata: CommitMetadata

    @property
    def operation(self) -> str:
        """The operation that made the commit, by Hudi's name: UPSERT, COMPACT, CLUSTER, …"""
        return self.metadata.operation


@dataclass(frozen=True)
class HookOutcome:
    """The result of one after-commit hook: the hook's name, and its error if it failed."""

    hook: str
    #: Class name and first line of the error; None if the hook succeeded.
    error: str | None = None
    #: How long the hook took. Two outcomes of different durations are equal.
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class ServiceOutcome:
    """The result of one table service that ran after a write: what it did, that it was not due, or why it failed."""

    service: str
    #: What failed if the service failed, as a noun: `cleaning`.
    noun: str
    #: What the service did, in words; None if it was not due, or failed.
    done: str | None = None
    #: Why the service failed; None if it did not.
    error: str | None = None
    #: How long the service took. Two outcomes of different durations are equal.
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class LockUse:
    """How one commit used the table's lock: seconds that it waited for the lock, seconds that it held it, and attempts.

    A commit holds the lock while it is checked and published.
    """

    waited_s: float
    held_s: float
    #: How many times the writer tried to acquire the lock.
    attempts: int


@dataclass(frozen=True)
class PublishedCommit:
    """A commit that has been published. After-commit hooks are called with it; writes and table services return it."""

    instant: str
    action: Action
    metadata: CommitMetadata
    #: The outcomes of what followed the commit, in the order in which it ran: table services after a write, after-commit hooks.
    follow_ups: tuple[HookOutcome | ServiceOutcome, ...] = ()
    #: Whether the write had nothing to publish and was undone, so that its instant does not exist. No hook runs then.
    is_undone: bool = False
    #: How the lock was used; None for a single writer, which takes none. Two commits that waited differently are equal.
    lock: LockUse | None = field(default=None, compare=False)
    #: How long it took before the commit was published to delete data files of lost task attempts.
    finalized_s: float = field(default=0.0, compare=False)

    @property
    def operation(self) -> str:
        """The operation that made the commit, by Hudi's name: UPSERT, COMPACT, CLUSTER, …"""
        return self.metadata.operation

    @property
    def outcomes(self) -> tuple[HookOutcome, ...]:
        """The outcome of each after-commit hook, in the order in which they ran. Empty while they run."""
        return tuple(step for step in self.follow_ups if isinstance(step, HookOutcome))

    @property
    def failed_services(self) -> tuple[str, ...]:
        """One text for each table service that failed after the write: what failed, and why, such as `cleaning: …`."""
        services = [step for step in self.follow_ups if isinstance(step, ServiceOutcome)]
        return tuple(f"{service.noun}: {service.error}" for service in services if service.error is not None)


class Hook:
    """Code that runs before and after each commit. Override one or both methods; the defaults do nothing.

    The contract, checked by `tests/contract/test_hooks.py`:

    - An error of `before_commit` stops the commit. A write is undone. The run of a table service's plan is undone too, but the
      plan stays, and the next run calls the hook again for the same instant.
    - A commit that passed its hooks may still fail, for example with a WriteConflict. Conflicts are checked after
      `before_commit`, so concurrent writes are found however long the hook takes.
    - An error of `after_commit` becomes a warning and a `HookOutcome`. The commit stays published.
    - A hook may be called twice for one commit. So its effects outside the table must be safe to repeat; the instant time
      identifies the commit.
    - If the process dies after the commit was published, `after_commit` may not be called at all.
    - `before_commit` and `after_commit` of one commit may be called on different objects: keep no state between the two.
    """

    def before_commit(self, commit: PendingCommit) -> None:
        """Check or report a commit that is about to be published. Raise an error to stop the commit."""

    def after_commit(self, commit: PublishedCommit) -> None:
        """React to a commit that was published, for example notify another system. An error does not undo the commit."""


#: Returns a hook for a table, or several hooks by name; None if the table's options do not ask for it. Raises OptionError if they
#: ask for it and are wrong. Writes call all factories before they write anything, and again before and after the commit.
HookFactory = Callable[[HookContext], "Hook | Mapping[str, Hook] | None"]
