"""Incremental queries: the rows that were written in a range of instants, as they were at its end.

1. The range ends with the last completed write in it; a write that is not completed may end it earlier (`_end`).
2. The metadata of the writes, archived ones too, says which file groups they touched (`touched.py`).
3. Of each group the newest slice at the end of the range is read, and of its rows those with a commit time in the range.

So a row that changed twice comes once, rows that were deleted or replaced do not come, and what only moved, by compaction or
clustering, has its old commit time and is nothing new. A file of the range that cleaning took is an error; or the table is
scanned as it is now, if the query says so.
"""

from __future__ import annotations

from dataclasses import replace

from penstock import options as o
from penstock.catalog.listing import group_by_partition, list_groups, load_visibility
from penstock.catalog.pending import load_clustering_plan
from penstock.errors import ChangesLost, OptionError
from penstock.filegroup.model import FileSlice
from penstock.filegroup.view import Visibility, latest_base_slices, latest_merged_slices
from penstock.read.bucket_pruning import in_asked_buckets
from penstock.read.changed_groups import Group, Touched, first_missing, matcher, matching, touched_groups
from penstock.read.plan import QueryPlan, file_name, plan_query
from penstock.read.query import Query
from penstock.table import KEEPS_SCHEMA, TableState, read_table_schema
from penstock.timeline.archive import is_archived
from penstock.timeline.history import CompletedWrite, InstantRange, list_writes
from penstock.timeline.instant import WRITE_ACTIONS

#: Writes up to which rows are asked for by the times of these: Spark's Parquet reader hands no more values on to the files.
_FEW_WRITES = 10


def plan_incremental(query: Query, table: TableState) -> QueryPlan:
    """Decide which file slices answer an incremental query.

    Raises:
        OptionError: the query has no begin, or the table cannot be asked this.
        ChangesLost: files of the range were cleaned.
    """
    _check(query, table)
    asked = InstantRange(query.since or "", query.until or table.timeline.writes[-1].time)
    asked = replace(asked, end=_end(query, table, asked))
    writes = list_writes(table.storage, table.base_path, table.timeline, asked, table.config.archive_folder)
    schema = _schema(query, table, writes)
    if not writes:
        return QueryPlan(table, query, schema, {})
    changes = InstantRange(asked.begin, writes[-1].time)
    try:
        slices = _slices(query, table, changes, writes)
    except ChangesLost:
        if not query.options[o.INCREMENTAL_FALLBACK_FULL_SCAN]:
            raise
        return _scan_of_all(query, table, changes)
    if query.equals:
        slices = in_asked_buckets(slices, dict(query.equals), table, schema)
    is_known = len(writes) <= _FEW_WRITES and changes.begin >= (table.timeline.start or "")
    times = tuple(write.time for write in writes) if is_known else ()
    return QueryPlan(table, replace(query, as_of=changes.end), schema, group_by_partition(slices), changes, times)


def _check(query: Query, table: TableState) -> None:
    if not query.since:
        raise OptionError(
            f"Specify the begin instant time to pull from using option {o.BEGIN_INSTANT.key}: an instant of the table, a time, "
            "or 000 for all there is"
        )
    if not table.config.populate_meta_fields:
        raise OptionError(
            f"Incremental queries are not supported when meta fields are disabled: {table.base_path} was made with "
            f"{o.POPULATE_META_FIELDS.key}=false, so its rows do not say when they were written; read a snapshot"
        )
    if not table.timeline.writes:
        raise OptionError(f"No instants to incrementally pull: {table.base_path} has no completed write; write to it first")


def _end(query: Query, table: TableState, asked: InstantRange) -> str:
    """The end of the range; a time before the first write that is not completed, if a later one is."""
    completed = [i.time for i in table.timeline.writes if asked.holds(i.time)]
    open_ones = [
        i for i in table.timeline.pending if i.action in WRITE_ACTIONS and asked.begin < i.time < max(completed, default="")
    ]
    hole = next((i for i in open_ones if load_clustering_plan(table, i) is None), None)
    if hole is None:
        return asked.end
    if query.options[o.TIMELINE_HOLES_POLICY] == "FAIL":
        raise OptionError(
            f"Found hollow commit: '{hole.time}' is not completed, and {max(completed)} after it is. When it completes, who "
            f"asks for changes after {max(completed)} would miss it. Set {o.TIMELINE_HOLES_POLICY.key}=BLOCK to read up to it, "
            f"or {o.END_INSTANT.key} to an earlier instant"
        )
    return max((time for time in completed if time < hole.time), default=asked.begin)


