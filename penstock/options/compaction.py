"""Options of compaction and log compaction: when log files are merged, and which."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, boolean, count, positive, word

_STRATEGIES: Final = "org.apache.hudi.table.action.compact.strategy"

COMPACT_INLINE: Final = Option(
    "hoodie.compact.inline",
    boolean,
    False,
    "Compact a merge-on-read table after a write, if it is due. If not set, batch writes do so.",
)
COMPACT_SCHEDULE_INLINE: Final = Option(
    "hoodie.compact.schedule.inline",
    boolean,
    False,
    "Schedule a compaction after a write, if it is due and none is pending. Another process runs it.",
)
COMPACTION_ASYNC: Final = Option(
    "hoodie.datasource.compaction.async.enable",
    boolean,
    True,
    "Compact in the background of a stream. A batch write that sets it to true does not compact by default.",
)
COMPACT_TRIGGER_STRATEGY: Final = Option(
    "hoodie.compact.inline.trigger.strategy",
    word,
    "NUM_COMMITS",
    "What makes a compaction due: delta commits since the last compaction or since the last plan, elapsed time, or a "
    "combination.",
    allowed=("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME"),
)
COMPACT_MAX_DELTA_COMMITS: Final = Option(
    "hoodie.compact.inline.max.delta.commits",
    positive,
    5,
    "Number of delta commits after which a compaction is due.",
)
COMPACT_MAX_DELTA_SECONDS: Final = Option(
    "hoodie.compact.inline.max.delta.seconds",
    positive,
    3600,
    "Number of seconds after which a compaction is due.",
)
COMPACTION_STRATEGY: Final = Option(
    "hoodie.compaction.strategy",
    word,
    f"{_STRATEGIES}.LogFileSizeBasedCompactionStrategy",
    "Which file groups a compaction plan contains, and in which order.",
)
COMPACTION_TARGET_IO_MB: Final = Option(
    "hoodie.compaction.target.io",
    count,
    512_000,
    "Megabytes that a compaction plan may read and write.",
)
COMPACTION_LOG_SIZE_THRESHOLD: Final = Option(
    "hoodie.compaction.logfile.size.threshold",
    count,
    0,
    "Least bytes of log files of a file group that is compacted.",
)
COMPACTION_LOG_COUNT_THRESHOLD: Final = Option(
    "hoodie.compaction.logfile.num.threshold",
    count,
    0,
    "Least number of log files of a file group that is compacted.",
)
COMPACTION_DAY_PARTITIONS: Final = Option(
    "hoodie.compaction.daybased.target.partitions",
    positive,
    10,
    "Number of latest days that the day-based strategy compacts.",
)
COMPACTION_LAZY_BLOCK_READ: Final = Option(
    "hoodie.compaction.lazy.block.read",
    boolean,
    True,
    "Read the contents of log blocks only when they are needed.",
    accepted=True,
)
COMPACTION_REVERSE_READ: Final = Option(
    "hoodie.compaction.reverse.log.read",
    boolean,
    False,
    "Read log files from the end. Hudi does not use it either.",
    accepted=True,
)
OPTIMIZED_LOG_SCAN: Final = Option(
    "hoodie.optimized.log.blocks.scan.enable",
    boolean,
    False,
    "Use Hudi's second way to scan log blocks.",
    accepted=True,
)
LOG_COMPACTION_INLINE: Final = Option(
    "hoodie.log.compaction.inline",
    boolean,
    False,
    "After each write, merge the log blocks of file groups that have many.",
)
LOG_COMPACTION_ENABLE: Final = Option(
    "hoodie.log.compaction.enable",
    boolean,
    False,
    "Merge the log blocks of Hudi's metadata table.",
    accepted=True,
)
LOG_COMPACTION_BLOCKS: Final = Option(
    "hoodie.log.compaction.blocks.threshold",
    positive,
    5,
    "Number of log blocks of a file group from which they are merged.",
)
