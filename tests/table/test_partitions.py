"""Partition paths: every spelling, unusual values, types, and values that must never become a folder."""

from __future__ import annotations

import shutil
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.errors import OptionError, PenstockError, RecordKeyError
from tests.table.tables import (
    BULK,
    HIVE_STYLE,
    INSERT,
    KEY,
    NAME,
    OPERATION,
    PARTITION,
    SIX,
    URL_ENCODE,
    base_files,
    load,
    snapshot,
    sorted_rows,
    spoil,
    state_of,
    trips,
    values,
    write,
)

#: Values that are one folder's name unchanged.
ODD = [
    "Zürich", "東京", "😀", "e\u0301", "a b", " a ", "50%", "%41", "%zz", "a+b", "x=y", "=", "a,b", "{x}", "[z]", "*", "?",
    "a\\b", "~", "'", '"', "#", "&", "|", "$x", ";", "null", "default", "_x", ".x", "-", "a" * 200, "ß" * 120, "1", "01",
    "metadata", "staged", "MARKERS0",
]  # fmt: skip
#: Values that only escaping makes one folder's name.
NEED_ESCAPING = ["a/b", "/", "a:b", "a\tb", "a\nb", "\0", "\x7f", "a//b", "../x"]


def folders(path: str) -> set[str]:
    return {p.parent.relative_to(path).as_posix() for p in base_files(path)}


def rows_of(cities: list[str | None]) -> list[tuple[str | None, str | None, int, float]]:
    return [(f"k{i}", city, i, 0.5) for i, city in enumerate(cities)]


@pytest.mark.parametrize("hive", [False, True], ids=["plain", "hive"])
@pytest.mark.parametrize("escaped", [False, True], ids=["as-is", "escaped"])
def test_unusual_partition_values_are_read_back_and_found_by_filters(
    spark: Any, table_path: str, hive: bool, escaped: bool
) -> None:
    cities: list[str | None] = [*ODD, *(NEED_ESCAPING if escaped else []), None, ""]
    rows = rows_of(cities)
    write(trips(spark, *rows).coalesce(1), table_path, {**BULK, HIVE_STYLE: hive, URL_ENCODE: escaped})
    assert snapshot(spark, table_path) == sorted(rows, key=repr)

    chosen = [c for c in cities if c][::2]
    frame = load(spark, table_path)
    expected = sorted(f"k{i}" for i, c in enumerate(cities) if c in chosen)
    assert sorted(r[0] for r in frame.where(frame.city.isin(chosen)).select("id").collect()) == expected
    assert [r[0] for r in frame.where("city is null").select("id").collect()] == [f"k{len(cities) - 2}"]

    kept = {r[0] for r in frame.where(frame.city.isin(chosen)).select("_hoodie_file_name").distinct().collect()}
    spoil(f for f in base_files(table_path) if f.name not in kept and "DEFAULT_PARTITION" not in f.parent.name)
    assert sorted(r[0] for r in frame.where(frame.city.isin(chosen)).select("id").collect()) == expected
    assert [r[0] for r in frame.where("city is null").select("id").collect()] == [f"k{len(cities) - 2}"]
    spoil(f for f in base_files(table_path) if f.name not in kept)
    assert [r[0] for r in frame.where(frame.city == chosen[1]).select("id").collect()] == [f"k{cities.index(chosen[1])}"]


def test_folders_are_spelled_as_hudi_spells_them(spark: Any, table_path: str) -> None:
    """The vector of the format's description."""
    cities = ["a/b c:d=e%é\t{x}[y]^~", "", "x"]
    write(trips(spark, *rows_of([*cities])).coalesce(1), table_path, {**BULK, HIVE_STYLE: True, URL_ENCODE: True})
    assert folders(table_path) == {
        "city=a%2Fb c%3Ad%3De%25é%09%7Bx}%5By%5D%5E~",
        "city=__HIVE_DEFAULT_PARTITION__",
        "city=x",
    }
    paths = {r[0] for r in load(spark, table_path).select("_hoodie_partition_path").collect()}
    assert paths == folders(table_path)


def test_null_and_empty_values_share_a_folder_and_are_read_back_as_written(spark: Any, table_path: str) -> None:
    write(trips(spark, *rows_of([None, "", "x"])).coalesce(1), table_path)
    assert folders(table_path) == {"__HIVE_DEFAULT_PARTITION__", "x"}
    frame = load(spark, table_path)
    assert snapshot(spark, table_path) == sorted(rows_of([None, "", "x"]), key=repr)
    assert [r.id for r in frame.where("city is null").collect()] == ["k0"]
    assert [r.id for r in frame.where("city = ''").collect()] == ["k1"]
    assert [r.id for r in frame.where("city = 'x'").collect()] == ["k2"]


def test_a_slash_makes_folders_where_values_are_not_escaped(spark: Any, table_path: str) -> None:
    rows = rows_of(["2024/01/05", "2024/02/06"])
    write(trips(spark, *rows).coalesce(1), table_path)
    assert folders(table_path) == {"2024/01/05", "2024/02/06"}
    assert snapshot(spark, table_path) == rows
    spoil(f for f in base_files(table_path) if "02" in f.parts)
    assert [r.id for r in load(spark, table_path).where("city = '2024/01/05'").collect()] == ["k0"]


