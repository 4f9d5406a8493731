"""The main features on every kind of session: classic, Connect, and executors in processes of their own.

`PENSTOCK_TEST_SESSION` chooses the kind; nothing here asks for it, but for what only separate executors have.
"""

from __future__ import annotations

import importlib
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import OptionError, RecordKeyError, SchemaError, TableExists, TableNotFound, Unsupported
from penstock.registered.functions import MERGE_FUNCTIONS
from penstock.workers.run_kernels import run_over_rows
from penstock.workers.session_settings import read_storage_settings
from tests.table.tables import (
    BULK,
    HIVE_STYLE,
    INSERT,
    KEY,
    META,
    NAME,
    OPERATION,
    SIX,
    TRIPS,
    base_files,
    commits,
    load,
    snapshot,
    sorted_rows,
    spoil,
    state_of,
    stats,
    timeline,
    trips,
    write,
)

pytestmark = pytest.mark.everywhere

PAYLOAD = "hoodie.datasource.write.payload.class"
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
IN_TASKS = {"penstock.small.batch.rows": 0}


def numbers(spark: Any, rows: int = 2000, parts: int = 4) -> Any:
    """Return rows made by several tasks."""
    return spark.range(0, rows, 1, parts).selectExpr(
        "concat('k', id) as id", "concat('c', id % 3) as city", "id as ts", "id / 2 as fare"
    )


