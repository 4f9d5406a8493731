"""Whole tables on S3, Azure and HDFS: every operation and service, by a session that has no jar for the storage."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock
from penstock.errors import StorageError, Unsupported
from penstock.storage import open_storage
from penstock.storage.conditional_put import forget_conditional_puts
from tests.kit.hdfs import Hdfs
from tests.kit.object_stores import CANARY, ObjectStore
from tests.storage.test_doctor import ROOT, keys_of

pytestmark = pytest.mark.server

SCHEMA = "id string, city string, ts long, fare double"
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
STORES = ("seaweedfs", "azurite", "hdfs")

Row = tuple[str, str, int, float]
FIRST: list[Row] = [("a", "paris", 1, 1.5), ("b", "paris", 1, 2.5), ("c", "oslo", 1, 3.5)]


@pytest.fixture
def new_path(request: pytest.FixtureRequest, spark: Any) -> Iterator[Callable[[str], str]]:
    """A function that returns the path of a new table on a store, with the store's settings in the session."""
    keys: set[str] = set()

    def make(store: str) -> str:
        server: ObjectStore | Hdfs = request.getfixturevalue(store)
        settings = server.settings if isinstance(server, ObjectStore) else {"dfs.replication": "1"}
        for key, value in settings.items():
            spark.conf.set(key, value)
            keys.add(key)
        return server.path()

    yield make
    for key in keys:
        spark.conf.unset(key)


def hoodie(kind: str, **more: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": kind,
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def write(spark: Any, path: str, rows: list[Row], options: dict[str, str], mode: str = "append") -> None:
    spark.createDataFrame(rows, SCHEMA).write.format("hudi").options(**options).mode(mode).save(path)


def read(spark: Any, path: str, **options: str) -> list[Row]:
    frame = spark.read.format("hudi").options(**options).load(path)
    return sorted(tuple(row) for row in frame.select("id", "city", "ts", "fare").collect())


@pytest.mark.filterwarnings("ignore:Spark cannot read")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", STORES)
def test_a_table_is_written_changed_kept_and_read(spark: Any, new_path: Callable[[str], str], store: str, kind: str) -> None:
    path = new_path(store)
    write(spark, path, FIRST, hoodie(kind))
    table = penstock.Table.open(path)
    first = table.history(limit=1)[0].instant
    write(spark, path, [("b", "paris", 2, 9.5), ("d", "oslo", 2, 4.5)], hoodie(kind))
    changed: list[Row] = [("a", "paris", 1, 1.5), ("b", "paris", 2, 9.5), ("c", "oslo", 1, 3.5), ("d", "oslo", 2, 4.5)]
    assert read(spark, path) == changed
    assert read(spark, path, **{"as.of.instant": first}) == FIRST
    table.delete("id = 'c'")
    left = [row for row in changed if row[0] != "c"]
    assert read(spark, path) == left
    assert spark.read.format("hudi").load(path).where("city = 'paris'").count() == 2
    if kind == "MERGE_ON_READ":
        table.compact()
    table.cluster()
    table.clean()
    assert read(spark, path) == left
    assert len(table.check_files()) == 0
    table.savepoint(table.history(limit=1)[0].instant)
    write(spark, path, [("e", "rome", 1, 5.5)], hoodie(kind, hoodie__datasource__write__operation="insert_overwrite_table"))
    assert read(spark, path) == [("e", "rome", 1, 5.5)]
    write(spark, path, FIRST, hoodie(kind), mode="overwrite")
    assert read(spark, path) == FIRST


@pytest.mark.filterwarnings("ignore:Spark cannot read")
def test_several_writers_of_a_table_on_s3_hold_a_lock_of_the_storage(spark: Any, new_path: Callable[[str], str]) -> None:
    path = new_path("seaweedfs")
    several = hoodie("COPY_ON_WRITE", hoodie__write__concurrency__mode="optimistic_concurrency_control", penstock__lock="storage")
    write(spark, path, FIRST, several)
    write(spark, path, [("a", "paris", 2, 7.5)], several)
    assert read(spark, path) == [("a", "paris", 2, 7.5), *FIRST[1:]]


def test_a_store_that_ignores_conditions_is_refused_before_the_table_is_created(
    spark: Any, new_path: Callable[[str], str]
) -> None:
    path = new_path("rclone")
    forget_conditional_puts()
    with pytest.raises(Unsupported, match="ignores conditional puts"):
        write(spark, path, FIRST, hoodie("COPY_ON_WRITE"))
    assert not penstock.Table.exists(path)


SEVERAL = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}


