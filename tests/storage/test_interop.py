"""One table on S3 or HDFS, written by Penstock and real Hudi 0.15 in turns. After every round all readers see the same rows.

Hudi goes through s3a, Penstock through its own storage, hudi-rs through its own. `make test-storage-interop` runs ten rounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from tests.interop.sides import OPERATION, TRIPS, Penstock, trips, trips_of
from tests.kit.hdfs import Hdfs
from tests.kit.object_stores import ACCESS_KEY, CANARY, ObjectStore
from tests.kit.oracle import Oracle, OracleUnavailable
from tests.kit.readers import hudi_rs_rows

pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore:Spark cannot read")]

#: For PySpark 3.5, whose Hadoop is 3.3.4.
HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.3.4"
FULL = bool(os.environ.get("PENSTOCK_TEST_ROUNDS"))
ROUNDS = 10 if FULL else 3
KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
CASES = [("seaweedfs", "cow"), ("seaweedfs", "mor"), ("hdfs", "mor"), *([("hdfs", "cow")] if FULL else [])]
CITIES = ("oslo", "paris", "rome é")

Row = tuple[str, str, int, float]


@pytest.fixture(scope="module")
def hudi(seaweedfs: ObjectStore) -> Iterator[Oracle]:
    """Real Hudi 0.15 that reaches the bucket through s3a, and HDFS."""
    settings = {**seaweedfs.settings, "spark.hadoop.dfs.replication": "1"}
    try:
        oracle = Oracle.start("0.15.0", [HADOOP_AWS], settings)
    except OracleUnavailable as reason:
        pytest.skip(str(reason))
    with oracle:
        yield oracle


@pytest.fixture
def us(spark: Any, tmp_path: Path) -> Penstock:
    folder = tmp_path / "rows"
    folder.mkdir()
    return Penstock(spark, folder)


@pytest.fixture
def new_path(request: pytest.FixtureRequest, spark: Any) -> Iterator[Callable[[str], str]]:
    """A function that returns a new path on a store, with the store's settings in the session."""
    keys: set[str] = set()

    def make(name: str) -> str:
        server: ObjectStore | Hdfs = request.getfixturevalue(name)
        settings = server.settings if isinstance(server, ObjectStore) else {"dfs.replication": "1"}
        for key, value in settings.items():
            spark.conf.set(key, value)
            keys.add(key)
        return server.path()

    yield make
    for key in keys:
        spark.conf.unset(key)


def batch_of(number: int) -> tuple[str, list[Row]]:
    """Return operation and rows of a round: in turn new rows with changes of old ones, and every third time deletes."""
    if number % 3 == 2:
        return "delete", [(f"k{i}", CITIES[i % 3], number, 0.0) for i in range(number, 3 * number, 3)]
    rows = [(f"k{i}", CITIES[i % 3], number, float(number)) for i in range(number, number + 9)]
    return ("insert" if number == 0 else "upsert"), rows


def apply(model: dict[str, Row], operation: str, rows: list[Row]) -> None:
    for row in rows:
        if operation == "delete":
            model.pop(row[0], None)
        else:
            model[row[0]] = row


def rows_by_hudi_rs(store: ObjectStore, path: str) -> pa.Table:
    """Return the rows of a table on S3 as hudi-rs reads them."""
    options = {
        "aws_endpoint": f"http://127.0.0.1:{store.port}",
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
        "aws_access_key_id": ACCESS_KEY,
        "aws_secret_access_key": CANARY,
    }
    return hudi_rs_rows(path, options)


@pytest.mark.parametrize("first", ["us", "hudi"] if FULL else ["hudi"])
@pytest.mark.parametrize(("store", "kind"), CASES)
def test_penstock_and_hudi_write_one_table_in_turns(
    request: pytest.FixtureRequest, us: Penstock, hudi: Oracle, new_path: Callable[[str], str], store: str, kind: str, first: str
) -> None:
    path = new_path(store)
    model: dict[str, Row] = {}
    sides = (us, hudi) if first == "us" else (hudi, us)
    for number in range(ROUNDS):
        operation, rows = batch_of(number)
        writer = sides[number % 2]
        options = {**TRIPS, OPERATION: operation, "hoodie.datasource.write.table.type": KINDS[kind]}
        # The writer of the fourth, eighth … round compacts after it.
        options |= {"hoodie.compact.inline": str(number % 4 == 3).lower(), "hoodie.compact.inline.max.delta.commits": "1"}
        writer.write(path, trips(*rows), options)
        apply(model, operation, rows)
        what = f"round {number}: {operation} by {type(writer).__name__}"
        assert trips_of(us.read(path)) == sorted(model.values()), what
        assert trips_of(hudi.read(path)) == sorted(model.values()), what
        if store == "seaweedfs":
            assert trips_of(rows_by_hudi_rs(request.getfixturevalue(store), path)) == sorted(model.values()), what
    assert len(penstock.Table.open(path).check_files()) == 0
