"""The Kafka callback: sends a message about each commit of a write to a topic, as Hudi's HoodieWriteCommitKafkaCallback does.

The key of the message is the name of the table, so all messages of a table are in one partition, in the order of commits. The
client is confluent-kafka (`pip install penstock[kafka]`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock import clock
from penstock import options as o
from penstock.errors import CallbackFailed, MessageTooLarge, OptionError
from penstock.hooks.outbox import Message
from penstock.options import Options

#: How long one wait for the client's events takes at most.
_POLL_S = 0.1
#: Options below the prefix that are not the client's: they are arguments of the call that sends a message.
_NOT_OF_THE_CLIENT = (o.CALLBACK_KAFKA_TOPIC.key, o.CALLBACK_KAFKA_PARTITION.key)


@dataclass(frozen=True)
class KafkaSender:
    """Sends messages to one topic."""

    topic: str
    partition: int | None
    #: The settings of the client, by librdkafka's names.
    settings: Mapping[str, str | int] = field(repr=False)
    timeout_s: float
    name: str = "kafka"

    def send(self, message: Message) -> None:
        """Send a message, and wait until the brokers have confirmed it.

        Raises:
            CallbackFailed: the message was not confirmed in time, or refused.
            MessageTooLarge: the client or the brokers do not accept messages of this size.
        """
        problems: list[str] = []  # errors of the connection, such as a wrong password
        delivered: list[Any] = []  # the error of the message, or None: one item when its delivery is decided
        try:
            producer = _make_producer(self.settings, problems)
            arguments: dict[str, Any] = {} if self.partition is None else {"partition": self.partition}
            producer.produce(
                self.topic,
                key=message.table_name.encode(),
                value=message.body.encode(),
                on_delivery=lambda error, _: delivered.append(error),
                **arguments,
            )
            self._wait(producer, delivered, problems)
        except CallbackFailed:
            raise
        except Exception as e:  # the client's own error type is not imported here
            if _is_too_large(e.args[0] if e.args else None):
                raise self._explain_size(message) from e
            raise CallbackFailed(f"Kafka topic {self.topic}: {_describe(e)}") from e
        if _is_too_large(delivered[0]):
            raise self._explain_size(message)
        if delivered[0] is not None:
            raise self._explain(delivered[0], problems)

    def _wait(self, producer: Any, delivered: list[Any], problems: list[str]) -> None:
        """Wait until the brokers have confirmed or refused a message: then `delivered` has an item.

        A wrong password ends the wait early.

        Args:
            producer: the Kafka client, which fills both lists.
            delivered: empty; then one item: the error of the message, or None if it was delivered.
            problems: errors of the connection.

        Raises:
            CallbackFailed: the brokers do not answer in time, or refuse the password.
        """
        deadline = clock.monotonic_s() + self.timeout_s
        while not delivered:
            producer.poll(_POLL_S)
            is_refused = any(map(_is_about_login, problems))
            if delivered or not (is_refused or clock.monotonic_s() > deadline):
                continue
            producer.purge()
            producer.poll(0)
            raise self._explain(None, problems)

    def _explain(self, error: Any, problems: list[str]) -> CallbackFailed:
        """Return the error of a message that was not delivered.

        Args:
            error: why the brokers did not accept the message; None: they did not answer in time.
            problems: errors of the connection. The last refused login among them is added to the message; if there is none, the
                last error. After a refused login, later errors say only that no broker is there.
        """
        why = error.str() if error is not None else f"not confirmed within {self.timeout_s:g} s"
        telling = [problem for problem in problems if _is_about_login(problem)] or problems
        details = f" ({telling[-1]})" if telling else ""
        return CallbackFailed(f"Kafka topic {self.topic} at {self.settings['bootstrap.servers']}: {why}{details}")

    def _explain_size(self, message: Message) -> MessageTooLarge:
        """Return the error of a message that the client or the brokers do not accept because of its size."""
        return MessageTooLarge(
            f"Kafka topic {self.topic}: a message of {len(message.body.encode()):,} bytes is too large; raise "
            f"{o.KAFKA_PREFIX}message.max.bytes, and max.message.bytes of the topic"
        )


def make_kafka_sender(options: Options) -> KafkaSender:
    """Return the sender of the Kafka callback, with the topic and settings in the options. Connects to no broker.

    Raises:
        OptionError: an option is missing, the client refuses one, or the client is not installed.
    """
    servers = options[o.CALLBACK_KAFKA_SERVERS]
    topic = options[o.CALLBACK_KAFKA_TOPIC]
    for value, option in ((servers, o.CALLBACK_KAFKA_SERVERS), (topic, o.CALLBACK_KAFKA_TOPIC)):
        if not value:
            raise OptionError(f"the Kafka callback needs {option.key}, which is not set")
    assert topic is not None
    timeout_s = options[o.CALLBACK_KAFKA_TIMEOUT_SECONDS]
    settings: dict[str, str | int] = {
        "acks": options[o.CALLBACK_KAFKA_ACKS],
        "retries": options[o.CALLBACK_KAFKA_RETRIES],
        "message.timeout.ms": timeout_s * 1000,
        "topic.metadata.propagation.max.ms": 0,  # a topic that does not exist is an error at once
    }
    for key, value in options.prefixed(o.KAFKA_PREFIX).items():
        if key not in _NOT_OF_THE_CLIENT:
            settings[key.removeprefix(o.KAFKA_PREFIX)] = value
    sender = KafkaSender(topic, options[o.CALLBACK_KAFKA_PARTITION], settings, timeout_s)
    _check_settings(settings)
    return sender


def _check_settings(settings: Mapping[str, str | int]) -> None:
    """Raise OptionError if the client refuses a setting. A client without brokers is made for this, and connects to nothing."""
    without_brokers = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
    try:
        _make_producer(without_brokers, [])
    except OptionError:
        raise
    except Exception as e:
        raise OptionError(
            f"an option {o.KAFKA_PREFIX}* is refused by the Kafka client: {_describe(e)}. Names and values are librdkafka's"
        ) from e


def _make_producer(settings: Mapping[str, str | int], problems: list[str]) -> Any:
    """Return a Kafka client.

    Args:
        problems: the text of each error of the connection is added to it.

    Raises:
        OptionError: the client is not installed.
    """
    try:
        from confluent_kafka import Producer
    except ImportError as e:
        raise OptionError("the Kafka callback needs the package confluent-kafka: pip install 'penstock[kafka]'") from e
    on_problem = {"error_cb": lambda error: problems.append(error.str())}
    return Producer({**settings, **on_problem}, logger=_log_to(problems))


def _is_too_large(error: Any) -> bool:
    """Whether an error of the client or of the brokers says that a message is too large. None is no error."""
    return hasattr(error, "name") and error.name() == "MSG_SIZE_TOO_LARGE"


def _describe(error: Exception) -> str:
    """Return the text of an error of the client. Its exceptions hold an error with a code and a text."""
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(error)


def _is_about_login(problem: str) -> bool:
    """Whether an error of the connection says that user or password was refused."""
    return "authentication" in problem.lower()


def _log_to(problems: list[str]) -> logging.Logger:
    """Return a logger for one client. It prints nothing, and adds refused logins to `problems`.

    The client reports some refused logins in its log only.
    """
    logger = logging.Logger("penstock.kafka", logging.ERROR)
    logger.addHandler(_RefusedLogins(problems))
    return logger


class _RefusedLogins(logging.Handler):
    """Adds the log lines about refused logins to a list."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__()
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        """Add the log line to the problems of the client if it is about a refused login."""
        line = record.getMessage()
        if _is_about_login(line):
            self._problems.append(line)
