"""The methods of `Table` that show its history, files and index counts. They read no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.api.handle import TableHandle, check_partition
from penstock.api.index_report import IndexReport, index_report
from penstock.api.report import ROWS, Column, Commit, Report, number, size
from penstock.filegroup.model import FileSlice
from penstock.report_table import HtmlFields
from penstock.streams.given_up import GivenUpBatch, list_given_up
from penstock.table.listing import list_base_slices
from penstock.table.state import TableState
from penstock.timeline.instant import WRITE_ACTIONS, Instant, parse_time
from penstock.timeline.store import read_metadata

_SHORT_ID = 8


@dataclass(frozen=True)
class HistoryEntry(HtmlFields):
    """One instant of the timeline. The operation and the counts are None unless it is a completed write.

    Example:
        >>> entry = table.history()[0]
        >>> entry.action, entry.state, entry.operation, entry.rows_inserted
        ('commit', 'completed', 'insert', 3)
    """

    instant: str
    #: The instant as wall-clock time, in the time zone of the timeline.
    time: datetime
    action: str
    state: str
    operation: str | None = None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    files_written: int | None = None
    bytes_written: int | None = None


@dataclass(frozen=True)
class DataFile(HtmlFields):
    """The current base file of a file group, and how many log files belong to it.

    Example:
        >>> file = table.files("berlin")[0]
        >>> file.partition, file.rows, file.log_files
        ('berlin', 2, 0)
    """

    partition: str
    file_group: str
    instant: str
    #: The number of rows; None if the commit that wrote the file is archived.
    rows: int | None
    size_bytes: int
    log_files: int
    path: str


class History(Report[HistoryEntry]):
    """The instants of a table's active timeline, newest first. `Table.history` returns it.

    Example:
        >>> [entry.operation for entry in table.history()]
        ['insert']
        >>> table.history().to_arrow().num_rows
        1
    """

    title = "History"
    columns = (
        Column("instant", lambda e: str(e.instant)),
        Column("action", lambda e: e.operation or e.action),
        Column("state", lambda e: str(e.state)),
        *ROWS,
    )
    schema = pa.schema(
        [
            ("instant", pa.string()),
            ("time", pa.timestamp("ms")),
            ("action", pa.string()),
            ("state", pa.string()),
            ("operation", pa.string()),
            ("rows_inserted", pa.int64()),
            ("rows_updated", pa.int64()),
            ("rows_deleted", pa.int64()),
            ("files_written", pa.int64()),
            ("bytes_written", pa.int64()),
        ]
    )

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns to print. The state is left out if all instants are completed."""
        if any(entry.state != "completed" for entry in self):
            return self.columns
        return tuple(c for c in self.columns if c.title != "state")


class Files(Report[DataFile]):
    """The current base file of each file group, by partition. `Table.files` returns it.

    Example:
        >>> sum(file.rows for file in table.files())
        3
        >>> table.files().to_arrow().column_names[:2]
        ['partition', 'file_group']
    """

    title = "Files"
    columns = (
        Column("partition", lambda f: f.partition or "(none)"),
        Column("file group", lambda f: _short_id(f.file_group)),
        Column("written at", lambda f: str(f.instant)),
        Column("rows", number("rows"), right=True),
        Column("size", size("size_bytes"), right=True),
    )
    schema = pa.schema(
        [
            ("partition", pa.string()),
            ("file_group", pa.string()),
            ("instant", pa.string()),
            ("rows", pa.int64()),
            ("size_bytes", pa.int64()),
            ("log_files", pa.int64()),
            ("path", pa.string()),
        ]
    )


