"""Options of queries: query type, time travel, range of an incremental query, source of partition values."""

from __future__ import annotations

from typing import Final

from penstock.options.features import CHANGE_DATA, NO_METADATA_FILE
from penstock.options.option import Option, boolean, comma_list, count, equalities, text, word

QUERY_TYPE: Final = Option(
    "hoodie.datasource.query.type",
    word,
    "snapshot",
    "`snapshot`: the latest rows. `read_optimized`: the rows of the latest base files, without log files. `incremental`: the "
    "rows that changed. On copy-on-write tables the first two are the same.",
    aliases=("hoodie.datasource.view.type",),
    alias_values=(("read_optimized", "snapshot"), ("realtime", "snapshot")),
    allowed=("snapshot", "read_optimized", "incremental"),
)
AS_OF_INSTANT: Final[Option[str | None]] = Option(
    "as.of.instant",
    word,
    None,
    "Read the table as of this time: an instant time of 14 or 17 digits, `yyyy-MM-dd`, or `yyyy-MM-dd HH:mm:ss[.SSS]`.",
)
READ_PATHS: Final[Option[str | None]] = Option(
    "hoodie.datasource.read.paths",
    comma_list,
    None,
    "Paths below the base path that are read instead of the whole table; `*` matches any name.",
)
READ_EQUALS: Final[Option[tuple[tuple[str, object], ...]]] = Option(
    "penstock.read.equals",
    equalities,
    (),
    "Read only rows whose columns have these values. If the values determine the bucket of a row, only that bucket is read.",
)
READ_PARTITION_VALUES: Final = Option(
    "penstock.read.partition.values",
    word,
    "path",
    "Where the values of partition columns come from. `path`: from the name of the folder, so that Spark skips partitions by "
    "filters. `stored`: from the stored column.",
    aliases=("hoodie.datasource.read.extract.partition.values.from.path",),
    alias_values=(("true", "path"), ("false", "stored")),
    allowed=("path", "stored"),
)
MERGE_TYPE: Final = Option(
    "hoodie.datasource.merge.type",
    word,
    "payload_combine",
    "`payload_combine`: a snapshot of a merge-on-read table merges log rows with base rows. `skip_merge`: it returns both.",
    allowed=("payload_combine", "skip_merge"),
)
BEGIN_INSTANT: Final[Option[str | None]] = Option(
    "hoodie.datasource.read.begin.instanttime",
    word,
    None,
    "Required by incremental queries: they return rows that were written after this instant time. Digits are compared as text, "
    "so that `000` is before all instants; `yyyy-MM-dd` and `yyyy-MM-dd HH:mm:ss[.SSS]` are times.",
)
END_INSTANT: Final[Option[str | None]] = Option(
    "hoodie.datasource.read.end.instanttime",
    word,
    None,
    "Incremental queries return rows that were written up to and including this instant time. If not set, up to the latest "
    "instant.",
)
INCREMENTAL_FORMAT: Final = Option(
    "hoodie.datasource.query.incremental.format",
    word,
    "latest_state",
    "`latest_state`: the latest row of each changed key. `cdc`: each change with the row before and after.",
    allowed=("latest_state", "cdc"),
    supported=("latest_state",),
    refused_if=((QUERY_TYPE.key, "incremental"),),
    lacks=CHANGE_DATA,
    instead="leave it out to get the newest row of each changed key",
)
INCREMENTAL_GLOB: Final = Option(
    "hoodie.datasource.read.incr.path.glob",
    text,
    "",
    "Incremental queries read only files whose path ends with a match of this pattern; `*` matches any characters, also slashes.",
)
INCREMENTAL_FILTERS: Final = Option(
    "hoodie.datasource.read.incr.filters",
    text,
    "",
    "SQL conditions, separated by commas, that all rows of an incremental query must meet.",
)
INCREMENTAL_FALLBACK_FULL_SCAN: Final = Option(
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
    boolean,
    False,
    "If files in the range of an incremental query were cleaned: scan the current table, instead of failing. The scan returns "
    "no rows that changed again after the range.",
)
INCREMENTAL_END_SCHEMA: Final = Option(
    "hoodie.datasource.read.schema.use.end.instanttime",
    boolean,
    False,
    "Incremental queries return the columns that the table had at the end of the range, instead of its current columns.",
)
TIMELINE_HOLES_POLICY: Final = Option(
    "hoodie.read.timeline.holes.resolution.policy",
    word,
    "FAIL",
    "What an incremental query does if a write in its range is not completed and a later write is. FAIL: raise an error. "
    "BLOCK: end the range before the pending write.",
    allowed=("FAIL", "BLOCK", "USE_TRANSITION_TIME"),
    supported=("FAIL", "BLOCK"),
    refused_if=((QUERY_TYPE.key, "incremental"),),
    lacks="incremental queries by completion time",
    instead="use BLOCK, which leaves the instants after a pending write to a later query",
)
QUERY_AS_RO_TABLE: Final[Option[bool | None]] = Option(
    "hoodie.query.as.ro.table",
    boolean,
    None,
    "Query type that a catalog stores with a table.",
    supported=(),
    lacks="the query type that a catalog entry stores, as an option of a query",
    instead="leave it out and set hoodie.datasource.query.type",
)
DATA_SKIPPING: Final = Option(
    "hoodie.enable.data.skipping",
    boolean,
    False,
    "Skip files by the column statistics of the metadata table. Spark's Parquet reader skips by the statistics in the files.",
    accepted=True,
)
DATA_SKIPPING_FAILURE_MODE: Final = Option(
    "hoodie.fileIndex.dataSkippingFailureMode",
    word,
    "fallback",
    "What happens if data skipping fails.",
    allowed=("fallback", "strict"),
    accepted=True,
)
FILE_INDEX_ENABLE: Final = Option(
    "hoodie.file.index.enable",
    boolean,
    True,
    "Plan queries with Hudi's file index.",
    accepted=True,
)
LISTING_MODE: Final = Option(
    "hoodie.datasource.read.file.index.listing.mode",
    word,
    "lazy",
    "`lazy`: list partitions when the query needs them. `eager`: list all at once. Penstock lists the partitions that the "
    "query needs.",
    allowed=("lazy", "eager"),
    accepted=True,
)
LISTING_PREFIX_ANALYSIS: Final = Option(
    "hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled",
    boolean,
    True,
    "List only the folder that the filters on the leading partition columns determine.",
    accepted=True,
)
LISTING_PARALLELISM: Final = Option(
    "hoodie.file.listing.parallelism",
    count,
    200,
    "Number of tasks that list folders.",
    accepted=True,
)
NEW_PARQUET_FORMAT: Final = Option(
    "hoodie.datasource.read.use.new.parquet.file.format",
    boolean,
    False,
    "Use Hudi's newer Parquet reader for Spark.",
    accepted=True,
)
ASSUME_DATE_PARTITIONING: Final = Option(
    "hoodie.assume.date.partitioning",
    boolean,
    False,
    "Treat every folder at the third level as a partition.",
    supported=("false",),
    lacks=NO_METADATA_FILE,
    instead="leave it out",
)
