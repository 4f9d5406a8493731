"""Divides a clustering plan into tasks, on the driver: chooses the slices of each task and the settings for rewriting rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.markers import work_folder
from penstock.filegroup.model import FileSlice
from penstock.index import make_index
from penstock.options import Options
from penstock.options.option import LONG_MAX
from penstock.schema import META_COLUMNS, avro_to_arrow, with_storage_types
from penstock.services.clustering.planned_slices import planned_slices
from penstock.services.clustering.resize_buckets import ResizeTask, changed_rings, is_resize, make_resize_tasks, rings_to_resize
from penstock.services.clustering.rewrite_group import RewriteSettings, RewriteTask
from penstock.services.clustering.rewrite_large import LargeGroup
from penstock.services.clustering.row_order import check_ordering, read_ordering, sortable_columns
from penstock.services.planned import PlanRun
from penstock.storage import join
from penstock.table.file_settings import base_file_settings, merge_file_settings
from penstock.timeline.clustering_plan import ClusteringPlan
from penstock.workers.session_settings import count_cores

#: Suffixes of the execution strategies (Java classes) that Penstock runs: sort a group into files of a target size, or rewrite
#: each slice to one file.
SORT_AND_SIZE = "SortAndSizeExecutionStrategy"
SINGLE_FILE = "SingleFileSortExecutionStrategy"

_MB = 1024 * 1024
#: Most bytes on storage that one task sorts in memory; and least bytes that are worth a task of their own.
_MOST_BYTES = 128 * _MB
_LEAST_BYTES = 32 * _MB

#: Options that, if set in the process that runs a plan, take precedence over the row order in the plan.
_ORDER_OPTIONS = (o.LAYOUT_OPTIMIZE_STRATEGY, o.LAYOUT_CURVE_METHOD, o.LAYOUT_CURVE_SAMPLE, o.BULK_INSERT_SORT_MODE)

ClusteringTask = RewriteTask | LargeGroup | ResizeTask


def make_tasks(run: PlanRun[ClusteringPlan]) -> Sequence[ClusteringTask]:
    """Return the tasks into which a clustering plan is divided: `RewriteTask`, `LargeGroup` or `ResizeTask`.

    Raises:
        CorruptFile: a file that the plan names is missing.
        OptionError: the plan splits or joins buckets, and the options do not name the bucket index of consistent hashing.
        SchemaError: rows cannot be sorted by the columns that the plan names.
        WriteConflict: a write has changed a file group of the plan since the plan was made.
    """
    slices = planned_slices(run.table, run.time, run.plan)
    settings = make_rewrite_settings(run)
    if is_resize(run.plan):
        return _make_resize_tasks(run, slices, settings)
    return _make_rewrite_tasks(run, slices, settings)


def _make_rewrite_tasks(
    run: PlanRun[ClusteringPlan], slices: Sequence[Sequence[FileSlice]], settings: RewriteSettings
) -> list[ClusteringTask]:
    """Return the tasks that rewrite the groups of a plan: a `LargeGroup` for a large group to sort, else a `RewriteTask`.

    A group that is not sorted and has several outputs (new file groups) is divided into several tasks.

    Args:
        slices: the file slices of each group, in the order of the plan.
    """
    tasks_at_once = count_cores(run.spark.conf) if run.spark else None
    max_bytes = bytes_per_task(slices, tasks_at_once)
    parts: list[Sequence[FileSlice]] = []
    large = []
    for group, group_slices in zip(run.plan.groups, slices, strict=True):
        must_sort = settings.ordering is not None
        if must_sort and len(group_slices) > 1 and _sum_bytes(group_slices) > max_bytes:
            large.append((group, group_slices))
        elif must_sort or group.outputs == 1:
            parts.append(group_slices)
        else:
            parts += _share_out(group_slices, group.outputs)
    parts.sort(key=_sum_bytes, reverse=True)  # the longest tasks start first
    tasks: list[ClusteringTask] = []
    for part in parts:
        tasks.append(RewriteTask(settings, tuple(part), number=len(tasks)))
    # The number of a task is part of its file names, so a large group takes as many numbers as it may write files.
    number = len(tasks)
    for group, group_slices in large:
        large_group = LargeGroup(
            settings=settings,
            slices=tuple(group_slices),
            outputs=group.outputs,
            ranges=max(group.outputs, -(-_sum_bytes(group_slices) // max_bytes)),
            folder=join(work_folder(run.table.base_path, run.time), f"cluster-{number}"),
            number=number,
        )
        tasks.append(large_group)
        number += group.outputs
    return tasks


def _share_out(slices: Sequence[FileSlice], count: int) -> list[list[FileSlice]]:
    """Divide slices into at most `count` lists with about the same number of bytes.

    Args:
        slices: the slices, the largest first.
    """
    parts: list[list[FileSlice]] = [[] for _ in range(count)]
    for file_slice in slices:
        smallest = min(parts, key=_sum_bytes)
        smallest.append(file_slice)
    return [part for part in parts if part]


def bytes_per_task(slices: Sequence[Sequence[FileSlice]], tasks_at_once: int | None) -> int:
    """Return the most bytes of files that one task sorts: few enough to keep all cores busy, within fixed limits.

    Args:
        slices: the file slices of each group of the plan.
        tasks_at_once: how many tasks Spark runs concurrently; None if unknown.
    """
    if not tasks_at_once:
        return max(_LEAST_BYTES, _MOST_BYTES)
    total_bytes = sum(_sum_bytes(group_slices) for group_slices in slices)
    return max(_LEAST_BYTES, min(_MOST_BYTES, total_bytes // tasks_at_once))


def _sum_bytes(slices: Sequence[FileSlice]) -> int:
    """Return the bytes of all files of the slices."""
    return sum(file_slice.size_bytes for file_slice in slices)


def _make_resize_tasks(
    run: PlanRun[ClusteringPlan], slices: Sequence[Sequence[FileSlice]], settings: RewriteSettings
) -> list[ClusteringTask]:
    """Return the tasks that split and join buckets. Raise OptionError if the options do not name consistent hashing.

    Args:
        slices: the file slices of each group of the plan.
    """
    rings = rings_to_resize(run.table)
    if rings is None:
        raise OptionError(
            f"clustering {run.time} splits or joins buckets of {run.table.base_path}; run it with {o.INDEX_TYPE.key}=BUCKET and "
            f"{o.BUCKET_ENGINE.key}=CONSISTENT_HASHING, as the table was written"
        )
    changed = changed_rings(run.plan, rings, run.time)
    return [*make_resize_tasks(settings, run.plan, slices, rings, changed, run.time)]


def make_rewrite_settings(run: PlanRun[ClusteringPlan]) -> RewriteSettings:
    """Return the settings with which all tasks of a plan read, sort and write rows.

    The sort columns are those in the plan. The plan also holds other options about the row order: the kind of curve, its
    sample, and the sort mode. Each of these is replaced if the options of this process set it.

    Raises:
        SchemaError: rows cannot be sorted by the columns that the plan names.
    """
    table = run.table
    plan = run.plan
    given = {key: text for key, text in plan.parameters.items() if key.startswith("hoodie.") and text is not None}
    for option in _ORDER_OPTIONS:
        if option.key in table.options:
            given[option.key] = table.options.raw[option.key]
    ordering = read_ordering(Options(given))
    if ordering is not None:
        check_ordering(ordering, sortable_columns(run.schema))
    rules = None
    if table.is_merge_on_read and any(each.log_files for each in plan.slices):
        rules, file_settings = merge_file_settings(table, run.time, run.schema)
    else:
        columns = [field for field in avro_to_arrow(run.schema) if field.name not in META_COLUMNS]
        file_settings = base_file_settings(table, run.time, with_storage_types(pa.schema(columns)), run.schema)
    is_single_file = plan.runner.endswith(SINGLE_FILE)
    max_file_bytes = LONG_MAX if is_single_file else table.options[o.CLUSTERING_TARGET_FILE_BYTES]
    file_settings = make_index(table.options).with_key_changes(replace(file_settings, max_file_bytes=max_file_bytes))
    return RewriteSettings(file_settings, ordering, plan.preserves_meta, rules)
