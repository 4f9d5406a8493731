"""Metrics of commits, cleans and rollbacks, as real servers and clients of each system receive them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

import pytest

from penstock.commit.run_hooks import check_hooks, run_after_hooks
from penstock.errors import OptionError, Unsupported
from penstock.hooks import HookContext, PublishedCommit
from penstock.hooks.metrics import report_service
from penstock.options import read_options
from penstock.progress import Stages
from penstock.table.state import TableState
from penstock.timeline.commit_file import CommitMetadata, WriteStat
from penstock.timeline.instant import Action
from tests.kit.http_servers import Recorder, answer_with, running_server
from tests.kit.servers import free_port
from tests.unit.services.histories import History, at

STATS = (
    WriteStat(
        "g-0", "p", "p/a.parquet", num_writes=3, num_inserts=3, total_write_bytes=100, runtime_stats={"totalCreateTime": 7}
    ),
    WriteStat(
        "g-1", "q", "q/b.parquet", prev_commit=at(1), num_writes=5, num_update_writes=2, num_deletes=1, total_write_bytes=50
    ),
)
METADATA = CommitMetadata(STATS, "UPSERT", {"penstock.latency.ms": "40"})
#: What is known beforehand of the metrics of the commit. Durations are checked apart.
EXPECTED = {
    "totalPartitionsWritten": 2,
    "totalFilesInsert": 1,
    "totalFilesUpdate": 1,
    "totalRecordsWritten": 8,
    "totalUpdateRecordsWritten": 2,
    "totalInsertRecordsWritten": 3,
    "totalRecordsDeleted": 1,
    "totalBytesWritten": 150,
    "totalScanTime": 0,
    "totalCreateTime": 7,
    "totalUpsertTime": 0,
    "totalCompactedRecordsUpdated": 0,
    "totalLogFilesCompacted": 0,
    "totalLogFilesSize": 0,
    "commitLatencyInMs": 40,
}


def table_with(**options: str) -> TableState:
    """Return a table in memory. Options of metrics are named by the last parts of their keys, with `_` for a dot."""
    table = History().commit(1, ["p/g-0"]).table()
    given = {f"hoodie.metrics.{key.replace('_', '.')}": value for key, value in options.items()}
    return TableState(table.storage, table.base_path, table.config, read_options({"hoodie.metrics.on": "true", **given}))


def report(table: TableState, operation: str = "UPSERT", action: Action = Action.COMMIT) -> str | None:
    """Report the metrics of a commit; return the error of the hook."""
    stages = Stages("upsert t", "off")
    with stages.run("tag", "locating keys"):
        pass
    commit = PublishedCommit(at(2), action, CommitMetadata(STATS, operation, METADATA.extra))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        (outcome,) = run_after_hooks(HookContext(table, stages=stages), commit).outcomes
    assert outcome.hook == "metrics"
    return outcome.error


def check_values(found: dict[str, float], prefix: str, separator: str = ".") -> None:
    """Check metrics of the commit, by full name."""
    start = f"{prefix}{separator}commit{separator}"
    values = {name.removeprefix(start): value for name, value in found.items() if name.startswith(start)}
    assert {name: values[name] for name in EXPECTED} == EXPECTED
    assert values.keys() == EXPECTED.keys() | {"commitTime", "duration"}
    assert values["duration"] >= 0
    assert separator.join((prefix, "index", "UPSERT", "duration")) in found


def test_the_console_shows_one_line_per_metric(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(table_with(reporter_type="CONSOLE")) is None
    lines = [line.partition(" = ") for line in capsys.readouterr().out.splitlines()]
    check_values({name: float(value) for name, _, value in lines}, "t")


@pytest.mark.parametrize(
    ("operation", "action", "word"),
    [
        ("COMPACT", Action.COMMIT, "compaction"),
        ("CLUSTER", Action.REPLACE_COMMIT, "replacecommit"),
        ("UPSERT", Action.DELTA_COMMIT, "deltacommit"),
    ],
)
def test_metrics_are_named_after_the_action(
    operation: str, action: Action, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(table_with(reporter_type="CONSOLE", reporter_metricsname_prefix="lake"), operation, action) is None
    assert f"lake.{word}.totalRecordsWritten = 8\n" in capsys.readouterr().out


def test_a_clean_and_a_rollback_report_duration_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    for action in (Action.CLEAN, Action.ROLLBACK):
        report_service(table_with(reporter_type="CONSOLE"), action, duration_ms=12, files_deleted=3)
    shown = capsys.readouterr().out
    assert shown == "".join(f"t.{word}.duration = 12\nt.{word}.numFilesDeleted = 3\n" for word in ("clean", "rollback"))
    with pytest.warns(RuntimeWarning, match="metrics of the clean of /t were not reported: ConnectionRefusedError"):
        report_service(table_with(graphite_port=str(free_port())), Action.CLEAN, duration_ms=1, files_deleted=1)


def test_prometheus_scrapes_the_newest_values() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    port = free_port()
    table = table_with(reporter_type="PROMETHEUS", prometheus_port=str(port))
    for _ in range(2):  # the second report replaces the first
        assert report(table) is None
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    assert {family.type for family in families} == {"gauge"}
    check_values({family.name: family.samples[0].value for family in families}, "t", "_")


def test_a_port_that_is_taken_is_named_before_the_write() -> None:
    with running_server() as server, pytest.raises(OptionError, match=r"hoodie\.metrics\.prometheus\.port=.*choose another"):
        check_hooks(HookContext(table_with(reporter_type="PROMETHEUS", prometheus_port=str(server.port))))


@pytest.fixture
def gateway() -> Iterator[Recorder]:
    """A server that speaks the protocol of the push gateway as far as the client does: it accepts and records."""
    with running_server() as recorder:
        yield recorder


def test_the_push_gateway_gets_all_metrics_of_the_job(gateway: Recorder) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    table = table_with(
        reporter_type="PROMETHEUS_PUSHGATEWAY",
        pushgateway_host="127.0.0.1",
        pushgateway_port=str(gateway.port),
        pushgateway_job_name="ingest",
        pushgateway_random_job_name_suffix="false",
        pushgateway_delete_on_shutdown="false",
        pushgateway_report_labels="team:trips, zone:eu",
    )
    assert report(table) is None
    (request,) = gateway.received
    assert (request.method, request.path) == ("PUT", "/metrics/job/ingest/team/trips/zone/eu")
    families = text_string_to_metric_families(request.body.decode())
    check_values({family.name: family.samples[0].value for family in families}, "t", "_")
    gateway.answer = answer_with(500)
    assert "HTTPError" in (report(table) or "")
    with pytest.raises(OptionError, match=r"pushgateway\.report\.labels has 'zone'"):
        check_hooks(HookContext(table_with(reporter_type="PROMETHEUS_PUSHGATEWAY", pushgateway_report_labels="zone")))


def test_the_metrics_of_a_job_with_a_random_name_are_deleted_when_the_process_ends(gateway: Recorder) -> None:
    program = f"""
