"""Options of catalog sync: making the table known to Hive and its kin after a commit."""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, boolean, positive, text, word, words

_SYNC: Final = "catalog sync"
_HIVE: Final = "hoodie.datasource.hive_sync."

HIVE_SYNC_ENABLE: Final = Option(
    f"{_HIVE}enable",
    boolean,
    False,
    "Register the table and its partitions in Hive after each commit.",
    supported=("false",),
    instead="register the table in the catalog yourself",
)
META_SYNC_ENABLE: Final = Option(
    "hoodie.datasource.meta.sync.enable",
    boolean,
    False,
    "Run the sync tools after each commit.",
    supported=("false",),
    instead="register the table in the catalog yourself",
)
META_SYNC_TOOLS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.meta.sync.client.tool.class",
    words,
    ("org.apache.hudi.hive.HiveSyncTool",),
    "Sync tools to run.",
    waits_for=_SYNC,
)
META_SYNC_BASE_PATH: Final = Option(
    "hoodie.datasource.meta.sync.base.path",
    text,
    "",
    "Base path that the catalog is told.",
    waits_for=_SYNC,
)
META_SYNC_INCREMENTAL: Final = Option(
    "hoodie.meta.sync.incremental",
    boolean,
    True,
    "Look only at partitions written since the last sync.",
    waits_for=_SYNC,
)
META_SYNC_CONDITION: Final = Option(
    "hoodie.datasource.meta_sync.condition.sync",
    boolean,
    False,
    "Note the commit in the catalog only when something changed.",
    waits_for=_SYNC,
)
META_SYNC_DECODE_PARTITION: Final[Option[bool | None]] = Option(
    "hoodie.meta.sync.decode_partition",
    boolean,
    None,
    "Unescape partition paths first; without it as the table escapes them.",
    waits_for=_SYNC,
)
META_SYNC_METADATA_LISTING: Final[Option[bool | None]] = Option(
    "hoodie.meta.sync.metadata_file_listing",
    boolean,
    None,
    "List partitions from the metadata table.",
    waits_for=_SYNC,
)
META_SYNC_SNAPSHOT_NAME: Final = Option(
    "hoodie.meta.sync.sync_snapshot_with_table_name",
    boolean,
    True,
    "Register a merge-on-read table under its plain name too.",
    waits_for=_SYNC,
)
META_SYNC_SPARK_VERSION: Final = Option(
    "hoodie.meta_sync.spark.version",
    word,
    "",
    "Spark version that the catalog entry names.",
    waits_for=_SYNC,
)
META_SYNC_REPLICATE_TIMESTAMP: Final[Option[str | None]] = Option(
    "hoodie.meta_sync.global.replicate.timestamp",
    word,
    None,
    "Commit up to which several catalogs are made equal.",
    waits_for=_SYNC,
)
HIVE_SYNC_MODE: Final[Option[str | None]] = Option(
    f"{_HIVE}mode",
    word,
    None,
    "How Hive is reached. Without it JDBC, unless `use_jdbc` is off.",
    allowed=("hms", "hiveql", "jdbc", "glue"),
    waits_for=_SYNC,
)
HIVE_SYNC_USE_JDBC: Final = Option(
    f"{_HIVE}use_jdbc",
    boolean,
    True,
    "Old choice between JDBC and HiveQL.",
    waits_for=_SYNC,
)
HIVE_SYNC_METASTORE_URIS: Final = Option(
    f"{_HIVE}metastore.uris",
    word,
    "thrift://localhost:9083",
    "Addresses of the metastore.",
    waits_for=_SYNC,
)
HIVE_SYNC_JDBC_URL: Final = Option(
    f"{_HIVE}jdbcurl",
    word,
    "jdbc:hive2://localhost:10000",
    "Address of HiveServer2.",
    waits_for=_SYNC,
)
HIVE_SYNC_USERNAME: Final = Option(
    f"{_HIVE}username",
    text,
    "hive",
    "User.",
    waits_for=_SYNC,
)
HIVE_SYNC_PASSWORD: Final = Option(
    f"{_HIVE}password",
    text,
    "hive",
    "Password.",
    waits_for=_SYNC,
    secret=True,
)
HIVE_SYNC_DATABASE: Final = Option(
    f"{_HIVE}database",
    word,
    "default",
    "Database; without it that of the table.",
    waits_for=_SYNC,
)
HIVE_SYNC_TABLE: Final = Option(
    f"{_HIVE}table",
    word,
    "unknown",
    "Table; without it the table's name.",
    waits_for=_SYNC,
)
HIVE_SYNC_TABLE_STRATEGY: Final = Option(
    f"{_HIVE}table.strategy",
    word,
    "ALL",
    "Which views of a merge-on-read table are registered.",
    allowed=("ALL", "RO", "RT"),
    waits_for=_SYNC,
)
HIVE_SYNC_PARTITION_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    f"{_HIVE}partition_fields",
    words,
    (),
    "Partition columns; without it those of the table.",
    waits_for=_SYNC,
)
HIVE_SYNC_PARTITION_EXTRACTOR: Final = Option(
    f"{_HIVE}partition_extractor_class",
    word,
    "org.apache.hudi.hive.MultiPartKeysValueExtractor",
    "How values are taken from a partition path; without it the layout of the table decides.",
    waits_for=_SYNC,
)
HIVE_SYNC_ASSUME_DATE: Final = Option(
    f"{_HIVE}assume_date_partitioning",
    boolean,
    False,
    "Take partition paths for dates.",
    waits_for=_SYNC,
)
HIVE_SYNC_BASE_FILE_FORMAT: Final = Option(
    f"{_HIVE}base_file_format",
    word,
    "PARQUET",
    "Format that the catalog entry names.",
    allowed=("PARQUET", "ORC", "HFILE"),
    waits_for=_SYNC,
)
HIVE_SYNC_AUTO_CREATE_DATABASE: Final = Option(
    f"{_HIVE}auto_create_database",
    boolean,
    True,
    "Make the database if it is missing.",
    waits_for=_SYNC,
)
HIVE_SYNC_IGNORE_EXCEPTIONS: Final = Option(
    f"{_HIVE}ignore_exceptions",
    boolean,
    False,
    "Go on when Hive cannot be reached.",
    waits_for=_SYNC,
)
HIVE_SYNC_SKIP_RO_SUFFIX: Final = Option(
    f"{_HIVE}skip_ro_suffix",
    boolean,
    False,
    "Register the read-optimized view without `_ro`.",
    waits_for=_SYNC,
)
HIVE_SYNC_SUPPORT_TIMESTAMP: Final = Option(
    f"{_HIVE}support_timestamp",
    boolean,
    False,
    "Register timestamps as such, not as numbers.",
    waits_for=_SYNC,
)
HIVE_SYNC_TABLE_PROPERTIES: Final[Option[str | None]] = Option(
    f"{_HIVE}table_properties",
    text,
    None,
    "Further table properties, one `key=value` per line.",
    waits_for=_SYNC,
)
HIVE_SYNC_SERDE_PROPERTIES: Final[Option[str | None]] = Option(
    f"{_HIVE}serde_properties",
    text,
    None,
    "Further serde properties, one `key=value` per line.",
    waits_for=_SYNC,
)
HIVE_SYNC_AS_DATASOURCE: Final = Option(
    f"{_HIVE}sync_as_datasource",
    boolean,
    True,
    "Register the table so that Spark reads it as a Hudi table.",
    waits_for=_SYNC,
)
HIVE_SYNC_SCHEMA_LENGTH: Final = Option(
    f"{_HIVE}schema_string_length_thresh",
    positive,
    4000,
    "Longest piece of a schema in one property.",
    waits_for=_SYNC,
)
HIVE_SYNC_MANAGED_TABLE: Final = Option(
    f"{_HIVE}create_managed_table",
    boolean,
    False,
    "Register a managed table, not an external one.",
    waits_for=_SYNC,
)
HIVE_SYNC_OMIT_METADATA_FIELDS: Final = Option(
    f"{_HIVE}omit_metadata_fields",
    boolean,
    False,
    "Leave the meta columns out.",
    waits_for=_SYNC,
)
HIVE_SYNC_COMMENT: Final = Option(
    f"{_HIVE}sync_comment",
    boolean,
    False,
    "Register column comments.",
    waits_for=_SYNC,
)
HIVE_SYNC_BATCH: Final = Option(
    f"{_HIVE}batch_num",
    positive,
    1000,
    "Partitions per request.",
    waits_for=_SYNC,
)
HIVE_SYNC_BUCKET: Final = Option(
    f"{_HIVE}bucket_sync",
    boolean,
    False,
    "Register buckets.",
    waits_for=_SYNC,
)
HIVE_SYNC_BUCKET_SPEC: Final = Option(
    f"{_HIVE}bucket_sync_spec",
    text,
    "",
    "Which.",
    waits_for=_SYNC,
)
HIVE_SYNC_FILTER_PUSHDOWN: Final = Option(
    f"{_HIVE}filter_pushdown_enabled",
    boolean,
    False,
    "Ask Hive only for the partitions that matter.",
    waits_for=_SYNC,
)
HIVE_SYNC_FILTER_PUSHDOWN_MAX: Final = Option(
    f"{_HIVE}filter_pushdown_max_size",
    positive,
    1000,
    "Most conditions in such a request.",
    waits_for=_SYNC,
)
HIVE_SYNC_OLD_INPUT_FORMAT: Final = Option(
    f"{_HIVE}use_pre_apache_input_format",
    boolean,
    False,
    "Register the input format under its old name.",
    waits_for=_SYNC,
)
