"""delete: keys are removed from the newest base files, whatever their ordering value; unknown keys change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.table.tables import INSERT, SIX, base_files, commits, snapshot, state_of, timeline, trips, values, write
from tests.table.upserts import (
    DEFAULT_PAYLOAD,
    DELETE,
    IN_TASKS,
    MANY_GROUPS,
    ON_DRIVER,
    PAYLOAD,
    UPSERT,
    columns,
    counts,
    inflight,
)

BOTH = pytest.mark.parametrize("where", [ON_DRIVER, IN_TASKS], ids=["driver", "tasks"])


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six trips in three cities. Read only: copy it to write to it."""
    path = str(tmp_path_factory.mktemp("made") / "table")
    write(trips(spark, *SIX), path, INSERT)
    return path


@BOTH
def test_known_keys_are_deleted_and_unknown_ones_ignored(spark: Any, table: str, where: dict[str, Any]) -> None:
    keys = values(
        spark, "id string, city string", ("a", "berlin"), ("c", "paris"), ("c", "berlin"), ("q", "tokyo"), ("q", "rome")
    )
    schema = commits(table)[0]["extraMetadata"]["schema"]
    write(keys, table, {**DELETE, **where})
    assert columns(table, "id") == [("b",), ("d",), ("e",), ("f",)]
    commit = commits(table)[-1]
    assert counts(commit) == [("berlin", 1, 0, 1, 0), ("paris", 1, 0, 1, 0)]
    assert (commit["operationType"], commit["extraMetadata"]["schema"]) == ("DELETE", schema)
    assert not Path(table, "rome").exists()
    assert snapshot(spark, table) == [r for r in SIX if r[0] in "bdef"]


def test_a_delete_ignores_the_ordering_value(spark: Any, table: str) -> None:
    write(trips(spark, ("f", "tokyo", 0, 0.0)), table, {**DELETE, PAYLOAD: DEFAULT_PAYLOAD})
    write(values(spark, "id string, city string, ts bigint", ("e", "tokyo", None)), table, DELETE)
    assert columns(table, "id") == [("a",), ("b",), ("c",), ("d",)]


def test_the_workload_profile_of_a_delete_names_the_file_groups(spark: Any, table: str) -> None:
    write(trips(spark, ("a", "berlin", 0, 0.0)), table, {**DELETE, "hoodie.index.type": "GLOBAL_SIMPLE"})
    profile = inflight(table)
    assert profile["operationType"] == "DELETE"
    ((empty, group),) = profile["partitionToWriteStats"].values()
    assert (empty["fileId"], empty["numInserts"], group["numUpdateWrites"]) == ("", 0, 1)
    assert group["prevCommit"] == timeline(table)[0].split(".")[0]


def test_a_partition_that_loses_all_rows_keeps_an_empty_file_and_can_be_filled_again(spark: Any, table: str) -> None:
    write(trips(spark, *SIX[:2]), table, DELETE)
    assert counts(commits(table)[-1]) == [("berlin", 0, 0, 2, 0)]
    newest = [f for f in base_files(table) if f.parent.name == "berlin" and timeline(table)[-1].split(".")[0] in f.name]
    assert [pq.read_metadata(f).num_rows for f in newest] == [0]
    assert snapshot(spark, table) == [*SIX[2:]]
    write(trips(spark, SIX[0]), table, UPSERT)
    assert counts(commits(table)[-1]) == [("berlin", 1, 0, 0, 1)]
    assert snapshot(spark, table) == [SIX[0], *SIX[2:]]


@BOTH
def test_every_row_of_a_duplicated_key_is_deleted(spark: Any, table_path: str, where: dict[str, Any]) -> None:
    three = trips(spark, ("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("a", "x", 2, 2.0), ("c", "x", 1, 1.0), ("a", "x", 3, 3.0))
    write(three, table_path, {**INSERT, **MANY_GROUPS})
    write(trips(spark, ("a", "x", 0, 0.0), ("a", "x", 0, 0.0)), table_path, {**DELETE, **MANY_GROUPS, **where})
    assert columns(table_path, "id") == [("b",), ("c",)]
    assert sum(c[3] for c in counts(commits(table_path)[-1])) == 3


def test_deleting_nothing_that_is_there_writes_an_empty_commit(spark: Any, table: str) -> None:
    before = {n: h for n, h in state_of(table).items() if not n.startswith(".hoodie")}
    write(trips(spark, ("q", "berlin", 0, 0.0)), table, DELETE)
    assert commits(table)[-1]["partitionToWriteStats"] == {}
    assert {n: h for n, h in state_of(table).items() if not n.startswith(".hoodie")} == before


def test_a_deleted_key_that_comes_back_is_a_new_row(spark: Any, table: str) -> None:
    write(trips(spark, SIX[0]), table, DELETE)
    write(trips(spark, ("a", "berlin", 0, 9.5)), table, {**UPSERT, PAYLOAD: DEFAULT_PAYLOAD})
    assert ("a", 0, 9.5) in columns(table, "id", "ts", "fare")
    assert counts(commits(table)[-1]) == [("berlin", 2, 0, 0, 1)]
