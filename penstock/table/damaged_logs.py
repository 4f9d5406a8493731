"""Finds damaged blocks in the log files of slices, and warns of those that are skipped (`penstock.log.skip.damaged.blocks`)."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from penstock import options as o
from penstock.filegroup.log.damaged_block import DamagedBlock, describe_loss
from penstock.filegroup.log.scan import CommittedTimes, LogScan, committed_times, scan_log_files
from penstock.filegroup.model import FileSlice
from penstock.storage import Storage
from penstock.table.state import TableState
from penstock.user_warning import warn_user

_SLICES_AT_ONCE = 8


def read_committed_times(table: TableState, as_of: str | None = None) -> CommittedTimes:
    """Return the instants whose log blocks a query of the table as of `as_of` reads, and whether it skips damaged blocks."""
    times = committed_times(table.timeline, table.base_path, as_of)
    return replace(times, skips_damaged=table.options[o.SKIP_DAMAGED_BLOCKS])


def warn_of_skipped_blocks(table: TableState, slices: Iterable[FileSlice]) -> None:
    """If the options say that damaged log blocks are skipped, warn and count what is lost in these slices.

    Nothing is read if the options do not say so.
    """
    if table.options[o.SKIP_DAMAGED_BLOCKS]:
        warn_of_loss(table, find_damaged_blocks(table, slices))


def warn_of_loss(table: TableState, blocks: Iterable[DamagedBlock]) -> None:
    """Warn that damaged blocks of the table's log files are skipped, and count what is lost. Do nothing if there are none."""
    lost = list(blocks)
    if lost:
        skips = f"{o.SKIP_DAMAGED_BLOCKS.key}=true skips {describe_loss(lost)}"
        warn_user(f"{skips}, of {table.base_path}. The first one: {lost[0].problem}")


def find_damaged_blocks(table: TableState, slices: Iterable[FileSlice]) -> list[DamagedBlock]:
    """Read all log files of the slices on the driver; return the damaged blocks of completed and of unknown writes."""
    damaged: list[DamagedBlock] = []
    for _, log_scan in scan_for_damage(table, slices):
        damaged += log_scan.damaged
    return damaged


def scan_for_damage(table: TableState, slices: Iterable[FileSlice]) -> list[tuple[FileSlice, LogScan]]:
    """Read all log files of the slices on the driver; return each slice that has log files, with the scan of its log files."""
    times = replace(read_committed_times(table), skips_damaged=True)
    with_logs = [file_slice for file_slice in slices if file_slice.log_files]
    with ThreadPoolExecutor(_SLICES_AT_ONCE) as pool:
        scans = list(pool.map(partial(_scan_logs, table.storage, times), with_logs))
    return list(zip(with_logs, scans, strict=True))


def _scan_logs(storage: Storage, times: CommittedTimes, file_slice: FileSlice) -> LogScan:
    """Scan the log files of one slice."""
    return scan_log_files(storage, file_slice.log_files, times)
