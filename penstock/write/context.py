"""`WriteContext`: what every stage of a write needs. `door/write.py` makes it and passes it to an operation (`operations.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import SparkSession

from penstock.commit.change import CheckCommits
from penstock.hooks import TableReader
from penstock.index import Index, load_index
from penstock.keys.partition_fields import partition_columns
from penstock.options import Options
from penstock.progress import Stages
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.instant import Action
from penstock.write.pending_clustering import Unschedule
from penstock.write.rows.schema import PreparedRows
from penstock.write.settings import WriteSettings


@dataclass(frozen=True)
class CommitAddition:
    """What the code that starts a write adds to it: entries of the extra metadata, and checks that may stop it by an error.

    One check runs when the write begins, the other one just before its commit is published. A stream adds the number of its
    batch, and lets both check that the table has no commit of this batch yet.
    """

    #: Entries for the commit's extra metadata.
    extra: Mapping[str, str] = field(default_factory=dict)
    #: Called with the table as the write found it, each time that the write begins.
    check_table: Callable[[TableState], None] | None = None
    #: Called with the commits that completed since the write was planned, during the transaction that publishes the commit.
    check_commits: CheckCommits | None = None


@dataclass(frozen=True)
class WriteContext:
    """Everything that the stages of one write share: its Spark session, table, incoming rows, settings and progress report."""

    spark: SparkSession
    table: TableState
    settings: WriteSettings
    prepared: PreparedRows
    stages: Stages
    #: Removes the plan of a clustering from the timeline. Called if the options let the write change file groups of the plan.
    unschedule: Unschedule
    #: The table's schema for which the rows were prepared, as JSON; None: the table had none.
    base_schema: str | None = None
    #: Whether the incoming rows were read from the table itself, so that a concurrent commit may change them.
    reads_table: bool = False
    #: Reads the table for validators, also as it would be after the commit; None for a dry run.
    read_table: TableReader | None = None
    #: What the caller of the write adds to the commit.
    addition: CommitAddition = field(default_factory=CommitAddition)

    @property
    def options(self) -> Options:
        """The options of the write, completed by the properties of the table."""
        return self.settings.options

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the columns that the partition path is made of; empty for a table without partitions."""
        return partition_columns(self.settings.keys.partition_path_fields)

    @property
    def action(self) -> Action:
        """The timeline action of a write that replaces no file groups: `deltacommit` for merge-on-read, otherwise `commit`."""
        return Action.DELTA_COMMIT if self.table.is_merge_on_read else Action.COMMIT

    def with_current_timeline(self) -> WriteContext:
        """Return a copy of the context with the table's timeline loaded again. The copy loads its index again too.

        Called after the write has taken its instant. A table service that is planned after that has a later instant, so the
        loaded timeline has all plans that the write must respect.
        """
        return replace(self, table=reload_timeline(self.table))

    @cached_property
    def index(self) -> Index:
        """The index in the options, with its metadata read from the table (for example the hash rings of the bucket index)."""
        return load_index(self.table, self.options)
