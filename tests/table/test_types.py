"""Every Spark type, nulls at every level, and unusual column names are read back as they were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import SchemaError
from tests.table.tables import KEY, META, NAME, OPERATION, base_files, commits, load, values, write

pytestmark = pytest.mark.everywhere

OPTIONS = {NAME: "types", KEY: "id", OPERATION: "bulk_insert"}

ALL = """
select 'a' id, true b, cast(1 as tinyint) i8, cast(-300 as smallint) i16, 70000 i32, 9223372036854775807 i64,
  cast(1.5 as float) f32, 2.25D f64, 'text' s, X'00FF10' bin, date'2024-02-29' d, timestamp'2024-02-29 01:02:03.456789' t,
  timestamp_ntz'2024-02-29 01:02:03.456789' tn, cast(123.45 as decimal(5,2)) d5,
  cast(12345678901234.5678 as decimal(18,4)) d18, cast(-1234567890123456789012345678.0123456789 as decimal(38,10)) d38,
  array(1, null, 3) l, array(array('x', null), null, array()) ll, map('k', 1, 'n', null) m,
  named_struct('x', 1, 'y', named_struct('z', 'deep')) st,
  array(named_struct('p', 1, 'q', array('r')), null, named_struct('p', null, 'q', null)) ls,
  map('k', named_struct('v', cast(1.10 as decimal(10,2))), 'n', null) ms,
  map('a', map('b', array(date'1970-01-01'))) mm
union all
select 'b', false, cast(-128 as tinyint), cast(32767 as smallint), -2147483648, -9223372036854775808,
  cast('NaN' as float), cast('-Infinity' as double), '', X'', date'1969-12-31', timestamp'1969-12-31 23:59:59.999999',
  timestamp_ntz'1900-01-01 00:00:00', cast(-999.99 as decimal(5,2)), cast(-0.0001 as decimal(18,4)),
  cast(0 as decimal(38,10)), array(), array(), map(), named_struct('x', null, 'y', null), array(), map(), map('a', null)
union all
select 'c', null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
  null, null, null, null
union all
select 'd', true, cast(0 as tinyint), cast(0 as smallint), 0, 0, cast('-0.0' as float), cast('Infinity' as double),
  '東京 😀 \\u0000 ', X'FFFE', date'0001-01-01', timestamp'1000-01-01 00:00:00',
  timestamp_ntz'9999-12-31 23:59:59.999999', cast(0 as decimal(5,2)), cast(99999999999999.9999 as decimal(18,4)),
  cast(9999999999999999999999999999.9999999999 as decimal(38,10)), array(null), array(null), map('', 0), null,
  array(null), map('n', null), null
"""


def all_types(spark: Any) -> Any:
    return spark.sql(ALL).coalesce(1)


def rows_by_id(frame: Any) -> dict[str, str]:
    """Return rows as text: NaN is equal to itself as text, and so are values that Python compares by identity."""
    return {row["id"]: repr(row) for row in frame.collect()}


@pytest.mark.parametrize("second", ["bulk_insert", "insert"])
def test_values_of_every_type_are_read_back_unchanged(spark: Any, table_path: str, second: str) -> None:
    """Twice: the second write adds files, or rewrites the first one's rows through Arrow."""
    source = all_types(spark)
    expected = rows_by_id(source)
    write(source, table_path, OPTIONS)
    write(source.selectExpr("concat(id, '2') as id", *source.columns[1:]), table_path, {OPERATION: second})
    found = load(spark, table_path).drop(*META)
    assert len(base_files(table_path)) == 2
    widened = {"i8": "int", "i16": "int"}
    for field in source.schema:
        assert found.schema[field.name].dataType.simpleString() == widened.get(field.name, field.dataType.simpleString())
    rows = rows_by_id(found)
    assert sorted(rows) == ["a", "a2", "b", "b2", "c", "c2", "d", "d2"]
    for key, row in expected.items():
        assert rows[key] == row
        assert rows[f"{key}2"] == row.replace(f"id='{key}'", f"id='{key}2'")


def test_times_do_not_depend_on_the_sessions_zone(spark: Any, table_path: str) -> None:
    query = "select 'a' id, timestamp_micros(1709168523456789) t, timestamp_ntz'2024-03-31 02:30:00' tn, date'2024-03-31' d"
    try:
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        write(spark.sql(query), table_path, OPTIONS)
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        write(spark.sql(query), table_path, {OPERATION: "insert"})
        found = load(spark, table_path).selectExpr("unix_micros(t)", "cast(tn as string)", "cast(d as string)")
        assert {tuple(r) for r in found.collect()} == {(1709168523456789, "2024-03-31 02:30:00", "2024-03-31")}
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_files_hold_types_in_the_form_that_hudi_reads(spark: Any, table_path: str) -> None:
    write(all_types(spark), table_path, OPTIONS)
    (file,) = base_files(table_path)
    schema = pq.read_metadata(file).schema
    physical = {schema.column(i).path: schema.column(i) for i in range(len(schema))}
    assert {p: physical[p].physical_type for p in ("d5", "d18", "d38", "d", "t", "i8", "i16")} == {
        "d5": "FIXED_LEN_BYTE_ARRAY",
        "d18": "FIXED_LEN_BYTE_ARRAY",
        "d38": "FIXED_LEN_BYTE_ARRAY",
        "d": "INT32",
        "t": "INT64",
        "i8": "INT32",
        "i16": "INT32",
    }
    assert [physical[p].length for p in ("d5", "d18", "d38")] == [3, 8, 16]
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(physical["t"].logical_type)
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in str(physical["tn"].logical_type)
    assert {"l.list.element", "ls.list.element.q.list.element", "m.key_value.key", "m.key_value.value"} <= set(physical)
    arrow = pq.read_schema(file)
    assert arrow.field("t").type == pa.timestamp("us", tz="UTC")
    assert all(field.nullable for field in arrow)


