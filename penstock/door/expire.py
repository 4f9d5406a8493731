"""Partitions whose time is over go, by a replace commit, as `delete_partition` would do it.

A write that is under way may be about to change rows of such a partition, which would be lost with the file groups that go. So
nothing goes while there is one, or if one was finished since the partitions were looked at: the next run looks again. The
inflight file names the file groups that go, and a write that began after the last look finds it and gives way (`Change`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock import options as o
from penstock.commit.change import begin
from penstock.hooks import PublishedCommit
from penstock.options.operation import Operation
from penstock.progress import Stages
from penstock.services.planned import waits_for_writes
from penstock.services.table_service import TableService
from penstock.services.ttl import expired_partitions
from penstock.table import TableState, reload_timeline, table_schema
from penstock.timeline.instant import Action
from penstock.write.operations import extra_metadata, insert_profile
from penstock.write.replace import groups_in, renew_rings, requested_content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "end of old partitions"


def expire_partitions(table: TableState, stages: Stages, spark: SparkSession | None = None) -> PublishedCommit | None:
    """Take partitions whose time is over out of the table; None if there are none, or somebody writes. Their files stay until
    they are cleaned."""
    table = reload_timeline(table)
    if not expired_partitions(table) or waits_for_writes(table, _NAME):
        return None
    with begin(table, Action.REPLACE_COMMIT, requested_content()) as change:
        table = reload_timeline(table)
        with stages.run("expire", f"finding partitions older than {table.options[o.TTL_DAYS]} days"):
            paths = expired_partitions(table)
        extra = {**extra_metadata(table.options), "penstock.stages": stages.to_text()}
        schema = table_schema(table) or ""
        replaced = groups_in(table, paths)
        change.start(replace(insert_profile(Operation.DELETE_PARTITION, []), replaced=replaced))
        if not replaced or waits_for_writes(reload_timeline(table), _NAME, own=change.time, since=table):
            change.abandon()
            return None
        renew_rings(table, change.time, paths)
        return change.complete(
            [], operation=Operation.DELETE_PARTITION, schema=schema, extra=extra, replaced=replaced, spark=spark
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
