"""Incoming rows that are a read of plain Parquet files are read by the workers; all other rows go through Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from penstock.errors import CorruptFile, RecordKeyError
from penstock.write.rows import input_files as incoming
from penstock.write.rows.input_files import InputFiles, find_input_files
from tests.table.tables import BULK, INSERT, KEY, OPERATION, TRIPS, load, sorted_rows, state_of, timeline, write
from tests.table.upserts import IN_TASKS, ON_DRIVER, UPSERT

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
OFF = {"penstock.direct.input": "false"}
DELETE = {**TRIPS, OPERATION: "delete"}
WHERE = pytest.mark.parametrize("where", [ON_DRIVER, IN_TASKS], ids=["driver", "tasks"])


def rows(*ids: str, ts: int = 1) -> pa.Table:
    """Return trips with these ids, in two cities in turn."""
    cities = [("basel", "chur")[i % 2] for i in range(len(ids))]
    return pa.table([list(ids), cities, [ts] * len(ids), [float(i) for i in range(len(ids))]], schema=SCHEMA)


def put(folder: Path, *tables: pa.Table, **options: Any) -> str:
    """Write each table as a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, table in enumerate(tables):
        pq.write_table(table, folder / f"part-{i}.parquet", **options)
    return str(folder)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[InputFiles | None]:
    """How each write of the test read its rows: the files, or None for Spark."""
    found: list[InputFiles | None] = []
    usual = incoming.run_over_incoming

    def note(spark: Any, rows: incoming.Incoming, kernel: Any, returns: Any) -> list[Any]:
        found.append(rows.files)
        return usual(spark, rows, kernel, returns)

    monkeypatch.setattr("penstock.write.rows.staging.run_over_incoming", note)
    monkeypatch.setattr("penstock.write.tasks.run_tasks.run_over_incoming", note)
    return found


@WHERE
@pytest.mark.parametrize("first", [BULK, INSERT, UPSERT], ids=["bulk_insert", "insert", "upsert"])
def test_a_table_is_the_same_whether_workers_or_spark_read_the_files(
    spark: Any, tmp_path: Path, taken: list[InputFiles | None], first: dict[str, str], where: dict[str, str]
) -> None:
    made = put(tmp_path / "new", rows("a", "b", "c"), rows("d", "e"))
    changed = put(tmp_path / "changed", rows("x", "b", ts=2))
    gone = put(tmp_path / "gone", rows("a"))
    contents = []
    for name, way in (("direct", {}), ("spark", OFF)):
        path = str(tmp_path / name)
        write(spark.read.parquet(made), path, {**first, **where, **way})
        write(spark.read.format("parquet").load(changed), path, {**UPSERT, **where, **way}, "append")
        write(spark.read.parquet(gone), path, {**DELETE, **where, **way}, "append")
        contents.append(
            sorted_rows(load(spark, path).select("id", "city", "ts", "fare", "_hoodie_record_key", "_hoodie_partition_path"))
        )
    assert contents[0] == contents[1]
    assert [row[0] for row in contents[0]] == ["b", "c", "d", "e", "x"]
    assert [files is not None for files in taken] == [True, True, True, False, False, False]


@pytest.mark.parametrize(
    "derive",
    [
        lambda frame: frame.where("id <> 'b'"),
        lambda frame: frame.select("id", "city", "ts", "fare").limit(2),
        lambda frame: frame.withColumn("fare", F.col("fare") + 1),
        lambda frame: frame.alias("other"),
    ],
    ids=["where", "limit", "withColumn", "alias"],
)
def test_a_query_over_a_read_goes_through_spark(
    spark: Any, tmp_path: Path, taken: list[InputFiles | None], derive: Callable[[Any], Any]
) -> None:
    frame = derive(spark.read.parquet(put(tmp_path / "in", rows("a", "b", "c"))))
    write(frame, str(tmp_path / "t"), BULK)
    assert taken == [None]
    assert sorted_rows(load(spark, str(tmp_path / "t")).select("id", "fare")) == sorted_rows(frame.select("id", "fare"))


