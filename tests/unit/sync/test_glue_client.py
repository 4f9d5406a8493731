"""Requests to AWS Glue, with boto3 and a server that answers as Glue may: some partitions at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from penstock.errors import CatalogError, Unsupported
from penstock.options import read_options
from penstock.sync.catalog import CatalogColumn, CatalogTable
from penstock.sync.glue_client import GlueClient
from penstock.sync.known_catalogs import ClientRequest, open_client
from tests.kit.http_servers import Recorder, running_server
from tests.unit.sync.test_plan import settings_of

TABLE = CatalogTable(
    name="trips",
    location="s3://lake/trips",
    columns=(CatalogColumn("id", "string"),),
    partition_keys=(CatalogColumn("city", "string"),),
    input_format="org.apache.hudi.hadoop.HoodieParquetInputFormat",
    output_format="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    serde="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)
GLUE = "hoodie.datasource.meta.sync.glue."
TOOL = "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """A server in the place of Glue."""
    with running_server() as recorder:
        environment = {"AWS_ENDPOINT_URL": recorder.url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        for name, value in {**environment, "AWS_DEFAULT_REGION": "eu-central-1"}.items():
            monkeypatch.setenv(name, value)
        yield recorder


def answer_json(make: Callable[[Any], dict[str, Any]], recorder: Recorder) -> None:
    """Make a server answer with the JSON that a function makes from the JSON of the request."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = json.dumps(make(recorder.received[-1].json)).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    recorder.answer = answer


def read_first(count: int) -> Callable[[Any], dict[str, Any]]:
    """Return a function that answers a request for partitions with the first ones, and names the others as not processed."""

    def make(request: Any) -> dict[str, Any]:
        wanted = request["PartitionsToGet"]
        found = [{**each, "StorageDescriptor": {"Location": f"s3://lake/{each['Values'][0]}"}} for each in wanted[:count]]
        return {"Partitions": found, "UnprocessedKeys": wanted[count:]}

    return make


def test_partitions_that_glue_did_not_get_to_are_requested_again(server: Recorder) -> None:
    answer_json(read_first(2), server)
    values = [(f"city{number}",) for number in range(5)]
    found = GlueClient.connect().list_partitions("db", TABLE, values)
    assert [partition.values for partition in found] == values
    assert found[4].location == "s3://lake/city4"
    assert len(server.received) == 3


def test_a_glue_that_gets_to_no_partition_is_an_error(server: Recorder) -> None:
    answer_json(read_first(0), server)
    with pytest.raises(CatalogError, match=r"AWS Glue reads none of 1 partitions of db\.trips"):
        GlueClient.connect().list_partitions("db", TABLE, [("oslo",)])
    assert len(server.received) == 1


@pytest.mark.parametrize(("options", "skipped"), [({}, True), ({f"{GLUE}skip_table_archive": "false"}, False)])
def test_the_option_decides_whether_glue_keeps_a_copy_of_the_entry(
    server: Recorder, options: dict[str, str], skipped: bool
) -> None:
    answer_json(lambda request: {"Table": {"Name": "trips", "StorageDescriptor": {}}}, server)
    client = open_client(TOOL, ClientRequest(settings_of(**options)))
    client.alter_table("db", TABLE)
    assert server.received[-1].json["SkipArchive"] is skipped


def test_what_the_client_cannot_do_is_refused() -> None:
    for option, value in (
        ("metadata_file_listing", "true"),
        ("partition_index_fields.enable", "true"),
        ("recreate_table_on_error", "true"),
        ("database_name", "sales"),
        ("table_name", "trips"),
    ):
        with pytest.raises(Unsupported, match=option):
            read_options({f"{GLUE}{option}": value})
