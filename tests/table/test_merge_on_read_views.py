"""The two views of a merge-on-read table: snapshot queries merge log files, read-optimized ones leave them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import CorruptFile, SchemaError, Unsupported
from penstock.formats.log import encode_rollback_block, scan_blocks
from penstock.read import log_slices
from tests.kit.golden import unpack_golden
from tests.kit.readers import hudi_rs_rows, rows_of
from tests.table.handmade import COLUMNS, HandMade, at
from tests.table.tables import HIVE_STYLE, META, OPERATION, TRIPS, load, snapshot, sorted_rows, values, write

READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
SKIP_MERGE = {"hoodie.datasource.merge.type": "skip_merge"}


def as_of(number: int) -> dict[str, str]:
    return {"as.of.instant": at(number)}


# --- tables of real Hudi


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("mor_parquet_v6_nonpartitioned", 4),
        ("mor_parquet_v6_simplekeygen_nonhivestyle_overwritetable", 1),
        ("trips_mor_avro_v6_trips_8i1u", 8),
    ],
)
def test_a_table_of_hudi_has_the_rows_that_hudi_rs_reads(spark: Any, tmp_path: Path, name: str, rows: int) -> None:
    pytest.importorskip("hudi")
    path = str(unpack_golden(name, tmp_path))
    frame = load(spark, path)
    arrow = frame.toArrow() if hasattr(frame, "toArrow") else pa.Table.from_batches(frame._collect_as_arrow())  # PySpark 3.5
    found = rows_of(arrow, meta=True)
    assert len(found) == rows
    assert found == rows_of(hudi_rs_rows(path), meta=True)
    assert frame.columns[:5] == list(META)


def test_the_update_of_a_real_table_is_in_the_snapshot_and_not_in_the_read_optimized_view(spark: Any, tmp_path: Path) -> None:
    path = str(unpack_golden("trips_mor_avro_v6_trips_8i1u", tmp_path))
    fares = [sorted_rows(load(spark, path, **view).where("rider = 'rider-D'").select("fare")) for view in ({}, READ_OPTIMIZED)]
    assert fares == [[(25.0,)], [(33.9,)]]
    then = load(spark, path, **{"as.of.instant": "20250331030642808"}).where("rider = 'rider-D'")
    assert sorted_rows(then.select("fare")) == [(33.9,)]


# --- one table with everything in it


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Berlin has logs over a base file, Paris a base file alone, Tokyo logs alone, Rome a compaction that is pending.

    Instant 4 failed and was rolled back in Berlin, 7 is pending.
    """
    made = HandMade(tmp_path_factory.mktemp("views") / "table")
    made.base(1, "berlin", ("a", "berlin", 1, 1.0), ("b", "berlin", 1, 2.0), ("c", "berlin", 1, 3.0))
    made.base(1, "paris", ("d", "paris", 1, 4.0))
    made.base(1, "rome", ("g", "rome", 1, 7.0), ("h", "rome", 1, 8.0))
    made.instant(1)
    made.log(
        1, "berlin", 1, made.rows(2, "berlin", ("a", "berlin", 2, 10.0), ("e", "berlin", 2, 5.0)), made.deletes(2, "berlin", "c")
    )
    made.log(2, "tokyo", 1, made.rows(2, "tokyo", ("f", "tokyo", 2, 6.0), parquet=True))
    made.log(1, "rome", 1, made.rows(2, "rome", ("g", "rome", 2, 70.0)))
    made.instant(2)
    made.instant(3, "compaction.requested")
    made.log(1, "berlin", 2, made.rows(4, "berlin", ("b", "berlin", 9, -1.0), ("x", "berlin", 9, -1.0)))
    made.log(1, "berlin", 3, encode_rollback_block(instant=at(5), target_instant=at(4)))
    made.log(3, "rome", 1, made.rows(6, "rome", ("g", "rome", 3, 71.0), ("i", "rome", 3, 9.0)), made.deletes(6, "rome", "h"))
    made.log(2, "tokyo", 2, made.deletes(6, "tokyo", "f"), made.rows(6, "tokyo", ("j", "tokyo", 6, 11.0)))
    made.instant(6)
    made.log(1, "berlin", 4, made.deletes(7, "berlin", "a", "b", "e"))
    made.instant(7, "deltacommit.inflight")
    return str(made.path)


