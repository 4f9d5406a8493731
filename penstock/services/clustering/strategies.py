"""Clustering strategies: divide the slices of a partition into groups. The slices of a group are rewritten together.

A new strategy is one entry of `STRATEGIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.options import Options
from penstock.services.plan_metrics import IO_MB, LOG_BYTES, LOG_FILES, MB, READ_MB, WRITE_MB
from penstock.table.latest_slices import Visibility, latest_merged_slices
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringSlice

_PACKAGE = "org.apache.hudi.client.clustering.plan.strategy."


@dataclass(frozen=True)
class ClusteringLimits:
    """Limits of a clustering plan: the number of groups, and the bytes of a group and of its files."""

    #: Slices whose base file has at least this many bytes are not rewritten.
    small_file_limit: int
    #: Size of new files.
    target_file_bytes: int
    #: Most bytes of a group, unless it is a single slice.
    group_bytes: int
    #: Most groups of a plan.
    groups: int
    #: Whether the last group of a partition may consist of a single slice.
    single: bool
    #: Assumed size of a slice that has no base file.
    max_file_bytes: int


def clustering_limits(options: Options) -> ClusteringLimits:
    """Read the limits of a clustering plan and of its groups from the options."""
    return ClusteringLimits(
        small_file_limit=options[o.CLUSTERING_SMALL_FILE_LIMIT],
        target_file_bytes=options[o.CLUSTERING_TARGET_FILE_BYTES],
        group_bytes=options[o.CLUSTERING_MAX_BYTES_PER_GROUP],
        groups=options[o.CLUSTERING_MAX_GROUPS],
        single=options[o.CLUSTERING_SINGLE_GROUP],
        max_file_bytes=options[o.MAX_FILE_SIZE],
    )


Grouping = Callable[[Sequence[FileSlice], ClusteringLimits], Iterator[ClusteringGroup]]


@dataclass(frozen=True)
class Strategy:
    """How a clustering plan divides slices into groups, and which partitions it considers."""

    #: Forms groups from the slices of one partition.
    group: Grouping
    #: The partition filter that the strategy implies; None to use the filter that the options name.
    partition_filter: str | None = None


def strategy_of(options: Options) -> Strategy:
    """Return the strategy that `hoodie.clustering.plan.strategy.class` names. Raise OptionError if the strategy is unknown."""
    name = options[o.CLUSTERING_PLAN_STRATEGY]
    strategy = STRATEGIES.get(name if "." in name else _PACKAGE + name)
    if strategy is None:
        raise OptionError(f"{o.CLUSTERING_PLAN_STRATEGY.key}={name!r} is not known; use one of {', '.join(STRATEGIES)}")
    return strategy


def eligible_slices(
    groups: Iterable[FileGroup], visible: Visibility, busy: Collection[tuple[str, str]], limits: ClusteringLimits
) -> dict[str, list[FileSlice]]:
    """Return the newest committed slice of each file group whose base file is small or missing, as lists by partition path.

    Args:
        groups: the file groups to choose from.
        visible: which instants and file groups are part of the table.
        busy: (partition path, file id) of the file groups that a pending plan names. These are left out.
        limits: the limits of the plan, with the size below which a base file is small.
    """
    by_partition: dict[str, list[FileSlice]] = {}
    for file_slice in latest_merged_slices(groups, visible):
        is_busy = (file_slice.partition_path, file_slice.file_id) in busy
        if not is_busy and file_slice.base_bytes < limits.small_file_limit:
            by_partition.setdefault(file_slice.partition_path, []).append(file_slice)
    return by_partition


def group_slices(
    by_partition: Iterable[Sequence[FileSlice]], strategy: Strategy, limits: ClusteringLimits
) -> tuple[ClusteringGroup, ...]:
    """Divide the slices of each partition into groups of a plan, as the strategy says; return at most `limits.groups` groups.

    Args:
        by_partition: the slices of each partition.
    """
    groups: list[ClusteringGroup] = []
    for slices in by_partition:
        groups += islice(strategy.group(slices, limits), limits.groups - len(groups))
    return tuple(groups)


def by_size(slices: Sequence[FileSlice], limits: ClusteringLimits) -> Iterator[ClusteringGroup]:
    """Divide the slices of one partition into groups of at most `limits.group_bytes`, the largest slices first.

    A single slice may be larger than the limit. If the last group has only one slice, it is left out unless `limits.single` is
    set.
    """
    group: list[FileSlice] = []
    group_bytes = 0
    for file_slice in sorted(slices, key=lambda each: _expected_bytes(each, limits), reverse=True):
        size_bytes = _expected_bytes(file_slice, limits)
        if group and group_bytes + size_bytes > limits.group_bytes:
            yield group_of(group, _count_files(group_bytes, limits))
            group = []
            group_bytes = 0
        group.append(file_slice)
        group_bytes += size_bytes
    if len(group) > 1 or (group and limits.single):
        yield group_of(group, _count_files(group_bytes, limits))


def one_by_one(slices: Sequence[FileSlice], limits: ClusteringLimits) -> Iterator[ClusteringGroup]:
    """Yield one group of a plan per slice. Each slice is rewritten to one file."""
    for file_slice in slices:
        yield group_of([file_slice], 1)


def group_of(slices: Sequence[FileSlice], outputs: int, extra: Mapping[str, str] | None = None) -> ClusteringGroup:
    """Return a group of a plan: slices that are rewritten together, to `outputs` new file groups (at least one).

    Args:
        extra: extra metadata of the group in the plan; for consistent hashing, the changes of the hash ring.
    """
    return ClusteringGroup(tuple(slice_named(each) for each in slices), max(1, outputs), _metrics(slices), extra or {})


def slice_named(file_slice: FileSlice) -> ClusteringSlice:
    """Return the entry of a clustering plan for a file slice: its partition path, file id and file names."""
    base_file = file_slice.base_file.name if file_slice.base_file else None
    logs = tuple(log.name for log in file_slice.log_files)
    return ClusteringSlice(file_slice.partition_path, file_slice.file_id, base_file, logs)


def _metrics(slices: Sequence[FileSlice]) -> dict[str, float]:
    """Return the metrics of a group that the plan stores: number and bytes of log files, and megabytes to read and to write."""
    log_files = sum(len(file_slice.log_files) for file_slice in slices)
    log_bytes = sum(file_slice.log_bytes for file_slice in slices)
    base_bytes = sum(file_slice.base_bytes for file_slice in slices)
    read_mb = (base_bytes + log_bytes) // MB
    write_mb = base_bytes // MB
    return {LOG_FILES: log_files, IO_MB: read_mb + write_mb, READ_MB: read_mb, LOG_BYTES: log_bytes, WRITE_MB: write_mb}


def _expected_bytes(file_slice: FileSlice, limits: ClusteringLimits) -> int:
    """Return the size by which a slice is grouped: the bytes of its base file; `limits.max_file_bytes` if it has none."""
    return file_slice.base_file.size_bytes if file_slice.base_file else limits.max_file_bytes


def _count_files(size_bytes: int, limits: ClusteringLimits) -> int:
    """Return how many files of at most `limits.target_file_bytes` are needed for `size_bytes` bytes."""
    return -(-size_bytes // limits.target_file_bytes)


#: Java class → strategy.
STRATEGIES: dict[str, Strategy] = {
    f"{_PACKAGE}SparkSizeBasedClusteringPlanStrategy": Strategy(by_size),
    f"{_PACKAGE}SparkRecentDaysClusteringPlanStrategy": Strategy(by_size, "RECENT_DAYS"),
    f"{_PACKAGE}SparkSelectedPartitionsClusteringPlanStrategy": Strategy(by_size, "SELECTED_PARTITIONS"),
    f"{_PACKAGE}SparkSingleFileSortPlanStrategy": Strategy(one_by_one),
    # Listed only to accept the name: tables with consistent hashing are planned by `resize_buckets.py` instead.
    f"{_PACKAGE}SparkConsistentBucketClusteringPlanStrategy": Strategy(one_by_one),
}
