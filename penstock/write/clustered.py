"""Writes beside a clustering that is planned and not done: they leave its file groups alone, or are refused.

New rows go to other file groups. A row that is in one of the plan's may not be changed, because the clustering would bring
back what it was; or it may, and the plan is void then: whoever runs it finds out, or it is taken back at once.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock import options as o
from penstock.commit.change import Change
from penstock.errors import WriteConflict
from penstock.metadata.pending import pending_clusterings
from penstock.services.clustering.order import check_ordering
from penstock.services.clustering.resize import rings_to_resize
from penstock.services.clustering.schedule import ordering_of, sortable, unschedule_clustering
from penstock.table import TableState

Group = tuple[str, str]

_ALLOW = "SparkAllowUpdateStrategy"


def settle_updates(table: TableState, change: Change, touched: Collection[Group]) -> None:
    """Decide about changes of file groups for which a clustering is pending, before anything is written.

    Those that are changed all the same are looked at once more when the write is published (`Change`).

    Args:
        table: the table, with a timeline that was loaded after the write's instant was taken.

    Raises:
        WriteConflict: the options do not allow it.
    """
    pending = pending_clusterings(table, before=change.time)
    hit = {group: pending[group] for group in sorted(set(touched) & pending.keys())}
    if not hit:
        return
    options = table.options
    if not options[o.CLUSTERING_UPDATES_STRATEGY].endswith(_ALLOW):
        (path, file_id), time = next(iter(hit.items()))
        raise WriteConflict(
            f"Not allowed to update the clustering file group {file_id} of partition {path!r} of {table.base_path}: clustering "
            f"{time} is pending. Run it with cluster(), or give it up with unschedule_clustering({time!r}), and write again"
        )
    if options[o.CLUSTERING_ROLLBACK_ON_CONFLICT]:
        for time in sorted(set(hit.values())):
            unschedule_clustering(table, time)


def check_inline(table: TableState, avro: str) -> None:
    """Refuse a write whose clustering could not be done, before anything is written.

    Raises:
        SchemaError: rows cannot be sorted as the options say.
        OptionError, Unsupported: the table's index does not go with it.
    """
    if not clusters_after_write(table):
        return
    rings_to_resize(table)
    ordering = ordering_of(table.options)
    if ordering is not None:
        check_ordering(ordering, sortable(avro))


def clusters_after_write(table: TableState) -> bool:
    """Whether a write clusters, or plans a clustering. Under `hoodie.clustering.async.enabled` another process does both."""
    options = table.options
    return options[o.TABLE_SERVICES_ENABLED] and (options[o.CLUSTERING_INLINE] or options[o.CLUSTERING_SCHEDULE_INLINE])
