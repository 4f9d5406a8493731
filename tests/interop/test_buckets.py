"""Tables with buckets and growing bloom filters, written by Penstock and real Hudi in turn: each key is in its bucket, filters are equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.formats.bloom import BloomFilter
from penstock.index import load_buckets
from penstock.index.consistent_hashing import HashRings, default_ring, ring_text
from penstock.table.state import open_table
from tests.interop.sides import (
    INDEX,
    OPERATION,
    SMALL_FILTERS,
    TRIPS_AND_METADATA,
    Penstock,
    assert_all_read,
    assert_same_files,
)
from tests.kit.oracle import Oracle

BUCKET = {**TRIPS_AND_METADATA, **SMALL_FILTERS, INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
RINGS = {**BUCKET, "hoodie.index.bucket.engine": "CONSISTENT_HASHING", "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
#: Plain keys that the bucket index takes apart, and some that it does not.
KEYS = [*(f"k{n}" for n in range(40)), "a,b", "a,", "k:1", "id:7,x", "é", "😀", "id:__null__"]


def rows(first: int, last: int, ts: int) -> pa.Table:
    keys = KEYS[first:last]
    cities = ["x" if at % 3 else "y/z" for at in range(len(keys))]
    return pa.table(
        {
            "id": keys,
            "city": cities,
            "ts": pa.array([ts] * len(keys), pa.int64()),
            "fare": [float(ts + at) for at in range(len(keys))],
        }
    )


def write(who: Any, path: Path, table: pa.Table, options: dict[str, str], operation: str = "upsert") -> None:
    who.write(path, table, {**options, OPERATION: operation})


def keys_and_groups(found: pa.Table) -> dict[tuple[str, str], str]:
    """Return the file group of every key and partition. No key occurs twice."""
    columns = found.select(["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]).to_pylist()
    groups = {(r["_hoodie_record_key"], r["_hoodie_partition_path"]): r["_hoodie_file_name"][:38] for r in columns}
    assert len(groups) == found.num_rows
    return groups


def test_a_table_with_a_fixed_number_of_buckets_is_written_by_both_engines_in_turn(
    us: Penstock, hudi015: Oracle, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    write(hudi015, path, rows(0, 47, 1), BUCKET)
    placed = keys_and_groups(hudi015.read(path))
    assert len(set(placed.values())) == 6
    assert_filters_are_ours(path)

    write(us, path, rows(0, 47, 2), BUCKET)  # were a key looked for elsewhere, it would be there twice
    assert keys_and_groups(us.read(path)) == placed
    write(us, path, rows(44, 46, 3), BUCKET, "delete")
    write(hudi015, path, rows(20, 47, 4), BUCKET)
    found = assert_all_read(path, us, hudi015)
    assert_same_files(path, hudi015)
    assert len(set(keys_and_groups(found).values())) == 6


def assert_filters_are_ours(path: Path) -> None:
    """Assert that Penstock's bloom filters of the same keys are equal to Hudi's, also past the size they were made for."""
    for file in path.rglob("*.parquet"):
        parquet = pq.ParquetFile(file)
        footer = parquet.metadata.metadata
        keys = parquet.read(["_hoodie_record_key"])["_hoodie_record_key"].cast(pa.string())
        made = BloomFilter.create("DYNAMIC_V0", 4, 0.000000001, 16)
        made.add(keys)
        assert made.to_text().encode() == footer[b"org.apache.hudi.bloomfilter"], file.name
        assert footer[b"hoodie_bloom_filter_type_code"] == b"DYNAMIC_V0"


def test_a_table_with_a_hash_ring_is_written_by_both_engines_in_turn(us: Penstock, hudi015: Oracle, tmp_path: Path) -> None:
    path, folder = tmp_path / "table", ".hoodie/.bucket_index/consistent_hashing_metadata"
    write(us, path, rows(0, 40, 1), RINGS)
    write(hudi015, path, rows(0, 47, 2), RINGS)
    write(us, path, rows(30, 47, 3), RINGS)
    found = assert_all_read(path, us, hudi015, hudi_rs=False)
    keys_and_groups(found)
    other = rows(0, 9, 4).set_column(1, "city", pa.array(["w"] * 9))
    write(hudi015, path, other, RINGS, "bulk_insert")
    assert (path / folder / "w" / "00000000000000.hashing_meta").read_text() == ring_text("w", default_ring("w", 3))
    write(us, path, other, RINGS)
    assert us.read(path).num_rows == found.num_rows + 9


#: Every bucket is too large, and may become two.
SPLIT = {"hoodie.parquet.max.file.size": "100", "hoodie.bucket.index.max.num.buckets": "6"}
FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"


def test_each_engine_keeps_buckets_that_the_other_split_or_merged(us: Penstock, hudi015: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "table"
    options = {**RINGS, "hoodie.metadata.enable": "false", "hoodie.compact.inline": "false"}
    write(us, path, rows(0, 40, 1), options)
    (ours,) = penstock.Table.open(str(path), us.spark).cluster(options=SPLIT)
    write(hudi015, path, rows(0, 47, 2), options)  # were a key looked for elsewhere, it would be there twice
    placed = keys_and_groups(assert_all_read(path, us, hudi015, hudi_rs=False))
    assert len(placed) == 47
    assert len(json.loads((path / FOLDER / "x" / f"{ours.instant}.hashing_meta").read_text())["nodes"]) == 6

    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    join = {"hoodie.bucket.index.min.num.buckets": "2", "hoodie.bucket.index.merge.threshold": "0.9"}
    write(hudi015, path, rows(12, 21, 3), {**options, **inline, **join})
    theirs = max((path / FOLDER / "x").glob("*.hashing_meta"))
    assert theirs.name > ours.instant
    rings = load_buckets(open_table(str(path)))
    assert isinstance(rings, HashRings)
    assert (len(rings.ring("x").values) < 6, rings.ring("x").changes) == (True, 2)
    assert ring_text("x", rings.ring("x"), theirs.name.split(".")[0]) == theirs.read_text()
    write(us, path, rows(0, 47, 4), options)
    found = assert_all_read(path, us, hudi015, hudi_rs=False)
    assert len(keys_and_groups(found)) == 47
    assert set(found["ts"].to_pylist()) == {4}


def test_each_engine_runs_the_splits_that_the_other_planned(us: Penstock, hudi015: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "table"
    options = {**RINGS, "hoodie.metadata.enable": "false", "hoodie.compact.inline": "false"}
    schedule = {"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    write(hudi015, path, rows(0, 47, 1), {**options, **schedule, **SPLIT})
    table = penstock.Table.open(str(path), us.spark)
    (plan,) = table.pending_clusterings()
    (done,) = table.cluster(plan.instant, options=options)
    write(hudi015, path, rows(0, 47, 2), options)
    assert len(keys_and_groups(assert_all_read(path, us, hudi015, hudi_rs=False))) == 47
    assert done.files_written == plan.new_files

    join = {"hoodie.bucket.index.min.num.buckets": "1"}
    planned = table.schedule_clustering(options={**options, **join})
    assert planned is not None
    settings = ",".join(f"{key}={value}" for key, value in options.items() if "operation" not in key)
    hudi015.sql(f"CALL run_clustering(op => 'execute', path => '{path}', options => '{settings}')")
    assert len(table.pending_clusterings()) == 0
    write(us, path, rows(0, 47, 3), options)
    found = assert_all_read(path, us, hudi015, hudi_rs=False)
    assert len(keys_and_groups(found)) == 47
    assert set(found["ts"].to_pylist()) == {3}
