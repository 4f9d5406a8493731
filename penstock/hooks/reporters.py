"""Reporters of metrics: to the console, Graphite, Prometheus, its push gateway, and OpenTelemetry.

A reporter is a function. It is called with the metrics of one event (a commit, clean or rollback): a mapping of full name to
value. All metrics are gauges, as in Hudi.
"""

from __future__ import annotations

import atexit
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.errors import OptionError
from penstock.options import Options

#: Reports metrics: full name → value.
Reporter = Callable[[Mapping[str, float]], None]
_TIMEOUT_S = 10.0
_lock = threading.Lock()


def make_reporters(options: Options, prefix: str) -> list[Reporter]:
    """Return the reporters that the options turn on; an empty list if there are none.

    Args:
        prefix: the first part of the names of metrics. It is the job in the push gateway if the options name no job.

    Raises:
        OptionError: a package that a reporter needs is not installed, its port cannot be used, or a label is wrong.
    """
    reporters: list[Reporter] = []
    if options[o.METRICS_ON]:
        reporters.append(_make_reporter(options, prefix))
    if options[o.METRICS_OTEL]:
        _import_otel()
        reporters.append(report_to_otel)
    return reporters


def _make_reporter(options: Options, prefix: str) -> Reporter:
    """Return the reporter that `hoodie.metrics.reporter.type` names.

    Args:
        prefix: the job in Prometheus' push gateway if the options name no job.

    Raises:
        OptionError: a package that the reporter needs is not installed, its port cannot be used, or a label is wrong.
    """
    kind = options[o.METRICS_REPORTER]
    if kind == "CONSOLE":
        return report_to_console
    if kind == "GRAPHITE":
        address = (options[o.METRICS_GRAPHITE_HOST], options[o.METRICS_GRAPHITE_PORT])
        return partial(report_to_graphite, address, options[o.METRICS_GRAPHITE_PREFIX])
    if kind == "PROMETHEUS":
        return partial(_set_gauges, _serve_registry(options[o.METRICS_PROMETHEUS_PORT]))
    address_text = f"{options[o.METRICS_GATEWAY_HOST]}:{options[o.METRICS_GATEWAY_PORT]}"
    job = options[o.METRICS_GATEWAY_JOB] or prefix
    if options[o.METRICS_GATEWAY_RANDOM]:
        job = f"{job}_{_process_suffix()}"
    return partial(_push, address_text, job, _parse_labels(options), options[o.METRICS_GATEWAY_DELETE])


def report_to_console(values: Mapping[str, float]) -> None:
    """Print one line per metric to the standard output."""
    lines = [f"{name} = {value:g}\n" if isinstance(value, float) else f"{name} = {value}\n" for name, value in values.items()]
    sys.stdout.write("".join(lines))


def report_to_graphite(address: tuple[str, int], prefix: str, values: Mapping[str, float]) -> None:
    """Send metrics by Graphite's plaintext protocol.

    Args:
        address: the host and port of Graphite.
        prefix: what to put in front of each name, with a dot; empty for nothing.

    Raises:
        OSError: Graphite cannot be reached.
    """
    seconds = clock.now_ms() // 1000
    dotted = f"{prefix}." if prefix else ""
    lines = [f"{dotted}{_graphite_name(name)} {value} {seconds}\n" for name, value in values.items()]
    with socket.create_connection(address, timeout=_TIMEOUT_S) as connection:
        connection.sendall("".join(lines).encode())


def report_to_otel(values: Mapping[str, float]) -> None:
    """Set one OpenTelemetry gauge per metric, at the meter provider that the program has set up."""
    metrics = _import_otel()
    provider = metrics.get_meter_provider()
    for name, value in values.items():
        _otel_gauge(provider, name).set(value)


def _graphite_name(name: str) -> str:
    """Return the name with an underscore for each character that Graphite's protocol does not allow in it, such as a blank."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "_", name)


def _prometheus_name(name: str) -> str:
    """Return the name with an underscore for each character that Prometheus does not allow, or before a leading digit."""
    replaced = re.sub(r"[^A-Za-z0-9_:]", "_", name)
    return f"_{replaced}" if replaced[:1].isdigit() else replaced


def _import_prometheus() -> Any:
    """Import and return the module of Prometheus' client. Raise OptionError if it is not installed."""
    try:
        import prometheus_client
    except ImportError as e:
        raise OptionError("metrics for Prometheus need the package prometheus-client: pip install 'penstock[metrics]'") from e
    return prometheus_client