class InspectMethods(TableHandle):
    """The methods of `Table` that show history, files and index counts without reading rows."""

    def history(self, limit: int | None = None) -> History:
        """Return the instants of the active timeline, newest first.

        Args:
            limit: return at most this many instants; None: all.

        Example:
            >>> _ = table.delete(trips.where("id = 'a'"))
            >>> print(table.history())
            History of trips
            instant            action  inserted  updated  deleted  files     size
            ─────────────────────────────────────────────────────────────────────
            ...                delete         0        0        1      1  ... kB
            ...                insert         3        0        0      2  ... kB
            >>> len(table.history(limit=1))
            1
        """
        state = self._state()
        newest = state.timeline.instants[::-1]
        return History([_history_entry(state, i) for i in (newest if limit is None else newest[:limit])], state.config.name)

    def index_report(self, limit: int = 20) -> IndexReport:
        """Return how many files and keys the index read in recent writes, newest first.

        Commits store these counts (`penstock.index` in their extra metadata). Writes of other engines have none, and neither
        have inserts, which locate no keys.

        Args:
            limit: return at most this many writes.

        Example:
            >>> _ = table.upsert(trips)
            >>> [(use.index, use.read_once) for use in table.index_report()]
            [('SIMPLE', 2)]
        """
        return index_report(self._state(), limit)

    def files(self, partition: str | None = None) -> Files:
        """Return the current base file of each file group, with its rows and size. No data file is opened.

        Args:
            partition: the partition path whose files to return; no other folder is listed. None: all partitions.

        Raises:
            OptionError: `partition` leads out of the table's folder.

        Example:
            >>> [(file.partition, file.rows) for file in table.files()]
            [('berlin', 2), ('paris', 1)]
        """
        state = self._state()
        wanted = None if partition is None else [check_partition(partition)]
        slices: list[FileSlice] = []
        for slices_of_partition in list_base_slices(state, wanted).values():
            slices.extend(slices_of_partition)
        rows = _count_rows_by_file(state, slices)
        return Files([_describe_file(file_slice, rows) for file_slice in slices], state.config.name)

    def given_up_batches(self) -> list[GivenUpBatch]:
        """Return the batches that streams to the table gave up, in the order of time. Their rows are not in the table.

        Streams give up batches only with `hoodie.datasource.write.streaming.ignore.failed.batch=true`.

        Example:
            >>> table.given_up_batches()
            []
        """
        return list_given_up(self._state())


def _history_entry(state: TableState, instant: Instant) -> HistoryEntry:
    """Return an instant as an entry of `History`. It has the operation and counts if it is a completed write."""
    entry = HistoryEntry(
        instant=instant.time, time=parse_time(instant.time), action=instant.action.value, state=instant.state.name.lower()
    )
    if not instant.is_completed or instant.action not in WRITE_ACTIONS:
        return entry
    commit = Commit.of(instant.time, read_metadata(state.storage, state.base_path, instant))
    return replace(
        entry,
        operation=commit.operation,
        rows_inserted=commit.rows_inserted,
        rows_updated=commit.rows_updated,
        rows_deleted=commit.rows_deleted,
        files_written=commit.files_written,
        bytes_written=commit.bytes_written,
    )


def _count_rows_by_file(state: TableState, slices: Sequence[FileSlice]) -> dict[str, int]:
    """Return the number of rows of each base file, by its path relative to the base path of the table.

    The numbers are read from the commits that wrote the files. Files whose commit is archived are missing in the result.
    """
    instants = {file_slice.base_instant for file_slice in slices}
    rows: dict[str, int] = {}
    for instant in state.timeline.writes:
        if instant.time not in instants:
            continue
        for stat in read_metadata(state.storage, state.base_path, instant).stats:
            if stat.path:
                rows[stat.path] = stat.num_writes
    return rows


def _describe_file(slice_: FileSlice, rows: Mapping[str, int]) -> DataFile:
    """Return the base file of a slice as an entry of `Files`.

    Args:
        rows: the number of rows of base files, by path relative to the base path of the table.
    """
    base: Any = slice_.base_file  # `list_base_slices` returns only slices with a base file
    below = f"{slice_.partition_path}/{base.name}" if slice_.partition_path else base.name
    return DataFile(
        partition=slice_.partition_path,
        file_group=slice_.file_id,
        instant=slice_.base_instant,
        rows=rows.get(below),
        size_bytes=base.size_bytes,
        log_files=len(slice_.log_files),
        path=base.path,
    )


def _short_id(file_group: str) -> str:
    """Return the first characters of a file group's id, which are enough to tell ids apart by eye."""
    return file_group if len(file_group) <= _SHORT_ID + 1 else f"{file_group[:_SHORT_ID]}…"
