"""The verbs of `Table` that cluster: file groups are rewritten into larger ones, with their rows in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock import options as o
from penstock.api.handle import Opened
from penstock.api.report import Column, Commit, Report, number
from penstock.catalog.pending import clustering_plans
from penstock.door.services import make_stages
from penstock.services.clustering.service import CLUSTERING
from penstock.services.clustering.unschedule import unschedule_clustering
from penstock.services.planned import run, schedule, schedule_and_run
from penstock.timeline.clustering_plan import ClusteringPlan
from penstock.timeline.instant import Instant


@dataclass(frozen=True)
class PendingClustering:
    """A clustering that is planned, and not done yet.

    Example:
        >>> plan = table.schedule_clustering()
        >>> plan
        PendingClustering(instant='...', state='requested', groups=2, file_groups=2, new_files=2, sort_columns='')
        >>> table.unschedule_clustering(plan.instant)
    """

    instant: str
    #: `requested`, or `inflight` when its run has begun.
    state: str
    #: Groups of file groups that are rewritten together.
    groups: int
    file_groups: int
    #: Files that come of it, as planned.
    new_files: int
    #: The columns that rows are sorted by; empty where they are not.
    sort_columns: str


class PendingClusterings(Report[PendingClustering]):
    """Clusterings that are planned and not done yet, oldest first.

    Example:
        >>> plan = table.schedule_clustering()
        >>> [(one.state, one.file_groups) for one in table.pending_clusterings()]
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


class ClusteringVerbs(Opened):
    """What can be done about the order and the size of a table's files."""

    def cluster(self, instant: str | None = None, options: Mapping[str, object] | None = None) -> list[Commit]:
        """Rewrite small files into larger ones, sorted if the options say by what. Others may write meanwhile.

        Plans that wait are run first, then what else there is to cluster is planned and run, however few commits were made.

        Args:
            instant: only the plan of this instant.
            options: options of clustering, such as `hoodie.clustering.plan.strategy.sort.columns`, by their keys.

        Returns:
            A commit for each plan that was run.

        Raises:
            OptionError: there is no such plan.
            SchemaError: a column to sort by is not there, or has no order.
            WriteConflict: another process runs the plan, or a write has changed what it names.

        Example:
            >>> done = table.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "ts"})
            >>> [(commit.operation, commit.files_written) for commit in done]
            [('cluster', 2)]
        """
        state, spark = self._state(options or {}), self._reader()
        stages = make_stages(CLUSTERING.title, state, spark)
        if instant is not None:
            commit = run(spark, state, instant, CLUSTERING, stages)
            done = [] if commit is None else [commit]
        else:
            done = schedule_and_run(spark, state, CLUSTERING, stages, due=True)
        return [Commit.of(commit.instant, commit.metadata) for commit in done]

    def schedule_clustering(
        self, *, if_due: bool = False, options: Mapping[str, object] | None = None
    ) -> PendingClustering | None:
        """Plan a clustering, and leave running it to `cluster`, here or in another process.

        Args:
            if_due: only if the options ask for it after so many commits.
            options: options of clustering, by their keys.

        Returns:
            The plan; None where no file groups are left to plan for, or a write is under way just now.

        Example:
            >>> plan = table.schedule_clustering()
            >>> plan.file_groups, table.schedule_clustering()
            (2, None)
            >>> table.unschedule_clustering(plan.instant)
        """
        planned = schedule(self._state(options or {}), CLUSTERING, due=not if_due)
        return next((one for one in self.pending_clusterings() if planned and one.instant == planned.time), None)

    def unschedule_clustering(self, instant: str) -> None:
        """Give up a plan, and take back what a run of it that died has left.

        Raises:
            OptionError: there is no such plan.
            WriteConflict: another process runs it.

        Example:
            >>> plan = table.schedule_clustering()
            >>> table.unschedule_clustering(plan.instant)
            >>> len(table.pending_clusterings())
            0
        """
        unschedule_clustering(self._state({}), instant)

    def pending_clusterings(self) -> PendingClusterings:
        """Clusterings that are planned and not done yet, oldest first.

        Example:
            >>> len(table.pending_clusterings())
            0
        """
        state = self._state()
        return PendingClusterings([_pending(*one) for one in clustering_plans(state)], state.config.name)


def _pending(instant: Instant, plan: ClusteringPlan) -> PendingClustering:
    slices = list(plan.slices)
    return PendingClustering(
        instant=instant.time,
        state=instant.state.name.lower(),
        groups=len(plan.groups),
        file_groups=len(slices),
        new_files=sum(group.outputs for group in plan.groups),
        sort_columns=plan.parameters.get(o.CLUSTERING_SORT_COLUMNS.key, ""),
    )
