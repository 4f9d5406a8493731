"""Catalog sync after a write and on its own: on a real Hive metastore, and on a catalog in memory that counts its calls."""

from __future__ import annotations

import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import penstock
from penstock.errors import CatalogConflict, CatalogError, OptionError, Unsupported
from penstock.hive_metastore import Metastore
from penstock.sync import CatalogPartition
from penstock.sync.metastore_client import MetastoreClient
from tests.kit.memory_catalog import MemoryCatalog
from tests.kit.metastore import RunningMetastore
from tests.table.tables import BULK, SIX, snapshot, trips, values, write

SYNC = "hoodie.datasource.hive_sync."
TOOL = "hoodie.meta.sync.client.tool.class"
NOWHERE = {SYNC + "enable": "true", SYNC + "mode": "hms", SYNC + "metastore.uris": "thrift://127.0.0.1:1"}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}


@pytest.fixture
def database() -> str:
    """The name of a database that does not exist yet."""
    return f"db_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def catalog() -> Iterator[MemoryCatalog]:
    """A catalog in memory, registered as the sync tool `memory`."""
    catalog = MemoryCatalog()
    penstock.sync_tool("memory")(lambda settings: catalog)
    yield catalog


def in_memory(**more: str) -> dict[str, str]:
    return {"hoodie.datasource.meta.sync.enable": "true", TOOL: "memory", **more}


def partitions_of(metastore: RunningMetastore, database: str, table: str = "trips") -> list[str]:
    return [partition.values[0] for partition in metastore.partitions(database, table)]


def commits(path: str) -> list[str]:
    return sorted(entry.instant for entry in penstock.Table.open(path).history() if entry.state == "completed")


def test_a_write_registers_the_table_with_its_columns_and_partitions(
    spark: Any, table_path: str, metastore: RunningMetastore, database: str
) -> None:
    write(trips(spark, *SIX), table_path, {**BULK, **metastore.options(database)})
    found = metastore.table(database, "trips")
    assert [column.name for column in found.sd.cols[5:]] == ["id", "ts", "fare"]
    assert [key.name for key in found.partitionKeys] == ["city"]
    assert partitions_of(metastore, database) == ["berlin", "paris", "tokyo"]
    assert found.parameters["last_commit_time_sync"] == commits(table_path)[-1]
    with metastore.connection() as connection:
        assert connection.call("get_database", database).description == "automatically created by hoodie"


def test_later_writes_register_new_columns_and_partitions_and_dropped_ones_go(
    spark: Any, table_path: str, metastore: RunningMetastore, database: str
) -> None:
    options = metastore.options(database)
    write(trips(spark, *SIX), table_path, {**BULK, **options})
    columns = "id string, city string, ts bigint, fare double, note string"
    write(values(spark, columns, ("n", "oslo", 9, 1.0, "x")), table_path, {**BULK, **options})
    assert metastore.table(database, "trips").sd.cols[-1].name == "note"
    assert partitions_of(metastore, database) == ["berlin", "oslo", "paris", "tokyo"]
    assert {len(partition.sd.cols) for partition in metastore.partitions(database, "trips")} == {9}
    penstock.Table.open(table_path, options=options).delete_partitions("paris")
    assert partitions_of(metastore, database) == ["berlin", "oslo", "tokyo"]
    # A full comparison neither brings back the deleted partition, whose files are still there, nor drops another one.
    (synced,) = penstock.Table.open(table_path, options=options).sync({"hoodie.meta.sync.incremental": "false"})
    assert (synced.added, synced.moved, synced.dropped, synced.changes) == (0, 0, 0, ())


