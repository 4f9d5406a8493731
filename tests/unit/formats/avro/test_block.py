"""Avro blocks by columns, against fastavro as the writer and reader that goes record by record."""

from __future__ import annotations

import io
import json
import random
import struct
from contextlib import suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import count
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CorruptFile, SchemaError
from penstock.formats.avro import block as block_module
from penstock.formats.avro import decode as decode_module
from penstock.formats.avro.block import decode_avro_content, encode_avro_content, find_records
from penstock.formats.avro.layout import compile_layout
from penstock.formats.avro.rows import decode_rows
from penstock.schema import avro_to_arrow

LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
]
PRIMITIVES = ["boolean", "int", "long", "float", "double", "string", "bytes"]
LEAVES = st.one_of(
    st.sampled_from([*PRIMITIVES, *LOGICAL]),
    st.builds(lambda size: {"type": "fixed", "name": "?", "size": size}, st.integers(1, 20)),
    st.builds(lambda n: {"type": "enum", "name": "?", "symbols": [f"S{i}" for i in range(n)]}, st.integers(1, 100)),
    st.builds(
        lambda p, extra: {
            "type": "fixed",
            "name": "?",
            "size": _bytes_of(p) + extra,
            "logicalType": "decimal",
            "precision": p,
            "scale": p // 3,
        },
        st.integers(1, 38),
        st.integers(0, 3),
    ),
    st.builds(lambda p: {"type": "bytes", "logicalType": "decimal", "precision": p, "scale": p // 2}, st.integers(1, 38)),
)


def _bytes_of(precision: int) -> int:
    return (int(10**precision).bit_length() + 8) // 8


def _optional(kind: Any, place: int) -> Any:
    return [kind, ["null", kind], [kind, "null"], ["null", kind]][place]


def _record(kinds: list[Any]) -> dict[str, Any]:
    return {"type": "record", "name": "?", "fields": [{"name": f"c{at}", "type": kind} for at, kind in enumerate(kinds)]}


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    optional = st.builds(_optional, inner, st.integers(0, 3))
    return st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, optional),
        st.builds(lambda values: {"type": "map", "values": values}, optional),
        st.builds(_record, st.lists(optional, min_size=1, max_size=3)),
    )


TYPES = st.builds(_optional, st.recursive(LEAVES, _nested, max_leaves=4), st.integers(0, 3))
SCHEMAS = st.builds(_record, st.lists(TYPES, min_size=1, max_size=5))


def named(schema: Any) -> Any:
    """Return the schema with a different name for every named type."""
    names = count()

    def walk(kind: Any) -> Any:
        if isinstance(kind, list):
            return [walk(branch) for branch in kind]
        if not isinstance(kind, dict):
            return kind
        renamed = {}
        for key, part in kind.items():
            if part == "?":
                renamed[key] = f"n{next(names)}"
            else:
                renamed[key] = part if key == "symbols" else walk(part)
        return renamed

    return walk(json.loads(json.dumps(schema)))


def raw(schema: Any) -> Any:
    """Return the schema without logical types: fastavro then writes plain numbers and bytes."""
    if isinstance(schema, list):
        return [raw(branch) for branch in schema]
    if isinstance(schema, dict):
        return {
            key: raw(value) if key in ("type", "items", "values", "fields") else value
            for key, value in schema.items()
            if key != "logicalType"
        }
    return schema


