"""Columns of numbers that become text: Penstock and Hudi 0.15 read the same texts from files and logs of both types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from tests.interop.sides import KEY, NAME, OPERATION, ORDERING, Penstock
from tests.kit.oracle import Oracle

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
#: Numbers into a table of words. Not by a bulk_insert: Hudi's stores the numbers as numbers, below a schema of strings.
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
