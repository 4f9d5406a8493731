"""Partial updates with a list of what they supply, and GoldenGate's changes: an absent column is not one that is null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SchemaError
from penstock.merge.column_mask import MASK, MaskedUpdate
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.goldengate import POSITION, make_goldengate_merger
from penstock.merge.payload_settings import PayloadSettings
from tests.unit.merge.merging import Row, combine, fold_records, insert, merge_pair, merge_rows

NAMES = pa.list_(pa.field("element", pa.string()))
SCHEMA = pa.schema(
    [("k", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.int32()), (MASK, NAMES), (DELETE_FLAG, pa.bool_())]
)
MERGER = MaskedUpdate("ts")


def row(ts: int, a: str | None, b: int | None, mask: list[str] | None = None, deleted: bool | None = None) -> Row:
    return {"k": "k", "ts": ts, "a": a, "b": b, MASK: mask, DELETE_FLAG: deleted}


@pytest.mark.parametrize(
    ("new", "merged"),
    [
        (row(6, "I", None, ["a"]), row(6, "I", 1)),
        (row(6, None, None, ["a"]), row(6, None, 1)),  # set to null
        (row(6, None, None, []), row(6, "E", 1)),  # nothing supplied but the ordering value
        (row(6, None, None, ["a", "b"]), row(6, None, None)),
        (row(6, "I", None), row(6, "I", None)),  # the whole row
        (row(5, "I", None, ["a"]), row(5, "I", 1)),
        (row(4, "I", None, ["a"]), row(5, "E", 1)),  # late
        (row(4, "I", 2), row(5, "E", 1)),
        (row(6, None, None, [], deleted=True), None),
        (row(4, None, None, [], deleted=True), row(5, "E", 1)),
    ],
)
def test_supplied_columns_replace_and_absent_ones_stay(new: Row, merged: Row | None) -> None:
    assert merge_pair(MERGER, row(5, "E", 1), new, SCHEMA) == merged


def test_rows_are_stored_whole() -> None:
    assert insert(MERGER, [row(1, "I", None, ["a"]), row(1, "x", 1, [], True)], SCHEMA) == [row(1, "I", None)]


def test_rows_without_the_list_are_whole() -> None:
    schema = pa.schema([field for field in SCHEMA if field.name != MASK])
    new = {"k": "k", "ts": 2, "a": None, "b": 2, DELETE_FLAG: None}
    assert merge_pair(MERGER, {**new, "a": "E"}, new, schema) == new


def test_an_unknown_name_in_the_list_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"'_changed_columns' names 'zz', which is none of the columns: k, ts"):
        merge_pair(MERGER, row(5, "E", 1), row(6, None, None, ["a", "zz"]), SCHEMA)


ROWS = st.builds(
    lambda k, ts, a, b, mask, deleted: {
        "k": k, "ts": ts, "a": None if mask is not None and "a" not in mask else a,
        "b": None if mask is not None and "b" not in mask else b, MASK: mask, DELETE_FLAG: deleted,
    },
    st.sampled_from("pqr"),
    st.integers(1, 5),
    st.sampled_from([None, "x", "y"]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, [], ["a"], ["b"], ["a", "b"]]),
    st.sampled_from([None, None, None, True]),
)  # fmt: skip


def applied(stored: Row | None, change: Row) -> Row | None:
    """The model: one change after another to what is stored."""
    if stored is not None and stored["ts"] > change["ts"]:
        return stored
    if change[DELETE_FLAG]:
        return None
    if stored is None or change[MASK] is None:
        return {**change, MASK: None}
    return {**change, **{n: stored[n] for n in ("a", "b") if n not in change[MASK]}, MASK: None}


def shown(change: Row | None) -> Row | None:
    """A change without what says nothing: the list of a delete."""
    return {**change, MASK: None} if change and change[DELETE_FLAG] else change


@pytest.mark.parametrize("there", [True, False])
@settings(deadline=None, max_examples=200)
@given(rows=st.lists(ROWS, min_size=1, max_size=16))
def test_changes_of_one_batch_do_what_they_do_one_by_one(there: bool, rows: list[Row]) -> None:
    stored = {key: {**row(0, "E", 9), "k": key} if there else None for key in "pqr"}
    expected: dict[str, Row | None] = dict(stored)
    for change in sorted(rows, key=lambda r: r["ts"]):
        expected[change["k"]] = applied(expected[change["k"]], change)
    for key, change in combine(MERGER, rows, SCHEMA).items():
        assert after(stored[key], change) == expected[key]


@pytest.mark.parametrize("there", [True, False])
@settings(deadline=None, max_examples=200)
@given(rows=st.lists(ROWS, min_size=1, max_size=16), cut=st.integers(0, 16))
def test_changes_of_a_log_do_what_commits_do_one_by_one(there: bool, rows: list[Row], cut: int) -> None:
    stored = {key: {**row(0, "E", 9), "k": key} if there else None for key in "pqr"}
    expected: dict[str, Row | None] = dict(stored)
    for change in rows:
        expected[change["k"]] = applied(expected[change["k"]], change)
    records = [(r["k"], r, r["ts"]) for r in rows]
    for key, change in fold_records(MERGER, records, SCHEMA).items():
        assert after(stored[key], change) == expected[key]
    once = fold_records(MERGER, records[:cut], SCHEMA)
    for key, change in fold_records(MERGER, [*((k, r, r["ts"]) for k, r in once.items() if r), *records[cut:]], SCHEMA).items():
        assert after(stored[key], change) == expected[key]


def after(stored: Row | None, change: Row | None) -> Row | None:
    """What is stored after a change, which is a row, also if it is a delete."""
    assert change is not None
    return (merge_rows(MERGER, [stored], [change], SCHEMA) if stored else [*insert(MERGER, [change], SCHEMA), None])[0]


@settings(deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=12), cut=st.integers(0, 12))
def test_changes_may_be_folded_part_by_part(rows: list[Row], cut: int) -> None:
    ordered = sorted(({**r, "k": "k"} for r in rows), key=lambda r: r["ts"])
    parts = [list(combine(MERGER, part, SCHEMA).values()) for part in (ordered[:cut], ordered[cut:]) if part]
    again = combine(MERGER, [r for part in parts for r in part], SCHEMA)["k"]
    once = combine(MERGER, ordered, SCHEMA)["k"]
    assert shown(again) == shown(once)


def test_a_change_after_a_delete_entry_of_a_log_is_whole() -> None:
    log: list[tuple[str, Row | None, Any]] = [("k", row(1, "E", 1), 1), ("k", None, 2), ("k", row(3, "I", None, ["a"]), 3)]
    assert fold_records(MERGER, log, SCHEMA) == {"k": row(3, "I", None)}


# GoldenGate: what `penstock.ogg_rows` makes of changes.
OGG = pa.schema(
    [
        ("k", pa.string()),
        ("name", pa.string()),
        ("price", pa.int32()),
        ("op_type", pa.string()),
        ("pos", pa.string()),
        (MASK, NAMES),
    ]
)


def change(op: str, pos: int, *supplied: str, name: str | None = None, price: int | None = None) -> Row:
    row: Row = {"k": "k", "name": name, "price": price, "op_type": op, "pos": str(pos).zfill(20)}
    return {**row, MASK: list(supplied) if op == "U" else None}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([change("U", 2, "price", price=5)], ("a", 5)),
        ([change("U", 2, "price")], ("a", None)),
        ([change("U", 2, "name", name="b"), change("U", 3, "price", price=6)], ("b", 6)),
        ([change("U", 10, "name", name="late"), change("U", 9, "name", "price", name="b", price=6)], ("late", 6)),
        ([change("U", 2, "name", name="b", price=99)], ("b", 1)),  # `before` had a price
        ([change("D", 2)], None),
        ([change("D", 2), change("I", 3, name="n")], ("n", None)),
        ([change("D", 2), change("U", 3, "name", name="n")], ("n", None)),
        ([change("U", 2, "name", name="b"), change("D", 3)], None),
        ([change("U", 0, "name", name="too late")], ("a", 1)),
    ],
)
def test_changes_of_goldengate_are_applied_in_the_order_of_their_positions(
    changes: list[Row], expected: tuple[str | None, int | None] | None
) -> None:
    (stored,) = insert(make_goldengate_merger(PayloadSettings(POSITION)), [change("I", 1, name="a", price=1)], OGG)
    found = merge_pair(
        make_goldengate_merger(PayloadSettings(POSITION)),
        stored,
        combine(make_goldengate_merger(PayloadSettings(POSITION)), changes, OGG, "pos")["k"],
        OGG,
    )
    assert (found and (found["name"], found["price"], found[MASK])) == (expected and (*expected, None))


def test_an_update_of_a_key_that_is_not_stored_is_filled_from_before() -> None:
    (stored,) = insert(make_goldengate_merger(PayloadSettings(POSITION)), [change("U", 2, "name", name="b", price=3)], OGG)
    assert (stored["name"], stored["price"], stored[MASK]) == ("b", 3, None)


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"column 'op_type' holds \['T'\]; operations are I, U and D"):
        insert(make_goldengate_merger(PayloadSettings(POSITION)), [change("T", 1, name="b")], OGG)
