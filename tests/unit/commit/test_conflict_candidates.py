"""Which instants a commit is compared with when it is published, and what counts as a conflict: Hudi's table, row by row.

Where Penstock is stricter than Hudi the test says so.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from penstock.commit.heartbeat import Heartbeat
from penstock.commit.overlap import check_overlap
from penstock.errors import WriteConflict
from penstock.options import read_options
from penstock.options.operation import Operation
from penstock.services.preferred_writers import (
    find_groups_of_writers,
    find_preferred_write,
    find_write_without_groups,
)
from penstock.storage import MemoryStorage
from penstock.table.config import TableConfig
from penstock.table.state import TableState, reload_timeline
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan, ClusteringSlice, write_clustering_plan
from penstock.timeline.commit_file import CommitMetadata, WriteStat, make_workload_profile, write_commit
from penstock.timeline.compaction_plan import CompactionOperation, CompactionPlan, write_compaction_plan
from penstock.timeline.instant import Action, Instant, State

SIMPLE = "org.apache.hudi.client.transaction.SimpleConcurrentFileWritesConflictResolutionStrategy"
PREFER_WRITER = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
BUCKET = "org.apache.hudi.client.transaction.BucketIndexConcurrentFileWritesConflictResolutionStrategy"
OURS = Instant("50", Action.DELTA_COMMIT, State.INFLIGHT)
SHARED = ("oslo", "g1")


def make_table(strategy: str = SIMPLE, **more: str) -> TableState:
    options = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "penstock.lock": "storage",
        "hoodie.write.lock.conflict.resolution.strategy": strategy,
        **more,
    }
    table = TableState(MemoryStorage(uuid.uuid4().hex), "/t", TableConfig({"hoodie.table.name": "t"}), read_options(options))
    put(table, "10.deltacommit", write_commit(metadata(("oslo", "g0", "null"))))
    return reload_timeline(table)


def put(table: TableState, name: str, content: bytes = b"") -> None:
    table.storage.write_new(f"/t/.hoodie/{name}", content)


def metadata(
    *stats: tuple[str, str, str],
    operation: Operation = Operation.UPSERT,
    replaced: dict[str, tuple[str, ...]] | None = None,
    compacted: bool = False,
) -> CommitMetadata:
    """Return a commit that wrote to (partition path, file id, commit before)."""
    written = [WriteStat(file_id, path, f"{path}/{file_id}.parquet", prev_commit=before) for path, file_id, before in stats]
    return CommitMetadata(tuple(written), operation.stored, replaced=replaced, compacted=compacted)


def compaction_plan(*groups: tuple[str, str]) -> bytes:
    operations = [CompactionOperation(path, file_id, "10", None, ()) for path, file_id in groups]
    return write_compaction_plan(CompactionPlan(tuple(operations)))


def clustering_plan(*groups: tuple[str, str]) -> bytes:
    slices = tuple(ClusteringSlice(path, file_id, None, ()) for path, file_id in groups)
    return write_clustering_plan(ClusteringPlan((ClusteringGroup(slices, 1),)), "/t")


UPDATE = metadata(("oslo", "g1", "10"))
CREATION = metadata(("oslo", "n1", "null"))
CLUSTERED = metadata(("oslo", "n2", "null"), operation=Operation.CLUSTER, replaced={"oslo": ("g1",)})
OVERWRITTEN = metadata(("oslo", "n3", "null"), operation=Operation.INSERT_OVERWRITE, replaced={"oslo": ("g1",)})
DROPPED = metadata(operation=Operation.DELETE_PARTITION, replaced={"oslo": ("g1",)})
COMPACTED = metadata(("oslo", "g1", "10"), operation=Operation.COMPACT, compacted=True)


@pytest.mark.parametrize(
    ("before", "after", "ours", "conflicts"),
    [
        # Completed commits after the last one that the write has seen are candidates, whenever they began.
        ({}, {"40.deltacommit": UPDATE}, UPDATE, True),
        ({}, {"60.deltacommit": UPDATE}, UPDATE, True),
        ({"40.deltacommit": UPDATE}, {}, UPDATE, False),
        # Instants that were pending when the write began, and are completed now.
        ({"40.deltacommit.inflight": None}, {"40.deltacommit": UPDATE}, UPDATE, True),
        ({"40.deltacommit.inflight": None}, {}, UPDATE, False),
        # Pending plans that are later than the write: the operations of a compaction, the input of a clustering.
        ({}, {"60.compaction.requested": compaction_plan(SHARED)}, UPDATE, True),
        ({}, {"60.compaction.requested": compaction_plan(("oslo", "g2"))}, UPDATE, False),
        ({}, {"60.replacecommit.requested": clustering_plan(SHARED)}, UPDATE, True),
        ({}, {"60.replacecommit.requested": clustering_plan(("oslo", "g2"))}, UPDATE, False),
        ({"40.compaction.requested": compaction_plan(SHARED)}, {}, UPDATE, False),
        # The replaced file ids of clusterings and overwrites count.
        ({}, {"40.replacecommit": CLUSTERED}, UPDATE, True),
        ({}, {"40.replacecommit": OVERWRITTEN}, UPDATE, True),
        ({}, {"40.deltacommit": UPDATE}, OVERWRITTEN, True),
        # Inserts into new file groups never conflict by file group; two writers that fill the same small file do.
        ({}, {"40.deltacommit": metadata(("oslo", "n2", "null"))}, CREATION, False),
        (
            {},
            {"40.deltacommit": metadata(("oslo", "g1", "10"))},
            metadata(("oslo", "g1", "10"), operation=Operation.INSERT),
            True,
        ),
        # An earlier compaction whose plan the write knew: the write's log files are on top of it.
        (
            {"40.compaction.inflight": None, "40.compaction.requested": compaction_plan(SHARED)},
            {"40.commit": COMPACTED},
            UPDATE,
            False,
        ),
        ({}, {"40.commit": COMPACTED}, UPDATE, True),
        # Hudi does not notice these: a delete_partition or an overwrite next to inserts into the partition.
        ({}, {"40.replacecommit": DROPPED}, CREATION, True),
        ({}, {"40.deltacommit": CREATION}, DROPPED, True),
        ({}, {"40.deltacommit": UPDATE}, DROPPED, True),
    ],
)
@pytest.mark.parametrize("strategy", [SIMPLE, PREFER_WRITER])
def test_candidates_and_conflicts(
    strategy: str,
    before: dict[str, CommitMetadata | bytes | None],
    after: dict[str, CommitMetadata | bytes | None],
    ours: CommitMetadata,
    conflicts: bool,
) -> None:
    table = make_table(strategy)
    put(table, OURS.file_name)
    for files in (before, after):
        for name, content in files.items():
            put(table, name, write_commit(content) if isinstance(content, CommitMetadata) else content or b"")
        if files is before:
            planned_on = reload_timeline(table).timeline
    timeline = reload_timeline(table).timeline
    if not conflicts:
        check_overlap(table, OURS, ours, planned_on, timeline)
        return
    with pytest.raises(WriteConflict) as raised:
        check_overlap(table, OURS, ours, planned_on, timeline)
    assert raised.value.other_instant in {name.partition(".")[0] for name in after}


@pytest.mark.parametrize("commits_before", [0, 200])
def test_the_check_reads_the_commits_since_the_write_was_planned_and_no_others(
    monkeypatch: pytest.MonkeyPatch, commits_before: int
) -> None:
    table = make_table()
    for number in range(commits_before):
        put(table, f"2{number:03}.deltacommit", write_commit(metadata(("rome", f"r{number}", "10"))))
    planned_on = reload_timeline(table).timeline
    new = [f"4{number}.deltacommit" for number in range(3)]
    for name in new:
        put(table, name, write_commit(metadata(("oslo", name, "10"))))
    timeline = reload_timeline(table).timeline
    read: list[str] = []
    real = MemoryStorage.read

    def note(storage: MemoryStorage, path: str) -> bytes:
        read.append(path.rpartition("/")[2])
        return real(storage, path)

    monkeypatch.setattr(MemoryStorage, "read", note)
    check_overlap(table, replace(OURS, time="500"), UPDATE, planned_on, timeline)
    assert read == new


@pytest.mark.parametrize("strategy", [BUCKET, SIMPLE])
def test_two_writers_that_create_one_bucket_conflict_with_either_strategy(strategy: str) -> None:
    table = make_table(strategy, **{"hoodie.index.type": "BUCKET"})
    put(table, "40.deltacommit", write_commit(metadata(("oslo", "00000003-a", "null"))))
    with pytest.raises(WriteConflict, match="bucket 3 of partition 'oslo'"):
        check_overlap(table, OURS, metadata(("oslo", "00000003-b", "null")), table.timeline, reload_timeline(table).timeline)


def begin_write(table: TableState, time: str, *groups: tuple[str, str], state: State = State.INFLIGHT) -> None:
    """Put the files of a living writer that is about to update file groups."""
    heartbeat = Heartbeat(table)
    heartbeat.announce(time)
    profile = make_workload_profile(Operation.UPSERT, {}, [(path, file_id, "10", 1) for path, file_id in groups])
    put(table, f"{time}.deltacommit.requested")
    if state is State.INFLIGHT:
        put(table, f"{time}.deltacommit.inflight", write_commit(profile, profile=True))


@pytest.mark.parametrize(
    ("plan", "write_time", "gives_way"),
    [
        (Action.REPLACE_COMMIT, "40", True),
        (Action.REPLACE_COMMIT, "60", True),
        (Action.COMPACTION, "40", True),
        # Its log files are on top of the compaction.
        (Action.COMPACTION, "60", False),
        # A log compaction goes on.
        (Action.LOG_COMPACTION, "40", False),
    ],
)
@pytest.mark.parametrize("strategy", [PREFER_WRITER, SIMPLE])
def test_a_service_gives_way_to_a_pending_write(strategy: str, plan: Action, write_time: str, gives_way: bool) -> None:
    table = make_table(strategy)
    begin_write(table, write_time, SHARED)
    found = find_preferred_write(table, Instant("50", plan, State.INFLIGHT), {SHARED})
    assert (found is not None) == (gives_way and strategy == PREFER_WRITER)
    assert find_preferred_write(table, Instant("50", plan, State.INFLIGHT), {("oslo", "g2")}) is None


def test_a_dead_writer_stops_no_service() -> None:
    table = make_table(PREFER_WRITER)
    begin_write(table, "40", SHARED)
    table.storage.delete("/t/.hoodie/.heartbeat/40")
    assert find_preferred_write(table, Instant("50", Action.REPLACE_COMMIT, State.INFLIGHT), {SHARED}) is None


@pytest.mark.parametrize("strategy", [PREFER_WRITER, SIMPLE])
def test_plans_leave_out_what_writers_change(strategy: str) -> None:
    table = make_table(strategy)
    begin_write(table, "40", SHARED)
    now = reload_timeline(table)
    assert find_groups_of_writers(now) == ({SHARED} if strategy == PREFER_WRITER else set())
    assert find_write_without_groups(now) is None
    begin_write(table, "41", state=State.REQUESTED)
    unknown = find_write_without_groups(replace(now, timeline=reload_timeline(table).timeline))
    assert (unknown.time if unknown else None) == ("41" if strategy == PREFER_WRITER else None)