@pytest.mark.parametrize("lock", ["storage", "filesystem"])
def test_a_lock_by_files_is_refused_on_a_store_that_ignores_conditions(
    spark: Any, new_path: Callable[[str], str], lock: str
) -> None:
    path = new_path("rclone")
    forget_conditional_puts()
    with pytest.raises(Unsupported, match="ignores conditional puts.*penstock.lock=zookeeper"):
        write(spark, path, FIRST, {**hoodie("COPY_ON_WRITE"), **SEVERAL, "penstock.lock": lock})
    assert not penstock.Table.exists(path)


@pytest.mark.filterwarnings("ignore:Spark cannot read")
def test_table_services_ask_whether_a_store_honours_conditions(spark: Any, new_path: Callable[[str], str]) -> None:
    path = new_path("rclone")
    write(spark, path, FIRST, {**hoodie("COPY_ON_WRITE"), **SEVERAL, "penstock.lock": "in_process"})
    table = penstock.Table.open(path)
    before = table.history(limit=1)[0].instant
    table.savepoint(before)
    known = [(entry.instant, entry.state) for entry in table.history()]
    services: list[Callable[[], object]] = [table.cluster, lambda: table.restore(before)]
    for run in services:
        forget_conditional_puts()
        with pytest.raises(Unsupported, match="ignores conditional puts"):
            run()
    assert [(entry.instant, entry.state) for entry in table.history()] == known


def test_a_bucket_that_does_not_exist_is_named(spark: Any, new_path: Callable[[str], str]) -> None:
    new_path("moto")
    with pytest.raises(StorageError, match="no-such-bucket"):
        write(spark, "s3a://no-such-bucket/table", FIRST, hoodie("COPY_ON_WRITE"))


# --- every other operation, on SeaweedFS