def test_a_widened_column_a_moved_partition_and_buckets_are_registered(
    spark: Any, table_path: str, metastore: RunningMetastore, database: str
) -> None:
    spec = "CLUSTERED BY (`id`) SORTED BY (n DESC) INTO 8 BUCKETS"
    options = metastore.options(database, bucket_sync="true", bucket_sync_spec=spec)
    write(values(spark, "id string, city string, ts bigint, n int", ("a", "oslo", 1, 1)), table_path, {**BULK, **options})
    found = metastore.table(database, "trips").sd
    assert (found.numBuckets, found.bucketCols, [(each.col, each.order) for each in found.sortCols]) == (8, ["id"], [("n", 0)])
    write(values(spark, "id string, city string, ts bigint, n bigint", ("b", "rome", 1, 1)), table_path, {**BULK, **options})
    columns = {column.name: column.type for column in metastore.table(database, "trips").sd.cols}
    assert columns["n"] == "bigint"
    for partition in metastore.partitions(database, "trips"):
        assert {column.name: column.type for column in partition.sd.cols} == columns
    client = MetastoreClient(metastore.connection())
    entry = client.get_table(database, "trips")
    assert entry is not None
    client.move_partitions(database, entry, [CatalogPartition(("oslo",), "file:/elsewhere/oslo")])
    client.close()
    table = penstock.Table.open(table_path, options=options)
    (synced,) = table.sync({"hoodie.meta.sync.incremental": "false"})
    assert (synced.added, synced.moved, synced.dropped, synced.changes) == (0, 1, 0, ())
    locations = [partition.sd.location for partition in metastore.partitions(database, "trips")]
    assert locations == [f"file:{table_path}/{city}" for city in ("oslo", "rome")]


def test_a_merge_on_read_table_has_three_entries(spark: Any, table_path: str, metastore: RunningMetastore, database: str) -> None:
    write(trips(spark, *SIX), table_path, {**BULK, **MERGE_ON_READ, **metastore.options(database)})
    assert metastore.tables(database) == ["trips", "trips_ro", "trips_rt"]
    flags = {name: metastore.table(database, name).sd.serdeInfo.parameters["hoodie.query.as.ro.table"] for name in
             metastore.tables(database)}  # fmt: skip
    assert flags == {"trips": "false", "trips_ro": "true", "trips_rt": "false"}
    assert partitions_of(metastore, database, "trips_ro") == ["berlin", "paris", "tokyo"]


