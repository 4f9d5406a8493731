"""Partitions whose time is over go, by a replace commit, as `delete_partition` would do it."""

from __future__ import annotations

from penstock import options as o
from penstock.commit.change import begin
from penstock.progress import Stages
from penstock.services.lifetime import expired_partitions
from penstock.table import TableState, reloaded, table_schema
from penstock.timeline.instant import Action
from penstock.write.overwrite import groups_in, renew_rings, requested_content
from penstock.write.pipeline import extra_metadata, insert_profile
from penstock.write.state import Commit

_OPERATION = "DELETE_PARTITION"


def expire_partitions(table: TableState, stages: Stages) -> Commit | None:
    """Take partitions whose time is over out of the table; None if there are none. Their files stay until they are cleaned."""
    if not expired_partitions(reloaded(table)):
        return None
    with begin(table, Action.REPLACE_COMMIT, requested_content()) as change:
        table = reloaded(table)
        with stages.run("expire", f"finding partitions older than {table.options[o.TTL_DAYS]} days") as notes:
            paths = expired_partitions(table)
            notes.rows = len(paths)
        change.start(insert_profile(_OPERATION, []))
        renew_rings(table, change.time, paths)
        extra = {**extra_metadata(table.options), "penstock.stages": stages.to_text()}
        schema = table_schema(table) or ""
        metadata = change.complete([], operation=_OPERATION, schema=schema, extra=extra, replaced=groups_in(table, paths))
        return Commit(change.time, change.instant.action.value, metadata)
