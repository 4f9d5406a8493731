"""Lists the latest file slices of a table for a write.

The write looks for its keys in these slices, and adds new rows to small ones. In a merge-on-read table it appends changes to
their log files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import TableChanged
from penstock.filegroup.model import FileSlice
from penstock.table.listing import list_base_slices, list_merged_slices
from penstock.table.pending import find_pending_compactions
from penstock.table.state import TableState


def list_write_slices(
    table: TableState, partitions: Sequence[str] | None, *, instant: str, logs_alone: bool
) -> dict[str, list[FileSlice]]:
    """Return the latest file slice of each file group, by partition path.

    In a merge-on-read table the slices have their log files, and the base instant that new log files must have in their names
    (`list_appendable_slices`).

    Args:
        partitions: the partition paths to list; None: all.
        instant: the instant time of the write. Compactions that were planned after it are ignored.
        logs_alone: whether to return slices without a base file too (merge-on-read only).

    Raises:
        TableChanged: an instant was archived since the timeline was loaded.
    """
    try:
        if table.is_merge_on_read:
            return list_appendable_slices(table, partitions, instant=instant, logs_alone=logs_alone)
        return list_base_slices(table, partitions)
    except FileNotFoundError as e:
        raise TableChanged(f"an instant of {table.base_path} was archived just now. Run the write again") from e


def list_appendable_slices(
    table: TableState, partitions: Sequence[str] | None, *, instant: str, logs_alone: bool = False
) -> dict[str, list[FileSlice]]:
    """Return the latest file slices of a merge-on-read table, by partition path, with the base instant for new log files.

    The base file and the log files are those that a query merges. While a compaction of the file group is pending, the slice's
    base instant is that of the compaction instead of the base file's, because new log files belong to the base file that the
    compaction will write.

    Args:
        table: the table, with a timeline that was loaded after the write took its instant. An older timeline could miss a
            compaction plan. Then changes would be appended to logs of the old base file, and the compaction could miss them.
        partitions: the partition paths to list; None: all.
        instant: the instant time of the write. Compactions that were planned after it are ignored.
        logs_alone: whether to return slices without a base file too, for an index that finds keys in logs.
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
