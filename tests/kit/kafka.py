"""A real Apache Kafka for tests: one process that is broker and controller (KRaft mode), on free ports of this machine.

Topics are not created by themselves. A second listener asks for a user and password (SASL/PLAIN), a third one is encrypted.
`python -m tests.kit.kafka` fetches what it needs, and starts nothing.
"""

from __future__ import annotations

import base64
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.servers import Server, ServerUnavailable, free_port, jars_of, java_command

VERSION = "3.9.2"
USER = "ann"
PASSWORD = "pa55word"
#: A process that lives for a minute: little heap, and no time spent on compiling well.
SHORT_LIFE = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


@dataclass(frozen=True)
class Kafka:
    """A running Kafka."""

    address: str
    #: The address of the listener that asks for user and password.
    sasl_address: str
    #: The address of the listener that is encrypted, and the certificate that its clients have to trust.
    tls_address: str
    certificate: Path
    server: Server

    @classmethod
    def start(cls, folder: Path) -> Kafka:
        """Start a Kafka that keeps its files in a folder; return when it answers.

        Raises:
            ServerUnavailable: the jars or the client are missing and cannot be fetched.
        """
        try:
            import confluent_kafka  # noqa: F401
        except ImportError:
            raise ServerUnavailable("Kafka needs the package confluent-kafka (make setup)") from None
        jars = fetch()
        plain, sasl, tls, controller = free_port(), free_port(), free_port(), free_port()
        certificate = make_certificate(folder)
        settings = folder / "server.properties"
        settings.write_text(_settings(folder, plain, sasl, tls, controller))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatting = ["-Xmx128m", "-cp", jars, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
        subprocess.run([java_command(), *formatting], check=True, capture_output=True)
        server = Server.start("kafka", folder, [*SHORT_LIFE, "-cp", jars, "kafka.Kafka", str(settings)])
        kafka = cls(f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}", f"127.0.0.1:{tls}", certificate, server)
        try:
            server.wait_until(kafka.answers)
        except BaseException:
            server.end()
            raise
        return kafka

    def answers(self) -> bool:
        """Whether the broker answers."""
        from confluent_kafka import KafkaException

        try:
            self._admin().list_topics(timeout=2)
        except KafkaException:
            return False
        return True

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create an empty topic."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        admin = self._admin()  # must live until the topic is there
        for created in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            created.result(30)

    def read(self, topic: str, count: int) -> list[tuple[int, str, str]]:
        """Return (partition, key, value) of the first messages of a topic, in the order in which they arrive."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": self.address, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "logger": _silent()})
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])  # faster than joining a group
        try:
            found: list[tuple[int, str, str]] = []
            for _ in range(60):
                message: Any = consumer.poll(1)
                if message is not None and message.error() is None:
                    found.append((message.partition(), message.key().decode(), message.value().decode()))
                if len(found) == count:
                    break
            return found
        finally:
            consumer.close()

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address}, logger=_silent())


def fetch() -> str:
    """Return the class path of the server, fetched the first time.

    Raises:
        ServerUnavailable: Maven Central cannot be reached.
    """
    return jars_of("org.apache.kafka", "kafka_2.13", VERSION)


def make_certificate(folder: Path) -> Path:
    """Make a certificate of 127.0.0.1 that is its own authority, and a file with it and its key. Return the certificate's path.

    Raises:
        ServerUnavailable: openssl is not installed.
    """
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    arguments = [*command.split(), "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(arguments, check=True, capture_output=True)
    except FileNotFoundError:
        raise ServerUnavailable("the encrypted listener of Kafka needs openssl") from None
    (folder / "key-and-certificate.pem").write_bytes(key.read_bytes() + certificate.read_bytes())
    return certificate


@contextmanager
def running_kafka() -> Iterator[Kafka]:
    """Run a Kafka in a temporary folder until the block ends."""
    with tempfile.TemporaryDirectory(prefix="kafka-", ignore_cleanup_errors=True) as folder:
        kafka = Kafka.start(Path(folder))
        try:
            yield kafka
        finally:
            kafka.server.end()


def _silent() -> Any:
    """Return a logger that prints nothing: a client complains about each second without a broker."""
    import logging

    logger = logging.getLogger("tests.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _settings(folder: Path, plain: int, sasl: int, tls: int, controller: int) -> str:
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl},SSL://127.0.0.1:{tls}"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "listener.name.ssl.ssl.keystore.type": "PEM",
        "listener.name.ssl.ssl.keystore.location": f"{folder}/key-and-certificate.pem",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{login} user_{USER}="{PASSWORD}";',
        "log.dirs": f"{folder}/log",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


if __name__ == "__main__":
    fetch()
