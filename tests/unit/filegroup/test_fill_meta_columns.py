"""Meta columns in front of data columns."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.filegroup.fill_meta_columns import add_file_columns, body_schema, schema_with_meta, stamp_rows


def wide_rows(columns: int) -> pa.Table:
    """Return two rows with a number of columns, and metadata in their schema."""
    names = [f"c{number}" for number in range(columns)]
    return pa.table([pa.array([1, 2])] * columns, names=names).replace_schema_metadata({"pandas": "{}"})


def stamp(rows: pa.Table) -> pa.Table:
    keys = pa.chunked_array([["a", "b"]])
    return add_file_columns(stamp_rows(rows, keys, instant="001", task=3, numbers=np.array([4, 5])), "x", "file")


def test_meta_columns_come_first_in_hudis_order_and_the_schema_has_no_metadata() -> None:
    rows = wide_rows(2)
    body = stamp_rows(rows, pa.chunked_array([["a", "b"]]), instant="001", task=3, numbers=np.array([4, 5]))
    assert body.schema.equals(body_schema(rows.schema), check_metadata=True)
    stamped = stamp(rows)
    assert stamped.column_names == schema_with_meta(rows.schema).names
    assert [tuple(row.values()) for row in stamped.to_pylist()] == [
        ("001", "001_3_4", "a", "x", "file", 1, 1),
        ("001", "001_3_5", "b", "x", "file", 2, 2),
    ]


def test_as_many_calls_add_meta_columns_to_a_thousand_columns_as_to_ten() -> None:
    assert count_calls(wide_rows(1_000)) == count_calls(wide_rows(10))


def count_calls(rows: pa.Table) -> int:
    """Return how many functions of Python and of C are called to add the meta columns."""
    stamp(rows)
    calls = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        stamp(rows)
    finally:
        sys.setprofile(before)
    return calls
