"""Whether a table's files and its timeline agree: nothing that is needed is missing, and nothing lies there unexplained.

    needed      of each file group the newest base file, and the log files on top of it; what savepoints hold and plans name
    explained   files that a commit names, or that are older than the timeline; those of writes that are not finished; log
                files whose blocks are such writes', or are taken back

Old versions and replaced file groups are explained too: cleaning takes them. Names and commits tell nearly everything; only log
files that no commit names are opened, for the headers of their blocks. Nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.catalog.listing import visibility, walk_partitions
from penstock.catalog.pending import clustering_plans, pending_plans
from penstock.catalog.savepoints import savepoints
from penstock.filegroup.names import BaseName, LogName, parse_base_name, parse_log_name
from penstock.formats.log import BlockType, LogBlock, scan_blocks
from penstock.storage import join
from penstock.table import TableState
from penstock.timeline.instant import Action
from penstock.timeline.store import read_metadata

#: (partition path, file name)
Place = tuple[str, str]


@dataclass(frozen=True, order=True)
class FileProblem:
    """A file that is not there, or that should not be."""

    #: Below the table's folder.
    path: str
    problem: str


def check_files(table: TableState) -> list[FileProblem]:
    """What is wrong with the files of a table; nothing, if all is well. Its timeline was loaded just now.

    Raises:
        CorruptFile: a commit, savepoint or plan cannot be read.
    """
    listed = {path: frozenset(f.name for f in files) for path, files in walk_partitions(table.storage, table.base_path)}
    looking = _Looking(table, listed)
    found = [*looking.missing(), *looking.unexplained()]
    return sorted(FileProblem(join(*place) if place[0] else place[1], why) for place, why in dict(found).items())


@dataclass(frozen=True)
class _Looking:
    """One look at a table."""

    table: TableState
    listed: Mapping[str, frozenset[str]]

    @cached_property
    def named(self) -> dict[Place, str]:
        """Files that commits on the timeline name, and when they were written."""
        found: dict[Place, str] = {}
        for instant in self.table.timeline.writes:
            for stat in read_metadata(self.table.storage, self.table.base_path, instant).stats:
                if stat.path:
                    found.setdefault((stat.partition_path or "", stat.path.rpartition("/")[2]), instant.time)
        return found

    def missing(self) -> Iterator[tuple[Place, str]]:
        """Files that are needed and not there."""
        for (path, name), why in self._needed():
            if name not in self.listed.get(path, frozenset()):
                yield (path, name), f"is missing: {why}"

    def _needed(self) -> Iterator[tuple[Place, str]]:
        seen = visibility(self.table)
        newest = self._newest_bases()
        for (path, name), time in self.named.items():
            parsed = _parsed(name)
            if parsed is None or not seen.sees_group(path, parsed.file_id):
                continue
            last = newest.get((path, parsed.file_id), "")
            if parsed.instant == last if isinstance(parsed, BaseName) else self._is_read(path, parsed, last):
                yield (path, name), f"commit {time} wrote it, and no later one replaced it"
        yield from self._held()
        yield from self._planned()

    def _is_read(self, path: str, log: LogName, newest: str) -> bool:
        """Whether a log file is on top of the newest base file. A plan taken off the timeline took its logs elsewhere."""
        if log.base_instant < newest or not self._is_known(log.base_instant):
            return False
        is_archived = log.base_instant not in (self.table.timeline.completed_times | self.table.timeline.pending_times)
        return not is_archived or (log.file_id, log.base_instant) in self._slices[path]

    @cached_property
    def _slices(self) -> dict[str, set[tuple[str, str]]]:
        """File id and base instant of every slice that has a file, by partition path."""
        parsed = {path: [one for one in map(_parsed, names) if one is not None] for path, names in self.listed.items()}
        found = {path: {(one.file_id, _base_instant(one)) for one in its} for path, its in parsed.items()}
        return defaultdict(set, found)

    def _newest_bases(self) -> dict[Place, str]:
        """The newest base instant of each file group that a commit on the timeline wrote a base file of."""
        found: dict[Place, str] = {}
        for path, name in self.named:
            if base := parse_base_name(name):
                found[path, base.file_id] = max(base.instant, found.get((path, base.file_id), ""))
        return found

    def _held(self) -> Iterator[tuple[Place, str]]:
        """What savepoints hold; but a restore to one deletes log files of later writes, which it may name."""
        was_restored = bool(self.table.timeline.of(Action.RESTORE))
        for one in savepoints(self.table):
            for path, names in one.files.items():
                held = (name for name in names if not (was_restored and parse_log_name(name)))
                yield from (((path, name), f"savepoint {one.instant} holds it") for name in held)

    def _planned(self) -> Iterator[tuple[Place, str]]:
        for action in (Action.COMPACTION, Action.LOG_COMPACTION):
            for instant, plan in pending_plans(self.table, action):
                for operation in plan.operations:
                    yield from self._named_by(instant.time, operation.partition_path, operation.base_file, operation.log_files)
        for instant, clustering in clustering_plans(self.table):
            for one in clustering.slices:
                yield from self._named_by(instant.time, one.partition_path, one.base_file, one.log_files)

    def _named_by(self, time: str, path: str, base: str | None, logs: Sequence[str]) -> Iterator[tuple[Place, str]]:
        yield from (((path, name), f"plan {time} names it") for name in (base, *logs) if name is not None)

    def unexplained(self) -> Iterator[tuple[Place, str]]:
        """Data files that nobody answers for."""
        for path, names in self.listed.items():
            for name in names:
                parsed = _parsed(name)
                if parsed is not None and (path, name) not in self.named and (why := self._objection(path, name, parsed)):
                    yield (path, name), why

    def _objection(self, path: str, name: str, parsed: BaseName | LogName) -> str | None:
        if isinstance(parsed, LogName):
            return self._objection_to_log(path, name, parsed)
        if parsed.instant in self.table.timeline.completed_times:
            return f"commit {parsed.instant} does not name it: an attempt of a task that was lost left it"
        return None if self._is_known(parsed.instant) else f"no instant on the timeline made it, and none at {parsed.instant}"

    def _objection_to_log(self, path: str, name: str, parsed: LogName) -> str | None:
        """A log file is explained by its blocks; those that a later block of the slice takes back need nobody."""
        if parsed.is_cdc and self._is_known(parsed.base_instant):
            return None
        taken_back = self._taken_back(path, parsed)
        own = {b.instant for b in self._blocks(path, name) if not b.is_rollback and b.type is not BlockType.CORRUPT}
        open_ = own - taken_back
        if open_ and not self._is_known(parsed.base_instant):
            return f"its base instant {parsed.base_instant} is not on the timeline, so that nobody reads its rows"
        unknown = sorted(time for time in open_ if not self._is_known(time))
        return f"instant {unknown[0]}, which wrote to it, is not on the timeline, and nobody took it back" if unknown else None

    def _taken_back(self, path: str, parsed: LogName) -> set[str]:
        logs = {name: log for name in self.listed[path] if (log := parse_log_name(name))}
        mates = [n for n, log in logs.items() if (log.file_id, log.base_instant) == (parsed.file_id, parsed.base_instant)]
        return {block.target_instant for name in mates for block in self._blocks(path, name) if block.is_rollback}

    def _blocks(self, path: str, name: str) -> list[LogBlock]:
        file = join(self.table.base_path, path, name)
        return list(scan_blocks(self.table.storage.open(file), file_name=file))

    def _is_known(self, time: str) -> bool:
        """Whether an instant is committed, archived or under way."""
        return time in self.table.timeline.pending_times or self.table.timeline.is_visible(time)


def _parsed(name: str) -> BaseName | LogName | None:
    return parse_base_name(name) or parse_log_name(name)


def _base_instant(parsed: BaseName | LogName) -> str:
    return parsed.instant if isinstance(parsed, BaseName) else parsed.base_instant
