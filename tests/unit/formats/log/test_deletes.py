"""Delete blocks' content, against fastavro with Hudi's schema, and known bytes."""

from __future__ import annotations

import io
import struct
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CorruptFile, SchemaError, Unsupported
from penstock.formats.log.deletes import Deletes, build_deletes, decode_deletes, encode_deletes

NAMES = ["Boolean", "Int", "Long", "Float", "Double", "Bytes", "String", "Date", "Decimal", "TimeMicros", "TimestampMicros"]
KINDS: list[Any] = ["boolean", "int", "long", "float", "double", "bytes", "string", "int", "bytes", "long", "long"]
WRAPPERS = [
    {"type": "record", "name": f"{name}Wrapper", "fields": [{"name": "value", "type": kind}]}
    for name, kind in zip(NAMES, KINDS, strict=True)
]
RECORD = {
    "type": "record",
    "name": "HoodieDeleteRecord",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"], "default": None},
        {"name": "partitionPath", "type": ["null", "string"], "default": None},
        {"name": "orderingVal", "type": ["null", *WRAPPERS], "default": None},
    ],
}
LIST = {
    "type": "record",
    "name": "HoodieDeleteRecordList",
    "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": RECORD}}],
}
PARSED = fastavro.parse_schema(LIST)


def content_of(*deletes: tuple[str | None, str | None, Any]) -> bytes:
    """Return the content that fastavro writes. An ordering value is a pair of the wrapper's name and the raw value."""
    records = [
        {
            "recordKey": key,
            "partitionPath": path,
            "orderingVal": None if value is None else (f"{value[0]}Wrapper", {"value": value[1]}),
        }
        for key, path, value in deletes
    ]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED, {"deleteRecordList": records})
    return struct.pack(">ii", 3, out.tell()) + out.getvalue()


def test_known_bytes_are_read() -> None:
    known = bytes.fromhex("00000003 0000001e 06 02046b31 0206703d31 0400 02046b32 0200 0628 02046b33 0200 0e0278 00")
    found = decode_deletes(known)
    assert found.keys.to_pylist() == ["k1", "k2", "k3"]
    assert found.partitions.to_pylist() == ["p=1", "", ""]
    assert found.branches.tolist() == [2, 3, 7]
    assert found.ordering(pa.int64()).to_pylist() == [None, 20, None]
    assert found.ordering(pa.string()).to_pylist() == [None, None, "x"]
    assert encode_deletes(found) == known


