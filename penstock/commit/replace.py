"""Replace commits of writes (insert_overwrite, delete_partition): replace file groups, with or without new ones.

A replace commit names the file groups that readers ignore once it is published. Their files stay until they are cleaned. A
clustering is a replace commit too, but begins with a plan (`services/clustering`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from penstock.commit.begin import begin
from penstock.commit.change import Change
from penstock.errors import TableChanged
from penstock.formats.avro.container import write_container
from penstock.table.listing import is_partition, list_merged_slices
from penstock.table.state import TableState
from penstock.timeline.instant import Action

#: File ids by partition path.
ReplacedGroups = dict[str, tuple[str, ...]]


def begin_replace(table: TableState) -> AbstractContextManager[Change]:
    """Begin a write that replaces file groups. Return a context manager, which yields the write's `Change`.

    The `with` block writes the data files and publishes the commit. Hudi expects a record in the requested file of every replace
    commit. For a write, the record holds no clustering plan.
    """
    no_plan = {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": 1}
    return begin(table, Action.REPLACE_COMMIT, write_container("HoodieRequestedReplaceMetadata", no_plan))


def list_replaced_groups(table: TableState, partitions: Sequence[str] | None) -> ReplacedGroups:
    """Return the file groups that a write of these partitions replaces: file ids by partition path.

    These are all file groups that a snapshot query reads now.

    Args:
        partitions: paths of partitions; None for all. A named partition without file groups is in the result too, with no file
            ids, because the commit records that it was replaced.

    Raises:
        TableChanged: an instant was archived since the timeline was loaded.
    """
    existing = None if partitions is None else [path for path in partitions if is_partition(table, path)]
    groups: ReplacedGroups = dict.fromkeys(partitions or (), ())
    try:
        slices_by_path = list_merged_slices(table, existing)
    except FileNotFoundError as e:
        raise TableChanged(f"an instant of {table.base_path} was archived just now. Run the write again") from e
    for path, slices in slices_by_path.items():
        groups[path] = tuple(dict.fromkeys(file_slice.file_id for file_slice in slices))
    return groups
