"""A service that waits for commit notices in Kafka, and compacts a merge-on-read table when enough of them came.

    python examples/compact_on_notice.py localhost:9092 commits

The writers of the table send the notices (docs/callbacks.md). They need not wait for the compaction: it runs in this
process, while they go on writing.

Kafka keeps one position per partition of the topic. It is moved to the oldest notice that still waits for a compaction, of
whichever table. So a service that dies reads all notices again that it has not acted on.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition

import penstock


@dataclass
class Waiting:
    """The notices that wait for a compaction: by the path of their table, then by instant."""

    #: The place of each notice in the topic: partition and offset. A notice may come twice, and keeps its first place.
    places: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    #: The offset after the last notice that was read, by partition.
    read: dict[int, int] = field(default_factory=dict)

    def add(self, message: Message) -> str:
        """Add a notice; return the path of its table."""
        notice = json.loads(message.value())
        place = (message.partition(), message.offset())
        self.read[message.partition()] = message.offset() + 1
        self.places.setdefault(notice["basePath"], {}).setdefault(notice["commitTime"], place)
        return notice["basePath"]

    def positions(self, topic: str) -> list[TopicPartition]:
        """Return the offset up to which nothing waits, for each partition of the topic."""
        found = dict(self.read)
        for places in self.places.values():
            for partition, offset in places.values():
                found[partition] = min(found[partition], offset)
        return [TopicPartition(topic, partition, offset) for partition, offset in found.items()]


def compact_on_notices(servers: str, topic: str, every: int = 5, rounds: int | None = None) -> list[str]:
    """Compact a table after each `every` notices about it; return the instants of the compactions.

    A compaction that fails is printed, and tried again at the next notice about its table. The other tables do not wait for it.

    Args:
        servers: the Kafka brokers.
        rounds: how many compactions to run; None: go on until the process is ended.
    """
    settings = {"bootstrap.servers": servers, "group.id": "compaction", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    waiting = Waiting()
    done: list[str] = []
    try:
        while rounds is None or len(done) < rounds:
            message = consumer.poll(1.0)
            if message is None or message.error():
                continue
            path = waiting.add(message)
            if len(waiting.places[path]) < every:
                continue
            try:
                done += [commit.instant for commit in penstock.Table.open(path).compact()]
            except Exception as e:
                print(f"compacting {path} failed, and is tried again at its next notice: {e}", file=sys.stderr)
                continue
            del waiting.places[path]
            consumer.commit(offsets=waiting.positions(topic), asynchronous=False)
    finally:
        consumer.close()
    return done


if __name__ == "__main__":
    compact_on_notices(sys.argv[1], sys.argv[2])