def _import_otel() -> Any:
    """Import and return OpenTelemetry's module `metrics`. Raise OptionError if it is not installed."""
    try:
        from opentelemetry import metrics
    except ImportError as e:
        raise OptionError(f"{o.METRICS_OTEL.key}=true needs the package opentelemetry-api: pip install opentelemetry-sdk") from e
    return metrics


@cache
def _serve_registry(port: int) -> Any:
    """Return the Prometheus registry whose gauges this process serves over HTTP at a port.

    The first call for a port starts the HTTP server; later calls return the same registry.

    Raises:
        OptionError: the port is in use.
    """
    client = _import_prometheus()
    registry = client.CollectorRegistry()
    try:
        client.start_http_server(port, registry=registry)
    except OSError as e:
        raise OptionError(f"{o.METRICS_PROMETHEUS_PORT.key}={port} cannot be opened: {e.strerror or e}; choose another") from e
    return registry


def _set_gauges(registry: Any, values: Mapping[str, float]) -> None:
    """Set the gauges of a Prometheus registry to these values. A gauge that does not exist yet is created.

    Args:
        values: the values, by the names of the metrics.
    """
    for name, value in values.items():
        _prometheus_gauge(registry, _prometheus_name(name)).set(value)


@cache
def _prometheus_gauge(registry: Any, name: str) -> Any:
    """Return the gauge with this name in a Prometheus registry; create it at the first call."""
    return _import_prometheus().Gauge(name, "Reported by Penstock.", registry=registry)


@cache
def _otel_gauge(provider: Any, name: str) -> Any:
    """Return the gauge with this name at an OpenTelemetry meter provider; create it at the first call."""
    return provider.get_meter("penstock").create_gauge(name)


@cache
def _process_suffix() -> str:
    """Return a random text that is added to the job in Prometheus' push gateway. It is the same for the whole process."""
    return clock.new_uuid()[:8]


@cache
def _pushed_registry(address: str, job: str, labels: tuple[tuple[str, str], ...], is_deleted: bool) -> Any:
    """Return the Prometheus registry with the gauges that this process pushes to a gateway; create it at the first call.

    The registry keeps the gauges of earlier events, because a push replaces all metrics of the job in the gateway.

    Args:
        address: the host and port of the gateway.
        job: the job under which the gateway keeps the metrics.
        labels: (name, value) pairs by which the gateway groups metrics, besides the job.
        is_deleted: whether to delete the job's metrics from the gateway when the process ends.
    """
    client = _import_prometheus()
    if is_deleted:
        atexit.register(_delete, address, job, labels)
    return client.CollectorRegistry()


def _push(address: str, job: str, labels: tuple[tuple[str, str], ...], is_deleted: bool, values: Mapping[str, float]) -> None:
    """Set these metrics and push all metrics of the job to the gateway.

    Args:
        address: the host and port of the gateway.
        job: the job under which the gateway keeps the metrics.
        labels: (name, value) pairs by which the gateway groups metrics, besides the job.
        is_deleted: whether to delete the job's metrics from the gateway when the process ends.
        values: the metrics to set, by their names.

    Raises:
        OSError: the gateway cannot be reached, or refuses the metrics.
    """
    with _lock:
        registry = _pushed_registry(address, job, labels, is_deleted)
        _set_gauges(registry, values)
        _import_prometheus().push_to_gateway(address, job, registry, grouping_key=dict(labels), timeout=_TIMEOUT_S)


def _delete(address: str, job: str, labels: tuple[tuple[str, str], ...]) -> None:
    """Delete the metrics of a job from the gateway, at the end of the process. A gateway that is gone is no error."""
    try:
        _import_prometheus().delete_from_gateway(address, job, grouping_key=dict(labels), timeout=_TIMEOUT_S)
    except OSError:
        return


def _parse_labels(options: Options) -> tuple[tuple[str, str], ...]:
    """Return the labels of pushed metrics as (name, value) pairs. Raise OptionError if one has no colon."""
    labels = []
    for text in options[o.METRICS_GATEWAY_LABELS]:
        name, colon, value = text.partition(":")
        if not colon or not re.fullmatch(r"[A-Za-z_]\w*", name.strip()):
            raise OptionError(f"{o.METRICS_GATEWAY_LABELS.key} has {text!r}; write name:value, separated by commas")
        labels.append((name.strip(), value.strip()))
    return tuple(labels)
