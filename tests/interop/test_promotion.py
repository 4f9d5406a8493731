"""Columns of numbers that become text: Penstock and Hudi 0.15 read the same texts from files and logs of both types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from tests.interop.sides import KEY, NAME, OPERATION, ORDERING, Penstock, assert_rows, rows_of
from tests.kit.oracle import Oracle
from tests.kit.promotions import incoming_rows, stored_rows

TYPE = "hoodie.datasource.write.table.type"
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
OPTIONS = {
    NAME: "t",
    KEY: "id",
    ORDERING: "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
}
INFINITE = float("inf")
DOUBLES = [0.1, 1e7, float("nan"), 1e-4, 12345678.9, -0.0, -INFINITE, 0.001, 2.0**-44, 1e23, 6.759208501481274e17, 5e-324, None]
FLOATS = [0.1, 1e10, float("nan"), 1e-4, 16777216.0, -0.0, INFINITE, 0.001, 2.0**-44, 1e23, 2.0**40, 1e-45, None]
LONGS = [0, -1, 9007199254740993, 2**63 - 1, -(2**63), 7, 8, 9, 10, 11, 12, 13, None]
INTS = [0, -1, 2**31 - 1, -(2**31), 5, 7, 8, 9, 10, 11, 12, 13, None]
COLUMNS = {"d": (pa.float64(), DOUBLES), "f": (pa.float32(), FLOATS), "l": (pa.int64(), LONGS), "i": (pa.int32(), INTS)}


def number_rows(prefix: str, ts: int) -> pa.Table:
    """Return a row of numbers for each value."""
    head = {"id": [f"{prefix}{at:02}" for at in range(len(DOUBLES))], "ts": pa.array([ts] * len(DOUBLES), pa.int64())}
    return pa.table({**head, **{name: pa.array(numbers, kind) for name, (kind, numbers) in COLUMNS.items()}})


def word_rows(*keys: str) -> pa.Table:
    """Return a row of words for each key."""
    head = {"id": list(keys), "ts": pa.array([5] * len(keys), pa.int64())}
    return pa.table({**head, **{name: [f"word {name}"] * len(keys) for name in COLUMNS}})


def texts_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return key and texts of each row, sorted. All columns have to be strings."""
    assert {str(table.schema.field(name).type) for name in COLUMNS} == {"string"}
    return sorted(zip(table["id"].to_pylist(), *(table[name].to_pylist() for name in COLUMNS), strict=True))


