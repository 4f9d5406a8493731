"""A query that names a key keeps the bucket that the key is in, however the table's keys are written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock import options as o
from penstock.errors import OptionError
from penstock.filegroup.model import FileSlice
from penstock.index.bucket_hash import FixedBuckets
from penstock.options import read_options
from penstock.read.bucket_pruning import keep_wanted_buckets
from penstock.schema import arrow_to_avro, avro_text
from penstock.table.state import open_table
from tests.table.handmade import COLUMNS, HandMade, at

BUCKETS = FixedBuckets(64, ("id",))
SCHEMA = avro_text(arrow_to_avro(COLUMNS, "trips"))
PROPERTIES = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "64",
    "hoodie.bucket.index.hash.field": "id",
}


@pytest.mark.parametrize(
    ("generator", "fields", "equals", "stored", "kept"),
    [
        ("Simple", "id", {"id": "k"}, "k", 1),
        ("Simple", "id", {"id": "a:b"}, "a:b", 1),
        ("Simple", "id", {"id": "a,b"}, "a,b", 1),
        ("Complex", "id", {"id": "k"}, "k", 1),
        ("Complex", "id", {"id": "k"}, "id:k", 1),  # as some releases of Hudi write it
        ("Complex", "id", {"id": "a,b"}, "id:a,b", 64),
        ("Complex", "id", {"id": "a:b"}, "id:a:b", 64),
        ("ComplexAvro", "id", {"id": "a:b"}, "a:b", 64),
        ("Complex", "id,ts", {"id": "a:b"}, "id:a:b,ts:7", 1),
        ("Complex", "id,ts", {"id": ""}, "id:__empty__,ts:7", 1),
        ("Complex", "id,ts", {"ts": 7}, "id:k,ts:7", 64),
        ("Complex", "id,city", {"id": "k"}, "id:k,city:x", 64),  # a city may look like an id
        ("Complex", "id,city", {"id": "k", "city": "x,id:l"}, "id:k,city:x,id:l", 1),
        ("Simple", "id", {"id": 7}, "7", 64),  # of another type than the column
        ("Simple", "id", {"fare": 1.0}, "k", 64),
    ],
)
def test_the_bucket_of_a_key_is_kept(
    tmp_path: Path, generator: str, fields: str, equals: dict[str, object], stored: str, kept: int
) -> None:
    keys = {
        "hoodie.table.recordkey.fields": fields,
        "hoodie.table.keygenerator.class": f"org.apache.hudi.keygen.{generator}KeyGenerator",
    }
    made = HandMade(tmp_path / "table", properties={**PROPERTIES, **keys})
    slices = [FileSlice("x", BUCKETS.new_file_id(number), at(1)) for number in range(BUCKETS.count)]
    found = keep_wanted_buckets(slices, equals, open_table(str(made.path)), SCHEMA)
    assert slices[int(BUCKETS.numbers(pa.array([stored]))[0])] in found
    assert len(found) == kept


def test_another_number_of_buckets_than_the_tables_is_refused(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "table", properties={**PROPERTIES, "hoodie.table.recordkey.fields": "id"})
    table = open_table(str(made.path), read_options({o.BUCKET_COUNT.key: "8"}))
    with pytest.raises(OptionError, match="has 64 buckets; leave the option out"):
        keep_wanted_buckets([], {"id": "k"}, table, SCHEMA)


def test_a_number_of_buckets_that_no_file_confirms_rules_nothing_out(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "table", properties={"hoodie.table.recordkey.fields": "id"})
    options = read_options({key: value for key, value in PROPERTIES.items() if key != "hoodie.bucket.index.hash.field"})
    slices = [FileSlice("x", BUCKETS.new_file_id(number), at(1)) for number in range(BUCKETS.count)]
    assert keep_wanted_buckets(slices, {"id": "k"}, open_table(str(made.path), options), SCHEMA) == slices
