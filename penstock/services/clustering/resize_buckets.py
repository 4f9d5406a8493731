"""Clustering of consistent hashing: buckets that have become too large are split in two, small neighbours are joined.

The buckets of a partition are parts of a ring of hash values (`index/consistent_hashing.py`). Rows go to new file groups by the
new parts of the ring. A group of a resize plan says, under Hudi's names, which parts of the ring become what (`Node`). The new
hash ring is stored before the clustering commits, and takes effect when it has. Other buckets are rewritten only to be sorted.

Kernels plan and rewrite; `plan.py` and `service.py` of this package do the rest, as for every clustering.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock import clock
from penstock import options as o
from penstock.errors import CorruptFile, OptionError, WriteConflict
from penstock.filegroup.base_write import RollingWriter
from penstock.filegroup.meta_columns import KEY_COLUMN
from penstock.filegroup.model import FileSlice
from penstock.index import load_buckets
from penstock.index.consistent_hashing import HashRings, Node, Ring, Tag, has_rings
from penstock.merge.kernels.gather import to_array
from penstock.options import Options
from penstock.options.option import LONG_MAX
from penstock.services.clustering.bucket_check import check_no_buckets
from penstock.services.clustering.rewrite_group import RewriteSettings, in_order, open_output, read_slice, write_rows
from penstock.services.clustering.strategies import group_of
from penstock.table import TableState
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan
from penstock.timeline.commit_file import WriteStat

PLANNER = "org.apache.hudi.client.clustering.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
RUNNER = "org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
#: Hudi's names for the partition, the new parts of its ring, and how often the ring was changed before.
_PARTITION = "clustering.group.partition"
_NODES = "clustering.group.child.node"
_CHANGES = "clustering.group.sequence.no"


def rings_to_resize(table: TableState) -> HashRings | None:
    """Return the hash rings of a table; None if it has no buckets, so that its rows may move between file groups.

    Raises:
        Unsupported: the table has a fixed number of buckets, whose rows cannot move.
        OptionError: the options name a strategy that is not for this table.
    """
    options = table.options
    buckets = load_buckets(table)
    if isinstance(buckets, HashRings):
        _check_strategies(table)
        return buckets
    if buckets is not None:
        check_no_buckets(table)
    if has_rings(table):
        raise OptionError(
            f"{table.base_path} was written with {o.BUCKET_ENGINE.key}=CONSISTENT_HASHING; cluster it with that option, "
            f"{o.INDEX_TYPE.key}=BUCKET and the table's {o.BUCKET_COUNT.key} and {o.BUCKET_HASH_FIELDS.key}"
        )
    if _is_same_class(options[o.CLUSTERING_PLAN_STRATEGY], PLANNER):
        raise OptionError(
            f"{o.CLUSTERING_PLAN_STRATEGY.key}={options[o.CLUSTERING_PLAN_STRATEGY]} is for tables with "
            f"{o.BUCKET_ENGINE.key}=CONSISTENT_HASHING, which {table.base_path} is not; leave it out"
        )
    return None


def _check_strategies(table: TableState) -> None:
    for option, wanted in ((o.CLUSTERING_PLAN_STRATEGY, PLANNER), (o.CLUSTERING_EXECUTION_STRATEGY, RUNNER)):
        if table.options.is_set(option) and not _is_same_class(table.options[option], wanted):
            raise OptionError(
                f"{option.key}={table.options[option]} is not for {table.base_path}, whose buckets are parts of hash rings; "
                f"leave it out, or set {wanted}"
            )


def _is_same_class(name: str, java_class: str) -> bool:
    """Whether a name, with or without its package, is that of a Java class."""
    return name.rpartition(".")[2] == java_class.rpartition(".")[2]


# Plan


@dataclass(frozen=True)
class BucketLimits:
    """When buckets are split and joined."""

    split_bytes: int
    join_bytes: int
    #: Most and least buckets of a partition.
    most: int
    least: int
    #: Whether buckets that are neither split nor joined are rewritten too, because rows are to be sorted.
    sorts: bool = False


def limits_of(options: Options, count: int) -> BucketLimits:
    """Return the limits that the options ask for.

    Args:
        count: how many buckets a partition of the table begins with.
    """
    size_bytes = options[o.MAX_FILE_SIZE]
    return BucketLimits(
        split_bytes=int(size_bytes * options[o.BUCKET_SPLIT_THRESHOLD]),
        join_bytes=int(size_bytes * options[o.BUCKET_MERGE_THRESHOLD]),
        most=max(options[o.BUCKET_COUNT_MAX] or count, count),
        least=min(options[o.BUCKET_COUNT_MIN] or count, count),
        sorts=bool(options[o.CLUSTERING_SORT_COLUMNS]),
    )


@dataclass(frozen=True)
class FilledBucket:
    """A bucket of a ring and the slice that holds its rows."""

    #: Number of the bucket on its ring.
    number: int
    file_slice: FileSlice


def resize_groups(slices: Sequence[FileSlice], ring: Ring, limits: BucketLimits) -> Iterator[ClusteringGroup]:
    """Yield the groups of one partition: buckets to split, then neighbours to join, then the others if rows are to be sorted."""
    unchanged = []
    count = len(ring.values)
    for bucket in _filled_buckets(slices, ring):
        is_large = bucket.file_slice.size_bytes > limits.split_bytes
        nodes = ring.split_bucket(bucket.number) if is_large and count < limits.most else None
        if nodes is None:
            unchanged.append(bucket)
        else:
            count += 1
            yield _group([bucket], nodes, ring)
    for run in neighbours(unchanged, limits, count - limits.least):
        unchanged = [bucket for bucket in unchanged if bucket not in run]
        yield _group(run, ring.join_buckets([bucket.number for bucket in run]), ring)
    if limits.sorts:
        for bucket in unchanged:
            same_part = Node(ring.values[bucket.number], clock.new_uuid())
            yield _group([bucket], (same_part,), ring)


def _filled_buckets(slices: Sequence[FileSlice], ring: Ring) -> list[FilledBucket]:
    """Return the buckets that have a slice, in the order of the ring."""
    buckets = []
    for file_slice in slices:
        number = ring.number_of(file_slice.file_id)
        if number is not None:
            buckets.append(FilledBucket(number, file_slice))
    return sorted(buckets, key=lambda bucket: bucket.number)


def neighbours(buckets: Sequence[FilledBucket], limits: BucketLimits, most_removed: int) -> Iterator[list[FilledBucket]]:
    """Yield runs of small buckets next to each other on the ring, as long as what is joined stays small.

    Args:
        buckets: in the order of the ring.
        most_removed: how many buckets may disappear by joining.
    """
    run: list[FilledBucket] = []
    for bucket in buckets:
        is_next = bool(run) and bucket.number == run[-1].number + 1
        is_small = bucket.file_slice.size_bytes <= limits.join_bytes
        has_room = sum(each.file_slice.size_bytes for each in run) <= limits.join_bytes
        if is_next and is_small and has_room and most_removed > 0:
            run.append(bucket)
            most_removed -= 1
            continue
        if len(run) > 1:
            yield run
        run = [bucket] if is_small else []
    if len(run) > 1:
        yield run


def _group(buckets: Sequence[FilledBucket], nodes: Sequence[Node], ring: Ring) -> ClusteringGroup:
    slices = [bucket.file_slice for bucket in buckets]
    records = [{"value": node.value, "fileIdPrefix": node.prefix, "tag": node.tag.value} for node in nodes]
    extra = {_PARTITION: slices[0].partition_path, _NODES: json.dumps(records), _CHANGES: str(ring.changes)}
    new_buckets = sum(node.tag is Tag.REPLACE for node in nodes)
    return group_of(slices, new_buckets, extra)


# Run


def is_resize(plan: ClusteringPlan) -> bool:
    """Whether a plan changes the hash rings of the table."""
    return any(_NODES in group.extra for group in plan.groups)


def changed_rings(plan: ClusteringPlan, rings: HashRings, time: str) -> dict[str, Ring]:
    """Return the hash rings as they are after a plan, by partition path.

    Raises:
        WriteConflict: another clustering has changed a ring since the plan was made.
        CorruptFile: the plan does not say what becomes of the buckets.
    """
    nodes: dict[str, list[Node]] = {}
    for group in plan.groups:
        path = group.extra.get(_PARTITION, "")
        nodes.setdefault(path, []).extend(_nodes_of(group, time))
        if int(group.extra.get(_CHANGES) or 0) != rings.ring(path).changes:
            raise WriteConflict(
                f"the buckets of partition {path!r} were split or joined since clustering {time} was planned; unschedule that "
                "clustering and plan another"
            )
    return {path: rings.ring(path).apply(nodes_of_path) for path, nodes_of_path in nodes.items()}


def _nodes_of(group: ClusteringGroup, time: str) -> list[Node]:
    try:
        records = json.loads(group.extra[_NODES])
        return [Node(int(record["value"]), record["fileIdPrefix"], Tag(record["tag"])) for record in records]
    except (KeyError, ValueError, TypeError) as e:
        raise CorruptFile(f"clustering plan {time} does not say what becomes of buckets: {e}; unschedule that clustering") from e


@dataclass(frozen=True)
class ResizeTask:
    """Buckets of one partition that become other buckets. Pickled to a worker."""

    settings: RewriteSettings
    slices: tuple[FileSlice, ...]
    #: The hash rings of the table; those that are stored are the new rings of this partition.
    rings: HashRings
    #: File id prefixes of the new buckets.
    prefixes: tuple[str, ...]
    #: Different for every task of a clustering: part of the names of new files.
    number: int

    @property
    def partition_path(self) -> str:
        """The partition of all slices."""
        return self.slices[0].partition_path


def make_resize_tasks(
    settings: RewriteSettings,
    plan: ClusteringPlan,
    slices: Sequence[Sequence[FileSlice]],
    rings: HashRings,
    changed: Mapping[str, Ring],
    time: str,
) -> list[ResizeTask]:
    """Return a task for each group of a plan.

    Args:
        slices: the slices of each group.
        changed: the new rings, by partition path.
        time: the instant time of the plan.
    """
    # A bucket is one file group however large it is, so its file is never cut.
    settings = replace(settings, file_settings=replace(settings.file_settings, max_file_bytes=LONG_MAX))
    tasks = []
    for number, (group, group_slices) in enumerate(zip(plan.groups, slices, strict=True)):
        prefixes = tuple(str(node.prefix) for node in _nodes_of(group, time) if node.tag is Tag.REPLACE)
        path = group_slices[0].partition_path
        new_rings = replace(rings, stored={path: changed[path]})
        tasks.append(ResizeTask(settings, tuple(group_slices), new_rings, prefixes, number))
    return tasks


def resize(task: ResizeTask) -> list[WriteStat]:
    """Write the rows of some buckets to the new buckets that they belong to; return the write stats."""
    rows: Iterable[pa.Table] = _read_slices(task)
    if task.settings.ordering is not None:
        rows = in_order(rows, task.settings.ordering)
    output = open_output(task.settings, task.number)
    writers = {prefix: RollingWriter(output, task.partition_path, f"{prefix}-0") for prefix in task.prefixes}
    for part in rows:
        for prefix, bucket_rows in _split_by_bucket(task, part):
            write_rows(writers[prefix], bucket_rows, task.settings)
    stats: list[WriteStat] = []
    for writer in writers.values():
        stats += writer.close()
    output.finish()
    return stats


def _read_slices(task: ResizeTask) -> Iterator[pa.Table]:
    for file_slice in task.slices:
        yield from read_slice(file_slice, task.settings)


def _split_by_bucket(task: ResizeTask, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each new bucket, with the file id prefix of the bucket.

    Raises:
        CorruptFile: a row belongs to a bucket that this task does not write.
    """
    path = task.partition_path
    numbers = task.rings.numbers(to_array(rows[KEY_COLUMN]), path)
    for number in np.unique(numbers).tolist():
        prefix = task.rings.ring(path).prefixes[number]
        if prefix not in task.prefixes:
            raise CorruptFile(
                f"file group {task.slices[0].file_id} of partition {path!r} holds keys of other buckets; was the table written "
                f"with another {o.BUCKET_HASH_FIELDS.key} than {','.join(task.rings.fields)}?"
            )
        yield prefix, rows.filter(pa.array(numbers == number))