#: Rows of numbers in a file (n) and, in a merge-on-read table, changed in a log (n00 to n03); then words into the same group.
TO_TEXT = [
    ("bulk_insert", number_rows("n", 1)),
    ("upsert", number_rows("n", 2).slice(0, 4)),
    ("upsert", word_rows("n00", "n05", "w")),
    ("bulk_insert", word_rows("v")),
]
#: Numbers into a table of words.
FROM_TEXT = [("bulk_insert", word_rows("n00", "w")), ("upsert", number_rows("n", 6)), ("insert", number_rows("m", 6))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("history", [TO_TEXT, FROM_TEXT], ids=["to-text", "from-text"])
def test_both_engines_print_numbers_alike(
    us: Penstock, hudi015: Oracle, tmp_path: Path, kind: str, history: list[tuple[str, pa.Table]]
) -> None:
    for operation, rows in history:
        options = {**OPTIONS, TYPE: kind, OPERATION: operation}
        us.write(tmp_path / "us", rows, options)
        hudi015.write(tmp_path / "hudi", rows, options)
    expected = texts_of(hudi015.read(tmp_path / "hudi"))
    assert texts_of(us.read(tmp_path / "us")) == expected
    assert texts_of(us.read(tmp_path / "hudi")) == expected
    assert texts_of(hudi015.read(tmp_path / "us")) == expected


def test_a_compaction_of_logs_of_both_types_prints_numbers_as_hudi_does(us: Penstock, hudi015: Oracle, tmp_path: Path) -> None:
    options = {**OPTIONS, TYPE: "MERGE_ON_READ"}
    for operation, rows in TO_TEXT:
        us.write(tmp_path / "us", rows, {**options, OPERATION: operation})
        hudi015.write(tmp_path / "hudi", rows, {**options, OPERATION: operation})
    penstock.Table.open(tmp_path / "us", spark=us.spark).compact()
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    hudi015.write(tmp_path / "hudi", word_rows("n06"), {**options, **inline, OPERATION: "upsert"})
    us.write(tmp_path / "us", word_rows("n06"), {**options, OPERATION: "upsert"})
    expected = texts_of(hudi015.read(tmp_path / "hudi"))
    assert texts_of(us.read(tmp_path / "us")) == expected
    assert texts_of(hudi015.read(tmp_path / "us")) == expected


def read_with(us: Penstock, path: Path, **options: str) -> pa.Table:
    found: pa.Table = us.spark.read.format("hudi").options(**options).load(str(path)).toArrow()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_hudi_stored_below_a_schema_of_strings_are_texts(
    us: Penstock, hudi015: Oracle, tmp_path: Path, kind: str
) -> None:
    options = {**OPTIONS, TYPE: kind}
    path = tmp_path / "hudi"
    for rows in (word_rows("w"), number_rows("n", 1), word_rows("v")):
        hudi015.write(path, rows, {**options, OPERATION: "bulk_insert"})
    kinds = {str(pq.read_schema(file).field("d").type) for file in path.rglob("*.parquet")}
    assert kinds == {"string", "double"}, "Hudi's bulk_insert stored the numbers as numbers"
    instants = [instant.time for instant in hudi015.commits(path)]
    expected = texts_of(hudi015.read(path))
    assert texts_of(us.read(path)) == expected
    assert us.spark.read.format("hudi").load(str(path)).where("d = '1.0E7'").select("id").collect() == [("n01",)]
    assert texts_of(read_with(us, path, **{"as.of.instant": instants[1]})) == [row for row in expected if row[0] != "v"]
    since = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": instants[0]}
    assert texts_of(read_with(us, path, **since)) == [row for row in expected if row[0] != "w"]

    us.write(path, word_rows("n00", "n05"), {**options, OPERATION: "upsert"})
    expected = texts_of(hudi015.read(path))
    assert len(expected) == len(DOUBLES) + 2
    assert texts_of(us.read(path)) == expected
    if kind == "MERGE_ON_READ":
        assert len(penstock.Table.open(path, spark=us.spark).compact()) == 1
        assert texts_of(us.read(path)) == expected
        assert texts_of(hudi015.read(path)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_narrower_numbers_that_hudi_stored_are_widened(us: Penstock, hudi015: Oracle, tmp_path: Path, kind: str) -> None:
    options = {**OPTIONS, TYPE: kind, OPERATION: "bulk_insert"}
    for number, (whole, fraction) in enumerate(
        [(pa.int64(), pa.float64()), (pa.int32(), pa.float32()), (pa.int32(), pa.int64())]
    ):
        columns = {"id": [f"{number}"], "ts": pa.array([1], pa.int64())}
        rows = pa.table({**columns, "whole": pa.array([7], whole), "fraction": pa.array([2], fraction)})
        hudi015.write(tmp_path / "hudi", rows, options)
    found = us.read(tmp_path / "hudi")
    assert sorted(zip(*(found[name].to_pylist() for name in ("id", "whole", "fraction")), strict=True)) == [
        ("0", 7, 2.0),
        ("1", 7, 2.0),
        ("2", 7, 2.0),
    ]
    assert [str(found.schema.field(name).type) for name in ("whole", "fraction")] == ["int64", "double"]


@pytest.mark.parametrize("kind", KINDS)
def test_hudi_reads_every_pair_of_types_as_penstock_does(us: Penstock, hudi015: Oracle, tmp_path: Path, kind: str) -> None:
    """Before and after a compaction. A column of decimals has grown within the bytes that Parquet stores for each."""
    path = tmp_path / "us"
    options = {**OPTIONS, TYPE: kind}
    for operation, rows in (
        ("bulk_insert", stored_rows(1, "a", "b", "c", "d")),
        ("upsert", stored_rows(2, "a", "d")),
        ("upsert", incoming_rows(3, "b", "d")),
    ):
        us.write(path, rows, {**options, OPERATION: operation})
    assert_rows(hudi015.read(path), rows_of(us.read(path)), "Hudi, before a compaction")
    if kind == "MERGE_ON_READ":
        penstock.Table.open(path, spark=us.spark).compact()
        assert_rows(hudi015.read(path), rows_of(us.read(path)), "Hudi, after the compaction")
