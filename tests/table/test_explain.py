"""`explain_write`: what a write would do, without doing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import OptionError
from penstock.write.explain.write_plan import explain_write

OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}


def trips(spark: SparkSession, *rows: tuple[int, str, int]) -> DataFrame:
    return spark.createDataFrame([(str(i), city, ts) for i, city, ts in rows], "id string, city string, ts long")


def save(frame: DataFrame, path: str, operation: str, **more: Any) -> None:
    options = {**OPTIONS, "hoodie.datasource.write.operation": operation, **more}
    frame.write.format("hudi").options(**options).mode("append").save(path)


def tree(path: str) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in Path(path).rglob("*") if p.is_file()}


def test_an_upsert_is_explained_by_file_group_and_nothing_is_written(spark: SparkSession, table_path: str) -> None:
    path = table_path
    save(trips(spark, (1, "berlin", 1), (2, "berlin", 1), (3, "tokyo", 1)).coalesce(1), path, "bulk_insert")
    before = tree(path)
    batch = trips(spark, (1, "berlin", 2), (9, "berlin", 2), (8, "paris", 2))
    plan = explain_write(batch, path, {**OPTIONS, "hoodie.datasource.write.operation": "upsert"})
    assert tree(path) == before
    assert plan.rows_incoming == 3
    seen = {(g.partition_path, g.file_id is None): (g.rows_changed, g.rows_new) for g in plan.groups}
    assert seen == {("berlin", False): (1, 1), ("paris", True): (0, 1)}
    berlin = next(g for g in plan.groups if g.partition_path == "berlin")
    assert berlin.bytes_rewritten == plan.bytes_rewritten > 0
    assert plan.write_amplification > 1
    assert "berlin" in str(plan)
    assert "write amplification" in str(plan)


def test_a_write_does_what_its_plan_said(spark: SparkSession, table_path: str) -> None:
    path = table_path
    save(trips(spark, *((i, "berlin", 1) for i in range(20))).coalesce(1), path, "bulk_insert")
    batch = trips(spark, *((i, "berlin", 2) for i in range(15, 25)))
    plan = explain_write(batch, path, {**OPTIONS, "hoodie.datasource.write.operation": "upsert"})
    save(batch, path, "upsert")
    rows = spark.read.format("hudi").load(path)
    assert sum(g.rows_changed for g in plan.groups) == rows.where("ts = 2 and cast(id as int) < 20").count() == 5
    assert sum(g.rows_new for g in plan.groups) == rows.where("cast(id as int) >= 20").count() == 5


def test_an_insert_into_a_small_file_is_explained_without_a_lookup(spark: SparkSession, table_path: str) -> None:
    path = table_path
    save(trips(spark, (1, "berlin", 1)), path, "bulk_insert")
    plan = explain_write(trips(spark, (1, "berlin", 2)), path, {**OPTIONS, "hoodie.datasource.write.operation": "insert"})
    assert [(g.rows_changed, g.rows_new) for g in plan.groups] == [(0, 1)]
    assert plan.groups[0].file_id is not None


def test_a_write_to_a_missing_table_is_explained_without_creating_it(spark: SparkSession, table_path: str) -> None:
    plan = explain_write(trips(spark, (1, "berlin", 1)), table_path, {**OPTIONS, "hoodie.datasource.write.operation": "upsert"})
    assert [(g.file_id, g.rows_new) for g in plan.groups] == [(None, 1)]
    assert not (Path(table_path) / ".hoodie").exists()


def test_a_bulk_insert_has_nothing_to_explain(spark: SparkSession, table_path: str) -> None:
    with pytest.raises(OptionError, match="bulk_insert"):
        explain_write(trips(spark, (1, "berlin", 1)), table_path, {**OPTIONS, "hoodie.datasource.write.operation": "bulk_insert"})