NOW = [
    ("a", "berlin", 2, 10.0),
    ("b", "berlin", 1, 2.0),
    ("d", "paris", 1, 4.0),
    ("e", "berlin", 2, 5.0),
    ("g", "rome", 3, 71.0),
    ("i", "rome", 3, 9.0),
    ("j", "tokyo", 6, 11.0),
]
BASE = [
    ("a", "berlin", 1, 1.0),
    ("b", "berlin", 1, 2.0),
    ("c", "berlin", 1, 3.0),
    ("d", "paris", 1, 4.0),
    ("g", "rome", 1, 7.0),
    ("h", "rome", 1, 8.0),
]


def test_a_snapshot_merges_committed_log_blocks_with_base_files(spark: Any, table: str) -> None:
    frame = load(spark, table)
    assert frame.columns == [*META, *COLUMNS.names]
    assert dict(frame.drop(*META).dtypes) == {"id": "string", "city": "string", "ts": "bigint", "fare": "double"}
    assert snapshot(spark, table) == NOW
    assert frame.count() == 7


def test_meta_columns_are_those_of_the_row_that_stayed(spark: Any, table: str) -> None:
    found = {r["id"]: r["_hoodie_commit_time"] for r in load(spark, table).select("id", "_hoodie_commit_time").collect()}
    assert found == {"a": at(2), "b": at(1), "d": at(1), "e": at(2), "g": at(6), "i": at(6), "j": at(6)}


def test_the_read_optimized_view_reads_base_files_alone(spark: Any, table: str) -> None:
    assert snapshot(spark, table, **READ_OPTIMIZED) == BASE


def test_as_of_a_time_only_blocks_up_to_it_count(spark: Any, table: str) -> None:
    assert snapshot(spark, table, **as_of(1)) == BASE
    assert snapshot(spark, table, **as_of(2)) == [
        ("a", "berlin", 2, 10.0),
        ("b", "berlin", 1, 2.0),
        ("d", "paris", 1, 4.0),
        ("e", "berlin", 2, 5.0),
        ("f", "tokyo", 2, 6.0),
        ("g", "rome", 2, 70.0),
        ("h", "rome", 1, 8.0),
    ]
    assert snapshot(spark, table, **as_of(6)) == NOW
    assert snapshot(spark, table, **as_of(2), **READ_OPTIMIZED) == BASE


def test_without_merging_base_rows_and_log_rows_are_all_returned(spark: Any, table: str) -> None:
    log_rows = [
        ("a", "berlin", 2, 10.0),
        ("e", "berlin", 2, 5.0),
        ("g", "rome", 3, 71.0),
        ("i", "rome", 3, 9.0),
        ("j", "tokyo", 6, 11.0),
    ]
    assert snapshot(spark, table, **SKIP_MERGE) == sorted([*BASE, *log_rows], key=repr)


def test_filters_views_and_joins_see_one_table(spark: Any, table: str) -> None:
    frame = load(spark, table)
    assert sorted_rows(frame.where("city = 'berlin' and fare > 2").select("id")) == [("a",), ("e",)]
    assert sorted_rows(frame.groupBy("city").count()) == [("berlin", 3), ("paris", 1), ("rome", 2), ("tokyo", 1)]
    frame.createOrReplaceTempView("mor_trips")
    assert spark.sql("select sum(fare) from mor_trips where ts > 1").first()[0] == 106.0


def test_one_partition_can_be_read_by_its_path(spark: Any, table: str) -> None:
    assert snapshot(spark, f"{table}/tokyo") == [("j", "tokyo", 6, 11.0)]


def test_a_filter_on_the_partition_column_opens_no_files_of_other_partitions(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_slices, "_LEAST_PARTITION_BYTES", 0)  # as if there was much to leave alone
    made = HandMade(tmp_path / "t")
    for number, city in enumerate(("berlin", "paris", "rome"), start=1):
        made.base(1, city, (f"k{number}", city, 1, 1.0))
        made.log(1, city, 1, made.rows(2, city, (f"k{number}", city, 2, 2.0)))
    made.instant(1).instant(2)
    (made.path / "rome" / ".rome-0_20240101000001000.log.1_0-0-0").write_bytes(b"no log at all")
    with pytest.warns(RuntimeWarning, match=r"partition 'rome' of .* fails: log file .* there is no block"):
        frame = load(spark, str(made.path))
    assert sorted_rows(frame.where("city = 'paris'").select("id", "fare")) == [("k2", 2.0)]
    assert sorted_rows(frame.where("city in ('berlin', 'paris')").select("id")) == [("k1",), ("k2",)]
    with pytest.raises(Exception, match="there is no block"):
        frame.count()


