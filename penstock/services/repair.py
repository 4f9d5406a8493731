"""Repairs a merge-on-read table with damaged log files: file groups with damaged or torn blocks are compacted without them.

A damaged block cannot be read, and its write completed or is not known. The rows of the block are lost. A torn block is the
unfinished block of a write that never completed, so no row is lost.

1. Writes that died are rolled back.
2. The log files of all file groups are read, and damaged blocks are listed.
3. Pending compactions and clusterings that name one of these groups are run, without the damaged blocks.
4. A compaction of the remaining groups is planned and run. Its base files hold everything that could be read.

The damaged log files stay in their old slices until they are cleaned, so that they can still be restored from a copy and read by
time travel. Base files are not repaired.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from penstock import options as o
from penstock.errors import WriteConflict
from penstock.filegroup.log.damaged_block import count_lost_records
from penstock.filegroup.log.scan import LogScan
from penstock.filegroup.model import FileSlice, GroupId
from penstock.hooks.commit_hook import PublishedCommit
from penstock.progress import Stages
from penstock.report_table import HtmlFields
from penstock.services.clustering.service import CLUSTERING
from penstock.services.compaction.plan import plan_operation, slices_with_logs
from penstock.services.compaction.service import COMPACTION, Compaction
from penstock.services.planned import PlannedService, run_pending, run_plan, schedule
from penstock.services.rollback.failed_writes import roll_back_failed
from penstock.table.damaged_logs import scan_for_damage
from penstock.table.latest_slices import latest_slices
from penstock.table.listing import list_groups, load_visibility
from penstock.table.pending import find_pending_clusterings, find_pending_compactions
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.compaction_plan import CompactionPlan


@dataclass(frozen=True)
class DamagedGroup(HtmlFields):
    """A file group whose log files have damaged or torn blocks, and what is lost with them."""

    partition_path: str
    file_id: str
    #: Blocks of completed or unknown writes that cannot be read, and their size.
    damaged_blocks: int
    damaged_bytes: int
    #: The most changed or deleted rows that are lost; None if it is not known.
    lost_rows: int | None
    #: Torn blocks of writes that never completed. Nothing is lost with them.
    torn_blocks: int
    #: What is wrong with the first damaged block; empty if there are torn blocks only.
    problem: str = ""

    @property
    def group(self) -> GroupId:
        """The partition path and file id, which identify the file group."""
        return (self.partition_path, self.file_id)


def find_damaged_groups(table: TableState) -> list[DamagedGroup]:
    """Read all log files of the table's latest slices on the driver; return the file groups with damaged or torn blocks.

    The result is empty for a copy-on-write table. Nothing is written.
    """
    if not table.is_merge_on_read or not table.timeline.writes:
        return []
    slices = latest_slices(list_groups(table), load_visibility(table), with_logs=True)
    scans = scan_for_damage(table, slices)
    return [_describe(file_slice, scan) for file_slice, scan in scans if scan.counts.corrupt_blocks or scan.damaged]


def _describe(file_slice: FileSlice, scan: LogScan) -> DamagedGroup:
    """Return the damage of one file group as a report entry: damaged blocks, torn blocks, lost rows and the first problem.

    Args:
        file_slice: the latest slice of the file group.
        scan: the result of reading all blocks of the slice's log files.
    """
    damaged = scan.damaged
    return DamagedGroup(
        partition_path=file_slice.partition_path,
        file_id=file_slice.file_id,
        damaged_blocks=len(damaged),
        damaged_bytes=sum(block.size_bytes for block in damaged),
        lost_rows=count_lost_records(damaged),
        torn_blocks=scan.counts.corrupt_blocks - len(damaged),
        problem=damaged[0].problem if damaged else "",
    )


def repair_logs(spark: Any, table: TableState, stages: Stages) -> tuple[list[DamagedGroup], list[PublishedCommit]]:
    """Compact the file groups whose log files have damaged or torn blocks, without these blocks.

    Args:
        table: the table; its option `penstock.log.skip.damaged.blocks` must be true.

    Returns:
        The file groups that were repaired, and the commits that repaired them; two empty lists for a copy-on-write table.

    Raises:
        WriteConflict: another process writes, or runs a plan that names a damaged file group.
    """
    assert table.options[o.SKIP_DAMAGED_BLOCKS]
    if not table.is_merge_on_read:
        return [], []
    table = roll_back_failed(table)
    found = find_damaged_groups(table)
    commits: list[PublishedCommit] = []
    services: tuple[tuple[PlannedService[Any, Any], Any], ...] = (
        (COMPACTION, find_pending_compactions),
        (CLUSTERING, find_pending_clusterings),
    )
    for service, find_pending in services:
        if find_pending(table).keys() & {damaged.group for damaged in found}:
            commits += run_pending(spark, table, service, stages, every=True)
            table = reload_timeline(table)
    left = {damaged.group for damaged in (find_damaged_groups(table) if commits else found)}
    if left:
        commits.append(_compact_groups(spark, table, left, stages))
    return found, commits


def _compact_groups(spark: Any, table: TableState, groups: Collection[GroupId], stages: Stages) -> PublishedCommit:
    """Plan a compaction of `groups` and run it. Return the commit. Raise WriteConflict if concurrent writes prevent the run."""
    instant = schedule(table, _GroupCompaction(groups), due=True)
    published = None if instant is None else run_plan(spark, table, instant.time, COMPACTION, stages)
    if published is None:
        raise WriteConflict(f"{table.base_path} cannot be repaired while other processes write; run the repair again afterwards")
    return published


class _GroupCompaction(Compaction):
    """A compaction of the file groups in `groups`. The compaction strategy in the options is ignored."""

    def __init__(self, groups: Collection[GroupId]) -> None:
        self._groups = groups

    def make_plan(self, table: TableState) -> CompactionPlan | None:
        """Plan a compaction of the newest slices of the given file groups. Return None if there is none to compact.

        Slices without log files, and file groups that a pending plan names, are left out.
        """
        busy = find_pending_compactions(table).keys() | find_pending_clusterings(table).keys()
        candidates = list_groups(table, sorted({path for path, _ in self._groups}))
        wanted = [group for group in candidates if (group.partition_path, group.file_id) in self._groups]
        slices = slices_with_logs(wanted, load_visibility(table), busy)
        operations = tuple(plan_operation(file_slice, table.options[o.MAX_FILE_SIZE]) for file_slice in slices)
        return CompactionPlan(operations) if operations else None
