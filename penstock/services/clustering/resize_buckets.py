"""Clustering of a table with consistent hashing: split buckets that are too large, join small neighbours.

The buckets of a partition are arcs of a ring of hash values (`index/consistent_hashing.py` defines the ring). The clustering
changes the ring and writes the rows of the changed buckets to new file groups, one per new arc of the ring. Each group of the
plan lists the changes of the ring (`Node`) under Hudi's field names. The new ring is stored before the clustering commits, and
takes effect when the commit completes. Buckets that are neither split nor joined are rewritten only if the options ask to sort
rows.

`plan.py` calls the functions that plan. `tasks.py` makes the tasks, and `service.py` runs `resize` for each of them.
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
from penstock.filegroup.fill_meta_columns import KEY_COLUMN
from penstock.filegroup.model import FileSlice
from penstock.index import load_buckets
from penstock.index.consistent_hashing import HashRings, Node, Ring, Tag, has_rings
from penstock.merge.kernels.gather import to_array
from penstock.options import Options
from penstock.options.option import LONG_MAX
from penstock.services.clustering.bucket_check import check_no_buckets
from penstock.services.clustering.rewrite_group import RewriteSettings, in_order, open_output, read_slice, write_rows
from penstock.services.clustering.strategies import group_of
from penstock.table.state import TableState
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan
from penstock.timeline.commit_file import WriteStat

PLANNER = "org.apache.hudi.client.clustering.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
RUNNER = "org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
#: Hudi's names in the extra metadata of a group: the partition, the changes of its ring, and how many changes the ring has had.
_PARTITION = "clustering.group.partition"
_NODES = "clustering.group.child.node"
_CHANGES = "clustering.group.sequence.no"


def rings_to_resize(table: TableState) -> HashRings | None:
    """Return the hash rings of a table with consistent hashing; None if the table has no buckets.

    Raises:
        Unsupported: the table has a fixed number of buckets. Clustering must not move rows out of them.
        OptionError: the options name a strategy that does not fit this table, or do not name the table's index.
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
    """Raise OptionError if the options name a plan or execution strategy other than the one for consistent hashing."""
    for option, wanted in ((o.CLUSTERING_PLAN_STRATEGY, PLANNER), (o.CLUSTERING_EXECUTION_STRATEGY, RUNNER)):
        if table.options.is_set(option) and not _is_same_class(table.options[option], wanted):
            raise OptionError(
                f"{option.key}={table.options[option]} is not for {table.base_path}, whose buckets are parts of hash rings; "
                f"leave it out, or set {wanted}"
            )


def _is_same_class(name: str, java_class: str) -> bool:
    """Whether two Java class names are equal, ignoring their packages."""
    return name.rpartition(".")[2] == java_class.rpartition(".")[2]


# Plan


@dataclass(frozen=True)
class BucketLimits:
    """When to split and join buckets: the sizes of buckets to split and to join, and how many buckets a partition may have."""

    #: Split buckets above `split_bytes`; join neighbours that each have at most `join_bytes`.
    split_bytes: int
    join_bytes: int
    #: Most and least buckets that a partition may have.
    most: int
    least: int
    #: Whether to rewrite the other buckets too, because the options ask to sort rows.
    sorts: bool = False


def limits_of(options: Options, count: int) -> BucketLimits:
    """Return the sizes at which buckets are split and joined, and the limits of their number, from the options.

    Args:
        count: how many buckets a new partition of the table has.
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
    """A bucket of a hash ring, with the file slice that holds its rows."""

    #: Number of the bucket on its ring.
    number: int
    file_slice: FileSlice


def resize_groups(slices: Sequence[FileSlice], ring: Ring, limits: BucketLimits) -> Iterator[ClusteringGroup]:
    """Yield the groups of a plan for one partition: first a group per bucket to split, then a group per set of buckets to join.

    A set to join is small buckets that are neighbours on the ring. If the options ask to sort rows (`limits.sorts`), each
    bucket that is neither split nor joined follows as a group of its own.

    Args:
        slices: the newest file slices of the partition.
        ring: the hash ring of the partition.
    """
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
    """Return the buckets of a ring that have a file slice in `slices`, in the order of the ring."""
    buckets = []
    for file_slice in slices:
        number = ring.number_of(file_slice.file_id)
        if number is not None:
            buckets.append(FilledBucket(number, file_slice))
    return sorted(buckets, key=lambda bucket: bucket.number)


def neighbours(buckets: Sequence[FilledBucket], limits: BucketLimits, most_removed: int) -> Iterator[list[FilledBucket]]:
    """Yield lists of small buckets that are next to each other on the ring. Each list is to be joined into one bucket.

    Args:
        buckets: the candidates, in the order of the ring.
        most_removed: how many buckets all joins together may remove, at most.
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
    """Return a group of a clustering plan, which writes the rows of `buckets` to the new buckets of the ring.

    Args:
        nodes: the changes of the ring. The group stores these under Hudi's field names.
    """
    slices = [bucket.file_slice for bucket in buckets]
    records = [{"value": node.value, "fileIdPrefix": node.prefix, "tag": node.tag.value} for node in nodes]
    extra = {_PARTITION: slices[0].partition_path, _NODES: json.dumps(records), _CHANGES: str(ring.changes)}
    new_buckets = sum(node.tag is Tag.REPLACE for node in nodes)
    return group_of(slices, new_buckets, extra)


