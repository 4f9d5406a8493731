"""`penstock.deletes.follow.ordering`: a delete that is older than the stored row is ignored, in both table types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import OptionError
from penstock.read import log_headers
from tests.table.tables import KEY, NAME, OPERATION, ORDERING, load, properties, values, write
from tests.table.upserts import MANY_GROUPS, PAYLOAD

OPTION = "penstock.deletes.follow.ordering"
HUDI = "org.apache.hudi.common.model."
BLOCKS = "hoodie.logfile.data.block.format"
BASE = {NAME: "late", KEY: "id", ORDERING: "ts", "hoodie.compact.inline": "false", PAYLOAD: f"{HUDI}DefaultHoodieRecordPayload"}
MOR = {**BASE, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
#: Rows that no write touches: so the log touches a small part of the base file, and Spark reads the other rows itself.
UNTOUCHED = [(f"untouched{number}", 10, False) for number in range(60)]
KEYS = ("late", "gone", "tie", "back", "again", "op_late", "op_gone", "plain", "plain_back", "row_late", "still")
#: What is left of a table that `fill` has written: in merge-on-read tables, and in copy-on-write tables, which forget deletes.
LEFT = {"late": 10, "again": 30, "op_late": 10, "plain_back": 3, "row_late": 15, "still": 10}
LEFT_WITHOUT_TOMBSTONES = {**LEFT, "back": 3}


def flagged(spark: Any, *rows: tuple[str, int, bool]) -> Any:
    return values(spark, "id string, ts bigint, _hoodie_is_deleted boolean", *rows)


def fill(spark: Any, path: str, options: dict[str, Any]) -> None:
    """Write each key at 10, then deletes and rows with lesser and greater values."""
    options = {OPTION: "true", **options}
    base = flagged(spark, *UNTOUCHED, *((key, 10, False) for key in KEYS)).coalesce(1)
    write(base, path, {**options, OPERATION: "insert"})
    upsert, delete = {**options, OPERATION: "upsert"}, {**options, OPERATION: "delete"}
    deleted = [("late", 5, True), ("gone", 20, True), ("tie", 10, True), ("back", 20, True), ("again", 20, True)]
    write(flagged(spark, *deleted, ("row_late", 15, False)), path, upsert)
    write(flagged(spark, ("back", 3, False), ("again", 30, False), ("row_late", 12, True)), path, upsert)
    write(values(spark, "id string, ts int", ("op_late", 5), ("op_gone", 20)), path, delete)
    write(values(spark, "id string", ("plain",), ("plain_back",)), path, delete)
    write(flagged(spark, ("plain_back", 3, False)), path, upsert)


def left(spark: Any, path: str, **options: Any) -> dict[str, int]:
    found = {row.id: row.ts for row in load(spark, path, **options).collect()}
    return {key: ts for key, ts in found.items() if not key.startswith("untouched")}


@pytest.fixture
def both_ways(spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Returns the rows of a table, which must be the same if the log is merged by positions, and by keys with spill files."""

    def read(path: str, *, by_position: bool) -> dict[str, int]:
        monkeypatch.setattr(log_headers, "_LARGE_BASE_BYTES", 0)
        load(spark, path).explain()
        assert ("row_index" in capsys.readouterr().out) == by_position
        found = left(spark, path)
        monkeypatch.setattr(log_headers, "_LARGE_BASE_BYTES", 1 << 60)
        assert left(spark, path, **{"hoodie.memory.merge.max.size": 1}) == found
        return found

    return read


@pytest.mark.parametrize(
    ("payload", "blocks", "groups"),
    [
        (f"{HUDI}DefaultHoodieRecordPayload", "avro", {}),
        (f"{HUDI}OverwriteWithLatestAvroPayload", "parquet", MANY_GROUPS),
        (f"{HUDI}PartialUpdateAvroPayload", "avro", MANY_GROUPS),
        ("penstock.masked", "parquet", {}),
    ],
    ids=["default", "overwrite", "partial", "masked"],
)
def test_deletes_follow_the_ordering_in_logs(
    spark: Any, table_path: str, both_ways: Any, payload: str, blocks: str, groups: dict[str, Any]
) -> None:
    options = {**MOR, PAYLOAD: payload, BLOCKS: blocks, "hoodie.parquet.small.file.limit": 0, **groups}
    fill(spark, table_path, options)
    assert both_ways(table_path, by_position=not groups) == LEFT
    table = penstock.Table.open(table_path)
    assert table.compact_logs({"hoodie.log.compaction.blocks.threshold": 2, BLOCKS: blocks})
    assert both_ways(table_path, by_position=False) == LEFT
    write(flagged(spark, ("back", 4, False), ("still", 7, True)), table_path, {**options, OPERATION: "upsert"})
    assert left(spark, table_path) == LEFT  # the joined log still remembers the delete of `back`
    table.compact(table.schedule_compaction().instant)
    assert left(spark, table_path, **{"hoodie.datasource.query.type": "read_optimized"}) == LEFT


