"""Which partitions a sync looks at, by the commits since the last one."""

from __future__ import annotations

import uuid
from dataclasses import replace

from penstock.options import Options
from penstock.options.operation import Operation
from penstock.storage import join
from penstock.storage.memory import MemoryStorage
from penstock.sync.changes import PartitionChanges, SyncedState, SyncPoint, find_changes, load_synced_state
from penstock.table.config import TableConfig
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat, write_commit

TIMES = [f"2024030900000{number}000" for number in range(6)]


def table_with(*commits: tuple[str, CommitMetadata]) -> SyncedState:
    """Return a table in memory with these completed commits; replace commits for those that replace file groups."""
    storage = MemoryStorage(uuid.uuid4().hex)
    for time, commit in commits:
        action = "commit" if commit.replaced is None else "replacecommit"
        for suffix in ("", ".requested"):
            storage.write_new(join("/table/.hoodie", f"{time}.{action}{suffix}"), write_commit(commit))
        for path in commit.by_partition():
            storage.replace(join("/table", path, ".hoodie_partition_metadata"), b"")
    state = TableState(storage, "/table", TableConfig({"hoodie.table.name": "t"}), Options({}))
    return load_synced_state(state)


def writes(*paths: str) -> CommitMetadata:
    return CommitMetadata(stats=tuple(WriteStat("f", path, f"{path}/f.parquet") for path in paths), operation="UPSERT")


def deletes(*paths: str) -> CommitMetadata:
    replaced = dict.fromkeys(paths, ("f",))
    return CommitMetadata(operation=Operation.DELETE_PARTITION.stored, replaced=replaced, partitions=paths)


def test_the_first_sync_lists_the_table() -> None:
    state = table_with((TIMES[0], writes("a")), (TIMES[1], writes("b")))
    assert find_changes(state, SyncPoint()) == PartitionChanges(("a", "b"), is_full=True)
    assert state.point.commit == TIMES[1]


def test_a_later_sync_takes_the_partitions_of_later_commits() -> None:
    state = table_with((TIMES[0], writes("a")), (TIMES[1], writes("b")), (TIMES[2], writes("c", "a")))
    assert find_changes(state, SyncPoint(TIMES[1])) == PartitionChanges(("c", "a"))
    assert find_changes(state, SyncPoint(TIMES[2])) == PartitionChanges()
    assert find_changes(state, SyncPoint(TIMES[2]), incremental=False).is_full


def test_a_commit_that_is_not_on_the_timeline_means_a_full_comparison() -> None:
    state = table_with((TIMES[1], writes("a")), (TIMES[3], writes("b")))
    assert find_changes(state, SyncPoint(TIMES[0])).is_full  # archived
    assert find_changes(state, SyncPoint(TIMES[2])).is_full  # restored to an earlier commit
    assert find_changes(state, SyncPoint(TIMES[4])).is_full


def test_a_slow_writer_that_began_earlier_is_not_missed() -> None:
    state = table_with((TIMES[0], writes("a")), (TIMES[1], writes("slow")), (TIMES[2], writes("b")))
    names = {f"{TIMES[0]}.commit": "20240309000010000", f"{TIMES[2]}.commit": "20240309000020000"}
    state = replace(state, completed_at={**names, f"{TIMES[1]}.commit": "20240309000030000"})
    assert find_changes(state, SyncPoint(TIMES[2], "20240309000020000")) == PartitionChanges(("slow",))
    assert find_changes(state, SyncPoint(TIMES[2], "20240309000030000")) == PartitionChanges()


def test_a_deleted_partition_is_dropped_unless_it_was_written_again() -> None:
    commits = [(TIMES[0], writes("a", "b", "c")), (TIMES[1], deletes("a", "b")), (TIMES[2], writes("b"))]
    assert find_changes(table_with(*commits), SyncPoint(TIMES[0])) == PartitionChanges(("b",), ("a",))


def test_a_full_comparison_leaves_out_deleted_partitions_that_are_not_cleaned_yet() -> None:
    commits = [(TIMES[0], writes("a", "b", "c")), (TIMES[1], deletes("a", "b")), (TIMES[2], writes("b"))]
    found = find_changes(table_with(*commits), SyncPoint())
    assert (sorted(found.written), found.dropped, found.is_full) == (["b", "c"], ("a",), True)