# Run


def is_resize(plan: ClusteringPlan) -> bool:
    """Whether a clustering plan splits, joins or rewrites buckets of hash rings."""
    return any(_NODES in group.extra for group in plan.groups)


def changed_rings(plan: ClusteringPlan, rings: HashRings, time: str) -> dict[str, Ring]:
    """Return the hash rings as they will be after the clustering, by partition path. Stores nothing.

    Args:
        plan: a plan whose groups list the changes of the rings.
        rings: the current hash rings of the table.
        time: the instant time of the plan, for messages.

    Raises:
        WriteConflict: another clustering has changed a ring since the plan was made.
        CorruptFile: a group of the plan does not list valid changes of its ring.
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
    """Return the changes of the hash ring that a group of a clustering plan lists. Raise CorruptFile if the list is damaged.

    Args:
        time: the instant time of the plan, for the message.
    """
    try:
        records = json.loads(group.extra[_NODES])
        return [Node(int(record["value"]), record["fileIdPrefix"], Tag(record["tag"])) for record in records]
    except (KeyError, ValueError, TypeError) as e:
        raise CorruptFile(f"clustering plan {time} does not say what becomes of buckets: {e}; unschedule that clustering") from e


@dataclass(frozen=True)
class ResizeTask:
    """Task description: buckets of one partition whose rows `resize` writes to new buckets. Pickled to a worker."""

    settings: RewriteSettings
    slices: tuple[FileSlice, ...]
    #: The hash rings of the table, with the new ring of this partition.
    rings: HashRings
    #: File id prefixes of the new buckets that this task writes.
    prefixes: tuple[str, ...]
    #: Unique among all tasks of the clustering. Part of the names of new files.
    number: int

    @property
    def partition_path(self) -> str:
        """The partition path of all slices of the task."""
        return self.slices[0].partition_path


def make_resize_tasks(
    settings: RewriteSettings,
    plan: ClusteringPlan,
    slices: Sequence[Sequence[FileSlice]],
    rings: HashRings,
    changed: Mapping[str, Ring],
    time: str,
) -> list[ResizeTask]:
    """Return one task for each group of a plan that splits and joins buckets.

    Args:
        slices: the file slices of each group of the plan, in the order of the groups.
        rings: the current hash rings of the table.
        changed: the new hash rings, by partition path.
        time: the instant time of the plan.
    """
    # A bucket is exactly one file group, so its rows go to one file however large it gets.
    settings = replace(settings, file_settings=replace(settings.file_settings, max_file_bytes=LONG_MAX))
    tasks = []
    for number, (group, group_slices) in enumerate(zip(plan.groups, slices, strict=True)):
        prefixes = tuple(str(node.prefix) for node in _nodes_of(group, time) if node.tag is Tag.REPLACE)
        path = group_slices[0].partition_path
        new_rings = replace(rings, stored={path: changed[path]})
        tasks.append(ResizeTask(settings, tuple(group_slices), new_rings, prefixes, number))
    return tasks


def resize(task: ResizeTask) -> list[WriteStat]:
    """Write each row of the task's buckets to the new bucket that its key hashes to. Return the write stats of the new files."""
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
    """Yield the rows of all slices of a task, merged with their log files."""
    for file_slice in task.slices:
        yield from read_slice(file_slice, task.settings)


def _split_by_bucket(task: ResizeTask, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Split rows by the new bucket that their key hashes to: yield the bucket's file id prefix and the bucket's rows.

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
