"""Options of partition lifetime: which old partitions are deleted automatically."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES
from penstock.options.option import Option, boolean, positive, text, whole, word, words

TTL_INLINE: Final = Option(
    "hoodie.partition.ttl.inline",
    boolean,
    False,
    "After each commit, delete partitions that are too old, in a commit of its own.",
)
TTL_STRATEGY: Final = Option(
    "hoodie.partition.ttl.management.strategy.type",
    word,
    "KEEP_BY_TIME",
    "From when the age of a partition is counted. KEEP_BY_TIME: from the last write to it. KEEP_BY_CREATION_TIME: from the "
    "write that created it.",
    allowed=("KEEP_BY_TIME", "KEEP_BY_CREATION_TIME"),
)
TTL_STRATEGY_CLASS: Final[Option[str | None]] = Option(
    "hoodie.partition.ttl.strategy.class",
    text,
    None,
    "Java class that chooses partitions. Penstock loads no Java classes.",
    supported=(),
    refused_if=((TTL_INLINE.key, "true"),),
    lacks=JAVA_CLASSES,
    instead="leave it out and choose a hoodie.partition.ttl.management.strategy.type",
)
TTL_DAYS: Final = Option(
    "hoodie.partition.ttl.strategy.days.retain",
    whole,
    -1,
    "Number of days after which a partition is deleted. 0 or less keeps all partitions.",
)
TTL_SELECTED: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.partition.ttl.strategy.partition.selected",
    words,
    (),
    "Partition paths that may be deleted. If not set, all.",
)
TTL_MAX_PARTITIONS: Final = Option(
    "hoodie.partition.ttl.strategy.max.delete.partitions",
    positive,
    1000,
    "Greatest number of partitions that are deleted in one commit.",
)
