"""`QueryPlan`: the file slices that a query reads, and the schema in which it returns their rows.

`plan_query` plans snapshots, read-optimized queries and time travel; `incremental.py` plans incremental queries. Only partitions
that the query asks for are listed. `log_headers.py` then adds what the headers of log files say, and `scan.py` turns the plan
into a DataFrame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from penstock.errors import OptionError
from penstock.filegroup.log.scan import LogScan
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.merge.kernels.gather import Positions
from penstock.read.bucket_pruning import keep_wanted_buckets
from penstock.read.query import Query
from penstock.read.time_travel import check_slices, check_time
from penstock.table.latest_slices import latest_slices
from penstock.table.listing import (
    find_partitions,
    group_by_partition,
    group_partitions,
    list_groups,
    list_partitions,
    load_visibility,
)
from penstock.table.state import TableState, read_table_schema
from penstock.timeline.history import InstantRange


@dataclass(frozen=True)
class QueryPlan:
    """The file slices that a query reads, the schema of its rows, and the range of commit times that it keeps."""

    table: TableState
    query: Query
    #: Avro schema without meta columns, JSON; None for a table that never had rows.
    schema: str | None
    #: Partition path → file slices.
    slices: dict[str, list[FileSlice]]
    #: Of an incremental query: the range that rows' commit times must be in. None: all rows are wanted.
    changes: InstantRange | None = None
    #: The instants of all writes in `changes`, if they are few and none is older than the active timeline; otherwise empty.
    written_at: tuple[str, ...] = ()
    #: What the block headers of a slice's log files say. A slice may be missing: then workers read its headers.
    log_scans: Mapping[FileSlice, LogScan] = field(default_factory=dict)
    #: Slice → positions of the base file's rows that its log touches. Only for slices whose base file Spark may read itself.
    touched: Mapping[FileSlice, Positions] = field(default_factory=dict)
    #: Slices whose logs are damaged. A query that reads them fails.
    damaged: frozenset[FileSlice] = frozenset()

    @property
    def all_slices(self) -> list[FileSlice]:
        """The file slices of the plan, of all partitions in one list."""
        return list(chain.from_iterable(self.slices.values()))

    @property
    def slices_with_logs(self) -> list[FileSlice]:
        """The slices of the plan that have log files to merge."""
        return [file_slice for file_slice in self.all_slices if file_slice.log_files]

    @property
    def slices_without_logs(self) -> list[FileSlice]:
        """The slices of the plan that have a base file and no log files."""
        return [file_slice for file_slice in self.all_slices if not file_slice.log_files]

    def needs_only_log(self, file_slice: FileSlice) -> bool:
        """Whether an incremental query can skip the slice's base file, because only the log can have rows of the query's range.

        A base file has no row with a later commit time than its own instant. False for queries that are not incremental.
        """
        if self.changes is None:
            return False
        return file_slice.base_file is None or file_slice.base_file.instant <= self.changes.begin


def plan_query(query: Query, table: TableState) -> QueryPlan:
    """Plan a snapshot, read-optimized or time travel query: decide which file slices the query reads.

    Raises:
        OptionError: no partition matches the query's paths, or the table cannot be read as of the query's time.
    """
    if query.as_of is not None:
        check_time(table, query.as_of)
    schema = read_table_schema(table, query.as_of) or read_table_schema(table)  # an archived time is read with the columns of now
    if not table.timeline.writes:
        return QueryPlan(table, query, schema, {})
    seen = load_visibility(table, query.as_of)
    groups = _list_wanted_groups(query, table)
    latest = latest_slices(groups, seen, with_logs=table.is_merge_on_read and query.kind != "read_optimized")
    if query.as_of is not None:
        check_slices(table, query, groups)
    slices = [file_slice for file_slice in latest if query.asks_for_file(file_slice.partition_path, file_name(file_slice))]
    if query.equals:
        slices = keep_wanted_buckets(slices, dict(query.equals), table, schema)
    return QueryPlan(table, query, schema, group_by_partition(slices))


def file_name(file_slice: FileSlice) -> str:
    """Return the file name by which a slice is matched with the path patterns of a query.

    This is the name of the base file if there is one, otherwise of the first log file.
    """
    return file_slice.base_file.name if file_slice.base_file else file_slice.log_files[0].name


def _list_wanted_groups(query: Query, table: TableState) -> list[FileGroup]:
    """Return the file groups of the partitions that the query's path patterns match.

    If every pattern is exactly a partition, only the folders of these partitions are listed.

    Raises:
        OptionError: no partition matches.
    """
    if query.within is None:
        return list_groups(table)
    exact = find_partitions(table, query.within)
    if exact is not None:
        return group_partitions(exact, exact)
    partitions = [path for path in list_partitions(table) if query.asks_for(path)]
    if not partitions:
        raise OptionError(f"no partition of {table.base_path} matches {', '.join(query.within)}; check the path")
    return list_groups(table, partitions)
