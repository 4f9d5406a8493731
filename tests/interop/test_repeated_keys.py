"""Upserts of several rows of a key without combining them leave the same rows as Hudi 0.15."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

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


@pytest.mark.parametrize(
    ("kind", "index"), [("COPY_ON_WRITE", "SIMPLE"), ("COPY_ON_WRITE", "BUCKET"), ("MERGE_ON_READ", "SIMPLE")]
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
