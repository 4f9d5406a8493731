"""Upserts of several rows of a key without combining them: logs and new file groups take all, base files merge the last."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from tests.table.tables import OPERATION, TRIPS, Trip, base_files, commits, snapshot, stats, trips, write

UNCOMBINED = {**TRIPS, OPERATION: "upsert", "hoodie.combine.before.upsert": "false", "hoodie.compact.inline": "false"}
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
INDEX = "hoodie.index.type"
SMALL = "hoodie.parquet.small.file.limit"
TASKS = {"penstock.small.batch.rows": 0}

FIRST: list[Trip] = [("a", "x", 2, 2.0), ("a", "x", 1, 1.0), ("b", "x", 1, 1.0)]


def upsert(spark: Any, path: str, rows: list[Trip], **options: Any) -> None:
    write(trips(spark, *rows).coalesce(1), path, {**UNCOMBINED, **options})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BUCKET"])
@pytest.mark.parametrize("where", [{}, TASKS], ids=["driver", "tasks"])
def test_a_new_file_group_takes_all_rows_of_a_key(
    spark: Any, table_path: str, kind: str, index: str, where: dict[str, Any]
) -> None:
    options = {"hoodie.datasource.write.table.type": kind, INDEX: index, "hoodie.bucket.index.num.buckets": 1, SMALL: 0, **where}
    upsert(spark, table_path, FIRST, **options)
    assert snapshot(spark, table_path) == sorted(FIRST, key=repr)
    assert [stat["numInserts"] for stat in stats(commits(table_path)[-1])] == [3]
    more: list[Trip] = [("m", "y", 2, 2.0), ("m", "y", 1, 1.0), ("b", "x", 3, 3.0), ("b", "x", 2, 2.0)]
    upsert(spark, table_path, more, **options)
    found = snapshot(spark, table_path)
    assert [row for row in found if row[0] == "m"] == [("m", "y", 1, 1.0), ("m", "y", 2, 2.0)]
    assert len([row for row in found if row[0] == "b"]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_of_a_partition_with_several_file_groups_are_all_written(spark: Any, table_path: str, kind: str) -> None:
    options = {"hoodie.datasource.write.table.type": kind, SMALL: 0}
    for key in "st":
        upsert(spark, table_path, [(key, "x", 1, 1.0)], **options)
    assert len(base_files(table_path)) == 2
    upsert(spark, table_path, [*FIRST, ("s", "x", 2, 2.0), ("s", "x", 2, 3.0)], **options)
    assert snapshot(spark, table_path) == sorted([*FIRST, ("s", "x", 2, 3.0), ("t", "x", 1, 1.0)], key=repr)


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_file_takes_the_last_row_of_a_key(spark: Any, table_path: str, kind: str) -> None:
    options = {"hoodie.datasource.write.table.type": kind}
    upsert(spark, table_path, [("s", "x", 1, 1.0)], **options)
    upsert(spark, table_path, FIRST, **options)
    assert snapshot(spark, table_path) == [("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("s", "x", 1, 1.0)]


def test_an_option_keeps_only_the_last_row(spark: Any, table_path: str) -> None:
    upsert(spark, table_path, FIRST, **{"penstock.upsert.last.row.wins": "true"})
    assert snapshot(spark, table_path) == [("a", "x", 1, 1.0), ("b", "x", 1, 1.0)]


def test_a_table_without_ordering_column_keeps_the_last_row(spark: Any, table_path: str) -> None:
    table = penstock.Table.create(table_path, "id string, v int", name="t", record_key="id", spark=spark)
    table.upsert(spark.sql("select 'a' id, 1 v union all select 'a', 2").coalesce(1))
    assert snapshot(spark, table_path) == [("a", 2)]


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BUCKET", "INMEMORY"])
@pytest.mark.parametrize("where", [{}, TASKS], ids=["driver", "tasks"])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_log_takes_all_rows_of_a_key(spark: Any, table_path: str, index: str, where: dict[str, Any], groups: int) -> None:
    options = {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        INDEX: index,
        "hoodie.bucket.index.num.buckets": groups,
        SMALL: 0,
        **where,
    }
    for key in "ab"[:groups]:
        upsert(spark, table_path, [(key, "x", 1, 1.0)], **options)
    upsert(spark, table_path, [("a", "x", 3, 3.0), ("a", "x", 2, 2.0)], **options)
    assert ("a", "x", 3, 3.0) in snapshot(spark, table_path)
    assert len(snapshot(spark, table_path)) == groups
    assert sum(stat["numWrites"] for stat in stats(commits(table_path)[-1])) == 2
    upsert(spark, table_path, [("a", "x", 5, 5.0), ("a", "x", 4, 4.0)], **{**options, "penstock.upsert.last.row.wins": "true"})
    assert ("a", "x", 4, 4.0) in snapshot(spark, table_path)
    assert sum(stat["numWrites"] for stat in stats(commits(table_path)[-1])) == 1
