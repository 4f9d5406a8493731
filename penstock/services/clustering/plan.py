"""Plans: from file slices to the groups of a clustering. Kernels. A new strategy is one entry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.filegroup.view import Visibility, latest_merged_slices
from penstock.options import Options
from penstock.services.compaction.strategies import IO_MB, LOG_BYTES, LOG_FILES, READ_MB, WRITE_MB
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringSlice

_PACKAGE = "org.apache.hudi.client.clustering.plan.strategy."
_MB = 1024 * 1024


@dataclass(frozen=True)
class Bounds:
    """How much goes into a plan, and into a group of it."""

    small_file_limit: int
    target_file_bytes: int
    group_bytes: int
    groups: int
    #: Whether a partition's last group may be a single slice.
    single: bool
    #: What a slice of log files alone is taken to become.
    max_file_bytes: int


def bounds_of(options: Options) -> Bounds:
    """The bounds that the options ask for."""
    return Bounds(
        small_file_limit=options[o.CLUSTERING_SMALL_FILE_LIMIT],
        target_file_bytes=options[o.CLUSTERING_TARGET_FILE_BYTES],
        group_bytes=options[o.CLUSTERING_MAX_BYTES_PER_GROUP],
        groups=options[o.CLUSTERING_MAX_GROUPS],
        single=options[o.CLUSTERING_SINGLE_GROUP],
        max_file_bytes=options[o.MAX_FILE_SIZE],
    )


Grouping = Callable[[Sequence[FileSlice], Bounds], Iterator[ClusteringGroup]]


@dataclass(frozen=True)
class Strategy:
    """How the slices of a partition become groups."""

    group: Grouping
    #: The filter of partitions that it stands for, if it is more than a way to group.
    mode: str | None = None


def strategy_of(options: Options) -> Strategy:
    """The strategy that the options name. Raises OptionError."""
    name = options[o.CLUSTERING_PLAN_STRATEGY]
    found = STRATEGIES.get(name if "." in name else _PACKAGE + name)
    if found is None:
        raise OptionError(f"{o.CLUSTERING_PLAN_STRATEGY.key}={name!r} is not known; use one of {', '.join(STRATEGIES)}")
    return found


def eligible_slices(
    groups: Iterable[FileGroup], seen: Visibility, busy: Collection[tuple[str, str]], bounds: Bounds
) -> dict[str, list[FileSlice]]:
    """The newest slices with small base files, or none, for whose file group nobody else has plans; by partition path."""
    found: dict[str, list[FileSlice]] = {}
    for one in latest_merged_slices(groups, seen):
        if (one.partition_path, one.file_id) not in busy and one.base_bytes < bounds.small_file_limit:
            found.setdefault(one.partition_path, []).append(one)
    return found


def group_slices(slices: Iterable[Sequence[FileSlice]], strategy: Strategy, bounds: Bounds) -> tuple[ClusteringGroup, ...]:
    """The groups of a plan: those of one partition after the other, up to the bound."""
    found = (group for its in slices for group in strategy.group(its, bounds))
    return tuple(group for _, group in zip(range(bounds.groups), found, strict=False))


def by_size(slices: Sequence[FileSlice], bounds: Bounds) -> Iterator[ClusteringGroup]:
    """Slices, the largest first, in groups that are not too large."""
    group: list[FileSlice] = []
    held = 0
    for one in sorted(slices, key=lambda each: _counted(each, bounds), reverse=True):
        size = _counted(one, bounds)
        if group and held + size > bounds.group_bytes:
            yield group_of(group, -(-held // bounds.target_file_bytes))
            group, held = [], 0
        group.append(one)
        held += size
    if len(group) > 1 or (group and bounds.single):
        yield group_of(group, -(-held // bounds.target_file_bytes))


def one_by_one(slices: Sequence[FileSlice], bounds: Bounds) -> Iterator[ClusteringGroup]:
    """Every slice by itself, which becomes one file."""
    yield from (group_of([one], 1) for one in slices)


def group_of(slices: Sequence[FileSlice], outputs: int, extra: Mapping[str, str] | None = None) -> ClusteringGroup:
    """Slices that become so many file groups together."""
    return ClusteringGroup(tuple(slice_named(one) for one in slices), max(1, outputs), _metrics(slices), extra or {})


def slice_named(one: FileSlice) -> ClusteringSlice:
    """A slice by the names of its files."""
    logs = tuple(log.name for log in one.log_files)
    return ClusteringSlice(one.partition_path, one.file_id, one.base_file.name if one.base_file else None, logs)


def _metrics(slices: Sequence[FileSlice]) -> dict[str, float]:
    """How much work a group is, in whole megabytes as Hudi counts them."""
    logs = sum(one.log_bytes for one in slices)
    bases = sum(one.base_bytes for one in slices)
    read, write = (bases + logs) // _MB, bases // _MB
    files = sum(len(one.log_files) for one in slices)
    return {LOG_FILES: files, IO_MB: read + write, READ_MB: read, LOG_BYTES: logs, WRITE_MB: write}


def _counted(one: FileSlice, bounds: Bounds) -> int:
    return one.base_file.size_bytes if one.base_file else bounds.max_file_bytes


#: Java class → strategy.
STRATEGIES: dict[str, Strategy] = {
    f"{_PACKAGE}SparkSizeBasedClusteringPlanStrategy": Strategy(by_size),
    f"{_PACKAGE}SparkRecentDaysClusteringPlanStrategy": Strategy(by_size, "RECENT_DAYS"),
    f"{_PACKAGE}SparkSelectedPartitionsClusteringPlanStrategy": Strategy(by_size, "SELECTED_PARTITIONS"),
    f"{_PACKAGE}SparkSingleFileSortPlanStrategy": Strategy(one_by_one),
    f"{_PACKAGE}SparkConsistentBucketClusteringPlanStrategy": Strategy(one_by_one),  # where it is for, resize.py groups
}
