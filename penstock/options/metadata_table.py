"""Options of the metadata table: Hudi's own index of files, statistics and keys."""

from __future__ import annotations

from typing import Final

from penstock.options.option import GIB, MIB, Option, amount, boolean, count, positive, text, word, words

_META: Final = "hoodie.metadata."
_MAINTAINED: Final = "a metadata table that Penstock maintains"
_NOT_WRITTEN: Final = "leave it out; Penstock does not write this part of the metadata table yet"

METADATA_ENABLE: Final = Option(
    f"{_META}enable",
    boolean,
    True,
    "Keep the metadata table. Penstock does not maintain it yet: it never makes one, and takes an existing one out of "
    "use before its first commit, so that no reader trusts a stale list of files.",
    accepted=True,
)
METADATA_COLUMN_STATS: Final = Option(
    f"{_META}index.column.stats.enable",
    boolean,
    False,
    "Keep column statistics of all files.",
    supported=("false",),
    instead=_NOT_WRITTEN,
)
METADATA_COLUMN_STATS_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    f"{_META}index.column.stats.column.list",
    words,
    (),
    "Of these columns; without it of all.",
    waits_for=_MAINTAINED,
)
METADATA_COLUMN_STATS_GROUPS: Final = Option(
    f"{_META}index.column.stats.file.group.count",
    positive,
    2,
    "File groups they are kept in.",
    waits_for=_MAINTAINED,
)
METADATA_COLUMN_STATS_PARALLELISM: Final = Option(
    f"{_META}index.column.stats.parallelism",
    count,
    200,
    "Number of tasks that gather them.",
    accepted=True,
)
METADATA_COLUMN_STATS_THRESHOLD: Final = Option(
    f"{_META}index.column.stats.inMemory.projection.threshold",
    count,
    100_000,
    "Rows of statistics up to which a reader works in memory.",
    accepted=True,
)
METADATA_COLUMN_STATS_MODE: Final[Option[str | None]] = Option(
    f"{_META}index.column.stats.processing.mode.override",
    word,
    None,
    "Force a reader to work in memory or with Spark.",
    allowed=("in-memory", "engine"),
    accepted=True,
)
METADATA_BLOOM_FILTERS: Final = Option(
    f"{_META}index.bloom.filter.enable",
    boolean,
    False,
    "Keep the bloom filters of all files.",
    supported=("false",),
    instead=_NOT_WRITTEN,
)
METADATA_BLOOM_FILTER_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    f"{_META}index.bloom.filter.column.list",
    words,
    (),
    "Of these columns; without it of the record key.",
    waits_for=_MAINTAINED,
)
METADATA_BLOOM_FILTER_GROUPS: Final = Option(
    f"{_META}index.bloom.filter.file.group.count",
    positive,
    4,
    "File groups they are kept in.",
    waits_for=_MAINTAINED,
)
METADATA_BLOOM_FILTER_PARALLELISM: Final = Option(
    f"{_META}index.bloom.filter.parallelism",
    count,
    200,
    "Number of tasks that gather them.",
    accepted=True,
)
METADATA_RECORD_INDEX: Final = Option(
    f"{_META}record.index.enable",
    boolean,
    False,
    "Keep the location of every key.",
    supported=("false",),
    instead="leave it out, and set hoodie.index.type=GLOBAL_BLOOM, or BUCKET where a key stays in its partition",
)
METADATA_RECORD_INDEX_GROWTH: Final = Option(
    f"{_META}record.index.growth.factor",
    amount,
    2.0,
    "Room for growth when it is first built.",
    waits_for=_MAINTAINED,
)
METADATA_RECORD_INDEX_GROUPS_MIN: Final = Option(
    f"{_META}record.index.min.filegroup.count",
    positive,
    10,
    "Least file groups it is kept in.",
    waits_for=_MAINTAINED,
)
METADATA_RECORD_INDEX_GROUPS_MAX: Final = Option(
    f"{_META}record.index.max.filegroup.count",
    positive,
    10_000,
    "Most file groups it is kept in.",
    waits_for=_MAINTAINED,
)
METADATA_RECORD_INDEX_GROUP_BYTES: Final = Option(
    f"{_META}record.index.max.filegroup.size",
    positive,
    GIB,
    "Bytes of one such file group.",
    waits_for=_MAINTAINED,
)
METADATA_ASYNC_INDEX: Final = Option(
    f"{_META}index.async",
    boolean,
    False,
    "Build new parts beside the writes.",
    supported=("false",),
    instead=_NOT_WRITTEN,
)
METADATA_INDEX_TIMEOUT_SECONDS: Final = Option(
    f"{_META}index.check.timeout.seconds",
    positive,
    900,
    "How long such a build waits for running writes.",
    waits_for=_MAINTAINED,
)
METADATA_COMPACT_COMMITS: Final = Option(
    f"{_META}compact.max.delta.commits",
    positive,
    10,
    "Delta commits after which the metadata table is compacted.",
    waits_for=_MAINTAINED,
)
METADATA_LOG_COMPACTION: Final = Option(
    f"{_META}log.compaction.enable",
    boolean,
    False,
    "Join its small log blocks.",
    waits_for=_MAINTAINED,
)
METADATA_LOG_COMPACTION_BLOCKS: Final = Option(
    f"{_META}log.compaction.blocks.threshold",
    positive,
    5,
    "Blocks that make it worthwhile.",
    waits_for=_MAINTAINED,
)
METADATA_MAX_PENDING_COMMITS: Final = Option(
    f"{_META}max.deltacommits.when_pending",
    positive,
    1000,
    "Delta commits it may gather while something is pending.",
    waits_for=_MAINTAINED,
)
METADATA_MAX_LOG_BYTES: Final = Option(
    f"{_META}max.logfile.size",
    positive,
    2 * GIB,
    "Bytes of one of its log files.",
    waits_for=_MAINTAINED,
)
METADATA_AUTO_INITIALIZE: Final = Option(
    f"{_META}auto.initialize",
    boolean,
    True,
    "Build it when it is missing.",
    waits_for=_MAINTAINED,
)
METADATA_INIT_PARALLELISM: Final = Option(
    f"{_META}max.init.parallelism",
    count,
    100_000,
    "Number of tasks that build it.",
    accepted=True,
)
METADATA_DIR_FILTER: Final = Option(
    f"{_META}dir.filter.regex",
    text,
    "",
    "Folders left out when it is built.",
    waits_for=_MAINTAINED,
)
METADATA_READER_BUFFER: Final = Option(
    f"{_META}max.reader.buffer.size",
    positive,
    10 * MIB,
    "Buffer of its reader.",
    accepted=True,
)
METADATA_READER_MEMORY: Final = Option(
    f"{_META}max.reader.memory",
    positive,
    GIB,
    "Memory of its reader.",
    accepted=True,
)
METADATA_SPILL_PATH: Final[Option[str | None]] = Option(
    f"{_META}spillable.map.path",
    text,
    None,
    "Where its reader spills to.",
    accepted=True,
)
METADATA_OPTIMIZED_SCAN: Final = Option(
    f"{_META}optimized.log.blocks.scan.enable",
    boolean,
    False,
    "Second way of scanning its log blocks.",
    accepted=True,
)
METADATA_METRICS: Final = Option(
    f"{_META}metrics.enable",
    boolean,
    False,
    "Report measurements of it.",
    supported=("false",),
    instead="leave it out",
)
