"""Payloads chosen by name in the options: which rows stay when several of one key are merged, in a batch and in the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import OptionError, SchemaError
from tests.table.tables import (
    BULK,
    OPERATION,
    ORDERING,
    base_files,
    commits,
    load,
    properties,
    sorted_rows,
    state_of,
    stats,
    trips,
    values,
    write,
)
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
    """Return the option that chooses a payload."""
    return {PAYLOAD: name if name.startswith("penstock.") else _MODEL + name}


@pytest.mark.parametrize(
    ("index", "groups"), [("SIMPLE", {}), ("GLOBAL_SIMPLE", MANY_GROUPS)], ids=["one-group", "global-many-groups"]
)
@pytest.mark.parametrize("name", KEPT)
def test_a_payload_keeps_the_expected_rows(spark: Any, table_path: str, name: str, index: str, groups: dict[str, Any]) -> None:
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


COMBINED = {"hoodie.combine.before.insert": "true"}
SORTED = {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
#: Payload, operation, options, and what a batch with several rows of a key leaves in an empty table.
INSERTED: list[tuple[str, str, dict[str, Any], list[tuple[Any, ...]]]] = [
    ("PartialUpdateAvroPayload", "insert", IN_TASKS, [("a", "x", 2, 1.0), ("a", "y", 4, 5.0), ("b", "x", 3, 4.0)]),
    ("FirstValueAvroPayload", "insert", {}, [("a", "x", 2, None), ("a", "y", 4, 5.0), ("b", "x", 3, 4.0)]),
    ("penstock.first_row", "insert", {INDEX: "BUCKET"}, [("a", "x", 1, 1.0), ("a", "y", 4, 5.0), ("b", "x", 3, 4.0)]),
    ("penstock.aggregate", "insert", {INDEX: "GLOBAL_SIMPLE"}, [("a", "y", 4, 6.0), ("b", "x", 3, 4.0)]),
    ("penstock.aggregate", "insert_overwrite", {}, [("a", "x", 2, 1.0), ("a", "y", 4, 5.0), ("b", "x", 3, 4.0)]),
    ("penstock.first_row", "insert", {INDEX: "GLOBAL_SIMPLE"}, [("a", "x", 1, 1.0), ("b", "x", 3, 4.0)]),
    ("PartialUpdateAvroPayload", "bulk_insert", {}, [("a", "x", 2, 1.0), ("a", "y", 4, 5.0), ("b", "x", 3, 4.0)]),
    ("penstock.first_row", "bulk_insert", {INDEX: "GLOBAL_SIMPLE", **SORTED}, [("a", "x", 1, 1.0), ("b", "x", 3, 4.0)]),
]


def test_an_insert_that_combines_merges_several_rows_into_one(spark: Any, table_path: str) -> None:
    batch = [("a", "x", 1, 1.0, False), ("a", "x", 2, None, False), ("b", "x", 1, 3.0, False), ("b", "x", 2, None, True)]
    for number, (name, operation, more, left) in enumerate(INSERTED):
        options = {**UPSERT, **payload(name), **COMBINED, **more, "penstock.payload.aggregate": "fare:sum,ts:max"}
        kind = "MERGE_ON_READ" if number % 2 else "COPY_ON_WRITE"
        options |= {OPERATION: operation, "hoodie.datasource.write.table.type": kind, "hoodie.bucket.index.num.buckets": 2}
        frame = rows(spark, *batch, ("b", "x", 3, 4.0, False), ("a", "y", 4, 5.0, False)).coalesce(1)
        write(frame, f"{table_path}-{number}", options)
        found = load(spark, f"{table_path}-{number}")
        assert sorted_rows(found.select("id", "city", "ts", "fare")) == left, name
        assert sorted_rows(found.select("id", "_hoodie_partition_path", "ts", "fare")) == left, name


def test_merge_modes_stand_for_payloads(spark: Any, table_path: str) -> None:
    write(rows(spark, *FIRST), table_path, {**BULK})
    write(rows(spark, ("a", "x", 4, 4.0, False), ("c", "y", 6, 6.0, False)), table_path, {**UPSERT, MODE: "EVENT_TIME_ORDERING"})
    assert [r for r in columns(table_path, "id", "fare") if r[0] in "ac"] == [("a", 1.0), ("c", 6.0)]
    write(rows(spark, ("a", "x", 4, 4.0, False)), table_path, {**UPSERT, MODE: "COMMIT_TIME_ORDERING"})
    assert ("a", 4.0) in columns(table_path, "id", "fare")
    for mode, kept, fare in (
        ("COMMIT_TIME_ORDERING", "HoodieAvroPayload", 4.0),
        ("EVENT_TIME_ORDERING", "DefaultHoodieRecordPayload", 6.0),
    ):
        path, kind = f"{table_path}-{mode}", {MODE: mode, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
        write(rows(spark, *FIRST), path, {**BULK, **kind})
        for ts, price in ((6, 6.0), (4, 4.0)):  # both in the log
            write(rows(spark, ("a", "x", ts, price, False)), path, {**UPSERT, **kind})
        assert properties(path)["hoodie.compaction.payload.class"] == _MODEL + kept
        assert ("a", fare) in sorted_rows(load(spark, path).select("id", "fare"))


def test_a_configured_column_marks_deletes(spark: Any, table_path: str) -> None:
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
def test_the_operation_column_is_the_sixth_meta_column_and_can_delete(spark: Any, table_path: str, kind: str) -> None:
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
    before = state_of(table_path)
    with pytest.raises(SchemaError, match=r"'_hoodie_operation' holds \['X'\]; operations are I, -U, U and D, or null"):
        write(values(spark, columns_, ("a", "x", 4, "X")), table_path, options)
    assert state_of(table_path) == before


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
def test_a_row_that_moves_is_merged_from_both_rows(spark: Any, table_path: str, name: str, kind: str) -> None:
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


def test_a_first_row_without_an_ordering_field_does_not_move(spark: Any, table_path: str) -> None:
    options = {
        **{key: value for key, value in UPSERT.items() if key != ORDERING},
        **payload("penstock.first_row"),
        "hoodie.combine.before.upsert": "false",
        INDEX: "GLOBAL_SIMPLE",
        MOVES["GLOBAL_SIMPLE"]: "true",
    }
    for batch in ([("a", "x", 1), ("b", "x", 1)], [("a", "y", 2), ("c", "y", 2)]):
        write(values(spark, "id string, city string, n bigint", *batch), table_path, options)
    found = load(spark, table_path).select("id", "city", "_hoodie_partition_path", "n")
    assert sorted_rows(found) == [("a", "x", "x", 1), ("b", "x", "x", 1), ("c", "y", "y", 2)]


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
    ages = [int(commits(table_path)[-1]["extraMetadata"].get(f"penstock.{name}.ms", 0)) for name in ("latency", "freshness")]
    assert ages[0] - ages[1] == (EVENT_TIMES[kind][1] or 0) - (EVENT_TIMES[kind][0] or 0)
    assert (ages[1] > 0) == (kind == "COPY_ON_WRITE")
    compacting = {"hoodie.compact.inline": "true"} if kind == "MERGE_ON_READ" else {}
    write(rows(spark, ("a", "x", at + 60, 3.0, False)), table_path, {**options, **compacting})
    changed = next(stat for stat in stats(commits(table_path)[-1]) if stat["prevCommit"] != "null")
    assert (changed["minEventTime"], changed["maxEventTime"]) == (1_700_000_060_000, 1_700_000_060_000)


# --- refused


def test_a_mode_and_a_payload_that_differ_are_refused(spark: Any, table_path: str) -> None:
    options = {**UPSERT, **payload("PartialUpdateAvroPayload"), MODE: "EVENT_TIME_ORDERING"}
    with pytest.raises(OptionError, match="say different things"):
        write(rows(spark, *FIRST), table_path, options)
    with pytest.raises(
        OptionError, match=r"CUSTOM does not say how rows are merged: set .*payload\.class too, or .*custom\.impl"
    ):
        write(rows(spark, *FIRST), table_path, {**UPSERT, MODE: "CUSTOM"})
    assert not Path(table_path).exists()


def test_an_aggregate_without_columns_is_refused(spark: Any, table_path: str) -> None:
    with pytest.raises(OptionError, match="penstock.payload.aggregate=<column>:<aggregate>"):
        write(rows(spark, *FIRST), table_path, {**UPSERT, **payload("penstock.aggregate")})


def test_a_marker_without_its_value_is_refused(spark: Any, table_path: str) -> None:
    options = {**UPSERT, **payload("DefaultHoodieRecordPayload"), "hoodie.payload.delete.field": "fare"}
    with pytest.raises(OptionError, match=r"hoodie.payload.delete.marker"):
        write(rows(spark, *FIRST), table_path, options)


CHANGES = "id string, city string, ts bigint, Op string, _change_operation_type string, _event_seq string, _event_lsn bigint"
#: Payload, the columns that a batch lacks, values that it has, and what the error says.
BAD_CHANGES: list[tuple[str, tuple[str, ...], dict[str, Any], str]] = [
    ("debezium.PostgresDebeziumAvroPayload", ("_event_lsn",), {}, "_event_lsn cannot be null in insert record"),
    ("debezium.PostgresDebeziumAvroPayload", (), {"_event_lsn": None}, "_event_lsn cannot be null in insert record"),
    ("debezium.PostgresDebeziumAvroPayload", ("_change_operation_type",), {}, "needs the column '_change_operation_type'"),
    ("debezium.MySqlDebeziumAvroPayload", ("_event_seq",), {}, "_event_seq cannot be null in insert record"),
    ("debezium.MySqlDebeziumAvroPayload", (), {"_event_seq": "binlog.7"}, "'_event_seq' holds 'binlog.7'; it has to be"),
    ("debezium.MySqlDebeziumAvroPayload", ("_change_operation_type",), {}, "needs the column '_change_operation_type'"),
    ("AWSDmsAvroPayload", ("Op",), {}, "AWSDmsAvroPayload needs the column 'Op'"),
    (
        "DefaultHoodieRecordPayload",
        (),
        {"ts": "soon"},
        "'ts' is bigint in the table and string in the data, and text orders otherwise",
    ),
    ("DefaultHoodieRecordPayload", (), {"ts": None}, "Ordering value is null"),
]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_changes_that_a_payload_cannot_order_are_refused_and_leave_the_table_as_it_was(
    spark: Any, table_path: str, kind: str
) -> None:
    row: dict[str, Any] = {"id": "a", "city": "x", "ts": 1, "Op": "U", "_change_operation_type": "u", "_event_seq": "1.1"}
    row["_event_lsn"] = 1
    kinds = dict(part.split() for part in CHANGES.split(", "))
    for number, (name, lacking, more, message) in enumerate(BAD_CHANGES):
        path, options = f"{table_path}-{number}", {"hoodie.datasource.write.table.type": kind, **payload(name)}
        first = {column: value for column, value in row.items() if column not in lacking}
        second = {**first, **more}
        its = {c: "string" if isinstance(more.get(c), str) else k for c, k in kinds.items() if c in first}
        write(_of(spark, {c: kinds[c] for c in first}, first), path, {**BULK, **options})
        before = state_of(path)
        with pytest.raises(SchemaError, match=message):
            write(_of(spark, its, second), path, {**UPSERT, **options})
        assert state_of(path) == before, (name, message)


def _of(spark: Any, kinds: dict[str, str], row: dict[str, Any]) -> Any:
    return values(spark, ", ".join(f"{name} {kind}" for name, kind in kinds.items()), tuple(row[name] for name in kinds))
