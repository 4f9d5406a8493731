"""The methods of `Table` that schedule, run, unschedule and repair compactions of merge-on-read tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.api.handle import TableHandle
from penstock.api.report import Column, Commit, Commits, Report, number, size
from penstock.door.services import run_service
from penstock.report_table import HtmlFields
from penstock.services.compaction.service import COMPACTION
from penstock.services.compaction.unschedule import repair, unschedule
from penstock.services.log_compaction.service import LOG_COMPACTION
from penstock.services.plan_metrics import LOG_BYTES
from penstock.services.planned import run_plan, schedule, schedule_and_run
from penstock.table.pending import list_compaction_plans
from penstock.timeline.compaction_plan import CompactionPlan
from penstock.timeline.instant import Instant


@dataclass(frozen=True)
class PendingCompaction(HtmlFields):
    """A compaction plan that is not completed, and how much it will merge.

    Example:
        >>> mor.schedule_compaction()
        PendingCompaction(instant='...', state='requested', file_groups=1, log_files=1, log_bytes=...)
    """

    instant: str
    #: `requested`, or `inflight` once its run has started.
    state: str
    file_groups: int
    log_files: int
    log_bytes: int


class PendingCompactions(Report[PendingCompaction]):
    """The compaction plans that are not completed, oldest first. `Table.pending_compactions` returns it.

    Example:
        >>> _ = mor.schedule_compaction()
        >>> [(plan.state, plan.file_groups) for plan in mor.pending_compactions()]
        [('requested', 1)]
    """

    title = "Pending compactions"
    columns = (
        Column("instant", lambda c: str(c.instant)),
        Column("state", lambda c: str(c.state)),
        Column("file groups", number("file_groups"), right=True),
        Column("log files", number("log_files"), right=True),
        Column("log size", size("log_bytes"), right=True),
    )
    schema = pa.schema(
        [
            ("instant", pa.string()),
            ("state", pa.string()),
            ("file_groups", pa.int64()),
            ("log_files", pa.int64()),
            ("log_bytes", pa.int64()),
        ]
    )


class CompactionMethods(TableHandle):
    """The methods of `Table` for compaction (merges log files into base files) and log compaction (joins small log blocks)."""

    def compact(self, instant: str | None = None, options: Mapping[str, object] | None = None) -> Commits:
        """Merge the log files of a merge-on-read table into base files. Other processes may write at the same time.

        Pending plans are run first. Then a plan for the remaining log files is made and run, even if no compaction is due by
        the options.

        Args:
            instant: the instant of the pending plan to run; None: run all pending plans and a new one.
            options: options by their keys, for example `hoodie.compaction.strategy`.

        Returns:
            One commit for each plan that was run; an empty list if there are no log files to compact.

        Raises:
            Unsupported: the table is copy-on-write.
            OptionError: there is no pending compaction of this instant.
            WriteConflict: another process runs the plan at the same time.

        Example:
            >>> [(commit.operation, commit.rows_updated) for commit in mor.compact()]
            [('compact', 1)]
            >>> mor.compact()
            []
        """
        state = self._state(options or {})
        spark = self._reader()
        with run_service(COMPACTION.title, state, spark) as stages:
            if instant is not None:
                commit = run_plan(spark, state, instant, COMPACTION, stages)
                done = [] if commit is None else [commit]
            else:
                done = schedule_and_run(spark, state, COMPACTION, stages, due=True)
        return Commits(Commit.of(commit.instant, commit.metadata) for commit in done)

    def compact_logs(self, options: Mapping[str, object] | None = None) -> Commits:
        """Join the log blocks of file groups with many log blocks into larger ones. Base files are not changed.

        Nothing is done while a write is in progress.

        Args:
            options: options by their keys; `hoodie.log.compaction.blocks.threshold` is the least number of blocks.

        Returns:
            One commit for each plan that was run.

        Raises:
            Unsupported: the table is copy-on-write.

        Example:
            >>> _ = mor.upsert(trips.where("id = 'c'").selectExpr("id", "city", "ts + 9 as ts", "fare"))
            >>> [commit.operation for commit in mor.compact_logs({"hoodie.log.compaction.blocks.threshold": 2})]
            ['log_compact']
        """
        state = self._state(options or {})
        spark = self._reader()
        with run_service(LOG_COMPACTION.title, state, spark) as stages:
            done = schedule_and_run(spark, state, LOG_COMPACTION, stages, due=True)
        return Commits(Commit.of(commit.instant, commit.metadata) for commit in done)

    def schedule_compaction(
        self, *, if_due: bool = False, options: Mapping[str, object] | None = None
    ) -> PendingCompaction | None:
        """Make a compaction plan and store it on the timeline. `compact` runs it later, in this process or in another.

        Args:
            if_due: whether to make a plan only if enough commits or time passed since the last compaction, by the options.
            options: options by their keys.

        Returns:
            The plan; None if there are no log files to compact, if no plan is due, or if a write is in progress.

        Raises:
            Unsupported: the table is copy-on-write.

        Example:
            >>> plan = mor.schedule_compaction()
            >>> plan.file_groups, mor.schedule_compaction()
            (1, None)
        """
        planned = schedule(self._state(options or {}), COMPACTION, due=not if_due)
        return next((plan for plan in self.pending_compactions() if planned and plan.instant == planned.time), None)

    def unschedule_compaction(self, instant: str) -> None:
        """Take a compaction plan off the timeline. Its run must not have started, and no other process may write to the table.

        Args:
            instant: the instant of the plan.

        Raises:
            OptionError: there is no pending compaction of this instant, its run has started, or a savepoint needs its log files.
            WriteConflict: a write is in progress.
            Unsupported: the table is copy-on-write.

        Example:
            >>> plan = mor.schedule_compaction()
            >>> mor.unschedule_compaction(plan.instant)
            >>> len(mor.pending_compactions())
            0
        """
        unschedule(self._state({}), instant)

    def repair_compaction(self, instant: str) -> list[str]:
        """Undo the renaming of log files by another engine that died while it unscheduled a compaction.

        No other process may write.

        Args:
            instant: the instant of the compaction plan, which is still pending.

        Returns:
            The new names of the log files that were renamed.

        Raises:
            OptionError: there is no pending compaction of this instant.
            CorruptFile: a file that the plan names is missing.
            Unsupported: the table is copy-on-write.

        Example:
            >>> mor.repair_compaction(mor.schedule_compaction().instant)
            []
        """
        return repair(self._state({}), instant)

    def pending_compactions(self) -> PendingCompactions:
        """Return the compaction plans that are not completed, oldest first.

        Example:
            >>> len(mor.pending_compactions())
            0
        """
        state = self._state()
        return PendingCompactions(
            [_describe_plan(instant, plan) for instant, plan in list_compaction_plans(state)], state.config.name
        )


def _describe_plan(instant: Instant, plan: CompactionPlan) -> PendingCompaction:
    """Return a pending compaction plan as an entry of `PendingCompactions`, with its file groups and log files counted."""
    return PendingCompaction(
        instant=instant.time,
        state=instant.state.name.lower(),
        file_groups=len(plan.operations),
        log_files=sum(len(operation.log_files) for operation in plan.operations),
        log_bytes=int(sum(operation.metrics.get(LOG_BYTES, 0) for operation in plan.operations)),
    )
