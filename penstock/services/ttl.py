"""Time to live of partitions: finds expired partitions. `door/expire.py` deletes them by a replace commit.

`hoodie.partition.ttl.management.strategy.type` decides from when the age of a partition counts: from the base instant of its
newest file slice, or from the write that created the partition. A slice keeps its base instant while log files are added to it,
so the base instant may be older than the last write. Therefore, for partitions with log files, the commits on the timeline are
read too: a partition with a recent commit is kept, where Hudi would delete it. A partition that a pending plan will rewrite is
kept until the plan has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from penstock import clock
from penstock import options as o
from penstock.filegroup.model import FileSlice
from penstock.filegroup.partitions import read_creation_instant
from penstock.table.listing import is_partition, list_merged_slices
from penstock.table.pending import find_pending_groups
from penstock.table.state import TableState
from penstock.timeline.instant import format_time
from penstock.timeline.store import read_metadata

_BY_CREATION = "KEEP_BY_CREATION_TIME"


def expired_partitions(table: TableState, now: datetime | None = None) -> list[str]:
    """Return the paths of the partitions whose time to live (`hoodie.partition.ttl.strategy.days.retain`) is over.

    Return at most `hoodie.partition.ttl.strategy.max.delete.partitions` of them; none if no time to live is set or the table is
    nonpartitioned.

    Args:
        now: the current time in the timeline's time zone; None to read the clock.

    Raises:
        Unsupported: the options name a strategy by its Java class.
    """
    options = table.options
    options.require_support(o.TTL_STRATEGY_CLASS)
    days = options[o.TTL_DAYS]
    if days <= 0 or not table.config.partition_fields:
        return []
    now = now or (clock.utc_now() if table.config.timeline_utc else clock.local_now())
    cutoff = format_time(now - timedelta(days=days))
    selected = [path for path in options[o.TTL_SELECTED] if is_partition(table, path)]
    slices = list_merged_slices(table, selected if options[o.TTL_SELECTED] else None)
    pending_paths = {path for path, _ in find_pending_groups(table)}
    if options[o.TTL_STRATEGY] == _BY_CREATION:
        expired = _created_before(table, slices, cutoff)
    else:
        expired = _written_before(table, slices, cutoff)
    return sorted(expired - pending_paths)[: options[o.TTL_MAX_PARTITIONS]]


def _created_before(table: TableState, partition_paths: Iterable[str], cutoff: str) -> set[str]:
    """Return the partitions that were created before the instant time `cutoff`, by the instant in each partition's metafile."""
    created_before = set()
    for path in partition_paths:
        created = read_creation_instant(table.storage, table.base_path, path)
        if created and created < cutoff:
            created_before.add(path)
    return created_before


def _written_before(table: TableState, slices: Mapping[str, Sequence[FileSlice]], cutoff: str) -> set[str]:
    """Return the partitions that were last written before the instant time `cutoff`. Reads commit files only if log files exist.

    Args:
        slices: the newest file slices of each partition, by partition path.
    """
    old = set()
    for path, file_slices in slices.items():
        if all(file_slice.base_instant < cutoff for file_slice in file_slices):
            old.add(path)
    if not any(_has_logs(slices[path]) for path in old):
        return old
    for write in table.timeline.writes:
        if write.time >= cutoff:
            old -= read_metadata(table.storage, table.base_path, write).by_partition().keys()
    return old


def _has_logs(slices: Iterable[FileSlice]) -> bool:
    """Whether one of the slices has log files."""
    return any(file_slice.log_files for file_slice in slices)
