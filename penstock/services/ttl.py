"""The lifetime of partitions: which of them are old enough to go. They go by a replace commit, see `write/expire.py`.

A partition's age counts from the newest file slice in it, or from the write that made it. A slice keeps its time while logs
are added to it, so partitions with logs are held against the commits on the timeline too: one that was written to lately
stays, where Hudi would let it go. What a table service is about to rewrite stays for the next run.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from penstock import clock
from penstock import options as o
from penstock.catalog.listing import is_partition, merged_slices
from penstock.catalog.pending import pending_groups
from penstock.filegroup.model import FileSlice
from penstock.filegroup.partitions import read_creation_instant
from penstock.table import TableState
from penstock.timeline.instant import format_time
from penstock.timeline.store import read_metadata

_BY_CREATION = "KEEP_BY_CREATION_TIME"


def expired_partitions(table: TableState, now: datetime | None = None) -> list[str]:
    """Partitions whose time is over, as many of them as one commit may take out.

    Args:
        now: the wall clock in the zone of the timeline.
    """
    days = table.options[o.TTL_DAYS]
    options = table.options
    if days <= 0 or not table.config.partition_fields:
        return []
    now = now or (clock.utc_now() if table.config.timeline_utc else clock.local_now())
    before = format_time(now - timedelta(days=days))
    selected = [path for path in options[o.TTL_SELECTED] if is_partition(table, path)]
    slices = merged_slices(table, selected if options[o.TTL_SELECTED] else None)
    busy = {path for path, _ in pending_groups(table)}
    if options[o.TTL_STRATEGY] == _BY_CREATION:
        old = [path for path in slices if (made := read_creation_instant(table.storage, table.base_path, path)) and made < before]
    else:
        old = [path for path, its in slices.items() if max(one.base_instant for one in its) < before]
        old = _without_late_logs(table, old, slices, before)
    return sorted(path for path in old if path not in busy)[: options[o.TTL_MAX_PARTITIONS]]


def _without_late_logs(table: TableState, paths: Iterable[str], slices: dict[str, list[FileSlice]], since: str) -> list[str]:
    """Leave out partitions whose logs have been written to since a time; only where there are logs commits are read."""
    found = set(paths)
    if not any(one.log_files for path in found for one in slices[path]):
        return list(found)
    for instant in table.timeline.writes:
        if instant.time >= since:
            found -= set(read_metadata(table.storage, table.base_path, instant).by_partition())
    return list(found)
