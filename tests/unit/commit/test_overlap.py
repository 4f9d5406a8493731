"""Which concurrent commits cannot both stand."""

from __future__ import annotations

import pytest

from penstock.commit.overlap import WriteSet
from penstock.options.operation import Operation
from penstock.timeline.commit_file import CommitMetadata, WriteStat


def commit(
    *stats: tuple[str, str, str], replaced: dict[str, tuple[str, ...]] | None = None, operation: Operation = Operation.UPSERT
) -> CommitMetadata:
    """Return a commit that wrote to (partition path, file id, commit before)."""
    return CommitMetadata(
        stats=tuple(WriteStat(file_id, path, f"{path}/{file_id}.parquet", prev_commit=before) for path, file_id, before in stats),
        operation=operation.stored,
        replaced=replaced,
    )


UPDATE = commit(("oslo", "g1", "10"))
OTHER_UPDATE = commit(("oslo", "g2", "10"))
CREATION = commit(("oslo", "g1", "null"))
NEW_GROUP = commit(("oslo", "n1", "null"))
ELSEWHERE = commit(("rome", "g9", "10"))
DELETED_PARTITION = commit(replaced={"oslo": ("g1",)}, operation=Operation.DELETE_PARTITION)
EMPTY_DELETED_PARTITION = commit(replaced={"oslo": ()}, operation=Operation.DELETE_PARTITION)
OVERWRITTEN_TABLE = commit(("rome", "n2", "null"), replaced={"rome": ("g9",)}, operation=Operation.INSERT_OVERWRITE_TABLE)
CLUSTERED = commit(("oslo", "n3", "null"), replaced={"oslo": ("g2",)}, operation=Operation.CLUSTER)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (UPDATE, UPDATE, "file group g1"),
        (UPDATE, OTHER_UPDATE, None),
        (UPDATE, CREATION, "file group g1"),
        (UPDATE, NEW_GROUP, None),
        (NEW_GROUP, NEW_GROUP, None),
        (UPDATE, ELSEWHERE, None),
        (NEW_GROUP, DELETED_PARTITION, "replaced partition 'oslo'"),
        (NEW_GROUP, EMPTY_DELETED_PARTITION, "replaced partition 'oslo'"),
        (ELSEWHERE, DELETED_PARTITION, None),
        (UPDATE, OVERWRITTEN_TABLE, "all rows of the table"),
        (NEW_GROUP, CLUSTERED, None),
        (OTHER_UPDATE, CLUSTERED, "file group g2"),
    ],
)
def test_a_pair_of_commits_conflicts_in_both_orders(first: CommitMetadata, second: CommitMetadata, reason: str | None) -> None:
    sets = [WriteSet.of(metadata, has_buckets=False) for metadata in (first, second)]
    for ours, theirs in (sets, sets[::-1]):
        overlap = ours.find_overlap(theirs)
        assert (overlap is None) is (reason is None)
        assert reason is None or reason in (overlap or "")


def test_two_commits_that_create_the_same_bucket_conflict() -> None:
    ours = WriteSet.of(commit(("oslo", "00000003-a", "null")), has_buckets=True)
    theirs = WriteSet.of(commit(("oslo", "00000003-b", "null")), has_buckets=True)
    assert "bucket 3 of partition 'oslo'" in (ours.find_overlap(theirs) or "")
    assert ours.find_overlap(WriteSet.of(commit(("rome", "00000003-b", "null")), has_buckets=True)) is None
