"""Every payload class, by us and by Hudi 0.15: the same batches on twin tables leave the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock import registry
from tests.interop.sides import KEY, NAME, OPERATION, ORDERING, TRIPS, Penstock, assert_rows, rows_of
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
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)


def row(id: str, ts: int, name: str | None = None, price: float | None = None, **more: Any) -> dict[str, Any]:
    """A trip; what a payload looks at besides follows from `ts`."""
    change = {
        "Op": "U",
        "_change_operation_type": "u",
        "_event_seq": f"000001.{ts}",
        "_event_lsn": ts,
        "_hoodie_is_deleted": False,
    }
    return {"id": id, "city": "x", "ts": ts, "name": name, "price": price, **change, **more}


FIRST = [row(f"k{i}", 10, f"name-{i}", float(i)) for i in range(12)]
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
]
#: Several rows of a key in one batch, each with an ordering value of its own: which came last does not matter then.
THIRD = [
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
PAYLOADS = {
    "OverwriteWithLatestAvroPayload": {},
    "DefaultHoodieRecordPayload": {},
    "DefaultHoodieRecordPayload with a marker": {"hoodie.payload.delete.field": "Op", "hoodie.payload.delete.marker": "D"},
    "EventTimeAvroPayload": {},
    "FirstValueAvroPayload": {},
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
def test_both_keep_the_same_rows(name: str, us: Penstock, hudi015: Oracle, tmp_path: Path) -> None:
    options = {**TRIPS, PAYLOAD: _MODEL + name.split()[0], **PAYLOADS[name]}
    for side, path in ((us, tmp_path / "ours"), (hudi015, tmp_path / "theirs")):
        side.write(path, pa.Table.from_pylist(FIRST, SCHEMA), {**options, OPERATION: "bulk_insert"}, mode="overwrite")
    for batch in (SINGLE_ROWS,) if name in BY_ARRIVAL else (SECOND, THIRD):
        for side, path in ((us, tmp_path / "ours"), (hudi015, tmp_path / "theirs")):
            side.write(path, pa.Table.from_pylist(batch, SCHEMA), {**options, OPERATION: "upsert"})
        theirs = rows_of(hudi015.read(tmp_path / "theirs").drop_columns(list(META_COLUMNS)))
        assert_rows(us.read(tmp_path / "ours").drop_columns(list(META_COLUMNS)), theirs, name)
        assert_rows(us.read(tmp_path / "theirs").drop_columns(list(META_COLUMNS)), theirs, "we read what Hudi wrote")


IN_LOGS = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",  # changes go to logs, also where new keys come along
}


@pytest.mark.parametrize("name", [name for name in PAYLOADS if " " not in name])
def test_both_merge_logs_of_both_alike(name: str, us: Penstock, hudi015: Oracle, tmp_path: Path) -> None:
    options = {**TRIPS, **IN_LOGS, PAYLOAD: _MODEL + name}
    path = tmp_path / "shared"
    us.write(path, pa.Table.from_pylist(FIRST, SCHEMA), {**options, OPERATION: "bulk_insert"})
    for side, batch in ((us, SECOND), (hudi015, THIRD[1::2] if name in BY_ARRIVAL else THIRD)):
        side.write(path, pa.Table.from_pylist(batch, SCHEMA), {**options, OPERATION: "upsert"})
        theirs = rows_of(hudi015.read(path).drop_columns(list(META_COLUMNS)))
        assert_rows(us.read(path).drop_columns(list(META_COLUMNS)), theirs, f"{name}, after {type(side).__name__}'s log")
    assert len([file for file in path.glob("x/.*.log.*") if file.suffix != ".crc"]) == 2


OGG = {NAME: "trips", KEY: "id", ORDERING: "pos", PAYLOAD: "penstock.ogg"}


@pytest.mark.parametrize("kind", [{}, IN_LOGS], ids=["copy-on-write", "merge-on-read"])
def test_hudi_reads_what_payloads_of_ours_and_the_users_own_left(
    kind: dict[str, str], us: Penstock, hudi015: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_registered", {})
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
