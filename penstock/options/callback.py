"""Options of commit callbacks: messages that are sent after each commit."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES
from penstock.options.option import Family, Option, amount, boolean, count, headers, http_address, positive, text, word, words
from penstock.registered.hooks import COMMIT_CALLBACKS as OWN_CALLBACKS

_CALLBACK: Final = "hoodie.write.commit.callback."
KAFKA_PREFIX: Final = f"{_CALLBACK}kafka."
_HTTP_CLASS: Final = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"
#: Hudi's classes, as values of `hoodie.write.commit.callback.class` → name of the callback.
HUDI_CALLBACKS: Final = {
    _HTTP_CLASS: "http",
    "org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback": "kafka",
}


CALLBACK_PULSAR: Final = Family(
    f"{_CALLBACK}pulsar.", "Callback that sends to Pulsar. Penstock has none: register a function that sends the message."
)
CALLBACK_KAFKA_CLIENT: Final = Family(
    KAFKA_PREFIX, "Any other option of the Kafka client librdkafka, such as `security.protocol` or `sasl.username`.", "yes"
)

CALLBACK_ON: Final = Option(
    f"{_CALLBACK}on",
    boolean,
    False,
    "Send a message after each commit of a write.",
)
CALLBACK_CLASS: Final = Option(
    f"{_CALLBACK}class",
    word,
    _HTTP_CLASS,
    "What sends the message: one of Hudi's classes for HTTP and Kafka, or the name of a function that is registered with "
    "`@penstock.commit_callback`.",
    supported=tuple(HUDI_CALLBACKS),
    is_also_supported=OWN_CALLBACKS.has,
    case_sensitive=True,
    refused_if=((CALLBACK_ON.key, "true"),),
    lacks=JAVA_CLASSES,
    instead="register a Python function under this name with @penstock.commit_callback, and let it send the message",
)
CALLBACK_HTTP_URL: Final[Option[str | None]] = Option(
    f"{_CALLBACK}http.url",
    http_address,
    None,
    "Address to which the message is posted. A user and password in it are sent as basic authentication.",
    secret=True,
)
CALLBACK_HTTP_API_KEY: Final = Option(
    f"{_CALLBACK}http.api.key",
    text,
    "hudi_write_commit_http_callback",
    "Value of the header `HUDI-CALLBACK-KEY` of the message.",
    secret=True,
)
CALLBACK_HTTP_TIMEOUT_SECONDS: Final = Option(
    f"{_CALLBACK}http.timeout.seconds",
    positive,
    30,
    "Seconds to wait for the answer to the message, with all attempts.",
)
CALLBACK_HTTP_HEADERS: Final[Option[tuple[tuple[str, str], ...]]] = Option(
    f"{_CALLBACK}http.custom.headers",
    headers,
    (),
    "Additional headers of the message: `Name1:Value1;Name2:Value2`.",
    secret=True,
)
CALLBACK_KAFKA_SERVERS: Final[Option[str | None]] = Option(
    f"{KAFKA_PREFIX}bootstrap.servers",
    word,
    None,
    "Kafka brokers.",
)
CALLBACK_KAFKA_TOPIC: Final[Option[str | None]] = Option(
    f"{KAFKA_PREFIX}topic",
    word,
    None,
    "Kafka topic.",
)
CALLBACK_KAFKA_PARTITION: Final[Option[int | None]] = Option(
    f"{KAFKA_PREFIX}partition",
    count,
    None,
    "Kafka partition. If not set, the name of the table determines it.",
)
CALLBACK_KAFKA_ACKS: Final = Option(
    f"{KAFKA_PREFIX}acks",
    word,
    "all",
    "Which Kafka replicas must confirm the message.",
    allowed=("all", "-1", "0", "1"),
)
CALLBACK_KAFKA_RETRIES: Final = Option(
    f"{KAFKA_PREFIX}retries",
    count,
    3,
    "Number of attempts to send the message to Kafka, after the first.",
)
COMMIT_CALLBACKS: Final[Option[tuple[str, ...]]] = Option(
    "penstock.commit.callbacks",
    words,
    (),
    "Callbacks to call after each commit of a write: `http`, `kafka`, and names that are registered with "
    "`@penstock.commit_callback`, in this order. They are called in addition to `hoodie.write.commit.callback.class`.",
)
CALLBACK_MESSAGE: Final = Option(
    "penstock.callback.message",
    word,
    "full",
    "Form of the message of the HTTP and Kafka callbacks. `full`: all fields have their values. `hudi`: exactly as Hudi, which "
    "sends `commitActionType`, `extraMetadata` and `columnStats` without their values.",
    allowed=("full", "hudi"),
)
CALLBACK_RETRIES: Final = Option(
    "penstock.callback.retries",
    count,
    2,
    "Number of attempts to post the message over HTTP, after the first. Only failures that may pass are repeated: no connection, "
    "no answer, and the statuses 408, 429 and 5xx.",
)
CALLBACK_BACKOFF_SECONDS: Final = Option(
    "penstock.callback.backoff.seconds",
    amount,
    0.2,
    "Seconds before the second attempt to post the message. Each further pause is twice as long.",
)
CALLBACK_OUTBOX: Final = Option(
    "penstock.callback.outbox",
    word,
    "failed",
    "When a message of the HTTP and Kafka callbacks is stored under `.hoodie/.penstock/outbox`, from where the next write or "
    "`penstock services run` sends it. `failed`: if it could not be delivered. `always`: before the commit, until it is "
    "delivered, so that also a crash loses none. `off`: never.",
    allowed=("failed", "always", "off"),
)
CALLBACK_HTTP_CA_FILE: Final[Option[str | None]] = Option(
    "penstock.callback.http.ca.file",
    word,
    None,
    "PEM file with the certificates of authorities that are trusted for https. If not set, those of the machine.",
)
CALLBACK_HTTP_CERT_FILE: Final[Option[str | None]] = Option(
    "penstock.callback.http.cert.file",
    word,
    None,
    "PEM file with the certificate and private key by which the writer identifies itself for https.",
)
CALLBACK_KAFKA_TIMEOUT_SECONDS: Final = Option(
    "penstock.callback.kafka.timeout.seconds",
    positive,
    30,
    "Seconds to wait until Kafka has confirmed the message, with all attempts.",
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
