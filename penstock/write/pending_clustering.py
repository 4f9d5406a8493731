"""Writes beside a clustering that is planned and not done: they leave its file groups alone, or are refused.

New rows go to other file groups. A row that is in one of the plan's may not be changed, because the clustering would bring
back what it was; or it may, and the plan is void then: whoever runs it finds out, or it is taken back at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from penstock import options as o
from penstock.catalog.pending import pending_clusterings
from penstock.commit.change import Change
from penstock.errors import WriteConflict
from penstock.table import TableState

Group = tuple[str, str]
#: Takes a clustering plan off the timeline. Given by the door, because writes do not import services.
Unschedule = Callable[[TableState, str], None]

_ALLOW = "SparkAllowUpdateStrategy"


def settle_updates(table: TableState, change: Change, touched: Collection[Group], unschedule: Unschedule) -> None:
    """Decide about changes of file groups for which a clustering is pending, before anything is written.

    Those that are changed all the same are looked at once more when the write is published (`Change`).

    Args:
        table: the table, with a timeline that was loaded after the write's instant was taken.
        unschedule: takes the plan of a clustering off the timeline.

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
            unschedule(table, time)
