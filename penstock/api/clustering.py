"""The methods of `Table` that schedule, run and unschedule clusterings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock import options as o
from penstock.api.handle import TableHandle
from penstock.api.report import Column, Commit, Commits, Report, number
from penstock.door.services import run_service
from penstock.report_table import HtmlFields
from penstock.services.clustering.service import CLUSTERING
from penstock.services.clustering.unschedule import unschedule_clustering
from penstock.services.planned import run_plan, schedule, schedule_and_run
from penstock.table.pending import list_clustering_plans
from penstock.timeline.clustering_plan import ClusteringPlan
from penstock.timeline.instant import Instant


@dataclass(frozen=True)
class PendingClustering(HtmlFields):
    """A clustering plan that is not completed, and how much it will rewrite.

    Example:
        >>> plan = table.schedule_clustering()
        >>> plan
        PendingClustering(instant='...', state='requested', groups=2, file_groups=2, new_files=2, sort_columns='')
        >>> table.unschedule_clustering(plan.instant)
    """

    instant: str
    #: `requested`, or `inflight` once its run has started.
    state: str
    #: Groups of file groups that are rewritten together.
    groups: int
    file_groups: int
    #: The number of files that the plan expects to write.
    new_files: int
    #: The columns that rows are sorted by; empty if they are not sorted.
    sort_columns: str


class PendingClusterings(Report[PendingClustering]):
    """The clustering plans that are not completed, oldest first. `Table.pending_clusterings` returns it.

    Example:
        >>> plan = table.schedule_clustering()
        >>> [(plan.state, plan.file_groups) for plan in table.pending_clusterings()]
        [('requested', 2)]
        >>> table.unschedule_clustering(plan.instant)
    """

    title = "Pending clusterings"
    columns = (
        Column("instant", lambda c: str(c.instant)),
        Column("state", lambda c: str(c.state)),
        Column("groups", number("groups"), right=True),
        Column("file groups", number("file_groups"), right=True),
        Column("new files", number("new_files"), right=True),
        Column("sorted by", lambda c: str(c.sort_columns)),
    )
    schema = pa.schema(
        [
            ("instant", pa.string()),
            ("state", pa.string()),
            ("groups", pa.int64()),
            ("file_groups", pa.int64()),
            ("new_files", pa.int64()),
            ("sort_columns", pa.string()),
        ]
    )


class ClusteringMethods(TableHandle):
    """The methods of `Table` for clustering, which rewrites small files into larger files, sorted if the options name columns."""

    def cluster(self, instant: str | None = None, options: Mapping[str, object] | None = None) -> Commits:
        """Rewrite small files into larger ones, sorted by the columns that the options name. Other processes may write.

        Pending plans are run first. Then a new plan is made and run, regardless of the number of commits since the last one.

        Args:
            instant: the instant of the pending plan to run; None: run all pending plans and a new one.
            options: options by their keys, for example `hoodie.clustering.plan.strategy.sort.columns`.

        Returns:
            One commit for each plan that was run; an empty list if no file group was eligible.

        Raises:
            OptionError: there is no pending clustering of this instant.
            Unsupported: the table has a fixed number of buckets, or the execution strategy is unknown.
            SchemaError: a sort column does not exist, or its type has no order.
            WriteConflict: another process runs the plan, or a write has changed a file group of the plan.

        Example:
            >>> done = table.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "ts"})
            >>> [(commit.operation, commit.files_written) for commit in done]
            [('cluster', 2)]
        """
        state = self._state(options or {})
        spark = self._reader()
        with run_service(CLUSTERING.title, state, spark) as stages:
            if instant is not None:
                commit = run_plan(spark, state, instant, CLUSTERING, stages)
                done = [] if commit is None else [commit]
            else:
                done = schedule_and_run(spark, state, CLUSTERING, stages, due=True)
        return Commits(Commit.of(commit.instant, commit.metadata) for commit in done)

    def schedule_clustering(
        self, *, if_due: bool = False, options: Mapping[str, object] | None = None
    ) -> PendingClustering | None:
        """Make a clustering plan and store it on the timeline. `cluster` runs it later, in this process or in another.

        Args:
            if_due: whether to make a plan only if enough commits were made since the last clustering, by the options.
            options: options by their keys.

        Returns:
            The plan; None if no file group is eligible, if no plan is due, or if a write is in progress.

        Raises:
            Unsupported: the table has a fixed number of buckets.

        Example:
            >>> plan = table.schedule_clustering()
            >>> plan.file_groups, table.schedule_clustering()
            (2, None)
            >>> table.unschedule_clustering(plan.instant)
        """
        planned = schedule(self._state(options or {}), CLUSTERING, due=not if_due)
        return next((plan for plan in self.pending_clusterings() if planned and plan.instant == planned.time), None)

    def unschedule_clustering(self, instant: str) -> None:
        """Take a clustering plan off the timeline. If a run of the plan died, also delete the files that this run wrote.

        Args:
            instant: the instant of the plan.

        Raises:
            OptionError: there is no pending clustering of this instant.
            WriteConflict: another process is running the plan.

        Example:
            >>> plan = table.schedule_clustering()
            >>> table.unschedule_clustering(plan.instant)
            >>> len(table.pending_clusterings())
            0
        """
        unschedule_clustering(self._state({}), instant)

    def pending_clusterings(self) -> PendingClusterings:
        """Return the clustering plans that are not completed, oldest first.

        Example:
            >>> len(table.pending_clusterings())
            0
        """
        state = self._state()
        return PendingClusterings(
            [_describe_plan(instant, plan) for instant, plan in list_clustering_plans(state)], state.config.name
        )


def _describe_plan(instant: Instant, plan: ClusteringPlan) -> PendingClustering:
    """Return a pending clustering plan as an entry of `PendingClusterings`, with its file groups and new files counted."""
    slices = list(plan.slices)
    return PendingClustering(
        instant=instant.time,
        state=instant.state.name.lower(),
        groups=len(plan.groups),
        file_groups=len(slices),
        new_files=sum(group.outputs for group in plan.groups),
        sort_columns=plan.parameters.get(o.CLUSTERING_SORT_COLUMNS.key, ""),
    )
