"""Finds the file slices that a clustering plan names, and checks that no write has changed their file groups since.

The check is made twice: before the run begins, by listing files; and right before the commit is published, by reading the
timeline.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.commit.modes import is_optimistic
from penstock.commit.pending_groups import find_groups_of_write
from penstock.errors import CorruptFile, WriteConflict
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.services.clustering.strategies import slice_named
from penstock.storage import join
from penstock.table.latest_slices import latest_merged_slices
from penstock.table.listing import list_groups, load_visibility
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.clustering_plan import ClusteringPlan, ClusteringSlice
from penstock.timeline.instant import WRITE_ACTIONS

#: A file group: partition path and file id.
GroupKey = tuple[str, str]


def planned_slices(table: TableState, time: str, plan: ClusteringPlan) -> list[list[FileSlice]]:
    """Return the file slices that a plan names, as one list per group of the plan. Lists the partitions to find them.

    Args:
        time: the instant time of the plan.

    Raises:
        CorruptFile: a file that the plan names is missing.
        WriteConflict: a slice is no longer the newest of its file group, or has other log files than the plan names.
    """
    file_groups = list_groups(table, sorted({each.partition_path for each in plan.slices}))
    existing = _file_names(file_groups)
    newest = {}
    for file_slice in latest_merged_slices(file_groups, load_visibility(table)):
        newest[file_slice.partition_path, file_slice.file_id] = file_slice
    found = []
    for group in plan.groups:
        found.append([_find_slice(table, time, planned, newest, existing) for planned in group.slices])
    return found


def _file_names(file_groups: Sequence[FileGroup]) -> set[str]:
    """Return the names of all base files and log files of these file groups."""
    names = set()
    for group in file_groups:
        for file_slice in group.slices:
            if file_slice.base_file is not None:
                names.add(file_slice.base_file.name)
            names.update(log.name for log in file_slice.log_files)
    return names


def _find_slice(
    table: TableState,
    time: str,
    planned: ClusteringSlice,
    newest: Mapping[GroupKey, FileSlice],
    existing: Collection[str],
) -> FileSlice:
    """Return the file slice on storage that the plan's entry `planned` names.

    Args:
        time: the instant time of the plan.
        newest: the newest slice of each file group.
        existing: the names of all data files in the partitions of the plan.

    Raises:
        CorruptFile: a file that the plan names is missing.
        WriteConflict: a write has changed the file group since the plan was made.
    """
    for name in (planned.base_file, *planned.log_files):
        if name is not None and name not in existing:
            raise CorruptFile(
                f"{join(table.base_path, planned.partition_path, name)} is missing, which clustering plan {time} names; restore "
                "the file from a copy, or unschedule that clustering"
            )
    file_slice = newest.get((planned.partition_path, planned.file_id))
    if file_slice is None:
        raise _changed_group(table, time, planned.partition_path, planned.file_id)
    current = slice_named(file_slice)
    if current.base_file != planned.base_file or set(current.log_files) != set(planned.log_files):
        raise _changed_group(table, time, planned.partition_path, planned.file_id)
    return file_slice


def check_untouched(table: TableState, time: str, plan: ClusteringPlan) -> None:
    """Raise WriteConflict if a pending write, or one that completed since the run began, changes a file group of the plan.

    Reads the timeline again. With several writers (optimistic concurrency control) pending writes do not count: a pending write
    finds the clustering when it commits.

    Args:
        table: the table with the timeline as it was when the run began.
        time: the instant time of the plan.
    """
    planned = {(each.partition_path, each.file_id) for each in plan.slices}
    known = table.timeline.completed_times
    for instant in reload_timeline(table).timeline.instants:
        is_new_write = instant.action in WRITE_ACTIONS and instant.time not in known and instant.time != time
        if is_optimistic(table) and not instant.is_completed:
            continue  # a pending write finds this clustering when it commits
        if is_new_write:
            for path, file_id in find_groups_of_write(table, instant) & planned:
                raise _changed_group(table, time, path, file_id)


def _changed_group(table: TableState, time: str, path: str, file_id: str) -> WriteConflict:
    """Return the WriteConflict about a file group that a write has changed since the clustering at `time` was planned."""
    return WriteConflict(
        f"a write has changed file group {file_id} of partition {path!r} of {table.base_path} since clustering {time} was "
        "planned; unschedule that clustering and plan another"
    )
