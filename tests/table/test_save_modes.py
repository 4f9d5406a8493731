"""enable and disable: which formats Penstock serves, which stay Spark's, and on which session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import OptionError
from tests.table.tables import BULK, SIX, load, snapshot, state_of, trips, write


@pytest.fixture(autouse=True)
def enabled_again(spark: Any) -> Iterator[None]:
    """Enables the session of the run again after each test."""
    yield
    penstock.enable(spark)


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("door") / "table")
    write(trips(spark, *SIX), path)
    return path


def no_such_format(spark: Any, table: str) -> None:
    """Expect Spark's error for an unknown format."""
    with pytest.raises(Exception, match="Failed to find the data source: hudi"):
        spark.read.format("hudi").load(table).count()
    with pytest.raises(Exception, match="Failed to find the data source: hudi"):
        trips(spark, SIX[0]).write.format("hudi").options(**BULK).mode("append").save(table)


def test_other_formats_are_sparks_own(spark: Any, tmp_path: Path) -> None:
    frame = trips(spark, *SIX)
    for name in ("parquet", "json", "orc"):
        path = str(tmp_path / name)
        frame.write.format(name).mode("overwrite").save(path)
        assert spark.read.format(name).load(path).count() == 6
        assert not (tmp_path / name / ".hoodie").exists()
    frame.write.partitionBy("city").parquet(str(tmp_path / "parts"))
    assert (tmp_path / "parts" / "city=paris").is_dir()
    assert spark.read.parquet(str(tmp_path / "parts")).where("city = 'paris'").count() == 2
    frame.write.option("header", True).csv(str(tmp_path / "csv"))
    assert spark.read.option("header", True).csv(str(tmp_path / "csv")).columns == ["id", "city", "ts", "fare"]
    frame.write.mode("overwrite").save(str(tmp_path / "default"))
    assert spark.read.load(str(tmp_path / "default")).count() == 6
    assert spark.read.schema("id string").json(str(tmp_path / "json")).columns == ["id"]


def test_readers_and_writers_are_still_sparks(spark: Any) -> None:
    reader, writer = spark.read, trips(spark, SIX[0]).write
    for one, name in ((reader, "DataFrameReader"), (writer, "DataFrameWriter")):
        base = type(one).__bases__[-1]
        assert base.__name__ == name
        assert base.__module__.startswith("pyspark.sql")
    assert reader.option("a", "b").format("json") is reader


def test_one_writer_may_change_its_format_between_saves(spark: Any, tmp_path: Path) -> None:
    writer = trips(spark, *SIX).write.format("hudi").options(**BULK)
    writer.format("json").mode("overwrite").save(str(tmp_path / "json"))
    assert spark.read.json(str(tmp_path / "json")).count() == 6
    writer.format("hudi").mode("append").save(str(tmp_path / "hudi"))
    assert (tmp_path / "hudi" / ".hoodie").is_dir()


