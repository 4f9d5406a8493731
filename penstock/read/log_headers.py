"""Headers of log blocks, read on the driver while a query is planned.

The headers tell three things before any row is read: whether a log is damaged, which blocks count, and which rows of the base
file they touch. The plan keeps them (`QueryPlan.log_scans`): the driver chooses from them how each slice is read, and workers
read contents without a second look at the headers. If there are many logs the driver does not read them, and workers do.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from penstock import options as o
from penstock.errors import PenstockError
from penstock.filegroup.log.scan import CommittedTimes, LogScan, check_block_type, committed_times, scan_slice
from penstock.filegroup.model import FileSlice
from penstock.read.plan import QueryPlan
from penstock.storage import Storage

#: Log files up to which the driver reads the headers of all: a moment's work, and a damaged log is then reported at once.
_FEW_LOG_FILES = 64
#: Slices up to which the driver reads their headers because their base files are large.
_MOST_SLICES = 256
#: The mean size of base files from which Spark reads them better than workers do.
_LARGE_BASE_BYTES = 8 * 1024 * 1024
_SLICES_AT_ONCE = 8


def read_log_headers(plan: QueryPlan) -> QueryPlan:
    """Return the plan with the block headers of its log files, if it pays that the driver reads them.

    A damaged log fails the query here, with Penstock's own error. An error of a worker would come out of Spark as text inside
    another error. If the plan has several partitions, a later filter may leave the damaged one out: then it is a warning.

    Raises:
        CorruptFile: a file of the plan's only partition is missing or damaged.
        Unsupported: a block of the plan's only partition has an unknown type or version.
    """
    slices = _choose_slices(plan)
    if not slices:
        return plan
    times = committed_times(plan.table.timeline, plan.query.as_of)
    scans: dict[FileSlice, LogScan] = {}
    with ThreadPoolExecutor(_SLICES_AT_ONCE) as pool:
        running: dict[FileSlice, Future[LogScan]] = {}
        for file_slice in slices:
            running[file_slice] = pool.submit(_scan_and_check, plan.table.storage, file_slice, times)
        for file_slice, future in running.items():
            try:
                scans[file_slice] = future.result()
            except PenstockError as problem:
                if len(plan.slices) == 1:
                    raise
                where = f"a query that reads partition {file_slice.partition_path!r} of {plan.table.base_path} fails"
                warnings.warn(f"{where}: {problem}", RuntimeWarning, stacklevel=2)
    return replace(plan, log_scans=scans)


def _choose_slices(plan: QueryPlan) -> list[FileSlice]:
    """Return the slices whose headers the driver reads: all if logs are few, else those whose base files Spark may read."""
    with_logs = plan.slices_with_logs
    if sum(len(file_slice.log_files) for file_slice in with_logs) <= _FEW_LOG_FILES:
        return with_logs
    if plan.query.options[o.MERGE_TYPE] == "skip_merge":
        return []  # base rows are read whether a log touches them or not
    with_base = [file_slice for file_slice in with_logs if not plan.needs_only_log(file_slice)]
    return with_base if len(with_base) <= _MOST_SLICES and are_base_files_large(with_base) else []


def are_base_files_large(slices: Sequence[FileSlice]) -> bool:
    """Whether the base files are so large that Spark's own reader should read them, without the rows that logs touch."""
    return sum(file_slice.base_bytes for file_slice in slices) >= _LARGE_BASE_BYTES * len(slices)


def _scan_and_check(storage: Storage, file_slice: FileSlice, times: CommittedTimes) -> LogScan:
    scan = scan_slice(storage, file_slice, times)
    for found in scan.blocks:
        check_block_type(found.block)
    return scan
