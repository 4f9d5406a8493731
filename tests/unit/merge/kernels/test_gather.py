"""Rows by position: right also where a column outgrows 32-bit offsets (the limit is lowered here)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.merge.kernels import gather
from penstock.merge.kernels.gather import find_column, find_top_column, take_from_tables, take_rows

KIND = pa.struct([("s", pa.string()), ("l", pa.list_(pa.field("element", pa.string())))])
ROWS = [
    {"s": "ab", "b": b"\x00\xff", "n": 1, "o": {"s": "x", "l": ["p", None]}, "m": [("k", "v")]},
    {"s": None, "b": None, "n": None, "o": None, "m": None},
    {"s": "ä😀", "b": b"", "n": 3, "o": {"s": None, "l": None}, "m": []},
    {"s": "", "b": b"zz", "n": 4, "o": {"s": "", "l": []}, "m": [("k", None), ("q", "w")]},
]
SCHEMA = pa.schema(
    [("s", pa.string()), ("b", pa.binary()), ("n", pa.int32()), ("o", KIND), ("m", pa.map_(pa.string(), pa.string()))]
)


def table(*chunks: list[dict[str, Any]]) -> pa.Table:
    return pa.concat_tables([pa.Table.from_pylist(chunk, schema=SCHEMA) for chunk in chunks])


@pytest.mark.parametrize("reach", [gather.OFFSETS_REACH, 200, 40, 1])
@settings(deadline=None, max_examples=40)
@given(positions=st.lists(st.integers(0, 3), max_size=12))
def test_rows_are_those_at_the_positions_whatever_the_limit(reach: int, positions: list[int]) -> None:
    before = gather.OFFSETS_REACH
    gather.OFFSETS_REACH = reach
    try:
        found = take_rows(table(ROWS[:2], ROWS[2:]), np.array(positions, np.int64))
    finally:
        gather.OFFSETS_REACH = before
    found.validate(full=True)
    assert found.schema == SCHEMA
    assert found.to_pylist() == [ROWS[at] for at in positions]


def test_chunks_of_more_text_than_offsets_reach_are_taken_from() -> None:
    chunk = pa.array(["x" * (1 << 20)] * 64)
    whole = pa.table({"s": pa.chunked_array([chunk] * 33), "n": pa.chunked_array([np.arange(64 * 33)])})
    assert whole.nbytes > 1 << 31
    assert take_rows(whole, np.array([2_111, 0], np.int64))["n"].to_pylist() == [2_111, 0]


def test_a_row_taken_so_often_that_offsets_would_overflow_comes_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "OFFSETS_REACH", 1_000)
    found = take_rows(pa.table({"s": ["x" * 100, "y"]}), np.array([0] * 50 + [1], np.int64))
    assert found["s"].num_chunks > 1
    assert found["s"].to_pylist() == ["x" * 100] * 50 + ["y"]


def test_a_column_may_be_named_with_a_dot_or_lie_in_a_struct() -> None:
    both = pa.table({"a.b": [1], "a": pa.array([{"b": 2, "c": {"d": 3}}])})
    assert find_column(both, "a.b").to_pylist() == [1]  # type: ignore[union-attr]
    assert find_column(both, "a.c.d").to_pylist() == [3]  # type: ignore[union-attr]
    for path in ("x", "a.x", "a.b.c", "a.c.d.e", "x.y"):
        assert find_column(both.select(["a"]), path) is None
    assert find_top_column("a.b", ["a.b"]) == "a.b"
    assert find_top_column("a.b", ["a"]) == "a"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 3), max_size=4), st.data())
def test_rows_are_taken_across_tables_as_if_they_were_one(sizes: list[int], chance: st.DataObject) -> None:
    tables = [table(ROWS[:size]) for size in [*sizes, 1]]
    whole = pa.concat_tables(tables)
    positions = np.array(chance.draw(st.lists(st.integers(0, whole.num_rows - 1), max_size=9)), np.int64)
    assert take_from_tables(tables, positions).to_pylist() == whole.take(pa.array(positions)).to_pylist()
