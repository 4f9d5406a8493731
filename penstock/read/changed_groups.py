"""Which file groups the writes of an incremental query's range changed, and whether their files still exist.

The functions compute this from commit metadata and file slices. They read no storage.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.errors import CorruptFile
from penstock.filegroup.model import FileSlice
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.read.query import expand_braces
from penstock.storage import join
from penstock.timeline.history import CompletedWrite
from penstock.timeline.instant import Action

#: Partition path and file id.
GroupKey = tuple[str, str]


class MissingFile(NamedTuple):
    """A file that an incremental query needs and a clean has deleted, with the instant of the write that created it."""

    name: str
    written_at: str


@dataclass(frozen=True)
class ChangedFiles:
    """The files that the writes in an incremental query's range added to the newest slice of one file group."""

    #: The base instant of that slice.
    base_instant: str
    #: File name → the instant of the write that created the file.
    files: Mapping[str, str] = field(default_factory=dict)
    #: Log files on top of a compaction that was unscheduled since. They still exist, with other names.
    renamed: tuple[str, ...] = ()

    def find_missing(self, file_slice: FileSlice | None) -> MissingFile | None:
        """Return the first changed file that the slice does not have; None if the slice has all changed files.

        The repair of a compaction plan renames log files: the later instant of the compaction replaces the base instant in the
        name. So a missing log file is reported only if no renamed one can be it. A log file of the slice may be a renamed one if
        it is not among the changed files and has a later base instant than these; it accounts for one missing log file.

        Args:
            file_slice: the slice that the file group has now; None: the file group has no slice any more.
        """
        logs = file_slice.log_files if file_slice else ()
        base_file = file_slice.base_file if file_slice else None
        has_base = base_file is not None and base_file.instant == self.base_instant
        log_names = {log.name for log in logs}
        missing_logs: list[MissingFile] = []
        for name, time in self.files.items():
            if parse_base_name(name):
                if not has_base:
                    return MissingFile(name, time)
            elif name not in log_names:
                missing_logs.append(MissingFile(name, time))
        repaired = [log for log in logs if log.name not in self.files and log.base_instant > self.base_instant]
        return missing_logs[0] if len(missing_logs) > len(repaired) else None


def find_changed_groups(
    writes: Iterable[CompletedWrite], is_unscheduled: Callable[[str], bool] = lambda _: False
) -> dict[GroupKey, ChangedFiles]:
    """Return the file groups that the writes changed, each with its changed files. Replaced file groups are left out.

    Only files of the newest slice of each file group are returned: a row that was written twice is in the later file, and a row
    that clustering moved is in a file of the clustering.

    Args:
        writes: the completed writes of the range, oldest first.
        is_unscheduled: is called with a base instant; returns whether it is the instant of a compaction that was unscheduled,
            so that the log files with this base instant were renamed.
    """
    changed: dict[GroupKey, ChangedFiles] = {}
    replaced: set[GroupKey] = set()
    for write in writes:
        for stat in write.metadata.stats:
            name = (stat.path or "").rpartition("/")[2]
            base_instant = _base_instant(name)
            if base_instant is None:
                continue
            group = (stat.partition_path or "", stat.file_id)
            if is_unscheduled(base_instant):
                changed[group] = _with_renamed(changed.get(group), name)
            else:
                changed[group] = _with_file(changed.get(group), base_instant, name, write.time)
        replaced |= _replaced_groups(write)
    return {group: files for group, files in changed.items() if group not in replaced}


def _base_instant(name: str) -> str | None:
    """Return the base instant of the slice that a file belongs to, from its name; None if the file holds no rows of the table."""
    base = parse_base_name(name)
    if base:
        return base.instant
    log = parse_log_name(name)
    return log.base_instant if log and not log.is_cdc else None


def _with_file(known: ChangedFiles | None, base_instant: str, name: str, time: str) -> ChangedFiles:
    """Return a copy of the changed files of a file group with one file added. Files of an older slice are dropped.

    Args:
        known: the changed files so far; None: there are none.
        base_instant: the base instant of the slice that the file belongs to.
        name: the name of the added file.
        time: the instant of the write that created the file.
    """
    if known is None:
        return ChangedFiles(base_instant, {name: time})
    if known.base_instant > base_instant:
        return known  # a log of a write that ran concurrently with a compaction: the compacted slice has its rows
    earlier = known.files if known.base_instant == base_instant else {}
    return ChangedFiles(base_instant, {**earlier, name: time}, known.renamed)


def _with_renamed(known: ChangedFiles | None, name: str) -> ChangedFiles:
    """Return a copy of the changed files of a file group with a renamed log file added.

    The log file was renamed when its compaction was unscheduled.

    Args:
        known: the changed files so far; None: there are none.
        name: the old name of the log file, which the commit metadata has.
    """
    known = known or ChangedFiles("")
    return replace(known, renamed=(*known.renamed, name))


def _replaced_groups(write: CompletedWrite) -> set[GroupKey]:
    """Return the file groups that a write replaced. Raises CorruptFile if a replace commit does not say which."""
    replaced = write.metadata.replaced
    if replaced is None and write.instant.action is Action.REPLACE_COMMIT:
        raise CorruptFile(f"{write.instant.file_name} does not say which file groups it replaced")
    groups: set[GroupKey] = set()
    for path, file_ids in (replaced or {}).items():
        groups |= {(path, file_id) for file_id in file_ids}
    return groups


def find_missing_file(changed: Mapping[GroupKey, ChangedFiles], slices: Sequence[FileSlice]) -> MissingFile | None:
    """Return the first changed file that no longer exists, named by its path below the base path; None if all exist.

    Args:
        changed: the changed file groups, from `find_changed_groups`.
        slices: for each changed file group that still has files, its newest slice at the end of the query's range.
    """
    slice_of_group = {(file_slice.partition_path, file_slice.file_id): file_slice for file_slice in slices}
    for group, files in changed.items():
        missing = files.find_missing(slice_of_group.get(group))
        if missing:
            path = group[0]
            return missing._replace(name=f"{path}/{missing.name}" if path else missing.name)
    return None


class FilePattern:
    """A glob pattern that the end of a file's path must match. `*` matches any characters, slashes too; "" matches every path."""

    def __init__(self, pattern: str) -> None:
        # Hadoop negates a set of characters with `[^`, Python with `[!`.
        self._patterns = ["*" + choice.replace("[^", "[!") for choice in expand_braces(pattern)] if pattern else ["*"]

    def matches(self, path: str) -> bool:
        """Whether the end of `path` matches the glob pattern, such as `*/2024/*`."""
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self._patterns)


def keep_matching(changed: Mapping[GroupKey, ChangedFiles], base_path: str, pattern: FilePattern) -> dict[GroupKey, ChangedFiles]:
    """Return the file groups of `changed` that have a changed file whose full path matches the pattern."""
    matching: dict[GroupKey, ChangedFiles] = {}
    for group, files in changed.items():
        names = (*files.files, *files.renamed)
        if any(pattern.matches(join(base_path, group[0], name)) for name in names):
            matching[group] = files
    return matching
