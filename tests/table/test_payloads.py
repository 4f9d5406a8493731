"""Payloads by their names, at the door: what stays when rows of one key meet, in a batch and in the table."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import OptionError, SchemaError, Unsupported
from tests.table.tables import BULK, OPERATION, base_files, commits, load, sorted_rows, stats, trips, values, write
from tests.table.upserts import IN_TASKS, INDEX, MANY_GROUPS, MOVES, ON_DRIVER, PAYLOAD, UPSERT, columns, rows

_MODEL = "org.apache.hudi.common.model."
MODE = "hoodie.record.merge.mode"
FIRST = [("a", "x", 5, 1.0, False), ("b", "x", 5, 2.0, False), ("c", "y", 5, 3.0, False), ("d", "y", 5, None, False)]
#: A newer row without a value, two rows of a key, an older row, a delete, a new key.
SECOND = [
    ("a", "x", 6, None, False),
    ("b", "x", 7, 7.0, False),
    ("b", "x", 6, None, False),
    ("c", "y", 4, 4.0, False),
    ("d", "y", 6, None, True),
    ("e", "y", 6, 6.0, False),
]
KEPT = {
    "OverwriteWithLatestAvroPayload": [("a", 6, None), ("b", 7, 7.0), ("c", 4, 4.0), ("e", 6, 6.0)],
    "HoodieAvroPayload": [("a", 6, None), ("b", 6, None), ("c", 4, 4.0), ("e", 6, 6.0)],
    "DefaultHoodieRecordPayload": [("a", 6, None), ("b", 7, 7.0), ("c", 5, 3.0), ("e", 6, 6.0)],
    "EventTimeAvroPayload": [("a", 6, None), ("b", 7, 7.0), ("c", 5, 3.0), ("e", 6, 6.0)],
    "FirstValueAvroPayload": [("a", 6, None), ("b", 7, 7.0), ("c", 5, 3.0), ("e", 6, 6.0)],
    "OverwriteNonDefaultsWithLatestAvroPayload": [("a", 6, 1.0), ("b", 7, 7.0), ("c", 4, 4.0), ("e", 6, 6.0)],
    "PartialUpdateAvroPayload": [("a", 6, 1.0), ("b", 7, 7.0), ("c", 5, 3.0), ("e", 6, 6.0)],
    "penstock.first_row": [("a", 5, 1.0), ("b", 5, 2.0), ("c", 5, 3.0), ("e", 6, 6.0)],
}


#: As Hudi 0.15 has them.
EVENT_TIMES = {
    "COPY_ON_WRITE": (1_700_000_050_000, 1_700_000_200_000),
    "MERGE_ON_READ": (None, None),
}


def payload(name: str) -> dict[str, str]:
    """The option that chooses a payload."""
    return {PAYLOAD: name if name.startswith("penstock.") else _MODEL + name}


@pytest.mark.parametrize("groups", [{}, MANY_GROUPS], ids=["one-group", "many-groups"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
@pytest.mark.parametrize("name", KEPT)
def test_what_a_payload_keeps(spark: Any, table_path: str, name: str, index: str, groups: dict[str, Any]) -> None:
    options = {**UPSERT, **payload(name), **groups, INDEX: index, MOVES["GLOBAL_SIMPLE"]: "false"}
    write(rows(spark, *FIRST).coalesce(1), table_path, {**options, OPERATION: "insert"})
    write(rows(spark, *SECOND).coalesce(1), table_path, options)
    assert columns(table_path, "id", "ts", "fare") == KEPT[name]


@pytest.mark.parametrize("where", [ON_DRIVER, IN_TASKS], ids=["driver", "tasks"])
def test_an_aggregate_counts_the_rows_of_the_batch_and_the_stored_one(spark: Any, table_path: str, where: dict[str, Any]) -> None:
    options = {**UPSERT, **payload("penstock.aggregate"), **where, "penstock.payload.aggregate": "fare:sum,ts:max"}
    write(rows(spark, ("a", "x", 1, 1.0, False), ("a", "x", 2, 2.0, False), ("b", "x", 1, 5.0, False)), table_path, options)
    assert columns(table_path, "id", "ts", "fare") == [("a", 2, 3.0), ("b", 1, 5.0)]
    write(rows(spark, ("a", "x", 3, 4.0, False), ("b", "x", 3, None, True), ("b", "x", 4, 7.0, False)), table_path, options)
    assert columns(table_path, "id", "ts", "fare") == [("a", 3, 7.0), ("b", 4, 7.0)]


def test_merge_modes_stand_for_payloads(spark: Any, table_path: str) -> None:
    write(rows(spark, *FIRST), table_path, {**BULK})
    write(rows(spark, ("a", "x", 4, 4.0, False), ("c", "y", 6, 6.0, False)), table_path, {**UPSERT, MODE: "EVENT_TIME_ORDERING"})
    assert [r for r in columns(table_path, "id", "fare") if r[0] in "ac"] == [("a", 1.0), ("c", 6.0)]
    write(rows(spark, ("a", "x", 4, 4.0, False)), table_path, {**UPSERT, MODE: "COMMIT_TIME_ORDERING"})
    assert ("a", 4.0) in columns(table_path, "id", "fare")


def test_a_column_of_the_users_choice_marks_deletes(spark: Any, table_path: str) -> None:
    options = {
        **UPSERT,
        **payload("DefaultHoodieRecordPayload"),
        "hoodie.payload.delete.field": "fare",
        "hoodie.payload.delete.marker": "-1.0",
    }
    write(rows(spark, *FIRST), table_path, {**BULK})
    write(rows(spark, ("a", "x", 6, -1.0, False), ("b", "x", 6, 2.5, True), ("n", "x", 6, -1.0, False)), table_path, options)
    assert [r for r in columns(table_path, "id", "fare") if r[0] in "abn"] == [("b", 2.5)]


@pytest.mark.parametrize(
    "name", ["PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload", "DefaultHoodieRecordPayload"]
)
def test_a_merge_on_read_table_keeps_what_its_payload_says(spark: Any, table_path: str, name: str) -> None:
    options = {**UPSERT, **payload(name), "hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    write(rows(spark, *FIRST).coalesce(1), table_path, {**options, OPERATION: "insert"})
    write(rows(spark, *SECOND).coalesce(1), table_path, options)
    found = load(spark, table_path).select("id", "ts", "fare")
    assert sorted_rows(found) == KEPT[name]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_operation_column_is_the_sixth_and_deletes(spark: Any, table_path: str, kind: str) -> None:
    options = {**UPSERT, "hoodie.datasource.write.table.type": kind, "hoodie.compact.inline": "false"}
    columns_ = "id string, city string, ts bigint, _hoodie_operation string"
    first = [("a", "x", 1, "I"), ("b", "x", 1, "I"), ("c", "x", 1, None)]
    write(values(spark, columns_, *first), table_path, {**options, "hoodie.allow.operation.metadata.field": "true"})
    write(values(spark, columns_, ("a", "x", 2, "U"), ("b", "x", 2, "D")), table_path, options)
    assert sorted_rows(load(spark, table_path).select("id", "ts", "_hoodie_operation")) == [("a", 2, "U"), ("c", 1, None)]
    assert pq.read_schema(base_files(table_path)[-1]).names[5:7] == ["_hoodie_operation", "id"]
    write(trips(spark, ("c", "x", 3, 1.5)).drop("fare"), table_path, options)
    penstock.Table.open(table_path).compact() if kind == "MERGE_ON_READ" else None
    assert sorted_rows(load(spark, table_path).select("id", "ts", "_hoodie_operation")) == [("a", 2, "U"), ("c", 3, None)]
    assert pq.read_schema(base_files(table_path)[-1]).names[5:7] == ["_hoodie_operation", "id"]
    with pytest.raises(SchemaError, match=r"'_hoodie_operation' holds \['X'\]; operations are I, -U, U and D, or null"):
        write(values(spark, columns_, ("a", "x", 4, "X")), table_path, options)


#: Rows and their partitions after each of two batches. Hudi's payload moves late rows and rows without a city too.
MOVED = {
    "PartialUpdateAvroPayload": [
        [("a", "y", 6, 1.0), ("b", "y", 5, 2.0), ("d", "x", 6, 4.0), ("n", "x", 6, None)],
        [("a", "x", 7, 1.0), ("b", "__HIVE_DEFAULT_PARTITION__", 7, 2.5), ("d", "y", 7, 4.0), ("n", "x", 6, None)],
    ],
    "penstock.aggregate": [
        [("a", "y", 6, 1.0), ("b", "x", 5, 2.0), ("d", "x", 6, 4.0), ("n", "x", 6, None)],
        [("a", "x", 7, 1.0), ("b", "x", 7, 4.5), ("d", "y", 7, 4.0), ("n", "x", 6, None)],
    ],
}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("name", MOVED)
def test_a_row_that_moves_is_made_of_both_rows(spark: Any, table_path: str, name: str, kind: str) -> None:
    options = {
        **UPSERT,
        **payload(name),
        "penstock.payload.aggregate": "fare:sum,city:last",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.compact.inline": "false",
        INDEX: "GLOBAL_SIMPLE",
        MOVES["GLOBAL_SIMPLE"]: "true",
    }
    write(rows(spark, *FIRST), table_path, {**options, OPERATION: "bulk_insert"})
    late, gone = ("b", "y", 4, None, False), ("c", "x", 6, None, True)
    batches = [
        [("a", "y", 6, None, False), late, gone, ("d", "x", 6, 4.0, False), ("n", "x", 6, None, False)],
        [("a", "x", 7, None, False), ("d", "y", 7, None, False), ("b", None, 7, 2.5, False)],
    ]
    for batch, expected in zip(batches, MOVED[name], strict=True):
        write(rows(spark, *batch), table_path, options)
        assert sorted_rows(load(spark, table_path).select("id", "_hoodie_partition_path", "ts", "fare")) == expected


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_event_times_of_rows_that_meet_stored_ones_are_in_write_stats(spark: Any, table_path: str, kind: str) -> None:
    at = 1_700_000_000
    options = {
        **UPSERT,
        **payload("DefaultHoodieRecordPayload"),
        "hoodie.datasource.write.table.type": kind,
        "hoodie.payload.event.time.field": "ts",
        "hoodie.compact.inline.max.delta.commits": "3",
        "hoodie.parquet.small.file.limit": "0" if kind == "MERGE_ON_READ" else str(1 << 20),
    }
    first = [("a", "x", at, 1.0, False), ("b", "x", at, 1.0, False), ("c", "x", at, 1.0, False)]
    write(rows(spark, *first), table_path, options)
    (stat,) = stats(commits(table_path)[-1])
    assert (stat["minEventTime"], stat["maxEventTime"]) == (None, None)
    changes = [("a", "x", at + 50, 2.0, False), ("b", "x", at - 10, 2.0, False), ("c", "x", at + 200, 2.0, True)]
    write(rows(spark, *changes, ("n", "x", at + 900, 2.0, False)), table_path, options)
    changed = next(stat for stat in stats(commits(table_path)[-1]) if stat["prevCommit"] != "null")
    assert (changed["minEventTime"], changed["maxEventTime"]) == EVENT_TIMES[kind]
    compacting = {"hoodie.compact.inline": "true"} if kind == "MERGE_ON_READ" else {}
    write(rows(spark, ("a", "x", at + 60, 3.0, False)), table_path, {**options, **compacting})
    changed = next(stat for stat in stats(commits(table_path)[-1]) if stat["prevCommit"] != "null")
    assert (changed["minEventTime"], changed["maxEventTime"]) == (1_700_000_060_000, 1_700_000_060_000)


# --- refused


def test_a_mode_and_a_payload_that_differ_are_refused(spark: Any, table_path: str) -> None:
    options = {**UPSERT, **payload("PartialUpdateAvroPayload"), MODE: "EVENT_TIME_ORDERING"}
    with pytest.raises(OptionError, match="say different things"):
        write(rows(spark, *FIRST), table_path, options)


def test_an_insert_does_not_fold(spark: Any, table_path: str) -> None:
    options = {**UPSERT, **payload("PartialUpdateAvroPayload"), OPERATION: "insert", "hoodie.combine.before.insert": "true"}
    with pytest.raises(Unsupported, match="PartialUpdateAvroPayload.*insert.*use upsert"):
        write(rows(spark, *FIRST), table_path, options)


def test_an_aggregate_without_columns_is_refused(spark: Any, table_path: str) -> None:
    with pytest.raises(OptionError, match="penstock.payload.aggregate=<column>:<aggregate>"):
        write(rows(spark, *FIRST), table_path, {**UPSERT, **payload("penstock.aggregate")})


def test_a_marker_without_its_value_is_refused(spark: Any, table_path: str) -> None:
    options = {**UPSERT, **payload("DefaultHoodieRecordPayload"), "hoodie.payload.delete.field": "fare"}
    with pytest.raises(OptionError, match=r"hoodie.payload.delete.marker"):
        write(rows(spark, *FIRST), table_path, options)


def test_a_change_stream_without_its_column_is_refused(spark: Any, table_path: str) -> None:
    write(rows(spark, *FIRST), table_path, {**BULK})
    before = columns(table_path, "id", "fare")
    with pytest.raises(SchemaError, match="_event_lsn"):
        write(rows(spark, *SECOND), table_path, {**UPSERT, **payload("debezium.PostgresDebeziumAvroPayload")})
    assert columns(table_path, "id", "fare") == before
