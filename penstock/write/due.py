"""Table services on their own, apart from any write: which there are, and how each runs what is due.

A new one joins by its line in `DUE`. Each may run beside a writer, and finishes first what an earlier run left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import options as o
from penstock.progress import Stages
from penstock.services.archive.run import archive
from penstock.services.clean.run import clean
from penstock.services.compaction.join_logs import join_logs
from penstock.services.compaction.run import compact
from penstock.table import TableState
from penstock.write.expire import expire_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class DueService:
    """A table service that decides by the options whether there is anything to do."""

    name: str
    #: Gives what was done in a few words; None where nothing was due. Spark is there for merge-on-read tables.
    run: Callable[[SparkSession | None, TableState, Stages], str | None]
    is_for: Callable[[TableState], bool] = lambda _: True


def _clean(spark: SparkSession | None, table: TableState, stages: Stages) -> str | None:
    done = clean(spark, table, stages)
    return f"{sum(one.files_deleted for one in done):,} files deleted" if done else None


def _archive(spark: SparkSession | None, table: TableState, stages: Stages) -> str | None:
    done = archive(table)
    return f"{len(done.instants):,} instants archived" if done else None


def _compact(spark: Any, table: TableState, stages: Stages) -> str | None:
    done = compact(spark, table, stages)
    return f"{len(done):,} plans run" if done else None


def _join(spark: Any, table: TableState, stages: Stages) -> str | None:
    done = join_logs(spark, table, stages)
    return f"{len(done):,} plans run" if done else None


def _expire(spark: SparkSession | None, table: TableState, stages: Stages) -> str | None:
    done = expire_partitions(table, stages)
    return f"{len(done.metadata.replaced or {}):,} partitions deleted" if done else None


#: In the order they run in.
DUE = (
    DueService("clean", _clean),
    DueService("archive", _archive),
    DueService("compact", _compact, lambda table: table.is_merge_on_read),
    DueService("join logs", _join, lambda table: table.is_merge_on_read and table.options[o.LOG_COMPACTION_INLINE]),
    DueService("old partitions", _expire, lambda table: table.options[o.TTL_INLINE]),
)
