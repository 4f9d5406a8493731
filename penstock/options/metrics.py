"""Options of metrics: what is reported after each commit, clean and rollback, and to which system."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES
from penstock.options.option import Family, Option, boolean, count, positive, word, words

_METRICS: Final = "hoodie.metrics."
_OTHER_REPORTERS: Final = "metrics to JMX, Datadog, CloudWatch and SLF4J"

METRICS: Final = Family(_METRICS, "Options of reporters that Penstock does not have.")
METRICS_COMPACTION: Final = Family("hoodie.metricscompaction.", "Metrics of compaction.")

METRICS_ON: Final = Option(
    f"{_METRICS}on",
    boolean,
    False,
    "Report metrics after each commit, clean and rollback.",
)
METRICS_LOCK: Final = Option(
    f"{_METRICS}lock.enable",
    boolean,
    False,
    "Also report how long a commit of several writers waited for the lock and held it, and how often it lost to another one. "
    "If not set, it is reported.",
)
METRICS_REPORTER: Final = Option(
    f"{_METRICS}reporter.type",
    word,
    "GRAPHITE",
    "Where metrics are reported to. `PROMETHEUS` serves them at a port of the driver, the others are sent to a server.",
    allowed=(
        "GRAPHITE",
        "CONSOLE",
        "PROMETHEUS",
        "PROMETHEUS_PUSHGATEWAY",
        "INMEMORY",
        "JMX",
        "DATADOG",
        "CLOUDWATCH",
        "SLF4J",
    ),
    supported=("GRAPHITE", "CONSOLE", "PROMETHEUS", "PROMETHEUS_PUSHGATEWAY"),
    refused_if=((METRICS_ON.key, "true"),),
    lacks=_OTHER_REPORTERS,
)
METRICS_REPORTER_CLASS: Final = Option(
    f"{_METRICS}reporter.class",
    word,
    "",
    "Class of a reporter.",
    supported=("",),
    refused_if=((METRICS_ON.key, "true"),),
    lacks=JAVA_CLASSES,
    instead="leave it out, and register a function with @penstock.commit_callback that reports what you need",
)
METRICS_PREFIX: Final = Option(
    f"{_METRICS}reporter.metricsname.prefix",
    word,
    "",
    "First part of the names of metrics. If empty, the name of the table.",
)
METRICS_GRAPHITE_HOST: Final = Option(f"{_METRICS}graphite.host", word, "localhost", "Host of Graphite.")
METRICS_GRAPHITE_PORT: Final = Option(f"{_METRICS}graphite.port", positive, 4756, "Port of Graphite's plaintext protocol.")
METRICS_GRAPHITE_PREFIX: Final = Option(
    f"{_METRICS}graphite.metric.prefix", word, "", "Text before the names of metrics in Graphite."
)
METRICS_GRAPHITE_PERIOD: Final = Option(
    f"{_METRICS}graphite.report.period.seconds",
    positive,
    30,
    "Seconds between two reports. Penstock reports when something happened.",
    accepted=True,
)
METRICS_PROMETHEUS_PORT: Final = Option(
    f"{_METRICS}prometheus.port", count, 9090, "Port of the driver at which Prometheus reads the metrics."
)
METRICS_GATEWAY_HOST: Final = Option(f"{_METRICS}pushgateway.host", word, "localhost", "Host of Prometheus' push gateway.")
METRICS_GATEWAY_PORT: Final = Option(f"{_METRICS}pushgateway.port", positive, 9091, "Port of the push gateway.")
METRICS_GATEWAY_JOB: Final = Option(
    f"{_METRICS}pushgateway.job.name", word, "", "Name of the job in the push gateway. If empty, the prefix of the metrics."
)
METRICS_GATEWAY_RANDOM: Final = Option(
    f"{_METRICS}pushgateway.random.job.name.suffix",
    boolean,
    True,
    "Add a random number to the name of the job, one per process.",
)
METRICS_GATEWAY_DELETE: Final = Option(
    f"{_METRICS}pushgateway.delete.on.shutdown",
    boolean,
    True,
    "Delete the metrics from the push gateway when the process ends.",
)
METRICS_GATEWAY_LABELS: Final[Option[tuple[str, ...]]] = Option(
    f"{_METRICS}pushgateway.report.labels",
    words,
    (),
    "Labels of the metrics in the push gateway: `name:value`, separated by commas.",
)
METRICS_GATEWAY_PERIOD: Final = Option(
    f"{_METRICS}pushgateway.report.period.seconds",
    positive,
    30,
    "Seconds between two reports. Penstock reports when something happened.",
    accepted=True,
)
METRICS_OTEL: Final = Option(
    "penstock.metrics.otel",
    boolean,
    False,
    "Report metrics through OpenTelemetry, to the meter provider that your program has set, with or without `hoodie.metrics.on`.",
)
