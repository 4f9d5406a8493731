"""Logs that hold the positions of their rows in the base file: Spark reads the other rows itself, and the result is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.formats.log import scan_blocks
from penstock.read import log_headers, log_slices, skip_rows
from penstock.storage import LocalStorage
from tests.kit.templates import Templates
from tests.table.tables import OPERATION, load, sorted_rows, write
from tests.table.upserts import DELETE, INDEX, MANY_GROUPS, MOVES, PAYLOAD, UPSERT, rows

MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
NO_FILLING = {"hoodie.parquet.small.file.limit": "0"}
OPTIONS = {**UPSERT, **MOR, **NO_FILLING}
COLUMNS = ("id", "city", "ts", "fare")


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Returns the rows of a table read by positions, which must be equal to those that workers merge."""

    def read(spark: Any, path: str, *, by_position: bool = True, **options: str) -> list[Any]:
        found = []
        for least in (0, 1 << 60):
            monkeypatch.setattr(log_headers, "_LARGE_BASE_BYTES", least)
            frame = load(spark, path, **options)
            frame.explain()
            assert ("row_index" in capsys.readouterr().out) == (by_position and least == 0)
            found.append(sorted_rows(frame.select(*COLUMNS)))
        assert found[0] == found[1]
        return found[0]

    return read


@pytest.fixture
def table(spark: Any, table_path: str, templates: Templates) -> str:
    """Two partitions with base files, and logs of a first upsert."""
    first = [(k, c, 1, 1.0, False) for c in ("x", "y") for k in (f"{c}1", f"{c}2", f"{c}3", f"{c}4")]
    second = [("x2", "x", 2, 2.0, False), ("x4", "x", 2, None, True), ("y1", "y", 2, 2.0, False)]

    def make(path: str) -> None:
        write(rows(spark, *first).coalesce(1), path, {**OPTIONS, OPERATION: "bulk_insert"})
        write(rows(spark, *second), path, OPTIONS)

    return templates.copy("positions", make, table_path)


def test_log_blocks_hold_the_positions_of_updated_and_deleted_rows(spark: Any, table: str, both: Any) -> None:
    said = []
    for path in sorted(str(p) for p in Path(table).glob("*/.*.log.*")):
        with LocalStorage().open(path) as log:
            said += [
                (path.split("/")[-2], b.type.name, b.positions.tolist()) for b in scan_blocks(log) if b.positions is not None
            ]
    assert said == [("x", "AVRO_DATA", [1]), ("x", "DELETE", [3]), ("y", "AVRO_DATA", [0])]
    assert [r[0] for r in both(spark, table)] == ["x1", "x2", "x3", "y1", "y2", "y3", "y4"]


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_positions_of_several_writes_and_a_delete_by_key_are_combined(spark: Any, table: str, both: Any, block: str) -> None:
    write(
        rows(spark, ("x2", "x", 1, 9.0, False), ("x1", "x", 3, 3.0, False), ("x9", "x", 3, 3.0, False)),
        table,
        {**OPTIONS, "hoodie.logfile.data.block.format": block},
    )
    write(rows(spark, ("y1", "y", 4, None, False), ("y2", "y", 4, None, False)), table, {**DELETE, **MOR, **NO_FILLING})
    expected = [("x1", 3.0), ("x2", 2.0), ("x3", 1.0), ("x9", 3.0), ("y3", 1.0), ("y4", 1.0)]
    assert [(r[0], r[3]) for r in both(spark, table)] == expected


def test_filters_and_columns_reach_the_base_files(
    spark: Any, table: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_headers, "_LARGE_BASE_BYTES", 0)
    frame = load(spark, table)
    frame.where("fare = 1.0").select("id").explain()
    scan = next(line for line in capsys.readouterr().out.splitlines() if "FileScan parquet" in line)
    assert "EqualTo(fare,1.0)" in scan
    assert "ts:" not in scan
    assert sorted_rows(frame.where("city = 'x' and fare = 1.0").select("id")) == [("x1",), ("x3",)]
    assert frame.where("_hoodie_partition_path = 'y'").count() == 4
    assert sorted_rows(frame.groupBy("city").count()) == [("x", 3), ("y", 4)]


def test_rows_that_move_are_skipped_at_their_old_position(spark: Any, table: str, both: Any) -> None:
    options = {**OPTIONS, INDEX: "GLOBAL_SIMPLE", MOVES["GLOBAL_SIMPLE"]: "true"}
    write(rows(spark, ("x1", "y", 5, 5.0, False), ("y2", "x", 5, 5.0, False)), table, options)
    assert [(r[0], r[1]) for r in both(spark, table)][:3] == [("x1", "y"), ("x2", "x"), ("x3", "x")]