def test_values_of_different_depth_are_read_too(spark: Any, table_path: str) -> None:
    rows = rows_of(["x", "a/b", "c/d/e"])
    write(trips(spark, *rows).coalesce(1), table_path)
    assert snapshot(spark, table_path) == rows
    assert [r.id for r in load(spark, table_path).where("city = 'a/b'").collect()] == ["k1"]


BAD = {
    "parent": "..",
    "self": ".",
    "climbing": "a/../../b",
    "absolute": "/etc",
    "slash": "/",
    "trailing": "a/",
    "double": "a//b",
    "own folder": ".hoodie",
    "own folder below": "a/.hoodie/b",
    "metafile": ".hoodie_partition_metadata",
    "nul": "a\0b",
    "newline": "a\nb",
    "delete": "\x7f",
    "300": "x" * 300,
    "256 bytes": "é" * 128,
}


@pytest.mark.parametrize(
    ("operation", "value"),
    [*(("bulk_insert", v) for v in BAD.values()), *(("insert", BAD[k]) for k in ("parent", "nul", "300"))],
    ids=[*BAD, "insert-parent", "insert-nul", "insert-300"],
)
def test_a_value_that_cannot_be_a_folder_is_refused_and_the_table_is_untouched(
    spark: Any, made: str, operation: str, value: str
) -> None:
    before, outside = state_of(made), state_of(Path(made).parent)
    with pytest.raises(RecordKeyError, match="partition path"):
        write(
            trips(spark, ("x", "new", 7, 0.5), ("y", "berlin", 8, 0.5), ("z", value, 9, 0.5)),
            made,
            {**BULK, OPERATION: operation},
        )
    assert state_of(made) == before
    assert state_of(Path(made).parent) == outside


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a")])
def test_a_partition_inside_another_is_refused(spark: Any, table_path: str, first: str, second: str) -> None:
    """No reader looks for partitions below a partition."""
    write(trips(spark, *rows_of([first])), table_path)
    before = state_of(table_path)
    for options in (BULK, INSERT):
        with pytest.raises(PenstockError, match="inside"):
            write(trips(spark, *rows_of([second])), table_path, options)
        assert state_of(table_path) == before


def test_a_partition_inside_another_of_the_same_batch_is_refused(spark: Any, table_path: str) -> None:
    with pytest.raises(PenstockError, match="inside"):
        write(trips(spark, *rows_of(["a", "a/b"])), table_path)
    assert not Path(table_path).exists()


@pytest.mark.parametrize("hive", [False, True], ids=["plain", "hive"])
def test_several_fields_make_several_folders(spark: Any, table_path: str, hive: bool) -> None:
    rows = [("a", "x", 1, 0.5), ("b", "x", 2, 0.5), ("c", "y", 1, 0.5), ("d", None, 1, 0.5)]
    write(trips(spark, *rows).coalesce(1), table_path, {**BULK, PARTITION: "city,ts", HIVE_STYLE: hive})
    null = "__HIVE_DEFAULT_PARTITION__"
    expected = {"city=x/ts=1", "city=x/ts=2", "city=y/ts=1", f"city={null}/ts=1"} if hive else {"x/1", "x/2", "y/1", f"{null}/1"}
    assert folders(table_path) == expected
    assert snapshot(spark, table_path) == sorted(rows, key=repr)
    frame = load(spark, table_path)
    assert [r.id for r in frame.where("city = 'x' and ts = 2").collect()] == ["b"]
    assert sorted(r.id for r in frame.where("ts = 1").collect()) == ["a", "c", "d"]
    spoil(f for f in base_files(table_path) if f.parent.name not in ("2", "ts=2"))
    assert [r.id for r in frame.where("ts = 2").collect()] == ["b"]


TYPED = {
    "int": (1, -7),
    "bigint": (2**40, -1),
    "boolean": ("true", "false"),
    "date": ("date'2024-02-29'", "date'1969-12-31'"),
    "decimal(10,2)": ("12.30", "-0.05"),
    "double": ("1.5D", "1e10D"),
    "timestamp": ("timestamp'2024-02-29 12:00:00'", "timestamp'1969-12-31 23:59:59.5'"),
    "smallint": (5, -5),
}
PYTHON = {
    "boolean": (True, False),
    "date": (date(2024, 2, 29), date(1969, 12, 31)),
    "decimal(10,2)": (Decimal("12.30"), Decimal("-0.05")),
    "double": (1.5, 1e10),
    "timestamp": (datetime(2024, 2, 29, 12), datetime(1969, 12, 31, 23, 59, 59, 500000)),
}


