"""The health of a table: a few measures, each with a suggestion if its value is bad.

Reads the file listing, the timeline and the commit files of the current base files. Opens no data file and writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from penstock import clock
from penstock import options as o
from penstock.filegroup.model import FileSlice
from penstock.progress import format_bytes
from penstock.report_table import HtmlFields
from penstock.services.clean.retention import clean_policy
from penstock.table.listing import list_merged_slices
from penstock.table.pending import find_pending_clusterings
from penstock.table.state import TableState
from penstock.timeline.archive import list_archive_files
from penstock.timeline.instant import Action, Instant, State, parse_time
from penstock.timeline.store import read_metadata

# Limits beyond which a measure is bad. Rules of thumb.
#: Share of base files that are smaller than `hoodie.parquet.small.file.limit`.
_SMALL_SHARE_MAX = 0.5
#: Bytes of log files divided by bytes of base files.
_LOG_RATIO_MAX = 0.5
_ROWS_PER_FILE_MIN = 10_000
_DAYS_WITHOUT_CLEAN_MAX = 7
#: A table with fewer base files than this has no problem with small files.
_FILES_TO_MATTER = 10


@dataclass(frozen=True)
class Finding(HtmlFields):
    """One measure of a table's health: its name, its value as text, and a suggestion if the value is bad."""

    measure: str
    value: str
    #: What to do about a bad value; empty if the value is good.
    suggestion: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether the value of the measure is good: `suggestion` is empty."""
        return not self.suggestion


def check_health(table: TableState, now: datetime | None = None) -> list[Finding]:
    """Measure the health of a table; return one finding per measure, in the order in which reports show them.

    Args:
        table: the table; its timeline must have been loaded just before this call.
        now: the current time in the timeline's time zone; None to read the clock.
    """
    now = now or (clock.utc_now() if table.config.timeline_utc else clock.local_now())
    slices = list(chain.from_iterable(list_merged_slices(table).values()))
    return [
        _small_files(table, slices),
        _rows_per_file(table, slices),
        _log_ratio(table, slices),
        _pending(table),
        _last_clean(table, now.replace(tzinfo=None)),
        _timeline(table),
    ]


def _small_files(table: TableState, slices: Sequence[FileSlice]) -> Finding:
    """Return the finding on how many current base files are smaller than `hoodie.parquet.small.file.limit`."""
    limit = table.options[o.SMALL_FILE_LIMIT]
    sizes = [file_slice.base_file.size_bytes for file_slice in slices if file_slice.base_file is not None]
    small = sum(size < limit for size in sizes)
    count = len(sizes)
    is_bad = count >= _FILES_TO_MATTER and small > count * _SMALL_SHARE_MAX
    text = (
        f"run cluster(), write more rows at once, or choose coarser partitions: files below {format_bytes(limit)} take longer "
        "to open than to read"
    )
    return Finding("small files", f"{small:,} of {count:,}", text if is_bad else "")


def _rows_per_file(table: TableState, slices: Sequence[FileSlice]) -> Finding:
    """Return the finding on the mean number of rows per base file in the latest file slices.

    The numbers are those in the commits that wrote the files. Base files whose commit is archived are not counted.
    """
    base_files = [file_slice.base_file for file_slice in slices if file_slice.base_file is not None]
    times = {base_file.instant for base_file in base_files}
    rows_by_name: dict[str, int] = {}
    for write in table.timeline.writes:
        if write.time in times:
            for stat in read_metadata(table.storage, table.base_path, write).stats:
                rows_by_name[(stat.path or "").rpartition("/")[2]] = stat.num_writes
    known = [rows_by_name[base_file.name] for base_file in base_files if base_file.name in rows_by_name]
    if not known:
        return Finding("rows per file", "not known")
    mean = sum(known) // len(known)
    is_bad = len(known) >= _FILES_TO_MATTER and mean < _ROWS_PER_FILE_MIN
    return Finding("rows per file", f"{mean:,}", "few rows lie in many files: use fewer partitions" if is_bad else "")


def _log_ratio(table: TableState, slices: Sequence[FileSlice]) -> Finding:
    """Return the finding on the bytes of log files in the latest file slices, compared with the bytes of base files there."""
    if not table.is_merge_on_read:
        return Finding("log to base size", "no logs: a copy-on-write table")
    log_bytes = sum(file_slice.log_bytes for file_slice in slices)
    base_bytes = sum(file_slice.base_bytes for file_slice in slices)
    share = f" ({log_bytes / base_bytes:.0%})" if base_bytes else ""
    is_bad = log_bytes > base_bytes * _LOG_RATIO_MAX and log_bytes > 0
    text = f"{format_bytes(log_bytes)} to {format_bytes(base_bytes)}{share}"
    return Finding("log to base size", text, "run compact(): every read merges these logs" if is_bad else "")


def _pending(table: TableState) -> Finding:
    """Return the finding on pending instants: how many there are of each kind, and what to do about each kind."""
    clusterings = set(find_pending_clusterings(table).values())
    kinds = Counter(_kind_of(instant, clusterings) for instant in table.timeline.pending)
    fixes = [_FIXES[kind] for kind in _FIXES if kind in kinds]
    shown = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return Finding("pending", shown or "nothing", "; ".join(fixes))


def _kind_of(instant: Instant, clusterings: set[str]) -> str:
    """Return the name of a pending instant's kind in the report, for example `write` or `clustering`.

    Args:
        clusterings: the instant times of the pending clusterings.
    """
    if instant.action in (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT):
        return "clustering" if instant.time in clusterings else "write"
    return "log compaction" if instant.action is Action.LOG_COMPACTION else instant.action.value


_FIXES = {
    "restore": "finish the restore with restore(): no write can begin before that",
    "compaction": "run compact()",
    "log compaction": "run compact_logs()",
    "clustering": "run cluster(): until then no write can change the rows that it moves",
    "clean": "run clean()",
    "savepoint": "make the savepoint again with savepoint(), or let go of it with delete_savepoint()",
    "write": "a write is under way, or died: the next write rolls it back",
    "rollback": "the next write finishes the rollback",
}


def _last_clean(table: TableState, now: datetime) -> Finding:
    """Return the finding on the days since the last completed clean.

    Args:
        now: the current time in the timeline's time zone, without `tzinfo`.
    """
    cleans = table.timeline.filter(Action.CLEAN, state=State.COMPLETED)
    name = "days since the last clean"
    policy = clean_policy(table.options)
    if not cleans:
        has_many = len(table.timeline.writes) > table.options[o.CLEANER_COMMITS_RETAINED] + 1
        return Finding(name, "never cleaned", f"run clean(): it keeps what {policy.value} says" if has_many else "")
    days = (now - parse_time(cleans[-1].time)).days
    newer = sum(write.time > cleans[-1].time for write in table.timeline.writes)
    is_bad = days > _DAYS_WITHOUT_CLEAN_MAX and newer > table.options[o.CLEANER_COMMITS_RETAINED]
    return Finding(name, f"{days:,}", f"run clean(): {newer:,} commits were made since" if is_bad else "")


def _timeline(table: TableState) -> Finding:
    """Return the finding on the length of the timeline: the number of instants, and number and bytes of archive files."""
    active = len(table.timeline.instants)
    files = list_archive_files(table.storage, table.base_path, table.config.archive_folder)
    archived = "nothing archived"
    if files:
        archived = f"{len(files):,} archive files, {format_bytes(sum(file.size_bytes for file in files))}"
    is_bad = len(table.timeline.writes) > 2 * table.options[o.KEEP_MAX_COMMITS]
    held = "; delete savepoints that are not needed" if table.timeline.filter(Action.SAVEPOINT) else ""
    value = f"{active:,} instant{'' if active == 1 else 's'}; {archived}"
    return Finding("timeline", value, f"run archive(){held}" if is_bad else "")
