"""Which file slices a write may find its keys in, and appends changes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.catalog.listing import list_base_slices, list_merged_slices
from penstock.catalog.pending import find_pending_compactions
from penstock.filegroup.model import FileSlice
from penstock.table import TableState


def list_write_slices(
    table: TableState, partitions: Sequence[str] | None, *, instant: str, logs_alone: bool
) -> dict[str, list[FileSlice]]:
    """Return the newest file slices with a base file; of a merge-on-read table, with the log that changes are appended to.

    Args:
        instant: the time of the write.
        logs_alone: whether to return slices without a base file too.
    """
    if table.is_merge_on_read:
        return list_appendable_slices(table, partitions, instant=instant, logs_alone=logs_alone)
    return list_base_slices(table, partitions)


def list_appendable_slices(
    table: TableState, partitions: Sequence[str] | None, *, instant: str, logs_alone: bool = False
) -> dict[str, list[FileSlice]]:
    """Return, by partition path, where the rows of each file group are and where changes of them are appended.

    The base file and the log files are those that a query merges. While a compaction is pending for the group, the base instant
    is the compaction's and differs from the base file's own: new log files belong to the base file that the compaction will
    write. Compactions that were planned after the write began do not count.

    Args:
        table: with a timeline that was loaded after the write took its instant. Otherwise a compaction that was planned in
            between would be missed, and changes would be appended to a log that it reads or skips.
        instant: the time of the write.
        logs_alone: whether groups without a base file are returned too, for an index that finds keys in logs.
    """
    pending = find_pending_compactions(table, before=instant)
    appendable: dict[str, list[FileSlice]] = {}
    for path, slices in list_merged_slices(table, partitions).items():
        appendable[path] = []
        for file_slice in slices:
            if file_slice.base_file or logs_alone:
                base_instant = pending.get((path, file_slice.file_id), file_slice.base_instant)
                appendable[path].append(replace(file_slice, base_instant=base_instant))
    return appendable
