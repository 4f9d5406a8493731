"""What follows a commit to a table on S3: catalogs, messages and lineage events have its path with scheme and bucket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from tests.kit.http_servers import Recorder, running_server
from tests.kit.memory_catalog import MemoryCatalog
from tests.kit.object_stores import ObjectStore
from tests.table.tables import BULK, SIX, trips, write

pytestmark = [pytest.mark.server, pytest.mark.filterwarnings("ignore:Spark cannot read")]

GLUE = "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool"
SYNC = {"hoodie.datasource.meta.sync.enable": "true", "hoodie.meta.sync.client.tool.class": "memory"}


@pytest.fixture
def server() -> Iterator[Recorder]:
    with running_server() as recorder:
        yield recorder


@pytest.fixture
def catalog() -> MemoryCatalog:
    """A catalog in memory, registered as the sync tool `memory`."""
    catalog = MemoryCatalog()
    penstock.sync_tool("memory")(lambda settings: catalog)
    return catalog


@pytest.fixture
def table_uri(spark: Any, moto: ObjectStore) -> Iterator[str]:
    """The path of a new table on S3, with the store's settings in the session."""
    for key, value in moto.settings.items():
        spark.conf.set(key, value)
    yield moto.path()
    for key in moto.settings:
        spark.conf.unset(key)


def test_catalogs_messages_and_lineage_have_the_path_with_scheme_and_bucket(
    spark: Any, table_uri: str, server: Recorder, catalog: MemoryCatalog, glue: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    for name, value in glue.items():
        monkeypatch.setenv(name, value)
    notices: list[penstock.CommitNotice] = []
    penstock.commit_callback("mine")(notices.append)
    database = f"db_{uuid.uuid4().hex[:12]}"
    options = {
        **SYNC,
        "hoodie.meta.sync.client.tool.class": f"memory,{GLUE}",
        "hoodie.datasource.hive_sync.database": database,
        "penstock.commit.callbacks": "http,mine",
        "hoodie.write.commit.callback.http.url": f"{server.url}/notice",
        "penstock.openlineage.url": f"{server.url}/lineage",
    }
    write(trips(spark, *SIX), table_uri, {**BULK, **options})
    table = catalog.tables[database, "trips"]
    assert (table.location, table.serde_properties["path"]) == (table_uri, table_uri)
    assert catalog.partitions[database, "trips"]["paris",] == f"{table_uri}/paris"
    client = boto3.client("glue")
    in_athena = table_uri.replace("s3a://", "s3://")
    assert client.get_table(DatabaseName=database, Name="trips")["Table"]["StorageDescriptor"]["Location"] == in_athena
    partitions = client.get_partitions(DatabaseName=database, TableName="trips")["Partitions"]
    locations = {each["StorageDescriptor"]["Location"] for each in partitions}
    assert locations == {f"{in_athena}/{city}" for city in ("berlin", "paris", "tokyo")}
    (message,) = [request.json for request in server.received if request.path == "/notice"]
    assert message["basePath"] == notices[0].base_path == table_uri
    outputs = [request.json["outputs"][0] for request in server.received if request.path == "/lineage"]
    bucket, _, key = in_athena.removeprefix("s3://").partition("/")
    assert [(output["namespace"], output["name"]) for output in outputs] == [(f"s3://{bucket}", key)] * 2
    # The second write finds nothing to change: Glue's s3: is the s3a: of the table.
    write(trips(spark, *SIX), table_uri, {**BULK, **options}, mode="append")
    assert catalog.tables[database, "trips"].location == table_uri


def test_the_advice_after_a_failed_sync_has_the_path_with_scheme_and_bucket(
    spark: Any, table_uri: str, catalog: MemoryCatalog
) -> None:
    catalog.is_broken = True
    with pytest.warns(RuntimeWarning, match=rf"of {table_uri} is done, .* penstock sync {table_uri} with the same options"):
        write(trips(spark, *SIX), table_uri, {**BULK, **SYNC})
    catalog.is_broken = False
    (synced,) = penstock.Table.open(table_uri).sync(SYNC)
    assert (synced.is_new, synced.added) == (True, 3)
