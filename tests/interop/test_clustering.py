"""Clusterings across engines: each engine runs what the other planned, and reads the other's result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from tests.kit.oracle import Oracle
from tests.kit.plain import pending, plain_rows
from tests.table.tables import OPERATION, TRIPS, commits, timeline

pytestmark = pytest.mark.oracle

COLUMNS = ["id", "city", "ts", "fare"]
SORT = "hoodie.clustering.plan.strategy.sort.columns"
Row = tuple[Any, ...]
FIRST: tuple[Row, ...] = (("a", "berlin", 5, 1.5), ("b", "berlin", 3, 2.5), ("c", "paris", 4, 3.5), ("d", "paris", 2, 4.5))
SECOND: tuple[Row, ...] = (("e", "berlin", 4, 5.5), ("f", "berlin", 1, 6.5))
CHANGED: tuple[Row, ...] = (("a", "berlin", 9, 9.5),)
ALL = sorted((*CHANGED, *FIRST[1:], *SECOND))
LATER: tuple[Row, ...] = (("b", "berlin", 10, 10.5), ("g", "tokyo", 1, 0.5))
AFTER = sorted((*LATER, *(row for row in ALL if row[0] != "b")))


def rows(*trips: Row) -> pa.Table:
    return pa.table({name: list(values) for name, values in zip(COLUMNS, zip(*trips, strict=True), strict=True)})


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {
        **TRIPS,
        "hoodie.datasource.write.table.type": request.param,
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.parquet.small.file.limit": "0",
    }


def read(oracle: Oracle, path: str) -> list[Row]:
    found = oracle.read(path, {}).select(COLUMNS)
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def call(oracle: Oracle, op: str, path: str) -> None:
    settings = f"{SORT}=ts,hoodie.metadata.enable=false"
    oracle.sql(f"CALL run_clustering(op => '{op}', path => '{path}', order => 'ts', options => '{settings}')")


def clustered_files(path: str) -> list[list[int]]:
    """Return the values of ts in the files of the last clustering, in file order."""
    time = [name for name in timeline(path) if name.endswith(".replacecommit")][-1].split(".")[0]
    return [pq.ParquetFile(f).read(["ts"])["ts"].to_pylist() for f in sorted(Path(path).rglob(f"*_{time}.parquet"))]


def check(oracle: Oracle, path: str, spark: Any) -> None:
    """Check that both engines see all rows, sorted within new files, and that the replace commit names what it replaced."""
    assert read(oracle, path) == ALL
    assert plain_rows(path) == sorted(ALL, key=repr)
    assert all(one == sorted(one) for one in clustered_files(path))
    last = next(one for one in reversed(commits(path)) if one["operationType"] == "CLUSTER")
    assert {p: len(ids) for p, ids in last["partitionToReplaceFileIds"].items()} == {"berlin": 2, "paris": 1}
    assert pending(path) == []
    assert list(penstock.Table.open(path).check_files()) == []


def test_each_engine_runs_the_clustering_that_the_other_planned(
    hudi015: Oracle, table_path: str, spark: Any, options: dict[str, Any]
) -> None:
    def ours(trips: tuple[Row, ...], operation: str) -> None:
        frame = spark.createDataFrame(rows(*trips))
        frame.write.format("hudi").options(**{**options, OPERATION: operation}).mode("append").save(table_path)

    ours(FIRST, "insert")
    hudi015.write(table_path, rows(*SECOND), {**options, OPERATION: "insert"})
    ours(CHANGED, "upsert")
    table = penstock.Table.open(table_path, spark)
    plan = table.schedule_clustering(options={SORT: "ts"})
    assert plan is not None
    assert plan.file_groups == 3
    call(hudi015, "execute", table_path)
    check(hudi015, table_path, spark)
    times = {row["id"]: row["_hoodie_commit_time"] for row in hudi015.read(table_path, {}).to_pylist()}
    assert len(set(times.values())) == 3

    ours(SECOND, "upsert")  # the other way round, from two file groups in berlin again
    hudi015.write(table_path, rows(("x", "berlin", 7, 7.5)), {**options, OPERATION: "insert"})
    hudi015.write(table_path, rows(("x", "berlin", 7, 7.5)), {**options, OPERATION: "delete"})
    call(hudi015, "schedule", table_path)
    (planned,) = table.pending_clusterings()
    assert (planned.state, planned.sort_columns) == ("requested", "ts")
    (done,) = table.cluster(planned.instant)
    assert done.operation == "cluster"
    assert read(hudi015, table_path) == ALL
    assert all(one == sorted(one) for one in clustered_files(table_path))

    hudi015.write(table_path, rows(*LATER), {**options, OPERATION: "upsert"})  # and both go on with the result
    assert read(hudi015, table_path) == AFTER
    assert plain_rows(table_path) == sorted(AFTER, key=repr)
    (again,) = table.cluster(options={SORT: "ts,fare", "hoodie.layout.optimize.strategy": "hilbert"})
    assert read(hudi015, table_path) == AFTER
    assert {row["id"]: row["_hoodie_commit_time"] for row in hudi015.read(table_path, {}).to_pylist()}["c"] == times["c"]
    assert again.files_written == 3
    last = max(row["_hoodie_commit_time"] for row in hudi015.read(table_path, {}).to_pylist())
    for begin, ids in ((last, []), (str(int(last) - 1), ["b", "g"])):  # no row is new to an incremental query
        since = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begin}
        assert sorted(row["id"] for row in hudi015.read(table_path, since).to_pylist()) == ids

    keep = {"hoodie.cleaner.commits.retained": "1", OPERATION: "upsert"}  # what was replaced goes when it is cleaned, by either
    for number in (1, 2):
        hudi015.write(table_path, rows(("g", "tokyo", 1 + number, 0.5)), {**options, **keep})
    assert not [f for f in Path(table_path).rglob("*.parquet") if f.name.endswith(f"_{last}.parquet")]
    after = sorted([row for row in AFTER if row[0] != "g"] + [("g", "tokyo", 3, 0.5)])
    assert read(hudi015, table_path) == after
    assert plain_rows(table_path) == sorted(after, key=repr)
    assert list(table.check_files()) == []
