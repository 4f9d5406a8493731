"""Options of a query: what is asked for, as of when, and where partition values come from."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, boolean, comma_list, count, equalities, text, word

QUERY_TYPE: Final = Option(
    "hoodie.datasource.query.type",
    word,
    "snapshot",
    "Newest state, newest base files alone, or what changed. The first two are the same on a copy-on-write table.",
    aliases=("hoodie.datasource.view.type",),
    alias_values=(("read_optimized", "snapshot"), ("realtime", "snapshot")),
    allowed=("snapshot", "read_optimized", "incremental"),
)
AS_OF_INSTANT: Final[Option[str | None]] = Option(
    "as.of.instant",
    word,
    None,
    "Read the table as it was: an instant of 14 or 17 digits, `yyyy-MM-dd`, or `yyyy-MM-dd HH:mm:ss[.SSS]`.",
)
READ_PATHS: Final[Option[str | None]] = Option(
    "hoodie.datasource.read.paths",
    comma_list,
    None,
    "Paths below the base path to read, in place of the whole table; `*` stands for any name.",
)
READ_EQUALS: Final[Option[tuple[tuple[str, object], ...]]] = Option(
    "penstock.read.equals",
    equalities,
    (),
    "Only rows whose columns have these values. Where they say the bucket of a row, no other bucket is opened.",
)
READ_PARTITION_VALUES: Final = Option(
    "penstock.read.partition.values",
    word,
    "path",
    "Where the value of a partition column comes from: the folder's name, so that Spark skips partitions by filters, "
    "or the stored column.",
    aliases=("hoodie.datasource.read.extract.partition.values.from.path",),
    alias_values=(("true", "path"), ("false", "stored")),
    allowed=("path", "stored"),
)
MERGE_TYPE: Final = Option(
    "hoodie.datasource.merge.type",
    word,
    "payload_combine",
    "Whether a snapshot of a merge-on-read table merges log rows with base rows, or shows both.",
    allowed=("payload_combine", "skip_merge"),
)
BEGIN_INSTANT: Final[Option[str | None]] = Option(
    "hoodie.datasource.read.begin.instanttime",
    word,
    None,
    "An incremental query gives rows written after this instant; it has to be given. Digits are compared as text, so that `000` "
    "is before all; `yyyy-MM-dd` and `yyyy-MM-dd HH:mm:ss[.SSS]` are times.",
)
END_INSTANT: Final[Option[str | None]] = Option(
    "hoodie.datasource.read.end.instanttime",
    word,
    None,
    "An incremental query gives rows written up to and with this instant; by default the last one.",
)
INCREMENTAL_FORMAT: Final = Option(
    "hoodie.datasource.query.incremental.format",
    word,
    "latest_state",
    "The newest row of each changed key, or each change with its images.",
    allowed=("latest_state", "cdc"),
    supported=("latest_state",),
    instead="leave it out to get the newest row of each changed key; images of rows before and after a change are not there yet",
)
INCREMENTAL_GLOB: Final = Option(
    "hoodie.datasource.read.incr.path.glob",
    text,
    "",
    "An incremental query reads only files whose path ends with what matches this; `*` stands for any characters, slashes too.",
)
INCREMENTAL_FILTERS: Final = Option(
    "hoodie.datasource.read.incr.filters",
    text,
    "",
    "SQL conditions, with commas between them, that the rows of an incremental query must all meet.",
)
INCREMENTAL_FALLBACK_FULL_SCAN: Final = Option(
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
    boolean,
    False,
    "What an incremental query does when files of its range were cleaned: scan the table as it is now, or fail. "
    "A scan has no rows that changed again after the range.",
)
INCREMENTAL_END_SCHEMA: Final = Option(
    "hoodie.datasource.read.schema.use.end.instanttime",
    boolean,
    False,
    "An incremental query has the columns that the table had at the end of the range, in place of those that it has now.",
)
TIMELINE_HOLES_POLICY: Final = Option(
    "hoodie.read.timeline.holes.resolution.policy",
    word,
    "FAIL",
    "What an incremental query does when a write of its range is not completed, and a later one is: fail, or end before it.",
    allowed=("FAIL", "BLOCK", "USE_TRANSITION_TIME"),
    supported=("FAIL", "BLOCK"),
    instead="use BLOCK, which leaves what comes after such a write to a later query",
)
QUERY_AS_RO_TABLE: Final[Option[bool | None]] = Option(
    "hoodie.query.as.ro.table",
    boolean,
    None,
    "Query type that a catalog stores with a table.",
    supported=(),
    instead="set hoodie.datasource.query.type",
)
DATA_SKIPPING: Final = Option(
    "hoodie.enable.data.skipping",
    boolean,
    False,
    "Skip files by column statistics of the metadata table. Spark's own Parquet reader skips by those in the files.",
    accepted=True,
)
DATA_SKIPPING_FAILURE_MODE: Final = Option(
    "hoodie.fileIndex.dataSkippingFailureMode",
    word,
    "fallback",
    "What happens when that fails.",
    allowed=("fallback", "strict"),
    accepted=True,
)
FILE_INDEX_ENABLE: Final = Option(
    "hoodie.file.index.enable",
    boolean,
    True,
    "Plan with Hudi's file index.",
    accepted=True,
)
LISTING_MODE: Final = Option(
    "hoodie.datasource.read.file.index.listing.mode",
    word,
    "lazy",
    "List partitions when the query needs them, or all at once. Penstock lists what the query asks for.",
    allowed=("lazy", "eager"),
    accepted=True,
)
LISTING_PREFIX_ANALYSIS: Final = Option(
    "hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled",
    boolean,
    True,
    "List only below the folder that a filter's leading partition columns give.",
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
    "Use Hudi's second reader for Spark.",
    accepted=True,
)
ASSUME_DATE_PARTITIONING: Final = Option(
    "hoodie.assume.date.partitioning",
    boolean,
    False,
    "Take every folder of three levels for a partition.",
    supported=("false",),
    instead="leave it out; partitions are found by their metadata files",
)
