"""Options of the lifetime of partitions: which go by themselves when they are old."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, boolean, positive, text, whole, word, words

TTL_INLINE: Final = Option(
    "hoodie.partition.ttl.inline",
    boolean,
    False,
    "Delete partitions whose time is over after each commit, as one more commit.",
)
TTL_STRATEGY: Final = Option(
    "hoodie.partition.ttl.management.strategy.type",
    word,
    "KEEP_BY_TIME",
    "What a partition's age counts from: the last write to it, or the write that made it.",
    allowed=("KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"),
)
TTL_STRATEGY_CLASS: Final[Option[str | None]] = Option(
    "hoodie.partition.ttl.strategy.class",
    text,
    None,
    "A Java class that decides. Penstock has no JVM of its own to run it in.",
    supported=(),
    instead="choose a hoodie.partition.ttl.management.strategy.type",
)
TTL_DAYS: Final = Option(
    "hoodie.partition.ttl.strategy.days.retain",
    whole,
    -1,
    "Days for which a partition stays; not more than 0 keeps all.",
)
TTL_SELECTED: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.partition.ttl.strategy.partition.selected",
    words,
    (),
    "Only these partition paths may go.",
)
TTL_MAX_PARTITIONS: Final = Option(
    "hoodie.partition.ttl.strategy.max.delete.partitions",
    positive,
    1000,
    "Partitions that go in one commit.",
)
