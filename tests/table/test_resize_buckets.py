"""Consistent hashing: clustering splits and merges buckets concurrently with writes, and no row is lost or doubled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import OptionError, Unsupported, WriteConflict
from penstock.index import load_buckets
from penstock.index.consistent_hashing import HashRings, Ring
from penstock.table.state import open_table
from tests.table.tables import OPERATION, snapshot, trips, write
from tests.table.upserts import DELETE, INDEX, UPSERT

RINGS = {
    **UPSERT,
    INDEX: "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
}
#: Every bucket is too large; or every one is small.
SPLIT = {"hoodie.parquet.max.file.size": "100", "hoodie.bucket.index.max.num.buckets": "4"}
JOIN = {"hoodie.bucket.index.min.num.buckets": "1"}
FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"


def make_trips(spark: Any, first: int, last: int, ts: int = 1) -> Any:
    return trips(spark, *((f"k{n}", "xy"[n % 2], ts, float(n)) for n in range(first, last)))


def ring_of(path: str, partition: str = "x") -> Ring:
    rings = load_buckets(open_table(path))
    assert isinstance(rings, HashRings)
    return rings.ring(partition)


def check(spark: Any, path: str, ts: dict[str, int]) -> None:
    """Check that the rows have these times, no key occurs twice, and each row is in the file group of its bucket."""
    assert {row[0]: row[2] for row in snapshot(spark, path)} == ts
    found = spark.read.format("hudi").load(path).select("_hoodie_record_key", "city", "_hoodie_file_name").collect()
    assert len(found) == len(ts)
    for key, city, name in found:
        ring = ring_of(path, city)
        hashes = HashRings(2, ("id",)).hashes(pa.array([key]))
        assert name.startswith(ring.prefixes[int(ring.numbers(hashes)[0])]), (key, name)


def test_writes_continue_after_buckets_are_split_and_merged(spark: Any, table_path: str) -> None:
    write(make_trips(spark, 0, 40), table_path, RINGS)
    write(make_trips(spark, 0, 10, ts=2), table_path, RINGS)
    table = penstock.Table.open(table_path, spark)
    expected = {f"k{n}": 2 if n < 10 else 1 for n in range(40)}

    (split,) = table.cluster(options=SPLIT)
    assert (split.operation, split.files_written) == ("cluster", 8)
    assert [len(ring_of(table_path, city).values) for city in "xy"] == [4, 4]
    check(spark, table_path, expected)
    assert table.cluster(options=SPLIT) == [], "there may be no more"

    write(make_trips(spark, 30, 50, ts=3), table_path, RINGS)
    expected |= {f"k{n}": 3 for n in range(30, 50)}
    write(trips(spark, ("k0", "x", 0, 0.0)), table_path, {**RINGS, **DELETE})
    del expected["k0"]
    check(spark, table_path, expected)
    assert [row.ts for row in table.read(equals={"id": "k31"}).collect()] == [3]
    assert table.read(as_of=table.history()[-1].instant, equals={"id": "k31"}).count() == 1, (
        "in the past there were other buckets"
    )

    (joined,) = table.cluster(options=JOIN)
    assert joined.files_written == 2
    assert [len(ring_of(table_path, city).values) for city in "xy"] == [1, 1]
    write(make_trips(spark, 0, 4, ts=4), table_path, {**RINGS, OPERATION: "insert"})
    expected |= {f"k{n}": 4 for n in range(4)}
    check(spark, table_path, expected)
    assert ring_of(table_path).changes == 2

    (sorted_,) = table.cluster(options={"hoodie.clustering.plan.strategy.sort.columns": "fare"})
    assert sorted_.files_written == 2
    assert [row.fare for row in table.read(partitions=["x"]).collect()] == sorted(float(n) for n in range(0, 50, 2))
    check(spark, table_path, expected)
    table.rollback(sorted_)
    assert ring_of(table_path).changes == 2
    check(spark, table_path, expected)


def test_a_write_during_a_pending_plan_is_refused_if_it_changes_a_bucket_of_the_plan(spark: Any, table_path: str) -> None:
    write(make_trips(spark, 0, 40), table_path, RINGS)
    table = penstock.Table.open(table_path, spark)
    plan = table.schedule_clustering(options={**SPLIT, "hoodie.clustering.plan.strategy.partition.selected": "x"})
    assert plan is not None
    assert (plan.file_groups, plan.new_files) == (2, 4)
    assert table.schedule_clustering(options={**SPLIT, "hoodie.clustering.plan.strategy.partition.selected": "x"}) is None
    with pytest.raises(WriteConflict, match="Not allowed to update the clustering file group"):
        write(trips(spark, ("k0", "x", 2, 0.0)), table_path, RINGS)
    write(trips(spark, ("k1", "y", 2, 1.0)), table_path, RINGS)  # of another partition
    expected = {f"k{n}": 2 if n == 1 else 1 for n in range(40)}
    (done,) = table.cluster(plan.instant)
    assert done.files_written == 4
    check(spark, table_path, expected)

    write(make_trips(spark, 0, 2, ts=3), table_path, RINGS)
    expected |= {"k0": 3, "k1": 3}
    given_up = table.schedule_clustering(options=JOIN)
    assert given_up is not None
    table.unschedule_clustering(given_up.instant)
    assert not list(Path(table_path, FOLDER).rglob(f"{given_up.instant}*"))
    write(make_trips(spark, 0, 2, ts=4), table_path, RINGS)
    expected |= {"k0": 4, "k1": 4}
    check(spark, table_path, expected)

    table.delete_partitions("x")
    assert [row[1] for row in snapshot(spark, table_path)] == ["y"] * 20
    write(trips(spark, ("k0", "x", 1, 0.0)), table_path, RINGS)
    check(spark, table_path, {key: ts for key, ts in expected.items() if int(key[1:]) % 2} | {"k0": 1})


def test_clustering_options_that_do_not_fit_buckets_are_refused(spark: Any, table_path: str, tmp_path: Path) -> None:
    plan, run = "hoodie.clustering.plan.strategy.class", "hoodie.clustering.execution.strategy.class"
    package = "org.apache.hudi.client.clustering"
    write(make_trips(spark, 0, 4), table_path, RINGS)
    rings = penstock.Table.open(table_path, spark)
    for option in (
        {plan: f"{package}.plan.strategy.SparkSizeBasedClusteringPlanStrategy"},
        {run: f"{package}.run.strategy.SparkSortAndSizeExecutionStrategy"},
    ):
        with pytest.raises(OptionError, match="whose buckets are parts of hash rings"):
            rings.cluster(options=option)

    fixed = str(tmp_path / "fixed")
    simple = {**RINGS, "hoodie.index.bucket.engine": "SIMPLE"}
    write(make_trips(spark, 0, 4), fixed, simple)
    with pytest.raises(Unsupported, match="has buckets .* Leave clustering out"):
        penstock.Table.open(fixed, spark).cluster()
    with pytest.raises(Unsupported, match="has buckets .* Leave clustering out"):
        write(make_trips(spark, 0, 4), fixed, {**simple, "hoodie.clustering.inline": "true"})

    plain = str(tmp_path / "plain")
    write(make_trips(spark, 0, 4), plain, UPSERT)
    with pytest.raises(OptionError, match="is for tables with hoodie.index.bucket.engine=CONSISTENT_HASHING"):
        penstock.Table.open(plain, spark).cluster(
            options={plan: f"{package}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"}
        )
    assert [len(snapshot(spark, path)) for path in (table_path, fixed, plain)] == [4, 4, 4]
