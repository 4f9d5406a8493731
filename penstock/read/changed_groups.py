"""Which file groups the writes of a range touched, and whether their files are still there. Kernels: metadata in, slices out."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import CorruptFile
from penstock.filegroup.model import FileSlice
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.read.query import alternatives
from penstock.storage import join
from penstock.timeline.history import CompletedWrite
from penstock.timeline.instant import Action

#: Partition path and file id.
Group = tuple[str, str]


@dataclass(frozen=True)
class Touched:
    """What the writes of a range left of one file group: the files of its newest slice that they wrote."""

    #: The base instant of that slice.
    base_instant: str
    #: Name of a file → the write that made it.
    files: Mapping[str, str] = field(default_factory=dict)
    #: Log files on top of a compaction that was unscheduled since: they are still there, by other names.
    renamed: tuple[str, ...] = ()

    def missing_in(self, slice_: FileSlice | None) -> tuple[str, str] | None:
        """A file that a slice lacks, with the time it was written at.

        A repair gives log files the names of a later slice, the compaction that is planned; these stand for those that are
        not found.
        """
        logs = slice_.log_files if slice_ else ()
        has_base = slice_ is not None and slice_.base_file is not None and slice_.base_file.instant == self.base_instant
        there = {log.name for log in logs}
        lost = [(name, time) for name, time in self.files.items() if name not in there]
        if base := next((one for one in lost if parse_base_name(one[0]) and not has_base), None):
            return base
        lost_logs = [one for one in lost if not parse_base_name(one[0])]
        repaired = [log for log in logs if log.name not in self.files and log.base_instant > self.base_instant]
        return lost_logs[0] if len(lost_logs) > len(repaired) else None


def touched_groups(
    writes: Iterable[CompletedWrite], unscheduled: Callable[[str], bool] = lambda _: False
) -> dict[Group, Touched]:
    """The file groups that writes, oldest first, wrote to; without those that one of them replaced.

    A row that was written twice is in the later file; one that clustering moved is in a file of the clustering. So the newest
    slice of each group, and the rows in it by their commit times, is all that is to be read.

    Args:
        unscheduled: whether a base instant is of a compaction that was taken off the timeline.
    """
    found: dict[Group, Touched] = {}
    replaced: set[Group] = set()
    for write in writes:
        for stat in write.metadata.stats:
            name = (stat.path or "").rpartition("/")[2]
            if base_instant := _base_instant(name):
                group = (stat.partition_path or "", stat.file_id)
                add = _with_renamed if unscheduled(base_instant) else _with_file
                found[group] = add(found.get(group), base_instant, name, write.time)
        replaced |= _replaced(write)
    return {group: one for group, one in found.items() if group not in replaced}


def _base_instant(name: str) -> str | None:
    """The base instant of the slice that a file is part of; None if it holds no rows of the table."""
    if base := parse_base_name(name):
        return base.instant
    log = parse_log_name(name)
    return log.base_instant if log and not log.is_cdc else None


def _with_file(known: Touched | None, base_instant: str, name: str, time: str) -> Touched:
    if known is not None and known.base_instant > base_instant:
        return known
    before = known.files if known is not None and known.base_instant == base_instant else {}
    return Touched(base_instant, {**before, name: time}, known.renamed if known else ())


def _with_renamed(known: Touched | None, base_instant: str, name: str, time: str) -> Touched:
    known = known or Touched("")
    return replace(known, renamed=(*known.renamed, name))


def _replaced(write: CompletedWrite) -> set[Group]:
    replaced = write.metadata.replaced
    if replaced is None and write.instant.action is Action.REPLACE_COMMIT:
        raise CorruptFile(f"{write.instant.file_name} does not say which file groups it replaced")
    return {(path, file_id) for path, ids in (replaced or {}).items() for file_id in ids}


def first_missing(touched: Mapping[Group, Touched], slices: Sequence[FileSlice]) -> tuple[str, str] | None:
    """A file that a range needs and that is not there any more, with the time it was written at."""
    there = {(one.partition_path, one.file_id): one for one in slices}
    gone = ((group[0], one.missing_in(there.get(group))) for group, one in touched.items())
    return next(((f"{path}/{lost[0]}" if path else lost[0], lost[1]) for path, lost in gone if lost), None)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether the end of a path matches a pattern in which `*` stands for any characters, slashes too."""
    if not pattern:
        return lambda _: True
    patterns = ["*" + one.replace("[^", "[!") for one in alternatives(pattern)]
    return lambda path: any(fnmatch.fnmatchcase(path, one) for one in patterns)


def matching(touched: Mapping[Group, Touched], base_path: str, pattern: str) -> dict[Group, Touched]:
    """The groups with a touched file whose path matches."""
    fits = matcher(pattern)
    return {g: one for g, one in touched.items() if any(fits(join(base_path, g[0], name)) for name in (*one.files, *one.renamed))}
