"""OpenLineage events of real writes: begin, end and failure, and a server that is down."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from penstock.errors import SchemaError
from penstock.hooks.http_callback import HttpSender
from penstock.hooks.outbox import Message
from tests.kit.http_servers import Recorder, running_server
from tests.kit.servers import free_port
from tests.table.tables import BULK, SIX, trips, values, write


@pytest.fixture
def server() -> Iterator[Recorder]:
    with running_server() as recorder:
        yield recorder


def test_a_write_reports_its_begin_and_its_end_with_schema_and_counts(spark: Any, table_path: str, server: Recorder) -> None:
    options = {"penstock.openlineage.url": f"{server.url}/api/v1/lineage", "penstock.openlineage.api.key": "s3cret"}
    named = {"penstock.openlineage.namespace": "lake", "penstock.openlineage.job": "load_trips"}
    write(trips(spark, *SIX), table_path, BULK | options | named)
    start, complete = [request.json for request in server.received]
    assert {request.path for request in server.received} == {"/api/v1/lineage"}
    assert server.received[0].headers["Authorization"] == "Bearer s3cret"
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"] == str(uuid.UUID(start["run"]["runId"]))
    assert (complete["job"]["namespace"], complete["job"]["name"]) == ("lake", "load_trips")
    assert start["eventTime"] <= complete["eventTime"]
    (output,) = complete["outputs"]
    assert (output["namespace"], output["name"]) == ("file", table_path)
    assert [(field["name"], field["type"]) for field in output["facets"]["schema"]["fields"]] == [
        ("id", "string"),
        ("city", "string"),
        ("ts", "bigint"),
        ("fare", "double"),
    ]
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"] >= 3, statistics["size"] > 0) == (6, True, True)
    facets = [complete["job"]["facets"]["jobType"], *output["facets"].values(), *output["outputFacets"].values()]
    assert all(facet["_producer"] and facet["_schemaURL"].startswith("https://openlineage.io/") for facet in facets)
    server.received.clear()
    write(trips(spark, *SIX), table_path, BULK | options, mode="ignore")
    assert [request.json["eventType"] for request in server.received] == ["START", "COMPLETE"]


def test_a_write_that_fails_reports_why(spark: Any, table_path: str, server: Recorder) -> None:
    write(trips(spark, *SIX), table_path)
    table = penstock.Table.open(table_path, spark)
    wrong = values(spark, "id string, city string, ts string", ("a", "berlin", "now"))
    with pytest.raises(SchemaError):
        table.upsert(wrong, {"penstock.openlineage.url": server.url})
    start, fail = [request.json for request in server.received]
    assert (start["eventType"], fail["eventType"]) == ("START", "FAIL")
    assert fail["job"]["name"] == "table.upsert"
    assert fail["run"]["facets"]["errorMessage"]["message"].startswith("SchemaError: ")


def test_a_server_that_is_down_changes_nothing_but_warnings_and_the_report(spark: Any, table_path: str) -> None:
    write(trips(spark, *SIX), table_path)
    table = penstock.Table.open(table_path, spark)
    address = {"penstock.openlineage.url": f"http://ann:pa55@127.0.0.1:{free_port()}", "penstock.callback.retries": "0"}
    with pytest.warns(RuntimeWarning, match="the OpenLineage event (START|COMPLETE) of .* was not delivered") as caught:
        commit = table.upsert(trips(spark, SIX[0]), address)
    assert len([warning for warning in caught if "OpenLineage event" in str(warning.message)]) == 2
    assert not any("pa55" in str(warning.message) for warning in caught)
    step = next(step for step in commit.follow_ups if step.name == "openlineage")
    assert "Connection refused" in (step.error or "")


def test_an_error_of_any_type_is_a_warning_and_the_write_has_its_own_result(
    spark: Any, table_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(sender: HttpSender, message: Message) -> None:
        raise RuntimeError(f"no memory for {message.idempotency_key.partition('@')[2]}\nat a line")

    monkeypatch.setattr(HttpSender, "send", fail)
    write(trips(spark, *SIX), table_path)
    table = penstock.Table.open(table_path, spark)
    address = {"penstock.openlineage.url": "http://127.0.0.1:1"}
    with pytest.warns(RuntimeWarning, match="event COMPLETE of .* was not delivered: RuntimeError: no memory for COMPLETE$"):
        commit = table.upsert(trips(spark, SIX[0]), address)
    step = next(step for step in commit.follow_ups if step.name == "openlineage")
    assert step.error == "RuntimeError: no memory for COMPLETE"
    wrong = values(spark, "id string, city string, ts string", ("a", "berlin", "now"))
    with pytest.warns(RuntimeWarning, match="event FAIL"), pytest.raises(SchemaError):
        table.upsert(wrong, address)
