"""Finds damaged blocks in the log files of file slices, and warns of the rows that are lost if the blocks are skipped.

A damaged block of a completed write is an error, unless `penstock.log.skip.damaged.blocks` is true. Then it is skipped, with a
warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from penstock import options as o
from penstock.filegroup.log.committed_times import CommittedTimes, committed_times
from penstock.filegroup.log.damaged_block import DamagedBlock, describe_loss
from penstock.filegroup.log.scan import LogScan, find_lost_end, scan_log_files
from penstock.filegroup.model import FileSlice
from penstock.storage import Storage, join
from penstock.table.state import TableState
from penstock.timeline.commit_file import WriteStat
from penstock.timeline.store import read_metadata
from penstock.user_warning import warn_user

_SLICES_AT_ONCE = 8


def read_committed_times(table: TableState, as_of: str | None = None) -> CommittedTimes:
    """Return which instants are committed. A reader of log files uses only blocks of these instants.

    The result also says whether the reader skips damaged blocks (`penstock.log.skip.damaged.blocks`) or raises an error.

    Args:
        as_of: the instant time of a time travel query, whose later instants do not count; None for the latest commit.
    """
    times = committed_times(table.timeline, table.base_path, as_of)
    return replace(times, skips_damaged=table.options[o.SKIP_DAMAGED_BLOCKS])


def warn_of_skipped_blocks(table: TableState, slices: Iterable[FileSlice]) -> None:
    """Warn if damaged blocks in the logs of these slices are skipped. The warning says how many blocks and rows are lost.

    Do nothing, and read no log, unless `penstock.log.skip.damaged.blocks` is true. If it is false, the reader of a damaged block
    raises an error.
    """
    if table.options[o.SKIP_DAMAGED_BLOCKS]:
        warn_of_loss(table, find_damaged_blocks(table, slices))


def warn_of_loss(table: TableState, blocks: Iterable[DamagedBlock]) -> None:
    """Warn that these damaged log blocks are skipped, and how many rows are lost with them. Do nothing if there are no blocks."""
    lost = list(blocks)
    if lost:
        skips = f"{o.SKIP_DAMAGED_BLOCKS.key}=true skips {describe_loss(lost)}"
        warn_user(f"{skips}, of {table.base_path}. The first one: {lost[0].problem}")


def find_damaged_blocks(table: TableState, slices: Iterable[FileSlice]) -> list[DamagedBlock]:
    """Read all log files of the slices on the driver; return their damaged blocks.

    Damaged blocks of pending or rolled back writes are left out, because no reader uses them. The list may also
    hold blocks that are so damaged that their write is not known.
    """
    damaged: list[DamagedBlock] = []
    for _, log_scan in scan_for_damage(table, slices):
        damaged += log_scan.damaged
    return damaged


def scan_for_damage(table: TableState, slices: Iterable[FileSlice]) -> list[tuple[FileSlice, LogScan]]:
    """Read all log files of the slices on the driver; return each slice that has log files, with the result of reading them.

    `LogScan.damaged` of the result lists the damaged blocks.
    """
    times = replace(read_committed_times(table), skips_damaged=True)
    with_logs = [file_slice for file_slice in slices if file_slice.log_files]
    if not with_logs:
        return []
    recorded = _read_recorded_stats(table)
    with ThreadPoolExecutor(_SLICES_AT_ONCE) as pool:
        scans = list(pool.map(partial(_scan_logs, table.storage, times), with_logs))
    return [(file_slice, _add_lost_ends(file_slice, scan, recorded)) for file_slice, scan in zip(with_logs, scans, strict=True)]


def _read_recorded_stats(table: TableState) -> dict[str, tuple[str, WriteStat]]:
    """Return (instant, write stat) of the write that recorded the greatest size, for each log file in a commit of the timeline.

    The keys are paths relative to the base path.
    """
    recorded: dict[str, tuple[str, WriteStat]] = {}
    for write in table.timeline.writes:
        for stat in read_metadata(table.storage, table.base_path, write).stats:
            if not stat.path or not stat.log:
                continue
            known = recorded.get(stat.path)
            if known is None or known[1].file_size_in_bytes < stat.file_size_in_bytes:
                recorded[stat.path] = (write.time, stat)
    return recorded


def _add_lost_ends(file_slice: FileSlice, scan: LogScan, recorded: Mapping[str, tuple[str, WriteStat]]) -> LogScan:
    """Return the scan with one more damaged block for each log file that lost its end exactly behind a block.

    The headers of such a file show no damage, but the file is shorter than its commit recorded.

    Args:
        recorded: (instant, write stat) by path, as `_read_recorded_stats` returns them.
    """
    known = {block.path for block in scan.damaged}
    lost: list[DamagedBlock] = []
    for file in file_slice.log_files:
        path = join(file_slice.partition_path, file.name) if file_slice.partition_path else file.name
        if path in recorded and file.path not in known:
            damage = find_lost_end(file, *recorded[path])
            if damage is not None:
                lost.append(damage)
    counts = replace(scan.counts, corrupt_blocks=scan.counts.corrupt_blocks + len(lost))
    return replace(scan, damaged=(*scan.damaged, *lost), counts=counts)


def _scan_logs(storage: Storage, times: CommittedTimes, file_slice: FileSlice) -> LogScan:
    """Read the log files of one slice; return their blocks, with the damaged ones in a list of their own."""
    return scan_log_files(storage, file_slice.log_files, times)
