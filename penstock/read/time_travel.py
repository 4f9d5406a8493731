"""Checks of time travel queries: a query as of an earlier time reads all files of that time, or raises OptionError.

A clean by commits or by hours records the earliest time whose files it kept. First the time that the last clean recorded is
checked (`check_time`). That is not enough, because a clean by file versions records no time, and an earlier clean may have kept
fewer files than the last one. So the names of the files that cleans deleted are checked, too (`check_slices`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.model import FileGroup
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.read.query import Query
from penstock.table.latest_slices import Visibility
from penstock.table.listing import load_visibility
from penstock.table.state import TableState
from penstock.timeline.clean_file import CleanResult, read_clean_result
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import instant_path

#: Partition path and file id.
_Group = tuple[str, str]


def check_time(table: TableState, as_of: str) -> None:
    """Raise OptionError if the table cannot be read as of `as_of`.

    That is so if a write with this instant time or an earlier one is pending, or if `as_of` is before the earliest time whose
    files the last clean kept.
    """
    incomplete = [instant.time for instant in table.timeline.pending if instant.action in WRITE_ACTIONS]
    if incomplete and as_of >= min(incomplete):
        raise OptionError(
            f"Time travel's timestamp '{as_of}' must be earlier than the first incomplete commit timestamp "
            f"'{min(incomplete)}'; choose an earlier time, or finish that write first"
        )
    kept = earliest_kept(table)
    if kept and as_of < kept:
        raise _cleaned_error(as_of, f"{kept} is the earliest time that can be read; set {o.AS_OF_INSTANT.key} to that or later")


def earliest_kept(table: TableState) -> str | None:
    """Return the earliest time as of which the table can be read after its last clean.

    If the last clean records no time, this is the first instant of the active timeline, because archived cleans are not read.
    None if the active timeline has no completed clean.
    """
    cleans = table.timeline.filter(Action.CLEAN, state=State.COMPLETED)
    if not cleans:
        return None
    return _read_result(table, cleans[-1]).earliest or table.timeline.start


def check_slices(table: TableState, query: Query, groups: Iterable[FileGroup]) -> None:
    """Raise OptionError if a clean deleted a slice that a time travel query should read.

    Args:
        query: the query; its `as_of` must not be None.
        groups: the file groups on storage in the partitions that the query asks for.
    """
    assert query.as_of is not None
    cleans = [clean for clean in table.timeline.filter(Action.CLEAN, state=State.COMPLETED) if clean.time > query.as_of]
    if not cleans:
        return
    seen = load_visibility(table, query.as_of)
    deleted: dict[_Group, str] = {}  # the newest slice that cleans deleted and the query would see
    for clean in cleans:
        for group, base_instant in _deleted_slices(_read_result(table, clean)):
            if seen.sees_time(base_instant) and query.asks_for(group[0]):
                deleted[group] = max(deleted.get(group, ""), base_instant)
    kept = {(group.partition_path, group.file_id): _newest_slice_time(group, seen) for group in groups}
    for group, base_instant in deleted.items():
        # A deleted slice is no loss if a newer one that the query sees is still there.
        if seen.sees_group(*group) and kept.get(group, "") < base_instant:
            raise _cleaned_error(
                query.as_of, f"those of {base_instant} in partition {group[0]!r} are; choose a later {o.AS_OF_INSTANT.key}"
            )


def _newest_slice_time(group: FileGroup, seen: Visibility) -> str:
    """Return the base instant of the newest slice of a file group that a query sees; "" if the query sees no slice of it.

    Args:
        seen: which instants and file groups are visible to the query.
    """
    times = [file_slice.base_instant for file_slice in group.slices if seen.sees_time(file_slice.base_instant)]
    return max(times, default="")


def _deleted_slices(result: CleanResult) -> Iterator[tuple[_Group, str]]:
    """Yield (file group, base instant) of the slice of each data file that a clean deleted."""
    for path, partition in result.partitions.items():
        for name in partition.deleted:
            if base := parse_base_name(name):
                yield (path, base.file_id), base.instant
            elif log := parse_log_name(name):
                yield (path, log.file_id), log.base_instant


def _read_result(table: TableState, clean: Instant) -> CleanResult:
    """Read the result of a completed clean from the timeline."""
    path = instant_path(table.base_path, clean)
    return read_clean_result(table.storage.read(path), path)


def _cleaned_error(as_of: str, detail: str) -> OptionError:
    """Build the OptionError about a time whose files may have been cleaned. `detail` says what can still be read."""
    return OptionError(f"Cleaner cleaned up the timestamp of interest: files that {as_of} needs may be gone, {detail}")
