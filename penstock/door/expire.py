"""Deletes partitions that are older than the TTL option allows, by a replace commit, as `delete_partition` does.

A concurrent write may be about to change rows of an expired partition, and its changes would be lost with the file groups. So no
partition is deleted while a write is pending, or if a write completed since the partitions were listed; the next run tries again.
A write that begins after the last check finds the inflight file, which names the file groups, and raises WriteConflict
(`commit/conflicts.py` makes this check).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock import options as o
from penstock.commit.change import STAGES
from penstock.commit.replace import begin_replace, list_replaced_groups
from penstock.hooks import PendingCommit, PublishedCommit
from penstock.options.operation import Operation
from penstock.progress import Stages, format_count
from penstock.services.stored_plans import waits_for_writes
from penstock.services.table_service import TableService
from penstock.services.ttl import expired_partitions
from penstock.table.state import TableState, read_table_schema, reload_timeline
from penstock.timeline.commit_file import make_workload_profile
from penstock.write.publish import extra_metadata
from penstock.write.replaced_partitions import renew_buckets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME = "end of old partitions"


def expire_partitions(table: TableState, stages: Stages, spark: SparkSession | None = None) -> PublishedCommit | None:
    """Take the expired partitions out of the table, in one replace commit. Their data files stay until a clean deletes them.

    Args:
        spark: reads the table for validators; None is enough if the options name none.

    Returns:
        The replace commit; None if no partition has expired, or if another write is pending or has just completed. Then the next
            run tries again.

    Raises:
        ValidationFailed: a validator of the options refuses the commit, which takes rows out of the table.
    """
    table = reload_timeline(table)
    if not expired_partitions(table) or waits_for_writes(table, _NAME):
        return None
    with begin_replace(table) as change:
        table = reload_timeline(table)
        with stages.run("expire", f"finding partitions older than {format_count(table.options[o.TTL_DAYS], 'day')}"):
            partitions = expired_partitions(table)
        replaced = list_replaced_groups(table, partitions)
        # The inflight file must name the groups before the last check for writes: if a write begins now, either this check
        # finds the write, or the write finds the inflight file.
        change.start(replace(make_workload_profile(Operation.DELETE_PARTITION, {}, []), replaced=replaced))
        if not replaced:
            change.abandon()
            stages.give_up("because no partition is left to delete")
            return None
        if waits_for_writes(reload_timeline(table), _NAME, own=change.time, since=table):
            change.abandon()
            stages.give_up("because another process writes; the next run tries again")
            return None
        renew_buckets(table, change.time, partitions)
        return change.complete(
            [],
            operation=Operation.DELETE_PARTITION,
            schema=read_table_schema(table) or "",
            extra={**extra_metadata(table.options), STAGES: stages.to_text()},
            replaced=replaced,
            spark=spark,
            stages=stages,
            read_table=_read_preview,
        )


def _read_preview(spark: SparkSession, table: TableState, commit: PendingCommit | None) -> DataFrame:
    """Return a snapshot of the table as it would be after the commit. Called only if the options name validators."""
    from penstock.door.preview import read_preview  # needs pyspark, which a process that expires partitions may lack

    return read_preview(spark, table, commit)


class ExpirePartitions(TableService):
    """The table service that takes expired partitions out of the table, after writes or in `Table.run_due`."""

    name = "old partitions"
    title = "expire partitions of"
    failure_noun = "deleting old partitions"
    raises_after_write = True

    def follows_write(self, table: TableState) -> bool:
        """Whether the service runs after a write: table services are enabled, and `hoodie.partition.ttl.inline` is true."""
        return table.options[o.TABLE_SERVICES_ENABLED] and table.options[o.TTL_INLINE]

    def may_be_due(self, table: TableState) -> bool:
        """Whether to call `run_due` outside a write: `hoodie.partition.ttl.inline` is true."""
        return table.options[o.TTL_INLINE]

    def needs_spark(self, table: TableState) -> bool:
        """Whether the service needs a Spark session: the options name validators, which read the table."""
        return bool(table.options[o.PRECOMMIT_VALIDATORS])

    def run_due(self, spark: Any, table: TableState, stages: Stages) -> str | None:
        """Take expired partitions out of the table.

        Returns:
            How many partitions were deleted, in words for a report; None if none was deleted.
        """
        done = expire_partitions(table, stages, spark)
        return f"{format_count(len(done.metadata.replaced or {}), 'partition')} deleted" if done else None


EXPIRE_PARTITIONS = ExpirePartitions()