def with_column(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


@pytest.mark.parametrize(
    ("second", "footer"),
    [
        (rows("b").drop_columns(["fare"]), {}),
        (with_column(rows("b"), "ts", pa.array([2], pa.int32())), {}),
        (with_column(rows("b"), "fare", pa.array([2.0], pa.float32())), {}),
        (rows("b").rename_columns(["id", "City", "ts", "fare"]), {}),
        (rows("b"), {"org.apache.spark.version": "2.4.8"}),
        (rows("b"), {"org.apache.spark.legacyDateTime": ""}),
    ],
    ids=["a column less", "a narrower type", "a coarser type", "another case", "an old Spark", "an old calendar"],
)
def test_one_file_with_another_schema_or_footer_sends_all_files_through_spark(
    spark: Any, tmp_path: Path, second: pa.Table, footer: dict[str, str]
) -> None:
    folder = put(tmp_path / "in", rows("a"))
    assert find_input_files(spark.read.parquet(folder), SCHEMA) is not None
    with pq.ParquetWriter(tmp_path / "in" / "part-9.parquet", second.schema) as file:
        file.write_table(second)
        file.add_key_value_metadata(footer)
    assert find_input_files(spark.read.parquet(folder), SCHEMA) is None


def test_old_timestamps_go_through_spark(spark: Any, tmp_path: Path) -> None:
    when = pa.table({"id": ["a"], "at": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)], pa.timestamp("us", "UTC"))})
    expected = when.schema
    plain = put(tmp_path / "plain", when)
    old = put(tmp_path / "old", when, use_deprecated_int96_timestamps=True, store_schema=False)
    assert find_input_files(spark.read.parquet(plain), expected) is not None
    assert find_input_files(spark.read.parquet(old), expected) is None


def test_a_read_with_partition_columns_goes_through_spark(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in" / "city=zug", rows("a"))
    frame = spark.read.parquet(str(tmp_path / "in"))
    assert find_input_files(frame, SCHEMA) is None
    write(frame, str(tmp_path / "t"), BULK)
    assert sorted_rows(load(spark, str(tmp_path / "t")).select("id", "city")) == [("a", "zug")]


@pytest.mark.parametrize(
    "read",
    [
        lambda spark, path: spark.read.option("mergeSchema", "true").parquet(path),
        lambda spark, path: spark.read.parquet(path, mergeSchema=True),
        lambda spark, path: spark.read.schema("id string").parquet(path),
        lambda spark, path: spark.read.parquet(path).cache(),
        lambda spark, path: spark.read.load(path, format="parquet", schema="id string"),
    ],
    ids=["option", "argument", "schema", "cache", "load"],
)
def test_a_read_with_options_a_schema_or_a_cache_goes_through_spark(
    spark: Any, tmp_path: Path, read: Callable[[Any, str], Any]
) -> None:
    frame = read(spark, put(tmp_path / "in", rows("a")))
    try:
        assert find_input_files(frame, pa.schema([("id", pa.string())])) is None
    finally:
        frame.unpersist()


def test_a_read_that_ignores_corrupt_files_goes_through_spark(spark: Any, tmp_path: Path) -> None:
    folder = put(tmp_path / "in", rows("a"))
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        assert find_input_files(spark.read.parquet(folder), SCHEMA) is None
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_files_with_blanks_and_signs_in_their_names_are_read(spark: Any, tmp_path: Path) -> None:
    folder = put(tmp_path / "in put %41 ü", rows("a", "b"))
    files = find_input_files(spark.read.parquet(folder), SCHEMA)
    assert files is not None
    assert files.rows == 2


def test_a_large_file_is_cut_between_row_groups_and_small_ones_come_together(spark: Any, tmp_path: Path) -> None:
    ids = [f"k{i:05}" for i in range(4_000)]
    large = put(tmp_path / "large", rows(*ids), row_group_size=1_000, compression="none", use_dictionary=False)
    size = (tmp_path / "large" / "part-0.parquet").stat().st_size
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(size // 2))
    spark.conf.set("spark.sql.files.openCostInBytes", "1")
    try:
        cut = find_input_files(spark.read.parquet(large), SCHEMA)
        small = find_input_files(spark.read.parquet(put(tmp_path / "small", *(rows(i) for i in ids[:6]))), SCHEMA)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")
    assert cut is not None
    assert small is not None
    assert sorted(group for task in cut.tasks for part in task for group in part.row_groups) == [0, 1, 2, 3]
    assert len(cut.tasks) >= 2
    assert len(small.tasks) < 6
    assert small.rows == 6


def test_a_null_key_in_a_file_raises_the_usual_error(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write(spark.read.parquet(put(tmp_path / "good", rows("a"))), path, BULK)
    before = state_of(path)
    bad = with_column(rows("a", "b"), "id", pa.array(["c", None], pa.string()))
    with pytest.raises(RecordKeyError, match=f'"{TRIPS[KEY]}" cannot be null or empty'):
        write(spark.read.parquet(put(tmp_path / "bad", bad)), path, UPSERT, "append")
    assert state_of(path) == before


def test_a_file_that_is_damaged_after_its_footer_was_read_raises_an_error(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write(spark.read.parquet(put(tmp_path / "good", rows("a"))), path, BULK)
    before = timeline(path)
    folder = put(tmp_path / "bad", rows("b", "c"), compression="gzip")
    frame = spark.read.parquet(folder)
    file = Path(folder, "part-0.parquet")
    data = bytearray(file.read_bytes())
    data[8:60] = b"\0" * 52
    file.write_bytes(bytes(data))
    with pytest.raises(CorruptFile, match=r"input file .*part-0.parquet cannot be read"):
        write(frame, path, UPSERT, "append")
    assert timeline(path) == before
