"""Mergers that come with Penstock: first rows, aggregates, histories. Against a plain model where there is much to go wrong."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import OptionError, SchemaError
from penstock.merge.aggregate import Aggregate
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.first_row import FirstRow
from penstock.merge.history import KeepHistory
from penstock.merge.kernels.fold import fold_log
from penstock.merge.merger import Merger
from penstock.schema import META_COLUMNS
from tests.unit.merge.merging import (
    Row,
    combine,
    combine_pair,
    combine_with_marks,
    fold_records,
    insert,
    make_log,
    merge_pair,
    merge_rows,
)

TAGS = pa.list_(pa.field("element", pa.string()))
SCHEMA = pa.schema(
    [("k", pa.string()), ("ts", pa.int64()), ("n", pa.int32()), ("s", pa.string()), ("tags", TAGS), (DELETE_FLAG, pa.bool_())]
)
VERSION = pa.struct([("ts", pa.int64()), ("s", pa.string())])
VERSIONED = pa.schema(
    [("k", pa.string()), ("ts", pa.int64()), ("s", pa.string()), ("history", pa.list_(pa.field("element", VERSION))), (DELETE_FLAG, pa.bool_())]
)  # fmt: skip
ALL = Aggregate((("n", "sum"), ("tags", "collect")), "ts")


def row(ts: int, n: int | None = None, s: str | None = None, tags: list[str] | None = None, deleted: bool | None = None) -> Row:
    return {"k": "k", "ts": ts, "n": n, "s": s, "tags": tags, DELETE_FLAG: deleted}


def version(ts: int, s: str | None, history: list[Row] | None = None, deleted: bool | None = None) -> Row:
    return {"k": "k", "ts": ts, "s": s, "history": history, DELETE_FLAG: deleted}


@pytest.mark.parametrize(
    ("how", "old", "new", "merged"),
    [
        ("sum", 1, 2, 3),
        ("sum", None, 2, 2),
        ("sum", 1, None, 1),
        ("sum", None, None, None),
        ("max", 1, 2, 2),
        ("max", 3, 2, 3),
        ("max", None, 2, 2),
        ("min", 1, 2, 1),
        ("min", 1, None, 1),
        ("first", 1, 2, 1),
        ("first", None, 2, 2),
        ("last", 1, 2, 2),
        ("last", 1, None, 1),
    ],
)
def test_named_columns_are_aggregated_and_others_are_the_newest_rows(
    how: str, old: int | None, new: int | None, merged: int | None
) -> None:
    merger = Aggregate((("n", how),), "ts")
    assert merge_pair(merger, row(1, old, "E"), row(2, new, None), SCHEMA) == row(2, merged, None)
    assert combine_pair(merger, row(1, old, "E"), row(2, new, None), SCHEMA) == row(2, merged, None)


def test_a_late_row_is_aggregated_too_but_changes_nothing_else() -> None:
    merger = Aggregate((("n", "first"), ("tags", "collect")), "ts")
    assert merge_pair(merger, row(5, 1, "E", ["e"]), row(2, 2, "I", ["i"]), SCHEMA) == row(5, 2, "E", ["i", "e"])
    assert merge_pair(Aggregate((("n", "last"),), "ts"), row(5, 1, "E"), row(2, 2, "I"), SCHEMA) == row(5, 1, "E")


@pytest.mark.parametrize(("e", "i", "gone"), [(1, 2, True), (2, 2, True), (3, 2, False)])
@pytest.mark.parametrize("merger", [ALL, FirstRow("ts")], ids=["aggregate", "first"])
def test_a_delete_removes_the_row_unless_that_is_newer(merger: Any, e: int, i: int, gone: bool) -> None:
    stored = row(e, 1, "E")
    assert merge_pair(merger, stored, row(i, deleted=True), SCHEMA) == (None if gone else stored)
    assert insert(merger, [row(i, deleted=True), row(i, 1)], SCHEMA) == [row(i, 1)]


def test_sums_keep_the_type_of_their_column() -> None:
    schema = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("n", pa.decimal128(5, 2))])
    old, new = {"k": "k", "ts": 1, "n": Decimal("1.25")}, {"k": "k", "ts": 2, "n": Decimal("2.50")}
    assert merge_pair(Aggregate((("n", "sum"),)), old, new, schema) == {"k": "k", "ts": 2, "n": Decimal("3.75")}


def test_sums_of_the_longest_decimals_are_taken_as_long_as_they_fit() -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.decimal128(38, 2))])
    old, new = ({"k": "k", "n": Decimal(text)} for text in ("1.25", "2.50"))
    assert merge_pair(Aggregate((("n", "sum"),)), old, new, schema) == {"k": "k", "n": Decimal("3.75")}
    full = {"k": "k", "n": Decimal("9" * 36 + ".99")}
    with pytest.raises(SchemaError, match=r"sum of column 'n', which is decimal128\(38, 2\), cannot be taken"):
        merge_pair(Aggregate((("n", "sum"),)), full, full, schema)


#: Of each type a lesser and a greater value.
EXTREMES = [
    (pa.timestamp("us", "UTC"), datetime(2024, 1, 1, tzinfo=timezone.utc), datetime(2024, 1, 2, tzinfo=timezone.utc)),
    (pa.timestamp("us"), datetime(2024, 1, 1), datetime(2024, 1, 2)),
    (pa.date32(), date(2024, 1, 1), date(2024, 1, 2)),
    (pa.decimal128(38, 2), Decimal("-2.50"), Decimal("1.25")),
    (pa.bool_(), False, True),
    (pa.string(), "a", "b"),
    (pa.binary(), b"a", b"b"),
    (pa.float64(), 1.0, 2.0),
]


@pytest.mark.parametrize(("kind", "less", "more"), EXTREMES, ids=[str(kind) for kind, _, _ in EXTREMES])
def test_the_greatest_and_the_least_of_every_type_that_compares(kind: pa.DataType, less: Any, more: Any) -> None:
    schema = pa.schema([("k", pa.string()), ("n", kind)])
    pairs = [(less, more), (more, less), (None, less), (less, None), (None, None)]
    old, new = ([{"k": str(i), "n": pair[side]} for i, pair in enumerate(pairs)] for side in (0, 1))
    for how, expected in (("max", [more, more, less, less, None]), ("min", [less, less, less, less, None])):
        found = merge_rows(Aggregate((("n", how),)), old, new, schema)
        assert [one["n"] for one in found if one is not None] == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((("n", "sum"),), r"sum of column 'n', which is int32"),
        ((("tags", "sum"),), r"sum of column 'tags'"),
        ((("s", "collect"),), r"collect of column 's', which is string"),
        ((("x", "sum"),), r"column 'x' is to be aggregated, but the rows have k, ts"),
    ],
)
def test_what_cannot_be_aggregated_is_refused_by_name(columns: tuple[tuple[str, str], ...], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        merge_pair(Aggregate(columns), row(1, 2**31 - 1, "E", ["x"]), row(2, 1, "I", ["y"]), SCHEMA)


def test_an_unknown_aggregate_is_refused() -> None:
    with pytest.raises(OptionError, match=r"aggregate 'median' of column 'n' is none of sum, max"):
        Aggregate((("n", "median"),))


ROWS = st.builds(
    lambda k, ts, n, tags, deleted: {"k": k, "ts": ts, "n": n, "s": None, "tags": tags, DELETE_FLAG: deleted},
    st.sampled_from("pqr"),
    st.integers(1, 5),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.sampled_from([None, [], ["a"], ["b", "c"]]),
    st.sampled_from([None, None, False, True]),
)


def aggregated(older: Row, newer: Row) -> Row:
    """The model of ALL, of two rows in order."""
    known = [v for v in (older["n"], newer["n"]) if v is not None]
    lists = [v for v in (older["tags"], newer["tags"]) if v is not None]
    return {**newer, "n": sum(known) if known else None, "tags": [v for one in lists for v in one] if lists else None}


@settings(deadline=None, max_examples=150)
@given(st.lists(ROWS, max_size=20))
def test_a_batch_is_aggregated_in_order_from_its_last_delete_on(rows: list[Row]) -> None:
    model: dict[str, tuple[Row, bool]] = {}
    for one in sorted(rows, key=lambda r: r["ts"]):
        key = one["k"]
        if key not in model or one[DELETE_FLAG]:
            model[key] = (one, False)
        elif model[key][0][DELETE_FLAG]:
            model[key] = (one, True)
        else:
            model[key] = (aggregated(model[key][0], one), model[key][1])
    assert {r["k"]: (r, fresh) for r, fresh in combine_with_marks(ALL, rows, SCHEMA)} == model


def test_a_row_after_a_delete_in_one_batch_takes_nothing_from_storage() -> None:
    batch = [row(2, deleted=True), row(3, 7, "I")]
    for merger in (ALL, FirstRow("ts")):
        ((new, fresh),) = combine_with_marks(merger, batch, SCHEMA)
        assert (new, fresh) == (row(3, 7, "I"), True)
        assert merge_rows(merger, [row(1, 5, "E")], [new], SCHEMA, [fresh]) == [row(3, 7, "I")]
    assert merge_rows(ALL, [row(1, 5, "E")], [row(3, 7, "I")], SCHEMA, [False]) == [row(3, 12, "I")]


def test_a_row_after_a_delete_entry_of_a_log_takes_nothing_from_before_it() -> None:
    log = [("k", row(1, 5), 1), ("k", None, 2), ("k", row(3, 7), 3), ("k", row(4, 1), 4)]
    assert fold_records(ALL, log, SCHEMA) == {"k": row(4, 8)}
    folded = fold_log(ALL, make_log([*log, ("l", row(1, 1), 1), ("m", None, 1), ("m", row(2, 2), 2)], SCHEMA), "ts")
    assert folded.fresh is not None
    assert dict(zip(folded.keys.to_pylist(), folded.fresh.tolist(), strict=True)) == {"k": True, "l": False, "m": True}


def test_the_first_row_of_a_key_stays() -> None:
    merger = FirstRow("ts")
    assert merge_pair(merger, row(5, 1), row(6, 2), SCHEMA) == row(5, 1)
    assert merge_pair(merger, row(5, 1), row(4, 2), SCHEMA) == row(5, 1)
    rows = [row(3, 3), row(2, 2), row(2, 9)]
    assert combine(merger, rows, SCHEMA) == {"k": row(2, 2)}
    assert combine(FirstRow(), rows, SCHEMA, None) == {"k": row(3, 3)}
    assert combine(merger, [*rows, row(9, deleted=True)], SCHEMA) == {"k": row(9, deleted=True)}


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([row(3, 1), row(2, 2), row(4, 3)], row(3, 1)),  # in a log the first to come, not the oldest
        ([row(3, 1), row(2, deleted=True), row(4, 3)], row(3, 1)),  # a delete that is late
        ([row(3, 1), row(3, deleted=True), row(2, 3), row(5, 4)], row(2, 3)),
        ([row(3, 1), row(4, deleted=True)], row(4, deleted=True)),
        ([row(3, deleted=True), row(2, deleted=True)], row(2, deleted=True)),
    ],
)
def test_the_first_row_of_a_log_is_the_first_that_came(changes: list[Row], left: Row) -> None:
    assert fold_records(FirstRow("ts"), [("k", one, one["ts"]) for one in changes], SCHEMA) == {"k": left}


def test_a_row_made_of_two_is_as_new_as_the_later_commit() -> None:
    schema = pa.schema([(META_COLUMNS[0], pa.string()), (META_COLUMNS[1], pa.string()), *SCHEMA])
    old, new = ({META_COLUMNS[0]: str(i), META_COLUMNS[1]: f"{i}_0", **row(ts, 1)} for i, ts in ((1, 5), (2, 4)))
    late = merge_pair(ALL, old, new, schema)
    assert late is not None
    assert (late[META_COLUMNS[0]], late[META_COLUMNS[1]], late["ts"], late["n"]) == ("2", "2_0", 5, 2)
    assert combine_pair(ALL, new, old, schema)[META_COLUMNS[0]] == "2"


def test_earlier_versions_go_into_the_list() -> None:
    merger = KeepHistory("history", "ts")
    once = merge_pair(merger, version(1, "a"), version(2, "b"), VERSIONED)
    assert once == version(2, "b", [{"ts": 1, "s": "a"}])
    twice = merge_pair(merger, once, version(3, None), VERSIONED)
    assert twice == version(3, None, [{"ts": 1, "s": "a"}, {"ts": 2, "s": "b"}])
    assert merge_pair(merger, twice, version(9, None, deleted=True), VERSIONED) is None
    assert merge_pair(merger, twice, version(1, None, deleted=True), VERSIONED) == twice
    assert insert(merger, [version(1, "a")], VERSIONED) == [version(1, "a")]


def test_a_late_version_is_put_in_its_place() -> None:
    stored = version(5, "e", [{"ts": 1, "s": "a"}, {"ts": 3, "s": "c"}])
    found = merge_pair(KeepHistory("history", "ts"), stored, version(2, "b"), VERSIONED)
    assert found == version(5, "e", [{"ts": 1, "s": "a"}, {"ts": 2, "s": "b"}, {"ts": 3, "s": "c"}])


def test_a_history_may_be_limited_to_its_newest_versions() -> None:
    stored = version(5, "e", [{"ts": 1, "s": "a"}, {"ts": 3, "s": "c"}])
    found = merge_pair(KeepHistory("history", "ts", limit=2), stored, version(6, "f"), VERSIONED)
    assert found == version(6, "f", [{"ts": 3, "s": "c"}, {"ts": 5, "s": "e"}])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["a", "b", None])), min_size=1, max_size=12), st.integers(0, 11))
def test_a_history_is_the_same_however_versions_come_together(versions: list[tuple[int, str | None]], cut: int) -> None:
    merger = KeepHistory("history", "ts")
    ordered = sorted(versions, key=lambda v: v[0])
    past = [{"ts": ts, "s": s} for ts, s in ordered[:-1]]
    rows = [version(ts, s) for ts, s in versions]
    assert combine(merger, rows, VERSIONED) == {"k": version(*ordered[-1], past or None)}
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    found = [combine(merger, part, VERSIONED)["k"] for part in parts]
    both = found[0] if len(found) == 1 else merge_pair(merger, found[0], found[1], VERSIONED)
    assert both is not None
    assert sorted(v["ts"] for v in both["history"] or []) == [v["ts"] for v in past]
    assert [v["ts"] for v in both["history"] or []] == [v["ts"] for v in past]


@pytest.mark.parametrize(
    ("merger", "message"),
    [
        (KeepHistory("s"), "column 's' has to be a list of structs"),
        (Aggregate((("s", "sum"),)), "sum of column 's'"),
        (Aggregate((("nowhere", "sum"),)), "column 'nowhere' is to be aggregated"),
    ],
)
def test_rows_that_cannot_be_joined_do_not_get_into_a_log(merger: Merger, message: str) -> None:
    rows = pa.Table.from_pylist([row(1)], schema=SCHEMA)
    with pytest.raises(SchemaError, match=message):
        merger.is_delete_entry(rows)
    assert not ALL.is_delete_entry(pa.Table.from_pylist([row(1, deleted=True)], schema=SCHEMA)).any()


def test_a_column_that_cannot_hold_versions_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"column 's' has to be a list of structs"):
        merge_pair(KeepHistory("s"), row(1), row(2), SCHEMA)
    with pytest.raises(SchemaError, match=r"column 'nowhere' has to be a list of structs"):
        merge_pair(KeepHistory("nowhere"), row(1), row(2), SCHEMA)
