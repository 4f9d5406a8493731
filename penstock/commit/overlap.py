"""Optimistic concurrency control: compares a commit that is about to be published with the commits since it began.

`check_overlap` runs inside a transaction (`claims.py`), so that no commit comes between the check and the commit. The pairs of
commits that cannot both stand:

- both changed or replaced the same file group;
- one replaced a whole partition, or the table, and the other wrote to it;
- with the bucket index, both wrote to the same bucket, even if it is a new one;
- the earlier one changed the table's schema: the later one would publish the schema as it was before;
- a compaction or clustering was planned for a file group that this write changed without knowing of the plan.

A commit that this write has read counts as earlier, and so does the compaction of a plan that this write has respected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock import options as o
from penstock.errors import TableChanged, WriteConflict
from penstock.options.operation import Operation
from penstock.table.pending import find_pending_groups
from penstock.table.state import TableState, read_table_schema
from penstock.timeline.commit_file import CommitMetadata
from penstock.timeline.instant import Instant
from penstock.timeline.store import read_metadata
from penstock.timeline.timeline import Timeline

#: (partition path, file id) of a file group.
GroupId = tuple[str, str]

#: Operations that replace whole partitions: rows that a concurrent write adds to them would survive.
_REPLACES_PARTITIONS = (Operation.INSERT_OVERWRITE.stored, Operation.DELETE_PARTITION.stored)
_REPLACES_TABLE = Operation.INSERT_OVERWRITE_TABLE.stored
#: The key in the extra metadata of a commit of several writers: who has written it, as `user@host`.
WRITER = "penstock.writer"
#: The part of a file id that names the bucket.
BUCKET_DIGITS = 8


@dataclass(frozen=True)
class WriteSet:
    """The file groups, buckets and partitions that a commit changed. Two commits conflict if their write sets overlap."""

    #: File groups that existed before and that the commit changed or replaced.
    groups: frozenset[GroupId]
    #: All file groups that the commit wrote to, also those that it created.
    files: frozenset[GroupId]
    #: (partition path, bucket) of all files of the commit; empty without the bucket index.
    buckets: frozenset[GroupId]
    #: Paths of the partitions in which the commit wrote or replaced anything.
    partitions: frozenset[str]
    #: Paths of the partitions that the commit replaced as a whole.
    replaced_partitions: frozenset[str]
    replaces_table: bool

    @classmethod
    def of(cls, metadata: CommitMetadata, *, has_buckets: bool) -> WriteSet:
        """Return the write set of a commit.

        Args:
            has_buckets: whether the table has the bucket index. Then file ids begin with the number of the bucket.
        """
        groups: set[GroupId] = set()
        files: set[GroupId] = set()
        buckets: set[GroupId] = set()
        partitions = {path for path, stats in metadata.by_partition().items() if stats}
        for stat in metadata.stats:
            path = stat.partition_path or ""
            files.add((path, stat.file_id))
            if stat.prev_commit != "null":
                groups.add((path, stat.file_id))
            if has_buckets:
                buckets.add((path, stat.file_id[:BUCKET_DIGITS]))
        replaced = metadata.replaced or {}
        for path, file_ids in replaced.items():
            groups.update((path, file_id) for file_id in file_ids)
            if file_ids:
                partitions.add(path)
        replaces = metadata.operation in _REPLACES_PARTITIONS
        return cls(
            groups=frozenset(groups),
            files=frozenset(files | groups),
            buckets=frozenset(buckets),
            partitions=frozenset(partitions),
            replaced_partitions=frozenset(replaced) if replaces else frozenset(),
            replaces_table=metadata.operation == _REPLACES_TABLE,
        )

    def find_overlap(self, other: WriteSet) -> str | None:
        """Return in words what both this commit and `other` changed; None if both commits can stand."""
        # Also a group that one of them created: if the other, with an earlier instant, added to it, the added rows are hidden.
        groups = (self.groups & other.files) | (self.files & other.groups)
        if groups:
            path, file_id = min(groups)
            return f"both changed file group {file_id} of partition {path!r}"
        buckets = self.buckets & other.buckets
        if buckets:
            path, bucket = min(buckets)
            return f"both wrote to bucket {int(bucket) if bucket.isdecimal() else bucket} of partition {path!r}"
        replaced = (self.replaced_partitions & other.partitions) | (other.replaced_partitions & self.partitions)
        if replaced:
            return f"one of them replaced partition {min(replaced)!r}, to which the other wrote"
        if (self.replaces_table and other.partitions) or (other.replaces_table and self.partitions):
            return "one of them replaced all rows of the table"
        return None


@dataclass(frozen=True)
class ConcurrentCommit:
    """A commit that completed since the write that checks for conflicts was planned."""

    instant: Instant
    metadata: CommitMetadata

    def __str__(self) -> str:
        """Return the commit in words, for messages: operation, instant, and the user if the commit names one."""
        user = self.metadata.extra.get(WRITER)
        return f"{self.metadata.operation.lower()} {self.instant.time}{f' of {user}' if user else ''}"


def check_overlap(
    table: TableState,
    instant: Instant,
    metadata: CommitMetadata,
    planned_on: Timeline,
    timeline: Timeline,
    parsed: dict[str, ConcurrentCommit] | None = None,
) -> list[ConcurrentCommit]:
    """Raise WriteConflict if a concurrent commit or plan conflicts with a commit that is about to be published.

    Args:
        table: the table, with the options of this write.
        instant: the instant of this write.
        metadata: the commit that is about to be published.
        planned_on: the timeline on which this write planned its tasks.
        timeline: the timeline now.
        parsed: the commits that were parsed before, by instant time; those that are parsed now are added.

    Returns:
        The concurrent commits, none of which conflicts by its files. They may still have inserted the same new keys.
    """
    commits = _find_concurrent_commits(table, instant, planned_on, timeline, {} if parsed is None else parsed)
    if not commits and not _has_unknown_plans(instant, planned_on, timeline):
        return []  # the lock is held: a write of many files saves the time to compare them with nothing
    has_buckets = table.options[o.INDEX_TYPE].upper() == "BUCKET"
    ours = WriteSet.of(metadata, has_buckets=has_buckets)
    for commit in commits:
        theirs = WriteSet.of(commit.metadata, has_buckets=has_buckets)
        overlap = ours.find_overlap(theirs)
        if overlap is not None:
            raise WriteConflict(_describe_conflict(table, instant, commit, overlap), other_instant=commit.instant.time)
    _check_plans(table, instant, ours, planned_on, timeline)
    return commits


def _find_concurrent_commits(
    table: TableState, instant: Instant, planned_on: Timeline, timeline: Timeline, parsed: dict[str, ConcurrentCommit]
) -> list[ConcurrentCommit]:
    """Return the commits that completed since the write was planned, oldest first.

    A commit with a later instant than this write counts even if this write has read it: readers take the file with the later
    instant in its name.

    Args:
        instant: the instant of this write.
        planned_on: the timeline on which the tasks of this write were planned.
        timeline: the timeline as it is now.
        parsed: the commits that were parsed before, by instant time; those that are parsed now are added.
    """
    earlier = {i.time for i in planned_on.writes if i.time < instant.time}
    known_plans = planned_on.pending_times
    commits = []
    for other in timeline.writes:
        if other.time in earlier or other.time == instant.time:
            continue
        if other.time not in parsed:
            parsed[other.time] = ConcurrentCommit(other, read_metadata(table.storage, table.base_path, other))
        commit = parsed[other.time]
        if commit.metadata.compacted and other.time < instant.time and other.time in known_plans:
            continue  # this write put its log files on top of the slice that the compaction made
        commits.append(commit)
    return commits


def check_schema(table: TableState, instant: Instant, prepared_for: str | None, metadata: CommitMetadata) -> None:
    """Raise TableChanged if the table has another schema now than the one for which the rows of this write were prepared.

    Args:
        table: the table, with the timeline as it is now.
        instant: the instant of this write.
        prepared_for: the table's schema for which the rows were prepared, as JSON; None: the table had none.
        metadata: the commit that is about to be published.
    """
    now = read_table_schema(table)
    if now is None or (prepared_for is not None and _same_schema(now, prepared_for)):
        return
    if metadata.schema is not None and _same_schema(now, metadata.schema):
        return  # both made the same change
    raise TableChanged(
        f"another write changed the schema of {table.base_path} while write {instant.time} was under way. Run the write again"
    )


def _same_schema(first: str, second: str) -> bool:
    """Whether two Avro schemas, as JSON, are equal."""
    if first == second:
        return True
    parsed: Sequence[object] = [json.loads(first), json.loads(second)]
    return bool(parsed[0] == parsed[1])


def _has_unknown_plans(instant: Instant, planned_on: Timeline, timeline: Timeline) -> bool:
    """Whether an instant is pending that this write did not know of when it was planned, or that is later than this write.

    Args:
        instant: the instant of this write.
        planned_on: the timeline on which this write planned its tasks.
        timeline: the timeline now.
    """
    known = {i.time for i in planned_on.instants} | {instant.time}
    return any(i.time not in known or i.time > instant.time for i in timeline.pending)


def _check_plans(table: TableState, instant: Instant, ours: WriteSet, planned_on: Timeline, timeline: Timeline) -> None:
    """Raise WriteConflict if a plan that this write did not know of includes a file group that this write changed.

    Args:
        planned_on: the timeline on which the tasks of the write were planned.
        timeline: the timeline as it is now.
    """
    if not _has_unknown_plans(instant, planned_on, timeline):
        return
    known = {i.time for i in planned_on.instants}
    owned: Mapping[GroupId, str] = find_pending_groups(replace(table, timeline=timeline))
    for group in sorted(ours.groups):
        plan = owned.get(group)
        # A write ignores plans with a later instant, even if it knew of them: the planner expects it to lose.
        if plan is not None and (plan not in known or plan > instant.time):
            path, file_id = group
            raise WriteConflict(
                f"write {instant.time} of {table.base_path} lost to the table service planned at {plan}: both change file group "
                f"{file_id} of partition {path!r}. Run the write again, or let it do so: set {o.CONFLICT_RETRIES.key}",
                other_instant=plan,
            )


def _describe_conflict(table: TableState, instant: Instant, commit: ConcurrentCommit, overlap: str) -> str:
    """Return the message of a WriteConflict: which commit won, what it did, what both changed, and what to do."""
    return (
        f"write {instant.time} of {table.base_path} lost to {commit}, which "
        f"completed first: {overlap}. Run the write again, or let it do so: set {o.CONFLICT_RETRIES.key}"
    )