@pytest.mark.parametrize(
    ("kind", "values", "written"),
    [
        (pa.bool_(), [True, False], [("Boolean", True), ("Boolean", False)]),
        (pa.int32(), [7, -7], [("Int", 7), ("Int", -7)]),
        (pa.int64(), [7, 2**60], [("Long", 7), ("Long", 2**60)]),
        (pa.float32(), [0.5, -2.0], [("Float", 0.5), ("Float", -2.0)]),
        (pa.float64(), [0.1, -2.0], [("Double", 0.1), ("Double", -2.0)]),
        (pa.binary(), [b"\xff", b""], [("Bytes", b"\xff"), ("Bytes", b"")]),
        (pa.string(), ["é", ""], [("String", "é"), ("String", "")]),
        (pa.date32(), [date(2024, 2, 29), date(1969, 12, 31)], [("Date", 19782), ("Date", -1)]),
        (
            pa.decimal128(10, 2),
            [Decimal("12.34"), Decimal("-0.01")],
            [("Decimal", 12_340_000_000_000_000), ("Decimal", -10_000_000_000_000)],
        ),
        (pa.time64("us"), [time(0, 0, 1), time(0)], [("TimeMicros", 1_000_000), ("TimeMicros", 0)]),
        (pa.timestamp("us", "UTC"), [datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)] * 2, [("Long", 1_000_000)] * 2),
        (pa.timestamp("ms", "UTC"), [datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)] * 2, [("Long", 1_000)] * 2),
    ],
)
def test_ordering_values_of_every_type_are_written_as_their_wrapper_and_come_back(
    kind: Any, values: list[Any], written: list[Any]
) -> None:
    written = [
        (n, v.to_bytes((v if v >= 0 else ~v).bit_length() // 8 + 1, "big", signed=True) if n == "Decimal" else v)
        for n, v in written
    ]
    content = encode_deletes(build_deletes(pa.array(["a", "b"]), pa.array(["p", "p"]), pa.array(values, kind)))
    assert content == content_of(("a", "p", written[0]), ("b", "p", written[1]))
    assert decode_deletes(content).ordering(kind).to_pylist() == values


def test_a_delete_without_an_ordering_value_holds_the_int_0() -> None:
    content = encode_deletes(build_deletes(pa.array(["a", "b"]), pa.array(["", ""]), pa.array([None, "x"])))
    assert content == content_of(("a", "", ("Int", 0)), ("b", "", ("String", "x")))
    ints = encode_deletes(build_deletes(pa.array(["a", "b"]), pa.array(["", ""]), pa.array([None, 5], pa.int32())))
    assert ints == content_of(("a", "", ("Int", 0)), ("b", "", ("Int", 5)))
    assert decode_deletes(ints).ordering(pa.int32()).to_pylist() == [None, 5]


def test_an_ordering_value_of_another_class_than_the_column_always_applies() -> None:
    found = decode_deletes(content_of(("a", "", ("Int", 5)), ("b", "", ("Long", 6)), ("c", "", None)))
    assert found.ordering(pa.int64()).to_pylist() == [None, 6, None]
    assert found.ordering(pa.int32()).to_pylist() == [5, None, None]
    assert found.ordering(pa.string()).to_pylist() == [None, None, None]


def test_ordering_values_of_type_timestamp_compare_with_columns_of_either_unit() -> None:
    found = decode_deletes(content_of(("a", "", ("TimestampMicros", 1_000_000))))
    expected = datetime(1970, 1, 1, 0, 0, 1)
    assert found.ordering(pa.timestamp("ms", "UTC")).to_pylist() == [expected.replace(tzinfo=timezone.utc)]
    assert found.ordering(pa.timestamp("us")).to_pylist() == [expected]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
VALUES = st.one_of(
    st.just(("Int", 0)),
    st.tuples(st.just("Long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("String"), TEXTS),
    st.tuples(st.just("Double"), st.floats(allow_nan=False)),
    st.tuples(st.just("Boolean"), st.booleans()),
    st.tuples(st.just("Bytes"), st.binary(max_size=100)),
)
RECORDS = st.lists(st.tuples(TEXTS, TEXTS, VALUES), max_size=12)


@settings(max_examples=150, deadline=None)
@given(RECORDS)
def test_any_deletes_are_read_and_written_as_by_fastavro(records: list[Any]) -> None:
    content = content_of(*records)
    found = decode_deletes(content)
    assert list(zip(found.keys.to_pylist(), found.partitions.to_pylist(), strict=True)) == [record[:2] for record in records]
    values = [found.values[branch][at].as_py() for at, branch in enumerate(found.branches.tolist())]
    assert values == [record[2][1] for record in records]
    assert encode_deletes(found) == content


@settings(max_examples=100, deadline=None)
@given(RECORDS.filter(len), st.data())
def test_damaged_deletes_raise_an_error_or_return_valid_deletes(records: list[Any], data: st.DataObject) -> None:
    content = bytearray(content_of(*records))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_deletes(bytes(content))
    except (CorruptFile, Unsupported):
        return
    found.keys.validate(full=True)
    assert len(found.branches) == len(found)


def test_a_truncated_delete_block_is_an_error() -> None:
    content = content_of(("key", "path", ("Long", 5)), ("longer key", "path", ("Int", 0)))
    for size in range(len(content)):
        with pytest.raises(CorruptFile):
            decode_deletes(content[:size])
        if size >= 8:
            with pytest.raises(CorruptFile):
                decode_deletes(struct.pack(">ii", 3, size - 8) + content[8:size])


def test_deletes_of_one_size_and_of_different_sizes_are_read() -> None:
    even = [(f"{n:08}", "p", ("Int", 0)) for n in range(500)]
    uneven = [("x" * (n % 70), "p", ("Int", 0)) for n in range(500)]
    for records in (even, uneven):
        assert decode_deletes(content_of(*records)).keys.to_pylist() == [record[0] for record in records]


def test_a_list_in_several_runs_is_read() -> None:
    body = content_of(("a", "p", ("Int", 0)))[9:-1]
    data = b"\x02" + body + b"\x01" + bytes([len(body) * 2]) + body + b"\x00"
    assert decode_deletes(struct.pack(">ii", 3, len(data)) + data).keys.to_pylist() == ["a", "a"]


def test_no_deletes_are_an_empty_list() -> None:
    content = encode_deletes(build_deletes(pa.array([], pa.string()), pa.array([], pa.string())))
    assert content == content_of()
    assert len(decode_deletes(content)) == 0


def test_values_that_a_delete_cannot_hold_are_refused() -> None:
    keys = pa.array(["a"])
    paths = pa.array(["p"])
    with pytest.raises(SchemaError, match="list"):
        build_deletes(keys, paths, pa.array([[1]]))
    with pytest.raises(SchemaError, match=r"decimal\(30,15\)"):
        build_deletes(keys, paths, pa.array([Decimal("1e20")], pa.decimal128(38, 0)))
    with pytest.raises(SchemaError, match="null among them"):
        build_deletes(pa.array([None], pa.string()), paths)
    with pytest.raises(SchemaError, match="as many"):
        build_deletes(keys, pa.array(["p", "q"]))


def test_deletes_in_chunks_are_written_as_one_block() -> None:
    chunked = pa.chunked_array([["a"], ["b"]])
    assert encode_deletes(build_deletes(chunked, chunked, pa.chunked_array([[1], [2]]))) == content_of(
        ("a", "a", ("Long", 1)), ("b", "b", ("Long", 2))
    )


def test_deletes_can_be_pickled() -> None:
    deletes = Deletes(pa.array(["a"]), pa.array(["p"]), np.array([2], np.int8), {2: pa.array([0], pa.int32())})
    assert encode_deletes(deletes) == content_of(("a", "p", ("Int", 0)))