def test_only_the_requested_columns_are_read(spark: Any, table: str) -> None:
    known = penstock.Table(table, spark)
    assert sorted_rows(known.read(columns=["fare", "city"])) == sorted(((fare, city) for _, city, _, fare in NOW), key=repr)
    assert known.read(columns=["fare", "city"]).columns == ["fare", "city"]
    assert sorted_rows(known.read(columns=["_hoodie_commit_time"]).distinct()) == [(at(1),), (at(2),), (at(6),)]
    assert known.read(columns=["city"]).count() == 7
    with pytest.raises(SchemaError, match="no column 'cost'"):
        known.read(columns=["cost"])


# --- payloads, schemas, layouts


def test_the_tables_payload_decides_between_log_and_base_row(spark: Any, tmp_path: Path) -> None:
    payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    made = HandMade(tmp_path / "t", properties={"hoodie.compaction.payload.class": payload})
    made.base(1, "rome", ("a", "rome", 5, 1.0), ("b", "rome", 5, 1.0)).instant(1)
    made.log(1, "rome", 1, made.rows(2, "rome", ("a", "rome", 4, 2.0), ("b", "rome", 6, 2.0))).instant(2)
    assert snapshot(spark, str(made.path)) == [("a", "rome", 5, 1.0), ("b", "rome", 6, 2.0)]


def test_a_completed_compaction_starts_a_new_slice_and_a_replaced_file_group_is_not_read(spark: Any, tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.base(1, "rome", ("a", "rome", 1, 1.0)).instant(1)
    made.log(1, "rome", 1, made.rows(2, "rome", ("a", "rome", 2, 2.0))).instant(2)
    made.base(3, "rome", ("a", "rome", 2, 2.0)).instant(3, "compaction.requested").instant(3, "commit")
    made.log(3, "rome", 1, made.rows(4, "rome", ("b", "rome", 4, 4.0))).instant(4)
    assert snapshot(spark, str(made.path)) == [("a", "rome", 2, 2.0), ("b", "rome", 4, 4.0)]
    made.base(5, "rome", ("z", "rome", 5, 5.0), group="new").instant(5, "replacecommit", replaced={"rome": ("rome-0",)})
    assert snapshot(spark, str(made.path)) == [("z", "rome", 5, 5.0)]
    assert snapshot(spark, str(made.path), **as_of(4)) == [("a", "rome", 2, 2.0), ("b", "rome", 4, 4.0)]


def test_columns_that_were_added_or_widened_are_read_from_older_files_and_blocks(spark: Any, tmp_path: Path) -> None:
    old = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int32())])
    made = HandMade(tmp_path / "t", old)
    made.base(1, "rome", ("a", "rome", 1), ("b", "rome", 1)).base(1, "oslo", ("c", "oslo", 1)).instant(1)
    made.log(1, "rome", 1, made.rows(2, "rome", ("a", "rome", 2))).instant(2)
    made.columns = COLUMNS
    made.log(1, "rome", 2, made.rows(3, "rome", ("b", "rome", 3, 3.0))).instant(3)
    assert snapshot(spark, str(made.path)) == [("a", "rome", 2, None), ("b", "rome", 3, 3.0), ("c", "oslo", 1, None)]
    assert load(spark, str(made.path), **as_of(2)).columns == [*META, "id", "city", "ts"]
    assert snapshot(spark, str(made.path), **as_of(2)) == [("a", "rome", 2), ("b", "rome", 1), ("c", "oslo", 1)]


TYPES = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("real", pa.float32()),
        ("money", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("seen", pa.timestamp("ms", "UTC")),
        ("local", pa.timestamp("us")),
        ("raw", pa.binary()),
        ("list", pa.list_(pa.field("element", pa.struct([("x", pa.int64()), ("y", pa.string())])))),
        ("map", pa.map_(pa.string(), pa.field("value", pa.float64()))),
        ("struct", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.field("element", pa.string())))])),
    ]
)


