"""Check that a table's files and its timeline agree: no needed file is missing or too short, the timeline explains every file.

The words of this module, and the files that each stands for:

    needed      files that must exist: the newest base file of each file group and the log files of the same slice; files that
                savepoints hold; files that pending plans name
    explained   files that may exist: those that a commit names; those whose instant is archived or pending; log files in which
                every block was written by a completed, archived or pending instant, or was rolled back
    foreign     Parquet files whose names are not those of Hudi's files

Old file versions and replaced file groups are explained too: cleaning deletes them later. Most checks need only file names and
commit files. Only log files that no commit names are opened, to read the headers of their blocks. Nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from penstock.filegroup.model import GroupId
from penstock.filegroup.names import BaseName, LogName, parse_base_name, parse_log_name
from penstock.formats.log import BlockType, LogBlock, scan_blocks
from penstock.report_table import HtmlFields
from penstock.storage import join
from penstock.table.foreign_files import find_foreign_files, is_parquet
from penstock.table.listing import load_visibility, walk_partitions
from penstock.table.pending import list_clustering_plans, list_compaction_plans
from penstock.table.savepoints import read_savepoints
from penstock.table.state import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import read_metadata

#: (partition path, file name)
FilePlace = tuple[str, str]


@dataclass(frozen=True, order=True)
class FileProblem(HtmlFields):
    """A problem of one file: it is missing, too short, not explained by the timeline, or its name is not that of a Hudi file."""

    #: Path of the file relative to the table's base path.
    path: str
    problem: str


def check_files(table: TableState) -> list[FileProblem]:
    """Check that a table's files and its timeline agree. Return the problems, at most one per file, sorted by path.

    Args:
        table: the table; its timeline must have been loaded just before this call.

    Raises:
        CorruptFile: a commit, savepoint or plan cannot be read.
    """
    listed = {}
    for path, files in walk_partitions(table.storage, table.base_path):
        listed[path] = {file.name: file.size_bytes for file in files}
    check = _FileCheck(table, listed)
    found = dict([*check.missing(), *check.unexplained()])  # one problem per file is enough
    problems = [FileProblem(join(path, name) if path else name, problem) for (path, name), problem in found.items()]
    for file in find_foreign_files(table.storage, table.base_path):
        if is_parquet(file):
            problems.append(FileProblem(file, "is foreign: it does not have the name of a Hudi file, and no query reads it"))
    return sorted(problems)


class _Recorded(NamedTuple):
    """The instant time of a commit that names a file, and the size that the commit recorded for it; 0 if it recorded none."""

    time: str
    size_bytes: int


@dataclass(frozen=True)
class _FileCheck:
    """The check of one table: `missing` and `unexplained` compare its timeline with the names of all files in its partitions."""

    table: TableState
    #: Name and size in bytes of every file, by partition path.
    listed: Mapping[str, Mapping[str, int]]

    @cached_property
    def named(self) -> dict[FilePlace, list[_Recorded]]:
        """Files in the write stats of commits on the timeline, with the time and size of each commit that names them."""
        named: dict[FilePlace, list[_Recorded]] = defaultdict(list)
        for write in self.table.timeline.writes:
            for stat in read_metadata(self.table.storage, self.table.base_path, write).stats:
                if stat.path:
                    place = (stat.partition_path or "", stat.path.rpartition("/")[2])
                    named[place].append(_Recorded(write.time, stat.file_size_in_bytes))
        return named

    def missing(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield (file, problem) for each needed file that does not exist, or is shorter than a commit recorded.

        The problem is a text for the report, for example "is missing: plan 20260131120000000 names it".
        """
        for (path, name), reason in self._needed():
            size_bytes = self.listed.get(path, {}).get(name)
            if size_bytes is None:
                yield (path, name), f"is missing: {reason}"
                continue
            for time, recorded_bytes in self.named.get((path, name), ()):
                if size_bytes < recorded_bytes:
                    problem = f"is shorter than write {time} recorded: {size_bytes:,} of {recorded_bytes:,} bytes"
                    yield (path, name), problem

    def _needed(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield (file, reason) for each file that must exist, because commits, savepoints or pending plans need it.

        The reason is a text that says what needs the file, for example "plan 20260131120000000 names it".
        """
        yield from self._needed_by_commits()
        yield from self._held_by_savepoints()
        yield from self._named_by_plans()

    def _needed_by_commits(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield (file, reason) for each file that a commit on the timeline names and snapshot queries read.

        Snapshot queries read the newest base file of each file group, and the log files of the same slice. The reason is a text
        that names the commit which wrote the file.
        """
        seen = load_visibility(self.table)
        newest_bases = self._newest_bases()
        for (path, name), commits in self.named.items():
            parsed = _parse(name)
            if parsed is None or not seen.sees_group(path, parsed.file_id):
                continue
            newest = newest_bases.get((path, parsed.file_id), "")
            if isinstance(parsed, BaseName):
                is_needed = parsed.instant == newest
            else:
                is_needed = self._is_read(path, parsed, newest)
            if is_needed:
                yield (path, name), f"commit {commits[0].time} wrote it, and no later one replaced it"

    def _is_read(self, path: str, log: LogName, newest: str) -> bool:
        """Whether a log file is in the latest file slice of its file group, so that snapshot queries read it.

        True if the base instant of the log file is that of the newest base file. Also true if it is later: then the latest slice
        has no base file yet. False for the old name of a log file that was renamed because its compaction was unscheduled.

        Args:
            path: the partition path.
            newest: the instant time of the newest base file in the group; "" if there is none. Only base files that commits on
                the timeline name count.
        """
        # Unscheduling a compaction renames its log files to the slice before. The commit that wrote them still names the old
        # name.
        if log.base_instant < newest or not self._is_known(log.base_instant):
            return False
        timeline = self.table.timeline
        is_archived = log.base_instant not in timeline.completed_times and log.base_instant not in timeline.pending_times
        # If the base instant is archived, no commit on the timeline says whether a later slice exists. The listed files do.
        return not is_archived or (log.file_id, log.base_instant) in self._slices[path]

    @cached_property
    def _slices(self) -> dict[str, set[tuple[str, str]]]:
        """All slices that have at least one file on storage: sets of (file id, base instant), by partition path."""
        slices: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for path, names in self.listed.items():
            for parsed in map(_parse, names):
                if parsed is not None:
                    slices[path].add((parsed.file_id, _base_instant(parsed)))
        return slices

    def _newest_bases(self) -> dict[GroupId, str]:
        """Return the instant time of each file group's newest base file. Only base files that commits name are considered."""
        newest: dict[GroupId, str] = {}
        for path, name in self.named:
            base = parse_base_name(name)
            if base is not None:
                newest[path, base.file_id] = max(base.instant, newest.get((path, base.file_id), ""))
        return newest

    def _held_by_savepoints(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield (file, reason) for each data file that a savepoint holds. The reason is a text that names the savepoint.

        If the table was ever restored, log files are left out, because the restore may have deleted them.
        """
        # A savepoint may name log files whose blocks are all of later writes. A restore deletes these log files.
        was_restored = bool(self.table.timeline.filter(Action.RESTORE))
        for savepoint in read_savepoints(self.table):
            for path, names in savepoint.files.items():
                for name in names:
                    if not (was_restored and parse_log_name(name)):
                        yield (path, name), f"savepoint {savepoint.instant} holds it"

    def _named_by_plans(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield (file, reason) for each file that a pending compaction, log compaction or clustering will read.

        The reason is a text that names the plan.
        """
        for action in (Action.COMPACTION, Action.LOG_COMPACTION):
            for instant, plan in list_compaction_plans(self.table, action):
                for operation in plan.operations:
                    yield from _files_of_plan(instant.time, operation.partition_path, operation.base_file, operation.log_files)
        for instant, clustering in list_clustering_plans(self.table):
            for planned in clustering.slices:
                yield from _files_of_plan(instant.time, planned.partition_path, planned.base_file, planned.log_files)

    def unexplained(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield (file, problem) for each data file that the timeline does not explain, such as a leftover of a dead writer.

        The problem is a text for the report, for example "no instant on the timeline made it".
        """
        for path, names in self.listed.items():
            for name in names:
                parsed = _parse(name)
                if parsed is None or (path, name) in self.named:
                    continue
                problem = self._find_problem(path, name, parsed)
                if problem is not None:
                    yield (path, name), problem

    def _find_problem(self, path: str, name: str, parsed: BaseName | LogName) -> str | None:
        """Return the problem of a data file that no commit names, as text; None if the timeline explains the file.

        Args:
            path: the partition path.
            parsed: the parts of the file name `name`.
        """
        if isinstance(parsed, LogName):
            return self._find_log_problem(path, name, parsed)
        if parsed.instant in self.table.timeline.completed_times:
            return f"commit {parsed.instant} does not name it: an attempt of a task that was lost left it"
        if self._is_known(parsed.instant):
            return None
        return f"no instant on the timeline made it, and none at {parsed.instant}"

    def _find_log_problem(self, path: str, name: str, parsed: LogName) -> str | None:
        """Return the problem of a log file that no commit names, as text; None if the timeline explains all its blocks.

        A block is explained if its instant is completed, archived or pending, or if a rollback block of the same slice cancels
        it.

        Args:
            path: the partition path.
            parsed: the parts of the file name `name`.
        """
        if parsed.is_cdc and self._is_known(parsed.base_instant):
            return None
        taken_back = self._instants_taken_back(path, parsed)
        own_blocks = [block for block in self._blocks(path, name) if not block.is_rollback]
        instants = {block.instant for block in own_blocks if block.type is not BlockType.CORRUPT} - taken_back
        if instants and not self._is_known(parsed.base_instant):
            return f"its base instant {parsed.base_instant} is not on the timeline, so that its rows are never read"
        unknown = sorted(time for time in instants if not self._is_known(time))
        if unknown:
            return f"instant {unknown[0]}, which wrote to it, is not on the timeline, and no rollback took it back"
        return None

    def _instants_taken_back(self, path: str, parsed: LogName) -> set[str]:
        """Return the instant times whose blocks were rolled back in the slice of a log file: the targets of its rollback blocks.

        Args:
            path: the partition path.
            parsed: the parts of the log file's name.
        """
        instants: set[str] = set()
        for name in self.listed[path]:
            log = parse_log_name(name)
            if log is None or (log.file_id, log.base_instant) != (parsed.file_id, parsed.base_instant):
                continue
            instants.update(block.target_instant for block in self._blocks(path, name) if block.is_rollback)
        return instants

    def _blocks(self, path: str, name: str) -> list[LogBlock]:
        """Read all blocks of the log file `name` in the partition `path`."""
        file = join(self.table.base_path, path, name)
        return list(scan_blocks(self.table.storage.open(file), file_name=file))

    def _is_known(self, time: str) -> bool:
        """Whether an instant time is that of a completed, archived or pending instant."""
        return time in self.table.timeline.pending_times or self.table.timeline.is_visible(time)


def _files_of_plan(time: str, path: str, base_file: str | None, log_files: Sequence[str]) -> Iterator[tuple[FilePlace, str]]:
    """Yield (file, reason) for the base file and log files of one slice in a pending plan. The reason names the plan.

    Args:
        time: the instant time of the plan.
        path: the partition path.
    """
    names = list(log_files) if base_file is None else [base_file, *log_files]
    for name in names:
        yield (path, name), f"plan {time} names it"


def _parse(name: str) -> BaseName | LogName | None:
    """Return the parts of the name of a base file or log file; None if the name is neither."""
    return parse_base_name(name) or parse_log_name(name)


def _base_instant(parsed: BaseName | LogName) -> str:
    """Return the base instant of the slice that a data file belongs to."""
    return parsed.instant if isinstance(parsed, BaseName) else parsed.base_instant