@pytest.mark.parametrize("kind", TYPED)
def test_a_partition_column_keeps_its_type_and_is_found_by_filters(spark: Any, table_path: str, kind: str) -> None:
    one, two = TYPED[kind]
    frame = spark.sql(
        f"select 'a' id, cast({one} as {kind}) p union all select 'b', cast({two} as {kind}) union all select 'c', null"
    )
    write(frame.coalesce(1), table_path, {NAME: "t", KEY: "id", PARTITION: "p", OPERATION: "bulk_insert"})
    found = load(spark, table_path)
    assert found.schema["p"].dataType.simpleString() == ("int" if kind == "smallint" else kind)
    first, second = PYTHON.get(kind, TYPED[kind])
    assert sorted_rows(found.select("id", "p")) == [("a", first), ("b", second), ("c", None)]
    assert [r.id for r in found.where(f"p = cast({one} as {kind})").collect()] == ["a"]
    assert [r.id for r in found.where("p is null").collect()] == ["c"]
    assert len(folders(table_path)) == 3


def test_partition_columns_can_be_left_out_of_the_files(spark: Any, table_path: str) -> None:
    options = {**BULK, PARTITION: "city,ts", HIVE_STYLE: "true", "hoodie.datasource.write.drop.partition.columns": "true"}
    write(trips(spark, *SIX, ("n", None, 7, 0.5)), table_path, options)
    write(trips(spark, ("g", "rome", 9, 0.5)), table_path, {OPERATION: "insert"})
    assert all(set(pq.read_schema(f).names) & {"city", "ts"} == set() for f in base_files(table_path))
    frame = load(spark, table_path)
    assert sorted_rows(frame.select("id", "city", "ts").where("id in ('a', 'g', 'n')")) == [
        ("a", "berlin", "1"),
        ("g", "rome", "9"),
        ("n", None, "7"),
    ]
    spoil(f for f in base_files(table_path) if "city=rome" not in f.parts)
    assert [r.id for r in frame.where("city = 'rome'").collect()] == ["g"]


# --- partitionBy


@pytest.mark.parametrize("how", ["call", "list", "save"])
def test_partition_by_names_the_partition_columns(spark: Any, table_path: str, how: str) -> None:
    options = {NAME: "t", KEY: "id", OPERATION: "bulk_insert"}
    writer = trips(spark, *SIX).write.format("hudi").options(**options).mode("append")
    if how == "call":
        writer.partitionBy("city", "ts").save(table_path)
    elif how == "list":
        writer.partitionBy(["city", "ts"]).save(table_path)
    else:
        writer.save(table_path, partitionBy=["city", "ts"])
    assert len(folders(table_path)) == 6
    assert "berlin/1" in folders(table_path)


def test_the_option_wins_over_partition_by(spark: Any, table_path: str) -> None:
    trips(spark, *SIX).write.format("hudi").options(**BULK).partitionBy("ts").mode("append").save(table_path)
    assert folders(table_path) == {"berlin", "paris", "tokyo"}


def test_partition_by_on_a_table_must_be_the_tables(spark: Any, made: str, table_path: str) -> None:
    table = shutil.copytree(made, table_path)
    options = {NAME: "trips", KEY: "id", OPERATION: "bulk_insert"}
    with pytest.raises(OptionError, match="PartitionPath:\tts\tcity"):
        trips(spark, SIX[0]).write.format("hudi").options(**options).partitionBy("ts").mode("append").save(table)
    trips(spark, ("g", "rome", 7, 0.5)).write.format("hudi").options(**options).partitionBy("city").mode("append").save(table)
    assert "rome" in folders(table)


def test_partition_by_of_a_custom_key_generator_gets_the_simple_type(spark: Any, table_path: str) -> None:
    options = {NAME: "t", KEY: "id", OPERATION: "bulk_insert"}
    generator = {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator"}
    writer = trips(spark, *SIX).write.format("hudi").options(**options, **generator)
    writer.partitionBy("city").mode("append").save(table_path)
    assert folders(table_path) == {"berlin", "paris", "tokyo"}


def test_a_nested_field_can_be_the_partition(spark: Any, table_path: str) -> None:
    frame = spark.sql(
        "select 'a' id, named_struct('city', 'x', 'n', 1) at union all select 'b', named_struct('city', 'y', 'n', 2)"
    )
    options = {NAME: "t", KEY: "id", PARTITION: "at.city", OPERATION: "bulk_insert", HIVE_STYLE: "true"}
    write(frame.coalesce(1), table_path, options)
    assert folders(table_path) == {"at.city=x", "at.city=y"}
    assert [r.id for r in load(spark, table_path).where("at.city = 'y'").collect()] == ["b"]


def test_hudi_reads_the_values_of_a_time_based_key_as_they_were(spark: Any, table_path: str) -> None:
    options = {
        **BULK,
        PARTITION: "ts",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    rows = [("a", "x", 0, 0.5), ("b", "x", 1, 0.5), ("c", "x", 86_400, 0.5)]
    write(values(spark, "id string, city string, ts bigint, fare double", *rows).coalesce(1), table_path, options)
    assert folders(table_path) == {"1970-01-01", "1970-01-02"}
    assert snapshot(spark, table_path) == rows
    assert [r.id for r in load(spark, table_path).where("ts = 1").collect()] == ["b"]
