"""Decides which files of a partition a clean deletes, from file names, timeline and options alone. Nothing is read or deleted.

- The newest slice of a file group stays under every policy, unless the file group was replaced.
- Policies by commits and by hours: every slice from the earliest retained commit on stays, and the newest slice before that
  commit, which a query as of that commit reads.
- Policy by file versions: the newest `hoodie.cleaner.fileversions.retained` slices of a file group stay.
- Slices that a savepoint holds or that a pending plan names stay.
- A replaced file group is deleted as a whole once the replace commit is earlier than the earliest retained commit; under the
  policy by file versions, at once.
- Files of failed writes are ignored: a rollback deletes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.filegroup.model import GroupId
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.filegroup.partitions import is_metafile
from penstock.services.clean.retention import CleanPolicy
from penstock.timeline.instant import Action
from penstock.timeline.timeline import Timeline


@dataclass(frozen=True)
class RetentionRules:
    """The rules by which a clean keeps files: cleaning policy, timeline, replaced file groups, pending plans and savepoints."""

    policy: CleanPolicy
    timeline: Timeline
    #: Instant time of the earliest retained commit: all its files stay. None if there is no such commit.
    earliest: str | None = None
    #: How many slices of a file group stay under the policy by file versions.
    versions: int = 1
    #: File groups that were replaced, each with the instant time of the replace commit.
    replaced: Mapping[GroupId, str] = field(default_factory=dict)
    #: File groups that pending plans name, each with the base instant of the earliest slice that a plan needs.
    needed: Mapping[GroupId, str] = field(default_factory=dict)
    #: Names of files that savepoints hold, by partition path.
    savepointed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def pending_base_instants(self) -> frozenset[str]:
        """Instant times of pending compactions. A slice with one of them as base instant counts as committed.

        It holds the log files that were written since the compaction was planned, and no base file yet.
        """
        compactions = self.timeline.filter(Action.COMPACTION)
        return frozenset(instant.time for instant in compactions if not instant.is_completed)

    @cached_property
    def partitions_replaced_lately(self) -> frozenset[str]:
        """Paths of the partitions in which a retained commit (`earliest` or later) replaced file groups. The folders stay.

        Queries as of a commit before the replacement may still read the replaced file groups.
        """
        earliest = self.earliest
        if earliest is None:
            return frozenset()
        return frozenset(path for (path, _), replaced_at in self.replaced.items() if replaced_at >= earliest)

    def is_needed(self, group: GroupId, base_instant: str) -> bool:
        """Whether the slice of `group` with this base instant stays for a pending plan, which will read it or an earlier one."""
        since = self.needed.get(group)
        return since is not None and base_instant >= since


@dataclass(frozen=True)
class PartitionPlan:
    """What a clean deletes in one partition: files, by name, and the partition itself if no data file is left in it."""

    files: tuple[str, ...] = ()
    #: Whether no data file is left in the partition. Then the partition itself is deleted too.
    is_empty: bool = False


def plan_partition(path: str, names: Iterable[str], rules: RetentionRules) -> PartitionPlan:
    """Plan which files of one partition a clean deletes.

    Args:
        path: the partition path.
        names: the names of all files in the partition.
    """
    names = list(names)
    held = rules.savepointed.get(path, frozenset())
    to_delete: list[str] = []
    kept_files = 0
    for file_id, slices in _slices_by_group(names).items():
        old = set(_old_slices((path, file_id), _committed(slices, rules), rules))
        for base_instant, file_names in slices.items():
            # A savepoint that holds one file of a slice keeps the whole slice.
            if base_instant in old and held.isdisjoint(file_names):
                to_delete += file_names
            else:
                kept_files += len(file_names)
    had_only_metafiles = all(map(is_metafile, names))
    is_empty = kept_files == 0 and (bool(to_delete) or had_only_metafiles) and path not in rules.partitions_replaced_lately
    return PartitionPlan(tuple(sorted(to_delete)), is_empty)


def _slices_by_group(names: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Group the names of data files: file id → base instant → names. Log files of change data (CDC) are included."""
    groups: dict[str, dict[str, list[str]]] = {}
    for name in names:
        if base := parse_base_name(name):
            groups.setdefault(base.file_id, {}).setdefault(base.instant, []).append(name)
        elif log := parse_log_name(name):
            groups.setdefault(log.file_id, {}).setdefault(log.base_instant, []).append(name)
    return groups


def _committed(slices: Iterable[str], rules: RetentionRules) -> list[str]:
    """Return the base instants in `slices` that are those of completed commits or pending compactions, newest first.

    Slices with other base instants are of failed or pending writes.

    Args:
        slices: the base instants of the slices of a file group.
    """
    return [
        base_instant
        for base_instant in sorted(slices, reverse=True)
        if base_instant in rules.pending_base_instants or rules.timeline.is_visible(base_instant)
    ]


def _old_slices(group: GroupId, newest_first: Sequence[str], rules: RetentionRules) -> list[str]:
    """Return the base instants of the slices of a file group that a clean may delete if no savepoint holds their files.

    Slices that pending plans need always stay. What else stays:

    - of a replaced file group nothing; but everything if it was replaced at the earliest retained commit or later, unless the
      policy counts versions
    - under a policy that counts versions, as many of the newest slices as it says
    - under the other policies the newest slice, the slices from the earliest retained commit on, and the last slice before it

    Args:
        newest_first: base instants of the committed slices of the file group, newest first.
    """
    free = [base_instant for base_instant in newest_first if not rules.is_needed(group, base_instant)]
    replaced_at = rules.replaced.get(group)
    if replaced_at is not None:
        is_past = rules.earliest is not None and replaced_at < rules.earliest
        return free if is_past or rules.policy is CleanPolicy.VERSIONS else []
    if rules.policy is CleanPolicy.VERSIONS:
        # All slices that pending plans need count together as one of the versions that stay.
        return free[rules.versions - (group in rules.needed) :]
    earliest = rules.earliest
    if earliest is None:
        return []
    newest = newest_first[:1]
    last_before = next((base_instant for base_instant in newest_first if base_instant < earliest), None)
    kept = {*newest, last_before}
    return [base_instant for base_instant in free if base_instant < earliest and base_instant not in kept]
