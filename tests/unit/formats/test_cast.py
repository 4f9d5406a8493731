"""Rows of an older file in the schema the table has now."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import SchemaError
from penstock.formats.cast import fit_to_schema

OLD = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])
NEW = pa.struct([pa.field("b", pa.string()), pa.field("a", pa.int64()), pa.field("c", pa.float64())])
OLD_ROWS = [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]
NEW_ROWS: list[Any] = [{"b": "x", "a": 1, "c": None}, None, {"b": None, "a": None, "c": None}]


def one(kind: pa.DataType, values: list[Any]) -> pa.Table:
    return pa.table({"x": pa.array(values, kind)})


def fitted(table: pa.Table, kind: pa.DataType) -> list[Any]:
    result = fit_to_schema(table, pa.schema([pa.field("x", kind)]))
    result.validate(full=True)
    assert result.schema.field("x").type == kind
    return result["x"].to_pylist()


def test_a_table_that_has_the_schema_is_returned_unchanged() -> None:
    table = one(pa.int32(), [1])
    assert fit_to_schema(table, table.schema) is table


def test_columns_are_matched_by_name_and_missing_ones_are_null() -> None:
    table = pa.table({"b": ["x"], "a": [1]})
    schema = pa.schema([("a", pa.int64()), ("new", pa.list_(pa.string())), ("b", pa.string())])
    assert fit_to_schema(table, schema).to_pydict() == {"a": [1], "new": [None], "b": ["x"]}


def test_columns_that_the_schema_does_not_have_are_left_out() -> None:
    assert fit_to_schema(pa.table({"a": [1], "b": [2]}), pa.schema([("b", pa.int64())])).column_names == ["b"]


@pytest.mark.parametrize(
    ("old", "values", "new", "expected"),
    [
        (pa.int32(), [1, None], pa.int64(), [1, None]),
        (pa.int32(), [1, None], pa.float64(), [1.0, None]),
        (pa.int64(), [2**40], pa.float32(), [float(2**40)]),
        (pa.float32(), [1.5], pa.float64(), [1.5]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", None, "a"], pa.string(), ["a", None, "a"]),
        (pa.decimal128(5, 2), [Decimal("1.25")], pa.decimal128(10, 2), [Decimal("1.25")]),
        (pa.date32(), [date(2024, 2, 29)], pa.string(), ["2024-02-29"]),
        (pa.int64(), [-5, None], pa.string(), ["-5", None]),
        (pa.float64(), [1e7, 0.1, None], pa.string(), ["1.0E7", "0.1", None]),
        (pa.list_(pa.float32()), [[1e10, None], None, []], pa.list_(pa.string()), [["1.0E10", None], None, []]),
        (pa.large_string(), ["a"], pa.string(), ["a"]),
        (pa.timestamp("ms", "UTC"), [0], pa.timestamp("us", "UTC"), None),
    ],
)
def test_types_widen(old: pa.DataType, values: list[Any], new: pa.DataType, expected: list[Any] | None) -> None:
    found = fitted(one(old, values), new)
    assert expected is None or found == expected


def test_fields_of_a_struct_are_matched_by_name() -> None:
    assert fitted(one(OLD, OLD_ROWS), NEW) == NEW_ROWS


def test_a_struct_with_fields_in_another_order_is_not_mixed_up() -> None:
    old = pa.struct([pa.field("a", pa.string()), pa.field("b", pa.string())])
    new = pa.struct([pa.field("b", pa.string()), pa.field("a", pa.string())])
    assert fitted(one(old, [{"a": "1", "b": "2"}]), new) == [{"a": "1", "b": "2"}]


def test_structs_in_lists_and_maps_are_matched_by_name_with_nulls_at_every_level() -> None:
    rows: list[Any] = [OLD_ROWS, None, [], [None]]
    expected: list[Any] = [NEW_ROWS, None, [], [None]]
    assert fitted(one(pa.list_(pa.field("element", OLD)), rows), pa.list_(pa.field("element", NEW))) == expected
    maps = [[("k", OLD_ROWS[0]), ("n", None)], None, []]
    new_maps = [[("k", NEW_ROWS[0]), ("n", None)], None, []]
    assert fitted(one(pa.map_(pa.string(), OLD), maps), pa.map_(pa.string(), NEW)) == new_maps


@pytest.mark.parametrize("part", [(1, 2), (0, 1), (3, 1)])
def test_only_the_rows_of_a_slice_are_cast(part: tuple[int, int]) -> None:
    """Arrow keeps a slice's offset; children and nulls must follow it."""
    start, count = part
    lists: list[Any] = [[{"a": 1, "b": "p"}], None, [{"a": 2, "b": "q"}, None], [{"a": 3, "b": "r"}]]
    table = one(pa.list_(pa.field("element", OLD)), lists).slice(start, count)
    expected = [
        None if row is None else [None if s is None else {"b": s["b"], "a": s["a"], "c": None} for s in row]
        for row in lists[start : start + count]
    ]
    assert fitted(table, pa.list_(pa.field("element", NEW))) == expected
    structs = one(OLD, [*OLD_ROWS, {"a": 9, "b": "z"}]).slice(start, count)
    assert fitted(structs, NEW) == [*NEW_ROWS, {"b": "z", "a": 9, "c": None}][start : start + count]
    maps = one(pa.map_(pa.string(), OLD), [[("k", v)] if v else None for v in [*OLD_ROWS, OLD_ROWS[0]]])
    new = [None if v is None else [("k", v)] for v in [NEW_ROWS[0], None, NEW_ROWS[2], NEW_ROWS[0]]]
    assert fitted(maps.slice(start, count), pa.map_(pa.string(), NEW)) == new[start : start + count]


def test_an_empty_table_can_be_cast_to_any_schema() -> None:
    result = fit_to_schema(one(OLD, []), pa.schema([pa.field("x", NEW), pa.field("y", pa.int32())]))
    assert result.num_rows == 0
    assert result.schema.names == ["x", "y"]


def test_a_column_that_cannot_be_cast_is_named() -> None:
    with pytest.raises(SchemaError, match="'x'"):
        fitted(one(pa.string(), ["a"]), pa.int32())
    with pytest.raises(SchemaError, match="'x'"):
        fitted(one(OLD, OLD_ROWS), pa.list_(pa.int32()))


def test_null_in_a_field_that_is_not_nullable_is_refused() -> None:
    strict = pa.schema([("m", pa.struct([pa.field("ts", pa.int64(), nullable=False)]))])
    loose = pa.struct([("ts", pa.int64())])
    assert fit_to_schema(pa.table({"m": pa.array([{"ts": 1}, None], loose)}), strict)["m"].to_pylist() == [{"ts": 1}, None]
    with pytest.raises(SchemaError, match="column 'm' .* field 'ts' holds null"):
        fit_to_schema(pa.table({"m": pa.array([{"ts": None}], loose)}), strict)