@pytest.fixture(scope="module")
def made(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bulk_insert by several tasks. Read only."""
    path = str(tmp_path_factory.mktemp("made") / "table")
    write(numbers(spark), path)
    return path


def test_a_bulk_insert_by_several_tasks_is_read_back(spark: Any, made: str) -> None:
    frame = load(spark, made)
    assert frame.columns == [*META, "id", "city", "ts", "fare"]
    assert frame.count() == frame.select("_hoodie_record_key").distinct().count() == 2000
    assert frame.selectExpr("sum(ts)", "count(distinct _hoodie_commit_seqno)").first() == (1999000, 2000)
    assert len({s["path"].rsplit("/", 1)[1].split("_")[1].split("-")[0] for s in stats(commits(made)[0])}) == 4
    assert list(Path(made, ".hoodie", ".temp").iterdir()) == []


def test_filters_selections_joins_and_sql_work_on_every_session(spark: Any, made: str) -> None:
    frame = load(spark, made)
    assert frame.where("city = 'c1'").count() == 667
    assert frame.where((frame.city == "c2") & (frame.ts < 10)).select("id").count() == 3
    assert sorted_rows(frame.groupBy("city").count()) == [("c0", 667), ("c1", 667), ("c2", 666)]
    assert frame.join(trips(spark, ("k5", "x", 1, 1.0)).select("id"), "id").select("city").first()[0] == "c2"
    frame.createOrReplaceTempView("penstock_numbers")
    assert spark.sql("select max(ts) from penstock_numbers where city = 'c0'").first()[0] == 1998


@pytest.mark.parametrize("more", [{}, IN_TASKS], ids=["driver", "tasks"])
def test_inserts_and_upserts_work_on_every_session(spark: Any, table_path: str, more: dict[str, Any]) -> None:
    write(trips(spark, *SIX[:4]), table_path, {**INSERT, **more})
    write(trips(spark, *SIX[4:]), table_path, {**INSERT, **more})
    assert snapshot(spark, table_path) == [*SIX]
    write(trips(spark, ("a", "berlin", 9, 9.5), ("z", "rome", 1, 0.5)), table_path, {**TRIPS, **more})
    assert snapshot(spark, table_path) == [("a", "berlin", 9, 9.5), *SIX[1:], ("z", "rome", 1, 0.5)]
    write(trips(spark, ("b", "berlin", 9, 0.0)), table_path, {**TRIPS, OPERATION: "delete", **more})
    assert [r[0] for r in snapshot(spark, table_path)] == ["a", "c", "d", "e", "f", "z"]
    assert [n.split(".")[1] for n in timeline(table_path) if n.endswith("commit")] == ["commit"] * 4


@pytest.mark.parametrize("mode", ["GLOBAL_SORT", "PARTITION_PATH_REPARTITION"])
def test_sorted_bulk_inserts_work_on_every_session(spark: Any, table_path: str, mode: str) -> None:
    write(numbers(spark, 500), table_path, {**BULK, "hoodie.bulkinsert.sort.mode": mode, HIVE_STYLE: "true"})
    assert load(spark, table_path).where("city = 'c1'").count() == 167
    assert {f.parent.name for f in base_files(table_path)} == {"city=c0", "city=c1", "city=c2"}


def test_other_partitions_are_not_opened(spark: Any, table_path: str) -> None:
    write(numbers(spark, 30), table_path)
    spoil(f for f in base_files(table_path) if f.parent.name != "c1")
    assert load(spark, table_path).where("city = 'c1'").count() == 10
    assert load(spark, f"{table_path}/c1").count() == 10


def test_a_file_that_is_removed_after_a_table_of_many_files_was_loaded_is_an_error(spark: Any, table_path: str) -> None:
    write(trips(spark, *((f"c{n}", f"c{n}", 1, 1.0) for n in range(40))).coalesce(1), table_path)
    frame = load(spark, table_path)
    base_files(table_path)[11].unlink()
    with pytest.raises(Exception, match=r"PATH_NOT_FOUND|FileNotFound|FILE_NOT_EXIST|does not exist"):
        frame.collect()


def test_save_modes_work_on_every_session(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path, mode="error")
    with pytest.raises(TableExists):
        write(trips(spark, *SIX), table_path, mode="error")
    write(trips(spark, SIX[0]), table_path, mode="ignore")
    assert snapshot(spark, table_path) == [*SIX]
    write(trips(spark, SIX[0]), table_path, mode="overwrite")
    assert snapshot(spark, table_path) == [SIX[0]]


@pytest.mark.parametrize("options", [BULK, {**INSERT, **IN_TASKS}], ids=["bulk_insert", "insert"])
def test_errors_keep_their_type_and_leave_the_table_as_it_was(spark: Any, table_path: str, options: dict[str, Any]) -> None:
    write(trips(spark, *SIX), table_path)
    before = state_of(table_path)
    with pytest.raises(RecordKeyError, match='for field: "id"'):
        write(trips(spark, ("x", "berlin", 1, 1.0), (None, "berlin", 1, 1.0)), table_path, options)
    with pytest.raises(RecordKeyError, match="partition path"):
        write(trips(spark, ("x", "berlin", 1, 1.0), ("y", "../etc", 1, 1.0)), table_path, options)
    with pytest.raises(SchemaError, match="fare"):
        write(trips(spark, SIX[0]).drop("fare"), table_path, options)
    with pytest.raises(OptionError, match="RecordKey"):
        write(trips(spark, SIX[0]), table_path, {**options, KEY: "ts"})
    assert state_of(table_path) == before


def test_errors_of_expressions_keep_their_type(spark: Any, table_path: str) -> None:
    frame = spark.sql("select cast(null as int) id, 'x' v")
    with pytest.raises(RecordKeyError, match='recordKey value: "null" for field: "id"'):
        write(frame, table_path, {NAME: "t", KEY: "id", OPERATION: "bulk_insert"})
    assert not Path(table_path).exists()
    with pytest.raises(TableNotFound):
        load(spark, table_path)
    with pytest.raises(Unsupported):
        load(spark, "ftp://host/table")


def test_a_payload_reaches_workers_that_do_not_have_its_package(
    spark: Any, table_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text(
        "def total(old, new):\n    return {**new, 'fare': (old or {'fare': 0})['fare'] + new['fare']}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(MERGE_FUNCTIONS, "registered", {})
    penstock.payload("total")(importlib.import_module("theirs").total)
    options = {**TRIPS, **IN_TASKS, PAYLOAD: "total", "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    write(trips(spark, *SIX), table_path, {**options, **INSERT})
    write(trips(spark, ("a", "berlin", 9, 10.0), ("a", "berlin", 8, 20.0)), table_path, options)
    assert snapshot(spark, table_path)[0] == ("a", "berlin", 9, 31.5)
    sys.modules.pop("theirs")


def failing_once(batches: Iterator[Any], flag: str) -> Iterator[Any]:
    """Yield the rows unchanged. The first task that runs this fails after its first batch."""
    for number, batch in enumerate(batches):
        yield batch
        if number == 1:
            try:
                Path(flag).touch(exist_ok=False)
            except FileExistsError:
                continue
            raise RuntimeError("broken on purpose")


@pytest.mark.cluster
@pytest.mark.parametrize("options", [BULK, INSERT, TRIPS], ids=["bulk_insert", "insert", "upsert"])
def test_a_retried_task_writes_its_rows_once(spark: Any, table_path: str, tmp_path: Path, options: dict[str, Any]) -> None:
    flag = str(tmp_path / uuid.uuid4().hex)
    rows = numbers(spark, 4000, 2)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        broken = rows.mapInArrow(lambda batches: failing_once(batches, flag), rows.schema)
        write(broken, table_path, {**options, **IN_TASKS})
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50000")
    assert Path(flag).exists()
    frame = load(spark, table_path)
    assert frame.count() == frame.select("id").distinct().count() == 4000
    named = {s["path"] for s in stats(commits(table_path)[0])}
    assert {str(f.relative_to(table_path)) for f in base_files(table_path)} == named
    assert list(Path(table_path, ".hoodie", ".temp").iterdir()) == []


def sizes(batches: Iterator[Any]) -> Iterator[int]:
    """Return how many rows each batch has. Runs in workers."""
    for batch in batches:
        yield batch.num_rows


def test_batches_for_workers_are_limited_by_rows_and_the_session_keeps_its_settings(spark: Any) -> None:
    if not spark.conf.isModifiable(BATCH_BYTES):
        pytest.skip("this Spark has no limit of bytes")
    before = spark.conf.get(BATCH_ROWS, None)
    lists = spark.range(0, 20_000, 1, 1).selectExpr("id", "cast(null as array<string>) as tags")
    assert run_over_rows(lists, sizes, int) == [16_384, 3_616]
    assert run_over_rows(lists.selectExpr("id", "cast('x' as binary) as picture"), sizes, int) == [20_000]
    assert (spark.conf.get(BATCH_ROWS, None), spark.conf.get(BATCH_BYTES, None)) == (before, None)


def test_a_limit_of_bytes_that_the_user_set_is_kept(spark: Any) -> None:
    if not spark.conf.isModifiable(BATCH_BYTES):
        pytest.skip("this Spark has no limit of bytes")
    spark.conf.set(BATCH_BYTES, "8kb")
    try:
        assert max(run_over_rows(spark.range(0, 5_000, 1, 1), sizes, int)) < 2_000
        assert spark.conf.get(BATCH_BYTES) == "8kb"
    finally:
        spark.conf.unset(BATCH_BYTES)


def test_settings_of_storages_are_read_from_the_session(spark: Any, session_kind: str) -> None:
    """Spark masks secrets in lists of settings, and PySpark 3.5 has no such list. A Connect server shows no secrets at all."""
    settings = {
        "spark.hadoop.fs.s3a.endpoint": "http://general",
        "spark.hadoop.fs.s3a.secret.key": "hidden",
        "spark.hadoop.fs.s3a.session.token": "masked",
        "fs.s3a.endpoint": "http://session",
        "spark.hadoop.dfs.nameservices": "lake",
        "penstock.storage.s3.region": "eu-west-1",
        "spark.sql.shuffle.partitions": "7",
    }
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        found = read_storage_settings(spark)
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)
    assert (found["fs.s3a.endpoint"], found["dfs.nameservices"]) == ("http://session", "lake")
    assert found["penstock.storage.s3.region"] == "eu-west-1"
    secrets = (found.get("fs.s3a.secret.key"), found.get("fs.s3a.session.token"))
    assert secrets == ((None, None) if session_kind == "connect" else ("hidden", "masked"))
    assert not any(key.startswith("spark.") for key in found)
