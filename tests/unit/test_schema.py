"""Schemas in their three forms, against the schemas in Hudi's commits and footers, and how they evolve."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from penstock.errors import SchemaError
from penstock.formats.properties import read_properties
from penstock.schema import (
    META_COLUMNS,
    arrow_to_avro,
    avro_text,
    avro_to_arrow,
    avro_to_spark,
    evolve,
    record_names,
    spark_to_avro,
    with_meta_columns,
    with_storage_types,
    without_meta_columns,
)
from tests.unit.golden import NAMES, golden_files

TABLES = [name for name in NAMES if name != "cow_v6_empty"]

EVERY_ARROW_TYPE = pa.schema(
    [
        pa.field("bool", pa.bool_()),
        pa.field("int", pa.int32()),
        pa.field("long", pa.int64(), nullable=False),
        pa.field("float", pa.float32()),
        pa.field("double", pa.float64()),
        pa.field("string", pa.string()),
        pa.field("binary", pa.binary()),
        pa.field("date", pa.date32()),
        pa.field("micros", pa.timestamp("us", "UTC")),
        pa.field("millis", pa.timestamp("ms", "UTC")),
        pa.field("local_micros", pa.timestamp("us")),
        pa.field("local_millis", pa.timestamp("ms")),
        pa.field("small_decimal", pa.decimal128(10, 2)),
        pa.field("great_decimal", pa.decimal128(38, 38)),
        pa.field("list", pa.list_(pa.field("element", pa.decimal128(5, 1), nullable=False))),
        pa.field("map", pa.map_(pa.string(), pa.field("value", pa.list_(pa.field("element", pa.int32()))))),
        pa.field(
            "struct",
            pa.struct(
                [
                    pa.field("s", pa.struct([pa.field("d", pa.decimal128(3, 0))])),
                    pa.field("l", pa.list_(pa.field("element", pa.struct([pa.field("x", pa.int64(), nullable=False)])))),
                ]
            ),
        ),
    ]
)

DEFAULT = {"set_null_for_missing": False, "allow_drop": False, "reconcile": False, "validate": False}


def evolved(table: Any, incoming: Any, **options: Any) -> dict[str, Any]:
    """Call `evolve` with all options off except the given ones."""
    return evolve(table, incoming, **{**DEFAULT, **options})


def commit_schema(name: str) -> str:
    """Return the schema in the newest commit of a golden table."""
    commits = {path: data for path, data in golden_files(name, ".hoodie/*commit").items() if path.startswith(".hoodie/")}
    schema: str = json.loads(commits[max(commits)])["extraMetadata"]["schema"]
    return schema


def base_files(name: str) -> list[pq.ParquetFile]:
    files = [pq.ParquetFile(io.BytesIO(data)) for data in golden_files(name, "*.parquet").values()]
    assert files
    return files


def avro(**columns: Any) -> dict[str, Any]:
    """Return an Avro schema; a type that ends with ! is not nullable."""
    return arrow_to_avro(pa.schema([_arrow_field(name, kind) for name, kind in columns.items()]), "t")


def _arrow_field(name: str, kind: Any) -> pa.Field:
    if isinstance(kind, dict):
        return pa.field(name, pa.struct([_arrow_field(inner, part) for inner, part in kind.items()]))
    if isinstance(kind, list):
        return pa.field(name, pa.list_(_arrow_field("element", kind[0])))
    if isinstance(kind, pa.DataType):
        return pa.field(name, kind)
    return pa.field(name, pa.type_for_alias(kind.removesuffix("!")), nullable=not kind.endswith("!"))


def columns_of(schema: dict[str, Any]) -> dict[str, str]:
    """Return the type of each column as Spark shows it, with ! for not null."""
    struct = T.StructType.fromJson(avro_to_spark(schema))
    return {f.name: f.dataType.simpleString() + ("" if f.nullable else "!") for f in struct.fields}


# Hudi's own schemas


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_of_a_commit_survives_arrow_letter_for_letter(name: str) -> None:
    text = commit_schema(name)
    table = json.loads(text)["namespace"].removeprefix("hoodie.")

    assert avro_text(arrow_to_avro(avro_to_arrow(text), table)) == text


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_of_a_commit_survives_spark_letter_for_letter(name: str) -> None:
    text = commit_schema(name)
    struct = T.StructType.fromJson(avro_to_spark(text))
    table = json.loads(text)["namespace"].removeprefix("hoodie.")

    assert avro_text(spark_to_avro(struct.jsonValue(), table)) == text


@pytest.mark.parametrize("name", TABLES)
def test_the_schema_with_meta_columns_is_the_one_in_the_footers(name: str) -> None:
    text = commit_schema(name)

    for file in base_files(name):
        footer = file.metadata.metadata
        if b"parquet.avro.schema" in footer:
            assert avro_text(with_meta_columns(text)) == footer[b"parquet.avro.schema"].decode()
            assert avro_text(without_meta_columns(footer[b"parquet.avro.schema"].decode())) == text


@pytest.mark.parametrize("name", TABLES)
def test_base_files_of_hudi_hold_the_types_of_our_arrow_schema(name: str) -> None:
    expected = avro_to_arrow(with_meta_columns(commit_schema(name)))

    for file in base_files(name):
        stored = with_storage_types(file.schema_arrow)
        assert stored.names == expected.names
        assert [f.type for f in stored] == [f.type for f in expected]


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_of_create_table_with_null_last_is_the_same_schema(name: str) -> None:
    (data,) = golden_files(name, "hoodie.properties").values()
    created = read_properties(data)["hoodie.table.create.schema"]

    assert '","null"]' in created
    if name in TABLES:
        assert avro_to_arrow(created).equals(avro_to_arrow(commit_schema(name)))
        assert avro_text(evolved(None, created)) == commit_schema(name)


@pytest.mark.parametrize("name", TABLES)
def test_fastavro_accepts_our_schemas(name: str) -> None:
    fastavro.parse_schema(with_meta_columns(commit_schema(name)))


# Names


@pytest.mark.parametrize(
    ("table", "record", "namespace"),
    [
        ("trips", "trips_record", "hoodie.trips"),
        ("my-table.v2 é", "my__table__v2_____record", "hoodie.my__table__v2____"),
        ("2trips", "__trips_record", "hoodie.__trips"),
        ("-2", "__2_record", "hoodie.__2"),
        ("_x", "_x_record", "hoodie._x"),
    ],
)
def test_the_record_is_named_after_the_table(table: str, record: str, namespace: str) -> None:
    assert record_names(table) == (record, namespace)


def test_nested_types_are_named_after_their_place() -> None:
    schema = avro(a=[{"b": {"c": pa.decimal128(7, 2)}}])

    element = schema["fields"][0]["type"][1]["items"][1]
    assert (element["namespace"], element["name"]) == ("hoodie.t.t_record", "a")
    inner = element["fields"][0]["type"][1]
    assert (inner["namespace"], inner["name"]) == ("hoodie.t.t_record.a", "b")
    assert inner["fields"][0]["type"][1] == {
        "type": "fixed",
        "name": "fixed",
        "namespace": "hoodie.t.t_record.a.b.c",
        "size": 4,
        "logicalType": "decimal",
        "precision": 7,
        "scale": 2,
    }


@pytest.mark.parametrize("name", ["a", "_", "_1", "größe", "名前", "x٣", "A9_"])
def test_names_that_avro_accepts_pass(name: str) -> None:
    assert avro_to_arrow(avro(**{name: "int32"})).names == [name]


@pytest.mark.parametrize("name", ["", "a b", "a.b", "1a", "a-b", "a`b", 'a"b', "a$", "a²", "😀", "𝒳x", "٣x", "a\n"])
@pytest.mark.parametrize("nested", [False, True])
def test_names_that_avro_refuses_are_refused_with_the_column_name(name: str, nested: bool) -> None:
    kind = pa.struct([pa.field(name, pa.int32())]) if nested else pa.int32()
    top = "outer" if nested else name

    with pytest.raises(SchemaError, match="Avro") as error:
        arrow_to_avro(pa.schema([pa.field(top, kind)]), "t")
    assert repr(f"outer.{name}" if nested else name) in str(error.value)


def test_columns_that_differ_only_by_case_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"'Id' and 'ID' differ only by case"):
        avro(Id="int32", x="int32", ID="int32")
    with pytest.raises(SchemaError, match=r"'s.Id' and 's.id'"):
        avro(s=[{"Id": "int32", "id": "int32"}])


def test_a_column_name_that_occurs_twice_is_refused() -> None:
    with pytest.raises(SchemaError, match="'id' occurs twice"):
        arrow_to_avro(pa.schema([pa.field("id", pa.int32())] * 2), "t")


# Arrow


def test_every_arrow_type_survives_avro() -> None:
    assert avro_to_arrow(arrow_to_avro(EVERY_ARROW_TYPE, "t")).equals(EVERY_ARROW_TYPE)


def test_fastavro_parses_every_avro_schema_we_write() -> None:
    rows = [
        {"long": 1, "list": [], "map": {"a": [None]}, "struct": {"s": None, "l": [{"x": 2}]}},
        {"long": 2},
    ]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(arrow_to_avro(EVERY_ARROW_TYPE, "t")), rows)

    assert [row["long"] for row in fastavro.reader(io.BytesIO(out.getvalue()))] == [1, 2]


@pytest.mark.parametrize(
    ("given_type", "stored"),
    [
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC")),
        (pa.timestamp("ms", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.decimal256(20, 3), pa.decimal128(20, 3)),
        (pa.large_list(pa.int8()), pa.list_(pa.field("element", pa.int32()))),
        (pa.list_(pa.int8(), 3), pa.list_(pa.field("element", pa.int32()))),
        (
            pa.map_(pa.large_string(), pa.field("value", pa.int8(), nullable=False)),
            pa.map_(pa.string(), pa.field("value", pa.int32())),
        ),
        (pa.struct([pa.field("a", pa.int8(), nullable=False)]), pa.struct([pa.field("a", pa.int32())])),
    ],
)
def test_files_hold_types_that_every_reader_knows(given_type: pa.DataType, stored: pa.DataType) -> None:
    schema = with_storage_types(pa.schema([pa.field("c", given_type, nullable=False)]))

    assert schema.equals(pa.schema([pa.field("c", stored)]))
    if pa.types.is_list(stored):
        assert schema.field("c").type.value_field.name == "element"


@pytest.mark.parametrize(
    "kind",
    [
        pa.null(),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.uint64(),
        pa.decimal256(39, 0),
        pa.decimal128(5, -1),
    ],
)
@pytest.mark.parametrize("wrap", [lambda kind: kind, pa.list_, lambda kind: pa.struct([("x", kind)])])
def test_types_that_a_table_cannot_hold_are_refused_with_the_column_name(kind: pa.DataType, wrap: Any) -> None:
    with pytest.raises(SchemaError, match="'c"):
        avro(c=wrap(kind))


def test_maps_have_string_keys() -> None:
    with pytest.raises(SchemaError, match=r"'s.m' is a map with keys of type int32"):
        avro(s={"m": pa.map_(pa.int32(), pa.string())})


# Avro that others wrote


def test_named_types_that_occur_twice_are_resolved_and_written_once() -> None:
    schema = {
        "type": "record",
        "name": "com.foo.Trip",
        "fields": [
            {"name": "home", "type": {"type": "record", "name": "Address", "fields": [{"name": "zip", "type": "int"}]}},
            {"name": "work", "type": ["Address", "null"]},
            {"name": "others", "type": {"type": "array", "items": "com.foo.Address"}},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
            {"name": "hash2", "type": ["null", "Hash"], "default": None},
        ],
    }
    address = pa.struct([pa.field("zip", pa.int32(), nullable=False)])

    assert avro_to_arrow(schema).field("work").type == address
    assert avro_to_arrow(schema).field("others").type.value_type == address
    assert avro_to_arrow(schema).field("hash2").type == pa.binary(4)
    result = evolved(schema, avro(more="int32"), reconcile=True)
    assert result["namespace"] == "com.foo"
    assert [f["type"][1] for f in result["fields"][1:3]] == [
        "com.foo.Address",
        {"type": "array", "items": "com.foo.Address"},
    ]
    assert avro_to_arrow(fastavro.schema.to_parsing_canonical_form(result)).names == [
        *("home", "work", "others", "hash", "hash2", "more")
    ]


def test_logical_types_enums_and_decimals_in_bytes_are_read() -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED"]}, "default": "RED"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
            {"name": "millis", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
            {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "java", "type": ["null", {"type": "string", "avro.java.string": "String"}], "default": None},
            {"name": "odd", "type": {"type": "int", "logicalType": "made-up"}},
        ],
    }

    assert [f.type for f in avro_to_arrow(schema)] == [
        pa.string(),
        pa.decimal128(20, 4),
        pa.timestamp("ms", "UTC"),
        pa.timestamp("ms"),
        pa.time64("us"),
        pa.string(),
        pa.string(),
        pa.int32(),
    ]
    assert columns_of(schema) == {
        "color": "string!",
        "price": "decimal(20,4)!",
        "millis": "timestamp!",
        "local": "timestamp_ntz!",
        "time": "bigint!",
        "id": "string!",
        "java": "string",
        "odd": "int!",
    }


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "[]",
        '"string"',
        '{"type":"record"}',
        '{"type":"record","name":"r","fields":[{"name":"a"}]}',
        '{"type":"record","name":"r","fields":[{"type":"int"}]}',
        '{"type":"record","name":"r","fields":["a"]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":"strin"}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":7}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":["int","string"]}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":["null"]}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":"null"}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":["null","r"]}]}',
        '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array"}}]}',
    ],
)
def test_a_text_that_is_no_schema_of_a_table_is_a_schema_error(broken: str) -> None:
    with pytest.raises(SchemaError):
        avro_to_arrow(broken)


# Meta columns


def test_meta_columns_are_first_and_occur_once() -> None:
    schema = avro(id="int32")
    extended = with_meta_columns(with_meta_columns(schema))

    assert [f["name"] for f in extended["fields"]] == [*META_COLUMNS, "id"]
    assert without_meta_columns(extended) == schema
    assert schema == avro(id="int32")


def test_the_operation_column_is_a_meta_column_and_the_delete_flag_is_not() -> None:
    schema = avro(_hoodie_operation="string", _hoodie_is_deleted="bool", id="int32")

    assert columns_of(without_meta_columns(schema)) == {"_hoodie_is_deleted": "boolean", "id": "int"}


# Spark


def test_every_spark_type_is_stored_and_read_back() -> None:
    struct = T.StructType(
        [
            T.StructField("boolean", T.BooleanType()),
            T.StructField("byte", T.ByteType()),
            T.StructField("short", T.ShortType(), nullable=False),
            T.StructField("char", T.CharType(3)),
            T.StructField("varchar", T.VarcharType(3)),
            T.StructField("decimal", T.DecimalType(38, 18)),
            T.StructField("timestamp", T.TimestampType()),
            T.StructField("ntz", T.TimestampNTZType()),
            T.StructField("array", T.ArrayType(T.ArrayType(T.BinaryType(), False))),
            T.StructField("map", T.MapType(T.StringType(), T.StructType([T.StructField("d", T.DateType())]), False)),
        ]
    )

    assert columns_of(spark_to_avro(struct.jsonValue(), "t")) == {
        "boolean": "boolean",
        "byte": "int",
        "short": "int!",
        "char": "string",
        "varchar": "string",
        "decimal": "decimal(38,18)",
        "timestamp": "timestamp",
        "ntz": "timestamp_ntz",
        "array": "array<array<binary>>",
        "map": "map<string,struct<d:date>>",
    }
    back = T.StructType.fromJson(avro_to_spark(spark_to_avro(struct.jsonValue(), "t")))
    assert [back["array"], back["map"]] == [struct["array"], struct["map"]]


def test_comments_of_columns_are_kept() -> None:
    inner = T.StructType([T.StructField("x", T.IntegerType(), True, {"comment": "inside é", "other": 1})])
    struct = T.StructType([T.StructField("s", inner, True, {"comment": "outside"})])
    schema = spark_to_avro(struct.jsonValue(), "t")

    assert '"doc":"outside"' in avro_text(schema)
    back = T.StructType.fromJson(avro_to_spark(schema))
    assert back["s"].metadata == {"comment": "outside"}
    assert back["s"].dataType["x"].metadata == {"comment": "inside é"}


@pytest.mark.parametrize(
    "kind",
    [
        T.NullType(),
        T.DayTimeIntervalType(),
        T.YearMonthIntervalType(),
        T.MapType(T.IntegerType(), T.StringType()),
        T.MapType(T.StructType([]), T.StringType()),
        T.ArrayType(T.NullType()),
    ],
)
def test_spark_types_that_a_table_cannot_hold_are_refused_with_the_column_name(kind: T.DataType) -> None:
    with pytest.raises(SchemaError, match="'c"):
        spark_to_avro(T.StructType([T.StructField("c", kind)]).jsonValue(), "t")


@pytest.mark.parametrize("kind", ["variant", "interval", "time(6)", "geometry(4326)", {"type": "udt", "class": "x"}])
def test_newer_spark_types_are_refused_with_the_column_name(kind: Any) -> None:
    with pytest.raises(SchemaError, match="'c' has the type"):
        spark_to_avro({"type": "struct", "fields": [{"name": "c", "type": kind, "nullable": True}]}, "t")


def test_a_string_with_a_collation_is_a_string() -> None:
    field = {"name": "c", "type": "string collate UNICODE_CI", "nullable": True, "metadata": {}}

    assert columns_of(spark_to_avro({"type": "struct", "fields": [field]}, "t")) == {"c": "string"}


# Evolution


def test_the_first_write_determines_the_schema() -> None:
    incoming = with_meta_columns(avro(id="int32!", name="string"))

    assert evolved(None, incoming) == avro(id="int32!", name="string")


def test_a_write_with_the_same_schema_does_not_change_it() -> None:
    schema = arrow_to_avro(EVERY_ARROW_TYPE, "t")

    assert avro_text(evolved(with_meta_columns(schema), schema)) == avro_text(schema)


def test_the_record_keeps_the_name_it_has_in_the_table() -> None:
    table = arrow_to_avro(pa.schema([_arrow_field("s", {"a": "int32"})]), "old")
    incoming = arrow_to_avro(pa.schema([_arrow_field("s", {"a": "int32"}), _arrow_field("n", {"b": "int32"})]), "new")

    result = evolved(table, incoming)

    assert result["namespace"] == "hoodie.old"
    assert [f["type"][1]["namespace"] for f in result["fields"]] == ["hoodie.old.old_record"] * 2


def test_new_columns_keep_their_place_and_are_nullable() -> None:
    result = evolved(avro(a="int32", b={"x": "int32"}), avro(n="string!", b={"y": "int64", "x": "int32"}, a="int32"), **DEFAULT)

    assert columns_of(result) == {"n": "string", "b": "struct<y:bigint,x:int>", "a": "int"}


@pytest.mark.parametrize(("table", "incoming"), [("int32!", "int32"), ("int32", "int32!")])
def test_a_column_is_nullable_if_either_side_is(table: str, incoming: str) -> None:
    assert columns_of(evolved(avro(a=table), avro(a=incoming))) == {"a": "int"}


DECIMAL = pa.decimal128


@pytest.mark.parametrize(
    ("incoming", "table"),
    [
        ("int32", "int64"),
        ("int32", "float32"),
        ("int32", "float64"),
        ("int32", "string"),
        ("int32", DECIMAL(10, 2)),
        ("int64", "float32"),
        ("int64", "float64"),
        ("int64", "string"),
        ("int64", DECIMAL(20, 0)),
        ("float32", "float64"),
        ("float32", "string"),
        ("float32", DECIMAL(10, 2)),
        ("float64", "string"),
        ("float64", DECIMAL(10, 2)),
        (pa.date32(), "string"),
        ("binary", "string"),
        ("string", "binary"),
        ("string", pa.date32()),
        ("string", DECIMAL(10, 2)),
        (DECIMAL(10, 2), "string"),
        (DECIMAL(10, 2), DECIMAL(20, 2)),
        (DECIMAL(10, 2), DECIMAL(12, 4)),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
    ],
)
@pytest.mark.parametrize("wrap", [lambda kind: kind, lambda kind: [kind], lambda kind: {"x": [{"y": kind}]}])
def test_values_are_cast_up_to_the_type_of_the_table_at_any_depth(incoming: Any, table: Any, wrap: Any) -> None:
    assert evolved(avro(a=wrap(table)), avro(a=wrap(incoming))) == avro(a=wrap(table))


@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        ("int32", "int64"),
        ("int32", "float32"),
        ("int32", "float64"),
        ("int64", "float32"),
        ("int64", "float64"),
        ("float32", "float64"),
        ("int32", "string"),
        ("int64", "string"),
        ("float32", "string"),
        ("float64", "string"),
        (DECIMAL(10, 2), DECIMAL(11, 2)),  # as many bytes
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
    ],
)
@pytest.mark.parametrize("wrap", [lambda kind: kind, lambda kind: [kind], lambda kind: {"x": [{"y": kind}]}])
def test_the_table_widens_where_old_files_can_still_be_read(table: Any, incoming: Any, wrap: Any) -> None:
    assert evolved(avro(a=wrap(table)), avro(a=wrap(incoming))) == avro(a=wrap(incoming))


@pytest.mark.parametrize(
    ("table", "incoming", "named"),
    [
        ("bool", "string", "boolean in the table and string in the data"),
        ("string", "bool", "string in the table and boolean in the data"),
        (pa.timestamp("us", "UTC"), "string", "timestamp in the table and string in the data"),
        ("int32", "bool", "boolean"),
        ("bool", "int32", "int in the data"),
        (pa.date32(), "int32", "date in the table and int"),
        ("int64", pa.timestamp("us", "UTC"), "bigint in the table and timestamp"),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "timestamp_ntz"),
        (DECIMAL(10, 2), DECIMAL(20, 2), r"decimal\(20,2\)"),
        (DECIMAL(10, 2), DECIMAL(10, 3), r"decimal\(10,3\)"),
        (DECIMAL(10, 2), "bool", "boolean"),
        ("int32", {"x": "int32"}, "struct<x:int>"),
        (["int32"], "int32", "array<int>"),
        (pa.map_(pa.string(), pa.int32()), {"x": "int32"}, "map<string,int>"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"reconcile": True}, {"allow_drop": True}, {"set_null_for_missing": True}])
def test_a_type_that_does_not_fit_is_an_error_with_both_types(
    table: Any, incoming: Any, named: str, options: dict[str, bool]
) -> None:
    with pytest.raises(SchemaError, match=f"'s.a' is .*{named}"):
        evolved(avro(s={"a": table}), avro(s={"a": incoming}), **options)


@pytest.mark.parametrize("ordering", ["ts", "s.at"])
def test_numbers_of_the_ordering_column_do_not_become_text(ordering: str) -> None:
    table = avro(ts="int64", s={"at": "int64"})
    with pytest.raises(SchemaError, match=f"'{ordering}' is bigint in the table and string in the data, and text orders"):
        evolved(table, avro(ts="string", s={"at": "string"}), ordering=ordering)
    assert evolved(avro(ts="string"), avro(ts="int64"), ordering="ts") == avro(ts="string")


def test_binary_fits_a_column_of_fixed_length() -> None:
    fixed = {"type": "fixed", "name": "Hash", "size": 16}
    table = {"type": "record", "name": "r", "fields": [{"name": "h", "type": fixed}]}

    assert avro_to_arrow(evolved(table, avro(h="binary"))).field("h").type == pa.binary(16)


def test_the_error_of_missing_columns_names_all_with_their_types_and_the_fix() -> None:
    table = avro(a="int32", b="string", s={"x": "int64", "y": "int32"}, l=[{"z": "date32"}])

    with pytest.raises(SchemaError) as error:
        evolved(table, avro(a="int32", s={"y": "int32"}, l=[{"w": "int32"}]))

    message = str(error.value)
    assert "'s.x' (bigint), 'l.element.z' (date), 'b' (string)" in message
    assert "hoodie.write.set.null.for.missing.columns=true" in message
    assert "hoodie.datasource.write.schema.allow.auto.evolution.column.drop=true" in message


def test_missing_and_unfit_columns_are_reported_in_one_message() -> None:
    with pytest.raises(SchemaError, match=r"'b' \(int\).*'a' is int in the table and boolean"):
        evolved(avro(a="int32", b="int32"), avro(a="bool"))


def test_a_column_in_another_case_is_not_a_new_one() -> None:
    with pytest.raises(SchemaError, match="'ID' differs only by case from 'id' of the table"):
        evolved(avro(id="int32", x="int32"), avro(ID="int32", x="int32"), reconcile=True)


def test_missing_columns_are_filled_on_request_at_their_place_in_the_table() -> None:
    table = avro(a="int32", b="string!", s={"x": "int32", "y": "int32"}, c="int32")
    incoming = avro(n1="int32", c="int32", s={"z": "int32", "y": "int32"}, n2="int32", a="int64", n3="int32")

    result = evolved(table, incoming, set_null_for_missing=True)

    # n1 preceded c, s and a: it stands before the first of them in the table; n2 preceded a; n3 nothing.
    assert columns_of(result) == {
        "n1": "int",
        "n2": "int",
        "a": "bigint",
        "b": "string",
        "s": "struct<x:int,z:int,y:int>",
        "c": "int",
        "n3": "int",
    }


def test_filling_keeps_the_order_of_the_table_even_if_no_column_is_missing() -> None:
    result = evolved(avro(a="int32", b="int32"), avro(b="int32", a="int32"), **{**DEFAULT, "set_null_for_missing": True})

    assert list(columns_of(result)) == ["a", "b"]


def test_missing_columns_are_dropped_when_allowed() -> None:
    result = evolved(
        avro(a="int32", s={"x": "int32", "y": "int32"}, b="int32"),
        avro(s={"y": "int32"}, a="int32"),
        **{**DEFAULT, "allow_drop": True},
    )

    assert columns_of(result) == {"s": "struct<y:int>", "a": "int"}


@pytest.mark.parametrize("options", [{"validate": True}, {"validate": True, "set_null_for_missing": True}])
def test_validation_refuses_missing_columns(options: dict[str, bool]) -> None:
    with pytest.raises(SchemaError, match="'b'"):
        evolved(avro(a="int32", b="int32"), avro(a="int32"), **options)


def test_validation_accepts_missing_columns_where_dropping_is_allowed() -> None:
    result = evolved(avro(a="int32", b="int32"), avro(a="int32"), validate=True, allow_drop=True)

    assert columns_of(result) == {"a": "int"}


def test_a_subset_of_the_columns_is_reconciled_to_the_schema_of_the_table() -> None:
    result = evolved(avro(a="int32", b="int64", c="int32"), avro(c="int32", b="int32"), **{**DEFAULT, "reconcile": True})

    assert columns_of(result) == {"a": "int", "b": "bigint", "c": "int"}


def test_additional_columns_are_reconciled_to_the_schema_of_the_data() -> None:
    result = evolved(avro(a="int32", b="int32"), avro(b="int32", n="int32", a="int32"), **{**DEFAULT, "reconcile": True})

    assert list(columns_of(result)) == ["b", "n", "a"]


def test_with_schema_on_read_additional_columns_are_reconciled_in_the_order_of_the_table() -> None:
    options = {**DEFAULT, "reconcile": True, "schema_on_read": True}
    result = evolved(avro(a="int32", b="int32"), avro(b="int32", n="int32", a="int32"), **options)
    assert list(columns_of(result)) == ["n", "a", "b"]
    at_end = evolved(avro(a="int32", b="int32"), avro(b="int32", a="int32", n="int32"), **options)
    assert list(columns_of(at_end)) == ["a", "b", "n"]


def test_reconciling_never_loses_a_column() -> None:
    result = evolved(avro(a="int32", b="int32"), avro(b="int32", n="int32"), **{**DEFAULT, "reconcile": True, "allow_drop": True})

    assert columns_of(result) == {"a": "int", "b": "int", "n": "int"}


# Properties that hold for all schemas

names = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
simple_types = st.sampled_from([f.type for f in EVERY_ARROW_TYPE if not pa.types.is_nested(f.type)])


def struct_types(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.dictionaries(names, st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(
        lambda fields: pa.struct([pa.field(name, kind, null) for name, (kind, null) in fields.items()])
    )


types = st.recursive(
    simple_types,
    lambda inner: st.one_of(
        struct_types(inner),
        st.builds(lambda kind, null: pa.list_(pa.field("element", kind, null)), inner, st.booleans()),
        st.builds(lambda kind, null: pa.map_(pa.string(), pa.field("value", kind, null)), inner, st.booleans()),
    ),
    max_leaves=8,
)
schemas = struct_types(types).map(lambda kind: pa.schema([kind.field(at) for at in range(kind.num_fields)]))


@settings(deadline=None)
@given(schemas)
def test_any_schema_survives_avro_and_is_parsed_by_fastavro(schema: pa.Schema) -> None:
    made = arrow_to_avro(schema, "t")

    assert avro_to_arrow(avro_text(made)).equals(schema)
    assert evolved(None, made) == made
    assert evolved(made, made) == made
    fastavro.parse_schema(made)
    struct = T.StructType.fromJson(avro_to_spark(made))
    again = avro_to_spark(spark_to_avro(struct.jsonValue(), "t"))
    assert again == avro_to_spark(made)


@settings(deadline=None)
@given(schemas, schemas, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_an_evolved_schema_has_every_column_of_the_data_and_evolves_no_further(
    table: pa.Schema, incoming: pa.Schema, fill: bool, drop: bool, reconcile: bool, validate: bool
) -> None:
    options = {"set_null_for_missing": fill, "allow_drop": drop, "reconcile": reconcile, "validate": validate}
    try:
        result = evolved(arrow_to_avro(table, "t"), arrow_to_avro(incoming, "t"), **options)
    except SchemaError:
        return
    assert set(columns_of(result)) >= set(incoming.names)
    assert reconcile or not fill or drop or set(columns_of(result)) >= set(table.names)
    assert evolved(result, result, **options) == result
    fastavro.parse_schema(result)
