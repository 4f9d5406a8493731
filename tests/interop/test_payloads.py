"""Every payload class by Penstock and by Hudi 0.15: the same batches on twin tables leave the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.registered.functions import MERGE_FUNCTIONS
from tests.interop.sides import (
    KEY,
    NAME,
    OPERATION,
    ORDERING,
    TRIPS,
    Penstock,
    assert_rows,
    commit_json,
    last_commit,
    rows_of,
)
from tests.kit.oracle import Oracle
from tests.kit.readers import META_COLUMNS

_MODEL = "org.apache.hudi.common.model."
PAYLOAD = "hoodie.datasource.write.payload.class"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("Op", pa.string()),
        ("_change_operation_type", pa.string()),
        ("_event_seq", pa.string()),
        ("_event_lsn", pa.int64()),
        ("at", pa.int64()),
        ("raw", pa.binary()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)


def row(id: str, ts: int, name: str | None = None, price: float | None = None, **more: Any) -> dict[str, Any]:
    """Return a trip. The other columns that payloads read follow from `ts`."""
    change = {
        "Op": "U",
        "_change_operation_type": "u",
        "_event_seq": f"000001.{ts}",
        "_event_lsn": ts,
        "at": 1_700_000_000 + ts,
        "raw": None,
        "_hoodie_is_deleted": False,
    }
    return {"id": id, "city": "x", "ts": ts, "name": name, "price": price, **change, **more}


UNORDERED = {"ts": None, "_event_seq": None, "_event_lsn": None}
FIRST = [
    *(row(f"k{i}", 10, f"name-{i}", float(i)) for i in range(12)),
    *({**row(id, 10, "no order", 1.0), **UNORDERED} for id in ("e0", "e1", "e2")),
    *(row(id, 10, "in order", 1.0) for id in ("t0", "f0", "f1", "l0", "l1", "l2")),
    row("m0", 10, "later file", 1.0, _event_seq="000002.5"),
    row("m1", 10, "fewer digits", 1.0, _event_seq="000001.9"),
    row("b0", 10, "bytes", 1.0, raw=b"stored"),
]
SECOND = [
    row("k0", 11, "newer", None),
    row("k1", 10, None, 1.5),
    row("k2", 9, "older", 2.5),
    row("k3", 9, None, 3.5),
    row("k4", 11, "gone", 4.5, _hoodie_is_deleted=True),
    row("k5", 9, "gone late", 5.5, _hoodie_is_deleted=True),
    row("k6", 11, "op", 6.5, Op="D", _change_operation_type="d"),
    row("k7", 9, "op late", 7.5, Op="d", _change_operation_type="D"),
    row("k8", 12, "__debezium_unavailable_value", 8.5),
    row("n0", 11, "new", None),
    row("n1", 11, "gone before it came", None, _hoodie_is_deleted=True),
    row("n2", 11, "op before it came", None, Op="D", _change_operation_type="d"),
    row("e0", 5, "ordered", None),
    row("e1", 5, "gone", None, _hoodie_is_deleted=True),
    row("e2", 5, None, 2.5, Op="D", _change_operation_type="d"),
    row("t0", 10, "gone as it is as new", 1.5, _hoodie_is_deleted=True),
    row("f0", 11, None, 1.5, _hoodie_is_deleted=None),
    row("l0", 14, "newer than its delete", 1.5),
    row("l1", 14, "as new as its delete", 1.5),
    row("l2", 14, "gone before it comes again", 1.5, _hoodie_is_deleted=True),
    row("m0", 11, "earlier file", None, _event_seq="000001.99"),
    row("m1", 11, "more digits", None, _event_seq="000001.10"),
    row("b0", 11, "bytes", 1.5, raw=b"__debezium_unavailable_value"),
]
#: Several rows of a key in one batch, each with an ordering value of its own: which came last does not matter then.
SEVERAL = [
    row("k0", 13, "a", None),
    row("k0", 14, None, 14.5),
    row("k1", 14, "b", 1.0),
    row("k1", 13, None, 2.0),
    row("k9", 8, "c", None),
    row("k9", 9, None, 9.5),
    row("k10", 15, "d", 10.5, _hoodie_is_deleted=True),
    row("k10", 14, "e", 11.5),
    row("n3", 14, None, 3.0),
    row("n3", 13, "f", None),
    row("n4", 14, "g", None),
    row("n4", 15, "h", None, _hoodie_is_deleted=True),
]
#: And what meets rows of the second batch: stored ones, or log records.
THIRD = [
    *SEVERAL,
    row("f1", 12, "i", 2.0, _hoodie_is_deleted=True),
    row("f1", 13, "j", None, _hoodie_is_deleted=None),
    row("l0", 12, None, None, _hoodie_is_deleted=True),
    row("l1", 14, None, None, _hoodie_is_deleted=True),
    row("l2", 12, "again", None),
    row("k11", 13, "sent", 1.5),
    row("k11", 14, "__debezium_unavailable_value", 2.5),
    row("k8", 13, "__debezium_unavailable_value", 9.5),
]
MARKED = {
    "hoodie.payload.delete.field": "Op",
    "hoodie.payload.delete.marker": "D",
    "hoodie.payload.event.time.field": "at",
}
PAYLOADS: dict[str, dict[str, str]] = {
    "OverwriteWithLatestAvroPayload": {},
    "DefaultHoodieRecordPayload": {},
    "DefaultHoodieRecordPayload with a marker": MARKED,
    "EventTimeAvroPayload": {},
    "FirstValueAvroPayload": {},
    "FirstValueAvroPayload with a marker": MARKED,
    "OverwriteNonDefaultsWithLatestAvroPayload": {},
    "PartialUpdateAvroPayload": {},
    "AWSDmsAvroPayload": {},
    "debezium.MySqlDebeziumAvroPayload": {},
    "debezium.PostgresDebeziumAvroPayload": {},
    "HoodieAvroPayload": {},
    "EmptyHoodieRecordPayload": {},
}
#: Of several rows of a key in one batch these keep the one that came last, which Hudi does not tell of rows from several tasks.
BY_ARRIVAL = ("HoodieAvroPayload",)
#: By that payload Hudi keeps rows that say they are deleted; we delete.
SINGLE_ROWS = [each for each in SECOND if not each["_hoodie_is_deleted"]]


@pytest.mark.parametrize("name", PAYLOADS)
def test_penstock_and_hudi_keep_the_same_rows(name: str, us: Penstock, hudi015: Oracle, tmp_path: Path) -> None:
    options = {**TRIPS, PAYLOAD: _MODEL + name.split()[0], **PAYLOADS[name]}
    for side, path in ((us, tmp_path / "ours"), (hudi015, tmp_path / "theirs")):
        side.write(path, pa.Table.from_pylist(FIRST, SCHEMA), {**options, OPERATION: "bulk_insert"}, mode="overwrite")
    for batch in (SINGLE_ROWS,) if name in BY_ARRIVAL else (SECOND, THIRD):
        for side, path in ((us, tmp_path / "ours"), (hudi015, tmp_path / "theirs")):
            side.write(path, pa.Table.from_pylist(batch, SCHEMA), {**options, OPERATION: "upsert"})
        theirs = rows_of(hudi015.read(tmp_path / "theirs").drop_columns(list(META_COLUMNS)))
        assert_rows(us.read(tmp_path / "ours").drop_columns(list(META_COLUMNS)), theirs, name)
        assert_rows(us.read(tmp_path / "theirs").drop_columns(list(META_COLUMNS)), theirs, "we read what Hudi wrote")
        assert event_times(tmp_path / "ours") == event_times(tmp_path / "theirs")


def event_times(path: Path) -> list[tuple[int | None, int | None]]:
    """Return the least and the greatest event time of each file that the last commit wrote."""
    files = [one for its in commit_json(path, last_commit(path))["partitionToWriteStats"].values() for one in its]
    return sorted(((one["minEventTime"], one["maxEventTime"]) for one in files), key=repr)


IN_LOGS = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",  # changes go to logs, also where new keys come along
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_penstock_and_hudi_merge_the_logs_of_both_alike(name: str, us: Penstock, hudi015: Oracle, tmp_path: Path) -> None:
    options = {**TRIPS, **IN_LOGS, PAYLOAD: _MODEL + name.split()[0], **PAYLOADS[name]}
    path = tmp_path / "shared"
    us.write(path, pa.Table.from_pylist(FIRST, SCHEMA), {**options, OPERATION: "bulk_insert"})
    for side, batch in ((us, SECOND), (hudi015, SEVERAL[1::2] if name in BY_ARRIVAL else THIRD)):
        side.write(path, pa.Table.from_pylist(batch, SCHEMA), {**options, OPERATION: "upsert"})
        theirs = rows_of(hudi015.read(path).drop_columns(list(META_COLUMNS)))
        assert_rows(us.read(path).drop_columns(list(META_COLUMNS)), theirs, f"{name}, after {type(side).__name__}'s log")
    assert len([file for file in path.glob("x/.*.log.*") if file.suffix != ".crc"]) == 2


OGG = {NAME: "trips", KEY: "id", ORDERING: "pos", PAYLOAD: "penstock.ogg"}


@pytest.mark.parametrize("kind", [{}, IN_LOGS], ids=["copy-on-write", "merge-on-read"])
def test_hudi_reads_tables_with_payloads_of_penstock_and_of_users(
    kind: dict[str, str], us: Penstock, hudi015: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MERGE_FUNCTIONS, "registered", {})
    penstock.payload("cheapest")(lambda old, new: new if old is None or new["price"] < old["price"] else old)
    path = tmp_path / "own"
    for operation, batch in (("bulk_insert", FIRST), ("upsert", [row("k1", 11, "dear", 9.0), row("k2", 9, "cheap", 0.5)])):
        us.write(path, pa.Table.from_pylist(batch, SCHEMA), {**TRIPS, **kind, PAYLOAD: "cheapest", OPERATION: operation})
    changes = [
        ['{"op_type": "I", "pos": "1", "after": {"ID": "a", "NAME": "apple", "PRICE": 1}}'],
        ['{"op_type": "U", "pos": "2", "after": {"ID": "a", "NAME": null}}'],
    ]
    for texts in changes:
        frame = us.spark.createDataFrame([(text,) for text in texts], "value string")
        rows = penstock.ogg_rows(frame, "value", "id string, name string, price double")
        rows.write.format("hudi").options(**OGG, **kind).mode("append").save(str(tmp_path / "ogg"))
    for name in ("own", "ogg"):
        if kind:
            assert penstock.Table.open(tmp_path / name, us.spark).compact()
        query = {"hoodie.datasource.query.type": "read_optimized"} if kind else {}
        assert_rows(hudi015.read(tmp_path / name, query), rows_of(us.read(tmp_path / name)), name)
    prices = {each["id"]: (each["name"], each["price"]) for each in rows_of(us.read(path))}
    assert (prices["k1"], prices["k2"]) == (("name-1", 1.0), ("cheap", 0.5))
    assert [(each["name"], each["price"]) for each in rows_of(us.read(tmp_path / "ogg"))] == [(None, 1.0)]


CHANGES = pa.schema({"id": pa.string(), "city": pa.string(), "ts": pa.int64(), "_hoodie_operation": pa.string()})
KEEPS_OPERATIONS = {"hoodie.allow.operation.metadata.field": "true"}
#: Keys with their operations, and what is left of the table after them.
OURS = [
    ({"a": "I", "b": "I", "c": "I", "d": None}, {"a": "I", "b": "I", "c": "I", "d": None}),
    ({"a": "U", "b": "D", "c": "-U", "n": "D"}, {"a": "U", "c": "-U", "d": None}),
]
#: Hudi's Spark writer keeps any letter. It cannot append rows with the column to a log, not even to one of its own.
THEIRS = ({"a": "-U", "b": "I", "d": "D"}, {"a": "-U", "b": "I", "c": "-U", "d": "D"})


@pytest.mark.parametrize("kind", [{}, IN_LOGS], ids=["copy-on-write", "merge-on-read"])
def test_penstock_and_hudi_read_the_operation_column_that_either_wrote(
    kind: dict[str, str], us: Penstock, hudi015: Oracle, tmp_path: Path
) -> None:
    path, options = tmp_path / "shared", {**TRIPS, **kind, **KEEPS_OPERATIONS, OPERATION: "upsert"}
    batches = [(us, *each) for each in OURS] if kind else [*((us, *each) for each in OURS), (hudi015, *THEIRS)]
    for ts, (side, batch, left) in enumerate(batches):
        changes = [{"id": id, "city": "x", "ts": ts, "_hoodie_operation": letter} for id, letter in batch.items()]
        side.write(path, pa.Table.from_pylist(changes, CHANGES), options)
        theirs = rows_of(hudi015.read(path, KEEPS_OPERATIONS))
        assert_rows(us.read(path), theirs, f"after batch {ts}")
        assert {each["id"]: each["_hoodie_operation"] for each in theirs} == left
