"""Delete partitions that are older than the table keeps rows, by a replace commit, as `delete_partition` does.

A concurrent write may be about to change rows of such a partition, and its changes would be lost with the file groups. So
partitions are not deleted while a write is pending, or if one completed since the partitions were listed; the next run tries
again. A write that begins after the last check finds the inflight file, which names the file groups, and raises WriteConflict
(`commit/conflicts.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock import options as o
from penstock.commit.replace import begin_replace, list_groups
from penstock.hooks import PublishedCommit
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.services.planned import waits_for_writes
from penstock.services.table_service import TableService
from penstock.services.ttl import expired_partitions
from penstock.table import TableState, read_table_schema, reload_timeline
from penstock.timeline.commit_file import make_workload_profile
from penstock.write.publish import extra_metadata
from penstock.write.replaced_partitions import renew_buckets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "end of old partitions"


def expire_partitions(table: TableState, stages: Stages, spark: SparkSession | None = None) -> PublishedCommit | None:
    """Delete expired partitions; return None if there are none, or if a concurrent write is in the way.

    The files of the partitions stay until they are cleaned.
    """
    table = reload_timeline(table)
    if not expired_partitions(table) or waits_for_writes(table, _NAME):
        return None
    with begin_replace(table) as change:
        table = reload_timeline(table)
        with stages.run("expire", f"finding partitions older than {table.options[o.TTL_DAYS]} days"):
            partitions = expired_partitions(table)
        replaced = list_groups(table, partitions)
        # The inflight file names the groups before the last check for writes: of a write that begins now, and of this change, at
        # least one sees the other.
        change.start(replace(make_workload_profile(Operation.DELETE_PARTITION, {}, []), replaced=replaced))
        if not replaced or waits_for_writes(reload_timeline(table), _NAME, own=change.time, since=table):
            change.abandon()
            return None
        renew_buckets(table, change.time, partitions)
        return change.complete(
            [],
            operation=Operation.DELETE_PARTITION,
            schema=read_table_schema(table) or "",
            extra={**extra_metadata(table.options), "penstock.stages": stages.to_text()},
            replaced=replaced,
            spark=spark,
        )


class ExpirePartitions(TableService):
    """Partitions whose time is over are taken out of the table."""

    name = "old partitions"
    title = "expire partitions of"
    failure_noun = "deleting old partitions"
    raises_after_write = True

    def follows_write(self, table: TableState) -> bool:
        """Whether the options ask for it after a write."""
        return table.options[o.TABLE_SERVICES_ENABLED] and table.options[o.TTL_INLINE]

    def may_be_due(self, table: TableState) -> bool:
        """Whether the options ask for it at all."""
        return table.options[o.TTL_INLINE]

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Take partitions whose time is over out of the table."""
        done = expire_partitions(table, stages, spark)
        return f"{len(done.metadata.replaced or {}):,} partitions deleted" if done else None


EXPIRE_PARTITIONS = ExpirePartitions()
