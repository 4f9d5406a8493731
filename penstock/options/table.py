"""Options that are properties of a table: what `hoodie.properties` holds under the same key.

They are fixed when the table is made. Given on a later write, a value must equal the table's.
Names beginning with `STORED_` are those whose write option has another key.
"""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, boolean, count, filled, text, word, words
from penstock.options.write import payload_class

TABLE_NAME: Final[Option[str | None]] = Option(
    "hoodie.table.name",
    filled,
    None,
    "Name of the table. Required on every write; a later write must give the same one.",
)
DATABASE_NAME: Final = Option(
    "hoodie.database.name",
    word,
    "",
    "Database the table belongs to.",
)
POPULATE_META_FIELDS: Final = Option(
    "hoodie.populate.meta.fields",
    boolean,
    True,
    "Fill the five meta columns. Once off it stays off for the table, and incremental reads are impossible.",
)
DROP_PARTITION_COLUMNS: Final = Option(
    "hoodie.datasource.write.drop.partition.columns",
    boolean,
    False,
    "Leave partition columns out of the data files; readers take them from the path.",
)
PARTITION_METAFILE_USE_BASE_FORMAT: Final = Option(
    "hoodie.partition.metafile.use.base.format",
    boolean,
    False,
    "Write each partition's metadata file as Parquet in place of a properties file.",
    supported=("false",),
    instead="leave it out; every reader understands the properties file",
)
BASE_FILE_FORMAT: Final = Option(
    "hoodie.table.base.file.format",
    word,
    "PARQUET",
    "Format of base files.",
    aliases=("hoodie.table.ro.file.format",),
    allowed=("PARQUET", "ORC", "HFILE"),
    supported=("PARQUET",),
    instead="use PARQUET",
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
    "Write change logs so that changes can be read with both images.",
    supported=("false",),
    instead="compare two as.of.instant reads",
)
CDC_LOGGING_MODE: Final = Option(
    "hoodie.table.cdc.supplemental.logging.mode",
    word,
    "DATA_BEFORE_AFTER",
    "What a change log holds: keys, the image before, or both images.",
    allowed=("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"),
    waits_for="change data capture",
)
TIMELINE_TIMEZONE: Final = Option(
    "hoodie.table.timeline.timezone",
    word,
    "LOCAL",
    "Time zone of instant times: the writer's, or UTC.",
    allowed=("LOCAL", "UTC"),
)
ARCHIVE_FOLDER: Final = Option(
    "hoodie.archivelog.folder",
    filled,
    "archived",
    "Folder of the archived timeline, below `.hoodie`.",
    supported=("archived",),
    instead="leave it out; a table that has another folder keeps it",
    case_sensitive=True,
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
    "Version of the table's layout.",
    supported=("6",),
    instead="leave it out",
)
TIMELINE_LAYOUT_VERSION: Final = Option(
    "hoodie.timeline.layout.version",
    count,
    1,
    "Version of the timeline's layout.",
    supported=("1",),
    instead="leave it out",
)
STORED_RECORD_KEY_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.recordkey.fields",
    words,
    (),
    "Key columns of the table. A new table takes them from `hoodie.datasource.write.recordkey.field`.",
)
STORED_PARTITION_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.partition.fields",
    words,
    (),
    "Partition columns of the table. A new table takes them from `hoodie.datasource.write.partitionpath.field`.",
)
STORED_PRECOMBINE_FIELD: Final[Option[str | None]] = Option(
    "hoodie.table.precombine.field",
    word,
    None,
    "Ordering column of the table. A new table takes it from `hoodie.datasource.write.precombine.field`.",
)
STORED_KEY_GENERATOR_CLASS: Final[Option[str | None]] = Option(
    "hoodie.table.keygenerator.class",
    word,
    None,
    "Key generator of the table. A new table takes it from `hoodie.datasource.write.keygenerator.class`.",
)
STORED_PAYLOAD_CLASS: Final = Option(
    "hoodie.compaction.payload.class",
    payload_class,
    "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "Payload that merges log files; stored for merge-on-read tables only. "
    "A new table takes it from `hoodie.datasource.write.payload.class`.",
)
STORED_MERGER_STRATEGY: Final = Option(
    "hoodie.compaction.record.merger.strategy",
    word,
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "Merger strategy of a merge-on-read table.",
    supported=("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",),
    instead="leave it out; the payload class decides how rows meet",
)
CREATE_SCHEMA: Final[Option[str | None]] = Option(
    "hoodie.table.create.schema",
    text,
    None,
    "Avro schema stored by CREATE TABLE before the first commit.",
    supported=(),
    instead="leave it out; the schema is the DataFrame's",
)
TABLE_CHECKSUM: Final[Option[str | None]] = Option(
    "hoodie.table.checksum",
    word,
    None,
    "Checksum of database and table name.",
    supported=(),
    instead="leave it out; it is computed",
)
METADATA_PARTITIONS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.metadata.partitions",
    words,
    (),
    "Parts of the metadata table that readers may trust.",
    supported=("",),
    instead="leave it out; the engine keeps it",
)
METADATA_PARTITIONS_INFLIGHT: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.metadata.partitions.inflight",
    words,
    (),
    "Parts of the metadata table that are being built.",
    supported=("",),
    instead="leave it out; the engine keeps it",
)
SECONDARY_INDEXES: Final[Option[str | None]] = Option(
    "hoodie.table.secondary.indexes.metadata",
    text,
    None,
    "Definitions of secondary indexes.",
    supported=(),
    instead="leave it out",
)
BOOTSTRAP_BASE_PATH: Final[Option[str | None]] = Option(
    "hoodie.bootstrap.base.path",
    text,
    None,
    "Files that a bootstrapped table adopts without rewriting them.",
    supported=(),
    instead="read the files with Spark and write them with bulk_insert",
)
BOOTSTRAP_INDEX_ENABLE: Final = Option(
    "hoodie.bootstrap.index.enable",
    boolean,
    True,
    "Whether the table maps its files to adopted ones.",
    waits_for="bootstrapped tables",
)
BOOTSTRAP_INDEX_CLASS: Final = Option(
    "hoodie.bootstrap.index.class",
    word,
    "org.apache.hudi.common.bootstrap.index.hfile.HFileBootstrapIndex",
    "How that map is stored.",
    waits_for="bootstrapped tables",
)
ORDERING_FIELDS: Final[Option[tuple[str, ...]]] = Option(
    "hoodie.table.ordering.fields",
    words,
    (),
    "Hudi 1.1: ordering columns of a table of version 9.",
    supported=("",),
    instead="set hoodie.datasource.write.precombine.field",
)
STORED_KEY_GENERATOR_TYPE: Final[Option[str | None]] = Option(
    "hoodie.table.keygenerator.type",
    word,
    None,
    "Hudi 1.x: key generator of a table of version 8 or later.",
    supported=(),
    instead="set hoodie.datasource.write.keygenerator.type",
)
