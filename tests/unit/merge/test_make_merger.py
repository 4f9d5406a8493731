"""Hudi's payloads by their Java names: the tables of what they do, line by line. E is the older row, I the newer one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import OptionError, SchemaError
from penstock.merge.change_streams import UNAVAILABLE
from penstock.merge.deletes import DELETE_FLAG, DeleteMarker
from penstock.merge.kernels.fold import fold_log
from penstock.merge.kernels.runs import Runs
from penstock.merge.make_merger import make_delete_marker, make_merger, make_merger_of_mode
from penstock.merge.merger import Merger
from penstock.merge.operation_column import WithOperation, operation_deletes
from penstock.merge.overwrite import CommitTimeOrdering, EventTimeOrdering, OverwriteWithLatest
from penstock.merge.payload_settings import PayloadSettings
from penstock.options.payload_names import HUDI_PAYLOADS, PENSTOCK_PAYLOADS
from tests.unit.merge.merging import Row, combine, combine_pair, fold_records, insert, make_log, merge_pair, rows_of

MODEL = "org.apache.hudi.common.model."
SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.int32()), (DELETE_FLAG, pa.bool_())])
BY_ORDERING = ("OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload", "EventTimeAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload")  # fmt: skip


def payload(name: str, ordering: str | None = "ts") -> Merger:
    return make_merger(MODEL + name, ordering)


def row(ts: int | None, a: str | None = None, b: int | None = None, deleted: bool | None = None) -> Row:
    return {"k": "k", "ts": ts, "a": a, "b": b, DELETE_FLAG: deleted}


def met(name: str, old: Row, new: Row) -> Row | None:
    return merge_pair(payload(name), old, new, SCHEMA)


# Merge with storage: who is there afterwards. "E", "I", or None for a delete.
@pytest.mark.parametrize(
    ("name", "e", "i", "deleted", "stays"),
    [
        ("OverwriteWithLatestAvroPayload", 1, 2, None, "I"),
        ("OverwriteWithLatestAvroPayload", 1, 1, None, "I"),
        ("OverwriteWithLatestAvroPayload", 2, 1, None, "I"),
        ("OverwriteWithLatestAvroPayload", 2, 1, True, None),
        ("DefaultHoodieRecordPayload", None, 1, None, "I"),
        ("DefaultHoodieRecordPayload", None, 1, True, None),
        ("DefaultHoodieRecordPayload", 1, 2, None, "I"),
        ("DefaultHoodieRecordPayload", 1, 1, None, "I"),
        ("DefaultHoodieRecordPayload", 1, 1, True, None),
        ("DefaultHoodieRecordPayload", 2, 1, None, "E"),
        ("DefaultHoodieRecordPayload", 2, 1, True, "E"),
        ("EventTimeAvroPayload", None, 1, None, "I"),
        ("EventTimeAvroPayload", 1, 2, None, "I"),
        ("EventTimeAvroPayload", 1, 1, None, "I"),
        ("EventTimeAvroPayload", 2, 1, None, "E"),
        ("EventTimeAvroPayload", 2, 1, True, None),  # a delete asks for no ordering
        ("EventTimeAvroPayload", 2, 1, False, "E"),
        ("FirstValueAvroPayload", None, 1, None, "I"),
        ("FirstValueAvroPayload", 1, 2, None, "I"),
        ("FirstValueAvroPayload", 1, 1, None, "E"),
        ("FirstValueAvroPayload", 1, 1, True, "E"),
        ("FirstValueAvroPayload", 2, 1, None, "E"),
        ("FirstValueAvroPayload", 1, 2, True, None),
        ("HoodieAvroPayload", 2, 1, None, "I"),
        ("EmptyHoodieRecordPayload", 2, 1, None, None),
        ("EmptyHoodieRecordPayload", 1, 2, None, None),
    ],
)
def test_payloads_that_choose_keep_one_of_the_rows(
    name: str, e: int | None, i: int, deleted: bool | None, stays: str | None
) -> None:
    old, new = row(e, "E", 1), row(i, "I", 2, deleted)
    assert met(name, old, new) == {"E": old, "I": new, None: None}[stays]
    assert not payload(name).builds


# Among the rows of a batch, and of a log.
@pytest.mark.parametrize("name", BY_ORDERING)
@pytest.mark.parametrize(
    ("e", "i", "e_deleted", "i_deleted", "stays"),
    [
        (1, 2, None, None, "I"),
        (1, 1, None, None, "I"),
        (2, 1, None, None, "E"),
        (1, 2, None, True, "I"),
        (2, 1, None, True, "E"),  # a delete wins or loses like any row
        (2, 1, True, None, "E"),
        (1, 1, True, None, "I"),
    ],
)
def test_in_a_batch_or_log_the_greater_ordering_value_stays(
    name: str, e: int, i: int, e_deleted: bool | None, i_deleted: bool | None, stays: str
) -> None:
    older, newer = row(e, "E", 1, e_deleted), row(i, "I", None, i_deleted)
    expected = {"E": older, "I": newer}[stays]
    assert combine_pair(payload(name), older, newer, SCHEMA) == expected
    assert fold_records(payload(name), [("k", older, e), ("k", newer, i)], SCHEMA) == {"k": expected}


@pytest.mark.parametrize(("e", "i"), [(1, 2), (1, 1), (2, 1)])
@pytest.mark.parametrize(
    "merger", [make_merger(f"{MODEL}HoodieAvroPayload", "ts"), WithOperation(CommitTimeOrdering())], ids=["avro", "operation"]
)
def test_where_ordering_is_ignored_the_last_row_of_a_batch_or_log_stays(merger: Merger, e: int, i: int) -> None:
    assert combine_pair(merger, row(e, "E"), row(i, "I"), SCHEMA) == row(i, "I")
    assert fold_records(merger, [("k", row(e, "E"), e), ("k", row(i, "I"), i)], SCHEMA) == {"k": row(i, "I")}
    assert fold_records(merger, [("k", row(e, "E"), e), ("k", None, i)], SCHEMA) == {"k": None}


@pytest.mark.parametrize(("e", "i", "stays"), [(1, 2, "I"), (1, 1, "E"), (2, 1, "E")])
def test_the_first_value_stays_among_equals_in_a_batch_or_log_too(e: int, i: int, stays: str) -> None:
    expected = {"E": row(e, "E"), "I": row(i, "I")}[stays]
    assert combine_pair(payload("FirstValueAvroPayload"), row(e, "E"), row(i, "I"), SCHEMA) == expected
    assert fold_records(payload("FirstValueAvroPayload"), [("k", row(e, "E"), e), ("k", row(i, "I"), i)], SCHEMA) == {
        "k": expected
    }
    unordered = combine_pair(payload("FirstValueAvroPayload"), row(e, "E"), row(i, "I"), SCHEMA, None)
    assert unordered == row(e, "E")


@pytest.mark.parametrize("name", [n.removeprefix(MODEL) for n in HUDI_PAYLOADS if "Debezium" not in n and "Dms" not in n])
def test_a_delete_of_a_new_key_is_dropped(name: str) -> None:
    rows = [row(1, "x", 1, True), row(1, "y", 1), row(1, "z", 1, False)]
    assert insert(payload(name), rows, SCHEMA) == ([] if "Empty" in name else rows[1:])


# Delete entries of a log (no row, only a key and an ordering value) against the record before them; a long 0 is a value as any other.
@pytest.mark.parametrize("name", [*BY_ORDERING, "PartialUpdateAvroPayload"])
@pytest.mark.parametrize(
    ("present", "entry", "stays"),
    [(5, 6, False), (5, 5, False), (5, 4, True), (5, 0, True), (5, None, False), (-1, -2, True), (-1, 0, False)],
)
def test_a_delete_entry_loses_only_against_a_greater_ordering_value(
    name: str, present: int, entry: int | None, stays: bool
) -> None:
    record = row(present, "E", 1)
    found = fold_records(payload(name), [("k", record, present), ("k", None, entry)], SCHEMA)
    assert found == {"k": record if stays else None}


@pytest.mark.parametrize("name", [*BY_ORDERING, "PartialUpdateAvroPayload"])
def test_a_record_after_a_delete_entry_wins_whatever_its_ordering(name: str) -> None:
    late = row(1, "late")
    log = [("k", row(5, "E", 1), 5), ("k", None, 9), ("k", late, 1)]
    assert fold_records(payload(name), log, SCHEMA) == {"k": late}
    # and from there on ordering values are compared again
    assert fold_records(payload(name), [*log, ("k", None, 2)], SCHEMA) == {"k": None}
    assert fold_records(payload(name), [("k", None, 9), ("k", None, 1)], SCHEMA) == {"k": None}


def test_ordering_values_of_delete_entries_may_be_texts() -> None:
    texts = pa.schema([("k", pa.string()), ("ts", pa.string()), ("a", pa.string()), ("b", pa.int32()), (DELETE_FLAG, pa.bool_())])
    record = {"k": "k", "ts": "b", "a": "x", "b": 1, DELETE_FLAG: None}
    for entry, stays in (("a", True), ("b", False), ("c", False), (None, False)):
        found = fold_records(payload("DefaultHoodieRecordPayload"), [("k", record, "b"), ("k", None, entry)], texts, pa.string())
        assert found == {"k": record if stays else None}


def test_without_ordering_values_the_last_record_of_a_log_counts() -> None:
    records = make_log([("k", row(5, "E"), 5), ("k", row(1, "I"), 1), ("l", row(5, "E"), 5), ("l", None, 1)], SCHEMA)
    unordered = type(records)(records.keys, records.rows, records.empty)
    assert rows_of(fold_log(payload("DefaultHoodieRecordPayload"), unordered)) == {"k": row(1, "I"), "l": None}


@pytest.mark.parametrize("name", ["DefaultHoodieRecordPayload", "EventTimeAvroPayload", "FirstValueAvroPayload"])
def test_ordering_values_of_two_types_are_refused(name: str) -> None:
    old, new = pa.table({"ts": [1]}), pa.table({"ts": ["1"]})
    with pytest.raises(SchemaError, match=r"ordering column 'ts' is int64 in the table and string in the rows.*cast it"):
        payload(name).resolve(old, new)


@pytest.mark.parametrize("name", ["EventTimeAvroPayload", "PartialUpdateAvroPayload"])
def test_a_delete_that_asks_for_no_ordering_needs_none(name: str) -> None:
    assert met(name, row(5, "E"), row(None, deleted=True)) is None
    with pytest.raises(SchemaError, match=r"Ordering value is null in column 'ts'"):
        met(name, row(5, "E"), row(None, "I"))


def test_an_empty_log_folds_to_no_records() -> None:
    assert fold_records(payload("PartialUpdateAvroPayload"), [], SCHEMA) == {}
    assert combine(payload("PartialUpdateAvroPayload"), [], SCHEMA) == {}


# The user's own delete column.
@pytest.mark.parametrize(
    ("marker", "new", "gone"),
    [
        (("a", "D"), row(2, "D"), True),
        (("a", "D"), row(2, "d"), False),
        (("a", "D"), row(2, None), False),
        (("a", "D"), row(2, "x", deleted=True), False),  # the flag is not looked at then
        (("b", "7"), row(2, "x", 7), True),
        ((DELETE_FLAG, "true"), row(2, "x", deleted=True), True),
        (("absent", "D"), row(2, "D", deleted=True), False),
    ],
)
@pytest.mark.parametrize("ordering", ["ts", None])
def test_a_delete_column_of_the_users_takes_the_place_of_the_flag(
    marker: tuple[str, str], new: Row, gone: bool, ordering: str | None
) -> None:
    settings = PayloadSettings(ordering, DeleteMarker(*marker))
    merger = make_merger(f"{MODEL}DefaultHoodieRecordPayload", settings=settings)
    assert merger.reads == (marker[0],)
    assert merge_pair(merger, row(1, "E"), new, SCHEMA) == (None if gone else new)
    assert insert(merger, [new], SCHEMA) == ([] if gone else [new])


@pytest.mark.parametrize("ordering", ["ts", None])
def test_the_first_value_knows_the_users_delete_column_too(ordering: str | None) -> None:
    merger = make_merger(f"{MODEL}FirstValueAvroPayload", settings=PayloadSettings(ordering, DeleteMarker("a", "D")))
    assert merger.reads == ("a",)
    assert merge_pair(merger, row(1, "E"), row(2, "D"), SCHEMA) is None
    assert merge_pair(merger, row(1, "E"), row(2, "I", deleted=True), SCHEMA) == row(2, "I", deleted=True)
    assert merge_pair(merger, row(2, "E"), row(2, "D"), SCHEMA) == (row(2, "E") if ordering else None)
    assert insert(merger, [row(1, "D"), row(1, "I")], SCHEMA) == [row(1, "I")]


@pytest.mark.parametrize("name", ["EventTimeAvroPayload", "OverwriteWithLatestAvroPayload", "PartialUpdateAvroPayload"])
def test_other_payloads_do_not_read_the_users_delete_column(name: str) -> None:
    merger = make_merger(MODEL + name, settings=PayloadSettings("ts", DeleteMarker("a", "D")))
    assert merge_pair(merger, row(1, "E", 1), row(2, "D", 2), SCHEMA) == row(2, "D", 2)
    assert merge_pair(merger, row(1, "E", 1), row(2, "D", 2, True), SCHEMA) is None


def test_a_late_delete_by_the_users_column_loses() -> None:
    merger = make_merger(f"{MODEL}DefaultHoodieRecordPayload", settings=PayloadSettings("ts", DeleteMarker("a", "D")))
    assert merge_pair(merger, row(3, "E"), row(2, "D"), SCHEMA) == row(3, "E")


def test_the_delete_column_needs_its_marker() -> None:
    assert make_delete_marker(None, None) is None
    assert make_delete_marker("op", "D") == DeleteMarker("op", "D")
    with pytest.raises(OptionError, match=r"delete\.marker should be configured with hoodie\.payload\.delete\.field"):
        make_delete_marker("op", None)


# Values that are not the default replace the stored ones.
@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        (row(1, "E", 1), row(2, "I", 2), row(2, "I", 2)),
        (row(1, "E", 1), row(2, None, 2), row(2, "E", 2)),
        (row(1, "E", 1), row(2, None, None), row(2, "E", 1)),
        (row(9, "E", 1), row(2, None, 2), row(2, "E", 2)),  # ordering is ignored
        (row(1, "E", 1), row(None, "I", None), row(1, "I", 1)),
        (row(1, "E", 1), row(2, "", 0), row(2, "", 0)),  # blank and zero are values
        (row(1, None, None), row(2, None, 2), row(2, None, 2)),
        (row(1, "E", 1), row(0, None, None, True), None),
    ],
)
def test_non_default_values_overwrite(old: Row, new: Row, merged: Row | None) -> None:
    assert met("OverwriteNonDefaultsWithLatestAvroPayload", old, new) == merged


def test_a_default_that_is_not_null_keeps_the_stored_value() -> None:
    merger = make_merger(
        f"{MODEL}OverwriteNonDefaultsWithLatestAvroPayload",
        settings=PayloadSettings(defaults=(("a", ""), ("b", None), ("gone", 1))),
    )
    assert merge_pair(merger, row(1, "E", 1), row(2, "", 0), SCHEMA) == row(2, "E", 0)
    assert merge_pair(merger, row(1, "E", 1), row(2, None, None), SCHEMA) == row(2, None, 1)
    assert merge_pair(merger, row(1, "E", 1), row(2, "I", 3, False), SCHEMA) == row(2, "I", 3, False)


def test_defaults_of_bytes_are_characters_and_what_json_cannot_hold_is_no_default() -> None:
    schema = pa.schema([("k", pa.string()), ("b", pa.binary()), ("d", pa.decimal128(5, 2)), ("i", pa.int32())])
    merger = make_merger(
        f"{MODEL}OverwriteNonDefaultsWithLatestAvroPayload",
        settings=PayloadSettings(defaults=(("b", "\xff"), ("d", "\x00"), ("i", "x"))),
    )
    old, new = {"k": "k", "b": b"E", "d": Decimal("1.00"), "i": 1}, {"k": "k", "b": b"\xff", "d": Decimal("0.00"), "i": 0}
    assert merge_pair(merger, old, new, schema) == {**new, "b": b"E"}


# Partial update against storage.
@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        (row(1, "E", 1), row(2, "I", None), row(2, "I", 1)),
        (row(1, "E", 1), row(1, None, 2), row(1, "E", 2)),
        (row(2, "E", None), row(1, "I", 2), row(2, "E", 2)),  # the stored row is newer: the other only fills
        (row(2, None, None), row(1, "I", 2), row(2, "I", 2)),
        (row(None, "E", 1), row(1, None, 2), row(1, "E", 2)),
        (row(1, "E", 1), row(2, None, None), row(2, "E", 1)),
        (row(1, "E", 1), row(2, "I", 2, True), None),
        (row(2, "E", 1), row(1, "I", 2, True), None),  # a delete asks for no ordering
        (row(2, "E", 1, True), row(1, "I", 2), None),  # the stored row says it is deleted, and is the newer one
        (row(1, "E", 1, True), row(2, "I", 2, False), row(2, "I", 2, False)),
        (row(1, "E", 1), row(2, "I", 2, False), row(2, "I", 2, False)),
    ],
)
def test_partial_updates_fill_what_is_null(old: Row, new: Row, merged: Row | None) -> None:
    assert met("PartialUpdateAvroPayload", old, new) == merged


def test_ordering_values_of_two_types_do_not_compare_in_a_partial_update() -> None:
    merger = payload("PartialUpdateAvroPayload")
    old, new = pa.table({"ts": pa.array([9], pa.int32()), "a": ["E"]}), pa.table({"ts": pa.array([1], pa.int64()), "a": ["I"]})
    assert merger.builds
    assert merger.build(old, new).to_pylist() == [{"ts": 1, "a": "I"}]


@pytest.mark.parametrize(
    ("name", "ts", "a"), [("PartialUpdateAvroPayload", 2, "E"), ("OverwriteNonDefaultsWithLatestAvroPayload", 1, "I")]
)
def test_meta_columns_of_a_late_partial_row_are_its_own(name: str, ts: int, a: str) -> None:
    merger = payload(name)
    old = pa.table({"_hoodie_commit_time": ["1"], "ts": [2], "a": ["E"], "b": [1]})
    new = pa.table({"_hoodie_commit_time": ["2"], "ts": [1], "a": ["I"], "b": pa.array([None], pa.int64())})
    assert merger.builds
    assert merger.build(old, new).to_pylist() == [{"_hoodie_commit_time": "2", "ts": ts, "a": a, "b": 1}]


def test_a_column_that_stored_rows_lack_is_null_there() -> None:
    old, new = pa.table({"ts": [2]}), pa.table({"ts": [1], "a": ["I"], "b": pa.array([None], pa.int32())})
    for name in ("PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload"):
        merger = payload(name)
        assert merger.builds
        assert merger.build(old, new).to_pylist()[0]["a"] == "I"


# Partial updates of one key in a batch, then in a log.
@pytest.mark.parametrize(
    ("older", "newer", "batch", "log"),
    [
        (row(1, "E", 1), row(2, "I", None), row(2, "I", 1), row(2, "I", 1)),
        (row(1, "E", 1), row(1, None, 2), row(1, "E", 2), row(1, "E", 2)),
        (row(2, "E", None), row(1, "I", 1), row(2, "E", 1), row(2, "E", 1)),
        (row(1, "E", 1), row(2, None, None, True), row(2, None, None, True), row(2, None, None, True)),
        (row(2, "E", 1), row(2, "I", None, True), row(2, "I", None, True), row(2, "I", None, True)),
        # The newer delete came first: a batch forgets it, a log does not.
        (row(2, "E", None, True), row(1, "I", 1), row(1, "I", 1), row(2, "E", 1, True)),
        (row(2, "E", None, False), row(1, "I", 1, True), row(2, "E", 1, False), row(2, "E", 1, False)),
        # A flag that is null takes over the other side's.
        (row(2, "E", None), row(1, "I", 1, True), row(2, "E", 1, True), row(2, "E", 1, True)),
        (row(1, "E", 1, True), row(2, "I", None), row(2, "I", 1, True), row(2, "I", 1, True)),
        (row(1, "E", 1, True), row(2, "I", None, False), row(2, "I", 1, False), row(2, "I", 1, False)),
    ],
)
def test_partial_updates_of_one_key_become_one(older: Row, newer: Row, batch: Row, log: Row) -> None:
    merger = payload("PartialUpdateAvroPayload")
    assert combine_pair(merger, older, newer, SCHEMA) == batch
    assert fold_records(merger, [("k", older, older["ts"]), ("k", newer, newer["ts"])], SCHEMA) == {"k": log}


# Change streams.
DMS = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("Op", pa.string()), ("a", pa.string()), (DELETE_FLAG, pa.bool_())])


@pytest.mark.parametrize(
    ("op", "flag", "gone"),
    [
        ("I", None, False),
        ("U", None, False),
        ("X", None, False),  # a letter that is none of DMS's is a row, as with Hudi
        ("", None, False),
        (None, None, False),
        ("D", None, True),
        ("d", None, True),
        ("U", True, True),
    ],
)
def test_dms_rows_are_deletes_by_their_op_or_flag_whatever_the_ordering(op: str | None, flag: bool | None, gone: bool) -> None:
    merger = payload("AWSDmsAvroPayload")
    new = {"k": "k", "ts": 1, "Op": op, "a": "I", DELETE_FLAG: flag}
    old = {"k": "k", "ts": 9, "Op": "I", "a": "E", DELETE_FLAG: None}
    assert merge_pair(merger, old, new, DMS) == (None if gone else new)
    assert insert(merger, [new], DMS) == ([] if gone else [new])


def test_in_a_batch_or_log_the_ordering_value_decides_between_dms_rows() -> None:
    late, early = (
        {"k": "k", "ts": 1, "Op": "D", "a": "I", DELETE_FLAG: None},
        {"k": "k", "ts": 2, "Op": "U", "a": "E", DELETE_FLAG: None},
    )
    assert combine_pair(payload("AWSDmsAvroPayload"), early, late, DMS) == early
    assert fold_records(payload("AWSDmsAvroPayload"), [("k", early, 2), ("k", late, 1)], DMS) == {"k": early}


def test_rows_without_the_op_column_are_refused_by_name() -> None:
    with pytest.raises(SchemaError, match=r"AWSDmsAvroPayload needs the column 'Op'"):
        met("AWSDmsAvroPayload", row(1), row(2))
    with pytest.raises(SchemaError, match=r"AWSDmsAvroPayload needs the column 'Op'"):
        insert(payload("AWSDmsAvroPayload"), [row(2)], SCHEMA)


MYSQL = pa.schema(
    [
        ("k", pa.string()),
        ("_event_seq", pa.string()),
        ("_change_operation_type", pa.string()),
        ("a", pa.string()),
        (DELETE_FLAG, pa.bool_()),
    ]
)
POSTGRES = pa.schema(
    [
        ("k", pa.string()),
        ("_event_lsn", pa.int64()),
        ("_change_operation_type", pa.string()),
        ("a", pa.string()),
        ("x", pa.binary()),
        (DELETE_FLAG, pa.bool_()),
    ]
)


def mysql(seq: str | None, op: str | None, a: str, flag: bool | None = None) -> Row:
    return {"k": "k", "_event_seq": seq, "_change_operation_type": op, "a": a, DELETE_FLAG: flag}


def postgres(lsn: int | None, op: str | None, a: str | None, x: bytes | None = None, flag: bool | None = None) -> Row:
    return {"k": "k", "_event_lsn": lsn, "_change_operation_type": op, "a": a, "x": x, DELETE_FLAG: flag}


@pytest.mark.parametrize(
    ("stored", "incoming", "op", "flag", "stays"),
    [
        ("000001.5", "000001.6", "u", None, "I"),
        ("000001.5", "000001.5", "u", None, "E"),  # the same place: already there
        ("000001.5", "000001.4", "u", None, "E"),
        ("000001.5", "000002.4", "u", None, "I"),
        ("000002.5", "000001.6", "u", None, "E"),
        ("000009.5", "000010.4", "u", None, "I"),
        ("000001.9", "000001.10", "u", None, "I"),  # numbers, not texts
        ("9.9", "10.1", "u", None, "I"),
        (None, "000001.1", "u", None, "I"),  # bootstrapped
        (None, "000001.1", "d", None, None),
        ("000001.5", "000001.6", "d", None, None),
        ("000001.5", "000001.6", "D", None, None),
        ("000001.5", "000001.4", "d", None, "E"),
        ("000001.5", "000001.6", "u", True, None),
        ("000001.5", "000001.6", None, None, "I"),
        ("000001.5", "000001.6", "x", None, "I"),  # any letter but d
    ],
)
def test_debezium_rows_of_mysql_are_ordered_by_binary_log_position(
    stored: str | None, incoming: str, op: str | None, flag: bool | None, stays: str | None
) -> None:
    merger = payload("debezium.MySqlDebeziumAvroPayload")
    old, new = mysql(stored, "c", "E"), mysql(incoming, op, "I", flag)
    assert merge_pair(merger, old, new, MYSQL) == {"E": old, "I": new, None: None}[stays]


@pytest.mark.parametrize(
    ("stored", "incoming", "op", "flag", "stays"),
    [
        (5, 6, "u", None, "I"),
        (5, 5, "u", None, "I"),
        (5, 4, "u", None, "E"),
        (None, 1, "u", None, "I"),
        (None, 1, "d", None, None),
        (5, 6, "d", None, None),
        (5, 6, "D", None, None),
        (5, 4, "d", None, "E"),
        (5, 6, "u", True, None),
    ],
)
def test_debezium_rows_of_postgres_are_ordered_by_log_position(
    stored: int | None, incoming: int, op: str, flag: bool | None, stays: str | None
) -> None:
    merger = payload("debezium.PostgresDebeziumAvroPayload")
    old, new = postgres(stored, "c", "E"), postgres(incoming, op, "I", None, flag)
    assert merge_pair(merger, old, new, POSTGRES) == {"E": old, "I": new, None: None}[stays]


@pytest.mark.parametrize(
    ("stored", "incoming", "merged"),
    [
        (postgres(1, "c", "E", b"e"), postgres(2, "u", UNAVAILABLE, b"i"), postgres(2, "u", "E", b"i")),
        (postgres(1, "c", "E", b"e"), postgres(2, "u", "I", UNAVAILABLE.encode()), postgres(2, "u", "I", b"e")),
        (postgres(1, "c", None, None), postgres(2, "u", UNAVAILABLE, UNAVAILABLE.encode()), postgres(2, "u", None, None)),
        (postgres(1, "c", "E", b"e"), postgres(2, "u", None, None), postgres(2, "u", None, None)),
        (postgres(None, "c", "E", b"e"), postgres(2, "u", UNAVAILABLE, b"i"), postgres(2, "u", "E", b"i")),
        (postgres(3, "c", "E", b"e"), postgres(2, "u", UNAVAILABLE, b"i"), postgres(3, "c", "E", b"e")),
        (postgres(1, "c", "E", b"e"), postgres(2, "d", UNAVAILABLE, b"i"), None),
    ],
)
def test_values_that_postgres_did_not_send_are_the_stored_ones(stored: Row, incoming: Row, merged: Row | None) -> None:
    assert merge_pair(payload("debezium.PostgresDebeziumAvroPayload"), stored, incoming, POSTGRES) == merged


def test_what_an_earlier_change_of_the_batch_or_log_sent_is_lost_to_the_newest_one() -> None:
    merger = payload("debezium.PostgresDebeziumAvroPayload", "_event_lsn")
    stored, sent, newest = postgres(1, "c", "E", b"e"), postgres(2, "u", "sent", b"s"), postgres(3, "u", UNAVAILABLE, b"n")
    assert combine_pair(merger, sent, newest, POSTGRES, "_event_lsn") == newest
    assert fold_records(merger, [("k", sent, 2), ("k", newest, 3)], POSTGRES) == {"k": newest}
    assert merge_pair(merger, stored, newest, POSTGRES) == postgres(3, "u", "E", b"n")


# Among rows of a batch or log the configured ordering column decides, whatever the payload compares with storage.
@pytest.mark.parametrize(("e", "i", "stays"), [(1, 2, "I"), (1, 1, "I"), (2, 1, "E")])
def test_in_a_batch_or_log_debezium_rows_go_by_the_ordering_column(e: int, i: int, stays: str) -> None:
    streams = (
        ("MySql", "_event_seq", MYSQL, mysql(f"000001.{e}", "c", "E"), mysql(f"000001.{i}", "d", "I"), pa.string()),
        ("Postgres", "_event_lsn", POSTGRES, postgres(e, "c", "E"), postgres(i, "d", UNAVAILABLE), pa.int64()),
    )
    for name, column, schema, older, newer, kind in streams:
        merger, expected = payload(f"debezium.{name}DebeziumAvroPayload", column), {"E": older, "I": newer}[stays]
        assert combine_pair(merger, older, newer, schema, column) == expected
        log: list[tuple[str, Row | None, Any]] = [("k", older, older[column]), ("k", newer, newer[column])]
        assert fold_records(merger, log, schema, kind) == {"k": expected}
        assert insert(merger, [older, newer], schema) == [older]


def test_debezium_rows_without_their_meta_columns_are_refused_by_name() -> None:
    for name, column in (
        ("debezium.MySqlDebeziumAvroPayload", "_event_seq"),
        ("debezium.PostgresDebeziumAvroPayload", "_event_lsn"),
    ):
        with pytest.raises(SchemaError, match=rf"{column} cannot be null in insert record"):
            met(name, row(1), row(2))
        with pytest.raises(SchemaError, match=r"needs the column '_change_operation_type'"):
            insert(payload(name), [row(2)], SCHEMA)
        with pytest.raises(SchemaError, match=rf"{column} cannot be null in insert record"):
            payload(name).is_delete_entry(pa.Table.from_pylist([row(2)], schema=SCHEMA))
    for merger, new, schema in (("MySql", mysql(None, "u", "I"), MYSQL), ("Postgres", postgres(None, "u", "I"), POSTGRES)):
        with pytest.raises(SchemaError, match=r"cannot be null in insert record"):
            merge_pair(payload(f"debezium.{merger}DebeziumAvroPayload"), new, new, schema)


@pytest.mark.parametrize("odd", ["5", "a.b", "mysql-bin.000001.5", "1.", "1.5.6", ""])
def test_a_binary_log_position_of_another_form_is_refused(odd: str) -> None:
    with pytest.raises(SchemaError, match=r"'_event_seq' holds .*000003\.1540"):
        merge_pair(payload("debezium.MySqlDebeziumAvroPayload"), mysql("1.1", "c", "E"), mysql(odd, "u", "I"), MYSQL)


def test_debezium_payloads_are_known_by_short_names_too() -> None:
    assert make_merger(f"{MODEL}MySqlDebeziumAvroPayload") == make_merger(f"{MODEL}debezium.MySqlDebeziumAvroPayload")


# `_hoodie_operation`.
WITH_OPERATION = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("_hoodie_operation", pa.string()), ("a", pa.string())])


@pytest.mark.parametrize(("operation", "gone"), [("I", False), ("U", False), ("-U", False), (None, False), ("D", True)])
@pytest.mark.parametrize(
    "name", [n.removeprefix(MODEL) for n in HUDI_PAYLOADS if "Debezium" not in n and "Dms" not in n and "Empty" not in n]
)
def test_the_operation_column_says_which_rows_are_deletes(name: str, operation: str | None, gone: bool) -> None:
    merger = make_merger(MODEL + name, settings=PayloadSettings("ts", operation=True))
    old = {"k": "k", "ts": 1, "_hoodie_operation": "I", "a": "E"}
    new = {"k": "k", "ts": 2, "_hoodie_operation": operation, "a": "I"}
    found = merge_pair(merger, old, new, WITH_OPERATION)
    assert (found is None) == gone
    assert found is None or found["a"] == "I"
    assert insert(merger, [new], WITH_OPERATION) == ([] if gone else [new])
    assert "_hoodie_operation" in merger.reads


def test_a_late_delete_by_operation_loses_where_the_stored_row_is_kept() -> None:
    merger = make_merger(f"{MODEL}DefaultHoodieRecordPayload", settings=PayloadSettings("ts", operation=True))
    old = {"k": "k", "ts": 3, "_hoodie_operation": "I", "a": "E"}
    new = {"k": "k", "ts": 2, "_hoodie_operation": "D", "a": "I"}
    assert merge_pair(merger, old, new, WITH_OPERATION) == old
    assert combine_pair(merger, old, new, WITH_OPERATION) == old


def test_in_a_log_rows_with_an_operation_stay_rows() -> None:
    merger = make_merger(f"{MODEL}DefaultHoodieRecordPayload", settings=PayloadSettings("ts", operation=True))
    rows = pa.table({"ts": [1, 2], "_hoodie_operation": ["D", "U"], DELETE_FLAG: [False, True]})
    assert merger.is_delete(rows).tolist() == [True, True]
    assert merger.is_delete_entry(rows).tolist() == [False, True]


@pytest.mark.parametrize("flagged", [False, True], ids=["operation-alone", "beside-a-flag"])
@pytest.mark.parametrize("name", ["penstock.first_row", "penstock.aggregate", "penstock.masked"])
def test_penstocks_own_mergers_take_an_operation_for_a_delete_as_they_take_a_flag(name: str, flagged: bool) -> None:
    settings = PayloadSettings("ts", operation=True, own={"aggregate": "a:max"})
    merger, schema = (
        make_merger(name, settings=settings),
        WITH_OPERATION.append(pa.field("_changed_columns", pa.list_(pa.string()))),
    )
    schema = schema.append(pa.field(DELETE_FLAG, pa.bool_())) if flagged else schema

    def change(ts: int, operation: str, a: str) -> Row:
        found = {"k": "k", "ts": ts, "_hoodie_operation": operation, "a": a, "_changed_columns": None}
        return {**found, DELETE_FLAG: None} if flagged else found

    stored = change(3, "I", "stored")
    assert merge_pair(merger, stored, change(4, "D", "x"), schema) is None
    assert merge_pair(merger, stored, change(2, "D", "x"), schema) == stored, "it is older than the stored row"
    early, delete, late = change(1, "I", "z"), change(2, "D", "y"), change(3, "U", "a")
    assert combine(merger, [early, delete, late], schema) == {"k": late}
    assert fold_records(merger, [("k", one, one["ts"]) for one in (early, delete, late)], schema) == {"k": late}
    assert combine(merger, [early, delete], schema)["k"]["_hoodie_operation"] == "D"


def test_an_operation_does_not_bring_back_an_ordering_that_is_ignored() -> None:
    runs = Runs(pa.table({"ts": [2, 1]}), np.array([0]), np.array([1, 0]))
    assert WithOperation(CommitTimeOrdering()).fold(runs).rows.to_pylist() == [{"ts": 1}]
    assert WithOperation(OverwriteWithLatest()).fold(runs).rows.to_pylist() == [{"ts": 2}]


def test_unknown_operations_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"'_hoodie_operation' holds \['X'\]; operations are I, -U, U and D"):
        operation_deletes(pa.table({"_hoodie_operation": ["I", "X", None]}))
    assert operation_deletes(pa.table({"a": [1]})).tolist() == [False]


# Merge modes.
@pytest.mark.parametrize(("e", "i", "commit_time", "event_time"), [(1, 2, "I", "I"), (1, 1, "I", "I"), (2, 1, "I", "E")])
def test_merge_modes_order_by_commit_or_by_event_time(e: int, i: int, commit_time: str, event_time: str) -> None:
    rows = {"E": row(e, "E"), "I": row(i, "I")}
    for mode, stays in (("COMMIT_TIME_ORDERING", commit_time), ("EVENT_TIME_ORDERING", event_time)):
        merger = make_merger_of_mode(mode, PayloadSettings("ts"))
        assert merge_pair(merger, rows["E"], rows["I"], SCHEMA) == rows[stays]
        assert combine_pair(merger, rows["E"], rows["I"], SCHEMA) == rows[stays]
        assert fold_records(merger, [("k", rows["E"], e), ("k", rows["I"], i)], SCHEMA) == {"k": rows[stays]}


def test_merge_modes_by_name() -> None:
    assert make_merger_of_mode("COMMIT_TIME_ORDERING", PayloadSettings("ts")) == CommitTimeOrdering()
    assert make_merger_of_mode("EVENT_TIME_ORDERING", PayloadSettings(None)) == OverwriteWithLatest()
    custom = make_merger_of_mode("CUSTOM", PayloadSettings("ts"), f"{MODEL}DefaultHoodieRecordPayload")
    assert custom == EventTimeOrdering("ts")
    assert make_merger_of_mode("COMMIT_TIME_ORDERING", PayloadSettings(operation=True)) == WithOperation(CommitTimeOrdering())
    with pytest.raises(OptionError, match=r"CUSTOM does not say how rows are merged"):
        make_merger_of_mode("CUSTOM", PayloadSettings("ts"))
    with pytest.raises(OptionError, match=r"merge\.mode='NEWEST' is not known; known modes: COMMIT_TIME"):
        make_merger_of_mode("NEWEST", PayloadSettings("ts"))


@pytest.mark.parametrize("name", ["OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload", "EventTimeAvroPayload"])
def test_payloads_that_choose_the_newest_need_neither_building_nor_folding(name: str) -> None:
    assert not payload(name).builds
    assert not payload(name).folds


def test_penstocks_own_mergers_take_their_options() -> None:
    own: dict[str, Any] = {"aggregate": "b:sum, a : max", "history.column": "h", "history.limit": "3", "mask.column": "m"}
    made = {
        name: make_merger(name, settings=PayloadSettings("pos" if name == "penstock.ogg" else "ts", own=own))
        for name in PENSTOCK_PAYLOADS
    }
    assert made["penstock.aggregate"].columns == (("b", "sum"), ("a", "max"))  # type: ignore[attr-defined]
    assert (made["penstock.keep_history"].column, made["penstock.keep_history"].limit) == ("h", 3)  # type: ignore[attr-defined]
    assert made["penstock.masked"].reads == ("m",)
    assert made["penstock.ogg"].needs == ("pos",)
    for wrong in ({}, {"aggregate": "b"}, {"aggregate": "b:median"}):
        with pytest.raises(OptionError, match=r"aggregate"):
            make_merger("penstock.aggregate", settings=PayloadSettings(own=wrong))
    with pytest.raises(OptionError, match=r"history\.limit='0'"):
        make_merger("penstock.keep_history", settings=PayloadSettings(own={"history.limit": "0"}))
