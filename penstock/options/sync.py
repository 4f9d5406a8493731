"""Options of catalog sync: registering the table in Hive and other catalogs after a commit."""

from __future__ import annotations

from typing import Final

from penstock.options.features import JAVA_CLASSES, NO_METADATA_FILE
from penstock.options.option import Option, boolean, positive, text, word, words
from penstock.options.sync_tool_names import EXTRACTOR_NAMES, GLUE_SYNC_TOOL, HIVE_SYNC_TOOL
from penstock.registered.sync_tools import SYNC_TOOLS

_HIVE: Final = "hoodie.datasource.hive_sync."
_GLUE: Final = "hoodie.datasource.meta.sync.glue."
_GLUE_FEATURES: Final = "AWS Glue: partition indexes, names and listings of its own, and entries that are created again"


def _are_sync_tools(raw: str) -> bool:
    """Whether all names of a comma-separated list are sync tools: Hudi's for Hive or Glue, or the user's own."""
    return all(name in (HIVE_SYNC_TOOL, GLUE_SYNC_TOOL) or SYNC_TOOLS.has(name) for name in words(raw))


HIVE_SYNC_ENABLE: Final = Option(
    f"{_HIVE}enable",
    boolean,
    False,
    "Register the table and its partitions in Hive after each commit.",
)
META_SYNC_ENABLE: Final = Option(
    "hoodie.datasource.meta.sync.enable",
    boolean,
    False,
    "Run the sync tools after each commit.",
)
#: The options that turn catalog sync after a write on.
_SYNC_ON: Final = ((HIVE_SYNC_ENABLE.key, "true"), (META_SYNC_ENABLE.key, "true"))
META_SYNC_TOOLS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.meta.sync.client.tool.class",
    words,
    (HIVE_SYNC_TOOL,),
    "Sync tools that run after each commit: Hive's, Glue's, or names of your own.",
    supported=(HIVE_SYNC_TOOL, GLUE_SYNC_TOOL),
    is_also_supported=_are_sync_tools,
    refused_if=_SYNC_ON,
    lacks=JAVA_CLASSES,
    instead=(
        f"use {HIVE_SYNC_TOOL} or {GLUE_SYNC_TOOL}, or register a tool of your own with @penstock.sync_tool and name it here"
    ),
)
META_SYNC_BASE_PATH: Final = Option(
    "hoodie.datasource.meta.sync.base.path",
    text,
    "",
    "Base path that is registered in the catalog.",
)
META_SYNC_INCREMENTAL: Final = Option(
    "hoodie.meta.sync.incremental",
    boolean,
    True,
    "Register only partitions that were written since the last sync.",
)
META_SYNC_CONDITION: Final = Option(
    "hoodie.datasource.meta_sync.condition.sync",
    boolean,
    False,
    "Store the commit time in the catalog only if something changed.",
)
META_SYNC_DECODE_PARTITION: Final[Option[bool | None]] = Option(
    "hoodie.meta.sync.decode_partition",
    boolean,
    None,
    "Unescape partition paths before they are registered. If not set, the table's own setting decides.",
)
META_SYNC_METADATA_LISTING: Final[Option[bool | None]] = Option(
    "hoodie.meta.sync.metadata_file_listing",
    boolean,
    None,
    "List partitions from the metadata table.",
    accepted=True,
)
META_SYNC_SNAPSHOT_NAME: Final = Option(
    "hoodie.meta.sync.sync_snapshot_with_table_name",
    boolean,
    True,
    "Also register a merge-on-read table under its name without a suffix.",
)
META_SYNC_SPARK_VERSION: Final = Option(
    "hoodie.meta_sync.spark.version",
    word,
    "",
    "Spark version that is stored in the catalog entry.",
)
META_SYNC_REPLICATE_TIMESTAMP: Final[Option[str | None]] = Option(
    "hoodie.meta_sync.global.replicate.timestamp",
    word,
    None,
    "Commit up to which several catalogs are synchronized.",
    supported=(),
    refused_if=_SYNC_ON,
    lacks="one sync to several Hive clusters at once (GlobalHiveSyncTool)",
    instead="leave it out and sync to each metastore in turn",
)
HIVE_SYNC_MODE: Final[Option[str | None]] = Option(
    f"{_HIVE}mode",
    word,
    None,
    "How Hive is accessed. If not set, JDBC, unless `use_jdbc` is false.",
    allowed=("hms", "hiveql", "jdbc", "glue"),
)
HIVE_SYNC_USE_JDBC: Final = Option(
    f"{_HIVE}use_jdbc",
    boolean,
    True,
    "Old switch between JDBC and HiveQL.",
)
HIVE_SYNC_METASTORE_URIS: Final = Option(
    f"{_HIVE}metastore.uris",
    word,
    "thrift://localhost:9083",
    "Addresses of the Hive metastore.",
)
HIVE_SYNC_JDBC_URL: Final = Option(
    f"{_HIVE}jdbcurl",
    word,
    "jdbc:hive2://localhost:10000",
    "Address of HiveServer2. `;user=…;password=…` in it count before the options for user and password.",
    secret=True,
)
HIVE_SYNC_USERNAME: Final = Option(
    f"{_HIVE}username",
    text,
    "hive",
    "User name for Hive.",
)
HIVE_SYNC_PASSWORD: Final = Option(
    f"{_HIVE}password",
    text,
    "hive",
    "Password for Hive.",
    secret=True,
)
HIVE_SYNC_DATABASE: Final = Option(
    f"{_HIVE}database",
    word,
    "default",
    "Database in the catalog. If not set, the database of the table.",
)
HIVE_SYNC_TABLE: Final = Option(
    f"{_HIVE}table",
    word,
    "unknown",
    "Name in the catalog. If not set, the name of the table.",
)
HIVE_SYNC_TABLE_STRATEGY: Final = Option(
    f"{_HIVE}table.strategy",
    word,
    "ALL",
    "Which views of a merge-on-read table are registered.",
    allowed=("ALL", "RO", "RT"),
)
HIVE_SYNC_PARTITION_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    f"{_HIVE}partition_fields",
    words,
    (),
    "Partition columns in the catalog. If not set, those of the table.",
)
HIVE_SYNC_PARTITION_EXTRACTOR: Final = Option(
    f"{_HIVE}partition_extractor_class",
    word,
    "org.apache.hudi.hive.MultiPartKeysValueExtractor",
    "Class that extracts values from partition paths. If not set, the partitioning of the table decides.",
    supported=EXTRACTOR_NAMES,
    refused_if=_SYNC_ON,
    lacks=JAVA_CLASSES,
)
HIVE_SYNC_ASSUME_DATE: Final = Option(
    f"{_HIVE}assume_date_partitioning",
    boolean,
    False,
    "Treat every folder at the third level as a partition.",
    supported=("false",),
    lacks=NO_METADATA_FILE,
    instead="leave it out",
)
HIVE_SYNC_BASE_FILE_FORMAT: Final = Option(
    f"{_HIVE}base_file_format",
    word,
    "PARQUET",
    "File format that is stored in the catalog entry.",
    allowed=("PARQUET", "ORC", "HFILE"),
    supported=("PARQUET",),
    refused_if=_SYNC_ON,
    lacks="base files of other formats than Parquet",
)
HIVE_SYNC_AUTO_CREATE_DATABASE: Final = Option(
    f"{_HIVE}auto_create_database",
    boolean,
    True,
    "Create the database if it does not exist.",
)
HIVE_SYNC_IGNORE_EXCEPTIONS: Final = Option(
    f"{_HIVE}ignore_exceptions",
    boolean,
    False,
    "Continue if Hive cannot be accessed.",
)
HIVE_SYNC_SKIP_RO_SUFFIX: Final = Option(
    f"{_HIVE}skip_ro_suffix",
    boolean,
    False,
    "Register the read-optimized view without the suffix `_ro`.",
)
HIVE_SYNC_SUPPORT_TIMESTAMP: Final = Option(
    f"{_HIVE}support_timestamp",
    boolean,
    False,
    "Register timestamps as timestamps, not as numbers.",
)
HIVE_SYNC_TABLE_PROPERTIES: Final[Option[str | None]] = Option(
    f"{_HIVE}table_properties",
    text,
    None,
    "Additional table properties, one `key=value` per line.",
)
HIVE_SYNC_SERDE_PROPERTIES: Final[Option[str | None]] = Option(
    f"{_HIVE}serde_properties",
    text,
    None,
    "Additional serde properties, one `key=value` per line.",
)
HIVE_SYNC_AS_DATASOURCE: Final = Option(
    f"{_HIVE}sync_as_datasource",
    boolean,
    True,
    "Register the table so that Spark reads it as a Hudi table.",
)
HIVE_SYNC_SCHEMA_LENGTH: Final = Option(
    f"{_HIVE}schema_string_length_thresh",
    positive,
    4000,
    "Greatest length of the part of a schema in one table property.",
)
HIVE_SYNC_MANAGED_TABLE: Final = Option(
    f"{_HIVE}create_managed_table",
    boolean,
    False,
    "Register a managed table, not an external one.",
)
HIVE_SYNC_OMIT_METADATA_FIELDS: Final = Option(
    f"{_HIVE}omit_metadata_fields",
    boolean,
    False,
    "Leave the meta columns out of the catalog entry.",
)
HIVE_SYNC_COMMENT: Final = Option(
    f"{_HIVE}sync_comment",
    boolean,
    False,
    "Register column comments.",
)
HIVE_SYNC_BATCH: Final = Option(
    f"{_HIVE}batch_num",
    positive,
    1000,
    "Number of partitions per request.",
)
HIVE_SYNC_BUCKET: Final = Option(
    f"{_HIVE}bucket_sync",
    boolean,
    False,
    "Register the buckets of the table.",
)
HIVE_SYNC_BUCKET_SPEC: Final = Option(
    f"{_HIVE}bucket_sync_spec",
    text,
    "",
    "Buckets that are registered.",
)
HIVE_SYNC_FILTER_PUSHDOWN: Final = Option(
    f"{_HIVE}filter_pushdown_enabled",
    boolean,
    False,
    "Request only the partitions from Hive that are needed. Penstock always does.",
    accepted=True,
)
HIVE_SYNC_FILTER_PUSHDOWN_MAX: Final = Option(
    f"{_HIVE}filter_pushdown_max_size",
    positive,
    1000,
    "Greatest number of partitions that one request asks for.",
)
HIVE_SYNC_OLD_INPUT_FORMAT: Final = Option(
    f"{_HIVE}use_pre_apache_input_format",
    boolean,
    False,
    "Register the input format under its old name.",
)
GLUE_SKIP_ARCHIVE: Final = Option(
    f"{_GLUE}skip_table_archive",
    boolean,
    True,
    "Whether AWS Glue keeps no copy of a table's entry before a change.",
)
GLUE_LIST_PARALLELISM: Final = Option(
    f"{_GLUE}all_partitions_read_parallelism",
    positive,
    1,
    "Requests at once that list all partitions of AWS Glue.",
    accepted=True,
)
GLUE_READ_PARALLELISM: Final = Option(
    f"{_GLUE}changed_partitions_read_parallelism",
    positive,
    1,
    "Requests at once that read changed partitions of AWS Glue.",
    accepted=True,
)
GLUE_CHANGE_PARALLELISM: Final = Option(
    f"{_GLUE}partition_change_parallelism",
    positive,
    1,
    "Requests at once that change partitions of AWS Glue.",
    accepted=True,
)
GLUE_METADATA_LISTING: Final = Option(
    f"{_GLUE}metadata_file_listing",
    boolean,
    False,
    "Make Athena list partitions and files by the metadata table.",
    supported=("false",),
    lacks=_GLUE_FEATURES,
    instead="leave it out",
)
GLUE_PARTITION_INDEX: Final = Option(
    f"{_GLUE}partition_index_fields.enable",
    boolean,
    False,
    "Create partition indexes in AWS Glue.",
    supported=("false",),
    lacks=_GLUE_FEATURES,
    instead="create the indexes in AWS Glue",
)
GLUE_PARTITION_INDEX_FIELDS: Final = Option(
    f"{_GLUE}partition_index_fields",
    text,
    "",
    "Columns of the partition indexes, if they are enabled.",
    accepted=True,
)
GLUE_RECREATE: Final = Option(
    f"{_GLUE}recreate_table_on_error",
    boolean,
    False,
    "Drop the entry of AWS Glue and create it again if it does not fit the table.",
    supported=("false",),
    lacks=_GLUE_FEATURES,
    instead="drop the entry in AWS Glue, then sync again",
)
GLUE_DATABASE: Final[Option[str | None]] = Option(
    f"{_GLUE}database_name",
    text,
    None,
    "Database in AWS Glue, if it has another name than in Hive.",
    supported=(),
    lacks=_GLUE_FEATURES,
    instead=f"use {HIVE_SYNC_DATABASE.key} in a sync of its own",
)
GLUE_TABLE: Final[Option[str | None]] = Option(
    f"{_GLUE}table_name",
    text,
    None,
    "Table in AWS Glue, if it has another name than in Hive.",
    supported=(),
    lacks=_GLUE_FEATURES,
    instead=f"use {HIVE_SYNC_TABLE.key} in a sync of its own",
)
