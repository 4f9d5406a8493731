"""The contract of catalog clients: what `penstock/sync/catalog.py` promises, on the real servers.

A new client joins with one line in `CLIENTS`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from penstock.errors import CatalogError
from penstock.hive_metastore import Metastore
from penstock.sync import CatalogClient, CatalogColumn, CatalogPartition, CatalogTable
from penstock.sync.catalog import Buckets
from penstock.sync.glue_client import GlueClient
from penstock.sync.metastore_client import MetastoreClient
from penstock.sync.statement_clients import HiveServerClient, SessionClient
from tests.kit.memory_catalog import MemoryCatalog

TABLE = CatalogTable(
    name="trips",
    location="file:/tmp/penstock-no-such-folder/trips",
    columns=(CatalogColumn("id", "string", "the key"), CatalogColumn("n", "int"), CatalogColumn("place", "struct<lat:double>")),
    partition_keys=(CatalogColumn("city", "string"), CatalogColumn("day", "string")),
    # Not Hudi's own: Spark's Thrift Server has no Hudi jar, and statements about partitions load the format.
    input_format="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    output_format="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    serde="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    serde_properties={"path": "/tmp/penstock-no-such-folder/trips", "serialization.format": "1"},
    properties={"EXTERNAL": "TRUE", "mine": 'it\'s "mine"'},
)


def partition(city: str, day: str = "2024-03-09") -> CatalogPartition:
    return CatalogPartition((city, day), f"{TABLE.location}/{city}/{day}")


BERLIN = partition("berlin")
ODD = partition("a:b=c/d'e %25")


def _memory(request: pytest.FixtureRequest) -> CatalogClient:
    return MemoryCatalog()


def _hms(request: pytest.FixtureRequest) -> CatalogClient:
    return MetastoreClient(request.getfixturevalue("metastore").connection())


def _jdbc(request: pytest.FixtureRequest) -> CatalogClient:
    connection = request.getfixturevalue("hive_server").connection()
    return HiveServerClient(request.getfixturevalue("metastore").connection(), connection)


def _hiveql(request: pytest.FixtureRequest) -> CatalogClient:
    """Return the client of a Spark session. Spark's Thrift Server runs the statements, as a session with Hive support would."""
    statements = request.getfixturevalue("hive_server").connection().cursor()
    return SessionClient(request.getfixturevalue("metastore").connection(), statements.execute)


def _glue(request: pytest.FixtureRequest) -> CatalogClient:
    monkeypatch = request.getfixturevalue("monkeypatch")
    for name, value in request.getfixturevalue("glue").items():
        monkeypatch.setenv(name, value)
    return GlueClient.connect()


