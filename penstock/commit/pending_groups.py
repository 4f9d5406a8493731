"""The file groups that a pending write of another process changes: by its inflight file, and by its markers."""

from __future__ import annotations

from penstock.commit import markers
from penstock.commit.heartbeat import is_alive
from penstock.errors import CorruptFile
from penstock.filegroup.model import GroupId
from penstock.filegroup.names import parse_base_name, parse_log_name
from penstock.table.pending import load_clustering_plan
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata
from penstock.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from penstock.timeline.store import instant_path, read_metadata
from penstock.timeline.timeline import Timeline


def list_living_writes(table: TableState, timeline: Timeline) -> list[Instant]:
    """Return the pending writes whose writers are alive, oldest first. The plans of table services are not writes."""
    living = []
    for instant in timeline.pending:
        if instant.action not in WRITE_ACTIONS or not is_alive(table, instant.time):
            continue
        if instant.action is Action.REPLACE_COMMIT and load_clustering_plan(table, instant) is not None:
            continue
        living.append(instant)
    return living


def find_groups_of_write(table: TableState, instant: Instant) -> set[GroupId]:
    """Return the file groups that a write changes, replaces or creates, as far as it is known now.

    A pending write is known by the workload profile in its inflight file, and by the markers of its files. Of a write that is
    only requested nothing is known: it has not located its rows, or was withdrawn after a conflict.
    """
    if instant.state is State.REQUESTED:
        return set()
    groups = _groups_in_file(table, instant)
    if not instant.is_completed:
        groups |= find_announced_groups(table, instant.time)
    return groups


def find_announced_groups(table: TableState, time: str) -> set[GroupId]:
    """Return the file groups for which a write has created markers.

    Args:
        time: the instant time of the write.
    """
    groups: set[GroupId] = set()
    for marker in markers.read_markers(table.storage, table.base_path, time):
        path, _, name = marker.file_path.rpartition("/")
        parsed = parse_log_name(name) or parse_base_name(name)
        if parsed is not None:
            groups.add((path, parsed.file_id))
    return groups


def list_groups(metadata: CommitMetadata) -> set[GroupId]:
    """Return the file groups that commit metadata or a workload profile names: changed, created or replaced."""
    # A workload profile counts the rows of new file groups under an empty file id.
    groups = {(stat.partition_path or "", stat.file_id) for stat in metadata.stats if stat.file_id}
    for path, file_ids in (metadata.replaced or {}).items():
        groups.update((path, file_id) for file_id in file_ids)
    return groups


def _groups_in_file(table: TableState, instant: Instant) -> set[GroupId]:
    """Return the file groups that the commit file or inflight file of a write names; none if it is missing or has no content."""
    if table.storage.stat(instant_path(table.base_path, instant)) is None:
        return set()
    try:
        return list_groups(read_metadata(table.storage, table.base_path, instant))
    except (CorruptFile, FileNotFoundError):
        if instant.is_completed:
            raise
        return set()
