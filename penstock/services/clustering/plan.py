"""Make a clustering plan: choose file slices of the table, and divide them into groups that are rewritten together.

A plan names the newest slice of each file group that it rewrites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from penstock import options as o
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.index.consistent_hashing import HashRings
from penstock.options import Options
from penstock.options.option import LONG_MAX
from penstock.services.clustering.bucket_check import check_no_buckets
from penstock.services.clustering.partition_filters import choose_partitions, selection_of
from penstock.services.clustering.resize_buckets import RUNNER, limits_of, resize_groups, rings_to_resize
from penstock.services.clustering.row_order import check_ordering, read_ordering, sortable_columns
from penstock.services.clustering.strategies import (
    ClusteringLimits,
    Strategy,
    clustering_limits,
    eligible_slices,
    group_slices,
    strategy_of,
)
from penstock.services.preferred_writers import find_groups_of_writers
from penstock.services.uncommitted_logs import find_uncommitted_logs
from penstock.table.listing import group_partitions, list_files, load_visibility
from penstock.table.pending import find_pending_clusterings, find_pending_groups
from penstock.table.state import TableState, read_table_schema
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan


def make_plan(table: TableState) -> ClusteringPlan:
    """Plan a clustering of the table, without storing the plan. The plan has no groups if there is nothing to rewrite.

    Raises:
        OptionError: the options name an unknown strategy, or one that does not fit this table.
        SchemaError: rows cannot be sorted by the columns that the options name.
        Unsupported: the table has a fixed number of buckets.
    """
    options = table.options
    strategy = strategy_of(options)
    rings = rings_to_resize(table)
    ordering = read_ordering(options)
    schema = read_table_schema(table)
    if schema is None:
        return ClusteringPlan()  # no commit yet, so there are no files
    if ordering is not None:
        check_ordering(ordering, sortable_columns(schema))
    selection = selection_of(options, strategy.partition_filter)
    files_by_path = list_files(table)
    file_groups = group_partitions(files_by_path, choose_partitions(list(files_by_path), selection))
    if rings is None:
        groups = _rewrite_groups(table, file_groups, strategy)
        runner = options[o.CLUSTERING_EXECUTION_STRATEGY]
    else:
        groups = _resize_groups(table, file_groups, rings)
        runner = RUNNER
    return ClusteringPlan(groups, runner, _parameters(options), options[o.CLUSTERING_PRESERVE_META])


def _rewrite_groups(table: TableState, file_groups: Sequence[FileGroup], strategy: Strategy) -> tuple[ClusteringGroup, ...]:
    """Return the groups of a plan that rewrites small file groups. A group is file slices that are rewritten together.

    Args:
        strategy: divides the file slices of a partition into groups.

    Raises:
        Unsupported: the table has buckets.
    """
    limits = clustering_limits(table.options)
    by_partition = _eligible_slices(table, file_groups, limits)
    file_ids = []
    for slices in by_partition.values():
        file_ids += [file_slice.file_id for file_slice in slices]
    check_no_buckets(table, file_ids)
    return group_slices(by_partition.values(), strategy, limits)


def _resize_groups(table: TableState, file_groups: Sequence[FileGroup], rings: HashRings) -> tuple[ClusteringGroup, ...]:
    """Return the groups of a plan that splits and joins buckets of consistent hashing.

    A group is the file slices of buckets that are rewritten together. Partitions with a pending clustering are left out: both
    plans would change the same hash ring.
    """
    limits = replace(clustering_limits(table.options), small_file_limit=LONG_MAX)
    bucket_limits = limits_of(table.options, rings.count)
    planned = {path for path, _ in find_pending_clusterings(table)}
    candidates = [group for group in file_groups if group.partition_path not in planned]
    groups: list[ClusteringGroup] = []
    for path, slices in _eligible_slices(table, candidates, limits).items():
        groups += islice(resize_groups(slices, rings.ring(path), bucket_limits), limits.groups - len(groups))
    return tuple(groups)


def _eligible_slices(table: TableState, file_groups: Sequence[FileGroup], limits: ClusteringLimits) -> dict[str, list[FileSlice]]:
    """Return the newest slice of each file group whose base file is small or missing, as lists by partition path.

    File groups that a pending plan names are left out.

    Args:
        limits: the limits of the plan, with the size below which a base file is small.
    """
    busy = find_pending_groups(table).keys() | find_uncommitted_logs(table, file_groups) | find_groups_of_writers(table)
    return eligible_slices(file_groups, load_visibility(table), busy, limits)


def _parameters(options: Options) -> dict[str, str]:
    """Return the options about the row order, to store in the plan for the process that runs the plan.

    Hudi reads only the sort columns, Penstock reads all of these options.
    """
    columns = options[o.CLUSTERING_SORT_COLUMNS]
    if not columns:
        return {}
    parameters = {o.CLUSTERING_SORT_COLUMNS.key: ",".join(columns)}
    for option in (o.LAYOUT_OPTIMIZE_STRATEGY, o.LAYOUT_CURVE_METHOD, o.LAYOUT_CURVE_SAMPLE):
        if options.is_set(option):
            parameters[option.key] = options.raw[option.key]
    return parameters
