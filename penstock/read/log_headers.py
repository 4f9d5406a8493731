"""Reads the headers of log blocks on the driver while a query is planned.

The headers show three things before any row is read: whether a log is damaged, which blocks are committed, and which rows of the
base file the blocks touch (change or delete). The plan keeps the headers. The driver uses them to choose how each slice is read,
and workers do not read them again. If the plan has many log files, or each of them would be a request to a remote storage, the
driver reads no headers, or only those of slices with large base files that Spark can read; workers read the rest, together with
the rows. Damage that only a worker finds fails the query when it runs (`late_errors.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from penstock import options as o
from penstock.errors import PenstockError
from penstock.filegroup.log.committed_times import CommittedTimes
from penstock.filegroup.log.damaged_block import DamagedBlock
from penstock.filegroup.log.scan import (
    LogScan,
    check_block_type,
    scan_slice,
    touched_positions,
)
from penstock.filegroup.model import FileSlice
from penstock.merge.kernels.gather import Positions
from penstock.read.plan import QueryPlan
from penstock.storage import Storage
from penstock.storage.base import split_scheme
from penstock.table.damaged_logs import read_committed_times, warn_of_loss
from penstock.user_warning import warn_user

#: Up to this number of log files on a local disk the driver reads all headers: that is fast, and a damaged log is reported
#: during planning.
_FEW_LOG_FILES = 64
#: Up to this number of slices the driver reads headers of slices with large base files, even if there are many log files.
_MOST_SLICES = 256
#: If base files have at least this mean size, Spark's Parquet reader is faster than workers.
_LARGE_BASE_BYTES = 8 * 1024 * 1024
_SLICES_AT_ONCE = 8


class _Headers(NamedTuple):
    """What the block headers of one slice's log show: which blocks to read, and which base rows they change or delete."""

    scan: LogScan
    #: Positions of the base file's rows that the log touches; None: not asked for, or the headers do not name them.
    touched: Positions | None


def read_log_headers(plan: QueryPlan, *, for_spark: bool = True) -> QueryPlan:
    """Read block headers on the driver if there are few, or if Spark reads large base files; warn of damaged logs.

    Return the plan with `log_scans`, `touched` and `damaged` set. A damaged log of the plan's only partition raises Penstock's
    own error here; raised in a worker, it would arrive as text inside an error of Spark. If the plan has several partitions, a
    damaged log is only a warning here, because a later filter may exclude its partition.

    Args:
        for_spark: whether Spark itself may read the base files.

    Raises:
        CorruptFile: a file of the plan's only partition is missing or damaged.
        Unsupported: a block of the plan's only partition has an unknown type or version.
    """
    chosen = _slices_for_spark(plan) if for_spark else []
    is_local = not split_scheme(plan.table.uri)[0]
    few_logs = is_local and sum(len(file_slice.log_files) for file_slice in plan.slices_with_logs) <= _FEW_LOG_FILES
    # If damaged blocks are skipped, the warning has to count those of all slices.
    skips_damaged = plan.table.options[o.SKIP_DAMAGED_BLOCKS]
    slices = plan.slices_with_logs if few_logs or skips_damaged else chosen
    if not slices:
        return plan
    times = read_committed_times(plan.table, plan.query.as_of)
    needs_positions = set(chosen)
    scans: dict[FileSlice, LogScan] = {}
    touched: dict[FileSlice, Positions] = {}
    damaged: set[FileSlice] = set()
    with ThreadPoolExecutor(_SLICES_AT_ONCE) as pool:
        running: dict[FileSlice, Future[_Headers]] = {}
        for file_slice in slices:
            arguments = (plan.table.storage, file_slice, times, file_slice in needs_positions)
            running[file_slice] = pool.submit(_read_headers, *arguments)
        for file_slice, future in running.items():
            try:
                headers = future.result()
            except PenstockError as problem:
                if len(plan.slices) == 1:
                    raise
                where = f"a query that reads partition {file_slice.partition_path!r} of {plan.table.base_path} fails"
                warn_user(f"{where}: {problem}")
                damaged.add(file_slice)
                continue
            scans[file_slice] = headers.scan
            if headers.touched is not None:
                touched[file_slice] = headers.touched
    lost: list[DamagedBlock] = []
    for log_scan in scans.values():
        lost += log_scan.damaged
    warn_of_loss(plan.table, lost)
    return replace(plan, log_scans=scans, touched=touched, damaged=frozenset(damaged))


def _slices_for_spark(plan: QueryPlan) -> Sequence[FileSlice]:
    """Return the slices with logs whose base files Spark may read itself, without the rows that the logs change or delete.

    The list is empty if the base files are small, because workers then read them faster; if the slices are many, because reading
    their headers would take too long; and if the query does not merge logs (`skip_merge`).
    """
    if plan.query.options[o.MERGE_TYPE] == "skip_merge":
        return []  # base rows are returned whether a log touches them or not
    slices = [file_slice for file_slice in plan.slices_with_logs if not plan.needs_only_log(file_slice)]
    are_large = sum(file_slice.base_bytes for file_slice in slices) >= _LARGE_BASE_BYTES * len(slices)
    return slices if are_large and len(slices) <= _MOST_SLICES else []


def _read_headers(storage: Storage, file_slice: FileSlice, times: CommittedTimes, needs_positions: bool) -> _Headers:
    """Read the block headers of a slice's log.

    Args:
        times: which instants are committed. Blocks of other instants are ignored.
        needs_positions: whether to find the rows of the base file that the log changes or deletes.

    Raises:
        CorruptFile: a log file is missing or damaged.
        Unsupported: a block has an unknown type or version.
    """
    scan = scan_slice(storage, file_slice, times)
    for _, block in scan.blocks:
        check_block_type(block)
    return _Headers(scan, touched_positions(file_slice, scan) if needs_positions else None)
