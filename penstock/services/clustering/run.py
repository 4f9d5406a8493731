"""Running a clustering: the groups of a plan become new file groups, in the place of those the plan names.

    <t>.replacecommit.requested (the plan) → inflight → base files, markers first → <t>.replacecommit

What a run that died has left is rolled back first; the plan stays whatever happens, and is run again. Writers may be at work
meanwhile, on other file groups. If one has changed a file group of the plan all the same, because its options allow that, the
clustering is refused: its new files would lack that change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock import options as o
from penstock.catalog.listing import list_groups, visibility
from penstock.catalog.pending import clustering_plans
from penstock.commit.change import Change
from penstock.commit.file_settings import base_file_settings
from penstock.commit.metadata_table import turn_off_metadata_table
from penstock.errors import CorruptFile, OptionError, Unsupported, WriteConflict
from penstock.filegroup.markers import read_markers, work_folder
from penstock.filegroup.model import FileSlice
from penstock.filegroup.view import latest_merged_slices
from penstock.index import index_of
from penstock.index.consistent_hashing import save_changed
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.options.option import LONG_MAX
from penstock.progress import Stages, TaskProgress
from penstock.schema import META_COLUMNS, avro_to_arrow, with_storage_types
from penstock.services.clustering.index_entries import check_movable, noting_keys, tell_after, tell_before
from penstock.services.clustering.plan import slice_named
from penstock.services.clustering.resize_buckets import changed_rings, is_resize, resize, resize_tasks, rings_to_resize
from penstock.services.clustering.rewrite_group import RewriteTask, Rewriting, rewrite
from penstock.services.clustering.rewrite_large import rewrite_in_parts
from penstock.services.clustering.row_order import check_ordering
from penstock.services.clustering.schedule import ordering_of, planned_at, schedule_clustering, sortable
from penstock.services.compaction.run import is_small, rules_and_settings, running, runs_elsewhere, schema_of, start_over
from penstock.services.planned import writes_before
from penstock.spread.runner import Runner
from penstock.spread.session import count_cores
from penstock.storage import join
from penstock.table import TableState, reload_timeline
from penstock.timeline.clustering_plan import ClusteringPlan, ClusteringSlice
from penstock.timeline.commit_file import CommitMetadata, WriteStat
from penstock.timeline.instant import WRITE_ACTIONS, Instant, State
from penstock.timeline.store import instant_path, read_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MB = 1024 * 1024
#: Stored bytes of a group that one task sorts, and below which more tasks than cores do not pay.
_MOST_BYTES, _LEAST_BYTES = 128 * _MB, 32 * _MB
#: The Java classes whose plans are run: rows sorted into files of some size, or each file by itself.
_SORT_AND_SIZE, _SINGLE_FILE = "SortAndSizeExecutionStrategy", "SingleFileSortExecutionStrategy"
#: Runs a kernel over task descriptions and gives the results.


@dataclass(frozen=True)
class Clustered:
    """A clustering that is part of the table."""

    instant: str
    metadata: CommitMetadata


def cluster(spark: SparkSession, table: TableState, stages: Stages, *, due: bool = False) -> list[Clustered]:
    """Run all plans that wait, then plan and run what else there is to cluster.

    Args:
        due: whether a new plan is made whatever the options say about when.
    """
    done = run_waiting(spark, table, stages, every=due)
    instant = schedule_clustering(table, due=due)
    return done + ([run_clustering(spark, table, instant.time, stages)] if instant else [])


def run_waiting(spark: SparkSession, table: TableState, stages: Stages, *, every: bool = False) -> list[Clustered]:
    """Run all plans that wait, or whose run died, oldest first.

    Args:
        every: whether a plan that another process is running is an error; otherwise it is left to that.
    """
    plans = clustering_plans(reload_timeline(table))
    waiting = [instant.time for instant, _ in plans if every or not runs_elsewhere(table, instant)]
    return [run_clustering(spark, table, time, stages) for time in waiting]


def run_clustering(spark: SparkSession, table: TableState, time: str, stages: Stages) -> Clustered:
    """Run one plan to its end.

    Raises:
        OptionError: there is no such plan.
        CorruptFile: a file that the plan names is missing or damaged.
        SchemaError: rows cannot be sorted by what the plan names.
        Unsupported: the table has buckets, or the plan is for a kind of clustering that only Hudi knows.
        WriteConflict: another process runs it, a write that began before the plan is not finished, or one has changed a file
            group of the plan.
    """
    table = turn_off_metadata_table(reload_timeline(table))
    instant, plan = planned_at(table, time)
    if not is_resize(plan):
        check_runner(table, time, plan)
        check_movable(table, (one.file_id for one in plan.slices))
    if earlier := writes_before(table, time):
        raise WriteConflict(
            f"write {earlier[0].file_name} of {table.base_path} began before clustering {time} was planned and is not finished; "
            "run the clustering when it is"
        )
    table = start_over(table, instant)
    slices = planned_slices(table, time, plan)
    with running(table, instant.at(State.REQUESTED)) as change:
        return _run(spark, table, change, plan, slices, stages)


def _run(
    spark: SparkSession,
    table: TableState,
    change: Change,
    plan: ClusteringPlan,
    slices: Sequence[Sequence[FileSlice]],
    stages: Stages,
) -> Clustered:
    schema, index = schema_of(table), index_of(table.options)
    rewriting = rewriting_of(table, change.time, plan, schema)
    rewriting = replace(rewriting, settings=noting_keys(rewriting.settings, index))
    runner = Runner(spark, on_driver=is_small(table, [one for its in slices for one in its]))
    expected = sum(group.outputs for group in plan.groups)
    begun = TaskProgress(expected, lambda: len(read_markers(table.storage, table.base_path, change.time)))
    with stages.run("cluster", f"clustering {sum(map(len, slices))} file groups", begun) as notes:
        if is_resize(plan):
            stats = _resize(table, change.time, plan, rewriting, slices, runner)
        else:
            most = bytes_per_task(slices, count_cores(spark.conf) if spark else None)
            stats = _rewrite(table, change.time, plan, rewriting, slices, runner, most)
        notes.rows, notes.size_bytes = sum(s.num_writes for s in stats), sum(s.total_write_bytes for s in stats)
    tell_before(table, index, change.time, stats, runner)
    extra = {"penstock.stages": stages.to_text()}
    commit = change.prepare(
        stats, operation=Operation.CLUSTER, schema=schema, extra=extra, replaced=replaced_by(plan), spark=spark
    )
    check_untouched(table, change.time, plan)
    published = change.publish(commit, spark=spark)
    tell_after(table, index, stats)
    return Clustered(change.time, published.metadata)


def _rewrite(
    table: TableState,
    time: str,
    plan: ClusteringPlan,
    rewriting: Rewriting,
    slices: Sequence[Sequence[FileSlice]],
    runner: Runner,
    most: int,
) -> list[WriteStat]:
    """The groups of a plan to new file groups: one task each, or several where more bytes than `most` have to be sorted."""
    groups = list(zip(plan.groups, slices, strict=True))

    def is_large(its: Sequence[FileSlice]) -> bool:
        return rewriting.ordering is not None and len(its) > 1 and _bytes(its) > most

    large, small = [one for one in groups if is_large(one[1])], [one for one in groups if not is_large(one[1])]
    parts = sorted((part for group, its in small for part in _parts(rewriting, its, group.outputs)), key=_bytes, reverse=True)
    tasks = [RewriteTask(rewriting, tuple(part), number) for number, part in enumerate(parts)]
    numbers = accumulate((group.outputs for group, _ in large), initial=len(tasks))
    found = runner.collect(rewrite, tasks, WriteStat)
    for number, (group, its) in zip(numbers, large, strict=False):
        folder = join(work_folder(table.base_path, time), f"cluster-{number}")
        ranges = max(group.outputs, -(-_bytes(its) // most))
        found += rewrite_in_parts(rewriting, its, group.outputs, ranges, folder, runner, number)
    return found


def _resize(
    table: TableState,
    time: str,
    plan: ClusteringPlan,
    rewriting: Rewriting,
    slices: Sequence[Sequence[FileSlice]],
    runner: Runner,
) -> list[WriteStat]:
    """The groups of a plan to other buckets, and the rings that say so, which count when the clustering is completed."""
    rings = rings_to_resize(table)
    if rings is None:
        raise OptionError(
            f"clustering {time} splits or joins buckets of {table.base_path}; run it with {o.INDEX_TYPE.key}=BUCKET and "
            f"{o.BUCKET_ENGINE.key}=CONSISTENT_HASHING, as the table was written"
        )
    changed = changed_rings(plan, rings, time)
    stats = runner.collect(resize, resize_tasks(rewriting, plan, slices, rings, changed, time), WriteStat)
    save_changed(table, time, changed)
    return stats


def rewriting_of(table: TableState, time: str, plan: ClusteringPlan, schema: str) -> Rewriting:
    """How the groups of a plan are rewritten. Raises SchemaError."""
    told = Options({key: text for key, text in plan.parameters.items() if key.startswith("hoodie.") and text is not None})
    ordering = ordering_of(told.replace({key: table.options.raw[key] for key in _LAYOUT if key in table.options}))
    if ordering is not None:
        check_ordering(ordering, sortable(schema))
    rules = None
    if table.is_merge_on_read and any(one.log_files for one in plan.slices):
        rules, settings = rules_and_settings(table, time, schema)
    else:
        stored = with_storage_types(pa.schema([f for f in avro_to_arrow(schema) if f.name not in META_COLUMNS]))
        settings = base_file_settings(table, time, stored, schema)
    single = plan.runner.endswith(_SINGLE_FILE)
    most = LONG_MAX if single else table.options[o.CLUSTERING_TARGET_FILE_BYTES]
    return Rewriting(replace(settings, max_file_bytes=most), ordering, plan.preserves_meta, rules)


#: What the caller may say about the order of rows, whatever the plan does.
_LAYOUT = tuple(
    one.key for one in (o.LAYOUT_OPTIMIZE_STRATEGY, o.LAYOUT_CURVE_METHOD, o.LAYOUT_CURVE_SAMPLE, o.BULK_INSERT_SORT_MODE)
)


def _parts(rewriting: Rewriting, slices: Sequence[FileSlice], outputs: int) -> list[list[FileSlice]]:
    """What the tasks of one group read: one all of it; or as many as there are new files, where rows need not come together."""
    if rewriting.ordering is not None or outputs == 1:
        return [list(slices)]
    parts: list[list[FileSlice]] = [[] for _ in range(outputs)]
    for one in slices:  # the largest first
        min(parts, key=_bytes).append(one)
    return [part for part in parts if part]


def bytes_per_task(slices: Iterable[Sequence[FileSlice]], at_once: int | None) -> int:
    """Stored bytes that one task sorts: so many that all cores have some, within bounds."""
    total = sum(map(_bytes, slices))
    return max(_LEAST_BYTES, min(_MOST_BYTES, total // at_once if at_once else _MOST_BYTES))


def _bytes(slices: Sequence[FileSlice]) -> int:
    return sum(one.size_bytes for one in slices)


def replaced_by(plan: ClusteringPlan) -> dict[str, tuple[str, ...]]:
    """The file groups that are no longer seen, by partition path."""
    found: dict[str, tuple[str, ...]] = {}
    for one in plan.slices:
        found[one.partition_path] = (*found.get(one.partition_path, ()), one.file_id)
    return found


# What a plan counts on


def check_runner(table: TableState, time: str, plan: ClusteringPlan) -> None:
    """Raises Unsupported for a plan that is not run by sorting: its file groups would not be what whoever made it expects."""
    if plan.runner and not plan.runner.endswith((_SORT_AND_SIZE, _SINGLE_FILE)):
        raise Unsupported(
            f"clustering {time} of {table.base_path} is to be run by {plan.runner}, which Penstock does not know; run it with "
            f"Hudi, or give it up with unschedule_clustering({time!r})"
        )


def planned_slices(table: TableState, time: str, plan: ClusteringPlan) -> list[list[FileSlice]]:
    """The slices of each group of a plan, as they are on storage.

    Raises:
        CorruptFile: a file is missing.
        WriteConflict: a slice is not the newest of its file group any more.
    """
    listed = list_groups(table, sorted({one.partition_path for one in plan.slices}))
    here = {file for group in listed for one in group.slices for file in _names(one)}
    newest = {(one.partition_path, one.file_id): one for one in latest_merged_slices(listed, visibility(table))}
    return [[_planned_slice(table, time, one, newest, here) for one in group.slices] for group in plan.groups]


def _planned_slice(
    table: TableState, time: str, one: ClusteringSlice, newest: dict[tuple[str, str], FileSlice], here: set[str]
) -> FileSlice:
    for name in (one.base_file, *one.log_files):
        if name is not None and name not in here:
            raise CorruptFile(
                f"{join(table.base_path, one.partition_path, name)} is missing, which clustering plan {time} names; restore the "
                "file from a copy, or unschedule that clustering"
            )
    found = newest.get((one.partition_path, one.file_id))
    named = slice_named(found) if found else None
    if found is None or named is None or (named.base_file, set(named.log_files)) != (one.base_file, set(one.log_files)):
        raise _touched(table, time, one.partition_path, one.file_id)
    return found


def _names(one: FileSlice) -> list[str]:
    return [*([one.base_file.name] if one.base_file else []), *(log.name for log in one.log_files)]


def check_untouched(table: TableState, time: str, plan: ClusteringPlan) -> None:
    """Raises WriteConflict if a write changes a file group of the plan, or has done so since the run began."""
    planned = {(one.partition_path, one.file_id) for one in plan.slices}
    known = table.timeline.completed_times
    for instant in reload_timeline(table).timeline.instants:
        if instant.action in WRITE_ACTIONS and instant.time not in known and instant.time != time:
            for path, file_id in _groups_of(table, instant) & planned:
                raise _touched(table, time, path, file_id)


def _groups_of(table: TableState, instant: Instant) -> set[tuple[str, str]]:
    """The file groups that a write has changed, or is about to change; nothing where it does not say."""
    if instant.state is State.REQUESTED or table.storage.stat(instant_path(table.base_path, instant)) is None:
        return set()
    try:
        metadata = read_metadata(table.storage, table.base_path, instant)
    except CorruptFile:
        if instant.is_completed:
            raise
        return set()  # an inflight file may have no content
    replaced = {(path, file_id) for path, ids in (metadata.replaced or {}).items() for file_id in ids}
    return replaced | {(stat.partition_path or "", stat.file_id) for stat in metadata.stats}


def _touched(table: TableState, time: str, path: str, file_id: str) -> WriteConflict:
    return WriteConflict(
        f"a write has changed file group {file_id} of partition {path!r} of {table.base_path} since clustering {time} was "
        "planned; unschedule that clustering and plan another"
    )
