"""Meta columns that are handed over as numbers: every value comes back, known or not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.filegroup.model import BaseFile, FileSlice
from penstock.read.meta_columns import choose_encoding, encode_rows, encoded_schema
from penstock.schema import META_COLUMNS

TIME, SEQNO, KEY, PATH, NAME = META_COLUMNS
COLUMNS = StructType([StructField(name, StringType()) for name in (*META_COLUMNS, "id")] + [StructField("ts", LongType())])
SLICE = FileSlice("c1", "group-0", "001", BaseFile("group-0_1-2-3_001.parquet", "group-0", "001", 10))
HOW = choose_encoding(COLUMNS, [SLICE], ["001", "002"], ["id"])


def rows(**columns: list[Any]) -> pa.Table:
    count = len(next(iter(columns.values())))
    usual = {TIME: ["002"] * count, SEQNO: ["s"] * count, KEY: ["k"] * count, PATH: ["c1"] * count, NAME: ["group-0"] * count}
    usual |= {"id": ["k"] * count}
    found = {name: pa.array(columns.get(name, values), pa.string()) for name, values in usual.items()}
    return pa.table({**found, "ts": pa.array(range(count), pa.int64())})


def given_back(handed: pa.Table, name: str) -> list[Any]:
    """What Spark makes of a column."""
    itself = handed[name].to_pylist()
    if name == KEY:
        is_key = handed[f"{KEY}_is_key"].to_pylist()
        return [k if same else v for v, k, same in zip(itself, handed["id"].to_pylist(), is_key, strict=True)]
    if name not in HOW.numbered:
        return itself
    numbers = handed[f"{name}_number"].to_pylist()
    return [v if v is not None else None if n is None else HOW.numbered[name][n] for v, n in zip(itself, numbers, strict=True)]


def test_usual_rows_hand_over_no_text_but_the_sequence_number() -> None:
    handed = encode_rows(rows(ts=[1, 2, 3]), HOW)
    assert handed.schema.names == encoded_schema(COLUMNS, HOW).names
    assert [name for name in META_COLUMNS if handed[name].null_count < 3] == [SEQNO]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (TIME, ["001", "002", "000", None]),
        (PATH, ["c1", "elsewhere", "", None]),
        (NAME, ["group-0", "group-0_1-2-3_001.parquet", "another", None]),
        (KEY, ["k", "other", "", None]),
        ("id", ["k", None, "other", ""]),
    ],
)
def test_every_value_comes_back(name: str, values: list[Any]) -> None:
    before = rows(**{name: values})
    handed = encode_rows(before, HOW)
    for column in META_COLUMNS:
        assert given_back(handed, column) == before[column].to_pylist()


def test_columns_that_are_not_asked_for_are_not_made() -> None:
    few = StructType([StructField("id", StringType())])
    how = choose_encoding(few, [SLICE], ["001"], ["id"])
    assert encoded_schema(few, how).names == ["id"]
    table = pa.table({"id": ["a"]})
    assert encode_rows(table, how).equals(table)


def test_keys_that_are_not_one_text_are_handed_over() -> None:
    assert choose_encoding(COLUMNS, [SLICE], [], ["ts"]).key_column is None
    assert choose_encoding(COLUMNS, [SLICE], [], ["id", "ts"]).key_column is None


def test_many_values_get_no_numbers() -> None:
    how = choose_encoding(COLUMNS, [SLICE], [f"{n:017}" for n in range(2_000)], ["id"])
    assert set(how.numbered) == {PATH, NAME}