def test_one_new_partition_takes_the_same_number_of_requests_whatever_the_number_of_partitions(
    spark: Any, tmp_path: Path, metastore: RunningMetastore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    plain = Metastore.call
    for size in (3, 500):
        path = str(tmp_path / f"table{size}")
        options = metastore.options(database, table=f"t{size}")
        write(trips(spark, SIX[0]), path, BULK)
        for number in range(size):
            folder = Path(path, f"city{number}")
            folder.mkdir()
            (folder / ".hoodie_partition_metadata").touch()
        assert [entry.added for entry in penstock.Table.open(path, options=options).sync()] == [size + 1]
        calls: Counter[str] = Counter()

        def count(self: Metastore, function: str, *arguments: object, counted: Counter[str] = calls) -> Any:
            counted[function] += 1
            return plain(self, function, *arguments)

        with monkeypatch.context() as patched:
            patched.setattr(Metastore, "call", count)
            write(trips(spark, ("n", "oslo", 9, 1.0)), path, {**BULK, **options})
        assert "oslo" in partitions_of(metastore, database, f"t{size}")
        counts.append(calls)
    assert counts[0] == counts[1] == {
        "get_database": 2,  # before and after the commit
        "get_table": 2,
        "get_partitions_by_names": 1,
        "add_partitions_req": 1,
        "alter_table_with_environment_context": 1,
    }  # fmt: skip


def test_a_sync_after_a_write_lists_no_partition(spark: Any, table_path: str, catalog: MemoryCatalog, monkeypatch: Any) -> None:
    write(trips(spark, *SIX), table_path, {**BULK, **in_memory()})
    monkeypatch.setattr("penstock.sync.changes.list_partitions", None)
    write(trips(spark, ("n", "oslo", 9, 1.0)), table_path, {**BULK, **in_memory()})
    assert ("oslo",) in catalog.partitions["default", "trips"]


def test_a_metastore_that_is_down_costs_no_row_and_the_sync_can_be_run_again(
    spark: Any, table_path: str, metastore: RunningMetastore, database: str
) -> None:
    with pytest.warns(RuntimeWarning, match=r"no Hive metastore answers at thrift://127.0.0.1:1 .*penstock sync"):
        write(trips(spark, *SIX), table_path, {**BULK, **NOWHERE})
    assert len(snapshot(spark, table_path)) == 6
    (synced,) = penstock.Table.open(table_path).sync(metastore.options(database))
    assert synced.is_new
    assert partitions_of(metastore, database) == ["berlin", "paris", "tokyo"]


def test_a_metastore_that_is_down_may_be_ignored(spark: Any, table_path: str) -> None:
    with pytest.warns(RuntimeWarning, match="does nothing, because hoodie.datasource.hive_sync.ignore_exceptions=true"):
        write(trips(spark, *SIX), table_path, {**BULK, **NOWHERE, SYNC + "ignore_exceptions": "true"})


def test_a_type_that_the_catalog_cannot_change_stops_the_commit(spark: Any, tmp_path: Path, catalog: MemoryCatalog) -> None:
    path = str(tmp_path / "table")
    write(trips(spark, *SIX), path, {**BULK, **in_memory()})
    before = commits(path)
    other = spark.sql("select 'a' as id, 'oslo' as city, 1L as ts, 'cheap' as fare")
    with pytest.raises(CatalogConflict, match="column 'fare' of table 'trips' is double in the catalog and string"):
        write(other, path, {**BULK, **in_memory()}, mode="overwrite")
    assert commits(path) == before


def test_an_entry_of_another_table_stops_the_commit(
    spark: Any, tmp_path: Path, metastore: RunningMetastore, database: str
) -> None:
    write(trips(spark, *SIX), str(tmp_path / "first"), {**BULK, **metastore.options(database)})
    with pytest.raises(CatalogConflict, match="choose another name by hoodie.datasource.hive_sync.table"):
        write(trips(spark, *SIX), str(tmp_path / "second"), {**BULK, **metastore.options(database)})
    assert not penstock.Table.exists(tmp_path / "second")


def test_partition_paths_that_do_not_fit_the_extractor_stop_the_commit(spark: Any, table_path: str) -> None:
    extractor = {SYNC + "partition_extractor_class": "org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor"}
    with pytest.raises(OptionError, match="SinglePartPartitionValueExtractor would fit this path"):
        write(trips(spark, *SIX), table_path, {**BULK, **NOWHERE, **extractor})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({SYNC + "metastore.uris": "localhost:9083"}, "expected thrift://host:9083"),
        ({TOOL: "org.apache.hudi.sync.datahub.DataHubSyncTool"}, "@penstock.sync_tool"),
        ({SYNC + "partition_extractor_class": "com.example.Mine"}, "partition_extractor_class"),
        ({SYNC + "table_properties": "nonsense"}, "expected key=value"),
        ({SYNC + "mode": "carrier-pigeon"}, "allowed: hms"),
        (
            {SYNC + "assume_date_partitioning": "true"},
            "assume_date_partitioning' is 'true', which Penstock does not support: leave it out",
        ),
    ],
)
def test_bad_options_are_found_before_the_commit(spark: Any, table_path: str, options: dict[str, str], message: str) -> None:
    with pytest.raises((OptionError, Unsupported), match=message):
        write(trips(spark, *SIX), table_path, {**BULK, **NOWHERE, **options})
    assert not penstock.Table.exists(table_path)


def test_a_database_that_may_not_be_created_stops_the_commit(
    spark: Any, table_path: str, metastore: RunningMetastore, database: str
) -> None:
    with pytest.raises(CatalogConflict, match=f"database '{database}' does not exist in the catalog"):
        write(trips(spark, *SIX), table_path, {**BULK, **metastore.options(database, auto_create_database="false")})


def test_all_tools_run_even_if_one_fails(spark: Any, table_path: str, catalog: MemoryCatalog) -> None:
    broken = MemoryCatalog(is_broken=True)
    penstock.sync_tool("broken")(lambda settings: broken)
    with pytest.warns(RuntimeWarning, match="broken: the catalog is broken"):
        write(trips(spark, *SIX), table_path, {**BULK, **in_memory(**{TOOL: "broken,memory"})})
    assert list(catalog.tables) == [("default", "trips")]


def test_an_error_of_any_type_in_a_tool_of_a_user_costs_no_row_and_the_next_tool_runs(
    spark: Any, table_path: str, catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: MemoryCatalog, call: str) -> None:
        raise ConnectionResetError("the peer is gone\nat a line of a stack")

    broken = type("Broken", (MemoryCatalog,), {"_count": fail})()
    penstock.sync_tool("unreachable")(lambda settings: broken)
    with pytest.warns(RuntimeWarning, match="sync tool unreachable failed: ConnectionResetError: the peer is gone"):
        write(trips(spark, *SIX), table_path, {**BULK, **in_memory(**{TOOL: "unreachable,memory"})})
    assert snapshot(spark, table_path) == sorted(SIX, key=repr)
    assert list(catalog.tables) == [("default", "trips")]


