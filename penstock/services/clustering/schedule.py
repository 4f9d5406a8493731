"""Scheduling: when a clustering is due, and its plan on the timeline, or off it again.

A plan names the newest slice of each file group that it takes. From then on writes that would change one of those are
refused, or, where they are allowed to, make the plan void. A write that began before may be about to change one, so there is
no plan while such a write is under way; the timeline is looked at once more when the plan is there, as for a compaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from penstock import options as o
from penstock.catalog.listing import choose_groups, visibility
from penstock.catalog.pending import clustering_of, clustering_plans, pending_clusterings, pending_groups
from penstock.errors import CorruptFile, OptionError
from penstock.filegroup.meta_columns import KEY_COLUMN, body_schema
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.index.consistent_hashing import HashRings, drop_changed
from penstock.options import Options
from penstock.options.operation import Operation
from penstock.options.option import LONG_MAX
from penstock.schema import META_COLUMNS, avro_to_arrow
from penstock.services.clustering.index_entries import check_movable
from penstock.services.clustering.partition_filters import choose_partitions, selection_of
from penstock.services.clustering.plan import Bounds, Strategy, bounds_of, eligible_slices, group_slices, strategy_of
from penstock.services.clustering.resize_buckets import RUNNER, is_resize, limits_of, resize_groups, rings_to_resize
from penstock.services.clustering.row_order import Layout, Ordering, check_ordering
from penstock.services.compaction.run import start_over
from penstock.services.planned import plan_beside_writers
from penstock.table import TableState, reload_timeline, table_schema
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan, write_clustering
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path, read_schema

#: Sort modes of a bulk insert that leave the rows of a partition in the order of their keys.
_SORTS_BY_KEY = ("GLOBAL_SORT", "PARTITION_SORT")


def schedule_clustering(table: TableState, *, due: bool = False) -> Instant | None:
    """Plan a clustering, if there is anything to cluster.

    Args:
        due: whether it is due whatever the options say.

    Returns:
        The plan's instant; None where nothing is left to plan for, it is not due, or a write is under way.

    Raises:
        SchemaError: rows cannot be sorted by what the options name.
        Unsupported: the table has buckets.
    """

    def is_due_now(table: TableState) -> bool:
        return due or is_due(table)

    return plan_beside_writers(table, Action.REPLACE_COMMIT, "clustering", is_due_now, _content)


def _content(table: TableState) -> bytes | None:
    plan = make_plan(table)
    return write_clustering(plan, table.base_path) if plan.groups else None


def is_due(table: TableState) -> bool:
    """Whether so many commits were made since the last clustering that the next is due."""
    options = table.options
    gates = [
        options[most]
        for switch, most in (
            (o.CLUSTERING_INLINE, o.CLUSTERING_INLINE_MAX_COMMITS),
            (o.CLUSTERING_ASYNC, o.CLUSTERING_ASYNC_MAX_COMMITS),
        )
        if options[switch]
    ]
    return not gates or commits_since(table) >= max(gates)


def commits_since(table: TableState) -> int:
    """Finished writes after the last clustering, finished or not."""
    last = next((i.time for i in reversed(table.timeline.of(Action.REPLACE_COMMIT)) if _is_clustering(table, i)), "")
    return sum(i.time > last for i in table.timeline.writes)


def _is_clustering(table: TableState, instant: Instant) -> bool:
    if not instant.is_completed:
        return clustering_of(table, instant) is not None
    return read_schema(table.storage, table.base_path, instant)[0] == Operation.CLUSTER.stored


def make_plan(table: TableState) -> ClusteringPlan:
    """What a clustering of the table would do now; nothing is written."""
    options, strategy, rings = table.options, strategy_of(table.options), rings_to_resize(table)
    ordering = ordering_of(options)
    schema = table_schema(table)
    if schema is None:
        return ClusteringPlan()
    if ordering is not None:
        check_ordering(ordering, sortable(schema))
    groups = choose_groups(table, lambda paths: choose_partitions(paths, selection_of(options, strategy.mode)))
    return ClusteringPlan(
        groups=_groups(table, groups, strategy) if rings is None else _resizes(table, groups, rings),
        runner=options[o.CLUSTERING_EXECUTION_STRATEGY] if rings is None else RUNNER,
        parameters=_parameters(options),
        preserves_meta=options[o.CLUSTERING_PRESERVE_META],
    )


def _groups(table: TableState, groups: Sequence[FileGroup], strategy: Strategy) -> tuple[ClusteringGroup, ...]:
    bounds = bounds_of(table.options)
    slices = _eligible(table, groups, bounds)
    check_movable(table, (one.file_id for its in slices.values() for one in its))
    return group_slices(slices.values(), strategy, bounds)


def _resizes(table: TableState, groups: Sequence[FileGroup], rings: HashRings) -> tuple[ClusteringGroup, ...]:
    """The groups of a plan that splits and joins buckets; a partition that has such a plan already waits for its end."""
    bounds, limits = replace(bounds_of(table.options), small_file_limit=LONG_MAX), limits_of(table.options, rings.count)
    planned = {path for path, _ in pending_clusterings(table)}
    slices = _eligible(table, [group for group in groups if group.partition_path not in planned], bounds)
    found = (group for path, its in slices.items() for group in resize_groups(its, rings.ring(path), limits))
    return tuple(group for _, group in zip(range(bounds.groups), found, strict=False))


def _eligible(table: TableState, groups: Sequence[FileGroup], bounds: Bounds) -> dict[str, list[FileSlice]]:
    busy = pending_groups(table).keys()
    return eligible_slices(groups, visibility(table), busy, bounds)


def sortable(schema: str) -> pa.Schema:
    """The columns that rows may be ordered by: those of the table, and the meta columns that are a row's own."""
    return body_schema(pa.schema([f for f in avro_to_arrow(schema) if f.name not in META_COLUMNS]))


