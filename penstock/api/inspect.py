"""The verbs of `Table` that look at it: what happened, which files there are, what the index did. No row is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.api.handle import Opened, checked_partition
from penstock.api.index_report import IndexReport, index_report
from penstock.api.report import ROWS, Column, Commit, Report, number, size
from penstock.catalog.listing import latest_slices
from penstock.filegroup.model import FileSlice
from penstock.table import TableState
from penstock.timeline.commit_file import CommitMetadata
from penstock.timeline.instant import WRITE_ACTIONS, Instant, parse_time
from penstock.timeline.store import read_metadata

_SHORT_ID = 8


@dataclass(frozen=True)
class HistoryEntry:
    """One instant of the timeline. Counts are None for what is not a completed write.

    Example:
        >>> entry = table.history()[0]
        >>> entry.action, entry.state, entry.operation, entry.rows_inserted
        ('commit', 'completed', 'insert', 3)
    """

    instant: str
    #: The instant as wall-clock time, in the zone that the table's timeline is kept in.
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
class DataFile:
    """The current base file of a file group.

    Example:
        >>> file = table.files("berlin")[0]
        >>> file.partition, file.rows, file.log_files
        ('berlin', 2, 0)
    """

    partition: str
    file_group: str
    instant: str
    #: None where the commit that wrote it has left the active timeline.
    rows: int | None
    size_bytes: int
    log_files: int
    path: str


class History(Report[HistoryEntry]):
    """What happened to a table, newest first.

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
        """The state only where an instant is not completed."""
        if any(entry.state != "completed" for entry in self):
            return self.columns
        return tuple(c for c in self.columns if c.title != "state")


class Files(Report[DataFile]):
    """The files that a read of the whole table opens, by partition.

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


class LookingVerbs(Opened):
    """What can be known of a table without its rows."""

    def history(self, limit: int | None = None) -> History:
        """What happened to the table, newest first; reads no data.

        Args:
            limit: only so many of the newest instants.

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
        """What the index did in recent writes: how many files it could have opened, how many it did, and how many for nothing.

        Commits keep these figures (`penstock.index` in their extra metadata). Writes of other engines, and inserts that look for
        no keys, have none.

        Args:
            limit: only so many of the newest writes.

        Example:
            >>> _ = table.upsert(trips)
            >>> [(use.index, use.read_once) for use in table.index_report()]
            [('SIMPLE', 2)]
        """
        return index_report(self._state(), limit)

    def files(self, partition: str | None = None) -> Files:
        """The files that a read opens: the current one of each file group.

        Args:
            partition: only of this partition path; no other folder is looked at.

        Example:
            >>> [(file.partition, file.rows) for file in table.files()]
            [('berlin', 2), ('paris', 1)]
        """
        state = self._state()
        wanted = None if partition is None else [checked_partition(partition)]
        slices = [s for its in latest_slices(state, wanted).values() for s in its]
        rows = _rows_by_file(state, slices)
        return Files([_data_file(s, rows) for s in slices], state.config.name)


def _history_entry(state: TableState, instant: Instant) -> HistoryEntry:
    """One line of the history; only completed writes say what they did."""
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


def _rows_by_file(state: TableState, slices: Sequence[FileSlice]) -> dict[str, int]:
    """Rows of base files, by path below the table, as the commits that wrote them say."""
    wanted = {s.base_instant for s in slices}
    commits: list[CommitMetadata] = [
        read_metadata(state.storage, state.base_path, i) for i in state.timeline.writes if i.time in wanted
    ]
    return {s.path: s.num_writes for commit in commits for s in commit.stats if s.path}


def _data_file(slice_: FileSlice, rows: Mapping[str, int]) -> DataFile:
    base: Any = slice_.base_file  # slices without one are not listed
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
    """The start of a file group's id, which is what people compare."""
    return file_group if len(file_group) <= _SHORT_ID + 1 else f"{file_group[:_SHORT_ID]}…"
