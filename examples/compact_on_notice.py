"""A service that waits for commit notices in Kafka, and compacts a merge-on-read table when enough of them came.

    python examples/compact_on_notice.py localhost:9092 commits

The writers of the table send the notices (docs/callbacks.md). They need not wait for the compaction: it runs in this
process, while they go on writing.
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer

import penstock


def compact_on_notices(servers: str, topic: str, every: int = 5, rounds: int | None = None) -> list[str]:
    """Compact a table after each `every` notices about it; return the instants of the compactions.

    Args:
        servers: the Kafka brokers.
        rounds: how many compactions to run; None: go on until the process is ended.
    """
    settings = {"bootstrap.servers": servers, "group.id": "compaction", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    waiting: dict[str, set[str]] = {}  # by table: the instants of its notices. A notice may come twice
    done: list[str] = []
    try:
        while rounds is None or len(done) < rounds:
            message = consumer.poll(1.0)
            if message is None or message.error():
                continue
            notice = json.loads(message.value())
            instants = waiting.setdefault(notice["basePath"], set())
            instants.add(notice["commitTime"])
            if len(instants) < every:
                continue
            done += [commit.instant for commit in penstock.Table.open(notice["basePath"]).compact()]
            instants.clear()
            consumer.commit()  # only now: a service that dies before compacts when it starts again
    finally:
        consumer.close()
    return done


if __name__ == "__main__":
    compact_on_notices(sys.argv[1], sys.argv[2])
