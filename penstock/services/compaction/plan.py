"""Makes a compaction plan: lists slices with log files, and lets the strategy of the options choose among them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock import options as o
from penstock.filegroup.model import FileGroup, FileSlice
from penstock.services.compaction.strategies import CompactionLimits, Strategy, strategy_of
from penstock.services.plan_metrics import IO_MB, LOG_BYTES, LOG_FILES, MB, READ_MB, WRITE_MB
from penstock.services.preferred_writers import find_groups_of_writers
from penstock.services.uncommitted_logs import find_uncommitted_logs
from penstock.table.latest_slices import Visibility
from penstock.table.listing import group_partitions, list_files, load_visibility
from penstock.table.pending import find_pending_clusterings, find_pending_compactions
from penstock.table.state import TableState
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan


def make_plan(table: TableState) -> CompactionPlan:
    """Plan a compaction of the table, without storing the plan. The plan has no operations if there is nothing to compact."""
    strategy, limits = strategy_of(table.options)
    # As in Hudi, a pending log compaction does not keep its file groups from being compacted.
    busy = find_pending_compactions(table).keys() | find_pending_clusterings(table).keys() | find_groups_of_writers(table)
    files_by_path = list_files(table)
    groups = group_partitions(files_by_path, strategy.choose_partitions(list(files_by_path), limits))
    slices = slices_with_logs(groups, load_visibility(table), busy | find_uncommitted_logs(table, groups))
    return plan_compaction(slices, strategy, limits, table.options[o.MAX_FILE_SIZE])


def plan_compaction(
    slices: Iterable[FileSlice], strategy: Strategy, limits: CompactionLimits, max_file_bytes: int
) -> CompactionPlan:
    """Return the plan of a compaction of those slices that the strategy chooses within the limits.

    Args:
        slices: the candidates: slices that have log files.
        max_file_bytes: assumed size of the new base file of a slice that has no base file.
    """
    operations = [plan_operation(file_slice, max_file_bytes) for file_slice in slices]
    return CompactionPlan(tuple(strategy.choose(operations, limits)))


def slices_with_logs(groups: Iterable[FileGroup], visible: Visibility, busy: Collection[tuple[str, str]]) -> list[FileSlice]:
    """Return the newest committed slice of each file group, if that slice has log files.

    Args:
        visible: which instants and file groups are part of the table.
        busy: (partition path, file id) of the file groups that a pending plan names. These are left out.
    """
    slices = []
    for group in groups:
        key = (group.partition_path, group.file_id)
        if key in busy or not visible.sees_group(*key):
            continue
        newest = next((each for each in group.slices if visible.sees_time(each.base_instant)), None)
        if newest is not None and newest.log_files:
            slices.append(newest)
    return slices


def plan_operation(file_slice: FileSlice, max_file_bytes: int) -> CompactionOperation:
    """Return the operation of a compaction plan for one file slice: the names of the slice's files, and metrics.

    Args:
        max_file_bytes: assumed size of the new base file if the slice has no base file.
    """
    return CompactionOperation(
        partition_path=file_slice.partition_path,
        file_id=file_slice.file_id,
        base_instant=file_slice.base_instant,
        base_file=file_slice.base_file.name if file_slice.base_file else None,
        log_files=tuple(log.name for log in file_slice.log_files),
        metrics=_metrics(file_slice, max_file_bytes),
    )


def _metrics(file_slice: FileSlice, max_file_bytes: int) -> Mapping[str, float]:
    """Return the metrics of one file slice that the plan stores: number and bytes of log files, megabytes to read and to write.

    Args:
        max_file_bytes: assumed size of the new base file if the slice has no base file.
    """
    read_mb = file_slice.size_bytes // MB
    write_mb = (file_slice.base_bytes or max_file_bytes) // MB
    return {
        LOG_FILES: float(len(file_slice.log_files)),
        LOG_BYTES: float(file_slice.log_bytes),
        READ_MB: float(read_mb),
        WRITE_MB: float(write_mb),
        IO_MB: float(read_mb + write_mb),
    }