def value(kind: Any, r: random.Random) -> Any:
    """Return a random value of a type, as fastavro takes it for the raw schema."""
    if isinstance(kind, list):
        branch = r.choice(kind)
        return None if branch == "null" else value(branch, r)
    name = kind if isinstance(kind, str) else kind["type"]
    logical = kind.get("logicalType") if isinstance(kind, dict) else None
    match name, logical:
        case "bytes" | "fixed", "decimal":
            number = r.randrange(-(10 ** kind["precision"]) + 1, 10 ** kind["precision"]) >> r.randrange(0, 70)
            size = kind["size"] if name == "fixed" else (number if number >= 0 else ~number).bit_length() // 8 + 1
            return number.to_bytes(size, "big", signed=True)
        case _, "time-millis":
            return r.randrange(86_400_000)
        case _, "time-micros":
            return r.randrange(86_400_000_000)
        case "boolean", _:
            return r.random() < 0.5
        case "int", _:
            return r.randrange(-(2**31), 2**31) >> r.randrange(32)
        case "long", _:
            return r.randrange(-(2**63), 2**63) >> r.randrange(64)
        case "float", _:
            return float(np.float32(r.uniform(-1e9, 1e9)))
        case "double", _:
            return r.uniform(-1e99, 1e99)
        case "string", _:
            return "aé€𝄞"[r.randrange(4)] * r.choice([0, 1, 20, 70])
        case "bytes", _:
            return r.randbytes(r.choice([0, 1, 63, 64, 200]))
        case "fixed", _:
            return r.randbytes(kind["size"])
        case "enum", _:
            return r.choice(kind["symbols"])
        case "array", _:
            return [value(kind["items"], r) for _ in range(r.choice([0, 1, 2, 5]))]
        case "map", _:
            return {f"k{at}": value(kind["values"], r) for at in range(r.choice([0, 1, 3]))}
        case "record", _:
            return {field["name"]: value(field["type"], r) for field in kind["fields"]}
    raise AssertionError(kind)


def block(schema: Any, records: list[dict[str, Any]]) -> bytes:
    """Return the content of an Avro block that fastavro wrote."""
    parsed = fastavro.parse_schema(raw(schema))
    out = [struct.pack(">ii", 3, len(records))]
    for record in records:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, record)
        out += [struct.pack(">i", body.tell()), body.getvalue()]
    return b"".join(out)


