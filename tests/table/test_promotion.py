"""Columns of numbers that become text: old rows are printed as Java prints them, wherever they are stored."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import SchemaError
from tests.kit.promotions import PROMOTIONS, incoming_rows, stored_rows
from tests.table.tables import KEY, META, NAME, OPERATION, ORDERING, PARTITION, load, sorted_rows, state_of, timeline, write

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
#: Upserts of a merge-on-read table go to logs, not into small base files.
APART = {
    NAME: "t",
    KEY: "id",
    ORDERING: "ts",
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
}
TYPE = "hoodie.datasource.query.type"
BEGIN = "hoodie.datasource.read.begin.instanttime"

#: 0.1 as a 32-bit number.
FLOAT = struct.unpack("f", struct.pack("f", 0.1))[0]
FIRST = """select * from values
    ('a', 1, 7, 9007199254740993, cast(0.1 as float), 1e7D, named_struct('x', 1.5D), array(1e-4D, null), map('k', 2)),
    ('b', 1, -7, -1, cast(1e10 as float), 12345678.9D, named_struct('x', 1e23D), array(), map('k', null)),
    ('c', 1, null, null, null, null, null, null, null)
    t(id, ts, i, l, f, d, s, e, m)"""
TEXTS = {
    "a": ("7", "9007199254740993", "0.1", "1.0E7", ("1.5",), ["1.0E-4", None], {"k": "2"}),
    "b": ("-7", "-1", "1.0E10", "1.23456789E7", ("9.999999999999999E22",), [], {"k": None}),
    "c": (None,) * 7,
}
WORDS = ("i", "l", "f", "d", ("s",), ["e"], {"k": "m"})


def word_rows(*keys: str) -> str:
    """Return the query for rows with text in every column."""
    rows = [
        f"select '{key}' id, 2 ts, 'i' i, 'l' l, 'f' f, 'd' d, named_struct('x', 's') s, array('e') e, map('k', 'm') m"
        for key in keys
    ]
    return " union all ".join(rows)


def rows_of(frame: Any) -> dict[str, tuple[Any, ...]]:
    """Return key → the columns that were numbers first."""
    found = {row[0]: tuple(row[2:]) for row in frame.drop(*META).collect()}
    assert len(found) == frame.count()
    return found


def make(spark: Any, path: str, kind: str, operation: str = "bulk_insert") -> dict[str, Any]:
    """Make the table of numbers. Return its options."""
    options = {**APART, "hoodie.datasource.write.table.type": kind}
    write(spark.sql(FIRST).coalesce(1), path, {**options, OPERATION: operation})
    return options


def write_arrow(spark: Any, path: str, rows: pa.Table, folder: Path, options: dict[str, Any]) -> None:
    """Write rows from a Parquet file."""
    file = folder / f"rows-{len(list(folder.iterdir()))}.parquet"
    pq.write_table(rows, file)
    write(spark.read.parquet(str(file)), path, options)


def found_in(frame: Any) -> dict[str, dict[str, Any]]:
    """Return key → column → value. Bytes are comparable."""
    found: dict[str, dict[str, Any]] = {}
    for row in frame.drop("ts", *META).collect():
        values = {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict().items()}
        found[values.pop("id")] = values
    return found


STORED = {one.name: one.stored_after for one in PROMOTIONS}
INCOMING = {one.name: one.incoming_after for one in PROMOTIONS}


@pytest.mark.everywhere
@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_types_in_base_files_and_logs(spark: Any, table_path: str, tmp_path: Path, kind: str) -> None:
    """Row a is in a log of the stored types, b in one of the incoming types, c in no log, d in both."""
    folder = tmp_path / "rows"
    folder.mkdir()
    options = {**APART, "hoodie.datasource.write.table.type": kind}
    upsert = {**options, OPERATION: "upsert"}
    write_arrow(spark, table_path, stored_rows(1, "a", "b", "c", "d"), folder, {**options, OPERATION: "bulk_insert"})
    write_arrow(spark, table_path, stored_rows(2, "a", "d"), folder, upsert)
    first, before = [name.split(".")[0] for name in timeline(table_path) if name.endswith("commit")]
    write_arrow(spark, table_path, incoming_rows(3, "b", "d"), folder, upsert)
    expected = {"a": STORED, "b": INCOMING, "c": STORED, "d": INCOMING}
    rows = load(spark, table_path)
    types = {field.name: field.dataType.simpleString() for field in rows.schema}
    assert {one.name: types[one.name] for one in PROMOTIONS} == {one.name: one.result_type for one in PROMOTIONS}
    assert found_in(rows) == expected
    then = load(spark, table_path, **{"as.of.instant": before})
    assert found_in(then) == dict.fromkeys("abcd", {one.name: one.stored for one in PROMOTIONS} | {"float_to_string": FLOAT})
    changed = load(spark, table_path, **{TYPE: "incremental", BEGIN: first})
    assert found_in(changed) == {key: expected[key] for key in "abd"}
    if kind == "MERGE_ON_READ":
        assert len([p for p in Path(table_path).rglob(".*.log.*") if "crc" not in p.name]) == 2
        base_files = load(spark, table_path, **{TYPE: "read_optimized"})
        assert found_in(base_files) == dict.fromkeys("abcd", STORED)
        penstock.Table.open(table_path, spark=spark).compact()
        assert found_in(load(spark, table_path, **{TYPE: "read_optimized"})) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_are_no_text_become_replacement_characters(spark: Any, table_path: str, tmp_path: Path, kind: str) -> None:
    """As in Hudi, which decodes them in Java."""
    folder = tmp_path / "rows"
    folder.mkdir()
    options = {**APART, "hoodie.datasource.write.table.type": kind, OPERATION: "upsert"}
    for number, key in enumerate("ab"):
        write(spark.sql(f"select '{key}' id, {number} ts, 'x' c"), table_path, options)
    wrong = [b"ok", b"\xff", b"a\xe2\x82", b"\xf0\x9f\x98b", None]
    keys = ["a", *"cdef"]
    rows = pa.table({"id": keys, "ts": pa.array([9] * 5, pa.int32()), "c": pa.array(wrong, pa.binary())})
    write_arrow(spark, table_path, rows, folder, options)
    expected = [("a", "ok"), ("b", "x"), ("c", "\ufffd"), ("d", "a\ufffd"), ("e", "\ufffdb"), ("f", None)]
    assert sorted_rows(load(spark, table_path).select("id", "c")) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", ["bulk_insert", "insert", "upsert"])
@pytest.mark.parametrize("small_files", [0, 104857600], ids=["new-file", "same-file"])
def test_numbers_become_text_as_java_prints_them(
    spark: Any, table_path: str, kind: str, operation: str, small_files: int
) -> None:
    options = make(spark, table_path, kind)
    write(
        spark.sql(word_rows("d")), table_path, {**options, OPERATION: operation, "hoodie.parquet.small.file.limit": small_files}
    )
    rows = load(spark, table_path)
    assert {field.dataType.simpleString() for field in rows.schema if field.name in "ilfd"} == {"string"}
    assert rows_of(rows) == {**TEXTS, "d": WORDS}
    assert [row.id for row in rows.where("d = '1.0E7'").collect()] == ["a"]
    assert [row.id for row in rows.where("s.x = 's'").collect()] == ["d"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_with_text_keeps_the_other_rows_of_its_file(spark: Any, table_path: str, kind: str) -> None:
    options = make(spark, table_path, kind)
    write(spark.sql(word_rows("a")), table_path, {**options, OPERATION: "upsert"})
    assert rows_of(load(spark, table_path)) == {**TEXTS, "a": WORDS}


def test_logs_of_both_types_are_merged_and_compacted(spark: Any, table_path: str) -> None:
    options = make(spark, table_path, "MERGE_ON_READ")
    upsert = {**options, OPERATION: "upsert"}
    numbers = FIRST.replace("1e7D", "1e-5D")
    write(spark.sql(f"select * from ({numbers}) where id = 'a'"), table_path, upsert)
    before = timeline(table_path)[-1].split(".")[0]
    write(spark.sql(word_rows("b")), table_path, upsert)
    assert len([p for p in Path(table_path).rglob(".*.log.*") if "crc" not in p.name]) == 2
    expected = {"a": (*TEXTS["a"][:3], "1.0E-5", *TEXTS["a"][4:]), "b": WORDS, "c": TEXTS["c"]}
    assert rows_of(load(spark, table_path)) == expected
    then = load(spark, table_path, **{"as.of.instant": before})
    assert sorted_rows(then.select("id", "d")) == [("a", 1e-5), ("b", 12345678.9), ("c", None)]
    changed = load(spark, table_path, **{TYPE: "incremental", BEGIN: "000"})
    assert rows_of(changed) == expected
    only_base_files = load(spark, table_path, **{TYPE: "read_optimized"})
    assert rows_of(only_base_files) == TEXTS

    penstock.Table.open(table_path, spark=spark).compact()

    assert rows_of(load(spark, table_path)) == expected
    assert rows_of(load(spark, table_path, **{TYPE: "read_optimized"})) == expected
    then = load(spark, table_path, **{"as.of.instant": before})
    assert sorted_rows(then.select("id", "d")) == [("a", 1e-5), ("b", 12345678.9), ("c", None)]


def test_queries_before_and_since_the_promotion(spark: Any, table_path: str) -> None:
    options = make(spark, table_path, "COPY_ON_WRITE")
    first = timeline(table_path)[0].split(".")[0]
    write(spark.sql(word_rows("a")), table_path, {**options, OPERATION: "upsert"})
    then = load(spark, table_path, **{"as.of.instant": first})
    assert sorted_rows(then.select("id", "i", "d")) == [("a", 7, 1e7), ("b", -7, 12345678.9), ("c", None, None)]
    assert rows_of(load(spark, table_path, **{TYPE: "incremental", BEGIN: first})) == {"a": WORDS}
    assert rows_of(load(spark, table_path, **{TYPE: "incremental", BEGIN: "000"})) == {**TEXTS, "a": WORDS}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_printed_into_columns_of_text(spark: Any, table_path: str, kind: str) -> None:
    options = {**APART, "hoodie.datasource.write.table.type": kind}
    write(spark.sql(word_rows("d", "a")).coalesce(1), table_path, {**options, OPERATION: "bulk_insert"})
    write(spark.sql(FIRST.replace("1, ", "3, ", 1)).coalesce(1), table_path, {**options, OPERATION: "upsert"})
    rows = load(spark, table_path)
    assert {field.dataType.simpleString() for field in rows.schema if field.name in "ilfd"} == {"string"}
    assert rows_of(rows) == {**TEXTS, "d": WORDS}


def test_clustering_rewrites_numbers_as_text(spark: Any, table_path: str) -> None:
    options = make(spark, table_path, "COPY_ON_WRITE")
    write(spark.sql(word_rows("d")), table_path, {**options, OPERATION: "bulk_insert"})
    penstock.Table.open(table_path, spark=spark).cluster()
    assert rows_of(load(spark, table_path)) == {**TEXTS, "d": WORDS}


@pytest.mark.parametrize("kind", KINDS)
def test_key_and_partition_column_become_text(spark: Any, table_path: str, kind: str) -> None:
    options = {**APART, PARTITION: "p", "hoodie.datasource.write.table.type": kind, OPERATION: "upsert"}
    numbers = "select * from values (1, 5, 10, 'x'), (2, 5, 10, 'y'), (3, 5, 10, 'z') t(id, ts, p, v)"
    write(spark.sql(numbers), table_path, options)
    write(spark.sql("select 3 id, 6 ts, 10 p, 'z' v"), table_path, {**options, OPERATION: "delete"})
    write(spark.sql("select '2' id, 6 ts, '10' p, 'new' v"), table_path, options)
    expected = [("1", 5, "10", "x"), ("2", 6, "10", "new")]
    assert sorted_rows(load(spark, table_path).drop(*META)) == expected
    assert sorted_rows(load(spark, table_path).where("p = '10'").drop(*META)) == expected
    if kind == "MERGE_ON_READ":
        penstock.Table.open(table_path, spark=spark).compact()
        assert sorted_rows(load(spark, table_path).drop(*META)) == expected


def test_the_ordering_column_does_not_become_text(spark: Any, table_path: str) -> None:
    write(spark.sql("select 'a' id, 10 ts, named_struct('at', 10) s"), table_path, {**APART, OPERATION: "bulk_insert"})
    before = state_of(table_path)
    with pytest.raises(SchemaError, match="'ts' is int in the table and string in the data, and text orders otherwise"):
        write(spark.sql("select 'a' id, '9' ts, named_struct('at', 10) s"), table_path, {**APART, OPERATION: "upsert"})
    assert state_of(table_path) == before


@pytest.mark.parametrize("kind", KINDS)
def test_text_fits_a_date_or_decimal_column_if_it_is_one(spark: Any, table_path: str, kind: str) -> None:
    options = {**APART, "hoodie.datasource.write.table.type": kind, OPERATION: "upsert"}
    write(spark.sql("select 'a' id, 1 ts, date'2024-02-29' d, cast(1.50 as decimal(6,2)) n"), table_path, options)
    write(spark.sql("select 'b' id, 1 ts, '2024-03-01' d, '2.5' n"), table_path, options)
    rows = load(spark, table_path).select("id", "d", "n")
    assert [field.dataType.simpleString() for field in rows.schema][1:] == ["date", "decimal(6,2)"]
    assert sorted_rows(rows.selectExpr("id", "string(d)", "string(n)")) == [
        ("a", "2024-02-29", "1.50"),
        ("b", "2024-03-01", "2.50"),
    ]
    before = state_of(table_path)
    for columns, named in (("'x' d, '2' n", "'d' is date"), ("'2024-03-01' d, 'x' n", "'n' is decimal")):
        with pytest.raises(SchemaError, match=named):
            write(spark.sql(f"select 'c' id, 1 ts, {columns}"), table_path, options)
        assert state_of(table_path) == before


@pytest.mark.parametrize(
    ("stored", "incoming"),
    [
        ("cast(1.5 as decimal(6,2))", "cast(1.5 as decimal(20,2))"),
        ("cast(1.5 as decimal(6,2))", "cast(1.5 as decimal(20,4))"),
        ("1", "cast(1.5 as decimal(6,2))"),
        ("cast(1.5 as decimal(6,2))", "'x'"),
        ("date'2024-01-01'", "'x'"),
        ("1.5D", "cast(1.5 as decimal(6,2))"),
        ("true", "'true'"),
        ("'true'", "true"),
        ("timestamp'2024-01-01 00:00:00'", "'2024-01-01'"),
        ("'2024-01-01'", "timestamp'2024-01-01 00:00:00'"),
        ("date'2024-01-01'", "1"),
    ],
)
def test_what_no_reader_could_read_is_refused_before_anything_is_written(
    spark: Any, table_path: str, stored: str, incoming: str
) -> None:
    write(spark.sql(f"select 'a' id, 1 ts, {stored} c"), table_path, {**APART, OPERATION: "bulk_insert"})
    before = state_of(table_path)
    with pytest.raises(SchemaError, match="'c' is"):
        write(spark.sql(f"select 'b' id, 1 ts, {incoming} c"), table_path, {**APART, OPERATION: "upsert"})
    assert state_of(table_path) == before
