"""Kernels against a plain model, one row at a time: rows that meet storage, batches and logs of many keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.merge.aggregate import Aggregate
from penstock.merge.column_mask import MaskedUpdate
from penstock.merge.deletes import DELETE_FLAG
from penstock.merge.first_row import FirstRow
from penstock.merge.history import KeepHistory
from penstock.merge.kernels.blend import blend, fill_nulls, is_complete
from penstock.merge.kernels.by_key import pick_newest
from penstock.merge.kernels.fold import LogRecords, fold_batch, fold_log
from penstock.merge.kernels.ordering import rank_values
from penstock.merge.make_merger import make_merger
from penstock.merge.merger import Merger
from penstock.merge.overwrite import CommitTimeOrdering, EventTimeOrdering, FirstValue
from penstock.merge.partial import OverwriteNonDefaults, PartialUpdate
from tests.unit.merge.merging import Row, combine, fold_records, make_log, merge_rows, rows_of

NESTED = pa.struct([("x", pa.int32()), ("l", pa.list_(pa.field("element", pa.string())))])
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("ts", pa.int64()),
        ("a", pa.string()),
        ("n", NESTED),
        ("m", pa.map_(pa.string(), pa.int32())),
        (DELETE_FLAG, pa.bool_()),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from("pqrs"),
        "ts": st.integers(1, 4),
        "a": st.sampled_from([None, "", "x", "ä"]),
        "n": st.sampled_from([None, {"x": None, "l": None}, {"x": 1, "l": ["q", None]}]),
        "m": st.sampled_from([None, [], [("z", 1)]]),
        DELETE_FLAG: st.sampled_from([None, None, False, True]),
    }
)
BATCHES = st.lists(ROWS, max_size=24)


def filled(first: Row, second: Row) -> Row:
    return {name: second[name] if value is None else value for name, value in first.items()}


def combined_partially(older: Row, newer: Row, in_log: bool) -> Row:
    """PartialUpdateAvroPayload.preCombine."""
    if newer["ts"] >= older["ts"]:
        return newer if newer[DELETE_FLAG] else filled(newer, older)
    if older[DELETE_FLAG] and not in_log:
        return newer
    return filled(older, newer)


def partially(old: Row, new: Row) -> Row | None:
    """PartialUpdateAvroPayload.combineAndGetUpdateValue."""
    if new[DELETE_FLAG]:
        return None
    if old["ts"] > new["ts"]:
        return None if old[DELETE_FLAG] else filled(old, new)
    return filled(new, old)


def model_batch(rows: list[Row]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for row in rows:
        found[row["k"]] = combined_partially(found[row["k"]], row, False) if row["k"] in found else row
    return found


@settings(deadline=None, max_examples=200)
@given(BATCHES)
def test_partial_updates_of_a_batch_become_those_of_the_model(rows: list[Row]) -> None:
    assert combine(PartialUpdate("ts"), rows, SCHEMA) == model_batch(rows)


@pytest.mark.parametrize("first", [1_700_000_000_000_000, -9], ids=["microseconds", "negative"])
def test_partial_updates_are_ordered_right_among_many_keys_and_great_or_negative_ordering_values(first: int) -> None:
    count = 6_000  # that many keys times microseconds since the epoch is more than an int64 holds
    rows = []
    for number in range(count):
        level = 0 if number == 0 else first
        rows.append({"k": str(number), "ts": level, "a": "older"})
        rows.append({"k": str(number), "ts": level + 1, "a": "newer"})
    combined = combine(PartialUpdate("ts"), rows, SCHEMA)
    assert [row["a"] for row in combined.values()] == ["newer"] * count


@settings(deadline=None)
@given(BATCHES)
def test_without_ordering_a_batch_is_taken_as_it_came(rows: list[Row]) -> None:
    level = [{**row, "ts": 1} for row in rows]
    assert combine(PartialUpdate(None), level, SCHEMA, None) == model_batch(level)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=12))
def test_partial_updates_meet_storage_as_in_the_model(pairs: list[tuple[Row, Row]]) -> None:
    old, new = [e for e, _ in pairs], [i for _, i in pairs]
    assert merge_rows(PartialUpdate("ts"), old, new, SCHEMA) == [partially(e, i) for e, i in pairs]


@settings(deadline=None)
@given(st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=12))
def test_non_default_values_meet_storage_as_in_the_model(pairs: list[tuple[Row, Row]]) -> None:
    old, new = [e for e, _ in pairs], [i for _, i in pairs]
    assert merge_rows(OverwriteNonDefaults(), old, new, SCHEMA) == [None if i[DELETE_FLAG] else filled(i, e) for e, i in pairs]
    blank = [None if i[DELETE_FLAG] else {**filled(i, e), "a": e["a"] if i["a"] == "" else i["a"]} for e, i in pairs]
    assert merge_rows(OverwriteNonDefaults((("a", ""),)), old, new, SCHEMA) == blank


RECORDS = st.lists(
    st.one_of(ROWS.map(lambda row: (row["k"], row, row["ts"])), st.tuples(st.sampled_from("pqrs"), st.none(), st.sampled_from([None, 0, 1, 2, 3, 4]))),
    max_size=24,
)  # fmt: skip


def model_log(records: list[tuple[str, Row | None, Any]], merge: Any) -> dict[str, Row | None]:
    present: dict[str, tuple[Row | None, Any]] = {}
    for key, row, value in records:
        if key not in present:
            present[key] = (row, value)
            continue
        before, p = present[key]
        if row is None:
            keeps = before is not None and value is not None and p > value
            present[key] = (before, p) if keeps else (None, value)
        elif before is None:
            present[key] = (row, value)
        else:
            merged = merge(before, row)
            present[key] = (merged, max(p, value))
    return {key: row for key, (row, _) in present.items()}


def newest(older: Row, newer: Row) -> Row:
    return newer if newer["ts"] >= older["ts"] else older


@pytest.mark.parametrize(
    ("merger", "merge"),
    [(EventTimeOrdering("ts"), newest), (PartialUpdate("ts"), lambda e, i: combined_partially(e, i, True))],
    ids=["newest", "partial"],
)
@settings(deadline=None, max_examples=200)
@given(records=RECORDS)
def test_a_log_says_what_the_model_says(merger: Merger, merge: Any, records: list[tuple[str, Row | None, Any]]) -> None:
    assert fold_records(merger, records, SCHEMA) == model_log(records, merge)


@pytest.mark.parametrize(
    "merger", [EventTimeOrdering("ts"), PartialUpdate("ts"), CommitTimeOrdering()], ids=["newest", "partial", "last"]
)
@settings(deadline=None)
@given(records=RECORDS, cut=st.integers(0, 24))
def test_a_log_may_be_folded_part_by_part(merger: Merger, records: list[tuple[str, Row | None, Any]], cut: int) -> None:
    front, back = make_log(records[:cut], SCHEMA), make_log(records[cut:], SCHEMA)
    before = fold_log(merger, front, "ts")
    both = LogRecords(
        keys=pa.concat_arrays([before.keys, back.keys]),
        rows=pa.concat_tables([before.rows, back.rows]),
        empty=np.concatenate([before.empty, back.empty]),
        ordering=pa.concat_arrays([before.ordering, back.ordering]),
    )
    assert rows_of(fold_log(merger, both, "ts")) == fold_records(merger, records, SCHEMA)


@settings(deadline=None)
@given(BATCHES, st.randoms(use_true_random=False))
def test_rows_that_stand_in_another_order_are_folded_by_their_arrival(rows: list[Row], random: Any) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    table = pa.Table.from_pylist([rows[at] for at in order], schema=SCHEMA)
    batch = fold_batch(PartialUpdate("ts"), table, table["k"].combine_chunks(), table["ts"], "ts", np.array(order, np.int64))
    assert {row["k"]: row for row in batch.apply(table).to_pylist()} == model_batch(rows)
    last = {row["k"]: at for at, row in enumerate(rows)}
    assert sorted(order[at] for at in batch.rows.tolist()) == sorted(last.values())


@settings(deadline=None)
@given(BATCHES)
def test_picking_by_folding_is_picking_by_positions(rows: list[Row]) -> None:
    settings_with_operation = make_merger("org.apache.hudi.common.model.DefaultHoodieRecordPayload", "ts")
    plain = combine(settings_with_operation, rows, SCHEMA)
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    at = pick_newest(table["k"].combine_chunks(), table["ts"], "ts")
    assert plain == {row["k"]: row for row in table.take(pa.array(at)).to_pylist()}
    assert fold_records(EventTimeOrdering("ts"), [(row["k"], row, row["ts"]) for row in rows], SCHEMA) == plain
    assert combine(CommitTimeOrdering(), rows, SCHEMA) == {row["k"]: row for row in rows}


def test_a_batch_of_single_rows_is_left_alone() -> None:
    table = pa.table({"k": ["p", "q"], "ts": [1, 2]})
    batch = fold_batch(PartialUpdate("ts"), table, table["k"].combine_chunks(), table["ts"])
    assert batch.rows.tolist() == [0, 1]
    assert len(batch.changed) == batch.values.num_rows == 0


@pytest.mark.parametrize(
    "merger",
    [
        PartialUpdate("ts"),
        MaskedUpdate("ts"),
        FirstRow("ts"),
        Aggregate((("a", "max"),), "ts"),
        KeepHistory("n", "ts"),
        FirstValue("ts"),
    ],
    ids=lambda merger: type(merger).__name__,
)
def test_a_log_of_deletes_alone_has_no_rows_to_fold(merger: Merger) -> None:
    assert fold_records(merger, [("p", None, 1), ("q", None, None), ("p", None, 0)], SCHEMA) == {"p": None, "q": None}
    assert fold_records(merger, [], SCHEMA) == {}


def test_a_key_with_very_many_rows_is_folded_at_once() -> None:
    count = 20_000
    table = pa.table(
        {
            "k": pa.array(["hot"] * count),
            "ts": np.arange(count),
            "a": pa.array([None if at else "first" for at in range(count)]),
            DELETE_FLAG: pa.array([at == 100 for at in range(count)]),
        }
    )
    for start in (101, 0):  # without the delete, and with it
        part = table.slice(start)
        batch = fold_batch(PartialUpdate("ts"), part, part["k"].combine_chunks(), part["ts"], "ts")
        assert batch.values.to_pylist() == [{"k": "hot", "ts": count - 1, "a": None, DELETE_FLAG: False}]


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False), st.just(float("nan")))))
def test_ranks_compare_as_the_values_do(values: list[float | None]) -> None:
    found = rank_values(pa.chunked_array([pa.array(values, pa.float64())]), "ts").tolist()

    def place(value: float | None) -> tuple[int, float]:
        return (0, 0.0) if value is None else (2, 0.0) if value != value else (1, value)

    for i, one in enumerate(values):
        for j, other in enumerate(values):
            if place(one) != place(other):
                assert (found[i] < found[j]) == (place(one) < place(other))


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), st.sampled_from([pa.int64(), pa.timestamp("us")]))
def test_ranks_of_whole_numbers_compare_as_they_do(values: list[int | None], kind: pa.DataType) -> None:
    found = rank_values(pa.array(values, pa.int64()).view(kind), "ts")
    least = [(0, 0) if value is None else (1, value) for value in values]
    assert np.argsort(found, kind="stable").tolist() == sorted(range(len(values)), key=least.__getitem__)


def test_a_log_in_which_no_key_comes_twice_stays_as_it_is() -> None:
    rows = pa.table({"id": ["a", "b", "c"], "ts": [3, 1, None]})
    records = LogRecords(rows["id"].combine_chunks(), rows, np.array([False, False, True]), rows["ts"].combine_chunks())
    found = fold_log(EventTimeOrdering("ts"), records, "ts")
    assert found.rows.equals(rows)
    assert found.empty.tolist() == [False, False, True]
    assert found.rows["ts"].chunk(0).buffers()[1].address == rows["ts"].chunk(0).buffers()[1].address, "nothing is copied"


@settings(deadline=None)
@given(st.lists(st.tuples(ROWS, ROWS, st.booleans()), min_size=1))
def test_blending_takes_each_value_from_the_side_that_is_named(triples: list[tuple[Row, Row, bool]]) -> None:
    one = pa.Table.from_pylist([a for a, _, _ in triples], schema=SCHEMA)
    other = pa.Table.from_pylist([b for _, b, _ in triples], schema=SCHEMA)
    first = np.array([c for _, _, c in triples], np.bool_)
    for name in SCHEMA.names:
        picked = [(a if c else b)[name] for a, b, c in triples]
        assert blend(first, one[name], other[name]).to_pylist() == picked
        known = [b[name] if a[name] is None else a[name] for a, b, _ in triples]
        assert fill_nulls(one[name], other[name]).to_pylist() == known
    assert is_complete(one).tolist() == [all(v is not None for v in a.values()) for a, _, _ in triples]


def test_a_folded_row_stands_where_its_partition_columns_come_from() -> None:
    rows = pa.table({"k": [*"ppqqrr"], "ts": [2, 1, 1, 2, 2, 1], "city": ["x", "y", "x", "y", None, "z"]})
    keys, ordering = rows["k"].combine_chunks(), rows["ts"]
    batch = fold_batch(FirstValue("ts"), rows, keys, ordering, "ts", None, ["city"])
    assert batch.rows.tolist() == [0, 3, 4]
    assert batch.apply(rows)["city"].to_pylist() == ["x", "y", None]
    assert fold_batch(FirstValue("ts"), rows, keys, ordering, "ts").rows.tolist() == [1, 3, 5]
    filled = fold_batch(PartialUpdate("ts"), rows, keys, ordering, "ts", None, ["city"])
    assert filled.rows.tolist() == [0, 3, 5], "the city of r is that of its older row"
    assert fold_batch(FirstValue("ts"), rows, keys, ordering, "ts", None, ["nowhere"]).rows.tolist() == [1, 3, 5]
