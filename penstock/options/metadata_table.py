"""Options of the metadata table: Hudi's own index of files, statistics and keys."""

from __future__ import annotations

from typing import Final

from penstock.options.option import GIB, MIB, Option, amount, boolean, count, positive, text, word, words

_META: Final = "hoodie.metadata."
_MAINTAINED: Final = "the metadata table"
_NOT_WRITTEN: Final = "no metadata table is written yet, and queries skip files by the statistics in the files"

METADATA_ENABLE: Final = Option(
    f"{_META}enable",
    boolean,
    True,
    "Maintain the metadata table. Penstock does not maintain one yet: it creates none, and removes an existing one from "
    "`hoodie.properties` before its first commit, so that no reader uses an outdated list of files.",
    supported=("false",),
    ignored=_NOT_WRITTEN,
)
METADATA_COLUMN_STATS: Final = Option(
    f"{_META}index.column.stats.enable",
    boolean,
    False,
    "Store column statistics of all files.",
    supported=("false",),
    ignored=_NOT_WRITTEN,
)
METADATA_COLUMN_STATS_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    f"{_META}index.column.stats.column.list",
    words,
    (),
    "Columns whose statistics are stored. If not set, all.",
    waits_for=_MAINTAINED,
)
METADATA_COLUMN_STATS_GROUPS: Final = Option(
    f"{_META}index.column.stats.file.group.count",
    positive,
    2,
    "Number of file groups for column statistics.",
    waits_for=_MAINTAINED,
)
METADATA_COLUMN_STATS_PARALLELISM: Final = Option(
    f"{_META}index.column.stats.parallelism",
    count,
    200,
    "Number of tasks that compute column statistics.",
    accepted=True,
)
METADATA_COLUMN_STATS_THRESHOLD: Final = Option(
    f"{_META}index.column.stats.inMemory.projection.threshold",
    count,
    100_000,
    "Number of rows of column statistics up to which a reader processes them in memory.",
    accepted=True,
)
METADATA_COLUMN_STATS_MODE: Final[Option[str | None]] = Option(
    f"{_META}index.column.stats.processing.mode.override",
    word,
    None,
    "Make a reader process column statistics in memory, or with Spark.",
    allowed=("in-memory", "engine"),
    accepted=True,
)
METADATA_BLOOM_FILTERS: Final = Option(
    f"{_META}index.bloom.filter.enable",
    boolean,
    False,
    "Store the bloom filters of all files.",
    supported=("false",),
    ignored=_NOT_WRITTEN,
)
METADATA_BLOOM_FILTER_COLUMNS: Final[Option[tuple[str, ...]]] = Option(
    f"{_META}index.bloom.filter.column.list",
    words,
    (),
    "Columns whose bloom filters are stored. If not set, the record key.",
    waits_for=_MAINTAINED,
)
METADATA_BLOOM_FILTER_GROUPS: Final = Option(
    f"{_META}index.bloom.filter.file.group.count",
    positive,
    4,
    "Number of file groups for bloom filters.",
    waits_for=_MAINTAINED,
)
METADATA_BLOOM_FILTER_PARALLELISM: Final = Option(
    f"{_META}index.bloom.filter.parallelism",
    count,
    200,
    "Number of tasks that collect bloom filters.",
    accepted=True,
)
METADATA_RECORD_INDEX: Final = Option(
    f"{_META}record.index.enable",
    boolean,
    False,
    "Store the location of every record key.",
    supported=("false",),
    ignored=_NOT_WRITTEN,
)
METADATA_RECORD_INDEX_GROWTH: Final = Option(
    f"{_META}record.index.growth.factor",
    amount,
    2.0,
    "Factor for growth when the record index is first built.",
    waits_for=_MAINTAINED,
)
METADATA_RECORD_INDEX_GROUPS_MIN: Final = Option(
    f"{_META}record.index.min.filegroup.count",
    positive,
    10,
    "Least number of file groups of the record index.",
    waits_for=_MAINTAINED,
)
METADATA_RECORD_INDEX_GROUPS_MAX: Final = Option(
    f"{_META}record.index.max.filegroup.count",
    positive,
    10_000,
    "Greatest number of file groups of the record index.",
    waits_for=_MAINTAINED,
)
METADATA_RECORD_INDEX_GROUP_BYTES: Final = Option(
    f"{_META}record.index.max.filegroup.size",
    positive,
    GIB,
    "Greatest size of a file group of the record index in bytes.",
    waits_for=_MAINTAINED,
)
METADATA_ASYNC_INDEX: Final = Option(
    f"{_META}index.async",
    boolean,
    False,
    "Build new partitions of the metadata table concurrently with writes.",
    supported=("false",),
    ignored=_NOT_WRITTEN,
)
METADATA_INDEX_TIMEOUT_SECONDS: Final = Option(
    f"{_META}index.check.timeout.seconds",
    positive,
    900,
    "Seconds that a concurrent build waits for running writes.",
    waits_for=_MAINTAINED,
)
METADATA_COMPACT_COMMITS: Final = Option(
    f"{_META}compact.max.delta.commits",
    positive,
    10,
    "Number of delta commits after which the metadata table is compacted.",
    waits_for=_MAINTAINED,
)
METADATA_LOG_COMPACTION: Final = Option(
    f"{_META}log.compaction.enable",
    boolean,
    False,
    "Merge small log blocks of the metadata table.",
    waits_for=_MAINTAINED,
)
METADATA_LOG_COMPACTION_BLOCKS: Final = Option(
    f"{_META}log.compaction.blocks.threshold",
    positive,
    5,
    "Number of log blocks of the metadata table from which they are merged.",
    waits_for=_MAINTAINED,
)
METADATA_MAX_PENDING_COMMITS: Final = Option(
    f"{_META}max.deltacommits.when_pending",
    positive,
    1000,
    "Greatest number of delta commits of the metadata table while an action is pending.",
    waits_for=_MAINTAINED,
)
METADATA_MAX_LOG_BYTES: Final = Option(
    f"{_META}max.logfile.size",
    positive,
    2 * GIB,
    "Greatest size of a log file of the metadata table in bytes.",
    waits_for=_MAINTAINED,
)
METADATA_AUTO_INITIALIZE: Final = Option(
    f"{_META}auto.initialize",
    boolean,
    True,
    "Build the metadata table if it is missing.",
    waits_for=_MAINTAINED,
)
METADATA_INIT_PARALLELISM: Final = Option(
    f"{_META}max.init.parallelism",
    count,
    100_000,
    "Number of tasks that build the metadata table.",
    accepted=True,
)
METADATA_DIR_FILTER: Final = Option(
    f"{_META}dir.filter.regex",
    text,
    "",
    "Regular expression of folders that are left out when the metadata table is built.",
    waits_for=_MAINTAINED,
)
METADATA_READER_BUFFER: Final = Option(
    f"{_META}max.reader.buffer.size",
    positive,
    10 * MIB,
    "Bytes of the buffer of the metadata table's reader.",
    accepted=True,
)
METADATA_READER_MEMORY: Final = Option(
    f"{_META}max.reader.memory",
    positive,
    GIB,
    "Bytes of memory of the metadata table's reader.",
    accepted=True,
)
METADATA_SPILL_PATH: Final[Option[str | None]] = Option(
    f"{_META}spillable.map.path",
    text,
    None,
    "Folder to which the metadata table's reader spills.",
    accepted=True,
)
METADATA_OPTIMIZED_SCAN: Final = Option(
    f"{_META}optimized.log.blocks.scan.enable",
    boolean,
    False,
    "Use Hudi's second way to scan log blocks of the metadata table.",
    accepted=True,
)
METADATA_METRICS: Final = Option(
    f"{_META}metrics.enable",
    boolean,
    False,
    "Report metrics of the metadata table.",
    supported=("false",),
    ignored=_NOT_WRITTEN,
)
