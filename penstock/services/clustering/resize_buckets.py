"""Splitting and joining the buckets of consistent hashing, by a clustering.

A bucket that has become too large is split in two, neighbours that are small are joined; rows go to new file groups by the new
parts of the ring. A group of such a plan says, under Hudi's names, which parts of the ring become what (`Node`). The new ring is
kept before the clustering is completed and counts from then on (`index/rings.py`). Other buckets are rewritten only to be sorted.

Kernels plan and rewrite; `schedule.py` and `run.py` of this package do the rest, as for every clustering.
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
from penstock.filegroup.task_output import TaskOutput
from penstock.index import buckets_in
from penstock.index.consistent_hashing import HashRings, Node, Ring, Tag, has_rings
from penstock.merge.kernels.gather import to_array
from penstock.options import Options
from penstock.options.option import LONG_MAX
from penstock.schema import META_COLUMNS
from penstock.services.clustering.index_entries import check_movable
from penstock.services.clustering.plan import group_of
from penstock.services.clustering.rewrite_group import Rewriting, in_order, read_slice
from penstock.spread.run import this_task
from penstock.table import TableState
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan
from penstock.timeline.commit_file import WriteStat

PLANNER = "org.apache.hudi.client.clustering.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
RUNNER = "org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
#: What Hudi calls the partition, the new parts of its ring and the number of its changes so far.
_PARTITION, _NODES, _CHANGES = "clustering.group.partition", "clustering.group.child.node", "clustering.group.sequence.no"


def rings_to_resize(table: TableState) -> HashRings | None:
    """The rings of a table, if it has any; None: its file groups may be clustered freely.

    Raises:
        Unsupported: it has a fixed number of buckets, which are file groups for good.
        OptionError: the options name a strategy that is not for this table.
    """
    buckets, options = buckets_in(table), table.options
    if isinstance(buckets, HashRings):
        _check_strategies(table)
        return buckets
    if buckets is not None:
        check_movable(table)
    if has_rings(table):
        raise OptionError(
            f"{table.base_path} was written with {o.BUCKET_ENGINE.key}=CONSISTENT_HASHING; cluster it with that option, "
            f"{o.INDEX_TYPE.key}=BUCKET and the table's {o.BUCKET_COUNT.key} and {o.BUCKET_HASH_FIELDS.key}"
        )
    if _names(options[o.CLUSTERING_PLAN_STRATEGY], PLANNER):
        raise OptionError(
            f"{o.CLUSTERING_PLAN_STRATEGY.key}={options[o.CLUSTERING_PLAN_STRATEGY]} is for tables with "
            f"{o.BUCKET_ENGINE.key}=CONSISTENT_HASHING, which {table.base_path} is not; leave it out"
        )
    return None


def _check_strategies(table: TableState) -> None:
    for option, wanted in ((o.CLUSTERING_PLAN_STRATEGY, PLANNER), (o.CLUSTERING_EXECUTION_STRATEGY, RUNNER)):
        if table.options.is_set(option) and not _names(table.options[option], wanted):
            raise OptionError(
                f"{option.key}={table.options[option]} is not for {table.base_path}, whose buckets are parts of hash rings; "
                f"leave it out, or set {wanted}"
            )


def _names(name: str, strategy: str) -> bool:
    return name.rpartition(".")[2] == strategy.rpartition(".")[2]


# The plan


@dataclass(frozen=True)
class Limits:
    """When buckets are split and joined."""

    split_bytes: int
    join_bytes: int
    most: int
    least: int
    #: Whether buckets that stay as they are get rewritten, because rows are to be sorted.
    sorts: bool = False


def limits_of(options: Options, count: int) -> Limits:
    """What the options ask for, for a table that began with so many buckets in a partition."""
    size = options[o.MAX_FILE_SIZE]
    return Limits(
        split_bytes=int(size * options[o.BUCKET_SPLIT_THRESHOLD]),
        join_bytes=int(size * options[o.BUCKET_MERGE_THRESHOLD]),
        most=max(options[o.BUCKET_COUNT_MAX] or count, count),
        least=min(options[o.BUCKET_COUNT_MIN] or count, count),
        sorts=bool(options[o.CLUSTERING_SORT_COLUMNS]),
    )


#: A bucket of a ring by its number, and what it holds.
Held = tuple[int, FileSlice]


def resize_groups(slices: Sequence[FileSlice], ring: Ring, limits: Limits) -> Iterator[ClusteringGroup]:
    """The groups of one partition: buckets to split, then neighbours to join, then the others if they are to be sorted."""
    found = ((ring.number_of(one.file_id), one) for one in slices)
    held = sorted(((number, one) for number, one in found if number is not None), key=lambda pair: pair[0])
    left: list[Held] = []
    count = len(ring.values)
    for number, one in held:
        nodes = ring.split(number) if one.size_bytes > limits.split_bytes and count < limits.most else None
        if nodes is None:
            left.append((number, one))
        else:
            count += 1
            yield _group([one], nodes, ring)
    for run in neighbours(left, limits, count - limits.least):
        left = [pair for pair in left if pair not in run]
        yield _group([one for _, one in run], ring.joined([number for number, _ in run]), ring)
    if limits.sorts:
        yield from (_group([one], (Node(ring.values[number], clock.new_uuid()),), ring) for number, one in left)


def neighbours(held: Sequence[Held], limits: Limits, fewer: int) -> Iterator[list[Held]]:
    """Runs of small buckets next to each other on the ring, each as long as what is joined is small; at most `fewer` go away."""
    run: list[Held] = []
    for pair in held:
        follows = bool(run) and pair[0] == run[-1][0] + 1
        small = pair[1].size_bytes <= limits.join_bytes
        if follows and small and fewer > 0 and sum(one.size_bytes for _, one in run) <= limits.join_bytes:
            run.append(pair)
            fewer -= 1
            continue
        if len(run) > 1:
            yield run
        run = [pair] if small else []
    if len(run) > 1:
        yield run


def _group(slices: Sequence[FileSlice], nodes: Sequence[Node], ring: Ring) -> ClusteringGroup:
    said = [{"value": node.value, "fileIdPrefix": node.prefix, "tag": node.tag.value} for node in nodes]
    extra = {_PARTITION: slices[0].partition_path, _NODES: json.dumps(said), _CHANGES: str(ring.changes)}
    return group_of(slices, sum(node.tag is Tag.REPLACE for node in nodes), extra)


# The run


def is_resize(plan: ClusteringPlan) -> bool:
    """Whether a plan changes the rings of the table."""
    return any(_NODES in group.extra for group in plan.groups)


def changed_rings(plan: ClusteringPlan, rings: HashRings, time: str) -> dict[str, Ring]:
    """The rings as they are after a plan, by partition path.

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
    return {path: rings.ring(path).changed(its) for path, its in nodes.items()}


