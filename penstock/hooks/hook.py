"""The port of hooks: code that runs before and after a commit with the commit in hand.

Which commits pass: every write, and every table service that publishes a commit, delta commit or replace commit: compaction,
log compaction, clustering, the deletion of expired partitions. All of them go through `Change` in `commit/change.py`.

Which actions do not pass: clean, rollback, restore, savepoint and archive. They publish no commit metadata, so there is no
commit to hand over. Clean and archive remove what no query reads any more, a savepoint changes no row, and a rollback or
restore must never be stopped by a hook, because the next write waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.table import TableState
from penstock.timeline.commit_file import CommitMetadata
from penstock.timeline.instant import Action

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class HookContext:
    """Where a commit happens. A hook is made for one context and may keep it."""

    #: The table with the options of the write or service. Its timeline was loaded before the commit.
    table: TableState
    #: The session that the write or service runs in; None for a service that was called without one.
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
    """What became of one hook after a commit."""

    hook: str
    #: The error; None if the hook succeeded.
    error: str | None = None


@dataclass(frozen=True)
class PublishedCommit:
    """A commit that is part of the table: what hooks after it, and callers of a write or service, get."""

    instant: str
    action: Action
    metadata: CommitMetadata
    #: What became of the hooks after the commit, in the order they ran. Empty while they run.
    outcomes: tuple[HookOutcome, ...] = ()
    #: Table services after a write that failed, with the reason. Only the door of writes fills this in.
    failed_services: tuple[str, ...] = ()

    @property
    def operation(self) -> str:
        """What made the commit, in Hudi's words: UPSERT, COMPACT, CLUSTER, …"""
        return self.metadata.operation


class Hook:
    """Something that runs before or after a commit. Override the methods that are needed; the defaults do nothing.

    The contract, tried by `tests/contract/test_hooks.py`:

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
        """Act on a commit that is part of the table."""


#: Returns a hook for a table, or None where the table's options do not ask for one.
HookFactory = Callable[[HookContext], "Hook | None"]