def test_save_takes_everything_as_arguments(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    trips(spark, *SIX).write.save(path, format="hudi", mode="append", **BULK)
    assert snapshot(spark, path) == [*SIX]
    trips(spark, *SIX).write.format("hudi").mode("append").option("path", path).options(**BULK).save()
    assert load(spark, path).count() == 12


def test_a_path_may_be_a_pathlib_path(spark: Any, tmp_path: Path) -> None:
    trips(spark, *SIX).write.format("hudi").options(**BULK).save(tmp_path / "table")
    assert spark.read.format("hudi").load(tmp_path / "table").count() == 6
    assert spark.read.format("hudi").load([tmp_path / "table" / "paris"]).count() == 2


def test_options_may_be_numbers_booleans_and_nothing(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    writer = trips(spark, *SIX).write.format("hudi").options(**BULK)
    writer = writer.option("hoodie.populate.meta.fields", False).option("hoodie.parquet.max.file.size", 1_000_000)
    writer.option("HOODIE.DATABASE.NAME", "db").mode("append").save(path)
    text = Path(path, ".hoodie", "hoodie.properties").read_text()
    assert "hoodie.populate.meta.fields=false" in text
    assert "hoodie.database.name=db" in text


def test_enabling_twice_has_the_effect_of_enabling_once(spark: Any, table: str) -> None:
    assert penstock.enable(spark) is spark
    assert penstock.enable(spark) is spark
    assert load(spark, table).count() == 6


def test_disabling_returns_the_format_to_spark(spark: Any, table: str) -> None:
    penstock.disable(spark)
    no_such_format(spark, table)
    penstock.disable(spark)
    penstock.enable(spark)
    assert load(spark, table).count() == 6


def test_a_reader_created_before_enabling_uses_the_session_state_at_load_time(spark: Any, table: str) -> None:
    reader = spark.read.format("hudi")
    penstock.disable(spark)
    with pytest.raises(Exception, match="Failed to find the data source: hudi"):
        reader.load(table).count()


@pytest.fixture
def other(spark: Any, session_kind: str) -> Any:
    if session_kind == "connect":
        pytest.skip("a second session of one Connect server is a second client")
    return spark.newSession()


def test_another_session_is_not_enabled(spark: Any, other: Any, table: str) -> None:
    no_such_format(other, table)
    assert load(spark, table).count() == 6


def test_two_sessions_are_enabled_and_disabled_one_by_one(spark: Any, other: Any, table: str) -> None:
    penstock.enable(other)
    assert load(other, table).count() == 6
    assert load(spark, table).count() == 6
    penstock.disable(spark)
    assert load(other, table).count() == 6
    no_such_format(spark, table)
    penstock.disable(other)
    no_such_format(other, table)


def test_another_object_for_the_same_session_is_enabled_too(spark: Any, session_kind: str, table: str) -> None:
    if session_kind == "connect":
        pytest.skip("there is one object for a session of Connect")
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    assert active is not None
    assert load(active, table).count() == 6
    assert active.read.format("hudi").load(table).sparkSession.read.format("hudi").load(table).count() == 6


def test_session_returns_an_enabled_session(spark: Any, session_kind: str, table: str) -> None:
    if session_kind != "classic":
        pytest.skip("a session of this run would be a second one")
    penstock.disable(spark)
    found = penstock.session(app_name="again", spark_sql_shuffle_partitions=4)
    assert load(found, table).count() == 6


# --- files that are not the table's


@pytest.mark.parametrize("partitioned", [False, True], ids=["flat", "partitioned"])
@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
def test_a_table_is_not_created_among_parquet_files_unless_allowed(
    spark: Any, tmp_path: Path, mode: str, partitioned: bool
) -> None:
    folder = tmp_path / "plain"
    writer = trips(spark, *SIX).coalesce(1).write
    (writer.partitionBy("city") if partitioned else writer).parquet(str(folder))
    before = state_of(folder)
    with pytest.raises(
        OptionError, match=r"is not a Hudi table and has Parquet files, such as .*part-.*\.parquet, .*other\.files=allow"
    ):
        write(trips(spark, *SIX), str(folder), BULK, mode)
    with pytest.raises(OptionError, match=r"has Parquet files"):
        penstock.Table.create(str(folder), trips(spark, *SIX), name="t", record_key="id", spark=spark)
    assert state_of(folder) == before
    write(trips(spark, *SIX), str(folder), {**BULK, "penstock.other.files": "allow"}, mode)
    assert snapshot(spark, str(folder)) == [*SIX]
    assert before.items() <= state_of(folder).items()


def test_a_table_is_created_in_a_folder_with_other_files_than_parquet(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("trips")
    (tmp_path / "_SUCCESS").write_text("")
    write(trips(spark, *SIX), str(tmp_path))
    assert snapshot(spark, str(tmp_path)) == [*SIX]


def test_overwrite_names_the_files_that_are_not_the_tables_before_it_deletes_them(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "table"
    write(trips(spark, *SIX), str(path))
    write(trips(spark, *SIX), str(path), BULK, "overwrite")  # the files of a table are no obstacle
    (path / "notes").mkdir()
    for number in range(7):
        (path / "notes" / f"{number}.txt").write_text("x")
    (path / "berlin" / "extra.parquet").write_bytes(b"x")
    (path / "_SUCCESS").write_text("")
    before = state_of(path)
    with pytest.raises(OptionError) as caught:
        write(trips(spark, *SIX), str(path), BULK, "overwrite")
    assert str(caught.value) == (
        f"mode('overwrite') would delete 8 files in {path} that the table does not own: berlin/extra.parquet, notes/0.txt, "
        "notes/1.txt, notes/2.txt, notes/3.txt and 3 more; move them elsewhere, or set penstock.other.files=allow to delete them"
    )
    assert state_of(path) == before
    write(trips(spark, *SIX), str(path), {**BULK, "penstock.other.files": "allow"}, "overwrite")
    assert not (path / "notes").exists()
    assert snapshot(spark, str(path)) == [*SIX]


def test_foreign_parquet_files_are_reported_by_check_files(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "table"
    write(trips(spark, *SIX), str(path))
    assert str(penstock.Table.open(str(path)).check_files()) == (
        "Files of trips: all is well, no file is missing and the timeline explains every file"
    )
    for place in ("part-0.parquet", "berlin/part-0.parquet", "plain/part-0.parquet", "README.txt"):
        (path / place).parent.mkdir(exist_ok=True)
        (path / place).write_bytes(b"x")
    problems = penstock.Table.open(str(path)).check_files()
    assert [problem.path for problem in problems] == ["berlin/part-0.parquet", "part-0.parquet", "plain/part-0.parquet"]
    assert {problem.problem for problem in problems} == {
        "is foreign: it does not have the name of a Hudi file, and no query reads it"
    }
