"""From a query to the file slices it reads. Only partitions that are asked for are listed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.catalog.listing import by_partition, is_partition, list_groups, list_partitions, visibility
from penstock.errors import OptionError
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.filegroup.view import latest_base_slices, latest_merged_slices
from penstock.read.bucket_pruning import in_asked_buckets
from penstock.read.query import Query
from penstock.read.time_travel import check_slices, check_time
from penstock.table import TableState, table_schema
from penstock.timeline.history import InstantRange


@dataclass(frozen=True)
class QueryPlan:
    """What a query reads, and in which schema."""

    table: TableState
    query: Query
    #: Avro schema without meta columns, JSON; None for a table that never had rows.
    schema: str | None
    slices: dict[str, list[FileSlice]]
    #: Only rows that were written in this range are wanted.
    changes: InstantRange | None = None
    #: The instants of all writes in it, where these are few and nothing older than the active timeline is asked for.
    written_at: tuple[str, ...] = ()


def plan_query(query: Query, table: TableState) -> QueryPlan:
    """Decide which file slices answer the query.

    Raises:
        OptionError: the paths or the time of the query name nothing that can be read.
    """
    if query.as_of is not None:
        check_time(table, query.as_of)
    schema = table_schema(table, query.as_of) or table_schema(table)  # an archived time has the columns of now
    if not table.timeline.writes:
        return QueryPlan(table, query, schema, {})
    groups = list_groups(table, None if query.within is None else _partitions(query, table))
    if query.as_of is not None:
        check_slices(table, query.as_of, groups, query.asks_for)
    found = [one for one in _newest(groups, query, table) if query.asks_for_file(one.partition_path, file_name(one))]
    if query.equals:
        found = in_asked_buckets(found, dict(query.equals), table, schema)
    return QueryPlan(table, query, schema, by_partition(found))


def _newest(groups: list[FileGroup], query: Query, table: TableState) -> list[FileSlice]:
    """The newest slice of each group; with log files only if these are to be merged."""
    seen = visibility(table, query.as_of)
    if table.is_merge_on_read and query.kind != "read_optimized":
        return latest_merged_slices(groups, seen)
    return [replace(one, log_files=()) for one in latest_base_slices(groups, seen)]


def file_name(slice_: FileSlice) -> str:
    """The name by which a query's paths may ask for a slice."""
    return slice_.base_file.name if slice_.base_file else slice_.log_files[0].name


def _partitions(query: Query, table: TableState) -> list[str]:
    """The partitions a query's paths name; where each names one exactly, the table is not listed."""
    assert query.within is not None
    if all(is_partition(table, path) for path in query.within):
        return sorted(set(query.within))
    found = [p for p in list_partitions(table) if query.asks_for(p)]
    if not found:
        raise OptionError(f"no partition of {table.base_path} matches {', '.join(query.within)}; check the path")
    return found
