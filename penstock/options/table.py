"""Options that `hoodie.properties` of a table stores under the same key.

They are fixed when the table is created. A later write may set them only to the values that the table has. For each constant
that begins with `STORED_` there is also a write option, with another key.
"""

from __future__ import annotations

from typing import Final

from penstock.options.features import CHANGE_DATA, ENGINE_PROPERTIES, JAVA_CLASSES, OTHER_VERSIONS
from penstock.options.option import Option, boolean, count, filled, text, word, words
from penstock.options.write import payload_class

TABLE_NAME: Final[Option[str | None]] = Option(
    "hoodie.table.name",
    filled,
    None,
    "Name of the table. Required on every write, and must be the same on every write.",
)
DATABASE_NAME: Final = Option(
    "hoodie.database.name",
    word,
    "",
    "Database of the table.",
)
POPULATE_META_FIELDS: Final = Option(
    "hoodie.populate.meta.fields",
    boolean,
    True,
    "Fill the five meta columns. Once false it stays false for the table, and incremental queries are not possible.",
)
DROP_PARTITION_COLUMNS: Final = Option(
    "hoodie.datasource.write.drop.partition.columns",
    boolean,
    False,
    "Leave the partition columns out of data files. Readers take their values from the path.",
)
PARTITION_METAFILE_USE_BASE_FORMAT: Final = Option(
    "hoodie.partition.metafile.use.base.format",
    boolean,
    False,
    "Write the metadata file of each partition as Parquet, instead of as a properties file.",
    supported=("false",),
    ignored="the metadata file of a partition is a properties file, which every reader of Hudi tables accepts",
)
BASE_FILE_FORMAT: Final = Option(
    "hoodie.table.base.file.format",
    word,
    "PARQUET",
    "Format of base files.",
    aliases=("hoodie.table.ro.file.format",),
    allowed=("PARQUET", "ORC", "HFILE"),
    supported=("PARQUET",),
    lacks="base files of other formats than Parquet",
)
LOG_FILE_FORMAT: Final = Option(
    "hoodie.table.log.file.format",
    word,
    "HOODIE_LOG",
    "Format of log files.",
    aliases=("hoodie.table.rt.file.format",),
    allowed=("HOODIE_LOG",),
)
CDC_ENABLED: Final = Option(
    "hoodie.table.cdc.enabled",
    boolean,
    False,
    "Write change logs, so that change-data queries can return rows before and after each change.",
    supported=("false",),
    lacks=CHANGE_DATA,
    instead="leave it out and compare two reads with as.of.instant",
)
CDC_LOGGING_MODE: Final = Option(
    "hoodie.table.cdc.supplemental.logging.mode",
    word,
    "DATA_BEFORE_AFTER",
    "What a change log stores: the keys, the row before the change, or the rows before and after.",
    allowed=("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"),
    waits_for=CHANGE_DATA,
)
TIMELINE_TIMEZONE: Final = Option(
    "hoodie.table.timeline.timezone",
    word,
    "LOCAL",
    "Time zone of instant times: that of the writer's machine, or UTC.",
    allowed=("LOCAL", "UTC"),
)
ARCHIVE_FOLDER: Final = Option(
    "hoodie.archivelog.folder",
    filled,
    "archived",
    "Folder of the archived timeline, below `.hoodie`.",
    supported=("archived",),
    case_sensitive=True,
    lacks=ENGINE_PROPERTIES,
    instead="leave it out, a table that has another folder keeps it",
)
STORED_TABLE_TYPE: Final = Option(
    "hoodie.table.type",
    word,
    "COPY_ON_WRITE",
    "Type of the table. A new table takes it from `hoodie.datasource.write.table.type`.",
    allowed=("COPY_ON_WRITE", "MERGE_ON_READ"),
)
STORED_TABLE_VERSION: Final = Option(
    "hoodie.table.version",
    count,
    6,
    "Version of the table format.",
    supported=("6",),
    lacks=OTHER_VERSIONS,
    instead="leave it out to write version 6, which Hudi 0.14 to 1.x read",
)
TIMELINE_LAYOUT_VERSION: Final = Option(
    "hoodie.timeline.layout.version",
    count,
    1,
    "Version of the timeline format.",
    supported=("1",),
    lacks=OTHER_VERSIONS,
    instead="leave it out",
)
STORED_RECORD_KEY_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.recordkey.fields",
    words,
    (),
    "Columns of the record key. A new table takes them from `hoodie.datasource.write.recordkey.field`.",
)
STORED_PARTITION_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.partition.fields",
    words,
    (),
    "Partition columns. A new table takes them from `hoodie.datasource.write.partitionpath.field`.",
)
STORED_PRECOMBINE_FIELD: Final[Option[str | None]] = Option(
    "hoodie.table.precombine.field",
    word,
    None,
    "Ordering column. A new table takes it from `hoodie.datasource.write.precombine.field`.",
)
STORED_KEY_GENERATOR_CLASS: Final[Option[str | None]] = Option(
    "hoodie.table.keygenerator.class",
    word,
    None,
    "Key generator. A new table takes it from `hoodie.datasource.write.keygenerator.class`.",
)
STORED_PAYLOAD_CLASS: Final = Option(
    "hoodie.compaction.payload.class",
    payload_class,
    "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "Payload class that merges log files. Stored for merge-on-read tables only. A new table takes it from "
    "`hoodie.datasource.write.payload.class`.",
)
STORED_MERGER_STRATEGY: Final = Option(
    "hoodie.compaction.record.merger.strategy",
    word,
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "Id of the merge strategy of a merge-on-read table.",
    supported=("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",),
    lacks=JAVA_CLASSES,
    instead="leave it out and choose a payload class",
)
CREATE_SCHEMA: Final[Option[str | None]] = Option(
    "hoodie.table.create.schema",
    text,
    None,
    "Avro schema that CREATE TABLE stores before the first commit.",
    supported=(),
    lacks=ENGINE_PROPERTIES,
    instead="leave it out, the schema is the DataFrame's",
)
TABLE_CHECKSUM: Final[Option[str | None]] = Option(
    "hoodie.table.checksum",
    word,
    None,
    "Checksum of the database and table name.",
    supported=(),
    ignored="the checksum is computed from the names of database and table, as in Hudi",
)
METADATA_PARTITIONS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.metadata.partitions",
    words,
    (),
    "Partitions of the metadata table that are complete and that readers may use.",
    supported=("",),
    lacks=ENGINE_PROPERTIES,
    instead="leave it out",
)
METADATA_PARTITIONS_INFLIGHT: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.metadata.partitions.inflight",
    words,
    (),
    "Partitions of the metadata table that are being built.",
    supported=("",),
    lacks=ENGINE_PROPERTIES,
    instead="leave it out",
)
SECONDARY_INDEXES: Final[Option[str | None]] = Option(
    "hoodie.table.secondary.indexes.metadata",
    text,
    None,
    "Definitions of secondary indexes.",
    supported=(),
    lacks="secondary indexes",
    instead="leave it out",
)
BOOTSTRAP_BASE_PATH: Final[Option[str | None]] = Option(
    "hoodie.bootstrap.base.path",
    text,
    None,
    "Path of the files that a bootstrapped table uses without rewriting them.",
    supported=(),
    refused_if=(("hoodie.datasource.write.operation", "bootstrap"),),
    lacks="bootstrapped tables",
    instead="leave it out, read the files with Spark and write them with bulk_insert",
)
BOOTSTRAP_INDEX_ENABLE: Final = Option(
    "hoodie.bootstrap.index.enable",
    boolean,
    True,
    "Whether a bootstrapped table maps its files to the original files.",
    waits_for="bootstrapped tables",
)
BOOTSTRAP_INDEX_CLASS: Final = Option(
    "hoodie.bootstrap.index.class",
    word,
    "org.apache.hudi.common.bootstrap.index.hfile.HFileBootstrapIndex",
    "Class that stores the map from files of a bootstrapped table to the original files.",
    waits_for="bootstrapped tables",
)
ORDERING_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.ordering.fields",
    words,
    (),
    "Hudi 1.1: ordering columns of a table of version 9.",
    supported=("",),
    lacks=OTHER_VERSIONS,
    instead="set hoodie.datasource.write.precombine.field",
)
STORED_KEY_GENERATOR_TYPE: Final[Option[str | None]] = Option(
    "hoodie.table.keygenerator.type",
    word,
    None,
    "Hudi 1.x: key generator of a table of version 8 or later.",
    supported=(),
    lacks=OTHER_VERSIONS,
    instead="set hoodie.datasource.write.keygenerator.type",
)
