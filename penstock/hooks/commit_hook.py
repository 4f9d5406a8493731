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
    """The table and Spark session of a commit. A hook is created for one context and may keep it."""

    #: The table with the options of the write or service. Its timeline was loaded before the commit.
    table: TableState
    #: The Spark session of the write or service; None for a service that runs without one.
    spark: SparkSession | None = None


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
        """What made the commit, in Hudi's words: UPSERT, COMPACT, CLUSTER, …"""
        return self.metadata.operation


@dataclass(frozen=True)
class HookOutcome:
    """Whether one hook succeeded after a commit."""

    hook: str
    #: Class name and first line of the error; None if the hook succeeded.
    error: str | None = None


@dataclass(frozen=True)
class PublishedCommit:
    """A commit that has been published. After-commit hooks receive it, and writes and table services return it."""

    instant: str
    action: Action
    metadata: CommitMetadata
    #: The outcome of each after-commit hook, in the order in which they ran. Empty while they run.
    outcomes: tuple[HookOutcome, ...] = ()
    #: Table services that failed after the write, with the reason. Only `door/write.py` sets this.
    failed_services: tuple[str, ...] = ()

    @property
    def operation(self) -> str:
        """What made the commit, in Hudi's words: UPSERT, COMPACT, CLUSTER, …"""
        return self.metadata.operation


class Hook:
    """Code that runs before or after a commit. Override the methods that are needed; the defaults do nothing.

    The contract, checked by `tests/contract/test_hooks.py`:

    - Before the commit, an error stops it. A write is taken back as if it had never begun. The run of a table service's plan
      is taken back too, but the plan stays, and the next run calls the hook again for the same instant.
    - A commit that passed its hooks may still fail, for example with a WriteConflict. Conflicts are checked after the hooks,
      so a slow hook does not let a concurrent write slip in unseen.
    - After the commit, an error is a warning and a `HookOutcome`. Nothing undoes the commit.
    - A hook may be called twice for one commit, and a process that dies between publishing and the call does not call it at
      all. What a hook does elsewhere must therefore be safe to repeat; the instant tells commits apart.
    - The calls before and after one commit may go to different objects: keep no state between the two.
    """

    def before_commit(self, commit: PendingCommit) -> None:
        """Raise an error if the commit must not be published."""

    def after_commit(self, commit: PublishedCommit) -> None:
        """Act on a published commit."""


#: Returns a hook for a table, or None if the table's options do not ask for it.
HookFactory = Callable[[HookContext], "Hook | None"]
