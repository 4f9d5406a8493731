"""Which files of a partition go. A kernel: names in, names out.

Of every file group the newest slice stays, whatever the policy. By commits and by hours, so does everything from the
earliest retained commit on, and the newest slice before it, which a reader of that commit uses. By versions, the newest few
stay. What a savepoint holds stays, and what a plan that waits has named. A file group that was replaced goes as a whole
once nobody may read from before it was. Files that no commit made are not looked at: they are a rollback's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.filegroup.partitions import is_metafile
from penstock.services.clean.retention import Policy
from penstock.timeline.instant import Action
from penstock.timeline.timeline import Timeline

#: (partition path, file id)
GroupId = tuple[str, str]


@dataclass(frozen=True)
class Keeping:
    """All that decides what stays."""

    policy: Policy
    timeline: Timeline
    #: The earliest commit whose files all stay.
    earliest: str | None = None
    #: Versions of a file group that stay, where the policy counts them.
    versions: int = 1
    #: File groups that replace commits took out of the table, and when.
    replaced: Mapping[GroupId, str] = field(default_factory=dict)
    #: Slices that plans need: those of a file group from this base instant on.
    needed: Mapping[GroupId, str] = field(default_factory=dict)
    #: Names of files that savepoints hold, by partition path.
    savepointed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def awaited(self) -> frozenset[str]:
        """Base instants of slices that a compaction, not done yet, is going to begin."""
        return frozenset(i.time for i in self.timeline.of(Action.COMPACTION) if not i.is_completed)

    @cached_property
    def replaced_lately(self) -> frozenset[str]:
        """Partitions that lost file groups to a replace commit which readers may still look behind."""
        since = self.earliest
        return frozenset(path for (path, _), time in self.replaced.items() if since is not None and time >= since)


@dataclass(frozen=True)
class PartitionPlan:
    """What goes of one partition."""

    files: tuple[str, ...] = ()
    #: Whether nothing is left of it, so that the partition itself goes.
    is_empty: bool = False


def plan_partition(path: str, names: Iterable[str], keeping: Keeping) -> PartitionPlan:
    """Decide what goes of a partition, from the names of all its files."""
    names = list(names)
    groups = _slices_by_group(names)
    held = keeping.savepointed.get(path, frozenset())
    going: list[str] = []
    rest = 0
    for file_id, slices in groups.items():
        counted = [t for t in sorted(slices, reverse=True) if t in keeping.awaited or keeping.timeline.is_visible(t)]
        old = [slices[t] for t in _old_slices((path, file_id), counted, keeping) if held.isdisjoint(slices[t])]
        going += (name for its in old for name in its)
        rest += sum(map(len, slices.values())) - sum(map(len, old))
    is_empty = rest == 0 and (bool(going) or all(map(is_metafile, names))) and path not in keeping.replaced_lately
    return PartitionPlan(tuple(sorted(going)), is_empty)


def _slices_by_group(names: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """File id → base instant → names of files, change data too."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in names:
        if base := parse_base_name(name):
            found.setdefault(base.file_id, {}).setdefault(base.instant, []).append(name)
        elif log := parse_log_name(name):
            found.setdefault(log.file_id, {}).setdefault(log.base_instant, []).append(name)
    return found


def _old_slices(group: GroupId, newest_first: list[str], keeping: Keeping) -> Iterator[str]:
    """The base instants of slices that go, unless a savepoint holds them."""
    replaced = keeping.replaced.get(group)
    if replaced is not None:
        if keeping.policy is Policy.VERSIONS or (keeping.earliest is not None and replaced < keeping.earliest):
            yield from (t for t in newest_first if not _is_needed(group, t, keeping))
        return
    if keeping.policy is Policy.VERSIONS:
        free = [t for t in newest_first if not _is_needed(group, t, keeping)]
        yield from free[keeping.versions - (group in keeping.needed) :]
        return
    earliest = keeping.earliest
    if earliest is None:
        return
    older = [t for t in newest_first[1:] if t < earliest]
    last_before = next((t for t in newest_first if t < earliest), None)
    yield from (t for t in older if t != last_before and not _is_needed(group, t, keeping))


def _is_needed(group: GroupId, time: str, keeping: Keeping) -> bool:
    since = keeping.needed.get(group)
    return since is not None and time >= since
