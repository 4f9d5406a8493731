"""Plans: from file groups to the operations of a compaction. Kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.filegroup.model import FileGroup, FileSlice
from penstock.filegroup.view import Visibility
from penstock.services.compaction.strategies import IO_MB, LOG_BYTES, LOG_FILES, READ_MB, WRITE_MB, Bounds, Strategy
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan

_MB = 1024 * 1024


def plan_compaction(slices: Iterable[FileSlice], strategy: Strategy, bounds: Bounds, max_file_bytes: int) -> CompactionPlan:
    """The plan that a strategy makes of file slices with log files; it may turn out empty.

    Args:
        max_file_bytes: what a base file of a slice that has none yet is taken to become.
    """
    return CompactionPlan(tuple(strategy.choose([operation_of(one, max_file_bytes) for one in slices], bounds)))


def slices_with_logs(groups: Iterable[FileGroup], seen: Visibility, busy: Collection[tuple[str, str]]) -> list[FileSlice]:
    """The newest committed slice of each file group, where it has log files and nobody else has plans for the group."""
    found = []
    for group in groups:
        key = (group.partition_path, group.file_id)
        if key not in busy and seen.sees_group(*key):
            newest = next((s for s in group.slices if seen.sees_time(s.base_instant)), None)
            found.extend([newest] if newest and newest.log_files else [])
    return found


def operation_of(slice_: FileSlice, max_file_bytes: int) -> CompactionOperation:
    """What compacting a file slice takes."""
    return CompactionOperation(
        partition_path=slice_.partition_path,
        file_id=slice_.file_id,
        base_instant=slice_.base_instant,
        base_file=slice_.base_file.name if slice_.base_file else None,
        log_files=tuple(log.name for log in slice_.log_files),
        metrics=_metrics(slice_, max_file_bytes),
    )


def _metrics(slice_: FileSlice, max_file_bytes: int) -> Mapping[str, float]:
    """How much work a slice is, in whole megabytes as Hudi counts them."""
    read, write = slice_.size_bytes // _MB, (slice_.base_bytes or max_file_bytes) // _MB
    return {
        LOG_FILES: float(len(slice_.log_files)),
        LOG_BYTES: float(slice_.log_bytes),
        READ_MB: float(read),
        WRITE_MB: float(write),
        IO_MB: float(read + write),
    }
