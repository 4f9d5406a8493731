"""Tables with buckets: one file group per bucket and partition, inserts, pruned queries, and refused options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import OptionError, SchemaError
from penstock.index.bucket_hash import FixedBuckets
from tests.table.tables import BULK, INSERT, TRIPS, snapshot, trips, write
from tests.table.upserts import INDEX, UPSERT

COUNT, FIELDS = "hoodie.bucket.index.num.buckets", "hoodie.bucket.index.hash.field"
TYPE = "hoodie.datasource.write.table.type"
BUCKET = {INDEX: "BUCKET", COUNT: 4}
NO_DUPLICATES = {"hoodie.datasource.write.insert.drop.duplicates": "true"}


def make_trips(spark: Any, first: int, last: int, ts: int = 1) -> Any:
    return trips(spark, *((f"k{n}", "xy"[n % 2], ts, float(n)) for n in range(first, last)))


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_every_operation_keeps_to_one_file_group_per_bucket(spark: Any, table_path: str, kind: str) -> None:
    options = {**BUCKET, TYPE: kind}
    write(make_trips(spark, 0, 20), table_path, {**BULK, **options})
    write(make_trips(spark, 20, 40), table_path, {**INSERT, **options})
    write(make_trips(spark, 35, 45, ts=3), table_path, {**INSERT, **options, **NO_DUPLICATES})
    write(make_trips(spark, 44, 60, ts=4), table_path, {**UPSERT, **options})
    table = penstock.Table.open(table_path)
    files = table.files()
    assert len({f.file_group for f in files}) == len(files) == 8
    assert {f.file_group[:9] for f in files} == {f"0000000{n}-" for n in range(4)}
    found = {(key, ts) for key, _, ts, _ in snapshot(spark, table_path)}
    assert found == {(f"k{n}", 1 if n < 40 else 3 if n < 44 else 4) for n in range(60)}

    # later writes need not say how the table is bucketed
    write(make_trips(spark, 0, 2, ts=5), table_path, {**TRIPS, "hoodie.datasource.write.operation": "upsert"})
    assert (table.config.raw[COUNT], len(table.files())) == ("4", 8)

    # a query that names the key opens one bucket of each partition, and returns the rows of a filter
    one = table.read(columns=["id", "ts"], equals={"id": "k1"})
    number = int(FixedBuckets(4, ("id",)).numbers(pa.array(["k1"]))[0])
    opened = {name.rpartition("/")[2].lstrip(".")[:8] for name in table.read(equals={"id": "k1"}).inputFiles()}
    assert opened <= {f"0000000{number}"}
    assert one.collect() == [("k1", 5)]
    assert table.read(equals={"id": "nobody"}).collect() == []
    assert table.read(equals={"fare": 7.0}).count() == 1

    # and so does format("hudi")
    asked = spark.read.format("hudi").option("penstock.read.equals", '{"id": "k1"}').load(table_path)
    assert sorted(asked.inputFiles()) == sorted(table.read(equals={"id": "k1"}).inputFiles())
    assert [(row.id, row.ts) for row in asked.collect()] == [("k1", 5)]
    with pytest.raises(SchemaError, match="no column 'ID2'"):
        spark.read.format("hudi").option("penstock.read.equals", '{"ID2": "k1"}').load(table_path)


def test_a_key_of_several_columns_is_placed_by_the_hash_field_alone(spark: Any, table_path: str) -> None:
    options = {**UPSERT, **BUCKET, "hoodie.datasource.write.recordkey.field": "id,ts", FIELDS: "id"}
    frame = trips(spark, *(("k", "x", n, 1.0) for n in range(9)), ("l,m", "x", 1, 1.0))
    write(frame, table_path, options)
    table = penstock.Table.open(table_path)
    rows_of = {f.file_group[:8]: f.rows for f in table.files()}
    assert 9 in rows_of.values() or 10 in rows_of.values()
    assert table.read(equals={"id": "k"}).count() == 9
    assert len(table.read(equals={"id": "k"}).inputFiles()) == 1
    assert table.read(equals={"id": "l,m", "ts": 1}).count() == 1


def test_options_that_would_duplicate_rows_are_refused_before_anything_is_written(
    spark: Any, table_path: str, tmp_path: Path
) -> None:
    frame = make_trips(spark, 0, 8)
    for more, message in (
        ({COUNT: 100_001}, "too many"),
        ({FIELDS: "fare"}, "must be columns of the record key"),
        ({"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "merge-on-read"),
    ):
        with pytest.raises(penstock.errors.PenstockError, match=message):
            write(frame, str(tmp_path / "never"), {**UPSERT, **BUCKET, **more})
    assert not (tmp_path / "never").exists()

    write(frame, table_path, {**UPSERT, **BUCKET})
    for more in ({COUNT: 5}, {INDEX: "SIMPLE"}, {FIELDS: "ts"}):
        with pytest.raises(OptionError, match="Config conflict"):
            write(frame, table_path, {**UPSERT, **BUCKET, **more})

    # a table whose properties do not say it: as Hudi makes them
    properties = Path(table_path, ".hoodie", "hoodie.properties")
    kept = [line for line in properties.read_text().splitlines() if "bucket" not in line and "index" not in line]
    properties.write_text("\n".join(kept) + "\n")
    for more, message in (
        ({INDEX: "BLOOM"}, "was written with hoodie.index.type=BUCKET"),
        ({COUNT: 3}, "is bucket 3, but"),
        ({COUNT: 9}, "holds keys of other buckets"),
    ):
        with pytest.raises(OptionError, match=message):
            write(frame, table_path, {**UPSERT, **BUCKET, **more})
    write(frame, table_path, {**UPSERT, **BUCKET})
    assert len(snapshot(spark, table_path)) == 8

    # a query with a wrong number of buckets would open the wrong bucket
    table = penstock.Table.open(table_path)
    assert len(table.read(equals={"id": "k1"}, options=BUCKET).inputFiles()) == 1
    assert table.read(equals={"id": "k1"}, options=BUCKET).count() == 1
    with pytest.raises(OptionError, match="holds keys of other buckets"):
        table.read(equals={"id": "k1"}, options={**BUCKET, COUNT: 9})

    plain = str(tmp_path / "plain")
    write(frame, plain, {**UPSERT, INDEX: "SIMPLE"})
    write(frame, plain, {**UPSERT, INDEX: "GLOBAL_BLOOM"})
    with pytest.raises(OptionError, match="was written without buckets"):
        write(frame, plain, {**UPSERT, **BUCKET})
    assert len(snapshot(spark, plain)) == 8
