"""The interface of hooks: code that is called with each commit before and after the commit is published.

Hooks run for every write, and for every table service that publishes a commit, delta commit or replace commit: compaction, log
compaction, clustering, the deletion of expired partitions. All of them go through `Change` in `commit/change.py`.

Hooks do not run for clean, rollback, restore, savepoint and archive. These publish no commit metadata, so there is no commit to
call a hook with. Clean and archive remove what no query reads any more, a savepoint changes no row, and a rollback or
restore must never be stopped by a hook, because the next write waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata
from penstock.timeline.instant import Action

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class HookContext:
    """The table and the Spark session of one commit. A hook is created with a context and may keep it."""

    #: The table with the options of the write or service. Its timeline was loaded before the commit.
    table: TableState
    #: The Spark session of the write or service; None for a service that runs without one.
    spark: SparkSession | None = None
    #: The path of the table after the commit, if the table is written elsewhere before: with save mode `overwrite`.
    final_path: str | None = None

    @property
    def path(self) -> str:
        """The path of the table after the commit."""
        return self.final_path or self.table.base_path


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


@dataclass(frozen=True)
class PublishedCommit:
    """A commit that has been published. After-commit hooks are called with it; writes and table services return it."""

    instant: str
    action: Action
    metadata: CommitMetadata
    #: The outcome of each after-commit hook, in the order in which they ran. Empty while they run.
    outcomes: tuple[HookOutcome, ...] = ()
    #: Table services that failed after the write, with the reason. Only `door/write.py` sets this.
    failed_services: tuple[str, ...] = ()

    @property
    def operation(self) -> str:
        """The operation that made the commit, by Hudi's name: UPSERT, COMPACT, CLUSTER, …"""
        return self.metadata.operation


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


#: Returns a hook for a table, or None if the table's options do not ask for it.
HookFactory = Callable[[HookContext], "Hook | None"]
