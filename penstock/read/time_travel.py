"""Whether the table's past can still be read: a query of an earlier time is answered whole, or refused.

What the last clean says it kept settles it where the policy goes by commits or hours. A policy of file versions says no such
time, and an earlier clean may have kept less than the last one; then the names of what cleans deleted tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from penstock import options as o
from penstock.catalog.listing import load_visibility
from penstock.errors import OptionError
from penstock.filegroup.model import FileGroup
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.table import TableState
from penstock.timeline.clean_file import CleanResult, read_clean_result
from penstock.timeline.instant import Action, Instant, State
from penstock.timeline.store import instant_path

_WRITES = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)


def check_time(table: TableState, as_of: str) -> None:
    """Refuse a time whose answer could still change, or that cleaning does not keep.

    Raises:
        OptionError: so.
    """
    open_ones = [i.time for s in (State.REQUESTED, State.INFLIGHT) for i in table.timeline.filter(*_WRITES, state=s)]
    if open_ones and as_of >= min(open_ones):
        raise OptionError(
            f"Time travel's timestamp '{as_of}' must be earlier than the first incomplete commit timestamp "
            f"'{min(open_ones)}'; choose an earlier time, or finish that write first"
        )
    kept = earliest_kept(table)
    if kept and as_of < kept:
        raise _cleaned(as_of, f"{kept} is the earliest time that can be read; set {o.AS_OF_INSTANT.key} to that or later")


def earliest_kept(table: TableState) -> str | None:
    """The earliest time that the last clean kept all files of; the first on the timeline, where it knows none and others are
    archived, whose cleans nobody looks at."""
    cleans = table.timeline.filter(Action.CLEAN, state=State.COMPLETED)
    if not cleans:
        return None
    return _result(table, cleans[-1]).earliest or table.timeline.start


def check_slices(table: TableState, as_of: str, groups: Iterable[FileGroup], asked: Callable[[str], bool]) -> None:
    """Refuse a time of which a clean has deleted a slice.

    Args:
        groups: the file groups of the partitions that are asked for.
        asked: whether a partition is.

    Raises:
        OptionError: so.
    """
    cleans = [clean for clean in table.timeline.filter(Action.CLEAN, state=State.COMPLETED) if clean.time > as_of]
    if not cleans:
        return
    seen, lost = load_visibility(table, as_of), dict[tuple[str, str], str]()
    for group, base_instant in (one for clean in cleans for one in _deleted(_result(table, clean))):
        if seen.sees_time(base_instant) and asked(group[0]):
            lost[group] = max(lost.get(group, ""), base_instant)
    left = {(g.partition_path, g.file_id): max((s.base_instant for s in g.slices if seen.sees_time(s.base_instant)), default="")
            for g in groups}  # fmt: skip
    for group, base_instant in lost.items():
        if seen.sees_group(*group) and left.get(group, "") < base_instant:
            raise _cleaned(as_of, f"those of {base_instant} in partition {group[0]!r} are; choose a later {o.AS_OF_INSTANT.key}")


def _deleted(result: CleanResult) -> Iterator[tuple[tuple[str, str], str]]:
    """File groups, and the base instants of their slices that a clean deleted."""
    for path, one in result.partitions.items():
        for name in one.deleted:
            if base := parse_base_name(name):
                yield (path, base.file_id), base.instant
            elif log := parse_log_name(name):
                yield (path, log.file_id), log.base_instant


def _result(table: TableState, clean: Instant) -> CleanResult:
    path = instant_path(table.base_path, clean)
    return read_clean_result(table.storage.read(path), path)


def _cleaned(as_of: str, detail: str) -> OptionError:
    return OptionError(f"Cleaner cleaned up the timestamp of interest: files that {as_of} needs may be gone, {detail}")