@pytest.mark.parametrize(
    "name", ["select", "Order", "_x", "größe", "x1", "key", "file_path", "path", "_metadata", "KEY_1", "日本"]
)
def test_a_column_may_have_any_name_that_avro_takes(spark: Any, table_path: str, name: str) -> None:
    frame = values(spark, f"id string, {name} string, city string", ("a", "v", "x"), ("b", None, "y"))
    write(frame, table_path, {**OPTIONS, "hoodie.datasource.write.partitionpath.field": "city"})
    found = load(spark, table_path)
    assert found.columns[5:] == ["id", name, "city"]
    assert sorted(map(tuple, found.where(f"`{name}` = 'v' and city = 'x'").drop(*META).collect())) == [("a", "v", "x")]


def test_a_column_with_an_odd_name_can_be_key_and_partition(spark: Any, table_path: str) -> None:
    frame = values(spark, "größe string, select string, order bigint", ("a", "x", 1), ("b", "y", 2))
    options = {
        KEY: "größe",
        "hoodie.datasource.write.partitionpath.field": "select",
        "hoodie.datasource.write.precombine.field": "order",
        "hoodie.combine.before.insert": "true",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    write(frame, table_path, {NAME: "t-1 ü", OPERATION: "bulk_insert", **options})
    found = load(spark, table_path)
    assert sorted(map(tuple, found.drop(*META).collect())) == [("a", "x", 1), ("b", "y", 2)]
    assert [r[0] for r in found.where("`select` = 'y'").select("größe").collect()] == ["b"]


@pytest.mark.parametrize("name", ["a b", "a.b", "a-b", "1a", "a`b", "a,b", "a:b", "a/b", "😀", "", "a\nb"])
def test_a_column_name_that_avro_refuses_is_refused_with_its_name(spark: Any, table_path: str, name: str) -> None:
    frame = spark.sql("select 'a' id, 1 n").toDF("id", name)
    with pytest.raises(SchemaError, match="rename"):
        write(frame, table_path, OPTIONS)
    assert not Path(table_path).exists()


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        ("null", "'v'"),
        ("map(1, 'x')", "'v'"),
        ("interval '1' day", "'v'"),
        ("array(null)", "'v"),
        ("named_struct('a b', 1)", "a b"),
    ],
)
def test_a_type_that_a_table_cannot_hold_is_refused_with_the_column_name(
    spark: Any, table_path: str, expression: str, match: str
) -> None:
    with pytest.raises(SchemaError, match=match):
        write(spark.sql(f"select 'a' id, {expression} v"), table_path, OPTIONS)
    assert not Path(table_path).exists()


def test_a_column_that_is_not_nullable_is_read_as_nullable(spark: Any, table_path: str) -> None:
    write(spark.range(3).selectExpr("cast(id as string) id", "id as n"), table_path, OPTIONS)
    assert all(f.nullable for f in load(spark, table_path).schema)


def test_strings_with_every_character_are_keys(spark: Any, table_path: str) -> None:
    keys = ["a", "ä", "😀", "a b", "a,b:c", "\u0000", "\uffff", "'", '"', "\\", "\n", "x" * 5000, "__null__", "%"]
    write(values(spark, "id string, n int", *((k, i) for i, k in enumerate(keys))).coalesce(1), table_path, OPTIONS)
    found = load(spark, table_path).select("_hoodie_record_key", "id").collect()
    assert sorted(r["id"] for r in found) == sorted(keys)
    assert all(r["_hoodie_record_key"] == r["id"] for r in found)


def test_the_schema_of_the_commit_is_hudis(spark: Any, table_path: str) -> None:
    write(all_types(spark), table_path, OPTIONS)
    schema = json.loads(commits(table_path)[0]["extraMetadata"]["schema"])
    assert (schema["name"], schema["namespace"]) == ("types_record", "hoodie.types")
    types = {f["name"]: f["type"] for f in schema["fields"]}
    assert types["i8"] == ["null", "int"]
    assert types["t"] == ["null", {"type": "long", "logicalType": "timestamp-micros"}]
    assert types["d5"][1]["type"] == "fixed"
    assert types["d5"][1]["namespace"] == "hoodie.types.types_record.d5"
    assert not set(META) & set(types)
