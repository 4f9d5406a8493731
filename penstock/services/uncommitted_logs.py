"""File groups with log files of writes that are under way. Table services leave them out of new plans.

With several writers a plan may be made while writes are pending. If a plan named the log file of a pending write, and the write
then lost a conflict and deleted the file, the plan could never run.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.commit.modes import is_optimistic
from penstock.filegroup.model import FileGroup
from penstock.filegroup.names import is_marked_token
from penstock.table.state import TableState, reload_timeline


def find_uncommitted_logs(table: TableState, groups: Iterable[FileGroup]) -> set[tuple[str, str]]:
    """Return (partition path, file id) of the groups that have log files of pending writes; empty with a single writer.

    Args:
        groups: the file groups, from a listing that was made before this call. The timeline is loaded after the listing, so it
            has every write that is pending since then.
    """
    if not is_optimistic(table):
        return set()
    pending = reload_timeline(table).timeline.pending_times
    found: set[tuple[str, str]] = set()
    for group in groups:
        for file_slice in group.slices:
            for log in file_slice.log_files:
                if any(is_marked_token(log.write_token, time) for time in pending):
                    found.add((group.partition_path, group.file_id))
    return found
