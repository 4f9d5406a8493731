"""Upserts of several rows of a key without combining them leave the same rows as Hudi 0.15."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from tests.interop.sides import INDEX, OPERATION, TRIPS, Penstock, deletable_trips, trips_of
from tests.kit.oracle import Oracle

UNCOMBINED = {
    **TRIPS,
    OPERATION: "upsert",
    "hoodie.combine.before.upsert": "false",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.compact.inline": "false",
}
#: New keys in a new partition, two of them several times, one with a delete; then new keys in a partition that has files.
BATCHES: list[pa.Table] = [
    deletable_trips(
        ("a", "x", 2, 2.0, False),
        ("a", "x", 1, 1.0, False),
        ("b", "x", 1, 1.0, False),
        ("d", "x", 1, 1.0, False),
        ("d", "x", 2, 2.0, True),
    ),
    deletable_trips(("n", "x", 2, 2.0, False), ("n", "x", 1, 1.0, False), ("b", "x", 3, 3.0, False)),
    deletable_trips(("m", "y", 2, 2.0, False), ("m", "y", 1, 1.0, False), ("b", "x", 4, 4.0, False)),
]
#: Rows that are stored, then several rows of each of them: in both orders, late ones, and with deletes.
STORED: pa.Table = deletable_trips(*((key, "x", 5, 5.0, False) for key in "abcdefgh"))
REPEATS: pa.Table = deletable_trips(
    ("a", "x", 7, 7.0, False),
    ("a", "x", 6, 6.0, False),
    ("b", "x", 6, 6.0, False),
    ("b", "x", 7, 7.0, False),
    ("c", "x", 6, 6.0, False),
    ("c", "x", 7, 7.0, True),
    ("d", "x", 7, 7.0, True),
    ("d", "x", 6, 6.0, False),
    ("e", "x", 3, 3.0, False),
    ("e", "x", 2, 2.0, False),
    ("f", "x", 6, 6.0, True),
    ("f", "x", 7, 7.0, False),
    ("g", "x", 7, 7.0, False),
    ("g", "x", 6, 6.0, True),
)


@pytest.mark.parametrize(
    ("kind", "index"),
    [("COPY_ON_WRITE", "SIMPLE"), ("COPY_ON_WRITE", "BUCKET"), ("MERGE_ON_READ", "SIMPLE"), ("MERGE_ON_READ", "BUCKET")],
)
@pytest.mark.parametrize("small_file_bytes", [0, 104857600], ids=["no-small-files", "small-files"])
def test_the_same_rows_are_kept(
    us: Penstock, hudi015: Oracle, tmp_path: Path, kind: str, index: str, small_file_bytes: int
) -> None:
    options = {
        **UNCOMBINED,
        INDEX: index,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.parquet.small.file.limit": str(small_file_bytes),
    }
    for batch in BATCHES:
        us.write(tmp_path / "us", batch, options)
        hudi015.write(tmp_path / "hudi", batch, options)
        assert trips_of(us.read(tmp_path / "us")) == trips_of(hudi015.read(tmp_path / "hudi"))
    assert trips_of(hudi015.read(tmp_path / "us")) == trips_of(us.read(tmp_path / "us"))


#: Not PartialUpdateAvroPayload in a copy-on-write table: without combining, Hudi's has no ordering value for the incoming row, and
#: lets a late row win.
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("COPY_ON_WRITE", "OverwriteWithLatestAvroPayload"),
        ("COPY_ON_WRITE", "DefaultHoodieRecordPayload"),
        ("MERGE_ON_READ", "OverwriteWithLatestAvroPayload"),
        ("MERGE_ON_READ", "DefaultHoodieRecordPayload"),
        ("MERGE_ON_READ", "PartialUpdateAvroPayload"),
    ],
)
@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_stored_rows_are_merged_with_the_same_row(
    us: Penstock, hudi015: Oracle, tmp_path: Path, kind: str, index: str, payload: str
) -> None:
    options = {
        **UNCOMBINED,
        INDEX: index,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.payload.class": f"org.apache.hudi.common.model.{payload}",
        "hoodie.parquet.small.file.limit": "0",
    }
    for batch in (STORED, REPEATS, REPEATS):
        us.write(tmp_path / "us", batch, options)
        hudi015.write(tmp_path / "hudi", batch, options)
        expected = trips_of(hudi015.read(tmp_path / "hudi"))
        assert trips_of(us.read(tmp_path / "us")) == expected
        assert trips_of(hudi015.read(tmp_path / "us")) == expected
    if kind == "MERGE_ON_READ":
        penstock.Table.open(tmp_path / "us", spark=us.spark).compact()
        assert trips_of(us.read(tmp_path / "us")) == expected