def rows_of(table: penstock.Table) -> list[Row]:
    """Return the rows that a reader without Spark finds."""
    found = table.to_arrow(columns=["id", "city", "ts", "fare"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.filterwarnings("ignore:Spark cannot read")
def test_every_operation_works_on_an_object_store(spark: Any, new_path: Callable[[str], str]) -> None:
    path = new_path("seaweedfs")
    options = hoodie("COPY_ON_WRITE", hoodie__datasource__write__operation="bulk_insert")
    write(spark, path, FIRST, options)
    table = penstock.Table.open(path)
    first = table.history(limit=1)[0].instant
    overwrite = {**options, "hoodie.datasource.write.operation": "insert_overwrite"}
    write(spark, path, [("d", "paris", 2, 4.5)], overwrite)
    assert rows_of(table) == [FIRST[2], ("d", "paris", 2, 4.5)]
    assert read(spark, path, **{INCREMENTAL: "incremental", BEGIN: first}) == [("d", "paris", 2, 4.5)]
    second = table.savepoint().instant
    table.delete_partitions("paris")
    assert rows_of(table) == [FIRST[2]]
    table.rollback(table.history(limit=1)[0].instant)
    assert rows_of(table) == [FIRST[2], ("d", "paris", 2, 4.5)]
    write(spark, path, [("c", "oslo", 3, 9.5)], hoodie("COPY_ON_WRITE"))
    table.restore(second)
    assert rows_of(table) == read(spark, path) == [FIRST[2], ("d", "paris", 2, 4.5)]
    assert len(table.check_files()) == 0


INCREMENTAL = "hoodie.datasource.query.type"
BEGIN = "hoodie.datasource.read.begin.instanttime"
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2", "hoodie.compact.inline": "false"}


@pytest.mark.filterwarnings("ignore:Spark cannot read")
@pytest.mark.parametrize("engine", ["SIMPLE", "CONSISTENT_HASHING"])
def test_buckets_on_an_object_store(spark: Any, new_path: Callable[[str], str], engine: str) -> None:
    path = new_path("seaweedfs")
    options = {**hoodie("MERGE_ON_READ"), **BUCKETS, "hoodie.index.bucket.engine": engine}
    before: list[Row] = [(f"k{number:02}", "oslo", 1, 1.5) for number in range(30)]
    write(spark, path, before, options)
    table = penstock.Table.open(path)
    if engine == "CONSISTENT_HASHING":
        groups = {file.file_group for file in table.files()}
        table.cluster(options={"hoodie.parquet.max.file.size": "100", "hoodie.bucket.index.max.num.buckets": "4"})
        assert len({file.file_group for file in table.files()} - groups) > 0, "no bucket was split"
    changed: list[Row] = [(key, city, 2, 9.5) for key, city, _, _ in before[:10]]
    write(spark, path, changed, options)
    assert rows_of(table) == [*changed, *before[10:]]
    table.compact()
    assert rows_of(table) == [*changed, *before[10:]]


def test_a_table_on_what_stands_for_google_cloud_storage(spark: Any, new_path: Callable[[str], str]) -> None:
    path = new_path("gcs")
    write(spark, path, FIRST, hoodie("COPY_ON_WRITE"))
    write(spark, path, [("b", "paris", 2, 9.5)], hoodie("COPY_ON_WRITE"))
    table = penstock.Table.open(path)
    assert rows_of(table) == [FIRST[0], ("b", "paris", 2, 9.5), FIRST[2]]
    assert len(table.check_files()) == 0


@pytest.mark.filterwarnings("ignore:Spark cannot read")
@pytest.mark.parametrize("encoded", ["false", "true"])
def test_partition_values_that_mean_something_in_an_address(spark: Any, new_path: Callable[[str], str], encoded: str) -> None:
    path = new_path("seaweedfs")
    cities = ["100%", "a+b", "c d", "%41", "å/ß" if encoded == "true" else "åß", "x=y&z", "#1?"]
    options = hoodie("COPY_ON_WRITE", hoodie__datasource__write__partitionpath__urlencode=encoded)
    before: list[Row] = sorted((f"k{number}", city, 1, 1.5) for number, city in enumerate(cities))
    write(spark, path, before, options)
    changed: list[Row] = [(key, city, 2, 9.5) for key, city, _, _ in before]
    write(spark, path, changed, options)
    table = penstock.Table.open(path)
    assert rows_of(table) == read(spark, path) == changed
    assert len(table.files()) == len(cities)
    table.cluster()
    table.clean(options={"hoodie.cleaner.commits.retained": "1"})
    assert rows_of(table) == changed
    assert len(table.check_files()) == 0


def test_the_program_runs_the_services_of_a_table_on_an_object_store(
    spark: Any, new_path: Callable[[str], str], seaweedfs: ObjectStore
) -> None:
    path = new_path("seaweedfs")
    for ts in (1, 2, 3):
        write(spark, path, [("a", "paris", ts, 1.5)], hoodie("COPY_ON_WRITE", hoodie__clean__automatic="false"))
    table = penstock.Table.open(path)
    storage, base = open_storage(path, seaweedfs.settings)
    assert len([file for file in storage.list(f"{base}/paris") if file.name.endswith(".parquet")]) == 3
    command = [sys.executable, "-m", "penstock.cli.main", "services", "run", path, "--once"]
    command += ["-o", "hoodie.cleaner.commits.retained=1", "-o", "hoodie.clean.automatic=true"]
    environment = {**os.environ, **keys_of(seaweedfs), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert CANARY not in ran.stdout + ran.stderr
    assert len([file for file in storage.list(f"{base}/paris") if file.name.endswith(".parquet")]) == 2
    assert rows_of(table) == [("a", "paris", 3, 1.5)]
