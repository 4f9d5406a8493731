"""`readStream`, `writeTo` and SQL on Hudi tables end in one typed error, and other formats and statements are Spark's own."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import penstock
from penstock.errors import Unsupported
from penstock.spark import session
from penstock.spark.not_yet import refused_statement
from tests.table.tables import SIX, trips, values

MESSAGE_CHARACTERS_MAX = 300


def rate(spark: Any) -> Any:
    return spark.readStream.format("rate").load()


ATTEMPTS: dict[str, Any] = {
    "readStream": (lambda spark: spark.readStream.format("hudi").load("/tmp/t"), "readStream .*read_changes"),
    "readStream, load": (lambda spark: spark.readStream.load("/tmp/t", format="hudi"), "readStream .*read_changes"),
    "readStream, long name": (lambda spark: spark.readStream.format("org.apache.hudi"), "readStream .*read_changes"),
    "catalog.createTable": (lambda spark: spark.catalog.createTable("trips_5", source="hudi"), "createTable .*Table.create"),
    "catalog.createTable by place": (lambda spark: spark.catalog.createTable("trips_6", "/tmp/t", "HUDI"), "createTable"),
    "writeTo": (lambda spark: trips(spark, *SIX).writeTo("db.trips").using("hudi").create(), "writeTo.*df.write"),
}
STATEMENTS = {
    "CREATE TABLE": (
        "CREATE TABLE trips_1 (id STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id')",
        "USING hudi .*Table.create",
    ),
    "CREATE TABLE with a place": ("create table if not exists trips_2 using HUDI location '/tmp/nowhere'", "USING hudi"),
    "CREATE TABLE, long name": ("create table trips_3 (id string) using `org.apache.hudi`", "USING hudi"),
    "CREATE VIEW": ("create temporary view trips_4 using hudi options (path '/tmp/nowhere')", "USING hudi"),
    "CALL": ("CALL show_commits(table => 'trips', limit => 10)", "CALL .*penstock.Table"),
    "CALL system": ("call system.run_compaction(op => 'run', path => '/tmp/t')", "CALL .*penstock.Table"),
    "select": ("select * from hudi.`/tmp/nowhere/trips`", "hudi.`path` .*createOrReplaceTempView"),
    "select in a comment's shadow": ("-- all trips\nSELECT id FROM hudi . `/tmp/nowhere/trips` WHERE ts > 1", "hudi.`path`"),
    "merge": ("merge into hudi.`/tmp/t` t using (select 1 as id) s on t.id = s.id when matched then delete", "hudi.`path`"),
}


@pytest.mark.everywhere
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_stream_reader_or_writer_of_hudi_is_one_typed_error(spark: Any, attempt: str) -> None:
    run, says = ATTEMPTS[attempt]
    with pytest.raises(Unsupported, match=says) as raised:
        run(spark)
    assert len(str(raised.value)) < MESSAGE_CHARACTERS_MAX


@pytest.mark.everywhere
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_on_a_hudi_table_is_one_typed_error(spark: Any, statement: str) -> None:
    text, says = STATEMENTS[statement]
    with pytest.raises(Unsupported, match=says) as raised:
        spark.sql(text).collect()
    assert len(str(raised.value)) < MESSAGE_CHARACTERS_MAX
    assert raised.value.__suppress_context__, "the Java stack is shown"


@pytest.mark.parametrize(
    "text",
    [
        "select 'using hudi' as said, \"from hudi.`x`\" as more",
        "select 1 as said /* create table t using hudi */ -- hudi.`path`",
        "select hudi.`id` as said from values ('a') as hudi(id)",
    ],
)
def test_statements_that_only_mention_hudi_go_to_spark(spark: Any, text: str) -> None:
    assert len(spark.sql(text).collect()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "select * from no_such_table -- using hudi",
        "create table t (a int) using no_such_format comment 'using hudi'",
        "selec 1",
        "create table t (a no_such_type) using hudi",
        "create table a.b.c.t (a int) using hudi",
        "select * from hudi.`/tmp/t` wher e ts > 1",
        "select * from no_such_table, hudi.`/tmp/t`",
    ],
)
def test_an_error_of_another_statement_stays_sparks(spark: Any, text: str) -> None:
    with pytest.raises(Exception) as raised:
        spark.sql(text).collect()
    assert not isinstance(raised.value, Unsupported)


def test_a_call_that_fails_for_another_reason_keeps_sparks_error(spark: Any) -> None:
    """Procedures of other catalogs, such as Iceberg's, have errors of their own; so has a CALL that PySpark 4 cannot parse."""
    for reason in ("Cannot roll back to snapshot 5, it is no ancestor", "[PARSE_SYNTAX_ERROR] Syntax error at or near ')'"):
        assert refused_statement("CALL system.rollback_to_snapshot('db.t', 5)", PySparkException(reason)) is None
    for reason in ("Syntax error at or near 'CALL'", "[UNRESOLVED_ROUTINE] Cannot resolve", "Procedure system.x not found"):
        assert refused_statement("CALL system.x('db.t')", PySparkException(reason)) is not None


def test_other_tables_of_the_catalog_are_sparks(spark: Any, tmp_path: Path) -> None:
    rows = trips(spark, *SIX)
    rows.write.parquet(str(tmp_path / "plain"))
    spark.catalog.createTable("plain_trips", str(tmp_path / "plain"), "parquet")
    try:
        assert spark.catalog.tableExists("plain_trips")
        assert spark.table("plain_trips").count() == len(SIX)
    finally:
        spark.sql("drop table plain_trips")


def test_a_stream_of_a_table_by_name_is_sparks(spark: Any) -> None:
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND") as raised:
        _ = spark.readStream.table("hudi_trips").schema
    assert not isinstance(raised.value, Unsupported)


def test_arguments_of_sql_arrive(spark: Any) -> None:
    assert spark.sql("select :a as a", args={"a": 5}).first().a == 5
    assert spark.sql(sqlQuery="select {a} as a", a=6).first().a == 6
    frame = values(spark, "id string", ("x",))
    assert spark.sql("select id from {rows}", rows=frame).first().id == "x"


def test_other_formats_of_streams_and_writers_are_sparks(spark: Any, tmp_path: Path) -> None:
    rows = rate(spark)
    assert rows.isStreaming
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.stop()
    with pytest.raises(PySparkException) as raised:
        trips(spark, *SIX).writeTo("no_catalog.db.trips").using("parquet").create()
    assert not isinstance(raised.value, Unsupported)


def test_disable_puts_sparks_own_methods_back(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_ENABLED", weakref.WeakSet([spark]))  # without the sessions of other tests
    names = {"sql", "readStream"}
    kinds = [kind for kind in type(spark).__mro__ if names <= vars(kind).keys()]
    replaced = [vars(kind)["sql"] for kind in kinds]
    penstock.disable(spark)
    try:
        assert [vars(kind)["sql"] for kind in kinds] != replaced
        with pytest.raises(Exception) as raised:
            spark.sql("select * from hudi.`/tmp/nowhere/trips`").collect()
        assert not isinstance(raised.value, Unsupported)
    finally:
        penstock.enable(spark)