def _nodes_of(group: ClusteringGroup, time: str) -> list[Node]:
    try:
        said = json.loads(group.extra[_NODES])
        return [Node(int(one["value"]), one["fileIdPrefix"], Tag(one["tag"])) for one in said]
    except (KeyError, ValueError, TypeError) as e:
        raise CorruptFile(f"clustering plan {time} does not say what becomes of buckets: {e}; unschedule that clustering") from e


@dataclass(frozen=True)
class ResizeTask:
    """Buckets of one partition that become others."""

    rewriting: Rewriting
    slices: tuple[FileSlice, ...]
    rings: HashRings
    #: File ids without their number, of the buckets that come of it.
    prefixes: tuple[str, ...]
    number: int


def resize_tasks(
    rewriting: Rewriting,
    plan: ClusteringPlan,
    slices: Sequence[Sequence[FileSlice]],
    rings: HashRings,
    changed: Mapping[str, Ring],
    time: str,
) -> list[ResizeTask]:
    """A task for each group of a plan."""
    how = replace(rewriting, settings=replace(rewriting.settings, max_file_bytes=LONG_MAX))
    found = []
    for number, (group, its) in enumerate(zip(plan.groups, slices, strict=True)):
        prefixes = tuple(str(node.prefix) for node in _nodes_of(group, time) if node.tag is Tag.REPLACE)
        path = its[0].partition_path
        found.append(ResizeTask(how, tuple(its), replace(rings, stored={path: changed[path]}), prefixes, number))
    return found


def resize(task: ResizeTask) -> list[WriteStat]:
    """Kernel: write the rows of some buckets to those that come of them; gives the write stats."""
    how, path = task.rewriting, task.slices[0].partition_path
    rows: Iterable[pa.Table] = (part for one in task.slices for part in read_slice(one, how))
    if how.ordering is not None:
        rows = in_order(rows, how.ordering)
    attempt = this_task().write_token.partition("-")[2]
    output = TaskOutput(how.settings, task.number, f"{task.number}-{attempt}")
    writers = {prefix: RollingWriter(output, path, f"{prefix}-0") for prefix in task.prefixes}
    for part in rows:
        for prefix, its in _by_bucket(task, part):
            if how.preserves_meta or not how.settings.populate_meta:
                writers[prefix].keep(its)
            else:
                writers[prefix].write(its.drop_columns(list(META_COLUMNS[:3])), its[KEY_COLUMN])
    stats = [stat for writer in writers.values() for stat in writer.close()]
    output.finish()
    return stats


def _by_bucket(task: ResizeTask, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Rows cut by the bucket that they belong to now."""
    path = task.slices[0].partition_path
    numbers = task.rings.numbers(to_array(rows[KEY_COLUMN]), path)
    for number in np.unique(numbers).tolist():
        prefix = task.rings.ring(path).prefixes[number]
        if prefix not in task.prefixes:
            raise CorruptFile(
                f"file group {task.slices[0].file_id} of partition {path!r} holds keys of other buckets; was the table written "
                f"with another {o.BUCKET_HASH_FIELDS.key} than {','.join(task.rings.fields)}?"
            )
        yield prefix, rows.filter(pa.array(numbers == number))