CLIENTS: dict[str, Callable[[pytest.FixtureRequest], CatalogClient]] = {
    "memory": _memory,
    "hms": _hms,
    "glue": _glue,
    "jdbc": _jdbc,
    "hiveql": _hiveql,
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Iterator[CatalogClient]:
    """A client of each kind."""
    found = CLIENTS[request.param](request)
    yield found
    found.close()


@pytest.fixture
def database(client: CatalogClient) -> str:
    """A new database with the table."""
    name = f"db_{uuid.uuid4().hex[:12]}"
    client.create_database(name)
    client.create_table(name, TABLE)
    return name


def stored(client: CatalogClient, database: str) -> CatalogTable:
    found = client.get_table(database, TABLE.name)
    assert found is not None
    return found


def values(client: CatalogClient, database: str) -> set[tuple[str, ...]]:
    return {each.values for each in client.list_partitions(database, TABLE)}


def test_a_database_may_be_created_twice(client: CatalogClient) -> None:
    name = f"db_{uuid.uuid4().hex[:12]}"
    assert not client.has_database(name)
    client.create_database(name)
    client.create_database(name)
    assert client.has_database(name)


def test_a_table_is_returned_as_it_was_created(client: CatalogClient, database: str) -> None:
    found = stored(client, database)
    assert (found.columns, found.partition_keys, found.location) == (TABLE.columns, TABLE.partition_keys, TABLE.location)
    assert (found.input_format, found.output_format, found.serde) == (TABLE.input_format, TABLE.output_format, TABLE.serde)
    assert found.serde_properties == TABLE.serde_properties
    assert found.properties.items() >= TABLE.properties.items()
    assert client.get_table(database, "no_such_table") is None


def test_buckets_are_returned_as_they_were_created(client: CatalogClient, database: str) -> None:
    buckets = Buckets(("id", "n"), 8, (("n", True),))
    client.create_table(database, replace(TABLE, name="bucketed", buckets=buckets))
    found = client.get_table(database, "bucketed")
    assert found is not None
    assert found.buckets == buckets
    client.alter_table(database, replace(found, properties={**found.properties, "later": "yes"}))
    changed = client.get_table(database, "bucketed")
    assert changed is not None
    assert (changed.buckets, changed.properties["later"]) == (buckets, "yes")
    assert stored(client, database).buckets is None


def test_a_table_that_exists_is_not_created_again(client: CatalogClient, database: str) -> None:
    client.create_table(database, replace(TABLE, properties={"EXTERNAL": "TRUE", "mine": "other"}))
    assert stored(client, database).properties["mine"] == TABLE.properties["mine"]


def test_columns_and_properties_change_and_the_rest_stays(client: CatalogClient, database: str) -> None:
    client.add_partitions(database, TABLE, [BERLIN])
    found = stored(client, database)
    wider = (found.columns[0], CatalogColumn("n", "bigint"), found.columns[2], CatalogColumn("new", "string", "it's new"))
    changed = replace(found, columns=wider, properties={**found.properties, "last_commit_time_sync": "1"})
    client.alter_table(database, changed, cascade=True)
    after = stored(client, database)
    assert after.columns == wider
    assert after.properties["last_commit_time_sync"] == "1"
    assert after.properties["mine"] == TABLE.properties["mine"]
    assert after.partition_keys == TABLE.partition_keys
    assert values(client, database) == {BERLIN.values}


def test_partitions_are_added_once_and_found_by_their_values(client: CatalogClient, database: str) -> None:
    client.add_partitions(database, TABLE, [BERLIN, ODD])
    client.add_partitions(database, TABLE, [partition("oslo"), replace(BERLIN, location="file:/tmp/elsewhere")])
    assert values(client, database) == {BERLIN.values, ODD.values, partition("oslo").values}
    found = client.list_partitions(database, TABLE, [BERLIN.values, ODD.values, ("no", "such")])
    assert {each.values: each.location for each in found} == {each.values: each.location for each in (BERLIN, ODD)}
    assert client.list_partitions(database, TABLE, []) == []


def test_partitions_move(client: CatalogClient, database: str) -> None:
    client.add_partitions(database, TABLE, [BERLIN, ODD])
    moved = replace(ODD, location=f"{TABLE.location}/elsewhere")
    client.move_partitions(database, TABLE, [moved])
    found = {each.values: each.location for each in client.list_partitions(database, TABLE)}
    assert found == {BERLIN.values: BERLIN.location, moved.values: moved.location}


def test_partitions_are_dropped_even_if_some_are_gone(client: CatalogClient, database: str) -> None:
    client.add_partitions(database, TABLE, [BERLIN, ODD, partition("oslo")])
    client.drop_partitions(database, TABLE, [ODD.values])
    client.drop_partitions(database, TABLE, [ODD.values, ("no", "such")])
    assert values(client, database) == {BERLIN.values, partition("oslo").values}


def test_dropping_a_partition_of_a_managed_table_deletes_no_file(client: CatalogClient, database: str, tmp_path: Path) -> None:
    managed = replace(TABLE, name="managed", location=f"file:{tmp_path}/managed", properties={"mine": "yes"})
    if isinstance(client, MetastoreClient):  # Spark's Thrift Server, which has no managed table with a location, creates none
        MetastoreClient.create_table(client, database, managed)
    else:
        client.create_table(database, managed)
    file = tmp_path / "managed" / "berlin" / "rows.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"rows")
    berlin = CatalogPartition(BERLIN.values, f"{managed.location}/berlin")
    client.add_partitions(database, managed, [berlin])
    found = client.get_table(database, managed.name)
    assert found is not None
    assert "EXTERNAL" not in found.properties
    client.drop_partitions(database, found, [berlin.values])
    assert client.list_partitions(database, managed) == []
    assert file.read_bytes() == b"rows"


def test_a_metastore_that_does_not_answer_is_named() -> None:
    with pytest.raises(CatalogError, match="no Hive metastore answers at thrift://127.0.0.1:1 .*correct the address"):
        Metastore.connect("thrift://127.0.0.1:1")


@pytest.mark.parametrize(("region", "message"), [("eu-central-1", "NoCredentialsError"), (None, "NoRegionError")])
def test_glue_without_credentials_or_region_is_named(region: str | None, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    settings = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    settings["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"
    for name, value in {**settings, **({"AWS_DEFAULT_REGION": region} if region else {})}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of another test
    with pytest.raises(CatalogError, match=f"AWS Glue failed to .*{message}"):
        GlueClient.connect().has_database("sales")
