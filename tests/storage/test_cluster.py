"""A cluster that shares no disk: a master, workers with own folders and addresses and no Penstock, the table on S3.

Every task has a speculative duplicate, workers join late, and executors are killed in the middle of each stage. A proxy before the
store makes requests slow, so that there is a middle, and says which stage a write has reached.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.kit.cluster import Cluster, running_cluster
from tests.kit.counting_proxy import CountingProxy
from tests.kit.object_stores import ObjectStore
from tests.kit.plain import orphans, pending
from tests.storage.remote_scenes import downloaded

pytestmark = [
    pytest.mark.server,
    pytest.mark.apart,
    pytest.mark.filterwarnings("ignore:Spark cannot read"),
]

FULL = bool(os.environ.get("PENSTOCK_TEST_CLUSTER"))
KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
CITIES = ("oslo", "paris", "rome")
#: Every task that runs for longer is started a second time, on the other worker.
DUPLICATES = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.task.duration.threshold": "50ms",
    "spark.task.maxFailures": "8",
}
#: Parts of the paths of requests: the first of them shows that a stage has begun.
STAGES = {
    "rows are staged": ("put_new", "/staged/"),
    "staged rows are read": ("get", "/staged/"),
    "files are announced": ("put_new", "/MARKERS"),
    "files are written": ("put_new", ".parquet"),
    "the write is sealed": ("delete_many", ""),
}
DELAY_SECONDS = 0.02
MOST_STAGES = 400

Rows = dict[str, tuple[str, int]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.add_worker()
        yield cluster


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> ObjectStore:
    """SeaweedFS, or in a lean run moto, which starts faster."""
    found: ObjectStore = request.getfixturevalue("seaweedfs" if FULL else "moto")
    return found


@pytest.fixture(scope="module")
def proxy(store: ObjectStore) -> Iterator[CountingProxy]:
    with CountingProxy.before(store.port, DELAY_SECONDS) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def spark(cluster: Cluster, store: ObjectStore, proxy: CountingProxy) -> Iterator[Any]:
    """A session on the cluster, which has one worker until a test adds another."""
    settings = {**store.through(proxy.port), **DUPLICATES, "spark.sql.shuffle.partitions": "2"}
    with cluster.session(settings) as spark:
        penstock.enable(spark)
        yield spark


def options(kind: str, operation: str = "upsert") -> dict[str, str]:
    return {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.operation": operation,
        "hoodie.compact.inline": "false",
        "penstock.small.batch.rows": "0",  # everything runs in Spark's tasks
        "penstock.small.batch.bytes": "0",
    }


def rows_of(first: int, last: int, ts: int) -> Rows:
    return {f"k{i}": (CITIES[i % len(CITIES)], ts) for i in range(first, last)}


def write(spark: Any, path: str, rows: Rows, kind: str, operation: str = "upsert") -> None:
    data = [(key, city, ts) for key, (city, ts) in rows.items()]
    frame = spark.createDataFrame(data, "id string, city string, ts long").repartition(2)
    frame.write.format("hudi").options(**options(kind, operation)).mode("append").save(path)


def read(spark: Any, path: str) -> Rows:
    found = spark.read.format("hudi").load(path).select("id", "city", "ts").collect()
    assert len(found) == len({row.id for row in found})
    return {row.id: (row.city, row.ts) for row in found}


def check_nothing_is_left(spark: Any, store: ObjectStore, path: str, kind: str, folder: Path) -> None:
    """Check that after the next write every data file belongs to a commit, and that no temporary file is left.

    Losers of a race between two attempts of a task may write a marker after the end of their write, so the next write comes when they
    are gone. It is small, and runs in the driver.
    """
    assert len(penstock.Table.open(path).check_files()) == 0
    left: list[str] = []
    for _ in range(10):
        small = {key: value for key, value in options(kind).items() if not key.startswith("penstock.small")}
        last = spark.createDataFrame([("last", CITIES[0], 9)], "id string, city string, ts long")
        last.write.format("hudi").options(**small).mode("append").save(path)
        with downloaded(store, path, folder) as table:
            left = [*orphans(table), *pending(table)]
        if not left:
            return
        time.sleep(1)
    assert left == []


@contextmanager
def killing(cluster: Cluster, proxy: CountingProxy, stage: str, count: int | None = None) -> Iterator[list[int]]:
    """Kill executors as soon as a stage of the write in the block has begun. The list says how many, once they are killed."""
    kind, path = STAGES[stage]
    killed: list[int] = []
    over = threading.Event()
    proxy.reset()

    def watch() -> None:
        while not over.is_set():
            if any(request.kind == kind and path in request.path for request in list(proxy.requests)):
                killed.append(cluster.kill_executors(count))
                return
            time.sleep(0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_executors_have_no_penstock_but_the_one_that_the_driver_sends(spark: Any, store: ObjectStore) -> None:
    path = store.path()
    write(spark, path, rows_of(0, 6, 1), "COPY_ON_WRITE", "insert")

    def find(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import tempfile

        import pyarrow as pa

        import penstock

        for _ in batches:
            file = os.path.abspath(penstock.__file__)
            yield pa.record_batch([pa.array([file]), pa.array([tempfile.gettempdir()])], names=["file", "tmp"])

    (found,) = spark.range(0, 1, 1, 1).mapInArrow(find, "file string, tmp string").collect()
    assert re.search(r"/worker-\d+/work/.*\.zip/penstock/__init__.py$", found.file)
    assert "/worker-" in found.tmp


def test_a_worker_that_joins_during_a_write_takes_part_in_the_next(
    spark: Any, cluster: Cluster, proxy: CountingProxy, store: ObjectStore, tmp_path: Path
) -> None:
    path = store.path()
    joining = threading.Thread(target=cluster.add_worker)
    joining.start()
    write(spark, path, rows_of(0, 30, 1), "COPY_ON_WRITE", "insert")
    joining.join()
    deadline = time.monotonic() + 60
    while len(cluster.executors()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    proxy.reset()
    write(spark, path, rows_of(0, 30, 2), "COPY_ON_WRITE")
    assert read(spark, path) == rows_of(0, 30, 2)
    check_nothing_is_left(spark, store, path, "COPY_ON_WRITE", tmp_path)


@pytest.mark.parametrize("kind", KINDS if FULL else KINDS[1:])
def test_every_operation_runs_with_a_duplicate_of_every_task(
    spark: Any, cluster: Cluster, proxy: CountingProxy, store: ObjectStore, tmp_path: Path, kind: str
) -> None:
    path = store.path()
    before = count_duplicates(spark)
    write(spark, path, rows_of(0, 30, 1), kind, "insert")
    write(spark, path, rows_of(20, 40, 2), kind)
    rows = rows_of(0, 20, 1) | rows_of(20, 40, 2)
    write(spark, path, rows_of(0, 10, 3), kind, "delete")
    rows = {key: row for key, row in rows.items() if key not in rows_of(0, 10, 3)}
    assert read(spark, path) == rows
    table = penstock.Table.open(path)
    if kind == "MERGE_ON_READ":
        table.compact()
        assert read(spark, path) == rows
    table.cluster()
    table.clean()
    assert read(spark, path) == rows
    assert spark.read.format("hudi").load(path).where("city = 'rome'").count() == sum(row[0] == "rome" for row in rows.values())
    assert count_duplicates(spark) > before
    check_nothing_is_left(spark, store, path, kind, tmp_path)


def count_duplicates(spark: Any) -> int:
    """Return how many speculative tasks the session has started."""
    store = spark.sparkContext._jsc.sc().statusStore()
    count = 0
    for stage in range(MOST_STAGES):
        summary = store.speculationSummary(stage, 0)
        if summary.isDefined():
            count += summary.get().numTasks()
    return count


@pytest.mark.parametrize("stage", STAGES if FULL else ["files are written"])
@pytest.mark.parametrize("kind", KINDS if FULL else KINDS[:1])
def test_a_write_survives_executors_that_are_killed(
    spark: Any, cluster: Cluster, proxy: CountingProxy, store: ObjectStore, tmp_path: Path, kind: str, stage: str
) -> None:
    path = store.path()
    write(spark, path, rows_of(0, 30, 1), kind, "insert")
    with killing(cluster, proxy, stage) as killed:
        write(spark, path, rows_of(10, 40, 2), kind)
    assert killed
    assert sum(killed) >= 1
    rows = rows_of(0, 10, 1) | rows_of(10, 40, 2)
    assert read(spark, path) == rows
    write(spark, path, rows_of(40, 50, 3), kind)
    assert read(spark, path) == rows | rows_of(40, 50, 3)
    check_nothing_is_left(spark, store, path, kind, tmp_path)
