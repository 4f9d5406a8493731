"""Options of compaction: when log files of a merge-on-read table become base files."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, boolean, count, positive, word

_STRATEGIES: Final = "org.apache.hudi.table.action.compact.strategy"

COMPACT_INLINE: Final = Option(
    "hoodie.compact.inline",
    boolean,
    False,
    "Compact after a write to a merge-on-read table, when it is due. Where it is not given, batch writes do so.",
)
COMPACT_SCHEDULE_INLINE: Final = Option(
    "hoodie.compact.schedule.inline",
    boolean,
    False,
    "Plan a compaction after a write, when it is due and none waits, and leave it to another process.",
)
COMPACTION_ASYNC: Final = Option(
    "hoodie.datasource.compaction.async.enable",
    boolean,
    True,
    "Compact beside a stream. A batch write that sets it to true does not compact on its own.",
)
COMPACT_TRIGGER_STRATEGY: Final = Option(
    "hoodie.compact.inline.trigger.strategy",
    word,
    "NUM_COMMITS",
    "What makes a compaction due.",
    allowed=("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
)
COMPACT_MAX_DELTA_COMMITS: Final = Option(
    "hoodie.compact.inline.max.delta.commits",
    positive,
    5,
    "Delta commits that make one due.",
)
COMPACT_MAX_DELTA_SECONDS: Final = Option(
    "hoodie.compact.inline.max.delta.seconds",
    positive,
    3600,
    "Seconds that make one due.",
)
COMPACTION_STRATEGY: Final = Option(
    "hoodie.compaction.strategy",
    word,
    f"{_STRATEGIES}.LogFileSizeBasedCompactionStrategy",
    "Which file groups a plan takes, and in which order.",
)
COMPACTION_TARGET_IO_MB: Final = Option(
    "hoodie.compaction.target.io",
    count,
    512_000,
    "Megabytes a plan may read and write.",
)
COMPACTION_LOG_SIZE_THRESHOLD: Final = Option(
    "hoodie.compaction.logfile.size.threshold",
    count,
    0,
    "Bytes of log files a file group needs.",
)
COMPACTION_LOG_COUNT_THRESHOLD: Final = Option(
    "hoodie.compaction.logfile.num.threshold",
    count,
    0,
    "Number of log files a file group needs.",
)
COMPACTION_DAY_PARTITIONS: Final = Option(
    "hoodie.compaction.daybased.target.partitions",
    positive,
    10,
    "Newest days the day-based strategy takes.",
)
COMPACTION_LAZY_BLOCK_READ: Final = Option(
    "hoodie.compaction.lazy.block.read",
    boolean,
    True,
    "Read log blocks when they are needed.",
    accepted=True,
)
COMPACTION_REVERSE_READ: Final = Option(
    "hoodie.compaction.reverse.log.read",
    boolean,
    False,
    "Read log files from their end; Hudi does not do it either.",
    accepted=True,
)
OPTIMIZED_LOG_SCAN: Final = Option(
    "hoodie.optimized.log.blocks.scan.enable",
    boolean,
    False,
    "Second way of scanning log blocks.",
    accepted=True,
)
LOG_COMPACTION_INLINE: Final = Option(
    "hoodie.log.compaction.inline",
    boolean,
    False,
    "Join the log blocks of a file group after each write, when there are many.",
)
LOG_COMPACTION_ENABLE: Final = Option(
    "hoodie.log.compaction.enable",
    boolean,
    False,
    "Do so in Hudi's metadata table.",
    accepted=True,
)
LOG_COMPACTION_BLOCKS: Final = Option(
    "hoodie.log.compaction.blocks.threshold",
    positive,
    5,
    "Blocks that make it worthwhile.",
)
