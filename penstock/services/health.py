"""How a table is doing: a few numbers, each with what to do where one is bad. Nothing is written, no data file is opened.

The listing, the timeline and the commits that wrote the current files are all that is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock import clock
from penstock import options as o
from penstock.catalog.listing import merged_slices
from penstock.catalog.pending import pending_clusterings
from penstock.filegroup.model import FileSlice
from penstock.progress import format_bytes
from penstock.services.clean.retention import clean_policy
from penstock.table import TableState
from penstock.timeline.archive import archive_files
from penstock.timeline.instant import Action, Instant, State, parse_time
from penstock.timeline.store import read_metadata

#: Where a number begins to be bad.
_SMALL_SHARE = 0.5
_LOG_RATIO = 0.5
_FEW_ROWS = 10_000
_DAYS_WITHOUT_CLEAN = 7
_FILES_TO_MATTER = 10


@dataclass(frozen=True)
class Finding:
    """One number about a table."""

    measure: str
    value: str
    #: What to do about it; empty where all is well.
    suggestion: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether nothing is to be done."""
        return not self.suggestion


def check_health(table: TableState, now: datetime | None = None) -> list[Finding]:
    """The findings, in the order they are shown in. The table's timeline was loaded just now."""
    now = now or (clock.utc_now() if table.config.timeline_utc else clock.local_now())
    slices = [one for its in merged_slices(table).values() for one in its]
    return [
        _small_files(table, slices),
        _rows_per_file(table, slices),
        _log_ratio(table, slices),
        _pending(table),
        _last_clean(table, now.replace(tzinfo=None)),
        _timeline(table),
    ]


def _small_files(table: TableState, slices: Sequence[FileSlice]) -> Finding:
    limit = table.options[o.SMALL_FILE_LIMIT]
    sizes = [one.base_file.size_bytes for one in slices if one.base_file is not None]
    small = sum(size < limit for size in sizes)
    count = len(sizes)
    is_bad = count >= _FILES_TO_MATTER and small > count * _SMALL_SHARE
    text = (
        f"run cluster(), write more rows at once, or choose coarser partitions: files below {format_bytes(limit)} cost a read "
        "more than they give"
    )
    return Finding("small files", f"{small:,} of {count:,}", text if is_bad else "")


def _rows_per_file(table: TableState, slices: Sequence[FileSlice]) -> Finding:
    """From the commits that wrote the files; those of archived ones are not known."""
    times = {one.base_instant for one in slices if one.base_file is not None}
    commits = [read_metadata(table.storage, table.base_path, i) for i in table.timeline.writes if i.time in times]
    rows = {(s.path or "").rpartition("/")[2]: s.num_writes for commit in commits for s in commit.stats}
    known = [rows[name] for one in slices if one.base_file and (name := one.base_file.path.rpartition("/")[2]) in rows]
    if not known:
        return Finding("rows per file", "not known")
    mean = sum(known) // len(known)
    is_bad = len(known) >= _FILES_TO_MATTER and mean < _FEW_ROWS
    return Finding("rows per file", f"{mean:,}", "few rows lie in many files: use fewer partitions" if is_bad else "")


def _log_ratio(table: TableState, slices: Sequence[FileSlice]) -> Finding:
    if not table.is_merge_on_read:
        return Finding("log to base size", "no logs: a copy-on-write table")
    logs = sum(one.log_bytes for one in slices)
    bases = sum(one.base_bytes for one in slices)
    share = f" ({logs / bases:.0%})" if bases else ""
    is_bad = logs > bases * _LOG_RATIO and logs > 0
    text = f"{format_bytes(logs)} to {format_bytes(bases)}{share}"
    return Finding("log to base size", text, "run compact(): every read merges these logs" if is_bad else "")


def _pending(table: TableState) -> Finding:
    clusterings = set(pending_clusterings(table).values())
    kinds = Counter(_kind(i, clusterings) for i in table.timeline.pending)
    fixes = [_FIXES[kind] for kind in _FIXES if kind in kinds]
    shown = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return Finding("pending", shown or "nothing", "; ".join(fixes))


def _kind(instant: Instant, clusterings: set[str]) -> str:
    if instant.action in (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT):
        return "clustering" if instant.time in clusterings else "write"
    return "log compaction" if instant.action is Action.LOG_COMPACTION else instant.action.value


_FIXES = {
    "restore": "finish the restore with restore(): nobody can write before that",
    "compaction": "run compact()",
    "log compaction": "run compact_logs()",
    "clustering": "run cluster(): until then nobody can change the rows that it moves",
    "clean": "run clean()",
    "savepoint": "make the savepoint again with savepoint(), or let go of it with delete_savepoint()",
    "write": "a write is under way, or died: the next write rolls it back",
    "rollback": "the next write finishes the rollback",
}


def _last_clean(table: TableState, now: datetime) -> Finding:
    cleans = table.timeline.of(Action.CLEAN, state=State.COMPLETED)
    name = "days since the last clean"
    policy = clean_policy(table.options)
    if not cleans:
        has_many = len(table.timeline.writes) > table.options[o.CLEANER_COMMITS_RETAINED] + 1
        return Finding(name, "never cleaned", f"run clean(): it keeps what {policy.value} says" if has_many else "")
    days = (now - parse_time(cleans[-1].time)).days
    newer = sum(i.time > cleans[-1].time for i in table.timeline.writes)
    is_bad = days > _DAYS_WITHOUT_CLEAN and newer > table.options[o.CLEANER_COMMITS_RETAINED]
    return Finding(name, f"{days:,}", f"run clean(): {newer:,} commits were made since" if is_bad else "")


def _timeline(table: TableState) -> Finding:
    active = len(table.timeline.instants)
    files = archive_files(table.storage, table.base_path, table.config.archive_folder)
    archived = f"{len(files):,} archive files, {format_bytes(sum(f.size_bytes for f in files))}" if files else "nothing archived"
    is_bad = len(table.timeline.writes) > 2 * table.options[o.KEEP_MAX_COMMITS]
    held = "; delete savepoints that nobody needs" if table.timeline.of(Action.SAVEPOINT) else ""
    return Finding(
        "timeline", f"{active:,} instant{'' if active == 1 else 's'}; {archived}", f"run archive(){held}" if is_bad else ""
    )