@pytest.mark.parametrize("payload", ["DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload", "EventTimeAvroPayload"])
def test_deletes_follow_the_ordering_in_base_files(spark: Any, table_path: str, payload: str) -> None:
    options = {**BASE, PAYLOAD: f"{HUDI}{payload}"}
    fill(spark, table_path, options)
    assert left(spark, table_path) == LEFT_WITHOUT_TOMBSTONES


def test_a_row_after_a_delete_takes_no_value_from_the_row_before(spark: Any, table_path: str) -> None:
    columns = "id string, ts bigint, a int, b int, _hoodie_is_deleted boolean"
    options = {**MOR, PAYLOAD: f"{HUDI}PartialUpdateAvroPayload", OPTION: "true", OPERATION: "upsert"}
    write(values(spark, columns, ("x", 10, 1, 1, False), ("y", 10, 1, 1, False)), table_path, options)
    write(values(spark, columns, ("x", 20, None, None, True), ("y", 5, None, None, True)), table_path, options)
    write(values(spark, columns, ("x", 30, 2, None, False), ("y", 30, 2, None, False)), table_path, options)
    assert sorted(load(spark, table_path).select("id", "ts", "a", "b").collect()) == [("x", 30, 2, None), ("y", 30, 2, 1)]


@pytest.mark.parametrize("options", [BASE, MOR], ids=["copy-on-write", "merge-on-read"])
def test_by_default_deletes_in_logs_ignore_the_ordering_as_in_hudi(spark: Any, table_path: str, options: dict[str, Any]) -> None:
    fill(spark, table_path, {**options, OPTION: "false"})
    found = left(spark, table_path)
    assert OPTION not in properties(table_path)
    if options is MOR:
        assert "late" not in found
        assert found["back"] == 10
    else:
        assert found["late"] == 10
    assert "op_late" not in found


def test_a_table_keeps_the_option_from_the_first_write_that_sets_it(spark: Any, table_path: str) -> None:
    upsert = {**MOR, OPERATION: "upsert"}
    write(flagged(spark, ("a", 10, False), ("b", 10, False)), table_path, upsert)
    write(flagged(spark, ("a", 5, True)), table_path, upsert)
    assert left(spark, table_path) == {"b": 10}
    write(flagged(spark, ("b", 5, True)), table_path, {**upsert, OPTION: "true"})
    assert properties(table_path)[OPTION] == "true"
    # Logs that were written before are read by the new rule: their deletes have ordering values too.
    assert left(spark, table_path) == {"a": 10, "b": 10}
    write(flagged(spark, ("b", 6, True)), table_path, upsert)
    assert left(spark, table_path) == {"a": 10, "b": 10}
    with pytest.raises(OptionError, match=OPTION):
        write(flagged(spark, ("b", 6, True)), table_path, {**upsert, OPTION: "false"})


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({ORDERING: None}, "the table stores none: set hoodie.datasource.write.precombine.field"),
        ({PAYLOAD: f"{HUDI}HoodieAvroPayload"}, "goes by the order of the writes; choose DefaultHoodieRecordPayload"),
        ({PAYLOAD: f"{HUDI}debezium.PostgresDebeziumAvroPayload"}, "goes by the position in the database's log"),
    ],
    ids=["no ordering column", "by arrival", "by position"],
)
@pytest.mark.parametrize("options", [BASE, MOR], ids=["copy-on-write", "merge-on-read"])
def test_the_option_is_refused_where_it_cannot_hold(
    spark: Any, table_path: str, options: dict[str, Any], wrong: dict[str, Any], reason: str
) -> None:
    given = {key: value for key, value in {**options, OPTION: "true", **wrong}.items() if value is not None}
    with pytest.raises(OptionError, match=reason):
        write(flagged(spark, ("a", 10, False)), table_path, given)
    assert not Path(table_path).exists()


def test_the_option_is_refused_on_a_table_that_stores_no_ordering_column(spark: Any, table_path: str) -> None:
    unordered = {key: value for key, value in BASE.items() if key != ORDERING}
    write(values(spark, "id string, n int", ("a", 1)), table_path, {**unordered, OPERATION: "insert"})
    with pytest.raises(OptionError, match="stores none"):
        write(values(spark, "id string, n int", ("a", 2)), table_path, {**unordered, OPERATION: "insert", OPTION: "true"})


def test_rows_with_the_operation_d_follow_the_ordering(spark: Any, table_path: str) -> None:
    # They are logged as rows, not as entries of a delete block.
    columns = "id string, ts bigint, _hoodie_operation string"
    options = {**MOR, OPTION: "true", OPERATION: "upsert", "hoodie.allow.operation.metadata.field": "true"}
    options[PAYLOAD] = f"{HUDI}OverwriteWithLatestAvroPayload"
    write(values(spark, columns, ("a", 10, "I"), ("b", 10, "I"), ("c", 10, "I")), table_path, options)
    write(values(spark, columns, ("a", 5, "D"), ("b", 20, "D"), ("c", 20, "D")), table_path, options)
    write(values(spark, columns, ("b", 3, "I"), ("c", 30, "I")), table_path, options)
    assert left(spark, table_path) == {"a": 10, "c": 30}
