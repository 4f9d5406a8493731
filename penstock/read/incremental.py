"""Incremental queries: the rows that were written in a range of instants, as they were at its end.

1. The range ends with its last completed write. A pending write inside the range may end it earlier (`_find_end`).
2. The commit metadata of the writes, also of archived ones, names the file groups that they changed (`changed_groups.py`).
3. The query reads the newest slice that each changed group had at the end of the range, and keeps rows with a commit time in it.

So a row that changed twice is returned once, and rows that were deleted or replaced are not returned. Compaction and clustering
keep the commit time of the rows that they move, so these rows are not returned as new. If a clean deleted a file of the range,
the query raises ChangesLost; with `hoodie.datasource.read.incr.fallback.fulltablescan.enable` it scans the current table
instead.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from penstock import options as o
from penstock.errors import ChangesLost, OptionError
from penstock.filegroup.model import FileSlice
from penstock.read.bucket_pruning import keep_wanted_buckets
from penstock.read.changed_groups import (
    ChangedFiles,
    FilePattern,
    GroupKey,
    find_changed_groups,
    find_missing_file,
    keep_matching,
)
from penstock.read.plan import QueryPlan, file_name, plan_query
from penstock.read.query import Query
from penstock.table.latest_slices import Visibility, latest_merged_slices, latest_slices
from penstock.table.listing import group_by_partition, list_groups, load_visibility
from penstock.table.pending import load_clustering_plan
from penstock.table.state import KEEPS_SCHEMA, TableState, read_table_schema
from penstock.timeline.archive import is_archived
from penstock.timeline.history import CompletedWrite, InstantRange, list_writes
from penstock.timeline.instant import WRITE_ACTIONS

#: The most writes for which rows are filtered by a list of commit times: Spark pushes no longer list down to its Parquet reader
#: (`spark.sql.parquet.pushdown.inFilterThreshold`).
_FEW_WRITES = 10


def plan_incremental(query: Query, table: TableState) -> QueryPlan:
    """Plan an incremental query: decide which file slices the query reads.

    Raises:
        OptionError: the query has no begin, or the table has no meta columns or no completed write.
        ChangesLost: files of the range were cleaned.
    """
    _check(query, table)
    asked = InstantRange(query.since or "", query.until or table.timeline.writes[-1].time)
    asked = replace(asked, end=_find_end(query, table, asked))
    writes = list_writes(table.storage, table.base_path, table.timeline, asked, table.config.archive_folder)
    schema = _choose_schema(query, table, writes)
    if not writes:
        return QueryPlan(table, query, schema, {})
    changes = InstantRange(asked.begin, writes[-1].time)
    try:
        slices = _find_slices(query, table, changes, writes)
    except ChangesLost:
        if not query.options[o.INCREMENTAL_FALLBACK_FULL_SCAN]:
            raise
        return _plan_full_scan(query, table, changes)
    if query.equals:
        slices = keep_wanted_buckets(slices, dict(query.equals), table, schema)
    # If the range reaches into the archive, a row may have a commit time in it that is not among these writes. Then only a
    # filter by range is right, and the list of times stays empty.
    are_times_known = len(writes) <= _FEW_WRITES and changes.begin >= (table.timeline.start or "")
    times = tuple(write.time for write in writes) if are_times_known else ()
    return QueryPlan(table, replace(query, as_of=changes.end), schema, group_by_partition(slices), changes, times)


def _check(query: Query, table: TableState) -> None:
    """Raise OptionError if the query has no begin, or the table has no meta columns or no completed write."""
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


def _find_end(query: Query, table: TableState, asked: InstantRange) -> str:
    """Return the end of the query's range: `asked.end`, or an earlier time if the range has a hole.

    A hole is a pending write with a completed write after it. A reader usually begins its next query at the end of this one. If
    the range included the completed write, that next query would miss the rows of the pending write, whose time is earlier. So
    the range ends with the last completed write before the hole. A pending clustering is no hole, because it adds no rows.

    Args:
        asked: the range that the query asks for.

    Raises:
        OptionError: the range has a hole, and the policy for holes in the timeline is FAIL.
    """
    completed = [instant.time for instant in table.timeline.writes if asked.holds(instant.time)]
    last_completed = max(completed, default="")
    hole: str | None = None
    for instant in table.timeline.pending:
        is_inside = asked.begin < instant.time < last_completed
        if is_inside and instant.action in WRITE_ACTIONS and load_clustering_plan(table, instant) is None:
            hole = instant.time
            break
    if hole is None:
        return asked.end
    if query.options[o.TIMELINE_HOLES_POLICY] == "FAIL":
        raise OptionError(
            f"Found hollow commit: '{hole}' is not completed, and {last_completed} after it is. When it completes, a reader that "
            f"asks for changes after {last_completed} would miss it. Set {o.TIMELINE_HOLES_POLICY.key}=BLOCK to read up to it, "
            f"or {o.END_INSTANT.key} to an earlier instant"
        )
    return max((time for time in completed if time < hole), default=asked.begin)


def _choose_schema(query: Query, table: TableState, writes: list[CompletedWrite]) -> str | None:
    """Return the Avro schema of the query's rows as JSON; None if the table has none.

    This is the schema at the end of the range if `hoodie.datasource.read.schema.use.end.instanttime` is true, otherwise the
    current schema of the table.

    Args:
        writes: the completed writes of the range, oldest first.
    """
    if not query.options[o.INCREMENTAL_END_SCHEMA] or not writes:
        return read_table_schema(table)
    for write in reversed(writes):
        if write.metadata.schema and write.metadata.operation not in KEEPS_SCHEMA:
            return write.metadata.schema
    return read_table_schema(table, writes[-1].time) or read_table_schema(table)


def _find_slices(query: Query, table: TableState, changes: InstantRange, writes: list[CompletedWrite]) -> list[FileSlice]:
    """Return the slices to read: for each file group that the writes changed, its newest slice at the end of the range.

    Args:
        changes: the range of the query.
        writes: the completed writes of the range, oldest first.

    Raises:
        ChangesLost: a file of the range was cleaned.
    """
    changed = find_changed_groups(writes, partial(_is_unscheduled, table))
    changed = {group: files for group, files in changed.items() if query.asks_for(group[0])}
    changed = keep_matching(changed, table.base_path, FilePattern(query.options[o.INCREMENTAL_GLOB]))
    reaches_archive = table.timeline.start is not None and changes.begin < table.timeline.start
    # If the range reaches into the archive, all partitions are listed: a file may be of a write that the archive does not have.
    groups = list_groups(table, None if reaches_archive else sorted({path for path, _ in changed}))
    if reaches_archive:
        asked_groups = [group for group in groups if query.asks_for(group.partition_path)]
        newest = latest_merged_slices(asked_groups, load_visibility(table, changes.end))
        _check_writers_known(table, changes, writes, newest)
    changed_groups = [group for group in groups if (group.partition_path, group.file_id) in changed]
    # No `replaced` argument is needed: find_changed_groups has left out the groups that were replaced in the range.
    seen = Visibility(table.timeline, as_of=changes.end)
    slices = latest_slices(changed_groups, seen, with_logs=table.is_merge_on_read)
    _check_files_exist(changed, slices, table)
    return [file_slice for file_slice in slices if query.asks_for_file(file_slice.partition_path, file_name(file_slice))]


def _is_unscheduled(table: TableState, base_instant: str) -> bool:
    """Whether a base instant is that of an unscheduled compaction: no instant of this time is on the active timeline or archived.

    Unscheduling a compaction renames the log files that have this base instant, so they are not found under their old names.
    """
    start = table.timeline.start
    if start is None or base_instant < start:
        return False
    return all(instant.time != base_instant for instant in table.timeline.instants)


def _check_files_exist(changed: dict[GroupKey, ChangedFiles], slices: list[FileSlice], table: TableState) -> None:
    """Raise ChangesLost if a file that the writes of the range added is in none of the slices, because a clean deleted it.

    Args:
        changed: the changed file groups and files, from `find_changed_groups`.
        slices: the slices that the query reads: for each changed file group, the newest slice at the end of the range.
    """
    missing = find_missing_file(changed, slices)
    if missing:
        raise ChangesLost(
            f"file {missing.name} of {table.base_path}, written by {missing.written_at}, was cleaned since; {_ADVICE}"
        )


def _check_writers_known(table: TableState, changes: InstantRange, writes: list[CompletedWrite], slices: list[FileSlice]) -> None:
    """Raise ChangesLost if a slice may hold changes of a write that is neither on the active timeline nor in the archive.

    The metadata of that write is lost, so it is not known which file groups it changed. Only slices with a base instant before
    the active timeline are checked:

    - If the base instant is in the range, it must be that of a write in `writes`.
    - If the slice has log files, the table must have an archive. More cannot be checked, because the name of a log file does
      not say which write wrote it.

    Args:
        changes: the range of the query.
        writes: the completed writes of the range, from the active timeline and the archive.
        slices: the newest slices of all file groups at the end of the range.
    """
    known = {write.time for write in writes}
    start = table.timeline.start or ""
    older = [file_slice for file_slice in slices if file_slice.base_instant < start]
    unknown = [
        file_slice.base_instant
        for file_slice in older
        if changes.holds(file_slice.base_instant) and file_slice.base_instant not in known
    ]
    have_logs = any(file_slice.log_files for file_slice in older)
    if not unknown and have_logs and not is_archived(table.storage, table.base_path, table.config.archive_folder):
        unknown = [file_slice.base_instant for file_slice in older]
    if unknown:
        raise ChangesLost(
            f"{table.base_path} has files of {min(unknown)}, of which neither its timeline, which begins at {start}, nor its "
            f"archive knows; so what changed after {changes.begin} is not known; {_ADVICE}"
        )


_ADVICE = (
    f"set {o.BEGIN_INSTANT.key} to a later instant, or {o.INCREMENTAL_FALLBACK_FULL_SCAN.key}=true to scan the table as it is "
    "now, or start again from a snapshot"
)


def _plan_full_scan(query: Query, table: TableState, changes: InstantRange) -> QueryPlan:
    """Plan a scan of the current snapshot that keeps rows with a commit time in `changes`: the fallback after ChangesLost."""
    snapshot = plan_query(replace(query, kind="snapshot"), table)
    pattern = FilePattern(query.options[o.INCREMENTAL_GLOB])
    slices: list[FileSlice] = []
    for file_slice in snapshot.all_slices:
        folder = f"{table.base_path}/{file_slice.partition_path}" if file_slice.partition_path else table.base_path
        if pattern.matches(f"{folder}/{file_name(file_slice)}"):
            slices.append(file_slice)
    return replace(snapshot, query=query, slices=group_by_partition(slices), changes=changes)
