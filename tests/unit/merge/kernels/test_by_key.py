"""One row per key: by ordering value, then by arrival; and where a key stands among others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SchemaError
from penstock.merge.kernels import gather
from penstock.merge.kernels.by_key import find_positions, pick_newest
from penstock.merge.kernels.gather import to_array
from penstock.merge.kernels.ordering import check_ordering_values

KEYS = st.sampled_from(["a", "b", "c", "ä", "😀", "a" * 40])


def chosen(keys: list[str], ordering: list[Any] | None, kind: pa.DataType | None = None, **rest: Any) -> list[int]:
    values = None if ordering is None else pa.array(ordering, kind)
    found: list[int] = pick_newest(pa.array(keys, pa.string()), values, "ts", **rest).tolist()
    return found


# Which of two rows of a batch stays (preCombine): E came first, I later.
@pytest.mark.parametrize(
    ("e", "i", "stays"),
    [(1, 2, "I"), (1, 1, "I"), (2, 1, "E"), (0, 0, "I")],
)
def test_the_greater_ordering_value_stays_and_the_later_row_among_equals(e: int, i: int, stays: str) -> None:
    assert chosen(["k", "k"], [e, i]) == ["EI".index(stays)]


def test_a_delete_wins_or_loses_by_its_ordering_value_like_any_row() -> None:
    # The flag is no part of the decision: only keys and ordering values are looked at.
    assert chosen(["k", "other", "k"], [5, 1, 4]) == [0, 1]
    assert chosen(["k", "other", "k"], [5, 1, 5]) == [1, 2]


def test_without_ordering_values_the_last_row_stays() -> None:
    assert chosen(["k", "l", "k", "m", "l"], None) == [2, 3, 4]


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(-3, 3)), max_size=30))
def test_the_winners_are_those_of_a_dictionary(rows: list[tuple[str, int]]) -> None:
    model: dict[str, tuple[int, int]] = {}
    for at, (key, ts) in enumerate(rows):
        if key not in model or ts >= model[key][0]:
            model[key] = (ts, at)
    keys, ordering = [k for k, _ in rows], [t for _, t in rows]
    assert chosen(keys, ordering, pa.int64()) == sorted(at for _, at in model.values())


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(-2, 2)), max_size=30), st.randoms(use_true_random=False))
def test_rows_that_stand_in_another_order_are_judged_by_their_arrival(rows: list[tuple[str, int]], random: Any) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    expected = {rows[at] + (at,) for at in chosen([k for k, _ in rows], [t for _, t in rows], pa.int64())}
    shuffled = [rows[at] for at in order]
    arrival = np.array(order, np.int64)
    found = chosen([k for k, _ in shuffled], [t for _, t in shuffled], pa.int64(), arrival=arrival)
    assert {shuffled[at] + (order[at],) for at in found} == expected
    last = chosen([k for k, _ in shuffled], None, arrival=arrival)
    assert {order[at] for at in last} == {max(i for i, (k, _) in enumerate(rows) if k == key) for key in {k for k, _ in rows}}


def test_not_a_number_is_the_greatest() -> None:
    assert chosen(["k", "k", "k"], [1.0, math.nan, math.inf]) == [1]


def test_ordering_values_in_chunks_are_one_column() -> None:
    ordering = pa.chunked_array([pa.array([1, 5]), pa.array([], pa.int64()), pa.array([3])])
    assert pick_newest(pa.array(["k", "k", "k"]), ordering, "ts").tolist() == [1]


@pytest.mark.parametrize("values", [[{"a": 1}, {"a": 2}], [[1], [2]]])
def test_an_ordering_column_whose_values_have_no_order_is_refused(values: list[Any]) -> None:
    with pytest.raises(SchemaError, match=r"ordering column 'ts' is .* no order.*precombine\.field"):
        chosen(["k", "k"], values)


def test_null_ordering_values_are_counted_and_refused() -> None:
    with pytest.raises(SchemaError, match=r"Ordering value is null for 2 of 3 rows: column 'ts'"):
        check_ordering_values(pa.chunked_array([[None, 1], [None]]), "ts")
    check_ordering_values(pa.array([1, 2]), "ts")


@settings(deadline=None)
@given(st.lists(KEYS, max_size=20), st.sets(KEYS))
def test_positions_are_those_of_a_dictionary(keys: list[str], wanted: set[str]) -> None:
    order = sorted(wanted)
    expected = [order.index(k) if k in wanted else -1 for k in keys]
    found = find_positions(pa.chunked_array([pa.array(keys, pa.string())]), pa.array(order, pa.string()))
    assert found.tolist() == expected


def test_keys_too_long_for_32_bit_offsets_become_large_texts_and_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "OFFSETS_REACH", 10)
    keys = to_array(pa.chunked_array([["aaaa", "bbbb"], ["cccc", "aaaa"]]))
    assert keys.type == pa.large_string()
    rows = pick_newest(keys, None)
    assert rows.tolist() == [1, 2, 3]
    assert find_positions(pa.chunked_array([["cccc", "x", "aaaa"]]), keys.take(pa.array(rows))).tolist() == [1, -1, 2]
