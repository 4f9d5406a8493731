"""Replace commits of writes: file groups are taken out of the table, and new ones may take their place.

A replace commit names the file groups that readers ignore from then on. Their files stay until they are cleaned. Before the
commit is published nothing changes for a reader. A clustering is a replace commit too, but begins with a plan
(`services/clustering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from penstock.catalog.listing import is_partition, list_merged_slices
from penstock.commit.change import Change, begin
from penstock.formats.avro.container import write_container
from penstock.table import TableState
from penstock.timeline.instant import Action

#: File ids by partition path.
ReplacedGroups = dict[str, tuple[str, ...]]


def begin_replace(table: TableState) -> AbstractContextManager[Change]:
    """Begin a change that replaces file groups, without a plan.

    Hudi expects a record in the requested file of a replace commit, even where the record holds no clustering plan.
    """
    no_plan = {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": 1}
    return begin(table, Action.REPLACE_COMMIT, write_container("HoodieRequestedReplaceMetadata", no_plan))


def list_groups(table: TableState, partitions: Sequence[str] | None) -> ReplacedGroups:
    """Return the file groups that readers see, by partition path: of some partitions, or of all.

    A named partition without file groups is in the result too: the commit says that it was replaced.
    """
    existing = None if partitions is None else [path for path in partitions if is_partition(table, path)]
    groups: ReplacedGroups = dict.fromkeys(partitions or (), ())
    for path, slices in list_merged_slices(table, existing).items():
        groups[path] = tuple(dict.fromkeys(file_slice.file_id for file_slice in slices))
    return groups
