"""Logs whose deletes are compared by ordering value, against a model that keeps one key in a few plain variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.merge.kernels.fold import LogRecords
from penstock.merge.kernels.tombstones import find_tombstones, fold_ordered_log
from penstock.merge.merger import Merger
from penstock.merge.overwrite import EventTimeOrdering, OverwriteWithLatest
from penstock.merge.partial import PartialUpdate
from tests.unit.merge.merging import Row, make_log

SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("_hoodie_is_deleted", pa.bool_())])


def row(key: str, ts: int, value: int | None, is_deleted: bool = False) -> Row:
    return {"k": key, "ts": ts, "v": value, "_hoodie_is_deleted": is_deleted}


@st.composite
def records(draw: st.DrawFn) -> list[tuple[str, Row | None, Any]]:
    """Rows, rows that are deletes, and delete entries with and without an ordering value."""
    made: list[tuple[str, Row | None, Any]] = []
    for number in range(draw(st.integers(0, 12))):
        key, ts = draw(st.sampled_from("ab")), draw(st.integers(1, 4))
        kind = draw(st.sampled_from(["row", "row", "delete row", "delete", "always"]))
        if kind in ("row", "delete row"):
            made.append((key, row(key, ts, number, kind == "delete row"), ts))
        else:
            made.append((key, None, ts if kind == "delete" else None))
    return made


def model(log: list[tuple[str, Row | None, Any]], key: str) -> tuple[bool, int | None, Row | None]:
    """Return (whether a delete without a value came, the greatest value of the deletes since, the newest row that is left)."""
    always, deleted_at, rows = False, None, list[Row]()
    for record_key, record, ts in log:
        if record_key != key:
            continue
        if record is None and ts is None:
            always, deleted_at, rows = True, None, []
        elif record is None or record["_hoodie_is_deleted"]:
            deleted_at = max(ts, deleted_at or 0)
            rows = [kept for kept in rows if kept["ts"] > ts]
        elif deleted_at is None or ts >= deleted_at:
            rows.append(record)
    newest = max(enumerate(rows), key=lambda numbered: (numbered[1]["ts"], numbered[0]))[1] if rows else None
    return always, deleted_at, newest


def fold(merger: Merger, log: LogRecords) -> dict[str, tuple[bool, int | None, Row | None]]:
    folded = fold_ordered_log(merger, log, "ts")
    one_per_key, numbers, tombstones = find_tombstones(folded)
    found = folded.rows.take(pa.array(numbers)).to_pylist()
    result = {}
    for number, key in enumerate(one_per_key.keys.to_pylist()):
        left = None if one_per_key.empty[number] else found[number]
        result[key] = (bool(tombstones.always[number]), tombstones.ordering[number].as_py(), left)
    return result


MERGERS = pytest.mark.parametrize("merger", [EventTimeOrdering("ts"), OverwriteWithLatest()], ids=["ordered", "last"])


@MERGERS
@settings(deadline=None, max_examples=100)
@given(log=records())
def test_a_log_keeps_the_tombstones_and_the_row_of_the_model(merger: Merger, log: list[tuple[str, Row | None, Any]]) -> None:
    assert fold(merger, make_log(log, SCHEMA)) == {key: model(log, key) for key in {key for key, _, _ in log}}


@MERGERS
@settings(deadline=None, max_examples=100)
@given(log=records(), cut=st.integers(0, 12))
def test_a_log_with_tombstones_may_be_folded_part_by_part(
    merger: Merger, log: list[tuple[str, Row | None, Any]], cut: int
) -> None:
    front, back = fold_ordered_log(merger, make_log(log[:cut], SCHEMA), "ts"), make_log(log[cut:], SCHEMA)
    assert front.ordering is not None
    assert back.ordering is not None
    both = LogRecords(
        keys=pa.concat_arrays([front.keys, back.keys]),
        rows=pa.concat_tables([front.rows, back.rows]),
        empty=np.concatenate([front.empty, back.empty]),
        ordering=pa.concat_arrays([front.ordering, back.ordering]),
    )
    assert fold(merger, both) == fold(merger, make_log(log, SCHEMA))


def test_rows_older_than_a_delete_give_no_value_to_a_partial_row() -> None:
    log = [("a", row("a", 1, 7), 1), ("a", row("a", 5, None), 5), ("a", None, 3)]
    assert fold(PartialUpdate("ts"), make_log(log, SCHEMA))["a"] == (False, 3, row("a", 5, None))


def test_a_tombstone_removes_a_stored_row_that_is_not_newer() -> None:
    log = make_log([("a", None, 5), ("b", None, None), ("c", row("c", 5, 1), 5)], SCHEMA)
    _, _, tombstones = find_tombstones(fold_ordered_log(EventTimeOrdering("ts"), log, "ts"))
    numbers = np.array([0, 0, 0, 0, 1, 2])
    stored = pa.chunked_array([pa.array([4, 5, 6, None, 9, 1], pa.int64())])
    assert tombstones.remove(numbers, stored, "ts").tolist() == [True, True, False, True, True, False]
    assert tombstones.remove(numbers, None, "ts").tolist() == [True, True, True, True, True, False]