def _parameters(options: Options) -> dict[str, str]:
    """What whoever runs the plan is told: Hudi looks for the columns; the rest is for us."""
    columns = options[o.CLUSTERING_SORT_COLUMNS]
    if not columns:
        return {}
    found = {o.CLUSTERING_SORT_COLUMNS.key: ",".join(columns)}
    told = (o.LAYOUT_OPTIMIZE_STRATEGY, o.LAYOUT_CURVE_METHOD, o.LAYOUT_CURVE_SAMPLE)
    return found | {option.key: options.raw[option.key] for option in told if options.is_set(option)}


def ordering_of(options: Options) -> Ordering | None:
    """The order of rows that the options ask for: by columns, or else as a bulk insert sorts; None for the one they have."""
    columns = options[o.CLUSTERING_SORT_COLUMNS]
    if not columns:
        return Ordering((KEY_COLUMN,)) if options[o.BULK_INSERT_SORT_MODE] in _SORTS_BY_KEY else None
    layout = Layout(options[o.LAYOUT_OPTIMIZE_STRATEGY].replace("-", ""))
    sample = options[o.LAYOUT_CURVE_SAMPLE] if options[o.LAYOUT_CURVE_METHOD] == "SAMPLE" else None
    return Ordering(columns, layout, sample)


def planned_at(table: TableState, time: str) -> tuple[Instant, ClusteringPlan]:
    """The pending clustering at a time, and its plan. Raises OptionError."""
    plans = clustering_plans(table)
    for instant, plan in plans:
        if instant.time == time:
            return instant, plan
    known = ", ".join(instant.time for instant, _ in plans) or "none"
    raise OptionError(f"there is no pending clustering at {time} on the timeline of {table.base_path}; pending: {known}")


def unschedule_clustering(table: TableState, time: str) -> None:
    """Give up a plan: what a run of it has written goes, and then the plan itself. One that is torn and was not begun goes too.

    Raises:
        OptionError: there is no such plan.
        CorruptFile: the plan is torn, and its run has begun.
        WriteConflict: another process runs it.
    """
    table = reload_timeline(table)
    if torn := _torn_at(table, time):
        table.storage.delete(instant_path(table.base_path, torn))
        return
    instant, plan = planned_at(table, time)
    table = start_over(table, instant)
    if is_resize(plan):
        drop_changed(table, time)
    table.storage.delete(instant_path(table.base_path, instant.at(State.REQUESTED)))


def _torn_at(table: TableState, time: str) -> Instant | None:
    """The instant of a plan that cannot be read and whose run has not begun."""
    for instant in table.timeline.of(Action.REPLACE_COMMIT):
        if instant.time == time and instant.state is State.REQUESTED:
            try:
                clustering_of(table, instant)
            except CorruptFile:
                return instant
    return None
