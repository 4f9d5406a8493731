"""How many requests Penstock sends to an object store, by kind: each is money, and most are waited for.

The counts are the same on every machine. One that grows says that an optimisation was lost; put it right, or change the figure
in the commit that explains why. `make bench-requests` measures more, and real Hudi as well.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from bench.requests import KIND, PenstockSide, commit_of, of_one_partition, rows_of, steps_of
from penstock.door.plan_again import plan_until_it_holds
from penstock.filegroup.model import BaseFile
from penstock.index.pruning import Pruning
from penstock.read.query import parse_query
from penstock.storage import Storage, open_storage
from penstock.storage.conditional_put import check_conditional_put
from penstock.timeline.store import forget_instants
from penstock.write.locate.key_lookup import WantedKeys, look_up
from tests.crash.scenes import CHANGES, FIRST, NEW
from tests.docs.pages import ROOT
from tests.interop.sides import OPERATION, TRIPS_AND_METADATA
from tests.kit.counting_proxy import CountingProxy
from tests.kit.object_stores import ObjectStore, s3_client
from tests.table.tables import TRIPS, trips, write

pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore:Spark cannot read")]

PAGES = ("storage.md", "benchmarks/requests.md")
MANY = 1_000
#: Of every request, where it is measured which requests wait for others. So long that other work does not count.
DELAY_S = 0.15
#: The delay of a store for which the goals are set.
LATENCY_S = 0.03
#: The most requests of each step on a table of ten partitions.
MOST = {
    "COPY_ON_WRITE": {
        "bulk_insert of all rows": 80,
        "upsert of 10 %": 100,
        "upsert of 1,000 rows in one partition": 34,
        "the same again": 34,
        "planning a snapshot of one partition": 4,
        "planning a snapshot of all": 4,
        "snapshot of one partition, with its rows": 8,
        "snapshot of all, with its rows": 17,
        "clean": 31,
    },
    "MERGE_ON_READ": {
        "bulk_insert of all rows": 80,
        "upsert of 10 %": 110,
        "upsert of 1,000 rows in one partition": 40,
        "the same again": 40,
        "planning a snapshot of one partition": 4,
        "planning a snapshot of all": 4,
        "snapshot of one partition, with its rows": 12,
        "snapshot of all, with its rows": 44,
        "compaction": 155,
        "clean": 33,
    },
}


#: By how many requests a step may differ from the figure in the documentation.
SCATTER = 4


def figures_of_page() -> dict[str, int]:
    """Return the requests of each step in the table of docs/storage.md, which is also on the page of the benchmark."""
    rows = [re.findall(r"^\| ([a-z].*?) \| (\d+) \|", (ROOT / "docs" / page).read_text(), re.MULTILINE) for page in PAGES]
    assert rows[0] == rows[1]
    return {name: int(count) for name, count in rows[0]}


@pytest.fixture(scope="module")
def proxy(moto: ObjectStore) -> Iterator[CountingProxy]:
    with CountingProxy.before(moto.port) as proxy:
        yield proxy


@pytest.fixture
def side(spark: Any, moto: ObjectStore, proxy: CountingProxy, tmp_path: Path) -> Iterator[PenstockSide]:
    """Penstock in a session that reaches the store through the proxy."""
    settings = moto.through(proxy.port)
    for key, value in settings.items():
        spark.conf.set(key, value)
    storage, base = moto.open()
    check_conditional_put(storage, base)  # once for a store, whichever test comes first
    rows = tmp_path / "rows"
    rows.mkdir()
    yield PenstockSide(spark, rows)
    for key in settings:
        spark.conf.unset(key)


@pytest.mark.parametrize("kind", MOST)
def test_each_step_takes_few_requests(side: PenstockSide, moto: ObjectStore, proxy: CountingProxy, kind: str) -> None:
    found: dict[str, int] = {}
    kinds: dict[str, dict[str, int]] = {}
    path = moto.path()
    for name, step in steps_of(side, path, 10, kind):
        proxy.reset()
        step()
        found[name] = proxy.total
        kinds[name] = proxy.counts
    if kind == "COPY_ON_WRITE":
        shown = figures_of_page()
        stale = {name: (shown[name], count) for name, count in found.items() if abs(shown[name] - count) > SCATTER}
        assert stale == {}, "docs/storage.md and docs/benchmarks/requests.md have other figures"
    over = {name: (found[name], most) for name, most in MOST[kind].items() if found[name] > most}
    assert over == {}, {name: kinds[name] for name in over}
    assert len(penstock.Table.open(path).check_files()) == 0


def test_an_overwrite_copies_each_new_file_once_and_deletes_the_old_ones_together(
    spark: Any, side: PenstockSide, moto: ObjectStore, proxy: CountingProxy
) -> None:
    path = moto.path()
    write(trips(spark, *FIRST), path)
    write(trips(spark, *CHANGES), path, {**TRIPS, OPERATION: "upsert"})
    proxy.reset()
    write(trips(spark, *NEW), path, mode="overwrite")
    storage, base = moto.open(path.rpartition("/")[2])
    assert proxy.counts["copy"] == len(list(storage.list_tree(base)))
    assert proxy.total <= 87, proxy.counts
    kinds = [request.kind for request in proxy.requests]
    (decided,) = [at for at, request in enumerate(proxy.requests) if request.kind == "put_new" and "/.overwrite/" in request.path]
    assert len([kind for kind in kinds[decided + 1 :] if kind != "copy"]) <= 13, kinds[decided + 1 :]


@pytest.fixture(scope="module")
def many_partitions(spark: Any, moto: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a table with a thousand partitions, which was written to a local disk."""
    folder = tmp_path_factory.mktemp("many")
    (folder / "rows").mkdir()
    options = {**TRIPS_AND_METADATA, KIND: "COPY_ON_WRITE", OPERATION: "bulk_insert"}
    rows = rows_of(MANY, 1).slice(0, 2 * MANY)
    PenstockSide(spark, folder / "rows").write(
        str(folder / "table"), rows, {**options, "hoodie.bulkinsert.shuffle.parallelism": "2"}
    )
    path = moto.path()
    key = path.rpartition("/")[2]
    client = s3_client(moto)
    for file in (folder / "table").rglob("*"):
        if file.is_file() and not file.name.endswith(".crc"):
            client.put_object(Bucket=moto.authority, Key=f"{key}/{file.relative_to(folder / 'table')}", Body=file.read_bytes())
    shutil.rmtree(folder)
    return path


