"""The guard of the fast path: the counts of fixed small writes are the same on every machine.

A count that changes is not wrong by itself. One that grows says that an optimisation was lost; put it right, or change the
figure here in the commit that explains why. The last tests switch optimisations off and see the guard notice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.storage import STORAGES, FileInfo, LocalStorage
from tests.kit.counting import CountingStorage, Counts, counted
from tests.table.tables import KEY, NAME, OPERATION, ORDERING, PARTITION

INDEX = "hoodie.index.type"
OPTIONS = {NAME: "trips", KEY: "id", PARTITION: "city", ORDERING: "ts"}
#: No batch is small enough for the driver.
SPREAD = {"penstock.small.batch.rows": "0"}
LOGGED = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
CITIES = 4
#: Commit time, sequence number and key; then id, city, ts and fare. Path and file name are not read, they are put in again.
COLUMNS = 7
#: id 8 characters and its offset, city 5 and its offset, two numbers, and the key once more.
ROW_BYTES = (8 + 4) + (5 + 4) + 8 + 8 + (8 + 4)
#: The sizes of tables of which a small write or read must cost the same. `make test-many-partitions` has larger ones.
FEW_AND_MANY_PARTITIONS = [int(number) for number in os.environ.get("PENSTOCK_TEST_PARTITIONS", "20,200").split(",")]
NOTHING = Counts(jobs=0, tasks=0, opened=0, chunks=0, crossed=0, staged_rows=0, staged_bytes=0, written=0, listed=0)

Write = Callable[..., Counts]


@pytest.fixture(autouse=True)
def _classic(session_kind: str) -> None:
    if session_kind != "classic":
        pytest.skip("jobs and tasks are counted through the classic session")


@pytest.fixture
def write(spark: Any, table_path: str, tmp_path: Path) -> Write:
    """Runs a write of rows and returns its counts."""

    def run(operation: str, rows: Any, suffix: str = "", **options: str) -> Counts:
        with counted(spark, tmp_path / "counts") as account:
            writer = rows.write.format("hudi").options(**{**OPTIONS, OPERATION: operation, **options})
            writer.mode("append").save(f"count:{table_path}{suffix}")
        return account.counts

    return run


def trips(spark: Any, first: int, last: int, *, cities: int = CITIES, tasks: int = 2, ts: int = 1) -> Any:
    """Return rows with keys in a range, spread over the cities in turn, from the given number of Spark tasks."""
    return spark.range(first, last, 1, tasks).selectExpr(
        "lpad(cast(id as string), 8, '0') as id",
        f"concat('city', cast(id % {cities} as string)) as city",
        f"cast({ts} as bigint) as ts",
        "cast(id as double) as fare",
    )


@pytest.fixture
def spread_table(spark: Any, write: Write) -> None:
    """Four partitions of one file group each."""
    write("bulk_insert", trips(spark, 0, 4_000, tasks=1))


@pytest.fixture
def grouped_table(spark: Any, write: Write) -> None:
    """One partition of six file groups, each with its range of keys."""
    write("bulk_insert", trips(spark, 0, 6_000, cities=1, tasks=6))


def batch(rows: int) -> dict[str, int]:
    """Return the counts of staging a batch of the given number of rows."""
    return {"crossed": rows, "staged_rows": rows, "staged_bytes": rows * ROW_BYTES}


def test_a_bulk_insert_is_one_job_and_opens_nothing(spark: Any, write: Write) -> None:
    found = write("bulk_insert", trips(spark, 0, 4_000, tasks=2))
    assert found == replace(NOTHING, jobs=1, tasks=2, crossed=4_000, written=2 * CITIES, listed=CITIES)


@pytest.mark.usefixtures("spread_table")
def test_an_upsert_stages_once_and_reads_each_base_file_once(spark: Any, write: Write) -> None:
    found = write("upsert", trips(spark, 0, 1_000, ts=2), **SPREAD)
    touched = {"opened": CITIES, "chunks": CITIES * COLUMNS, "written": CITIES, "listed": CITIES}
    assert found == Counts(jobs=2, tasks=2 + CITIES, **touched, **batch(1_000))


@pytest.mark.usefixtures("spread_table")
def test_a_small_upsert_starts_only_the_tasks_that_bring_its_rows(spark: Any, write: Write) -> None:
    found = write("upsert", trips(spark, 0, 1_000, ts=2))
    touched = {"opened": CITIES, "chunks": CITIES * COLUMNS, "written": CITIES, "listed": CITIES}
    assert found == Counts(jobs=1, tasks=2, **touched, **batch(1_000))


@pytest.mark.usefixtures("spread_table")
def test_an_upsert_of_one_partition_does_not_touch_the_others(spark: Any, write: Write) -> None:
    found = write("upsert", trips(spark, 0, 500, cities=1, ts=2))
    assert found == Counts(jobs=1, tasks=2, opened=1, chunks=COLUMNS, written=1, listed=1, **batch(500))


@pytest.mark.usefixtures("spread_table")
def test_an_upsert_of_new_keys_reads_as_much_as_an_upsert_of_known_keys(spark: Any, write: Write) -> None:
    found = write("upsert", trips(spark, 8_000, 9_000, ts=2), **SPREAD)
    touched = {"opened": CITIES, "chunks": CITIES * COLUMNS, "written": CITIES, "listed": CITIES}
    assert found == Counts(jobs=2, tasks=2 + CITIES, **touched, **batch(1_000))


@pytest.mark.usefixtures("spread_table")
def test_only_the_keys_of_a_delete_cross_into_python(spark: Any, write: Write) -> None:
    found = write("delete", trips(spark, 0, 400), **SPREAD)
    # every file is opened to see whether it holds any of the keys, and then to be rewritten
    touched = {"opened": 2 * CITIES, "chunks": CITIES * (1 + COLUMNS), "written": CITIES, "listed": CITIES}
    assert found == Counts(jobs=2, tasks=2 + CITIES, **touched, crossed=400, staged_rows=400, staged_bytes=400 * 2 * (8 + 4))


@pytest.mark.usefixtures("grouped_table")
def test_tagging_reads_one_column_and_the_merge_only_what_is_touched(spark: Any, write: Write) -> None:
    found = write("upsert", trips(spark, 0, 600, cities=1, ts=2), **SPREAD, **{INDEX: "SIMPLE"})
    # tag: one task, six key columns; new rows: on the driver; merge: the one group that holds these keys
    assert found == Counts(jobs=3, tasks=2 + 2, opened=6 + 1, chunks=6 + COLUMNS, written=1, listed=1, **batch(600))


@pytest.mark.usefixtures("grouped_table")
def test_key_ranges_spare_the_key_columns_of_files_that_cannot_match(spark: Any, write: Write) -> None:
    found = write("upsert", trips(spark, 0, 600, cities=1, ts=2), **SPREAD, **{INDEX: "BLOOM"})
    assert found == Counts(jobs=3, tasks=2 + 2, opened=6 + 1, chunks=1 + COLUMNS, written=1, listed=1, **batch(600))


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_upsert_into_buckets_has_no_job_that_looks_for_keys(spark: Any, write: Write, kind: str) -> None:
    buckets = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "2", "hoodie.datasource.write.table.type": kind}
    write("bulk_insert", trips(spark, 0, 4_000, cities=1), **buckets)
    found = write("upsert", trips(spark, 0, 600, cities=1, ts=2), **SPREAD, **buckets)
    # a base file is read to be merged; nothing at all is read where rows go to logs
    files, logs = (2, 0) if kind == "COPY_ON_WRITE" else (0, 2)
    touched = {"opened": files, "chunks": files * COLUMNS, "written": files, "listed": 1, "logs_written": logs}
    assert found == Counts(jobs=2, tasks=2 + 2, **touched, **batch(600))


def test_an_upsert_into_buckets_does_less_than_one_that_looks_for_keys_in_as_many_file_groups(spark: Any, write: Write) -> None:
    buckets, groups = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "4"}, 4
    rows, changes = trips(spark, 0, 4_000, cities=1, tasks=groups), trips(spark, 0, 4_000, cities=1, ts=2).where("fare % 10 = 0")
    write("bulk_insert", rows, "-plain")
    write("bulk_insert", rows, "-buckets", **buckets)
    simple = write("upsert", changes, "-plain", **SPREAD, **{INDEX: "SIMPLE"})
    found = write("upsert", changes, "-buckets", **SPREAD, **buckets)
    assert (simple.written, simple.staged_rows) == (groups, 400)
    # no job that looks for keys, no file opened twice, no column read twice; and the rows cross and are kept as they are there
    assert found == replace(
        simple, jobs=simple.jobs - 1, tasks=simple.tasks - 1, opened=simple.opened - groups, chunks=simple.chunks - groups
    )


@pytest.mark.usefixtures("spread_table")
def test_a_count_of_one_partition_reads_that_partition(spark: Any, table_path: str, tmp_path: Path) -> None:
    with counted(spark, tmp_path / "counts") as account:
        assert spark.read.format("hudi").load(table_path).where("city = 'city1'").count() == 1_000
    assert (account.counts.jobs, account.counts.tasks) == (2, 2)


@pytest.mark.usefixtures("spread_table")
def test_changes_of_one_partition_read_that_partition(spark: Any, write: Write, table_path: str, tmp_path: Path) -> None:
    before = penstock.Table.open(table_path, spark).history()[0].instant
    write("upsert", trips(spark, 0, 500, cities=1, ts=2))
    with counted(spark, tmp_path / "counts") as account:
        query = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": before}
        assert spark.read.format("hudi").options(**query).load(table_path).count() == 500
    assert (account.counts.jobs, account.counts.tasks) == (2, 2)


@pytest.mark.usefixtures("spread_table")
def test_the_guard_notices_when_tagging_is_no_longer_done_with_the_merge(
    spark: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = write("upsert", trips(spark, 0, 1_000, ts=2), **SPREAD)
    monkeypatch.setattr("penstock.write.locate.file_group_tasks._INCOMING_BYTES_PER_TASK", 0)
    apart = write("upsert", trips(spark, 0, 1_000, ts=3), **SPREAD)
    assert apart.jobs > usual.jobs
    assert apart.opened == 2 * usual.opened
    assert apart.chunks == usual.chunks + CITIES


@pytest.mark.usefixtures("spread_table")
def test_the_guard_notices_when_small_batches_go_through_spark(spark: Any, write: Write) -> None:
    usual = write("upsert", trips(spark, 0, 1_000, ts=2))
    spread = write("upsert", trips(spark, 0, 1_000, ts=3), **SPREAD)
    assert spread == replace(usual, jobs=usual.jobs + 1, tasks=usual.tasks + CITIES)


class _Sure:
    """A bloom filter that rules no key out."""

    def might_contain(self, keys: Any) -> Any:
        return np.ones(len(keys), np.bool_)


@pytest.mark.usefixtures("grouped_table")
def test_the_guard_notices_when_key_ranges_are_not_used(spark: Any, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.write.locate.key_lookup.read_bloom", lambda *_: _Sure())
    keys = trips(spark, 0, 600, cities=1, ts=2)
    usual = write("upsert", keys, **{INDEX: "BLOOM"})
    monkeypatch.setattr("penstock.write.locate.key_lookup.WantedKeys.between", lambda self, *_: np.arange(len(self.keys)))
    unpruned = write("upsert", keys, **{INDEX: "BLOOM"})
    assert unpruned == replace(usual, chunks=usual.chunks + 5)


def test_the_guard_notices_when_filters_are_not_used(spark: Any, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("bulk_insert", trips(spark, 0, 6_000, cities=1, tasks=6).where("fare % 2 = 0"))
    absent = trips(spark, 0, 6_000, cities=1, ts=2).where("fare % 100 = 1")
    usual = write("delete", absent, **{INDEX: "BLOOM"})
    assert usual.chunks == 0
    monkeypatch.setattr("penstock.write.locate.key_lookup.read_bloom", lambda *_: _Sure())
    unfiltered = write("delete", absent, **{INDEX: "BLOOM"})
    assert unfiltered == replace(usual, chunks=6)


@pytest.fixture
def files(spark: Any, tmp_path: Path) -> Callable[..., Any]:
    """Returns a batch that is a read of plain Parquet files."""

    def put(first: int, last: int, **more: Any) -> Any:
        folder = str(tmp_path / f"rows-{first}-{last}")
        trips(spark, first, last, **more).write.parquet(folder)
        return spark.read.parquet(folder)

    return put


@pytest.mark.usefixtures("spread_table")
def test_no_row_of_a_parquet_file_goes_through_spark_and_the_guard_notices_if_it_does(
    write: Write, files: Callable[..., Any]
) -> None:
    rows = files(0, 1_000, ts=2)
    usual = write("upsert", rows, **SPREAD)
    through_spark = write("upsert", rows, **SPREAD, **{"penstock.direct.input": "false"})
    assert (usual.crossed, usual.staged_rows) == (0, 1_000)
    assert through_spark == replace(usual, crossed=1_000, tasks=through_spark.tasks)


def test_many_file_groups_share_some_tasks_and_the_guard_notices_if_they_do_not(
    spark: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("bulk_insert", trips(spark, 0, 4_000, cities=12, tasks=1))
    usual = write("upsert", trips(spark, 0, 1_200, cities=12, ts=2), **SPREAD)
    assert usual.tasks == 2 + 8
    monkeypatch.setattr("penstock.workers.run_kernels._parts", lambda _, tasks: tasks)
    apart = write("upsert", trips(spark, 0, 1_200, cities=12, ts=3), **SPREAD)
    assert apart == replace(usual, tasks=2 + 12)


@pytest.fixture
def logged_table(spark: Any, write: Write) -> Counts:
    """Four partitions of one base file with a log each. The value is the counts of the write of the logs."""
    write("bulk_insert", trips(spark, 0, 4_000, tasks=1), **LOGGED)
    return write("upsert", trips(spark, 0, 1_000, ts=2), **SPREAD, **LOGGED)


def test_an_upsert_into_logs_reads_keys_alone(logged_table: Counts) -> None:
    touched = {"opened": CITIES, "chunks": CITIES, "written": 0, "listed": CITIES, "logs_written": CITIES}
    assert logged_table == Counts(jobs=2, tasks=2 + CITIES, **touched, **batch(1_000))


@pytest.mark.usefixtures("logged_table")
def test_a_compaction_reads_and_writes_each_file_once(spark: Any, write: Write) -> None:
    now = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    found = write("upsert", trips(spark, 0, 4, ts=3), **LOGGED, **now)
    # the write opens a base file to see where its key stands; the compaction for its key filter, and to read it whole with its logs
    assert (found.opened, found.chunks, found.written) == (3 * CITIES, CITIES * (1 + COLUMNS), CITIES)
    assert (found.logs_opened, found.logs_written) == (2 * 2 * CITIES, CITIES)  # headers first, then what counts


@pytest.mark.usefixtures("logged_table")
def test_base_files_below_logs_are_left_to_spark_and_the_guard_notices_if_they_are_not(
    spark: Any, table_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.read.log_headers._LARGE_BASE_BYTES", 0)

    def snapshot() -> Counts:
        with counted(spark, tmp_path / "counts") as account, monkeypatch.context() as plain_paths:
            plain_paths.setitem(STORAGES, "", STORAGES["count"])
            assert spark.read.format("hudi").load(table_path).where("ts = 2").count() == 1_000
        return account.counts

    usual = snapshot()
    assert (usual.opened, usual.chunks) == (0, 0)
    monkeypatch.setattr("penstock.read.log_slices._choose_skipped_rows", lambda *_: {})
    in_workers = snapshot()
    assert (in_workers.opened, in_workers.chunks > CITIES) == (CITIES, True)


@pytest.mark.usefixtures("logged_table")
@pytest.mark.parametrize("large_base_bytes", [0, 1 << 40], ids=["base files by Spark", "base files by workers"])
def test_a_snapshot_opens_each_log_once_for_its_headers_and_once_for_its_rows(
    spark: Any, table_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_base_bytes: int
) -> None:
    monkeypatch.setattr("penstock.read.log_headers._LARGE_BASE_BYTES", large_base_bytes)
    with counted(spark, tmp_path / "counts") as account, monkeypatch.context() as plain_paths:
        plain_paths.setitem(STORAGES, "", STORAGES["count"])
        assert spark.read.format("hudi").load(table_path).where("ts = 2").count() == 1_000
    assert account.counts.logs_opened == 2 * CITIES


@pytest.mark.usefixtures("spread_table")
def test_an_upsert_reads_the_bytes_of_the_columns_it_needs(spark: Any, write: Write, table_path: str) -> None:
    stored = [pq.read_metadata(file) for file in Path(table_path).glob("*/*.parquet")]
    chunks = [meta.row_group(0).column(i) for meta in stored for i in range(meta.num_columns)]
    put_in_again = {"_hoodie_partition_path", "_hoodie_file_name"}
    needed = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema not in put_in_again)
    assert write("upsert", trips(spark, 0, 1_000, ts=2), **SPREAD).chunk_bytes == needed


def many_partitions(spark: Any, write: Write, suffix: str, partitions: int) -> Counts:
    """Write two rows to each of so many partitions of a new table, and return the counts."""
    return write("upsert", trips(spark, 0, 2 * partitions, cities=partitions), suffix, **SPREAD)


@pytest.fixture
def count_one_partition(spark: Any, table_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Counts]:
    """Counts the rows of one partition, named by its path, of the table with a suffix, and returns the work of that."""

    def run(suffix: str) -> Counts:
        with counted(spark, tmp_path / "counts") as account, monkeypatch.context() as plain_paths:
            plain_paths.setitem(STORAGES, "", STORAGES["count"])
            assert spark.read.format("hudi").load(f"{table_path}{suffix}/city7").count() == 2
        return account.counts

    return run


def test_an_upsert_of_one_row_and_a_count_of_one_partition_cost_the_same_however_many_partitions_there_are(
    spark: Any, write: Write, count_one_partition: Callable[[str], Counts]
) -> None:
    """The first upsert after the load reads the load's commit, which grows with it; it is one file, whatever it holds."""
    upserts, reads = {}, {}
    few, many = FEW_AND_MANY_PARTITIONS
    for partitions in (few, many):
        suffix = f"-{partitions}"
        many_partitions(spark, write, suffix, partitions)
        upserts[partitions] = [write("upsert", trips(spark, 7, 8, tasks=1, ts=ts, cities=partitions), suffix) for ts in (2, 3)]
        reads[partitions] = count_one_partition(suffix)
    assert upserts[few] == upserts[many]
    assert [counts.calls for counts in upserts[few]] == [counts.calls for counts in upserts[many]]
    assert (upserts[many][0].jobs, upserts[many][0].opened, upserts[many][0].listed) == (1, 1, 1)
    assert reads[few] == reads[many]
    assert reads[few].calls == reads[many].calls
    assert reads[many].listed == 1


def test_the_guard_notices_when_a_small_upsert_lists_every_partition(
    spark: Any, write: Write, table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_partitions(spark, write, "", 20)
    usual = write("upsert", trips(spark, 7, 8, tasks=1, ts=2))
    plain_list = CountingStorage.list

    def list_all(self: CountingStorage, path: str) -> list[FileInfo]:
        """List a partition, and all others too."""
        for folder in LocalStorage().list(table_path) if path.startswith(f"{table_path}/city") else []:
            plain_list(self, folder.path)
        return plain_list(self, path)

    monkeypatch.setattr(CountingStorage, "list", list_all)
    assert write("upsert", trips(spark, 7, 8, tasks=1, ts=3)).calls >= usual.calls + 20


def test_tasks_of_many_partitions_sync_their_files_together_and_share_batches(spark: Any, write: Write) -> None:
    found = many_partitions(spark, write, "", 40)
    # 2 Spark tasks stage the rows; 8 write 5 partitions each
    assert (found.jobs, found.tasks, found.written) == (2, 2 + 8, 40)
    assert found.syncs == 8
    assert found.staged_batches == 2
