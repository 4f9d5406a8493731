"""Partial updates with a list of what they supply, and GoldenGate's changes: an absent column is not one that is null."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SchemaError
from penstock.merge.masked import MASK, Masked
from penstock.merge.mergers import DELETE_FLAG
from penstock.merge.ogg import ogg_merger, ogg_rows, ogg_schema
from tests.unit.merge.meeting import Row, combine, insert, meet, meet_one, replay

NAMES = pa.list_(pa.field("element", pa.string()))
SCHEMA = pa.schema(
    [("k", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.int32()), (MASK, NAMES), (DELETE_FLAG, pa.bool_())]
)
MERGER = Masked("ts")


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
    assert meet_one(MERGER, row(5, "E", 1), new, SCHEMA) == merged


def test_rows_are_stored_whole() -> None:
    assert insert(MERGER, [row(1, "I", None, ["a"]), row(1, "x", 1, [], True)], SCHEMA) == [row(1, "I", None)]


def test_rows_without_the_list_are_whole() -> None:
    schema = pa.schema([field for field in SCHEMA if field.name != MASK])
    new = {"k": "k", "ts": 2, "a": None, "b": 2, DELETE_FLAG: None}
    assert meet_one(MERGER, {**new, "a": "E"}, new, schema) == new


def test_an_unknown_name_in_the_list_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"'_changed_columns' names 'zz', which is none of the columns: k, ts"):
        meet_one(MERGER, row(5, "E", 1), row(6, None, None, ["a", "zz"]), SCHEMA)


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
    folded = combine(MERGER, rows, SCHEMA)
    logged = replay(MERGER, [(r["k"], r, r["ts"]) for r in rows], SCHEMA)
    assert {k: shown(r) for k, r in logged.items()} == {k: shown(r) for k, r in folded.items()}
    for key, change in folded.items():
        before = stored[key]
        found = meet(MERGER, [before], [change], SCHEMA) if before else insert(MERGER, [change], SCHEMA)
        assert (found or [None]) == [expected[key]]


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
    assert replay(MERGER, log, SCHEMA) == {"k": row(3, "I", None)}


# GoldenGate.
TABLE = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(10, 2)), ("at", pa.timestamp("us")), ("ok", pa.bool_())]
)


def change(op: str, pos: Any, after: Row | None = None, before: Row | None = None) -> str:
    parts = {"table": "S.T", "op_type": op, "pos": pos, "before": before, "after": after}
    return json.dumps({name: part for name, part in parts.items() if part is not None})


def test_changes_become_rows_that_say_what_they_supply() -> None:
    found = ogg_rows(
        pa.array(
            [
                change("I", "1", {"ID": 1, "NAME": "a", "PRICE": 1.10, "AT": "2024-01-02 03:04:05.000006", "OK": True}),
                change("U", "2", {"ID": 1, "PRICE": None}),
                change("U", "10", {"ID": 1, "NAME": "c"}, {"ID": 1, "NAME": "b", "PRICE": "7.50"}),
                change("D", "11", before={"ID": 1, "NAME": "c"}),
            ]
        ),
        TABLE,
    )
    assert found.schema == ogg_schema(TABLE)
    at = datetime(2024, 1, 2, 3, 4, 5, 6)
    nothing = {"name": None, "price": None, "at": None, "ok": None}
    assert found.to_pylist() == [
        {"id": 1, "name": "a", "price": Decimal("1.10"), "at": at, "ok": True, "op_type": "I", "pos": "1".zfill(20), MASK: None},
        {**nothing, "id": 1, "op_type": "U", "pos": "2".zfill(20), MASK: ["id", "price"]},
        {**nothing, "id": 1, "name": "c", "price": Decimal("7.50"), "op_type": "U", "pos": "10".zfill(20), MASK: ["id", "name"]},
        {**nothing, "id": 1, "name": "c", "op_type": "D", "pos": "11".zfill(20), MASK: None},
    ]


def goldengate(*changes: str) -> list[Row]:
    return [{**r, "k": "k"} for r in ogg_rows(pa.array(changes), TABLE).to_pylist()]


OGG = pa.schema([("k", pa.string()), *ogg_schema(TABLE)])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([change("U", 2, {"id": 1, "price": 5})], {"name": "a", "price": Decimal(5)}),
        ([change("U", 2, {"id": 1, "price": None})], {"name": "a", "price": None}),
        ([change("U", 2, {"id": 1, "name": "b"}), change("U", 3, {"id": 1, "price": 6})], {"name": "b", "price": Decimal(6)}),
        ([change("U", 10, {"id": 1, "name": "late"}), change("U", 9, {"id": 1, "name": "b", "price": 6})], {"name": "late", "price": Decimal(6)}),
        ([change("U", 2, {"id": 1, "name": "b"}, {"id": 1, "name": "a", "price": 99})], {"name": "b", "price": Decimal(1)}),
        ([change("D", 2, before={"id": 1})], None),
        ([change("D", 2, before={"id": 1}), change("I", 3, {"id": 1, "name": "n"})], {"name": "n", "price": None}),
        ([change("D", 2, before={"id": 1}), change("U", 3, {"id": 1, "name": "n"})], {"name": "n", "price": None}),
        ([change("U", 2, {"id": 1, "name": "b"}), change("D", 3, before={"id": 1})], None),
        ([change("U", 0, {"id": 1, "name": "too late"})], {"name": "a", "price": Decimal(1)}),
    ],
)  # fmt: skip
def test_changes_of_goldengate_are_applied_in_the_order_of_their_positions(changes: list[str], expected: Row | None) -> None:
    (stored,) = insert(ogg_merger(), goldengate(change("I", 1, {"id": 1, "name": "a", "price": 1})), OGG)
    folded = combine(ogg_merger(), goldengate(*changes), OGG, "pos")["k"]
    found = meet_one(ogg_merger(), stored, folded, OGG)
    assert found == (None if expected is None else {**found, **expected, MASK: None})  # type: ignore[dict-item]


def test_an_update_of_a_key_that_is_not_stored_is_filled_from_before() -> None:
    (stored,) = insert(ogg_merger(), goldengate(change("U", 2, {"id": 1, "name": "b"}, {"id": 1, "name": "a", "price": 3})), OGG)
    assert (stored["name"], stored["price"], stored[MASK]) == ("b", Decimal(3), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        (None, "is no JSON"),
        ("[1]", "is no JSON object"),
        (change("T", 1, {"id": 1}), "op_type is 'T'.*known are I, U and D"),
        (json.dumps({"op_type": "I", "after": {"id": 1}}), "has no 'pos'"),
        (change("U", 1), "of type U has no columns"),
        (change("D", 1), "of type D has no columns"),
        (change("I", 1, {"id": 1, "other": 2}), "has the column 'other', which the table lacks"),
        (change("I", 1, {"id": "x"}), r"does not fit column 'id' \(int64\)"),
    ],
)
def test_what_is_no_change_of_goldengate_is_refused(text: str | None, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        ogg_rows(pa.array([text], pa.string()), TABLE)


def test_unknown_columns_may_be_left_out() -> None:
    found = ogg_rows(pa.array([change("U", 1, {"id": 1, "other": 2})]), TABLE, ignore_unknown=True)
    assert found[MASK].to_pylist() == [["id"]]
