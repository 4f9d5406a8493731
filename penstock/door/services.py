"""Table services on their own, apart from any write: which there are, and how each runs what is due.

A new one joins by its line in `DUE`. Each may run beside a writer, and finishes first what an earlier run left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import options as o
from penstock.door.expire import expire_partitions
from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.services.clustering.run import cluster, run_waiting
from penstock.services.compaction.run import compact
from penstock.services.log_compaction.run import join_logs
from penstock.spread.session import name_jobs
from penstock.table import TableState
from penstock.timeline.instant import Action

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stages_of(service: str, table: TableState, spark: SparkSession | None) -> Stages:
    """The stages of a table service, shown under its name and the table's, as Spark's jobs are."""
    around = partial(name_jobs, spark) if spark else None
    return Stages(f"{service} {table.config.name}", table.options[o.PROGRESS], around)


@dataclass(frozen=True)
class DueService:
    """A table service that decides by the options whether there is anything to do."""

    name: str
    #: Gives what was done in a few words; None where nothing was due.
    run: Callable[[SparkSession | None, TableState, Stages], str | None]
    is_for: Callable[[TableState], bool] = lambda _: True
    #: Whether it may have work for Spark's tasks; others are given no session.
    uses_spark: bool = False


def _clean(spark: SparkSession | None, table: TableState, stages: Stages) -> str | None:
    done = clean(spark, table, stages)
    return f"{sum(one.files_deleted for one in done):,} files deleted" if done else None


def _archive(spark: SparkSession | None, table: TableState, stages: Stages) -> str | None:
    done = archive(table, stages)
    return f"{len(done.instants):,} instants archived" if done else None


def _compact(spark: Any, table: TableState, stages: Stages) -> str | None:
    done = compact(spark, table, stages)
    return f"{len(done):,} plans run" if done else None


def _join(spark: Any, table: TableState, stages: Stages) -> str | None:
    done = join_logs(spark, table, stages)
    return f"{len(done):,} plans run" if done else None


def _cluster(spark: Any, table: TableState, stages: Stages) -> str | None:
    done = cluster(spark, table, stages) if _asks_for_clustering(table) else run_waiting(spark, table, stages)
    return f"{len(done):,} plans run" if done else None


def _asks_for_clustering(table: TableState) -> bool:
    """Whether new plans are made: there is no number of commits after which every table wants one."""
    return any(table.options[one] for one in (o.CLUSTERING_INLINE, o.CLUSTERING_SCHEDULE_INLINE, o.CLUSTERING_ASYNC))


def _may_cluster(table: TableState) -> bool:
    """Whether there may be something to cluster; a pending replace commit may be a plan, which is not read for that."""
    return _asks_for_clustering(table) or any(not i.is_completed for i in table.timeline.of(Action.REPLACE_COMMIT))


def _expire(spark: SparkSession | None, table: TableState, stages: Stages) -> str | None:
    done = expire_partitions(table, stages, spark)
    return f"{len(done.metadata.replaced or {}):,} partitions deleted" if done else None


#: In the order they run in.
DUE = (
    DueService("clean", _clean),
    DueService("archive", _archive),
    DueService("compact", _compact, lambda table: table.is_merge_on_read, uses_spark=True),
    DueService(
        "join logs", _join, lambda table: table.is_merge_on_read and table.options[o.LOG_COMPACTION_INLINE], uses_spark=True
    ),
    DueService("cluster", _cluster, _may_cluster, uses_spark=True),
    DueService("old partitions", _expire, lambda table: table.options[o.TTL_INLINE]),
)


def services_for(table: TableState) -> list[DueService]:
    """Those that the options, and the kind of the table, ask to look at."""
    return [service for service in DUE if service.is_for(table)]


def needs_spark(table: TableState) -> bool:
    """Whether a service that is to be looked at may have work for Spark's tasks."""
    return any(service.uses_spark for service in services_for(table))
