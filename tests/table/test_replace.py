"""Operations that replace file groups: insert_overwrite, insert_overwrite_table, delete_partition; on both kinds of table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import OptionError, TableNotFound, WriteConflict
from tests.kit.templates import Templates
from tests.table.tables import BULK, OPERATION, SIX, TRIPS, base_files, load, snapshot, state_of, timeline, trips, write
from tests.table.upserts import UPSERT

KINDS = {
    "copy-on-write": {},
    "merge-on-read": {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"},
}
TO_DELETE = "hoodie.datasource.write.partitions.to.delete"
STATIC = "hoodie.static.overwrite.partition.paths"


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> dict[str, str]:
    """The options of a kind of table."""
    return KINDS[request.param]


@pytest.fixture
def table(spark: Any, table_path: str, kind: dict[str, str], templates: Templates) -> str:
    """Three partitions with two rows each, one of them updated."""

    def make(path: str) -> None:
        write(trips(spark, *SIX).coalesce(1), path, {**BULK, **kind})
        write(trips(spark, ("a", "berlin", 7, 7.5)), path, {**UPSERT, **kind})

    return templates.copy(f"one-row-updated-{len(kind)}", make, table_path)


def operation_options(operation: str, **more: str) -> dict[str, str]:
    return {**TRIPS, OPERATION: operation, **more}


def last_commit(path: str) -> tuple[str, dict[str, Any]]:
    name = [n for n in timeline(path) if n.endswith("commit")][-1]
    return name.split(".")[1], json.loads((Path(path) / ".hoodie" / name).read_bytes())


def test_insert_overwrite_replaces_the_partitions_of_its_rows(spark: Any, table: str) -> None:
    before = {p.name for p in base_files(table)}
    write(trips(spark, ("n", "berlin", 1, 0.5), ("o", "rome", 1, 0.25)), table, operation_options("insert_overwrite"))
    assert snapshot(spark, table) == sorted([("n", "berlin", 1, 0.5), ("o", "rome", 1, 0.25), *SIX[2:]], key=repr)
    action, commit = last_commit(table)
    assert (action, commit["operationType"]) == ("replacecommit", "INSERT_OVERWRITE")
    assert {path: len(ids) for path, ids in commit["partitionToReplaceFileIds"].items()} == {"berlin": 1, "rome": 0}
    assert before <= {p.name for p in base_files(table)}  # the old files are still there
    written = {p.parent.name for p in base_files(table) if p.name not in before}
    assert written == {"berlin", "rome"}, "small files elsewhere take no rows"
    then = timeline(table)[0].split(".")[0]
    assert snapshot(spark, table, **{"as.of.instant": then}) == sorted(SIX, key=repr)


def test_upserts_merge_with_rows_that_replaced_others(spark: Any, table: str, kind: dict[str, str]) -> None:
    write(trips(spark, ("a", "berlin", 1, 0.5)), table, operation_options("insert_overwrite"))
    write(trips(spark, ("a", "berlin", 9, 9.5), ("b", "berlin", 9, 9.5)), table, {**UPSERT, **kind})
    assert [row for row in snapshot(spark, table) if row[1] == "berlin"] == [("a", "berlin", 9, 9.5), ("b", "berlin", 9, 9.5)]


def test_a_static_overwrite_replaces_the_partitions_it_names(spark: Any, table: str) -> None:
    before = state_of(table)
    with pytest.raises(OptionError, match="does not name partition 'berlin'"):
        write(trips(spark, ("n", "berlin", 1, 0.5)), table, operation_options("insert_overwrite", **{STATIC: "paris"}))
    assert state_of(table) == before
    write(trips(spark, ("n", "berlin", 1, 0.5)), table, operation_options("insert_overwrite", **{STATIC: "paris,berlin"}))
    assert snapshot(spark, table) == sorted([("n", "berlin", 1, 0.5), *SIX[4:]], key=repr)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_insert_overwrite_table_replaces_every_row_and_keeps_the_table(spark: Any, table: str, mode: str) -> None:
    instants = len(timeline(table))
    write(trips(spark, ("n", "rome", 1, 0.5)), table, operation_options("insert_overwrite_table"), mode)
    assert snapshot(spark, table) == [("n", "rome", 1, 0.5)]
    assert len(timeline(table)) == instants + 3
    write(trips(spark), table, operation_options("insert_overwrite_table"), mode)
    assert snapshot(spark, table) == []


def test_delete_partition_deletes_named_and_matching_partitions(spark: Any, table: str) -> None:
    write(spark.range(0), table, operation_options("delete_partition", **{TO_DELETE: "p*,nowhere"}))
    assert {row[1] for row in snapshot(spark, table)} == {"berlin", "tokyo"}
    action, commit = last_commit(table)
    assert (action, commit["operationType"], commit["partitionToWriteStats"]) == ("replacecommit", "DELETE_PARTITION", {})
    assert {path: len(ids) for path, ids in commit["partitionToReplaceFileIds"].items()} == {"nowhere": 0, "paris": 1}
    write(trips(spark, ("x", "tokyo", 1, 1.0)).select("city"), table, operation_options("delete_partition"))
    assert {row[1] for row in snapshot(spark, table)} == {"berlin"}
    write(trips(spark, ("c", "paris", 1, 1.0)), table, UPSERT)
    assert [row for row in snapshot(spark, table) if row[1] == "paris"] == [("c", "paris", 1, 1.0)]


def test_a_partition_that_a_plan_names_is_not_deleted(spark: Any, table: str, kind: dict[str, str]) -> None:
    if not kind:
        pytest.skip("copy-on-write tables are not compacted")
    plan = penstock.Table.open(table).schedule_compaction()
    before = state_of(table)
    with pytest.raises(WriteConflict, match=f"pending table service actions: {plan.instant}.*'berlin'"):
        write(spark.range(0), table, operation_options("delete_partition", **{TO_DELETE: "*"}))
    assert state_of(table) == before
    write(spark.range(0), table, operation_options("delete_partition", **{TO_DELETE: "paris"}))
    assert {row[1] for row in snapshot(spark, table)} == {"berlin", "tokyo"}


def test_an_overwrite_that_fails_leaves_the_table_as_it_was(spark: Any, table: str) -> None:
    before = state_of(table)
    with pytest.raises(Exception, match="record key"):
        write(trips(spark, (None, "berlin", 1, 1.0)), table, operation_options("insert_overwrite_table"))
    assert state_of(table) == before


def test_delete_partition_needs_an_existing_table_and_the_mode_append(spark: Any, table_path: str) -> None:
    with pytest.raises(TableNotFound, match="does not exist"):
        write(spark.range(0), table_path, operation_options("delete_partition", **{TO_DELETE: "x"}))
    with pytest.raises(OptionError, match="Append is the only save mode applicable for DELETE_PARTITION"):
        write(spark.range(0), table_path, operation_options("delete_partition", **{TO_DELETE: "x"}), "overwrite")


def test_an_overwrite_may_be_the_first_write(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX[:1]), table_path, operation_options("insert_overwrite"))
    assert load(spark, table_path).count() == 1


def test_buckets_are_overwritten_by_buckets(spark: Any, table_path: str, kind: dict[str, str]) -> None:
    options = {**kind, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    write(trips(spark, *SIX), table_path, {**UPSERT, **options})
    new = (("a", "berlin", 1, 0.5), ("x", "berlin", 1, 0.5), ("y", "berlin", 1, 0.5))
    write(trips(spark, *new), table_path, {**operation_options("insert_overwrite"), **options})
    assert snapshot(spark, table_path) == sorted([*new, *SIX[2:]], key=repr)
    write(trips(spark, ("x", "berlin", 2, 2.5)), table_path, {**UPSERT, **options})
    assert snapshot(spark, table_path) == sorted([new[0], ("x", "berlin", 2, 2.5), new[2], *SIX[2:]], key=repr)