from tests.unit.hooks.test_metrics import report, table_with
gateway = {{"pushgateway_host": "127.0.0.1", "pushgateway_port": "{gateway.port}"}}
assert report(table_with(reporter_type="PROMETHEUS_PUSHGATEWAY", **gateway)) is None
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    put, delete = gateway.received
    assert (put.method, delete.method) == ("PUT", "DELETE")
    assert put.path == delete.path
    assert put.path.startswith("/metrics/job/t_")


def test_graphite_gets_a_line_per_metric() -> None:
    lines: list[str] = []

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            lines.extend(self.rfile.read().decode().splitlines())
            is_read.set()

    is_read = Event()
    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        port = str(server.server_address[1])
        error = report(table_with(graphite_host="127.0.0.1", graphite_port=port, graphite_metric_prefix="lake"))
        assert error is None
        assert is_read.wait(30)
        server.shutdown()
        thread.join()
    parts = [line.split(" ") for line in lines]
    assert {len(words) for words in parts} == {3}
    assert all(int(time) > 1_600_000_000 for _, _, time in parts)
    check_values({name: float(value) for name, value, _ in parts}, "lake.t")


def test_a_server_that_is_down_is_a_warning() -> None:
    assert "ConnectionRefusedError" in (report(table_with(graphite_port=str(free_port()))) or "")


def test_opentelemetry_gets_the_metrics_through_the_provider_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    table = table_with(on="false")
    options = read_options({"penstock.metrics.otel": "true"})
    assert report(TableState(table.storage, table.base_path, table.config, options)) is None
    data: Any = reader.get_metrics_data()
    found = data.resource_metrics[0].scope_metrics[0].metrics
    values = {metric.name: metric.data.data_points[0].value for metric in found}
    # OpenTelemetry writes the names of instruments in lower case.
    assert {name: values[f"t.commit.{name.lower()}"] for name in EXPECTED} == EXPECTED
    assert "t.index.upsert.duration" in values


@pytest.mark.parametrize("kind", ["JMX", "datadog", "CLOUDWATCH", "SLF4J", "INMEMORY"])
def test_other_reporters_are_refused_by_name(kind: str) -> None:
    with pytest.raises(
        Unsupported, match=r"hoodie\.metrics\.reporter\.type.*use GRAPHITE, CONSOLE, PROMETHEUS or PROMETHEUS_PUSH"
    ):
        read_options({"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": kind})
