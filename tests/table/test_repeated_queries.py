"""A table of many files that has not changed is not listed again."""

from typing import Any
from unittest.mock import patch

import pytest

import penstock
from penstock.door import plan_again as door
from penstock.read import frame_cache
from tests.table.tables import BULK, SIX, trips, write

PARTITIONS = 120


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> penstock.Table:
    path = str(tmp_path_factory.mktemp("recent") / "t")
    made = penstock.Table.create(
        path, "id string, part string, n int", name="t", record_key="id", partition_by="part", spark=spark
    )
    made.bulk_insert(rows(spark, 0))
    return made


def rows(spark: Any, n: int) -> Any:
    return spark.range(PARTITIONS).selectExpr("cast(id as string) id", "concat('p', id) part", f"cast({n} as int) n")


def load(spark: Any, table: penstock.Table, **options: Any) -> Any:
    return spark.read.format("hudi").options(**options).load(table.path)


def test_a_second_query_lists_nothing_and_a_write_is_seen_by_the_next(spark: Any, table: penstock.Table) -> None:
    with patch.object(door, "plan_query", wraps=door.plan_query) as planned:
        first = load(spark, table)
        again = load(spark, table)
        assert planned.call_count == 1
        assert again.where("part = 'p7'").collect() == first.where("part = 'p7'").collect()
        assert len(again.where("part = 'p7'").inputFiles()) == len(first.where("part = 'p7'").inputFiles())
        before = table.history()[0].instant
        table.upsert(rows(spark, 1).where("id < 3"))
        assert load(spark, table).where("n = 1").count() == 3
        assert planned.call_count == 2
        assert load(spark, table, **{"as.of.instant": before}).where("n = 1").count() == 0
        assert table.read(partitions=["p7"]).count() == 1
        assert planned.call_count == 4


def test_two_loads_of_one_table_can_be_joined(spark: Any, table: penstock.Table) -> None:
    one, other = load(spark, table), load(spark, table)
    pairs = one.join(other, one["n"] == other["n"] + 0).where(one["id"] != other["id"])
    same = one.join(other, one["id"] == other["id"])
    assert same.count() == PARTITIONS
    assert pairs.count() > 0


def test_tables_of_few_files_are_planned_each_time_and_queries_with_other_options_are_planned_too(
    spark: Any, table: penstock.Table, tmp_path: Any
) -> None:
    small = str(tmp_path / "small")
    write(trips(spark, *SIX), small, BULK)
    with patch.object(door, "plan_query", wraps=door.plan_query) as planned:
        for _ in range(2):
            assert spark.read.format("hudi").load(small).count() == len(SIX)
        assert planned.call_count == 2
        load(spark, table, **{"hoodie.datasource.query.type": "read_optimized"})
        load(spark, table)
        assert planned.call_count >= 3


def test_only_the_newest_frames_are_cached(spark: Any, table: penstock.Table) -> None:
    frame_cache._frames.clear()
    with patch.object(frame_cache, "_MOST_FRAMES", 1):
        load(spark, table)
        load(spark, table, **{"hoodie.datasource.query.type": "read_optimized"})
        assert len(frame_cache._frames) == 1
