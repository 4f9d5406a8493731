"""Meta columns that workers send as numbers or flags: every value is decoded again, known or not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.filegroup.model import BaseFile, FileSlice
from penstock.read.meta_encoding import choose_encoding, encode_rows, encoded_schema
from penstock.schema import META_COLUMNS

TIME, SEQNO, KEY, PATH, NAME = META_COLUMNS
COLUMNS = StructType([StructField(name, StringType()) for name in (*META_COLUMNS, "id")] + [StructField("ts", LongType())])
SLICE = FileSlice("c1", "group-0", "001", BaseFile("group-0_1-2-3_001.parquet", "group-0", "001", 10))
ENCODING = choose_encoding(COLUMNS, [SLICE], ["001", "002"], ["id"])


def rows(**columns: list[Any]) -> pa.Table:
    count = len(next(iter(columns.values())))
    usual = {TIME: ["002"] * count, SEQNO: ["s"] * count, KEY: ["k"] * count, PATH: ["c1"] * count, NAME: ["group-0"] * count}
    usual |= {"id": ["k"] * count}
    found = {name: pa.array(columns.get(name, values), pa.string()) for name, values in usual.items()}
    return pa.table({**found, "ts": pa.array(range(count), pa.int64())})


def decode(sent: pa.Table, name: str) -> list[Any]:
    """Return a column as Spark rebuilds it."""
    texts = sent[name].to_pylist()
    if name == KEY:
        is_key = sent[f"{KEY}_is_key"].to_pylist()
        return [key if same else text for text, key, same in zip(texts, sent["id"].to_pylist(), is_key, strict=True)]
    if name not in ENCODING.numbered:
        return texts
    numbers = sent[f"{name}_number"].to_pylist()
    known = [None if number is None else ENCODING.numbered[name][number] for number in numbers]
    return [value if text is None else text for text, value in zip(texts, known, strict=True)]


def test_usual_rows_send_no_text_but_the_sequence_number() -> None:
    sent = encode_rows(rows(ts=[1, 2, 3]), ENCODING)
    assert sent.schema.names == encoded_schema(COLUMNS, ENCODING).names
    assert [name for name in META_COLUMNS if sent[name].null_count < 3] == [SEQNO]


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
def test_every_value_is_decoded_again(name: str, values: list[Any]) -> None:
    before = rows(**{name: values})
    sent = encode_rows(before, ENCODING)
    for column in META_COLUMNS:
        assert decode(sent, column) == before[column].to_pylist()


def test_columns_that_are_not_wanted_are_not_encoded() -> None:
    few = StructType([StructField("id", StringType())])
    encoding = choose_encoding(few, [SLICE], ["001"], ["id"])
    assert encoded_schema(few, encoding).names == ["id"]
    table = pa.table({"id": ["a"]})
    assert encode_rows(table, encoding).equals(table)


def test_keys_that_are_not_one_text_column_are_sent() -> None:
    assert choose_encoding(COLUMNS, [SLICE], [], ["ts"]).key_column is None
    assert choose_encoding(COLUMNS, [SLICE], [], ["id", "ts"]).key_column is None


def test_many_values_get_no_numbers() -> None:
    encoding = choose_encoding(COLUMNS, [SLICE], [f"{n:017}" for n in range(2_000)], ["id"])
    assert set(encoding.numbered) == {PATH, NAME}