def test_a_tool_that_returns_no_client_is_reported(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path)
    penstock.sync_tool("nothing")(lambda settings: object())
    with pytest.raises(OptionError, match="sync tool 'nothing' returned a object without the methods has_database"):
        penstock.Table.open(table_path).sync({TOOL: "nothing"})


def test_a_sync_of_an_unchanged_table_stores_no_commit_time_if_it_is_conditional(
    spark: Any, table_path: str, catalog: MemoryCatalog
) -> None:
    conditional = in_memory(**{"hoodie.datasource.meta_sync.condition.sync": "true"})
    write(trips(spark, *SIX), table_path, {**BULK, **conditional})
    first = catalog.tables["default", "trips"].properties["last_commit_time_sync"]
    write(trips(spark, ("z", "berlin", 9, 1.0)), table_path, {**BULK, **conditional})
    assert catalog.tables["default", "trips"].properties["last_commit_time_sync"] == first
    write(trips(spark, ("z", "berlin", 9, 1.0)), table_path, {**BULK, **in_memory()})
    assert catalog.tables["default", "trips"].properties["last_commit_time_sync"] == commits(table_path)[-1]


def test_a_restore_is_followed_by_a_full_comparison(spark: Any, table_path: str, catalog: MemoryCatalog) -> None:
    table = penstock.Table.open
    write(trips(spark, *SIX), table_path, {**BULK, **in_memory()})
    table(table_path).savepoint()
    write(trips(spark, ("n", "oslo", 9, 1.0)), table_path, {**BULK, **in_memory()})
    assert ("oslo",) in catalog.partitions["default", "trips"]
    table(table_path).restore(commits(table_path)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table(table_path).sync(in_memory())
    paths = {values[0] for values in catalog.partitions["default", "trips"]}
    assert {"berlin", "paris", "tokyo"} <= paths


def test_mode_hiveql_needs_a_session_with_hive_support(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path)
    with pytest.raises(OptionError, match="needs a Spark session with Hive support"):
        penstock.Table.open(table_path).sync({SYNC + "mode": "hiveql"})


def test_glue_registers_a_table(
    spark: Any, table_path: str, glue: dict[str, str], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    for name, value in glue.items():
        monkeypatch.setenv(name, value)
    tool = {TOOL: "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool", SYNC + "database": database}
    write(trips(spark, *SIX), table_path, {**BULK, **tool, "hoodie.datasource.meta.sync.enable": "true"})
    client = boto3.client("glue")
    found = client.get_table(DatabaseName=database, Name="trips")["Table"]
    assert found["Parameters"]["last_commit_time_sync"] == commits(table_path)[-1]
    assert found["PartitionKeys"] == [{"Name": "city", "Type": "string", "Comment": ""}]
    partitions = client.get_partitions(DatabaseName=database, TableName="trips")["Partitions"]
    assert sorted(partition["Values"][0] for partition in partitions) == ["berlin", "paris", "tokyo"]


def test_a_sync_may_run_twice_for_one_commit(spark: Any, table_path: str, catalog: MemoryCatalog) -> None:
    """This is the contract of hooks, `tests/contract/test_hooks.py`: after a crash a hook may be called again."""
    write(trips(spark, *SIX), table_path, {**BULK, **in_memory()})
    once = (dict(catalog.tables), {name: dict(found) for name, found in catalog.partitions.items()})
    penstock.Table.open(table_path).sync(in_memory())
    assert (catalog.tables, catalog.partitions) == once


def test_the_command_line_syncs(spark: Any, table_path: str, metastore: RunningMetastore, database: str) -> None:
    import typer

    from penstock.cli.commands import sync

    write(trips(spark, *SIX), table_path)
    app = typer.Typer()
    app.command()(sync.sync)
    arguments = [part for key, value in metastore.options(database).items() for part in ("-o", f"{key}={value}")]
    done = CliRunner().invoke(app, [table_path, *arguments])
    assert done.exit_code == 0, done.output
    assert "created" in done.output
    with pytest.raises(CatalogError, match="no Hive metastore answers"):
        CliRunner().invoke(app, [table_path, "-o", f"{SYNC}mode=hms", "-o", f"{SYNC}metastore.uris=thrift://127.0.0.1:1"],
                           catch_exceptions=False)  # fmt: skip