@pytest.mark.parametrize("parquet", [False, True])
def test_values_of_every_type_are_the_same_from_a_base_file_and_from_a_log(spark: Any, tmp_path: Path, parquet: bool) -> None:
    from datetime import date, datetime, timezone
    from decimal import Decimal

    moment = datetime(2024, 2, 29, 12, 30, 15, 123000, tzinfo=timezone.utc)
    values = (True, -5, 0.5, Decimal("12345.67"), date(1960, 1, 1), moment, moment, moment.replace(tzinfo=None), b"\x00\xff")
    nested = ([{"x": 1, "y": "é"}, {"x": None, "y": None}], [("k", 1.5), ("l", None)], {"a": 1, "b": ["p", None]})
    made = HandMade(tmp_path / "t", TYPES)
    nulls = (None,) * (len(TYPES) - 3)
    made.base(1, "oslo", ("a", "rome", 1, *values, *nested), ("b", "rome", 1, *nulls)).instant(1)
    made.base(1, "rome", ("z", "rome", 1, *nulls))
    made.log(1, "rome", 1, made.rows(2, "rome", ("a", "rome", 1, *values, *nested), ("b", "rome", 1, *nulls), parquet=parquet))
    made.instant(2)
    frame = load(spark, str(made.path), **{"penstock.read.partition.values": "stored"}).drop(*META)
    rows = {key: [repr(r) for r in frame.where(f"id = '{key}'").collect()] for key in ("a", "b")}
    assert [len(found) for found in rows.values()] == [2, 2]
    assert all(one == other for one, other in rows.values())