def test_a_small_change_of_a_table_of_many_partitions(side: PenstockSide, many_partitions: str, proxy: CountingProxy) -> None:
    forget_instants()  # as in a process that has never seen the table
    proxy.reset()
    side.write(many_partitions, of_one_partition(MANY, 2), {**TRIPS_AND_METADATA, KIND: "COPY_ON_WRITE"})
    assert proxy.total <= 40, proxy.counts
    commit = commit_of(proxy.requests)
    assert len(commit) <= 6, [request.kind for request in commit]


def test_a_query_of_one_partition_of_many(side: PenstockSide, many_partitions: str, proxy: CountingProxy) -> None:
    state = penstock.Table.open(many_partitions)._state()
    query = replace(parse_query([many_partitions], state.options), within=("p0001",))
    forget_instants()
    proxy.reset()
    plan = plan_until_it_holds(query, state, lambda plan: plan)
    assert len(plan.all_slices) == 1
    assert proxy.total <= 3, proxy.counts


def test_a_thousand_partitions_are_listed_with_a_request_for_a_thousand_files(
    side: PenstockSide, many_partitions: str, proxy: CountingProxy
) -> None:
    proxy.reset()
    side.plan(many_partitions, "city = 'p0001'")
    assert proxy.total <= 8, proxy.counts


# --- depth: how many requests are waited for, one after the other


@pytest.fixture
def slow(proxy: CountingProxy) -> Iterator[CountingProxy]:
    proxy.delay_s = DELAY_S
    yield proxy
    proxy.delay_s = 0.0


def test_an_upsert_of_ten_partitions_waits_for_few_requests(side: PenstockSide, moto: ObjectStore, slow: CountingProxy) -> None:
    options = {**TRIPS_AND_METADATA, KIND: "COPY_ON_WRITE"}
    path = moto.path()
    rows = rows_of(10, 1).slice(0, 1_000)
    side.write(path, rows, options)
    slow.reset()
    side.write(path, rows_of(10, 2).slice(0, 1_000), options)
    assert slow.depth * LATENCY_S <= 1.0, (slow.depth, slow.counts)


def test_a_thousand_footers_are_read_together(moto: ObjectStore, many_partitions: str, slow: CountingProxy) -> None:
    storage, base_files = _base_files(moto, many_partitions, slow)
    slow.reset()
    keys = WantedKeys(pa.array(["0", "no such key"]))
    found = look_up(storage, base_files, keys, Pruning(ranges=True, blooms=True))
    assert sum(len(each.key) for each in found) == 1
    assert slow.total >= MANY
    assert slow.depth * LATENCY_S <= 3.0, slow.depth  # one after the other they would be more than a thousand


def _base_files(store: ObjectStore, path: str, proxy: CountingProxy) -> tuple[Storage, list[BaseFile]]:
    """Return the table's storage behind the proxy, and its base files, one of each partition."""
    storage, base = open_storage(path, store.through(proxy.port))
    files: dict[str, BaseFile] = {}
    for file in storage.list_tree(base):
        if file.name.endswith(".parquet"):
            files.setdefault(file.path.rpartition("/")[0], BaseFile(file.path, "", "", file.size_bytes))
    return storage, list(files.values())
