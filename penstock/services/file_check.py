"""Whether a table's files and its timeline agree: no needed file is missing, and every file is explained.

    needed      of each file group the newest base file and the log files on top of it; files that savepoints hold and plans name
    explained   files that a commit names, or that are older than the timeline; files of pending writes; log files whose
                blocks are of known writes, or are taken back

Old versions and replaced file groups are explained too: cleaning deletes them. Names and commits tell nearly everything. Only
log files that no commit names are opened, for the headers of their blocks. Nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.catalog.listing import load_visibility, walk_partitions
from penstock.catalog.pending import list_clustering_plans, list_compaction_plans
from penstock.catalog.savepoints import read_savepoints
from penstock.filegroup.model import GroupId
from penstock.filegroup.names import BaseName, LogName, parse_base_name, parse_log_name
from penstock.formats.log import BlockType, LogBlock, scan_blocks
from penstock.storage import join
from penstock.table import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import read_metadata

#: (partition path, file name)
FilePlace = tuple[str, str]


@dataclass(frozen=True, order=True)
class FileProblem:
    """A file that is missing, or that should not be there."""

    #: Below the table's folder.
    path: str
    problem: str


def check_files(table: TableState) -> list[FileProblem]:
    """Return what is wrong with the files of a table; an empty list if nothing is.

    Args:
        table: with its timeline just loaded.

    Raises:
        CorruptFile: a commit, savepoint or plan cannot be read.
    """
    listed = {}
    for path, files in walk_partitions(table.storage, table.base_path):
        listed[path] = frozenset(file.name for file in files)
    check = _FileCheck(table, listed)
    problems = dict([*check.missing(), *check.unexplained()])  # one problem per file is enough
    return sorted(FileProblem(join(path, name) if path else name, problem) for (path, name), problem in problems.items())


@dataclass(frozen=True)
class _FileCheck:
    """One check of a table."""

    table: TableState
    #: Names of all files by partition path.
    listed: Mapping[str, frozenset[str]]

    @cached_property
    def named(self) -> dict[FilePlace, str]:
        """Files that commits on the timeline name, with the first of these commits."""
        named: dict[FilePlace, str] = {}
        for write in self.table.timeline.writes:
            for stat in read_metadata(self.table.storage, self.table.base_path, write).stats:
                if stat.path:
                    named.setdefault((stat.partition_path or "", stat.path.rpartition("/")[2]), write.time)
        return named

    def missing(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield files that are needed and not there, with the reason."""
        for (path, name), reason in self._needed():
            if name not in self.listed.get(path, frozenset()):
                yield (path, name), f"is missing: {reason}"

    def _needed(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield files that are needed, with the reason."""
        yield from self._needed_by_commits()
        yield from self._held_by_savepoints()
        yield from self._named_by_plans()

    def _needed_by_commits(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield the newest files of the file groups that queries see."""
        seen = load_visibility(self.table)
        newest_bases = self._newest_bases()
        for (path, name), time in self.named.items():
            parsed = _parse(name)
            if parsed is None or not seen.sees_group(path, parsed.file_id):
                continue
            newest = newest_bases.get((path, parsed.file_id), "")
            if isinstance(parsed, BaseName):
                is_needed = parsed.instant == newest
            else:
                is_needed = self._is_read(path, parsed, newest)
            if is_needed:
                yield (path, name), f"commit {time} wrote it, and no later one replaced it"

    def _is_read(self, path: str, log: LogName, newest: str) -> bool:
        """Whether a log file is on top of the newest base file."""
        # Unscheduling a compaction renames the log files on top of it to the slice before. A commit keeps the old name.
        if log.base_instant < newest or not self._is_known(log.base_instant):
            return False
        timeline = self.table.timeline
        is_archived = log.base_instant not in timeline.completed_times and log.base_instant not in timeline.pending_times
        # Of an archived base instant no commit on the timeline tells whether a later one replaced the slice. Its files do.
        return not is_archived or (log.file_id, log.base_instant) in self._slices[path]

    @cached_property
    def _slices(self) -> dict[str, set[tuple[str, str]]]:
        """File id and base instant of every slice that has a file, by partition path."""
        slices: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for path, names in self.listed.items():
            for parsed in map(_parse, names):
                if parsed is not None:
                    slices[path].add((parsed.file_id, _base_instant(parsed)))
        return slices

    def _newest_bases(self) -> dict[GroupId, str]:
        """Return the newest base instant of each file group that a commit on the timeline wrote a base file of."""
        newest: dict[GroupId, str] = {}
        for path, name in self.named:
            base = parse_base_name(name)
            if base is not None:
                newest[path, base.file_id] = max(base.instant, newest.get((path, base.file_id), ""))
        return newest

    def _held_by_savepoints(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield the files that savepoints hold."""
        # A savepoint may name log files with blocks of later writes alone. A restore deletes them.
        was_restored = bool(self.table.timeline.filter(Action.RESTORE))
        for savepoint in read_savepoints(self.table):
            for path, names in savepoint.files.items():
                for name in names:
                    if not (was_restored and parse_log_name(name)):
                        yield (path, name), f"savepoint {savepoint.instant} holds it"

    def _named_by_plans(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield the files that pending plans are going to read."""
        for action in (Action.COMPACTION, Action.LOG_COMPACTION):
            for instant, plan in list_compaction_plans(self.table, action):
                for operation in plan.operations:
                    yield from _files_of_plan(instant.time, operation.partition_path, operation.base_file, operation.log_files)
        for instant, clustering in list_clustering_plans(self.table):
            for planned in clustering.slices:
                yield from _files_of_plan(instant.time, planned.partition_path, planned.base_file, planned.log_files)

    def unexplained(self) -> Iterator[tuple[FilePlace, str]]:
        """Yield data files that nothing on the timeline explains, with what is wrong."""
        for path, names in self.listed.items():
            for name in names:
                parsed = _parse(name)
                if parsed is None or (path, name) in self.named:
                    continue
                problem = self._find_problem(path, name, parsed)
                if problem is not None:
                    yield (path, name), problem

    def _find_problem(self, path: str, name: str, parsed: BaseName | LogName) -> str | None:
        """Return what is wrong with a file that no commit names; None if it is explained."""
        if isinstance(parsed, LogName):
            return self._find_log_problem(path, name, parsed)
        if parsed.instant in self.table.timeline.completed_times:
            return f"commit {parsed.instant} does not name it: an attempt of a task that was lost left it"
        if self._is_known(parsed.instant):
            return None
        return f"no instant on the timeline made it, and none at {parsed.instant}"

    def _find_log_problem(self, path: str, name: str, parsed: LogName) -> str | None:
        """Return what is wrong with a log file. Its blocks explain it, and blocks that a later block takes back need nothing."""
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
        """Return the instants that rollback blocks in the log of a slice take back."""
        instants: set[str] = set()
        for name in self.listed[path]:
            log = parse_log_name(name)
            if log is None or (log.file_id, log.base_instant) != (parsed.file_id, parsed.base_instant):
                continue
            instants.update(block.target_instant for block in self._blocks(path, name) if block.is_rollback)
        return instants

    def _blocks(self, path: str, name: str) -> list[LogBlock]:
        file = join(self.table.base_path, path, name)
        return list(scan_blocks(self.table.storage.open(file), file_name=file))

    def _is_known(self, time: str) -> bool:
        """Whether an instant is completed, archived or pending."""
        return time in self.table.timeline.pending_times or self.table.timeline.is_visible(time)


def _files_of_plan(time: str, path: str, base_file: str | None, log_files: Sequence[str]) -> Iterator[tuple[FilePlace, str]]:
    names = list(log_files) if base_file is None else [base_file, *log_files]
    for name in names:
        yield (path, name), f"plan {time} names it"


def _parse(name: str) -> BaseName | LogName | None:
    return parse_base_name(name) or parse_log_name(name)


def _base_instant(parsed: BaseName | LogName) -> str:
    return parsed.instant if isinstance(parsed, BaseName) else parsed.base_instant
