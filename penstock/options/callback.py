"""Options of commit callbacks: messages that are sent after each commit."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES
from penstock.options.option import Family, Option, boolean, count, positive, text, word, words

_CALLBACK: Final = "hoodie.write.commit.callback."
_WAITS: Final = "commit callbacks"

CALLBACK_PULSAR: Final = Family(f"{_CALLBACK}pulsar.", "Callback that sends to Pulsar; callbacks are not there yet.")

CALLBACK_ON: Final = Option(
    f"{_CALLBACK}on",
    boolean,
    False,
    "Send a message after each write commit.",
    supported=("false",),
    lacks=_WAITS,
    instead="leave it out and send the message when the write returns",
)
CALLBACK_CLASS: Final = Option(
    f"{_CALLBACK}class",
    word,
    "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback",
    "Class that sends the message.",
    waits_for=_WAITS,
)
CALLBACK_HTTP_URL: Final[Option[str | None]] = Option(
    f"{_CALLBACK}http.url",
    word,
    None,
    "Address to which the message is posted.",
    waits_for=_WAITS,
)
CALLBACK_HTTP_API_KEY: Final = Option(
    f"{_CALLBACK}http.api.key",
    text,
    "hudi_write_commit_http_callback",
    "Value of the header `HUDI-CALLBACK-KEY` of the message.",
    waits_for=_WAITS,
    secret=True,
)
CALLBACK_HTTP_TIMEOUT_SECONDS: Final = Option(
    f"{_CALLBACK}http.timeout.seconds",
    positive,
    30,
    "Seconds to wait for the answer to the message.",
    waits_for=_WAITS,
)
CALLBACK_HTTP_HEADERS: Final[Option[str | None]] = Option(
    f"{_CALLBACK}http.custom.headers",
    text,
    None,
    "Additional headers of the message: `Name1:Value1;Name2:Value2`.",
    waits_for=_WAITS,
    secret=True,
)
CALLBACK_KAFKA_SERVERS: Final[Option[str | None]] = Option(
    f"{_CALLBACK}kafka.bootstrap.servers",
    word,
    None,
    "Kafka brokers.",
    waits_for=_WAITS,
)
CALLBACK_KAFKA_TOPIC: Final[Option[str | None]] = Option(
    f"{_CALLBACK}kafka.topic",
    word,
    None,
    "Kafka topic.",
    waits_for=_WAITS,
)
CALLBACK_KAFKA_PARTITION: Final[Option[int | None]] = Option(
    f"{_CALLBACK}kafka.partition",
    count,
    None,
    "Kafka partition. If not set, the name of the table determines it.",
    waits_for=_WAITS,
)
CALLBACK_KAFKA_ACKS: Final = Option(
    f"{_CALLBACK}kafka.acks",
    word,
    "all",
    "Which Kafka replicas must confirm the message.",
    allowed=("all", "-1", "0", "1"),
    waits_for=_WAITS,
)
CALLBACK_KAFKA_RETRIES: Final = Option(
    f"{_CALLBACK}kafka.retries",
    count,
    3,
    "Number of attempts to send the message to Kafka, after the first.",
    waits_for=_WAITS,
)
INIT_CALLBACK_CLASSES: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.client.init.callback.classes",
    words,
    (),
    "Classes that are called when a writer starts.",
    supported=("",),
    lacks=JAVA_CLASSES,
    instead="leave it out and call your code before the write",
)