def _schema(query: Query, table: TableState, writes: list[CompletedWrite]) -> str | None:
    """The columns of the answer: those that the table has now, or had at the end of the range."""
    if not query.options[o.INCREMENTAL_END_SCHEMA] or not writes:
        return read_table_schema(table)
    told = [w.metadata.schema for w in writes if w.metadata.schema and w.metadata.operation not in KEEPS_SCHEMA]
    return told[-1] if told else read_table_schema(table, writes[-1].time) or read_table_schema(table)


def _slices(query: Query, table: TableState, changes: InstantRange, writes: list[CompletedWrite]) -> list[FileSlice]:
    """The newest slices, at the end of the range, of the groups that were touched in it.

    Raises:
        ChangesLost: so.
    """
    touched = touched_groups(writes, lambda base_instant: _is_unscheduled(table, base_instant))
    touched = {group: one for group, one in touched.items() if query.asks_for(group[0])}
    touched = matching(touched, table.base_path, query.options[o.INCREMENTAL_GLOB])
    reaches_back = table.timeline.start is not None and changes.begin < table.timeline.start
    groups = list_groups(table, None if reaches_back else sorted({path for path, _ in touched}))
    if reaches_back:
        wanted_groups = [group for group in groups if query.asks_for(group.partition_path)]
        newest = latest_merged_slices(wanted_groups, load_visibility(table, changes.end))
        _check_known(table, changes, writes, newest)
    wanted = [one for one in groups if (one.partition_path, one.file_id) in touched]
    seen = Visibility(table.timeline, as_of=changes.end)
    if table.is_merge_on_read:
        slices = latest_merged_slices(wanted, seen)
    else:
        slices = [replace(one, log_files=()) for one in latest_base_slices(wanted, seen)]
    _check_there(touched, slices, table)
    return [one for one in slices if query.asks_for_file(one.partition_path, file_name(one))]


def _is_unscheduled(table: TableState, base_instant: str) -> bool:
    """Whether log files on top of this have other names by now: nothing of that time is on the timeline any more."""
    start = table.timeline.start
    return start is not None and base_instant >= start and all(i.time != base_instant for i in table.timeline.instants)


def _check_there(touched: dict[Group, Touched], slices: list[FileSlice], table: TableState) -> None:
    if lost := first_missing(touched, slices):
        raise ChangesLost(f"file {lost[0]} of {table.base_path}, written by {lost[1]}, was cleaned since; {_ADVICE}")


def _check_known(table: TableState, changes: InstantRange, writes: list[CompletedWrite], slices: list[FileSlice]) -> None:
    """Every file that is older than the active timeline and in the range was written by somebody the archive knows.

    Log files on top of older ones do not say in their names when they were written: where they are, there has to be an archive.
    """
    known = {write.time for write in writes}
    start = table.timeline.start or ""
    older = [one for one in slices if one.base_instant < start]
    times = [one.base_instant for one in older if changes.holds(one.base_instant) and one.base_instant not in known]
    if not times and any(one.log_files for one in older):
        is_there = is_archived(table.storage, table.base_path, table.config.archive_folder)
        times = [] if is_there else [one.base_instant for one in older]
    if lost := min(times, default=None):
        raise ChangesLost(
            f"{table.base_path} has files of {lost}, of which neither its timeline, which begins at {start}, nor its archive "
            f"knows; so what changed after {changes.begin} cannot be told; {_ADVICE}"
        )


_ADVICE = (
    f"set {o.BEGIN_INSTANT.key} to a later instant, or {o.INCREMENTAL_FALLBACK_FULL_SCAN.key}=true to scan the table as it is "
    "now, or begin anew with a snapshot"
)


def _scan_of_all(query: Query, table: TableState, changes: InstantRange) -> QueryPlan:
    """The table as it is now, with the columns of now, of which only rows that were written in the range are wanted."""
    now = plan_query(replace(query, kind="snapshot"), table)
    fits, base = matcher(query.options[o.INCREMENTAL_GLOB]), f"{table.base_path}/"
    kept = {
        path: [one for one in its if fits(f"{base}{path}/{file_name(one)}" if path else base + file_name(one))]
        for path, its in now.slices.items()
    }
    return replace(now, query=query, slices={path: its for path, its in kept.items() if its}, changes=changes)