@pytest.mark.parametrize("hive_style", [False, True])
def test_merged_rows_have_the_same_partition_values_as_rows_of_base_files(spark: Any, tmp_path: Path, hive_style: bool) -> None:
    hive = {"hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower()}
    columns = pa.schema([("id", pa.string()), ("city", pa.int32()), ("ts", pa.int64())])
    made = HandMade(tmp_path / "t", columns, hive)
    folder = "city=" if hive_style else ""
    made.base(1, f"{folder}7", ("a", 7, 1)).base(1, f"{folder}8", ("b", 8, 1)).instant(1)
    made.base(1, f"{folder}__HIVE_DEFAULT_PARTITION__", ("c", None, 1))
    made.log(1, f"{folder}8", 1, made.rows(2, f"{folder}8", ("b", 8, 2)))
    made.log(1, f"{folder}__HIVE_DEFAULT_PARTITION__", 1, made.rows(2, "", ("d", None, 2))).instant(2)
    frame = load(spark, str(made.path))
    assert sorted_rows(frame.drop(*META)) == [("a", 7, 1), ("b", 8, 2), ("c", None, 1), ("d", None, 2)]
    assert sorted_rows(frame.where("city = 8").select("id")) == [("b",)]
    assert sorted_rows(frame.where("city is null").select("id")) == [("c",), ("d",)]


@pytest.mark.parametrize("hive_style", [False, True])
def test_merged_rows_have_the_same_escaped_partition_values_as_rows_of_base_files(
    spark: Any, tmp_path: Path, hive_style: bool
) -> None:
    style = {
        "hoodie.datasource.write.hive_style_partitioning": str(hive_style).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    made = HandMade(tmp_path / "t", properties=style)
    plain, logged = (f"{'city=' if hive_style else ''}{folder}" for folder in ("a%2Fb%25", "c%20+d%3A"))
    made.base(1, plain, ("a", "a/b%", 1, 1.0), group="g1").base(1, logged, ("b", "c +d:", 1, 1.0), group="g2").instant(1)
    made.log(1, logged, 1, made.rows(2, logged, ("b", "c +d:", 2, 2.0)), group="g2").instant(2)
    frame = load(spark, str(made.path))
    assert sorted_rows(frame.drop(*META)) == [("a", "a/b%", 1, 1.0), ("b", "c +d:", 2, 2.0)]
    assert sorted_rows(frame.select("_hoodie_partition_path")) == sorted([(plain,), (logged,)])
    assert sorted_rows(frame.where("city = 'c +d:'").select("id")) == [("b",)]


@pytest.mark.parametrize(
    ("kind", "home", "away"),
    [("string", "rome", "oslo"), ("int", 7, 8), ("date", "2024-02-29", "1999-12-31"), ("decimal(5,2)", "1.50", "2.25")],
    ids=["string", "int", "date", "decimal"],
)
@pytest.mark.parametrize("hive_style", [False, True])
def test_a_row_that_stays_in_its_partition_has_the_value_of_the_folder_before_and_after_a_compaction(
    spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch, kind: str, home: Any, away: Any, hive_style: bool
) -> None:
    stays = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}
    options = {**TRIPS, **stays, "hoodie.datasource.write.table.type": "MERGE_ON_READ", HIVE_STYLE: hive_style}

    def rows(*given: tuple[Any, ...]) -> Any:
        texts = values(spark, "id string, city string, ts bigint, fare double", *given)
        return texts.selectExpr("id", f"cast(city as {kind}) city", "ts", "fare")

    def answer() -> tuple[Any, ...]:
        frame = load(spark, table_path)
        at_home = frame.where(f"city = cast('{home}' as {kind})").select("id")
        return frame.dtypes, sorted_rows(frame.selectExpr("id", "cast(city as string)", "fare")), sorted_rows(at_home)

    write(rows(("a", home, 1, 1.0), ("b", away, 1, 1.0), ("c", None, 1, 1.0)), table_path, {**options, OPERATION: "bulk_insert"})
    write(rows(("a", away, 2, 2.0), ("c", away, 2, 2.0)), table_path, {**options, OPERATION: "upsert"})
    before = answer()
    assert before[1:] == ([("a", str(home), 2.0), ("b", str(away), 1.0), ("c", None, 2.0)], [("a",)])
    monkeypatch.setattr(log_slices, "_LEAST_PARTITION_BYTES", 0)
    assert answer() == before
    assert penstock.Table.open(table_path, spark).compact()
    assert answer() == before


def test_many_partitions_with_logs_are_read_together(spark: Any, tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    cities = [f"c{n:02}" for n in range(20)]
    for city in cities:
        made.base(1, city, (f"k{city}", city, 1, 1.0))
        made.log(1, city, 1, made.rows(2, city, (f"k{city}", city, 2, 2.0)))
    made.instant(1).instant(2)
    assert snapshot(spark, str(made.path)) == [(f"k{city}", city, 2, 2.0) for city in cities]


def test_a_table_without_partitions_is_merged(spark: Any, tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", properties={"hoodie.table.partition.fields": ""})
    made.base(1, "", ("a", "x", 1, 1.0), group="f").instant(1)
    made.log(1, "", 1, made.rows(2, "", ("a", "y", 2, 2.0)), group="f").instant(2)
    assert snapshot(spark, str(made.path)) == [("a", "y", 2, 2.0)]


def test_a_log_whose_base_file_is_gone_is_an_error_and_not_a_smaller_table(spark: Any, tmp_path: Path) -> None:
    path = unpack_golden("trips_mor_avro_v6_trips_8i1u", tmp_path)
    (log,) = path.rglob(".*.log.1_*")
    next(p for p in log.parent.iterdir() if p.suffix == ".parquet").unlink()
    gone = r"base file of .*\.log\.1_0-26-85 is missing"
    with pytest.warns(RuntimeWarning, match=f"a query that reads partition .* fails: {gone}"):
        frame = load(spark, str(path))
    with pytest.raises(Exception, match=gone):
        frame.collect()
    with pytest.raises(CorruptFile, match=gone):
        load(spark, str(log.parent))


def test_a_damaged_log_header_fails_the_load_and_damaged_log_content_fails_the_query(spark: Any, tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.base(1, "x", ("a", "x", 1, 1.0)).instant(1).instant(2)
    whole, place = made.rows(2, "x", ("a", "x", 2, 2.0)), r"log file .*/x/\..*\.log\.1_0-0-0, block at byte 0: "
    made.log(1, "x", 1, whole[:17] + b"\x07" + whole[18:])
    with pytest.raises(Unsupported, match=f"{place}log format version 7"):
        load(spark, str(made.path))
    assert sorted_rows(load(spark, str(made.path), **READ_OPTIMIZED).select("id", "fare")) == [("a", 1.0)]
    made.log(1, "x", 1, whole[:21] + b"\x09" + whole[22:])
    with pytest.raises(Unsupported, match=f"{place}block type 9"):
        load(spark, str(made.path))
    (block,) = scan_blocks(whole)
    count = block.content_offset + 7  # the last byte of how many records there are
    made.log(1, "x", 1, whole[:count] + b"\x09" + whole[count + 1 :])
    frame = load(spark, str(made.path))
    with pytest.raises(Exception, match=rf"penstock\.errors\.CorruptFile: {place}"):
        frame.collect()
    made.log(1, "x", 1, whole[:-1])
    assert snapshot(spark, str(made.path)) == [("a", "x", 1, 1.0)], "a torn block is skipped"
