"""Plans that split and merge buckets: the chosen buckets, the new ring, and what is refused."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptFile, WriteConflict
from penstock.filegroup.model import BaseFile, FileSlice
from penstock.index.consistent_hashing import HashRings, Ring, Tag, default_ring
from penstock.options import read_options
from penstock.services.clustering.resize_buckets import BucketLimits, changed_rings, is_resize, limits_of, resize_groups
from penstock.timeline.clustering_plan import ClusteringGroup, ClusteringPlan, read_clustering_plan, write_clustering_plan

RING = default_ring("x", 4)
LIMITS = BucketLimits(split_bytes=100, join_bytes=10, most=8, least=1)
KEYS = pa.array([f"k{n}" for n in range(2_000)])


def slices(*sizes: int | None, ring: Ring = RING) -> list[FileSlice]:
    """A slice for each part of the ring that has a size, in an order of no meaning."""
    found = []
    for prefix, size in zip(ring.prefixes, sizes, strict=True):
        if size is not None:
            file_id = f"{prefix}-0"
            found.append(FileSlice("x", file_id, "001", BaseFile(f"/t/x/{file_id}_0-0-0_001.parquet", file_id, "001", size)))
    return found[::-1]


def planned(*sizes: int | None, limits: BucketLimits = LIMITS) -> ClusteringPlan:
    return ClusteringPlan(tuple(resize_groups(slices(*sizes), RING, limits)))


def after(plan: ClusteringPlan) -> Ring:
    return changed_rings(plan, HashRings(4, ("id",), {"x": RING}), "002")["x"]


def buckets_of(group: ClusteringGroup) -> list[int | None]:
    return [RING.number_of(one.file_id) for one in group.slices]


def test_a_large_bucket_is_split_into_two_of_equal_size() -> None:
    plan = planned(50, 101, 50, 50)
    (group,) = plan.groups
    assert (buckets_of(group), group.outputs) == ([1], 2)
    ring = after(plan)
    assert len(ring.values) == 5
    assert set(RING.values) < set(ring.values)
    assert (ring.changes, ring.first_count) == (1, 4)
    assert set(RING.prefixes) - set(ring.prefixes) == {RING.prefixes[1]}
    assert ring.values[1] == (RING.values[0] + RING.values[1]) // 2

    before, now = (HashRings(4, ("id",), {"x": one}).numbers(KEYS, "x") for one in (RING, ring))
    assert set(now[before == 1].tolist()) == {1, 2}
    assert (np.where(now > 1, now - 1, now) == before).all(), "no other key has moved"


def test_small_neighbours_are_merged_unless_a_large_bucket_is_between_them() -> None:
    plan = planned(5, 4, 50, 3)
    (group,) = plan.groups
    assert (buckets_of(group), group.outputs) == ([0, 1], 1)
    ring = after(plan)
    assert ring.values == RING.values[1:]
    assert ring.prefixes[1:] == RING.prefixes[2:]
    assert [buckets_of(one) for one in planned(5, None, 5, 5).groups] == [[2, 3]], "an empty bucket has no file to join"
    assert [buckets_of(one) for one in planned(6, 6, 6, 6).groups] == [[0, 1], [2, 3]], "what is joined stays small"


def test_the_number_of_buckets_stays_within_its_bounds() -> None:
    assert len(planned(200, 200, 200, 200, limits=BucketLimits(100, 10, most=6, least=4)).groups) == 2
    assert planned(200, 1, 1, 200, limits=BucketLimits(100, 10, most=4, least=4)).groups == ()
    assert [buckets_of(one) for one in planned(1, 1, 1, 1, limits=BucketLimits(100, 10, most=4, least=2)).groups] == [[0, 1, 2]]
    both = planned(200, 1, 1, 50, limits=BucketLimits(100, 10, most=5, least=4))
    assert [buckets_of(one) for one in both.groups] == [[0], [1, 2]], "a split makes room for a join"


def test_unchanged_buckets_are_rewritten_only_to_be_sorted() -> None:
    assert planned(50, 50, 50, 50).groups == ()
    plan = planned(50, 50, None, 50, limits=BucketLimits(100, 10, 8, 1, sorts=True))
    assert [buckets_of(one) for one in plan.groups] == [[0], [1], [3]]
    ring = after(plan)
    assert ring.values == RING.values
    assert ring.prefixes[2] == RING.prefixes[2]
    assert len(set(ring.prefixes) & set(RING.prefixes)) == 1


def test_a_ring_of_one_part_can_be_split_and_one_of_one_value_cannot() -> None:
    ring = default_ring("", 1)
    for _ in range(5):
        nodes = ring.split_bucket(0)
        assert nodes is not None
        ring = ring.apply(nodes)
    assert list(ring.values) == sorted(set(ring.values))
    assert all(b - a > 1 for a, b in pairwise(ring.values))
    assert Ring((5, 6), ("a", "b")).split_bucket(1) is None


def test_a_plan_describes_the_new_buckets_in_hudis_form() -> None:
    plan = planned(5, 4, 200, 50)
    content = write_clustering_plan(plan, "/t")
    found = read_clustering_plan(content, "002")
    assert found is not None
    assert is_resize(found)
    assert not is_resize(ClusteringPlan((ClusteringGroup(()),)))
    split, joined = (group.extra for group in found.groups)
    assert (split["clustering.group.partition"], split["clustering.group.sequence.no"]) == ("x", "0")
    assert [node["tag"] for node in json.loads(split["clustering.group.child.node"])] == ["REPLACE", "REPLACE"]
    first, second = json.loads(joined["clustering.group.child.node"])
    assert first == {"value": RING.values[0], "fileIdPrefix": None, "tag": "DELETE"}
    assert (second["value"], second["tag"]) == (RING.values[1], Tag.REPLACE.value)


def test_a_plan_without_ranges_or_for_a_ring_that_changed_since_is_refused() -> None:
    plan = planned(200, 50, 50, 50)
    with pytest.raises(WriteConflict, match="split or joined since clustering 002 was planned"):
        changed_rings(plan, HashRings(4, ("id",), {"x": RING.renew()}), "002")
    torn = ClusteringPlan((ClusteringGroup((), extra={"clustering.group.partition": "x"}),))
    with pytest.raises(CorruptFile, match="clustering plan 002 does not say what becomes of buckets"):
        changed_rings(torn, HashRings(4, ("id",), {"x": RING}), "002")


def test_limits_are_shares_of_the_largest_file_and_the_first_number_of_buckets_is_always_allowed() -> None:
    size = {"hoodie.parquet.max.file.size": "1000"}
    assert limits_of(read_options(size), 4) == BucketLimits(2_000, 200, 4, 4)
    limits = {
        **size,
        "hoodie.bucket.index.split.threshold": "1.5",
        "hoodie.bucket.index.merge.threshold": "0.5",
        "hoodie.bucket.index.max.num.buckets": "16",
        "hoodie.bucket.index.min.num.buckets": "2",
    }
    assert limits_of(read_options(limits), 4) == BucketLimits(1_500, 500, 16, 2)
    contrary = {**limits, "hoodie.bucket.index.max.num.buckets": "3", "hoodie.bucket.index.min.num.buckets": "9"}
    assert limits_of(read_options(contrary), 4) == BucketLimits(1_500, 500, 4, 4)
