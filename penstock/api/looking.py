"""From instants and file slices to the lines of a report. Behind `table.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.api.reports import Commit, DataFile, HistoryEntry
from penstock.filegroup.model import FileSlice
from penstock.table import TableState
from penstock.timeline.contents import CommitMetadata
from penstock.timeline.instant import WRITE_ACTIONS, Instant, parse_time
from penstock.timeline.store import read_metadata


def history_entry(state: TableState, instant: Instant) -> HistoryEntry:
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


def rows_by_file(state: TableState, slices: Sequence[FileSlice]) -> dict[str, int]:
    """Rows of base files, by path below the table, as the commits that wrote them say."""
    wanted = {s.base_instant for s in slices}
    commits: list[CommitMetadata] = [
        read_metadata(state.storage, state.base_path, i) for i in state.timeline.writes if i.time in wanted
    ]
    return {s.path: s.num_writes for commit in commits for s in commit.stats if s.path}


def data_file(slice_: FileSlice, rows: Mapping[str, int]) -> DataFile:
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