def test_positions_are_kept_apart_by_file_group_in_one_partition(spark: Any, table_path: str, both: Any) -> None:
    options = {**OPTIONS, **MANY_GROUPS}
    write(
        rows(spark, *((f"k{i}", "x", 1, 1.0, False) for i in range(8))).coalesce(1), table_path, {**options, OPERATION: "insert"}
    )
    write(rows(spark, ("k1", "x", 2, 2.0, False), ("k6", "x", 2, 2.0, False), ("k7", "x", 2, 2.0, True)), table_path, options)
    assert [(r[0], r[3]) for r in both(spark, table_path)] == [(f"k{i}", 2.0 if i in (1, 6) else 1.0) for i in range(7)]


def test_after_a_compaction_positions_are_those_of_the_new_file(spark: Any, table: str, both: Any) -> None:
    tables = penstock.Table.open(table)
    plan = tables.schedule_compaction()
    write(rows(spark, ("x1", "x", 6, 6.0, False)), table, OPTIONS)
    expected = [("x1", 6.0), ("x2", 2.0), ("x3", 1.0), ("y1", 2.0), ("y2", 1.0), ("y3", 1.0), ("y4", 1.0)]
    assert [(r[0], r[3]) for r in both(spark, table)] == expected
    tables.compact(plan.instant)
    assert [(r[0], r[3]) for r in both(spark, table, by_position=False)] == expected
    write(rows(spark, ("y4", "y", 7, 7.0, False)), table, OPTIONS)
    assert [(r[0], r[3]) for r in both(spark, table)] == [*expected[:-1], ("y4", 7.0)]


@pytest.mark.parametrize("payload", ["DefaultHoodieRecordPayload", "PartialUpdateAvroPayload"])
def test_rows_that_have_to_be_compared_are_merged_by_workers_and_no_others(
    spark: Any, table_path: str, both: Any, monkeypatch: pytest.MonkeyPatch, payload: str
) -> None:
    options = {**OPTIONS, PAYLOAD: f"org.apache.hudi.common.model.{payload}"}
    stored = [(f"k{i}", "x", 5, 5.0, False) for i in range(9)]
    write(rows(spark, *stored).coalesce(1), table_path, {**options, OPERATION: "bulk_insert"})
    write(rows(spark, ("k1", "x", 4, 4.0, False), ("k8", "x", 6, 6.0, False)), table_path, options)
    expected = [(f"k{i}", 6.0 if i == 8 else 5.0) for i in range(9)]
    assert [(r[0], r[3]) for r in both(spark, table_path)] == expected
    monkeypatch.setattr(log_slices, "_MOST_TOUCHED_SHARE", 0.2)
    assert [(r[0], r[3]) for r in both(spark, table_path, by_position=False)] == expected


def test_time_travel_uses_the_blocks_of_its_time(spark: Any, table: str, both: Any) -> None:
    then = penstock.Table.open(table).history(limit=1)[0].instant
    write(rows(spark, ("x3", "x", 9, 9.0, False)), table, OPTIONS)
    assert [r[3] for r in both(spark, table, **{"as.of.instant": then}) if r[0] == "x3"] == [1.0]
    assert [r[3] for r in both(spark, table) if r[0] == "x3"] == [9.0]


@pytest.mark.parametrize(("differ", "by"), [(True, "file_size"), (False, "file_name")])
def test_files_are_identified_by_size_if_sizes_differ_and_else_by_name(
    spark: Any,
    table_path: str,
    both: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    differ: bool,
    by: str,
) -> None:
    first = [(f"{c}{k}", c, 1, 1.0, False) for c, count in (("x", 4), ("y", 400)) for k in range(count)]
    write(rows(spark, *first).coalesce(1), table_path, {**OPTIONS, OPERATION: "bulk_insert"})
    write(rows(spark, ("x1", "x", 2, 2.0, False), ("y2", "y", 2, None, True)), table_path, OPTIONS)
    choose = skip_rows._choose_file_key
    monkeypatch.setattr(skip_rows, "_choose_file_key", lambda files: choose(files if differ else [*files, *files]))
    assert both(spark, table_path) == sorted(
        [(k, c, 1, 1.0) for k, c, *_ in first if k not in ("x1", "y2")] + [("x1", "x", 2, 2.0)]
    )
    monkeypatch.setattr(log_headers, "_LARGE_BASE_BYTES", 0)
    load(spark, table_path).explain()
    assert by in capsys.readouterr().out


def test_workers_merge_a_table_with_a_column_named_like_sparks_file_metadata(spark: Any, table_path: str, both: Any) -> None:
    """Spark tells rows of a base file apart by columns that such a name hides."""
    for operation, values in (("bulk_insert", ["a", "b", "c"]), ("upsert", ["b"])):
        named = rows(spark, *((key, "x", 1, 1.0, False) for key in values)).selectExpr("*", f"'{operation}' AS _metadata")
        write(named, table_path, {**OPTIONS, OPERATION: operation})
    assert [r[0] for r in both(spark, table_path, by_position=False)] == ["a", "b", "c"]
    assert sorted_rows(load(spark, table_path).select("id", "_metadata"))[1] == ("b", "upsert")
