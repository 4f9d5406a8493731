"""Conflicts between a write and a pending clustering: the write changes a file group of the clustering plan.

New rows go to other file groups, so they never conflict. An update of a row in a file group of the plan is refused by default,
because the clustering would bring back the old row. `hoodie.clustering.updates.strategy` may allow the update. Then the
clustering must not complete: either the write removes its plan from the timeline at once, or the clustering finds the conflict
when it runs, and fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from penstock import options as o
from penstock.commit.change import Change
from penstock.errors import WriteConflict
from penstock.table.pending import find_pending_clusterings
from penstock.table.state import TableState

#: (partition path, file id) of a file group.
Group = tuple[str, str]
#: Removes the clustering plan with this instant time from the timeline. `door/write.py` supplies the function, because writes do
#: not import services.
Unschedule = Callable[[TableState, str], None]

_ALLOW_UPDATES = "SparkAllowUpdateStrategy"


def resolve_clustering_conflicts(table: TableState, change: Change, touched: Collection[Group], unschedule: Unschedule) -> None:
    """Check the file groups that a write changes against pending clusterings. Do nothing if no clustering plan has one of them.

    By default this raises WriteConflict. If `hoodie.clustering.updates.strategy` allows the changes, and
    `hoodie.clustering.rollback.pending.replacecommit.on.conflict` is true, the clustering plan is removed from the timeline. If
    the latter option is false, the plan stays, and the clustering fails when it runs. The changed file groups are checked again
    when the write is published (`commit/conflicts.py`).

    Args:
        table: the table, with a timeline that was loaded after the write took its instant. A clustering that is planned later has
            a later instant.
        touched: the file groups that the write changes.
        unschedule: removes the plan of a clustering from the timeline.

    Raises:
        WriteConflict: the options do not allow the changes.
    """
    pending = find_pending_clusterings(table, before=change.time)
    conflicts = sorted(set(touched) & pending.keys())
    if not conflicts:
        return
    options = table.options
    if not options[o.CLUSTERING_UPDATES_STRATEGY].endswith(_ALLOW_UPDATES):
        path, file_id = conflicts[0]
        time = pending[path, file_id]
        raise WriteConflict(
            f"Not allowed to update the clustering file group {file_id} of partition {path!r} of {table.base_path}: clustering "
            f"{time} is pending. Run it with cluster(), or give it up with unschedule_clustering({time!r}), and write again",
            other_instant=time,
        )
    if options[o.CLUSTERING_ROLLBACK_ON_CONFLICT]:
        for time in sorted({pending[group] for group in conflicts}):
            unschedule(table, time)
