"""The order of rows: by columns, along curves, and split into ranges. Arrow tables in and out."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import OptionError, SchemaError
from penstock.services.clustering.curves import encode_distinct, hilbert, order_words, rank_in_sample, z_order
from penstock.services.clustering.rewrite_large import order_and_ends, range_ends
from penstock.services.clustering.row_order import (
    Ordering,
    RowOrderKind,
    check_ordering,
    order_of,
    sample_of,
    sort_columns,
    sort_keys,
)


def sorted_by(
    rows: pa.Table, *columns: str, kind: RowOrderKind = RowOrderKind.LINEAR, sample: int | None = None
) -> list[dict[str, Any]]:
    ordering = Ordering(columns, kind, sample)
    order = order_of(sort_keys(sort_columns(rows, ordering), ordering))
    found: list[dict[str, Any]] = rows.take(pa.array(order)).to_pylist()
    return found


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "texts": (pa.string(), [None, "", "a", "aa", "aaaaaaaab", "aaaaaaaac", "b", "é", "\U0001f600"]),
    "bytes": (pa.binary(), [None, b"", b"\x00", b"a", b"\xff"]),
    "bytes of one length": (pa.binary(2), [None, b"\x00a", b"a\x00", b"aa", b"\xff\xff"]),
    "small numbers": (pa.int32(), [None, -(2**31), -1, 0, 1, 2**31 - 1]),
    "large numbers": (pa.int64(), [None, -(2**62), -1, 0, 1, 2**63 - 1]),
    "floats": (pa.float64(), [None, float("-inf"), -1.5, -1e-300, 0.0, 1e-300, 2.5, float("inf")]),
    "decimals": (pa.decimal128(20, 2), [None, Decimal("-10.01"), Decimal("-10.00"), Decimal("0.00"), Decimal("99999999999.99")]),
    "days": (pa.date32(), [None, datetime.date(1969, 1, 1), datetime.date(2026, 1, 1)]),
    "times": (
        pa.timestamp("us", "UTC"),
        [None, *(datetime.datetime(y, 1, 1, tzinfo=datetime.timezone.utc) for y in (1960, 2026))],
    ),
    "truth": (pa.bool_(), [None, False, True]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_are_put_in_order_with_nulls_first(name: str) -> None:
    kind, values = VALUES[name]
    mixed = list(reversed(values)) + values[::2]
    rows = pa.table({"v": pa.chunked_array([mixed[:3], mixed[3:]], kind), "n": [0] * len(mixed)})
    expected = sorted(mixed, key=values.index)
    assert [row["v"] for row in sorted_by(rows, "v")] == expected
    assert [row["v"] for row in sorted_by(rows, "n", "v")] == expected  # several columns go another way


def test_rows_are_sorted_by_several_columns_and_equal_rows_keep_their_order() -> None:
    values = [*itertools.product(["b", None, "a"], [2, 1, None]), ("a", 1)]
    rows = pa.table({"x": [x for x, _ in values], "y": [y for _, y in values], "at": list(range(10))})
    expected = sorted(values, key=lambda v: (v[0] or "", v[1] or 0))
    found = sorted_by(rows, "x", "y")
    assert [(row["x"], row["y"]) for row in found] == expected
    assert [row["at"] for row in found if (row["x"], row["y"]) == ("a", 1)] == [7, 9]


def test_a_hundred_thousand_different_texts_are_sorted_and_equal_ones_keep_their_order() -> None:
    numbers = np.random.default_rng(3).permutation(np.repeat(np.arange(100_000), 2))
    texts = pa.array(numbers).cast(pa.string())
    order = order_of(pa.table({"0": pa.chunked_array([texts[:70_001], texts[70_001:]])}))
    assert order.tolist() == sorted(range(200_000), key=lambda at: str(numbers[at]))


def test_a_field_inside_a_struct_is_sorted_by() -> None:
    rows = pa.table({"s": [{"a": 2}, {"a": None}, None, {"a": 1}]})
    assert [row["s"] and row["s"]["a"] for row in sorted_by(rows, "s.a")] == [None, None, 1, 2]


def test_an_empty_table_has_no_order() -> None:
    rows = pa.schema([("a", pa.string()), ("b", pa.int64())]).empty_table()
    for kind, sample in itertools.product(RowOrderKind, (None, 5)):
        assert sorted_by(rows, "a", "b", kind=kind, sample=sample) == []


def grid(bits: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    side = np.arange(1 << bits, dtype=np.uint64)
    return np.repeat(side, len(side)), np.tile(side, len(side))


def test_z_order_takes_the_bits_of_the_columns_in_turn() -> None:
    x, y = np.array([0b1010, 1 << 63], np.uint64), np.array([0b0110, 0], np.uint64)
    words = z_order([x, y])
    assert (int(words[0][0]) << 64) | int(words[1][0]) == 0b10011100
    assert int(words[0][1]) == 1 << 63


@pytest.mark.parametrize("count", range(1, 9))
def test_z_order_of_any_number_of_columns_agrees_with_bits_as_text(count: int) -> None:
    random = np.random.default_rng(count)
    columns = [random.integers(0, 1 << 63, 50, dtype=np.uint64) * np.uint64(2) for _ in range(count)]
    expected = sorted(
        range(50), key=lambda i: "".join(itertools.chain(*zip(*(f"{int(c[i]):064b}" for c in columns), strict=True)))
    )
    assert np.lexsort(z_order(columns)[::-1]).tolist() == expected


@pytest.mark.parametrize("dimensions", [2, 3])
def test_neighbours_along_the_hilbert_curve_are_neighbours_in_space(dimensions: int) -> None:
    cells = np.array(list(itertools.product(range(8), repeat=dimensions)), np.uint64)
    order = np.lexsort(hilbert([cells[:, i].copy() for i in range(dimensions)])[::-1])
    steps = np.abs(np.diff(cells[order].astype(np.int64), axis=0)).sum(axis=1)
    assert (steps == 1).all()


def test_the_hilbert_curve_does_not_change_its_input() -> None:
    x, y = grid(2)
    before = x.copy()
    hilbert([x, y])
    assert (x == before).all()


@pytest.mark.parametrize("kind", [RowOrderKind.Z_ORDER, RowOrderKind.HILBERT])
@pytest.mark.parametrize("sample", [None, 200])
def test_a_curve_keeps_every_column_together_in_a_file(kind: RowOrderKind, sample: int | None) -> None:
    """Sixteen files of a square: each covers a part of both columns, where a linear order covers all of the second."""
    random = np.random.default_rng(7)
    rows = pa.table({"x": random.permutation(4096), "y": random.permutation(4096).astype(float)})

    def covered(found: list[dict[str, Any]], column: str) -> float:
        files = [found[i : i + 256] for i in range(0, 4096, 256)]
        return float(np.mean([max(r[column] for r in f) - min(r[column] for r in f) for f in files])) / 4096

    linear, curve = sorted_by(rows, "x", "y"), sorted_by(rows, "x", "y", kind=kind, sample=sample)
    assert covered(linear, "x") < 0.1 < 0.9 < covered(linear, "y")
    assert covered(curve, "x") < 0.6
    assert covered(curve, "y") < 0.6


def test_a_sample_makes_a_curve_of_texts_with_a_common_beginning() -> None:
    texts = [f"a common beginning {n:03}" for n in range(256)]
    column = pa.chunked_array([texts])
    assert len(set(order_words(column).tolist())) == 1
    assert len(set(rank_in_sample(column, column).tolist())) == 256
    few = sample_of(pa.table({"t": column}), 16)["t"]
    ranks = rank_in_sample(few, column)
    assert len(set(ranks.tolist())) == 16
    assert (np.diff(ranks.astype(np.int64)) >= 0).all()


def test_each_distinct_value_is_encoded_once() -> None:
    values, codes = encode_distinct(pa.chunked_array([["b", None], ["a", "b"]]))
    assert values.to_pylist() == ["b", "a"]
    assert codes.tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize("chunks", [1, 4])
def test_rows_are_cut_into_ranges_of_equal_size(chunks: int) -> None:
    random = np.random.default_rng(1)
    numbers = random.integers(0, 1000, 4000)
    keys = pa.table({"0": pa.chunked_array(np.array_split(numbers, chunks))})
    ends = range_ends(keys, 4)
    assert ends.num_rows == 3
    part = keys.slice(0, 1000)
    order, counts = order_and_ends(part, ends)
    found = numbers[:1000][order]
    assert (np.diff(found) >= 0).all()
    for end, count in zip(ends["0"].to_pylist(), counts.tolist(), strict=True):
        assert count == (numbers[:1000] <= end).sum()
    assert all(150 < size < 350 for size in np.diff([0, *counts, 1000]))


def test_equal_rows_are_one_range() -> None:
    keys = pa.table({"0": ["same"] * 10})
    order, counts = order_and_ends(keys, range_ends(keys, 3))
    assert (order.tolist(), counts.tolist()) == (list(range(10)), [10, 10])


SCHEMA = pa.schema([("id", pa.string()), ("tags", pa.list_(pa.string())), ("s", pa.struct([("a", pa.int64())]))])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("id", "absent"), "sort.columns names 'absent', which is not among the columns id, tags, s"),
        (("s.b",), "'s.b', which is not among"),
        (("tags",), "'tags', a list<element: string>|'tags', a list<item: string>"),
        (("s",), "'s', a struct"),
    ],
)
def test_columns_that_are_not_there_or_have_no_order_are_refused(columns: tuple[str, ...], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        check_ordering(Ordering(columns), SCHEMA)


def test_a_curve_goes_through_eight_columns_at_most() -> None:
    schema = pa.schema([(f"c{n}", pa.int64()) for n in range(9)])
    check_ordering(Ordering(tuple(schema.names)), schema)
    with pytest.raises(OptionError, match="names 9 columns, and a curve goes through 8 at most"):
        check_ordering(Ordering(tuple(schema.names), RowOrderKind.HILBERT), schema)