def by_columns(content: Any, schema: Any, **asked: Any) -> pa.Table:
    """Decode by columns whatever the size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_module, "FEWEST_FOR_COLUMNS", 0)
        patch.setattr(decode_module, "FEWEST_PER_STEP", 0)
        return decode_avro_content(content, schema, **asked)


def by_rows(content: Any, schema: Any) -> pa.Table:
    layout = compile_layout(schema)
    return decode_rows(pa.py_buffer(content), *find_records(content), layout, layout.schema)


def flat(*kinds: Any) -> dict[str, Any]:
    return named(_record(list(kinds)))


@settings(max_examples=150, deadline=None)
@given(SCHEMAS, st.integers(0, 40), st.integers(0, 2**32))
def test_both_decoders_return_the_same_table_and_encoding_restores_the_bytes(shape: Any, size: int, seed: int) -> None:
    schema = named(shape)
    r = random.Random(seed)
    records = [value(schema, r) for _ in range(size)]
    content = block(schema, records)
    table = by_columns(content, schema)
    table.validate(full=True)
    assert table.schema == avro_to_arrow(schema)
    assert table.equals(by_rows(content, schema))
    assert bytes(encode_avro_content(table, schema)) == content
    part = table.slice(size // 3, size // 2)
    assert bytes(encode_avro_content(part, schema)) == block(schema, records[size // 3 : size // 3 + size // 2])


@settings(max_examples=60, deadline=None)
@given(SCHEMAS, st.integers(1, 12), st.integers(0, 2**32), st.data())
def test_damaged_bytes_raise_corrupt_file_or_return_a_valid_table(shape: Any, size: int, seed: int, data: st.DataObject) -> None:
    schema = named(shape)
    r = random.Random(seed)
    content = bytearray(block(schema, [value(schema, r) for _ in range(size)]))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptFile):
        by_columns(bytes(content), schema).validate(full=True)


def test_a_truncated_block_is_an_error() -> None:
    schema = flat("string", ["null", "long"], {"type": "array", "items": "string"})
    content = block(schema, [{"c0": "abc", "c1": 2**40, "c2": ["x", "y"]}] * 3)
    for size in range(len(content)):
        with pytest.raises(CorruptFile):
            by_columns(content[:size], schema)


def test_values_have_the_meaning_of_their_logical_types() -> None:
    schema = flat(*LOGICAL, {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2})
    content = block(schema, [{"c0": 19_000, "c1": 1, "c2": 2, "c3": -1, "c4": -1, "c5": 1_500, "c6": 1, "c7": b"\xff\x01"}])
    row = by_columns(content, schema).to_pylist()[0]
    assert row["c0"] == date(2022, 1, 8)
    assert row["c3"] == datetime(1969, 12, 31, 23, 59, 59, 999_000, timezone.utc)
    assert row["c4"] == datetime(1969, 12, 31, 23, 59, 59, 999_999, timezone.utc)
    assert row["c5"] == datetime(1970, 1, 1, 0, 0, 1, 500_000)
    assert row["c7"] == Decimal("-2.55")


@pytest.mark.parametrize("number", [0, -1, 63, 64, -64, -65, 2**27, 2**55, 2**56, -(2**62), 2**63 - 1, -(2**63)])
def test_a_long_of_any_size_is_read_at_the_end_of_a_block(number: int) -> None:
    schema = flat("long")
    assert by_columns(block(schema, [{"c0": 5}, {"c0": number}]), schema)["c0"].to_pylist() == [5, number]


def test_only_the_wanted_columns_are_read_in_the_order_of_the_block() -> None:
    schema = flat("string", {"type": "map", "values": ["null", "double"]}, "int", {"type": "enum", "name": "?", "symbols": ["A"]})
    content = block(schema, [{"c0": "x", "c1": {"k": None, "l": 1.0}, "c2": n, "c3": "A"} for n in range(3)])
    assert by_columns(content, schema, columns=["c2", "c0", "strange"]).to_pydict() == {"c0": ["x"] * 3, "c2": [0, 1, 2]}
    assert decode_avro_content(content, schema, columns=["c2"]).to_pydict() == {"c2": [0, 1, 2]}
    assert by_columns(content, schema, columns=[]).num_rows == 3


@pytest.mark.parametrize("size", [2, 300])
def test_a_read_schema_reorders_widens_and_fills_what_is_missing(size: int) -> None:
    written = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}, {"name": "gone", "type": "long"}],
    }
    fields = [
        {"name": "new", "type": ["null", "string"], "default": None},
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "seven", "type": "long", "default": 7},
        {"name": "a", "type": ["null", "long"], "default": None},
    ]
    asked = {"type": "record", "name": "other", "fields": fields}
    table = decode_avro_content(block(written, [{"a": 1, "b": "x", "gone": 5}] * size), written, read_schema=asked)
    assert table.schema.equals(avro_to_arrow(asked))
    assert table.to_pylist() == [{"new": None, "b": "x", "seven": 7, "a": 1}] * size


def test_a_nested_record_gets_the_fields_of_the_read_schema() -> None:
    def outer(*fields: Any) -> Any:
        return {
            "type": "record",
            "name": "r",
            "fields": [{"name": "s", "type": ["null", {"type": "record", "name": "s", "fields": list(fields)}]}],
        }

    written = outer({"name": "x", "type": "int"}, {"name": "y", "type": "int"})
    asked = outer({"name": "y", "type": "long"}, {"name": "z", "type": ["null", "string"], "default": None})
    table = decode_avro_content(block(written, [{"s": {"x": 1, "y": 2}}, {"s": None}]), written, read_schema=asked)
    assert table.to_pylist() == [{"s": {"y": 2, "z": None}}, {"s": None}]


def test_lists_of_very_different_lengths_are_read() -> None:
    schema = flat({"type": "array", "items": "string"}, "int")
    records = [{"c0": ["x" * (n % 3)] * (20_000 if n == 150 else n % 2), "c1": n} for n in range(200)]
    assert decode_avro_content(block(schema, records), schema).to_pylist() == records


def test_arrays_in_several_runs_with_and_without_their_size_are_read() -> None:
    schema = flat({"type": "array", "items": "int"}, "int")
    runs = b"\x04\x02\x04" + b"\x01\x02\x06" + b"\x00"  # 1, 2; then -1 item in 1 byte: 3
    body = runs + b"\x0e"
    content = struct.pack(">ii", 3, 2) + (struct.pack(">i", len(body)) + body) * 2
    assert by_columns(content, schema).to_pylist() == [{"c0": [1, 2, 3], "c1": 7}] * 2
    assert by_rows(content, schema).to_pylist() == [{"c0": [1, 2, 3], "c1": 7}] * 2


def test_a_list_that_claims_more_items_than_there_are_bytes_is_an_error() -> None:
    schema = flat({"type": "array", "items": "double"})
    body = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
    with pytest.raises(CorruptFile, match="claims more items"):
        by_columns(struct.pack(">iii", 3, 1, len(body)) + body, schema)


def test_a_block_that_claims_more_records_than_there_are_bytes_is_an_error() -> None:
    with pytest.raises(CorruptFile, match="claims 2147483647 records"):
        decode_avro_content(struct.pack(">iii", 3, 2**31 - 1, 0), flat("int"))


def test_a_string_that_is_not_utf_8_is_an_error() -> None:
    schema = flat("string")
    content = block(schema, [{"c0": "é"}]).replace("é".encode(), b"\xff\xff")
    with pytest.raises(CorruptFile):
        by_columns(content, schema)
    with pytest.raises(CorruptFile):
        by_rows(content, schema)


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ({"type": "long", "logicalType": "time-micros"}, 86_400_000_000),
        ({"type": "int", "logicalType": "time-millis"}, -1),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x64"),
    ],
)
def test_a_value_outside_of_its_type_is_an_error(kind: Any, stored: Any) -> None:
    schema = flat(kind)
    with pytest.raises(CorruptFile):
        by_columns(block(schema, [{"c0": stored}]), schema)
    with pytest.raises(CorruptFile):
        by_rows(block(schema, [{"c0": stored}]), schema)


def test_types_that_are_used_again_by_name_and_unions_of_one_type_are_read() -> None:
    money = {"type": "fixed", "name": "money", "size": 4, "logicalType": "decimal", "precision": 8, "scale": 2}
    inner = {
        "type": "record",
        "name": "inner",
        "namespace": "a.b",
        "fields": [{"name": "x", "type": money}, {"name": "y", "type": ["null", "money"]}],
    }
    text = {"type": {"type": "string", "avro.java.string": "String"}}
    fields = [
        {"name": "one", "type": inner},
        {"name": "two", "type": ["null", "a.b.inner"]},
        {"name": "three", "type": [text["type"]]},
        {"name": "four", **text},
    ]
    schema = {"type": "record", "name": "r", "namespace": "other", "fields": fields}
    plus_one = (1).to_bytes(4, "big")
    minus_one = (-1).to_bytes(4, "big", signed=True)
    body = plus_one + b"\x00" + b"\x02" + minus_one + b"\x02" + plus_one + b"\x00\x02a" + b"\x02b"
    content = struct.pack(">iii", 3, 1, len(body)) + body
    cent = Decimal("0.01")
    expected = {"one": {"x": cent, "y": None}, "two": {"x": -cent, "y": cent}, "three": "a", "four": "b"}
    assert by_columns(content, schema).to_pylist() == by_rows(content, schema).to_pylist() == [expected]
    assert bytes(encode_avro_content(by_columns(content, schema), schema)) == content


def test_names_that_are_not_ascii_are_read() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "größe", "type": "int"}]}
    content = encode_avro_content(pa.table({"größe": pa.array([1, 2], pa.int32())}), schema)
    assert decode_avro_content(content, schema).to_pydict() == {"größe": [1, 2]}


def test_null_in_a_column_that_is_not_nullable_is_refused_with_the_name_of_the_column() -> None:
    schema = flat("int", {"type": "array", "items": "string"})
    with pytest.raises(SchemaError, match=r"'c1\.element' holds null"):
        encode_avro_content(pa.table({"c0": pa.array([1], pa.int32()), "c1": [["x", None]]}), schema)
    with pytest.raises(SchemaError, match="'c1' holds null"):
        encode_avro_content(pa.table({"c0": pa.array([1], pa.int32())}), schema)


def test_a_decimal_too_large_for_its_bytes_is_refused() -> None:
    schema = flat({"type": "fixed", "name": "?", "size": 1, "logicalType": "decimal", "precision": 4, "scale": 0})
    with pytest.raises(SchemaError, match="does not fit the 1 bytes"):
        encode_avro_content(pa.table({"c0": pa.array([Decimal(128)], pa.decimal128(4, 0))}), schema)


def test_a_string_that_is_no_symbol_of_the_enum_is_refused() -> None:
    schema = flat({"type": "enum", "name": "?", "symbols": ["A", "B"]})
    with pytest.raises(SchemaError, match="'C'"):
        encode_avro_content(pa.table({"c0": ["A", "C"]}), schema)


def test_more_records_than_are_decoded_at_once_keep_their_order() -> None:
    schema = flat("long", ["null", "string"])
    size = block_module.RECORDS_AT_ONCE * 2 + 5
    rows = pa.table({"c0": np.arange(size), "c1": pa.array([None, "x", "yy"] * size).slice(0, size)})
    content = encode_avro_content(rows, schema)
    assert decode_avro_content(content, schema).combine_chunks().to_pydict() == rows.to_pydict()
