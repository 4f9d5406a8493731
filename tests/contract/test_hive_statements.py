"""Modes `jdbc` and `hiveql` of catalog sync, from a table to its entry: on Spark's Thrift Server, and on a session with Hive support."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import CatalogError
from tests.kit.hive_server import RunningHiveServer
from tests.kit.metastore import RunningMetastore
from tests.table.tables import SIX, trips, write


@pytest.fixture
def database() -> str:
    """The name of a database that does not exist yet."""
    return f"db_{uuid.uuid4().hex[:12]}"


def partitions_of(metastore: RunningMetastore, database: str) -> list[str]:
    return [partition.values[0] for partition in metastore.partitions(database, "trips")]


def test_statements_of_hive_server_register_a_table(
    spark: Any, table_path: str, metastore: RunningMetastore, hive_server: RunningHiveServer, database: str
) -> None:
    write(trips(spark, *SIX), table_path)
    options = metastore.options(database, mode="jdbc", jdbcurl=hive_server.url)
    (synced,) = penstock.Table.open(table_path).sync(options)
    assert (synced.is_new, synced.added) == (True, 3)
    found = metastore.table(database, "trips")
    assert found.sd.inputFormat == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
    assert found.parameters["spark.sql.sources.provider"] == "hudi"
    assert partitions_of(metastore, database) == ["berlin", "paris", "tokyo"]
    (again,) = penstock.Table.open(table_path).sync(options)
    assert (again.is_new, again.changes, again.added) == (False, (), 0)


def test_a_hive_server_that_is_down_is_named(spark: Any, table_path: str, metastore: RunningMetastore, database: str) -> None:
    write(trips(spark, *SIX), table_path)
    with pytest.raises(CatalogError, match="HiveServer2 does not answer at 127.0.0.1:1"):
        penstock.Table.open(table_path).sync(metastore.options(database, mode="jdbc", jdbcurl="jdbc:hive2://127.0.0.1:1"))


HIVE_SESSION = """
import sys, penstock
from pyspark.sql import SparkSession
path, uri, database, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").enableHiveSupport().config("spark.ui.enabled", "false")
builder = builder.config("spark.hadoop.hive.metastore.uris", uri).config("spark.sql.warehouse.dir", folder)
spark = penstock.enable(builder.getOrCreate())
options = {"hoodie.datasource.hive_sync.mode": "hiveql", "hoodie.datasource.hive_sync.database": database}
print("SYNCED", [(t.name, t.is_new, t.added) for t in penstock.Table.open(path, spark=spark).sync(options)])
print("FOUND", [row.tableName for row in spark.sql(f"show tables in {database}").collect()])
"""


def test_a_spark_session_with_hive_support_registers_a_table_in_its_own_metastore(
    spark: Any, table_path: str, tmp_path: Path, metastore: RunningMetastore, database: str
) -> None:
    write(trips(spark, *SIX), table_path)
    arguments = [table_path, metastore.uri, database, str(tmp_path / "warehouse")]
    done = subprocess.run(
        [sys.executable, "-c", HIVE_SESSION, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300
    )
    assert "SYNCED [('trips', True, 3)]\nFOUND ['trips']" in done.stdout, done.stdout + done.stderr[-3000:]
    assert metastore.table(database, "trips").sd.inputFormat == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
    assert partitions_of(metastore, database) == ["berlin", "paris", "tokyo"]
